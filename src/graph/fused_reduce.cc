#include "graph/fused_reduce.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {

absl::StatusOr<std::vector<GroupReduction>> GroupReductionsOf(const AttrMap& attrs, size_t inputs, size_t outputs) {
  MR_ASSIGN_OR_RETURN(const auto ops, attrs.Get<std::vector<std::string>>("reductions"));
  MR_ASSIGN_OR_RETURN(const auto reduced, attrs.Get<std::vector<int64_t>>("reduced"));
  MR_ASSIGN_OR_RETURN(const auto axes, attrs.Get<std::vector<int64_t>>("axes"));
  MR_ASSIGN_OR_RETURN(const auto types, attrs.Get<std::vector<DataType>>("types"));
  MR_ASSIGN_OR_RETURN(const auto shape, attrs.Get<Shape>("shape"));
  if (ops.empty() || ops.size() > kMaxGroupReductions || reduced.size() != 2 * ops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", ops.size(), " reductions of ", reduced.size(), " numbers, expected 1 to ",
                                                   kMaxGroupReductions, " of two each"));
  }
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= shape.rank()) return absl::InvalidArgumentError(absl::StrCat("has no dimension ", axis, " to reduce"));
  }
  static const std::set<std::string> kOps{"Sum", "Mean", "Max", "Min"};
  std::vector<GroupReduction> reductions;
  for (size_t r = 0; r < ops.size(); ++r) {
    const int64_t operand = reduced[2 * r], output = reduced[2 * r + 1];
    if (kOps.count(ops[r]) == 0 || operand >= static_cast<int64_t>(inputs) || -1 - operand >= static_cast<int64_t>(types.size()) ||
        output < 0 || output >= static_cast<int64_t>(outputs)) {
      return absl::InvalidArgumentError(absl::StrCat("has no reduction '", ops[r], "' of operand ", operand, " to output ", output));
    }
    reductions.push_back({ops[r], operand, output});
  }
  return reductions;
}

std::vector<bool> ReducedDims(const AttrMap& attrs) {
  std::vector<bool> reduced(attrs.GetOr<Shape>("shape", Shape()).rank(), false);
  for (int64_t axis : attrs.GetOr<std::vector<int64_t>>("axes", {})) reduced[axis] = true;
  return reduced;
}

absl::StatusOr<GroupWithReductions> TakenApart(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const std::vector<GroupReduction> reductions,
                      GroupReductionsOf(node.attrs, node.inputs.size(), node.outputs.size()));
  const auto axes = *node.attrs.Get<std::vector<int64_t>>("axes");
  const auto types = *node.attrs.Get<std::vector<DataType>>("types");
  const auto shape = *node.attrs.Get<Shape>("shape");
  auto results = node.attrs.GetOr<std::vector<int64_t>>("results", {});
  GroupWithReductions apart;
  for (size_t r = 0; r + 3 < results.size(); r += 4) apart.written = std::max<size_t>(apart.written, results[r + 1] + 1);
  if (apart.written + reductions.size() > node.outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", node.outputs.size(), " outputs for ", apart.written, " results and ",
                                                   reductions.size(), " reductions"));
  }
  OpInstance& group = apart.group;
  group.name = node.name;
  group.op = "_Fused";
  group.attrs = node.attrs;
  group.inputs = node.inputs;
  group.outputs.assign(node.outputs.begin(), node.outputs.begin() + static_cast<std::ptrdiff_t>(apart.written));
  // The output that is the whole of what op k computes.
  const auto output_of = [&](int64_t k) -> size_t {
    for (size_t r = 0; r + 3 < results.size(); r += 4) {
      if (results[r] == k && results[r + 2] < 0) return static_cast<size_t>(results[r + 1]);
    }
    results.insert(results.end(), {k, static_cast<int64_t>(group.outputs.size()), -1, 0});
    group.outputs.push_back({types[k], shape});
    return group.outputs.size() - 1;
  };
  for (const GroupReduction& reduction : reductions) {
    GroupWithReductions::Reduced reduced;
    reduced.of_input = reduction.operand >= 0;
    reduced.operand = reduced.of_input ? static_cast<size_t>(reduction.operand) : output_of(-1 - reduction.operand);
    reduced.output = static_cast<size_t>(reduction.output);
    reduced.node.name = node.name;
    reduced.node.op = reduction.op;
    const TensorType type = reduced.of_input ? node.inputs[reduced.operand] : group.outputs[reduced.operand];
    if (type.shape != shape) return absl::InvalidArgumentError(absl::StrCat("reduces ", type.ToString(), ", expected ", shape.ToString()));
    reduced.node.inputs = {type, {DataType::kInt64, Shape({static_cast<int64_t>(axes.size())})}};
    reduced.node.outputs = {node.outputs[reduced.output]};
    reduced.node.input_values = {Tensor(), Tensor::Vector<int64_t>(axes)};
    apart.reductions.push_back(std::move(reduced));
  }
  std::vector<Shape> shapes;
  for (const TensorType& output : group.outputs) shapes.push_back(output.shape);
  group.attrs.Set("results", std::move(results));
  group.attrs.Set("output_shapes", std::move(shapes));
  return apart;
}

}  // namespace millrace
