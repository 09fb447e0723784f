#include "cli/feeds.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/exit_status.h"
#include "graph/float16.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

// Nodes that a run of `fetches` and `targets` reaches, by id.
absl::StatusOr<std::vector<bool>> Needed(const Graph& graph, const std::vector<std::string>& fetches,
                                         const std::vector<std::string>& targets) {
  std::vector<NodeId> stack;
  for (const auto* names : {&fetches, &targets}) {
    for (const std::string& name : *names) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
      stack.push_back(ref.node);
    }
  }
  std::vector<bool> needed(graph.num_ids(), false);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (needed[id.value]) continue;
    needed[id.value] = true;
    for (const OutputRef input : graph.node(id).inputs) stack.push_back(input.node);
    for (const NodeId control : graph.node(id).control_inputs) stack.push_back(control);
  }
  return needed;
}

// splitmix64: each call a new, well mixed number.
uint64_t NextRandom(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

template <typename T, typename Make>
void Fill(Tensor& tensor, uint64_t state, Make make) {
  T* data = static_cast<T*>(tensor.mutable_data());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) data[i] = make(NextRandom(state));
}

template <typename T>
void FillBits(Tensor& tensor, uint64_t state) {
  Fill<T>(tensor, state, [](uint64_t bits) { return static_cast<T>(bits >> 63); });
}

void FillSynthetic(Tensor& tensor, uint64_t state) {
  // 24 bits, so that a float holds every value exactly.
  const auto unit = [](uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f; };
  switch (tensor.dtype()) {
    case DataType::kFloat: return Fill<float>(tensor, state, unit);
    case DataType::kDouble: return Fill<double>(tensor, state, unit);
    case DataType::kHalf:
      return Fill<uint16_t>(tensor, state, [&](uint64_t bits) { return FloatToHalf(unit(bits)); });
    case DataType::kBfloat16:
      return Fill<uint16_t>(tensor, state, [&](uint64_t bits) { return FloatToBfloat16(unit(bits)); });
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool: return FillBits<uint8_t>(tensor, state);
    case DataType::kInt16:
    case DataType::kUint16: return FillBits<uint16_t>(tensor, state);
    case DataType::kInt32:
    case DataType::kUint32: return FillBits<uint32_t>(tensor, state);
    case DataType::kInt64:
    case DataType::kUint64: return FillBits<uint64_t>(tensor, state);
    default: return;
  }
}

}  // namespace

absl::StatusOr<std::map<std::string, Shape>> ParseFeedShapes(const std::string& text) {
  std::map<std::string, Shape> shapes;
  for (const auto item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits(':', 1));
    const auto& [name, dims] = parts;
    Shape shape;
    bool ok = !name.empty() && item.find(':') != item.npos;
    // Nothing behind the colon is a scalar.
    const std::vector<absl::string_view> texts = absl::StrSplit(dims, 'x');
    for (const auto dim_text : dims.empty() ? std::vector<absl::string_view>() : texts) {
      int64_t dim = 0;
      ok = ok && absl::SimpleAtoi(dim_text, &dim) && dim >= 0;
      shape.AddDim(dim);
    }
    if (!ok) {
      return UsageError(absl::StrCat("feed shape \"", item, "\": expected NAME:DIMxDIM..., like images:8x224x224x3"));
    }
    if (!shapes.emplace(name, shape).second) {
      return UsageError(absl::StrCat("feed shape of ", name, " is given twice"));
    }
  }
  return shapes;
}

absl::StatusOr<Session::FeedTypes> SyntheticFeedTypes(const Graph& graph, const std::vector<std::string>& fetches,
                                                      const std::vector<std::string>& targets,
                                                      const std::map<std::string, Shape>& shapes,
                                                      const Session::FeedTypes& given) {
  for (const auto& [name, shape] : shapes) {
    const NodeId id = graph.Find(name);
    if (!id.valid() || graph.node(id).op != "Placeholder") {
      return absl::NotFoundError(absl::StrCat("feed shape of ", name, ": the graph has no placeholder of that name"));
    }
  }
  MR_ASSIGN_OR_RETURN(const std::vector<bool> needed, Needed(graph, fetches, targets));
  Session::FeedTypes types;
  std::vector<std::string> unknown;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !needed[i] || node.op != "Placeholder") continue;
    if (given.count(node.name) || given.count(node.name + ":0")) continue;
    const auto shape = shapes.find(node.name);
    const TensorType type{node.attrs.GetOr("dtype", DataType::kInvalid),
                          shape != shapes.end() ? shape->second : node.attrs.GetOr("shape", Shape::UnknownRank())};
    if (!type.shape.fully_known()) unknown.push_back(absl::StrCat(node.name, " ", type.ToString()));
    types[node.name] = type;
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("placeholders without a known shape: ", absl::StrJoin(unknown, ", "),
                     "; give it with --feed_shapes=NAME:DIMxDIM..."));
  }
  return types;
}

absl::StatusOr<Session::Feeds> SyntheticFeeds(const Session::FeedTypes& types, uint64_t seed) {
  const double memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  Session::Feeds feeds;
  double total_bytes = 0;
  uint64_t state = seed;
  for (const auto& [name, type] : types) {
    const int64_t of_string = type.dtype == DataType::kString ? sizeof(std::string) : 1;
    double bytes = static_cast<double>(std::max<int64_t>(DataTypeSize(type.dtype), of_string));
    for (const int64_t dim : type.shape.dims()) bytes *= static_cast<double>(dim);
    total_bytes += bytes;
    if (total_bytes > memory_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("synthetic feed ", name, " ", type.ToString(), " is larger than this machine's memory"));
    }
    Tensor tensor(type.dtype, type.shape);
    FillSynthetic(tensor, NextRandom(state));
    feeds.emplace(name, std::move(tensor));
  }
  return feeds;
}

Session::FeedTypes TypesOf(const Session::Feeds& feeds) {
  Session::FeedTypes types;
  for (const auto& [name, tensor] : feeds) types[name] = tensor.type();
  return types;
}

}  // namespace millrace::cli
