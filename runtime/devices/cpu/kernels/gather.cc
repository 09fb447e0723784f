// Gather, GatherNd, OneHot, DynamicStitch and DynamicPartition.
#include <cstring>

#include "cpu/kernels/indices.h"
#include "cpu/kernels/real_shapes.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// params [batch, outer, limit, inner], indices [batch, count] -> [batch, outer, count, inner]
struct GatherLayout {
  int64_t batch = 1, outer = 1, limit = 1, inner_bytes = 0, count = 1;
};

template <typename Index>
KernelOr MakeGatherLoop(const GatherLayout& layout) {
  return MakeKernel([layout](const KernelContext& context) -> absl::Status {
    const Index* indices = context.input<Index>(1);
    MR_RETURN_IF_ERROR(CheckIndices(indices, context.input_type(1).shape, layout.limit, "indices"));
    const char* params = context.input<char>(0);
    char* out = context.output<char>(0);
    const int64_t rows = layout.batch * layout.outer * layout.count, bytes = layout.inner_bytes;
    if (rows == 0 || bytes == 0) return absl::OkStatus();
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain * 4 / bytes, 1), [&](int64_t begin, int64_t end) {
      int64_t slab = begin / layout.count, i = begin % layout.count;  // slab: batch and outer as one
      for (int64_t r = begin; r < end; ++r) {
        const int64_t batch = slab / layout.outer;
        const char* from = params + (slab * layout.limit + indices[batch * layout.count + i]) * bytes;
        CopyRow(out + r * bytes, from, bytes);
        if (++i == layout.count) {
          i = 0;
          ++slab;
        }
      }
    });
    return absl::OkStatus();
  });
}

KernelOr MakeGatherAlong(const OpInstance& instance, int64_t axis, int64_t batch_dims) {
  const Shape &params = instance.inputs[0].shape, &indices = instance.inputs[1].shape;
  const int64_t element = DataTypeSize(instance.outputs[0].dtype);
  if (element == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  if (batch_dims < 0) batch_dims += indices.rank();
  MR_ASSIGN_OR_RETURN(const int d, ResolveAxis(axis, params.rank()));
  GatherLayout layout;
  layout.limit = params.dim(d);
  layout.inner_bytes = element;
  for (int i = 0; i < batch_dims; ++i) layout.batch *= params.dim(i);
  for (int i = static_cast<int>(batch_dims); i < d; ++i) layout.outer *= params.dim(i);
  for (int i = d + 1; i < params.rank(); ++i) layout.inner_bytes *= params.dim(i);
  for (int i = static_cast<int>(batch_dims); i < indices.rank(); ++i) layout.count *= indices.dim(i);
  return DispatchAnyIndex(instance, 1, [&](auto tag) -> KernelOr {
    return MakeGatherLoop<typename decltype(tag)::type>(layout);
  });
}

KernelOr MakeGather(const OpInstance& instance) { return MakeGatherAlong(instance, 0, 0); }

KernelOr MakeGatherV2(const OpInstance& instance) {
  const ValueReader reader(instance);
  if (!reader.planned(2)) return absl::InvalidArgumentError("the axis must be known when the graph is planned");
  MR_ASSIGN_OR_RETURN(const int64_t axis, reader.scalar(2));
  return MakeGatherAlong(instance, axis, instance.attrs.GetOr<int64_t>("batch_dims", 0));
}

KernelOr MakeResourceGather(const OpInstance& instance) {
  int64_t batch_dims = instance.attrs.GetOr<int64_t>("batch_dims", 0);
  if (batch_dims < 0) batch_dims += instance.inputs[1].shape.rank();
  return MakeGatherAlong(instance, batch_dims, batch_dims);
}

KernelOr MakeGatherNd(const OpInstance& instance) {
  const int64_t element = DataTypeSize(instance.outputs[0].dtype);
  if (element == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  const NdLayout layout = MakeNdLayout(instance.inputs[0].shape, instance.inputs[1].shape, element);
  const bool skips_bad = instance.attrs.GetOr<std::string>("bad_indices_policy", "") == "IGNORE";
  return DispatchAnyIndex(instance, 1, [&](auto tag) -> KernelOr {
    using Index = typename decltype(tag)::type;
    return MakeKernel([layout, skips_bad](const KernelContext& context) -> absl::Status {
      const Index* indices = context.input<Index>(1);
      if (!skips_bad) {
        MR_RETURN_IF_ERROR(CheckNdIndices(layout, indices, context.input_type(1).shape, context.input_type(0).shape));
      }
      if (layout.slice_bytes == 0) return absl::OkStatus();
      const char* params = context.input<char>(0);
      char* out = context.output<char>(0);
      ParallelRange(context, layout.rows, std::max<int64_t>(kElementGrain * 4 / layout.slice_bytes, 1),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t r = begin; r < end; ++r) {
                        char* to = out + r * layout.slice_bytes;
                        if (skips_bad && !layout.Inside(indices, r)) {
                          std::memset(to, 0, layout.slice_bytes);
                        } else {
                          CopyRow(to, params + layout.Row(indices, r) * layout.slice_bytes, layout.slice_bytes);
                        }
                      }
                    });
      return absl::OkStatus();
    });
  });
}

