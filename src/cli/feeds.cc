#include "cli/feeds.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/exit_status.h"
#include "glog/logging.h"
#include "graph/float16.h"
#include "graph/float8.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/rewrite/prune.h"

namespace millrace::cli {
namespace {

bool IsPlaceholder(const Node& node) { return node.op == "Placeholder" || node.op == "PlaceholderV2"; }
bool IsIterator(const Node& node) {
  return node.op == "IteratorGetNext" || IsNextAsOptional(node) || node.op == "IteratorGetNextSync" || node.op == "MultiDeviceIteratorGetNextFromShard";
}
bool IsDequeue(const Node& node) { return absl::StartsWith(node.op, "QueueDequeue"); }

// Of what hands over elements: the attribute with their types; null of other nodes. A staging area says nothing of their shapes.
const char* AttrOfTypes(const Node& node) {
  if (IsIterator(node)) return "output_types";
  if (IsDequeue(node)) return "component_types";
  return node.op == "Unstage" ? "dtypes" : nullptr;
}

// Placeholders, and where a TensorFlow input pipeline hands its elements over.
int64_t NumFedOutputs(const Node& node) {
  if (IsPlaceholder(node)) return 1;
  const char* const attr = AttrOfTypes(node);
  return attr == nullptr ? 0 : static_cast<int64_t>(node.attrs.GetOr<std::vector<DataType>>(attr, {}).size());
}

// What the graph says of such a tensor.
TensorType TypeInGraph(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  if (IsPlaceholder(node)) return {node.attrs.GetOr("dtype", DataType::kInvalid), node.attrs.GetOr("shape", Shape::UnknownRank())};
  const Node& from = IsIterator(node) || node.inputs.empty() ? node : graph.node(node.inputs[0].node);
  const auto types = node.attrs.GetOr<std::vector<DataType>>(AttrOfTypes(node), {});
  const auto shapes = from.attrs.GetOr<std::vector<Shape>>(IsIterator(node) ? "output_shapes" : "shapes", {});
  TensorType type{types[ref.index], ref.index < static_cast<int64_t>(shapes.size()) ? shapes[ref.index] : Shape::UnknownRank()};
  const bool many = absl::StrContains(node.op, "Many") || absl::StrContains(node.op, "UpTo");
  if (!many || type.shape.unknown_rank() || node.inputs.size() < 2) return type;
  const Tensor count = graph.node(node.inputs[1].node).attrs.GetOr<Tensor>("value", Tensor());
  Shape batch({count.empty() ? -1 : count.IntAt(0)});
  for (const int64_t dim : type.shape.dims()) batch.AddDim(dim);
  type.shape = batch;
  return type;
}

// "x", "it:1": how feeds name output 0 and others.
std::string FeedName(const Graph& graph, OutputRef ref) {
  const std::string& name = graph.node(ref.node).name;
  return ref.index == 0 ? name : absl::StrCat(name, ":", ref.index);
}

// Tensors that come from outside the graph, by id and output, which a run of `fetches` and `targets` reaches; the way goes no further, nor
// behind what is given.
absl::StatusOr<std::set<OutputRef>> Reached(const Graph& graph, const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                                            const Session::FeedTypes& given) {
  std::vector<NodeId> stack;
  std::set<OutputRef> reached;
  std::vector<bool> seen(graph.num_ids(), false);
  const auto enter = [&](NodeId id) {
    if (!seen[id.value]) stack.push_back(id);
    seen[id.value] = true;
  };
  std::set<OutputRef> fed;
  for (const auto& [name, type] : given) {
    const absl::StatusOr<OutputRef> ref = graph.FindTensor(name);
    if (ref.ok()) fed.insert(*ref);
  }
  const auto is_given = [&](OutputRef ref) { return fed.count(ref) > 0; };
  const auto take = [&](OutputRef ref) {
    const int64_t parts = IsNextAsOptional(graph.node(ref.node)) ? NumFedOutputs(graph.node(ref.node)) : 0;
    for (int32_t i = 0; i < parts; ++i) {
      if (!is_given({ref.node, i})) reached.insert({ref.node, i});
    }
    if (parts > 0 || is_given(ref)) return;
    if (NumFedOutputs(graph.node(ref.node)) > ref.index) {
      reached.insert(ref);
    } else {
      enter(ref.node);
    }
  };
  for (const auto* names : {&fetches, &targets}) {
    for (const std::string& name : *names) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
      take(ref);
    }
  }
  while (!stack.empty()) {
    const Node& node = graph.node(stack.back());
    stack.pop_back();
    for (const OutputRef input : node.inputs) take(input);
    for (const NodeId control : node.control_inputs) {
      if (RunsThoughFed(graph.node(control))) {
        enter(control);
      } else {
        take({control, 0});
      }
    }
  }
  return reached;
}

// Shapes that make nothing: of what a file gives, which must have that shape then, and of what is not needed.
absl::Status WarnOfUselessShapes(const Graph& graph, const std::map<std::string, Shape>& shapes, const Session::FeedTypes& given,
                                 const std::set<OutputRef>& reached) {
  for (const auto& [name, shape] : shapes) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, graph.FindTensor(name));
    if (reached.count(ref) > 0) continue;
    const auto by_name = given.find(name), fed = by_name != given.end() ? by_name : given.find(graph.TensorName(ref));
    if (fed == given.end()) {
      LOG(WARNING) << "--feed_shapes has no effect on " << name << ": the step does not need it";
    } else if (fed->second.shape == shape) {
      LOG(WARNING) << "--feed_shapes has no effect on " << name << ": --feeds gives it";
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--feed_shapes: ", name, " is ", fed->second.ToString(), " in the file of --feeds, expected ", shape.ToString()));
    }
  }
  return absl::OkStatus();
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
    case DataType::kFloat8E5M2:
      return Fill<uint8_t>(tensor, state, [&](uint64_t bits) { return ToFloat8<E5M2>(unit(bits)); });
    case DataType::kFloat8E4M3fn:
      return Fill<uint8_t>(tensor, state, [&](uint64_t bits) { return ToFloat8<E4M3fn>(unit(bits)); });
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

