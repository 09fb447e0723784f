// Shape, Size, Rank, BroadcastGradientArgs, Fill, Range, LinSpace and what else works on shapes.
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

void StoreInts(absl::Span<const int64_t> values, DataType dtype, void* out) {
  if (dtype == DataType::kInt64) {
    std::copy(values.begin(), values.end(), static_cast<int64_t*>(out));
  } else {
    std::copy(values.begin(), values.end(), static_cast<int32_t*>(out));
  }
}

absl::Status ExpectIntOutput(const OpInstance& instance, int output) {
  const DataType dtype = instance.outputs[output].dtype;
  if (dtype == DataType::kInt32 || dtype == DataType::kInt64) return absl::OkStatus();
  return UnsupportedType(instance, dtype);
}

// What Shape, ShapeN, Size and Rank give is in the type of their input.
KernelOr MakeFromTypes(const OpInstance& instance, Ints (*values)(const Shape&)) {
  for (size_t i = 0; i < instance.outputs.size(); ++i) {
    MR_RETURN_IF_ERROR(ExpectIntOutput(instance, static_cast<int>(i)));
    if (!instance.inputs[i].shape.fully_known()) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " has the shape ",
                                                     instance.inputs[i].shape.ToString(), ", expected a known one"));
    }
  }
  return MakeKernel([values](const KernelContext& context) {
    for (size_t i = 0; i < context.instance->outputs.size(); ++i) {
      StoreInts(values(context.instance->inputs[i].shape), context.output_type(i).dtype, context.outputs[i]);
    }
    return absl::OkStatus();
  });
}

KernelOr MakeShape(const OpInstance& instance) {
  return MakeFromTypes(instance, [](const Shape& shape) { return Ints(shape.dims().begin(), shape.dims().end()); });
}
KernelOr MakeSize(const OpInstance& instance) {
  return MakeFromTypes(instance, [](const Shape& shape) { return Ints{shape.num_elements()}; });
}
KernelOr MakeRank(const OpInstance& instance) {
  return MakeFromTypes(instance, [](const Shape& shape) { return Ints{shape.rank()}; });
}

KernelOr MakeBroadcastGradientArgs(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectIntOutput(instance, 0));
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    const ValueReader reader(context);
    MR_ASSIGN_OR_RETURN(const Ints a, reader.ints(0));
    MR_ASSIGN_OR_RETURN(const Ints b, reader.ints(1));
    MR_ASSIGN_OR_RETURN(const auto axes, BroadcastGradientAxes(a, b));
    StoreInts(axes.first, context.output_type(0).dtype, context.outputs[0]);
    StoreInts(axes.second, context.output_type(1).dtype, context.outputs[1]);
    SetRealShape(context, 0, Shape({static_cast<int64_t>(axes.first.size())}));
    SetRealShape(context, 1, Shape({static_cast<int64_t>(axes.second.size())}));
    return absl::OkStatus();
  });
}

KernelOr MakeBroadcastArgs(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectIntOutput(instance, 0));
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    const ValueReader reader(context);
    MR_ASSIGN_OR_RETURN(const Ints a, reader.ints(0));
    MR_ASSIGN_OR_RETURN(const Ints b, reader.ints(1));
    Ints out = a.size() >= b.size() ? a : b;
    const Ints& shorter = a.size() >= b.size() ? b : a;
    for (size_t i = 0; i < shorter.size(); ++i) {
      int64_t& dim = out[out.size() - shorter.size() + i];
      if (dim != shorter[i] && dim != 1 && shorter[i] != 1) {
        return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", Shape(a).ToString(), " vs. ",
                                                       Shape(b).ToString()));
      }
      if (dim == 1) dim = shorter[i];
    }
    StoreInts(out, context.output_type(0).dtype, context.outputs[0]);
    return absl::OkStatus();
  });
}

