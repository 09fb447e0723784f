// Layers of quantized numbers: each tensor has the range that it stands for beside it, two floats.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/pool_geometry.h"
#include "graph/shape_math.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"
#include "ops/rarest.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Inputs [first, first + count) are floats, one each.
absl::Status ExpectRanges(const InferenceContext& context, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    if (context.dtype(i) != DataType::kFloat) return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected float"));
    MR_RETURN_IF_ERROR(ExpectScalar(context, i, "the end of a range"));
  }
  return absl::OkStatus();
}

// Output 0 is of the type that this attribute names, with its range behind it.
absl::Status AddWithRange(InferenceContext& context, const char* type, DataType otherwise, Shape shape) {
  context.AddOutput(context.attrs().GetOr(type, otherwise), std::move(shape));
  for (int i = 0; i < 2; ++i) context.AddOutput(DataType::kFloat, Shape());
  return absl::OkStatus();
}

// Output 0 is of the type of this input, which attribute T may name, with its range behind it.
absl::Status AddLike(InferenceContext& context, int input, Shape shape) {
  const DataType said = context.attrs().GetOr("T", context.dtype(input));
  if (said == context.dtype(input)) return AddWithRange(context, "T", said, std::move(shape));
  return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected ", std::string(DataTypeName(said)),
                                    " by attribute T"));
}

// (input, filter, min_input, max_input, min_filter, max_filter)
absl::Status ConvShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 2, 4));
  MR_RETURN_IF_ERROR(ExpectImages(context, 0));
  MR_RETURN_IF_ERROR(ExpectLayout(context, 1, 4, "[height,width,in,out]"));
  MR_ASSIGN_OR_RETURN(const auto strides, RequiredAttr<std::vector<int64_t>>(context, "strides"));
  MR_ASSIGN_OR_RETURN(const std::string padding, RequiredAttr<std::string>(context, "padding"));
  if (padding != "SAME" && padding != "VALID") return context.Error(absl::StrCat("padding is ", padding, ", expected SAME or VALID"));
  if (strides.size() != 4) return context.Error("Sliding window strides field must specify 4 dimensions");
  if (strides[1] != strides[2] || strides[1] < 1) {
    return context.Error("Current implementation only supports equal length strides in the row and column dimensions.");
  }
  if (strides[0] != 1 || strides[3] != 1) return context.Error("Current implementation does not yet support strides in the batch and depth dimensions.");
  const auto dilations = context.attrs().GetOr<std::vector<int64_t>>("dilations", {});
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; })) {
    return context.Error("Current implementation only supports dilated rate as 1 in the row and column dimensions.");
  }
  const Shape &images = context.shape(0), &filter = context.shape(1);
  Shape shape({-1, -1, -1, -1});
  if (!images.unknown_rank()) shape.set_dim(0, images.dim(0));
  if (!filter.unknown_rank()) shape.set_dim(3, filter.dim(3));
  if (images.fully_known() && filter.fully_known()) {
    if (images.dim(3) != filter.dim(2)) {
      return context.Error(absl::StrCat("input and filter must have the same depth: ", images.dim(3), " vs ", filter.dim(2)));
    }
    for (int d : {1, 2}) {
      const int64_t size = images.dim(d), taps = filter.dim(d - 1), stride = strides[1];
      const int64_t least = padding == "SAME" ? 1 : taps;
      if (taps < 1 || size < least) {
        return context.Error(absl::StrCat("the filter ", filter.ToString(), " does not fit into ", images.ToString()));
      }
      shape.set_dim(d, (size - least) / stride + 1);
    }
  }
  return AddWithRange(context, "out_type", kQint32, std::move(shape));
}

Cost ConvCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  const Shape& filter = node.inputs[1].shape;
  cost.flops = 2.0 * node.outputs[0].shape.num_elements() * filter.dim(0) * filter.dim(1) * filter.dim(2);
  return cost;
}