TensorType DeclaredFeedType(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  if (ref.index < NumFedOutputs(node)) return TypeInGraph(graph, ref);
  if (node.op != "PlaceholderWithDefault") return {DataType::kInvalid, Shape::UnknownRank()};
  return {node.attrs.GetOr("dtype", DataType::kInvalid), node.attrs.GetOr("shape", Shape::UnknownRank())};
}

absl::StatusOr<std::map<std::string, Shape>> ParseFeedShapes(const std::string& text) {
  std::map<std::string, Shape> shapes;
  for (const auto item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const size_t colon = item.rfind(':');  // an output's number has one before it
    const std::string name(item.substr(0, colon)), dims(colon == item.npos ? "" : item.substr(colon + 1));
    Shape shape;
    bool ok = !name.empty() && colon != item.npos;
    // Nothing behind the colon is a scalar.
    const std::vector<absl::string_view> texts = absl::StrSplit(dims, 'x');
    for (const auto dim_text : dims.empty() ? std::vector<absl::string_view>() : texts) {
      int64_t dim = 0;
      ok = ok && absl::SimpleAtoi(dim_text, &dim) && dim >= 0;
      shape.AddDim(dim);
    }
    if (!ok) {
      return UsageError(absl::StrCat("--feed_shapes: \"", item, "\": expected NAME:DIMxDIM..., like images:8x224x224x3"));
    }
    if (!shapes.emplace(name, shape).second) {
      return UsageError(absl::StrCat("--feed_shapes: the shape of ", name, " is given twice"));
    }
  }
  return shapes;
}

absl::StatusOr<Session::FeedTypes> SyntheticFeedTypes(const Graph& graph, const std::vector<std::string>& fetches,
                                                      const std::vector<std::string>& targets,
                                                      const std::map<std::string, Shape>& shapes,
                                                      const Session::FeedTypes& given, const std::map<std::string, std::string>& keys) {
  for (const auto& [name, shape] : shapes) {
    const absl::StatusOr<OutputRef> ref = graph.FindTensor(name);
    if (!ref.ok() || FeedName(graph, *ref) != name || NumFedOutputs(graph.node(ref->node)) <= ref->index) {
      return absl::NotFoundError(absl::StrCat("--feed_shapes: ", name, ": the graph has no placeholder and no iterator of that name"));
    }
  }
  MR_ASSIGN_OR_RETURN(const std::set<OutputRef> reached, Reached(graph, fetches, targets, given));
  MR_RETURN_IF_ERROR(WarnOfUselessShapes(graph, shapes, given, reached));
  Session::FeedTypes types;
  std::vector<std::string> unknown;
  for (const OutputRef ref : reached) {
    const std::string name = FeedName(graph, ref);
    TensorType type = TypeInGraph(graph, ref);
    if (const auto shape = shapes.find(name); shape != shapes.end()) type.shape = shape->second;
    const auto key = keys.find(name);
    if (!type.shape.fully_known()) unknown.push_back(absl::StrCat(key == keys.end() ? name : key->second, " ", type.ToString()));
    types[name] = type;
  }
  if (!unknown.empty()) {
    return UsageError(absl::StrCat("inputs without a known shape: ", absl::StrJoin(unknown, ", "), "; give it with --feed_shapes=NAME:DIMxDIM..."));
  }
  return types;
}

absl::StatusOr<Session::FeedTypes> UnfedInputs(const Graph& graph, const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets, const Session::FeedTypes& given) {
  MR_ASSIGN_OR_RETURN(const std::set<OutputRef> reached, Reached(graph, fetches, targets, given));
  Session::FeedTypes unfed;
  for (const OutputRef ref : reached) {
    const Node& node = graph.node(ref.node);
    if (IsPlaceholder(node) || IsIterator(node)) unfed[FeedName(graph, ref)] = TypeInGraph(graph, ref);
  }
  return unfed;
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
