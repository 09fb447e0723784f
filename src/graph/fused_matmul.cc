#include "graph/fused_matmul.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

absl::StatusOr<std::string> ActivationOf(const AttrMap& attrs) {
  constexpr std::array<std::string_view, 8> kActivations = {"Relu",    "Relu6", "LeakyRelu",      "Elu",
                                                            "Sigmoid", "Tanh",  kGeluApproximate, kGeluExact};
  const auto ops = attrs.GetOr<std::vector<std::string>>("fused_ops", {});
  if (ops.size() == 1 && ops[0] == "BiasAdd") return std::string();
  const bool known = ops.size() == 2 && ops[0] == "BiasAdd" &&
                     std::find(kActivations.begin(), kActivations.end(), ops[1]) != kActivations.end();
  if (known) return ops[1];
  std::string all;
  for (std::string_view one : kActivations) absl::StrAppend(&all, all.empty() ? "" : ", ", std::string(one));
  return absl::InvalidArgumentError(
      absl::StrCat("fused_ops is [", absl::StrJoin(ops, ", "), "], expected BiasAdd, alone or before one of ", all));
}

OpInstance ProductOf(const OpInstance& node) {
  OpInstance product;
  product.name = node.name;
  product.op = "MatMul";
  for (const char* name : {"transpose_a", "transpose_b"}) product.attrs.Set(name, node.attrs.GetOr(name, false));
  product.inputs = {node.inputs[0], node.inputs[1]};
  product.outputs = node.outputs;
  return product;
}

OpInstance ElementwiseOf(const OpInstance& node, bool bias, const std::string& activation) {
  const TensorType& result = node.outputs[0];
  OpInstance group;
  group.name = node.name;
  group.op = "_Fused";
  group.inputs = {result};
  group.outputs = {result};
  std::vector<FunctionRef> ops;
  std::vector<int64_t> operands;
  if (bias) {
    group.inputs.push_back(node.inputs[2]);
    ops.push_back({"BiasAdd", std::make_shared<AttrMap>()});
    operands = {2, 0, 1};
  }
  if (!activation.empty()) {
    auto attrs = std::make_shared<AttrMap>();
    if (activation == "LeakyRelu") attrs->Set("alpha", node.attrs.GetOr<float>("leakyrelu_alpha", 0.2f));
    ops.push_back({activation, std::move(attrs)});
    operands.insert(operands.end(), {1, bias ? -1 : 0});
  }
  group.attrs = AttrMap({{"ops", ops},
                         {"operands", operands},
                         {"types", std::vector<DataType>(ops.size(), result.dtype)},
                         {"row", bias ? result.shape.dim(1) : int64_t{0}}});
  return group;
}

}  // namespace millrace
