// MatMul, BatchMatMul and Einsum: shape and cost rules.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/einsum.h"
#include "graph/fused_matmul.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// The product's shape: batch dimensions broadcast when `broadcast`, else equal.
absl::Status ProductShape(InferenceContext& context, bool transpose_a, bool transpose_b, bool broadcast,
                          DataType output) {
  const Shape &a = context.shape(0), &b = context.shape(1);
  if (a.unknown_rank() || b.unknown_rank()) {
    context.AddOutput(output, Shape::UnknownRank());
    return absl::OkStatus();
  }
  const auto mismatch = [&](const std::string& what) {
    return context.Error(absl::StrCat("cannot multiply ", a.ToString(), transpose_a ? " (transposed)" : "", " by ",
                                      b.ToString(), transpose_b ? " (transposed)" : "", ": ", what));
  };
  if (a.rank() < 2 || b.rank() < 2) return mismatch("expected matrices");
  const auto last = [](const Shape& shape, bool first) { return shape.dim(shape.rank() - (first ? 2 : 1)); };
  const int64_t rows = last(a, !transpose_a), inner = last(a, transpose_a);
  const int64_t inner_b = last(b, !transpose_b), columns = last(b, transpose_b);
  if (inner >= 0 && inner_b >= 0 && inner != inner_b) {
    return mismatch(absl::StrCat("the inner dimensions are ", inner, " and ", inner_b, ", expected equal ones"));
  }
  const Shape batch_a(a.dims().subspan(0, a.rank() - 2)), batch_b(b.dims().subspan(0, b.rank() - 2));
  if (!broadcast && batch_a.rank() != batch_b.rank()) return mismatch("expected equal ranks");
  absl::StatusOr<Shape> batch = BroadcastShapes(batch_a, batch_b);
  if (!batch.ok()) return mismatch(std::string(batch.status().message()));
  for (int i = 0; !broadcast && i < batch_a.rank(); ++i) {
    if (batch_a.dim(i) >= 0 && batch_b.dim(i) >= 0 && batch_a.dim(i) != batch_b.dim(i)) {
      return mismatch("expected equal batch dimensions");
    }
  }
  batch->AddDim(rows);
  batch->AddDim(columns);
  context.AddOutput(output, *std::move(batch));
  return absl::OkStatus();
}

absl::Status MatMulShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  for (int i = 0; i < 2; ++i) {
    if (!context.shape(i).unknown_rank() && context.shape(i).rank() != 2) {
      return context.Error(absl::StrCat("input ", i, " has shape ", context.shape(i).ToString(), ", expected rank 2"));
    }
  }
  const AttrMap& attrs = context.attrs();
  return ProductShape(context, attrs.GetOr("transpose_a", false), attrs.GetOr("transpose_b", false), false,
                      context.dtype(0));
}

absl::Status BatchMatMulShape(InferenceContext& context, bool broadcast) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  const AttrMap& attrs = context.attrs();
  return ProductShape(context, attrs.GetOr("adj_x", false), attrs.GetOr("adj_y", false), broadcast, context.dtype(0));
}

absl::Status BatchMatMulV3Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const AttrMap& attrs = context.attrs();
  return ProductShape(context, attrs.GetOr("adj_x", false), attrs.GetOr("adj_y", false), true,
                      attrs.GetOr("Tout", context.dtype(0)));
}

Cost ProductCost(const OpInstance& node) {
  const Shape& a = node.inputs[0].shape;
  const bool transposed = node.attrs.GetOr("transpose_a", false) || node.attrs.GetOr("adj_x", false);
  const int64_t inner = a.dim(a.rank() - (transposed ? 2 : 1));
  Cost cost;
  cost.flops = 2 * static_cast<double>(inner) * static_cast<double>(node.outputs[0].shape.num_elements());
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.bytes += static_cast<double>(node.outputs[0].size_bytes());
  return cost;
}

absl::Status EinsumShape(InferenceContext& context) {
  absl::StatusOr<std::string> equation = context.attrs().Get<std::string>("equation");
  if (!equation.ok()) return ErrorAtNode(context, equation.status());
  if (context.num_inputs() == 0) return context.Error("has no inputs, expected 1 or 2");
  std::vector<TensorType> inputs;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != context.dtype(0)) {
      return context.Error(absl::StrCat("inputs ", context.input(0).ToString(), " and ", context.input(i).ToString(),
                                        " differ in element type"));
    }
    if (context.shape(i).unknown_rank()) {
      context.AddOutput(context.dtype(0), Shape::UnknownRank());
      return absl::OkStatus();
    }
    inputs.push_back(context.input(i));
  }
  absl::StatusOr<EinsumLabels> labels = ParseEinsum(*equation, inputs);
  if (!labels.ok()) return ErrorAtNode(context, labels.status());
  Shape output;
  for (int label : labels->output) output.AddDim(labels->sizes[label]);
  context.AddOutput(context.dtype(0), std::move(output));
  return absl::OkStatus();
}