// (a, b, min_a, max_a, min_b, max_b)
absl::Status MatMulShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 2, 4));
  MR_RETURN_IF_ERROR(ExpectLayout(context, 0, 2, "a matrix"));
  MR_RETURN_IF_ERROR(ExpectLayout(context, 1, 2, "a matrix"));
  const int inner_a = context.attrs().GetOr("transpose_a", false) ? 0 : 1, inner_b = context.attrs().GetOr("transpose_b", false) ? 1 : 0;
  const auto size = [&](int input, int dim) { return context.shape(input).unknown_rank() ? -1 : context.shape(input).dim(dim); };
  const int64_t a = size(0, inner_a), b = size(1, inner_b);
  if (a >= 0 && b >= 0 && a != b) {
    return context.Error(absl::StrCat("Matrix size-incompatible: In[0]: ", context.shape(0).ToString(), ", In[1]: ", context.shape(1).ToString()));
  }
  return AddWithRange(context, "Toutput", kQint32, Shape({size(0, 1 - inner_a), size(1, 1 - inner_b)}));
}

Cost MatMulCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  cost.flops = 2.0 * node.outputs[0].shape.num_elements() * node.inputs[0].shape.dim(node.attrs.GetOr("transpose_a", false) ? 0 : 1);
  return cost;
}

// (input, bias, min_input, max_input, min_bias, max_bias)
absl::Status BiasAddShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 2, 4));
  const Shape &input = context.shape(0), &bias = context.shape(1);
  if (!input.unknown_rank() && input.rank() < 2) return context.Error(absl::StrCat("Input tensor must be at least rank 2, is ", input.ToString()));
  if (!bias.unknown_rank() && bias.rank() != 1) return context.Error(absl::StrCat("Biases must be rank 1, are ", bias.ToString()));
  if (input.fully_known() && bias.fully_known() && input.dim(input.rank() - 1) != bias.dim(0)) {
    return context.Error(absl::StrCat("Must provide as many biases as the last dimension of the input tensor: ", bias.ToString(), " vs. ", input.ToString()));
  }
  return AddWithRange(context, "out_type", kQint32, input);
}

// Whether `small` is repeated along the first dimensions of `large`.
bool IsRepeated(const Shape& small, const Shape& large) {
  int at = large.rank() - small.rank();
  bool ones = true;  // so far
  for (int d = 0; d < small.rank(); ++d) {
    if (ones && small.dim(d) == 1) continue;
    ones = false;
    if (at + d < 0 || small.dim(d) != large.dim(at + d)) return false;
  }
  return true;
}

// (x, y, min_x, max_x, min_y, max_y): of other ways to broadcast TensorFlow knows none.
absl::Status RepeatedShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 2, 4));
  const Shape &x = context.shape(0), &y = context.shape(1);
  absl::StatusOr<Shape> shape = BroadcastShapes(x, y);
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  if (x.fully_known() && y.fully_known() && !IsRepeated(x, y) && !IsRepeated(y, x)) {
    return context.Error(absl::StrCat("Broadcast between ", x.ToString(), " and ", y.ToString(), " is not supported yet."));
  }
  return AddWithRange(context, "Toutput", kQint32, *std::move(shape));
}

// (input, input_min, input_max)
absl::Status UsedRangeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 1, 2));
  for (int i = 0; i < 2; ++i) context.AddOutput(DataType::kFloat, Shape());
  return absl::OkStatus();
}

// (input, floats …): of the input's shape.
template <int kFloats>
absl::Status SameShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1 + kFloats));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 1, kFloats));
  return AddWithRange(context, "out_type", kQuint8, context.shape(0));
}

// (input, min_input, max_input)
absl::Status PoolShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 1, 2));
  absl::StatusOr<PoolGeometry> geometry = MakePoolGeometry(context.attrs(), context.shape(0), 4, nullptr);
  if (!geometry.ok()) return ErrorAtNode(context, geometry.status());
  return AddLike(context, 0, std::move(geometry->output));
}

