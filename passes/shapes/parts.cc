#include "passes/shapes/parts.h"

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"

namespace millrace {
namespace {

constexpr char kBegin[] = "_part_begin", kSize[] = "_part_size";
constexpr char kWholeName[] = "_whole_name", kWholeShape[] = "_whole_shape";

}  // namespace

std::optional<Part> PartOf(const Node& node) {
  const int64_t size = node.attrs.GetOr<int64_t>(kSize, 0);
  if (size == 0) return std::nullopt;
  return Part{node.attrs.GetOr<int64_t>(kBegin, 0), size};
}

void SetPart(Node& node, const Part& part) {
  node.attrs.Set(kBegin, part.begin);
  node.attrs.Set(kSize, part.size);
}

TensorType PartType(const Part& part, const TensorType& whole) { return {whole.dtype, Shape({part.size})}; }

void BecomePart(Node& variable, const Part& part) {
  const std::string whole = VariableName(variable);
  const std::string name = absl::StrCat(whole, "[", part.begin, ":", part.begin + part.size, "]");
  variable.attrs.Set(kWholeName, whole);
  variable.attrs.Set(kWholeShape, variable.outputs[0].shape);
  variable.attrs.Set("shape", Shape({part.size}));
  variable.attrs.Set("shared_name", name);
  variable.attrs.Set("container", std::string());
  variable.name = name;
  variable.outputs[0] = PartType(part, variable.outputs[0]);
  SetPart(variable, part);
}

std::optional<WholeVariable> WholeOf(const Node& variable) {
  std::string name = variable.attrs.GetOr<std::string>(kWholeName, "");
  if (name.empty()) return std::nullopt;
  return WholeVariable{std::move(name), {variable.outputs[0].dtype, variable.attrs.GetOr<Shape>(kWholeShape, Shape())}};
}

}  // namespace millrace
