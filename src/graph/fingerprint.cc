#include "graph/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/asset_file.h"
#include "graph/unread_file.h"
#include "millrace/attr.h"
#include "xxhash.h"

namespace millrace {
namespace {

// Cuts what is hashed into pieces, which go to `Sink`::Bytes.
template <typename Sink>
class Pieces {
 public:
  explicit Pieces(Sink& sink) : sink_(sink) {}

  void Bytes(const void* data, size_t size) { sink_.Bytes(data, size); }
  void Text(std::string_view text) { Bytes(text.data(), text.size()); }
  void Number(int64_t value) { Bytes(&value, sizeof(value)); }

  void Attributes(const AttrMap& attrs) {
    const bool is_asset = attrs.Has(kAssetFile);
    const auto counts = [&](const AttrMap::Entry& attr) { return attr.first != kWhyUnread && !(is_asset && attr.first == "value"); };
    Number(std::count_if(attrs.begin(), attrs.end(), counts));
    for (const AttrMap::Entry& attr : attrs) {
      if (counts(attr)) Attribute(attr);
    }
  }
  void Attribute(const AttrMap::Entry& attr) {
    Text(attr.first);
    Number(static_cast<int64_t>(attr.second.index()));
    std::visit([this](const auto& held) { Value(held); }, attr.second);
  }
  void Type(const TensorType& type) {
    Number(static_cast<int64_t>(type.dtype));
    Number(type.shape.fully_known() ? type.shape.rank() : -1);
    if (!type.shape.fully_known()) return Text(type.shape.ToString());
    for (const int64_t dim : type.shape.dims()) Number(dim);
  }
  void Values(const std::vector<Tensor>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].empty()) continue;
      Number(static_cast<int64_t>(i));
      Value(values[i]);
    }
  }

 private:
  void Value(std::monostate) {}
  void Value(const std::string& value) { Text(value); }
  void Value(const Shape& value) { Text(value.ToString()); }
  void Value(const AttrParameter& value) { Text(value.name); }
  void Value(const FunctionRef& value) {
    Text(value.name);
    if (value.attrs != nullptr) Attributes(*value.attrs);
  }
  void Value(const Tensor& value) {
    Text(value.type().ToString());
    if (value.dtype() == DataType::kString) {
      for (const std::string& text : value.strings()) Text(text);
    } else if (!value.empty()) {
      Bytes(value.data(), static_cast<size_t>(value.size_bytes()));
    }
  }
  template <typename T>
  void Value(const T& value) {
    if constexpr (kIsAttrList<T>) {
      Number(static_cast<int64_t>(value.size()));
      for (const auto& element : value) Value(static_cast<const typename T::value_type&>(element));
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      Bytes(&value, sizeof(value));
    }
  }

  Sink& sink_;
};

// A chain: each piece is hashed with what came before as its seed.
struct Chain {
  uint64_t digest = 0;
  void Bytes(const void* data, size_t size) { digest = XXH3_64bits_withSeed(data, size, digest); }
};

// Pieces, to be hashed again and again.
struct Recorded {
  std::string bytes;
  std::vector<uint32_t> sizes;
  void Bytes(const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    sizes.push_back(static_cast<uint32_t>(size));
  }
  void Replay(Chain& chain) const {
    size_t at = 0;
    for (const uint32_t size : sizes) {
      chain.Bytes(bytes.data() + at, size);
      at += size;
    }
  }
};

class Hasher : public Pieces<Chain> {
 public:
  Hasher() : Pieces<Chain>(chain_) {}
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  uint64_t digest() const { return chain_.digest; }

  // Nodes of an unrolled network share a few maps of attributes.
  void SharedAttributes(const AttrMap& attrs) {
    constexpr size_t kMostMaps = 4096;
    if (attrs.empty()) return Attributes(attrs);
    const void* const entries = &*attrs.begin();
    const auto known = recorded_.find(entries);
    if (known != recorded_.end()) return known->second.Replay(chain_);
    if (recorded_.size() == kMostMaps || HoldTensors(attrs)) return Attributes(attrs);
    Recorded& recorded = recorded_[entries];
    Pieces<Recorded>(recorded).Attributes(attrs);
    recorded.Replay(chain_);
  }

 private:
  static bool HoldTensors(const AttrMap& attrs) {
    return std::any_of(attrs.begin(), attrs.end(), [](const AttrMap::Entry& attr) {
      return std::holds_alternative<Tensor>(attr.second) || std::holds_alternative<std::vector<Tensor>>(attr.second);
    });
  }

  Chain chain_;
  std::unordered_map<const void*, Recorded> recorded_;  // by where a map's entries are
};

void AddNodes(const Graph& graph, Hasher& hasher) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    hasher.Text(node.name);
    hasher.Text(node.op);
    hasher.Text(node.requested_device);
    hasher.Number(static_cast<int64_t>(node.inputs.size()));
    for (const OutputRef& input : node.inputs) hasher.Number((int64_t{input.node.value} << 32) + input.index);
    for (const NodeId input : node.control_inputs) hasher.Number(input.value);
    hasher.SharedAttributes(node.attrs);
  }
}

}  // namespace

uint64_t Fingerprint(const Graph& graph) {
  Hasher hasher;
  AddNodes(graph, hasher);
  uint64_t functions = 0;  // their sum: a library has no order
  if (graph.library() != nullptr) {
    for (const auto& [name, function] : *graph.library()) {
      Hasher body;
      body.Text(name);
      for (const std::string& result : function.control_rets) body.Text(result);
      body.Attributes(function.attrs);
      if (function.body != nullptr) AddNodes(*function.body, body);
      functions += body.digest();
    }
  }
  hasher.Number(static_cast<int64_t>(functions));
  return hasher.digest() == 0 ? 1 : hasher.digest();
}

uint64_t Fingerprint(const OpInstance& instance, absl::Span<const std::string_view> left_out) {
  Hasher hasher;
  hasher.Text(instance.op);
  for (const AttrMap::Entry& attr : instance.attrs) {
    if (std::find(left_out.begin(), left_out.end(), attr.first) == left_out.end()) hasher.Attribute(attr);
  }
  for (const auto* types : {&instance.inputs, &instance.outputs}) {
    hasher.Number(static_cast<int64_t>(types->size()));
    for (const TensorType& type : *types) hasher.Type(type);
  }
  hasher.Values(instance.input_values);
  return hasher.digest();
}

uint64_t Fingerprint(const Tensor& tensor) {
  Hasher hasher;
  hasher.Values({tensor});
  return hasher.digest();
}

}  // namespace millrace