// Indices outside [0, depth) give a row of off values, as in TensorFlow.
template <typename T, typename Index>
absl::Status OneHot(const KernelContext& context, int64_t inner, int64_t depth) {
  const Index* indices = context.input<Index>(0);
  const T on = *context.input<T>(2), off = *context.input<T>(3);
  T* out = context.output<T>(0);
  const int64_t count = context.input_type(0).shape.num_elements();
  const int64_t outer = inner == 0 ? 0 : count / inner;
  ParallelRange(context, outer, std::max<int64_t>(kElementGrain / std::max<int64_t>(inner * depth, 1), 1),
                [&](int64_t begin, int64_t end) {
                  std::fill(out + begin * inner * depth, out + end * inner * depth, off);
                  for (int64_t o = begin; o < end; ++o) {
                    for (int64_t i = 0; i < inner; ++i) {
                      const int64_t index = static_cast<int64_t>(indices[o * inner + i]);
                      if (index >= 0 && index < depth) out[(o * depth + index) * inner + i] = on;
                    }
                  }
                });
  return absl::OkStatus();
}

KernelOr MakeOneHot(const OpInstance& instance) {
  const Shape &indices = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(instance.attrs.GetOr<int64_t>("axis", -1), out.rank()));
  int64_t inner = 1;
  for (int i = axis; i < indices.rank(); ++i) inner *= indices.dim(i);
  const int64_t depth = out.dim(axis);
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto value) -> KernelOr {
    using T = typename decltype(value)::type;
    auto make = [&](auto index) -> KernelOr {
      using Index = typename decltype(index)::type;
      return MakeKernel(
          [inner, depth](const KernelContext& context) { return OneHot<T, Index>(context, inner, depth); });
    };
    if (instance.inputs[0].dtype == DataType::kUint8) return make(TypeTag<uint8_t>());
    if (instance.inputs[0].dtype == DataType::kInt8) return make(TypeTag<int8_t>());
    return DispatchIndex(instance, 0, make);
  });
}

