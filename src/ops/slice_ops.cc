// Slice, StridedSlice with all its masks, and StridedSliceGrad.
#include "absl/strings/str_cat.h"
#include "graph/shape_math.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Two of begin, end, size and strides, which kernels read side by side.
absl::Status ExpectEqualSizes(const InferenceContext& context, int a, int b) {
  const Shape &first = context.shape(a), &second = context.shape(b);
  if (!first.fully_known() || !second.fully_known() || first.num_elements() == second.num_elements()) return absl::OkStatus();
  return context.Error(absl::StrCat("inputs ", a, " and ", b, " are ", first.ToString(), " and ", second.ToString(),
                                    ", expected 1D equal size tensors"));
}

absl::Status SliceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownInts(context, 2));
  const Shape& in = context.shape(0);
  const int rank = static_cast<int>(size.size());
  if (!in.unknown_rank() && in.rank() != rank) {
    return context.Error(absl::StrCat("Expected begin and size arguments to be 1-D tensors of size ", in.rank(),
                                      ", but got shapes ", context.shape(1).ToString(), " and ",
                                      context.shape(2).ToString(), " instead."));
  }
  std::vector<int64_t> begin;
  MR_RETURN_IF_ERROR(ExpectEqualSizes(context, 1, 2));
  if (context.value(1) != nullptr) {
    MR_ASSIGN_OR_RETURN(begin, KnownInts(context, 1));
  }
  Shape out;
  for (int k = 0; k < rank; ++k) {
    const int64_t dim = in.unknown_rank() ? -1 : in.dim(k);
    int64_t length = size[k];
    if (length == -1 && begin.empty()) return context.Error("begin must be known when the graph is planned");
    if (length == -1) length = dim < 0 ? -1 : dim - begin[k];
    if (!begin.empty() && dim >= 0) {
      if (begin[k] < 0 || begin[k] > dim) {
        return context.Error(absl::StrCat("Expected begin[", k, "] in [0, ", dim, "], but got ", begin[k]));
      }
      if (length < 0 || length > dim - begin[k]) {
        return context.Error(
            absl::StrCat("Expected size[", k, "] in [0, ", dim - begin[k], "], but got ", size[k]));
      }
    }
    if (length < -1) return context.Error(absl::StrCat("size[", k, "] is ", length, ", expected -1 or more"));
    out.AddDim(length);
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

StridedSliceMasks MasksOf(const AttrMap& attrs) {
  return {.begin = attrs.GetOr<int64_t>("begin_mask", 0),
          .end = attrs.GetOr<int64_t>("end_mask", 0),
          .ellipsis = attrs.GetOr<int64_t>("ellipsis_mask", 0),
          .new_axis = attrs.GetOr<int64_t>("new_axis_mask", 0),
          .shrink_axis = attrs.GetOr<int64_t>("shrink_axis_mask", 0)};
}

// The slice of `in` by inputs first, first + 1, first + 2 (begin, end, strides).
absl::StatusOr<StridedSliceSpec> ResolveSlice(const InferenceContext& context, const Shape& in, int first) {
  std::vector<int64_t> begin, end;
  MR_RETURN_IF_ERROR(ExpectEqualSizes(context, first, first + 2));
  MR_RETURN_IF_ERROR(ExpectEqualSizes(context, first + 1, first + 2));
  if (context.value(first) != nullptr) {
    MR_ASSIGN_OR_RETURN(begin, KnownInts(context, first));
  }
  if (context.value(first + 1) != nullptr) {
    MR_ASSIGN_OR_RETURN(end, KnownInts(context, first + 1));
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, KnownInts(context, first + 2));
  absl::StatusOr<StridedSliceSpec> spec = ResolveStridedSlice(in, begin, end, strides, MasksOf(context.attrs()));
  if (!spec.ok()) return ErrorAtNode(context, spec.status());
  return spec;
}

absl::Status StridedSliceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_ASSIGN_OR_RETURN(StridedSliceSpec spec, ResolveSlice(context, context.shape(0), 1));
  context.AddOutput(context.dtype(0), std::move(spec.final_shape));
  return absl::OkStatus();
}

absl::Status StridedSliceGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 0));
  const Shape shape(dims);
  if (!shape.fully_known()) return context.Error(absl::StrCat("shape is ", shape.ToString(), ", expected all known"));
  for (int i : {1, 2}) MR_RETURN_IF_ERROR(ExpectEqualSizes(context, i, 3));
  // Bounds that a step computes do not change the shape; the kernel holds dy's against them.
  const bool bounds_known = context.value(1) != nullptr && context.value(2) != nullptr && context.value(3) != nullptr;
  if (bounds_known) {
    MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ResolveSlice(context, shape, 1));
    if (context.shape(4).fully_known() && context.shape(4) != spec.final_shape) {
      return context.Error(absl::StrCat("shape of dy was ", context.shape(4).ToString(), " instead of ",
                                        spec.final_shape.ToString()));
    }
  }
  context.AddOutput(context.dtype(4), shape);
  return absl::OkStatus();
}

// `value` (last input) is written over a slice of input 0.
absl::Status CheckSliceUpdate(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 4}));
  MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ResolveSlice(context, context.shape(0), 1));
  const Shape& value = context.shape(4);
  if (value.fully_known() && value.rank() > 0 && spec.final_shape.fully_known() && spec.final_shape.num_elements() > 0 &&
      value != spec.final_shape) {
    const absl::StatusOr<Shape> broadcast = BroadcastShapes(value, spec.final_shape);
    if (!broadcast.ok() || *broadcast != spec.final_shape) {
      return context.Error(absl::StrCat("cannot assign a value of shape ", value.ToString(), " to a slice of shape ",
                                        spec.final_shape.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status SliceUpdateShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckSliceUpdate(context));
  return SameAsFirstInput(context);
}

}  // namespace

void RegisterSliceOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Slice", .shape = SliceShape, .cost = MoveCost});
  AddOp(registry, {.name = "StridedSlice", .shape = StridedSliceShape, .cost = MoveCost});
  AddOp(registry, {.name = "StridedSliceGrad", .shape = StridedSliceGradShape, .cost = MoveCost});
  AddOp(registry, {.name = "TensorStridedSliceUpdate",
                   .shape = SliceUpdateShape,
                   .cost = MoveCost,
                   .in_place = {{0, 0}}});
  AddOp(registry, {.name = "StridedSliceAssign",
                   .shape = SliceUpdateShape,
                   .cost = MoveCost,
                   .variables = {{.input = 0, .access = VariableAccess::kReadWrite}},
                   .returns_variable = true,
                   .writes_chosen_rows = true,
                   .stateful = true});
  AddOp(registry, {.name = "ResourceStridedSliceAssign",
                   .shape = CheckSliceUpdate,
                   .cost = MoveCost,
                   .variables = {{.input = 0, .access = VariableAccess::kReadWrite}},
                   .writes_chosen_rows = true,
                   .stateful = true});
}

}  // namespace millrace