// Every combination of labels is one product.
Cost EinsumCost(const OpInstance& node) {
  Cost cost;
  cost.flops = node.inputs.size() > 1 ? 2 : 1;
  const absl::StatusOr<EinsumLabels> labels = ParseEinsum(node.attrs.GetOr<std::string>("equation", ""), node.inputs);
  if (labels.ok()) {
    for (int64_t size : labels->sizes) cost.flops *= static_cast<double>(size);
  }
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.bytes += static_cast<double>(node.outputs[0].size_bytes());
  return cost;
}

// Pairs of factors, whose products are summed; what they are added onto comes before them.
absl::Status SumProductsShape(InferenceContext& context, int first) {
  const int factors = context.num_inputs() - first;
  if (factors < 2 || factors % 2 != 0) return context.Error(absl::StrCat("has ", factors, " factors, expected pairs"));
  const AttrMap& attrs = context.attrs();
  for (int i = first; i < context.num_inputs(); i += 2) {
    const TensorType pair[] = {context.input(i), context.input(i + 1)};
    const Tensor* const no_values[] = {nullptr, nullptr};
    InferenceContext product(context.node_name(), context.op(), attrs, pair, no_values);
    MR_RETURN_IF_ERROR(MatMulShape(product));
    const TensorType& sum = i == 0 ? product.outputs()[0] : first > 0 ? context.input(0) : context.outputs()[0];
    if (product.outputs()[0].dtype != sum.dtype || product.outputs()[0].shape != sum.shape) {
      return context.Error(absl::StrCat("product ", (i - first) / 2, " is ", product.outputs()[0].ToString(),
                                        ", expected ", sum.ToString()));
    }
    if (i == first) context.AddOutput(sum.dtype, sum.shape);
  }
  return absl::OkStatus();
}

template <int kFirst>
Cost SumProductsCost(const OpInstance& node) {
  Cost cost;
  for (size_t i = kFirst; i + 1 < node.inputs.size(); i += 2) {
    const int64_t depth = node.inputs[i].shape.dim(node.attrs.GetOr("transpose_a", false) ? 0 : 1);
    cost.flops += 2.0 * static_cast<double>(depth) * static_cast<double>(node.outputs[0].shape.num_elements());
  }
  for (const TensorType& type : node.inputs) cost.bytes += static_cast<double>(type.size_bytes());
  cost.bytes += static_cast<double>(node.outputs[0].size_bytes());
  return cost;
}

// A product, a bias for its columns, and an activation.
absl::Status FusedMatMulShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  const absl::StatusOr<std::string> activation = ActivationOf(context.attrs());
  if (!activation.ok()) return ErrorAtNode(context, activation.status());
  const TensorType factors[] = {context.input(0), context.input(1)};
  const Tensor* const no_values[] = {nullptr, nullptr};
  InferenceContext product(context.node_name(), context.op(), context.attrs(), factors, no_values);
  MR_RETURN_IF_ERROR(MatMulShape(product));
  const TensorType& result = product.outputs()[0];
  const Shape& bias = context.shape(2);
  if (!bias.unknown_rank() && bias.rank() != 1) {
    return context.Error(absl::StrCat("the bias is ", context.input(2).ToString(), ", expected a vector"));
  }
  if (!bias.unknown_rank() && !result.shape.unknown_rank() && bias.dim(0) >= 0 && result.shape.dim(1) >= 0 &&
      bias.dim(0) != result.shape.dim(1)) {
    return context.Error(absl::StrCat("the product is ", result.ToString(), " and the bias ", context.input(2).ToString(),
                                      ", expected one element for each column"));
  }
  context.AddOutput(result.dtype, result.shape);
  return absl::OkStatus();
}

Cost FusedMatMulCost(const OpInstance& node) {
  Cost cost = ProductCost(node);
  cost.flops += 2 * static_cast<double>(node.outputs[0].shape.num_elements());
  return cost;
}

}  // namespace

void RegisterMatMulOps(OpRegistry& registry) {
  AddOp(registry, {.name = "MatMul", .shape = MatMulShape, .cost = ProductCost});
  const auto equal_batches = [](InferenceContext& context) { return BatchMatMulShape(context, false); };
  const auto broadcast_batches = [](InferenceContext& context) { return BatchMatMulShape(context, true); };
  AddOp(registry, {.name = "BatchMatMul", .shape = equal_batches, .cost = ProductCost});
  AddOp(registry, {.name = "BatchMatMulV2", .shape = broadcast_batches, .cost = ProductCost});
  AddOp(registry, {.name = "BatchMatMulV3", .shape = BatchMatMulV3Shape, .cost = ProductCost});
  AddOp(registry, {.name = "_FusedMatMul", .shape = FusedMatMulShape, .cost = FusedMatMulCost});
  // Made by the passes.
  AddOp(registry, {.name = "_SumProducts",
                   .shape = [](InferenceContext& context) { return SumProductsShape(context, 0); },
                   .cost = SumProductsCost<0>});
  AddOp(registry, {.name = "_AddProducts",
                   .shape = [](InferenceContext& context) { return SumProductsShape(context, 1); },
                   .cost = SumProductsCost<1>,
                   .in_place = {{0, 0}}});
  AddOp(registry, {.name = "Einsum", .shape = EinsumShape, .cost = EinsumCost});
}

}  // namespace millrace