KernelOr MakeDynamicStitch(const OpInstance& instance) {
  const int count = static_cast<int>(instance.inputs.size()) / 2;
  const Shape& out = instance.outputs[0].shape;
  int64_t row_bytes = DataTypeSize(instance.outputs[0].dtype);
  if (row_bytes == 0) return UnsupportedType(instance, instance.outputs[0].dtype);
  for (int i = 1; i < out.rank(); ++i) row_bytes *= out.dim(i);
  return MakeKernel([count, row_bytes](const KernelContext& context) -> absl::Status {
    const ValueReader reader(context);
    const Shape& planned = context.output_type(0).shape;
    char* to = context.output<char>(0);
    char* const named = static_cast<char*>(context.scratch);  // by row: whether an index names it
    std::fill_n(named, planned.dim(0), 0);
    int64_t rows = 0, written = 0;
    for (int i = 0; i < count; ++i) {
      const auto* indices = static_cast<const int32_t*>(reader.data(i));
      const int64_t entries = context.input_type(i).shape.num_elements();
      for (int64_t k = 0; k < entries; ++k) {
        if (indices[k] >= planned.dim(0)) {
          return absl::UnimplementedError(absl::StrCat("indices[", i, "] holds ", indices[k], ", which leaves gaps: they are not covered where indices are ",
                                                       "known only when running, its output was planned with at most ", planned.dim(0), " rows"));
        }
        if (indices[k] < 0) {
          return absl::InvalidArgumentError(absl::StrCat("indices[", i, "] holds ", indices[k], ", which is not in [0, ",
                                                         planned.dim(0), ")"));
        }
        rows = std::max<int64_t>(rows, indices[k] + 1);
        written += named[indices[k]] == 0;
        named[indices[k]] = 1;
      }
    }
    // Rows that no index names would otherwise hold what was in memory before.
    if (written < rows) FillZero(context, to, rows * row_bytes);
    for (int i = 0; i < count; ++i) {
      const auto* indices = static_cast<const int32_t*>(reader.data(i));
      const char* from = context.input<char>(count + i);
      const int64_t entries = context.input_type(i).shape.num_elements();
      for (int64_t k = 0; k < entries; ++k) CopyRow(to + indices[k] * row_bytes, from + k * row_bytes, row_bytes);
    }
    if (rows != planned.dim(0)) SetRealDim(context, 0, 0, rows);
    return absl::OkStatus();
  }, out.dim(0));
}

KernelOr MakeDynamicPartition(const OpInstance& instance) {
  const int64_t count = static_cast<int64_t>(instance.outputs.size());
  const Shape &data = instance.inputs[0].shape, &partitions = instance.inputs[1].shape;
  int64_t row_bytes = DataTypeSize(instance.inputs[0].dtype);
  if (row_bytes == 0) return UnsupportedType(instance, instance.inputs[0].dtype);
  for (int i = partitions.rank(); i < data.rank(); ++i) row_bytes *= data.dim(i);
  return MakeKernel([count, row_bytes](const KernelContext& context) -> absl::Status {
    const auto* partitions = static_cast<const int32_t*>(ValueReader(context).data(1));
    const Shape& shape = context.input_type(1).shape;
    MR_RETURN_IF_ERROR(CheckIndices(partitions, shape, count, "partitions"));
    std::vector<int64_t> rows(count, 0);
    const int64_t entries = shape.num_elements();
    const char* in = context.input<char>(0);
    for (int64_t k = 0; k < entries; ++k) {
      const int32_t p = partitions[k];
      CopyRow(context.output<char>(p) + rows[p]++ * row_bytes, in + k * row_bytes, row_bytes);
    }
    for (int64_t p = 0; p < count; ++p) SetRealDim(context, p, 0, rows[p]);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterGatherKernels(KernelRegistry& registry) {
  AddKernel(registry, "Gather", ForAnyType(MakeGather));
  AddKernel(registry, "GatherV2", ForAnyType(MakeGatherV2));
  AddKernel(registry, "ResourceGather", MakeResourceGather);
  AddKernel(registry, "GatherNd", ForAnyType(MakeGatherNd));
  AddKernel(registry, "ResourceGatherNd", MakeGatherNd);
  AddKernel(registry, "OneHot", ForAnyType(MakeOneHot));
  AddKernel(registry, "DynamicStitch", ForAnyType(MakeDynamicStitch));
  AddKernel(registry, "ParallelDynamicStitch", ForAnyType(MakeDynamicStitch));
  AddKernel(registry, "DynamicPartition", ForAnyType(MakeDynamicPartition));
}

}  // namespace millrace::cpu
