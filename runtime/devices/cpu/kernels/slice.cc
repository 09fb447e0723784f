// Slice, StridedSlice, its gradient and updates, Transpose, Tile: strided copies.
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

absl::StatusOr<int64_t> ElementSize(const OpInstance& instance, DataType dtype) {
  const int64_t size = DataTypeSize(dtype);
  if (size == 0) return UnsupportedType(instance, dtype);
  return size;
}

absl::StatusOr<StridedCopy> BuildSlice(const ValueReader& reader) {
  const OpInstance& instance = reader.instance();
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Ints begin, reader.ints(1));
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance, instance.outputs[0].dtype));
  if (static_cast<int>(begin.size()) != in.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("begin has ", begin.size(), " entries, expected ", in.rank()));
  }
  StridedCopy copy(element);
  const auto in_strides = RowMajorStrides(in.dims()), out_strides = RowMajorStrides(out.dims());
  int64_t offset = 0;
  for (int i = 0; i < in.rank(); ++i) {
    if (begin[i] < 0 || begin[i] + out.dim(i) > in.dim(i)) {
      return absl::InvalidArgumentError(absl::StrCat("Expected begin[", i, "] in [0, ", in.dim(i) - out.dim(i),
                                                     "], but got ", begin[i]));
    }
    offset += begin[i] * in_strides[i];
    copy.AddDim(out.dim(i), in_strides[i], out_strides[i]);
  }
  copy.set_in_offset(offset);
  copy.Prepare();
  return copy;
}

KernelOr MakeSlice(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1}, BuildSlice, [](const StridedCopy& copy, const KernelContext& context) {
    copy.Run(context, context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<StridedSliceSpec> ReadSpec(const ValueReader& reader, const Shape& sliced) {
  const AttrMap& attrs = reader.instance().attrs;
  MR_ASSIGN_OR_RETURN(const Ints begin, reader.ints(1));
  MR_ASSIGN_OR_RETURN(const Ints end, reader.ints(2));
  MR_ASSIGN_OR_RETURN(const Ints strides, reader.ints(3));
  const StridedSliceMasks masks = {.begin = attrs.GetOr<int64_t>("begin_mask", 0),
                                   .end = attrs.GetOr<int64_t>("end_mask", 0),
                                   .ellipsis = attrs.GetOr<int64_t>("ellipsis_mask", 0),
                                   .new_axis = attrs.GetOr<int64_t>("new_axis_mask", 0),
                                   .shrink_axis = attrs.GetOr<int64_t>("shrink_axis_mask", 0)};
  return ResolveStridedSlice(sliced, begin, end, strides, masks);
}

int64_t SliceOffset(const StridedSliceSpec& spec, absl::Span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) offset += spec.begin[i] * strides[i];
  return offset;
}

absl::StatusOr<StridedCopy> BuildStridedSlice(const ValueReader& reader) {
  const OpInstance& instance = reader.instance();
  const Shape& in = instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadSpec(reader, in));
  MR_RETURN_IF_ERROR(ExpectPlannedShape(instance.outputs[0].shape, spec.final_shape));
  StridedCopy copy(element);
  const auto in_strides = RowMajorStrides(in.dims()), out_strides = RowMajorStrides(spec.size);
  for (int i = 0; i < in.rank(); ++i) copy.AddDim(spec.size[i], in_strides[i] * spec.stride[i], out_strides[i]);
  copy.set_in_offset(SliceOffset(spec, in_strides));
  copy.Prepare();
  return copy;
}

KernelOr MakeStridedSlice(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1, 2, 3}, BuildStridedSlice,
                           [](const StridedCopy& copy, const KernelContext& context) {
                             copy.Run(context, context.inputs[0], context.outputs[0]);
                             return absl::OkStatus();
                           });
}

// Writes `value`, broadcast to the slice, over the slice of a tensor of shape `whole`. StridedCopy wants strides that
// go up on the output's side, so a dimension that runs down is turned around on both sides.
absl::StatusOr<StridedCopy> BuildSliceUpdate(const ValueReader& reader, const Shape& whole, const TensorType& value) {
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(reader.instance(), value.dtype));
  MR_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadSpec(reader, whole));
  const int missing = spec.final_shape.rank() - value.shape.rank();
  bool fits = missing >= 0 || spec.final_shape.num_elements() == 0;
  for (int i = 0; spec.final_shape.num_elements() > 0 && fits && i < value.shape.rank(); ++i) {
    fits = value.shape.dim(i) == 1 || value.shape.dim(i) == spec.final_shape.dim(missing + i);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("shape of the value was ", value.shape.ToString(), " instead of ",
                                                   spec.final_shape.ToString()));
  }
  StridedCopy copy(element);
  const auto value_strides = RowMajorStrides(value.shape.dims()), whole_strides = RowMajorStrides(whole.dims());
  int64_t in_offset = 0, out_offset = SliceOffset(spec, whole_strides);
  for (int i = 0; i < whole.rank(); ++i) {
    const int64_t k = spec.final_dim[i] - missing;  // the value's dimension, if it has one that is not broadcast
    int64_t in_stride = k < 0 || value.shape.dim(k) == 1 ? 0 : value_strides[k];
    int64_t out_stride = whole_strides[i] * spec.stride[i];
    if (out_stride < 0) {
      in_offset += (spec.size[i] - 1) * in_stride;
      out_offset += (spec.size[i] - 1) * out_stride;
      in_stride = -in_stride;
      out_stride = -out_stride;
    }
    copy.AddDim(spec.size[i], in_stride, out_stride);
  }
  copy.set_in_offset(in_offset);
  copy.set_out_offset(out_offset);
  copy.Prepare();
  return copy;
}

