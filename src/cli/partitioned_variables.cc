#include "cli/partitioned_variables.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"

namespace millrace::cli {
namespace {

NodeId Source(const Graph& graph, OutputRef ref) {
  for (const Node* node = &graph.node(ref.node); (node->op == "Identity" || node->op == "ReadVariableOp") && node->inputs.size() == 1;
       node = &graph.node(ref.node)) {
    ref = node->inputs[0];
  }
  return ref.node;
}

// What savers save of each variable: a slice, or nothing for all of it.
std::map<std::string, std::optional<VariablePart>> Saved(const Graph& graph) {
  std::map<std::string, std::optional<VariablePart>> saved;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& save = graph.node(NodeId{i});
    if (save.removed || save.op != "SaveV2" || save.inputs.size() < 3) continue;
    const Tensor keys = StringsAt(graph, save.inputs[1]), slices = StringsAt(graph, save.inputs[2]);
    const int64_t count = static_cast<int64_t>(save.inputs.size()) - 3;
    if (keys.empty() || slices.empty() || keys.num_elements() != count || slices.num_elements() != count) continue;
    for (int64_t k = 0; k < count; ++k) {
      const Node& variable = graph.node(Source(graph, save.inputs[3 + k]));
      if (!IsVariable(variable)) continue;
      std::optional<VariablePart>& part = saved[VariableName(variable)];
      if (std::optional<TensorSlice> slice = SliceFromText(slices.strings()[k])) part = VariablePart{keys.strings()[k], *std::move(slice)};
    }
  }
  return saved;
}

// WHOLE/part_2/Adam: "WHOLE", 2 and "/Adam".
struct PartName {
  std::string whole;
  int64_t part = 0;
  std::string slot;
};

std::optional<PartName> SplitName(const std::string& name) {
  constexpr std::string_view kPart = "/part_";
  const size_t at = name.rfind(kPart);
  if (at == std::string::npos || at == 0) return std::nullopt;
  const size_t digits = at + kPart.size();
  const size_t end = std::min(name.find('/', digits), name.size());
  PartName split{name.substr(0, at), 0, name.substr(end)};
  const std::string number = name.substr(digits, end - digits);
  if (!absl::SimpleAtoi(number, &split.part) || absl::StrCat(split.part) != number) return std::nullopt;
  return split;
}

using Parts = std::map<int64_t, const Node*>;  // by their numbers

// The slices that parts 0, 1, … are, along the dimension in which they differ, or the first one; nothing where they are none.
std::vector<TensorSlice> SlicesOf(const Parts& parts) {
  std::vector<TensorSlice> slices;
  int axis = -1;
  for (const auto& [number, node] : parts) {
    const Shape shape = node->attrs.GetOr<Shape>("shape", Shape::UnknownRank());
    if (number != static_cast<int64_t>(slices.size()) || !shape.fully_known() || shape.rank() < 1) return {};
    slices.push_back({shape, Shape::Dims(shape.rank(), 0), shape});
    const Shape& first = slices[0].shape;
    if (shape.rank() != first.rank()) return {};
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) == first.dim(d)) continue;
      if (axis >= 0 && axis != d) return {};
      axis = d;
    }
  }
  axis = std::max(axis, 0);
  int64_t sum = 0;
  for (TensorSlice& slice : slices) {
    slice.begin[axis] = sum;
    sum += slice.shape.dim(axis);
  }
  for (TensorSlice& slice : slices) slice.whole.set_dim(axis, sum);
  return slices;
}

}  // namespace

std::optional<TensorSlice> SliceFromText(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty()) return std::nullopt;
  const std::vector<std::string> extents = absl::StrSplit(words.back(), ':');
  words.pop_back();
  if (extents.size() != words.size()) return std::nullopt;
  TensorSlice slice;
  for (size_t d = 0; d < words.size(); ++d) {
    int64_t whole = 0, begin = 0, size = 0;
    if (!absl::SimpleAtoi(words[d], &whole)) return std::nullopt;
    if (extents[d] == "-") {
      size = whole;
    } else {
      const std::pair<std::string, std::string> numbers = absl::StrSplit(extents[d], absl::MaxSplits(',', 1));
      if (!absl::SimpleAtoi(numbers.first, &begin) || !absl::SimpleAtoi(numbers.second, &size)) return std::nullopt;
    }
    if (begin < 0 || size < 0 || begin > whole || size > whole - begin) return std::nullopt;
    slice.whole.AddDim(whole);
    slice.begin.push_back(begin);
    slice.shape.AddDim(size);
  }
  return slice;
}

Tensor StringsAt(const Graph& graph, OutputRef ref) {
  const Node* node = &graph.node(ref.node);
  while ((node->op == "Identity" || node->op == "PlaceholderWithDefault") && node->inputs.size() == 1) node = &graph.node(node->inputs[0].node);
  Tensor value = node->op == "Const" ? node->attrs.GetOr<Tensor>("value", Tensor()) : Tensor();
  return value.dtype() == DataType::kString ? value : Tensor();
}

std::map<std::string, VariablePart> PartitionedVariables(const Graph& graph) {
  const std::map<std::string, std::optional<VariablePart>> saved = Saved(graph);
  std::map<std::string, VariablePart> found;
  for (const auto& [name, part] : saved) {
    if (part.has_value()) found[name] = *part;
  }
  std::map<std::pair<std::string, std::string>, Parts> by_names;  // by whole and slot
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsVariable(node) || saved.count(VariableName(node)) > 0) continue;
    const std::optional<PartName> name = SplitName(VariableName(node));
    if (name.has_value()) by_names[{name->whole, name->slot}][name->part] = &node;
  }
  for (const auto& [name, parts] : by_names) {
    const auto primary = by_names.find({name.first, ""});
    if (primary == by_names.end()) continue;  // part_0 is some scope
    const std::vector<TensorSlice> slices = SlicesOf(parts), primary_slices = SlicesOf(primary->second);
    for (const auto& [number, node] : parts) {
      const bool is_part = number < static_cast<int64_t>(std::min(slices.size(), primary_slices.size())) &&
                           slices.size() == primary_slices.size() && slices[number].shape == primary_slices[number].shape;
      if (is_part) found[VariableName(*node)] = {absl::StrCat(name.first, name.second), slices[number]};
    }
  }
  return found;
}

}  // namespace millrace::cli