KernelOr MakeInvertPermutation(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectIntOutput(instance, 0));
  return MakeKernel([](const KernelContext& context) -> absl::Status {
    MR_ASSIGN_OR_RETURN(const Ints perm, ValueReader(context).ints(0));
    const int64_t size = static_cast<int64_t>(perm.size());
    Ints inverse(size, -1);
    for (int64_t i = 0; i < size; ++i) {
      if (perm[i] < 0 || perm[i] >= size) {
        return absl::InvalidArgumentError(absl::StrCat(perm[i], " is not between 0 and ", size));
      }
      if (inverse[perm[i]] != -1) return absl::InvalidArgumentError(absl::StrCat(perm[i], " is duplicated in the input."));
      inverse[perm[i]] = i;
    }
    StoreInts(inverse, context.output_type(0).dtype, context.outputs[0]);
    return absl::OkStatus();
  });
}

KernelOr MakeFill(const OpInstance& instance) {
  return DispatchBySize(instance, instance.outputs[0].dtype, [](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) {
      const T value = *context.input<T>(1);
      T* out = context.output<T>(0);
      ParallelRange(context, context.output_type(0).shape.num_elements(), kElementGrain,
                    [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
      return absl::OkStatus();
    });
  });
}

KernelOr MakeRange(const OpInstance& instance) {
  return DispatchNumeric(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) {
      const ValueReader reader(context);
      const T start = *static_cast<const T*>(reader.data(0)), delta = *static_cast<const T*>(reader.data(2));
      T* out = context.output<T>(0);
      const int64_t size = context.output_type(0).shape.num_elements();
      for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(start + static_cast<T>(i) * delta);
      return absl::OkStatus();
    });
  });
}

KernelOr MakeLinSpace(const OpInstance& instance) {
  return DispatchFloating(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) {
      const T start = *context.input<T>(0), stop = *context.input<T>(1);
      T* out = context.output<T>(0);
      const int64_t num = context.output_type(0).shape.num_elements();
      out[0] = start;
      if (num == 1) return absl::OkStatus();
      const T step = static_cast<T>((stop - start) / static_cast<T>(num - 1));
      for (int64_t i = 1; i < num - 1; ++i) out[i] = static_cast<T>(start + step * static_cast<T>(i));
      out[num - 1] = stop;
      return absl::OkStatus();
    });
  });
}

KernelOr MakeBroadcastTo(const OpInstance& instance) {
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const int64_t size = DataTypeSize(instance.outputs[0].dtype);
  if (size == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  StridedCopy copy(size);
  const auto in_strides = RowMajorStrides(in.dims()), out_strides = RowMajorStrides(out.dims());
  for (int i = 0; i < out.rank(); ++i) {
    const int k = i - (out.rank() - in.rank());
    copy.AddDim(out.dim(i), k < 0 || in.dim(k) == 1 ? 0 : in_strides[k], out_strides[i]);
  }
  copy.Prepare();
  return MakeKernel([copy](const KernelContext& context) {
    copy.Run(context, context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  });
}

KernelOr MakeIdentityN(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    for (size_t i = 0; i < context.instance->outputs.size(); ++i) {
      CopyTensor(context, context.inputs[i], context.outputs[i], context.output_type(i).size_bytes());
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterShapeKernels(KernelRegistry& registry) {
  AddKernel(registry, "Shape", MakeShape);
  AddKernel(registry, "ShapeN", MakeShape);
  AddKernel(registry, "Size", MakeSize);
  AddKernel(registry, "Rank", MakeRank);
  AddKernel(registry, "BroadcastGradientArgs", MakeBroadcastGradientArgs);
  AddKernel(registry, "BroadcastArgs", MakeBroadcastArgs);
  AddKernel(registry, "InvertPermutation", MakeInvertPermutation);
  AddKernel(registry, "Fill", ForAnyType(MakeFill));
  AddKernel(registry, "Range", MakeRange);
  AddKernel(registry, "LinSpace", MakeLinSpace);
  AddKernel(registry, "BroadcastTo", ForAnyType(MakeBroadcastTo));
  AddKernel(registry, "IdentityN", MakeIdentityN);
}

}  // namespace millrace::cpu
