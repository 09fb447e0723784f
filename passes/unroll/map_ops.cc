// The ops of TensorMaps. A map is a list in which a key and its value alternate, in the order in which the keys came; what the keys are is
// known when planning, so that a value that is looked up is an edge.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/unroll/lists.h"

namespace millrace {
namespace {

constexpr int64_t kPair = 2;
constexpr int64_t kNowhere = -1;

ListValue NoPairs() {
  ListValue map;
  map.is_map = true;
  map.dtype = DataType::kVariant;
  return map;
}

// Keys are constants of the graph that is made.
int64_t Find(const StraightGraph& out, const ListValue& map, const Tensor& key) {
  for (int64_t i = 0; i < map.items.size(); i += kPair) {
    const Tensor* const there = out.Known(map.items.at(i).ref);
    if (there != nullptr && there->BitEqual(key)) return i;
  }
  return kNowhere;
}

void Erase(ListValue& map, int64_t at) {
  for (int64_t i = at; i + kPair < map.items.size(); ++i) map.items.Set(i, map.items.at(i + kPair));
  map.items.Resize(map.items.size() - kPair);
}

void Put(ListValue& map, int64_t at, const Value& key, Value value) {
  if (at == kNowhere) {
    at = map.items.size();
    map.items.PushBack(key);
    map.items.PushBack(Value());
  }
  map.items.Set(at + 1, std::move(value));
}

class MapCall {
 public:
  MapCall(StraightGraph& out, const NodeCall& call) : out_(out), call_(call), op_(call.node.op) {}

  absl::StatusOr<std::vector<Value>> Run() {
    if (op_ == "EmptyTensorMap") return std::vector<Value>{ListOf(NoPairs())};
    MR_RETURN_IF_ERROR(TakeMap());
    if (op_ == "TensorMapSize") return Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(map_.items.size() / kPair)));
    if (op_ == "TensorMapStackKeys") return StackKeys();
    MR_RETURN_IF_ERROR(TakeKey());
    if (op_ == "TensorMapHasKey") return Constant(Tensor::Scalar<bool>(at_ != kNowhere));
    if (op_ == "TensorMapInsert") {
      Put(map_, at_, key_, call_.inputs[2]);
      return std::vector<Value>{ListOf(std::move(map_))};
    }
    if (at_ == kNowhere) return CallError(call_, op_ == "TensorMapErase" ? "Trying to erase non-existent item." : "Trying to lookup non-existent key.");
    if (op_ == "TensorMapLookup") return std::vector<Value>{map_.items.at(at_ + 1)};
    if (op_ != "TensorMapErase") {
      return absl::UnimplementedError(absl::StrCat("node '", call_.node.name, "' (", op_, "): this op of maps is not supported"));
    }
    Erase(map_, at_);
    return std::vector<Value>{ListOf(std::move(map_))};
  }

 private:
  absl::Status TakeMap() {
    const bool is_map = !call_.inputs.empty() && call_.inputs[0].kind == Value::Kind::kList && call_.inputs[0].list->is_map;
    if (!is_map) return CallError(call_, "takes something that is no map");
    map_ = *call_.inputs[0].list;
    return absl::OkStatus();
  }

  absl::Status TakeKey() {
    const size_t inputs = op_ == "TensorMapInsert" ? 3 : 2;
    if (call_.inputs.size() != inputs) return CallError(call_, absl::StrCat("has ", call_.inputs.size(), " inputs, expected ", inputs));
    MR_ASSIGN_OR_RETURN(const Tensor key, KnownTensor(out_, call_, 1, "the key"));
    at_ = Find(out_, map_, key);
    if (op_ != "TensorMapInsert" || at_ != kNowhere) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(const OutputRef ref, out_.Constant(key));
    key_ = Value::Of(ref);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> StackKeys() {
    if (map_.items.size() == 0) return CallError(call_, "TensorMapStackKeys called on empty map.");
    std::vector<Value> keys;
    for (int64_t i = 0; i < map_.items.size(); i += kPair) keys.push_back(map_.items.at(i));
    const DataType dtype = call_.node.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid);
    MR_ASSIGN_OR_RETURN(const OutputRef stacked, PackItems(out_, call_, std::move(keys), dtype, Shape::UnknownRank()));
    return std::vector<Value>{Value::Of(stacked)};
  }

  absl::StatusOr<std::vector<Value>> Constant(const Tensor& value) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, out_.Constant(value));
    return std::vector<Value>{Value::Of(ref)};
  }

  StraightGraph& out_;
  const NodeCall& call_;
  const std::string& op_;
  ListValue map_;
  Value key_;
  int64_t at_ = kNowhere;
};

}  // namespace

absl::StatusOr<std::vector<Value>> RunMapOp(StraightGraph& out, const NodeCall& call) { return MapCall(out, call).Run(); }

absl::StatusOr<ListValue> AddMaps(StraightGraph& out, const NodeCall& call, const ListValue& a, const ListValue& b) {
  if (!a.is_map || !b.is_map) return CallError(call, "adds a map to something that is none");
  ListValue sum = a;
  for (int64_t i = 0; i < b.items.size(); i += kPair) {
    const Tensor* const key = out.Known(b.items.at(i).ref);
    const int64_t at = key == nullptr ? kNowhere : Find(out, sum, *key);
    Value value = b.items.at(i + 1);
    if (at != kNowhere) {
      MR_ASSIGN_OR_RETURN(value, AddItems(out, call, sum.items.at(at + 1), value));
    }
    Put(sum, at, b.items.at(i), std::move(value));
  }
  return sum;
}

bool HaveSameKeys(const StraightGraph& out, const ListValue& a, const ListValue& b) {
  for (int64_t i = 0; i < a.items.size(); i += kPair) {
    const Tensor *const key = out.Known(a.items.at(i).ref), *const other = out.Known(b.items.at(i).ref);
    if (key == nullptr || other == nullptr || !key->BitEqual(*other)) return false;
  }
  return true;
}

bool IsKey(const ListValue& list, int64_t item) { return list.is_map && item % kPair == 0; }

}  // namespace millrace