// (tensor, shape, input_min, input_max)
absl::Status ReshapeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectRanges(context, 2, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> target, KnownInts(context, 1));
  absl::StatusOr<Shape> shape = ResolveReshape(context.shape(0), target);
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  return AddLike(context, 0, *std::move(shape));
}

// Inputs 1 to `count` one behind the other along a dimension.
absl::StatusOr<Shape> ConcatShapes(const InferenceContext& context, int count, int64_t dim) {
  Shape shape = context.shape(1);
  for (int i = 1; i <= count; ++i) {
    const Shape& other = context.shape(i);
    if (shape.unknown_rank() || other.unknown_rank()) return Shape::UnknownRank();
    if (dim < 0 || dim >= shape.rank()) {
      return context.Error(absl::StrCat("Expected concatenating dimensions in the range [0, ", shape.rank(), "), but got ", dim));
    }
    Shape expected = other;
    if (other.rank() == shape.rank()) expected.set_dim(static_cast<int>(dim), shape.dim(static_cast<int>(dim)));
    if (!MayBeEqual(expected, shape)) {
      return context.Error(absl::StrCat("Dimensions of inputs should match: ", shape.ToString(), " vs. ", other.ToString()));
    }
    if (i == 1) continue;
    const int64_t size = shape.dim(static_cast<int>(dim)), more = other.dim(static_cast<int>(dim));
    if (size > std::numeric_limits<int64_t>::max() - std::max<int64_t>(more, 0)) return context.Error("the values are too large together");
    shape.set_dim(static_cast<int>(dim), size < 0 || more < 0 ? -1 : size + more);
  }
  return shape;
}

// (concat_dim, values …, input_mins …, input_maxes …)
absl::Status ConcatShape(InferenceContext& context) {
  const int count = (context.num_inputs() - 1) / 3;
  if (count < 2 || context.num_inputs() != 1 + 3 * count) {
    return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected a dimension, two values or more, and a range for each"));
  }
  MR_RETURN_IF_ERROR(ExpectRanges(context, 1 + count, 2 * count));
  for (int i = 2; i <= count; ++i) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, i}));
  MR_ASSIGN_OR_RETURN(const int64_t dim, KnownInt(context, 0));
  MR_ASSIGN_OR_RETURN(Shape shape, ConcatShapes(context, count, dim));
  return AddLike(context, 1, std::move(shape));
}

}  // namespace

void RegisterQuantizedOps(OpRegistry& registry) {
  AddOp(registry, {.name = "QuantizedConv2D", .shape = ConvShape, .cost = ConvCost});
  AddOp(registry, {.name = "QuantizedMatMul", .shape = MatMulShape, .cost = MatMulCost});
  AddOp(registry, {.name = "QuantizedBiasAdd", .shape = BiasAddShape});
  for (const char* name : {"QuantizedAdd", "QuantizedMul"}) AddOp(registry, {.name = name, .shape = RepeatedShape});
  AddOp(registry, {.name = "RequantizationRange", .shape = UsedRangeShape});
  AddOp(registry, {.name = "Requantize", .shape = SameShape<4>});
  AddOp(registry, {.name = "QuantizeDownAndShrinkRange", .shape = SameShape<2>});
  for (const char* name : {"QuantizedRelu", "QuantizedRelu6"}) AddOp(registry, {.name = name, .shape = SameShape<2>, .in_place = {{0, 0}}});
  for (const char* name : {"QuantizedMaxPool", "QuantizedAvgPool"}) AddOp(registry, {.name = name, .shape = PoolShape});
  AddOp(registry, {.name = "QuantizedConcat", .shape = ConcatShape, .cost = MoveCost});
  AddOp(registry, {.name = "QuantizedReshape", .shape = ReshapeShape, .cost = MoveCost, .in_place = {{0, 0}}});
}

}  // namespace millrace