KernelOr MakeStridedSliceGrad(const OpInstance& instance) {
  return MakePlannedKernel(
      instance, {0, 1, 2, 3},
      [](const ValueReader& reader) {
        return BuildSliceUpdate(reader, reader.instance().outputs[0].shape, reader.instance().inputs[4]);
      },
      [](const StridedCopy& copy, const KernelContext& context) {
        FillZero(context, context.outputs[0], context.output_type(0).size_bytes());
        copy.Run(context, context.inputs[4], context.outputs[0]);
        return absl::OkStatus();
      });
}

absl::StatusOr<StridedCopy> BuildUpdateOfFirstInput(const ValueReader& reader) {
  return BuildSliceUpdate(reader, reader.instance().inputs[0].shape, reader.instance().inputs[4]);
}

KernelOr MakeTensorSliceUpdate(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1, 2, 3}, BuildUpdateOfFirstInput,
                           [](const StridedCopy& copy, const KernelContext& context) {
                             CopyTensor(context, context.inputs[0], context.outputs[0],
                                        context.output_type(0).size_bytes());
                             copy.Run(context, context.inputs[4], context.outputs[0]);
                             return absl::OkStatus();
                           });
}

KernelOr MakeVariableSliceUpdate(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1, 2, 3}, BuildUpdateOfFirstInput,
                           [](const StridedCopy& copy, const KernelContext& context) {
                             copy.Run(context, context.inputs[4], context.inputs[0]);
                             return absl::OkStatus();
                           });
}

KernelOr MakeTile(const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance, instance.outputs[0].dtype));
  StridedCopy copy(element);
  const auto in_strides = RowMajorStrides(in.dims()), out_strides = RowMajorStrides(out.dims());
  for (int i = 0; i < in.rank(); ++i) {
    copy.AddDim(in.dim(i) == 0 ? 0 : out.dim(i) / in.dim(i), 0, out_strides[i] * in.dim(i));
    copy.AddDim(in.dim(i), in_strides[i], out_strides[i]);
  }
  copy.Prepare();
  return MakeKernel([copy](const KernelContext& context) {
    copy.Run(context, context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  });
}

absl::StatusOr<StridedCopy> BuildTranspose(const ValueReader& reader) {
  const OpInstance& instance = reader.instance();
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int64_t element, ElementSize(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const Ints perm, reader.ints(1));
  StridedCopy copy(element);
  const auto in_strides = RowMajorStrides(in.dims()), out_strides = RowMajorStrides(out.dims());
  for (int i = 0; i < out.rank(); ++i) {
    MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(perm[i], in.rank()));
    copy.AddDim(out.dim(i), in_strides[axis], out_strides[i]);
  }
  copy.Prepare();
  return copy;
}

template <typename T>
void ConjugateInPlace(const KernelContext& context) {
  T* parts = context.output<T>(0);
  ParallelRange(context, context.output_type(0).shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) parts[2 * i + 1] = -parts[2 * i + 1];
  });
}

KernelOr MakeTranspose(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1}, BuildTranspose, [](const StridedCopy& copy, const KernelContext& context) {
    copy.Run(context, context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  });
}

KernelOr MakeConjugateTranspose(const OpInstance& instance) {
  return MakePlannedKernel(instance, {1}, BuildTranspose, [](const StridedCopy& copy, const KernelContext& context) {
    copy.Run(context, context.inputs[0], context.outputs[0]);
    if (context.output_type(0).dtype == DataType::kComplex64) ConjugateInPlace<float>(context);
    if (context.output_type(0).dtype == DataType::kComplex128) ConjugateInPlace<double>(context);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSliceKernels(KernelRegistry& registry) {
  AddKernel(registry, "Slice", ForAnyType(MakeSlice));
  AddKernel(registry, "StridedSlice", ForAnyType(MakeStridedSlice));
  AddKernel(registry, "StridedSliceGrad", MakeStridedSliceGrad);
  AddKernel(registry, "TensorStridedSliceUpdate", MakeTensorSliceUpdate);
  AddKernel(registry, "StridedSliceAssign", MakeVariableSliceUpdate);
  AddKernel(registry, "ResourceStridedSliceAssign", MakeVariableSliceUpdate);
  AddKernel(registry, "Tile", ForAnyType(MakeTile));
  AddKernel(registry, "Transpose", ForAnyType(MakeTranspose));
  AddKernel(registry, "ConjugateTranspose", MakeConjugateTranspose);
}

}  // namespace millrace::cpu
