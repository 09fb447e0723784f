// ArgMax and ArgMin.
#include "cpu/kernels/common.h"
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

// Positions are of the first of equal elements; a NaN comes after every number.
template <bool kMin, typename T>
bool Better(T x, T best) {
  return (kMin ? x < best : x > best) || (best != best && x == x);
}

template <bool kMin, typename T>
void ArgRows(const AxisLayout& layout, const T* x, int64_t begin, int64_t end, void* out, bool wide) {
  for (int64_t i = begin; i < end; ++i) {
    const T* row = x + i / layout.inner * layout.length * layout.inner + i % layout.inner;
    int64_t best = 0;
    T best_value = row[0];
    for (int64_t k = 1; k < layout.length; ++k) {
      const T value = row[k * layout.inner];
      if (Better<kMin, T>(value, best_value)) {
        best = k;
        best_value = value;
      }
    }
    if (wide)
      static_cast<int64_t*>(out)[i] = best;
    else
      static_cast<int32_t*>(out)[i] = static_cast<int32_t>(best);
  }
}

template <bool kMin>
absl::StatusOr<std::unique_ptr<Kernel>> MakeArgReduction(const OpInstance& instance) {
  const Shape& shape = instance.inputs[0].shape;
  const DataType index = instance.outputs[0].dtype;
  if (index != DataType::kInt32 && index != DataType::kInt64) return UnsupportedType(instance, index);
  const AxisLayout layout = MakeAxisLayout(shape, instance.input_values[1].IntAt(0));
  const bool wide = index == DataType::kInt64;
  const auto make = [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    using T = typename decltype(tag)::type;
    return MakeKernel([layout, wide](const KernelContext& context) {
      const int64_t outputs = layout.outer * layout.inner;
      ParallelRange(context, outputs, kElementGrain / 4 / std::max<int64_t>(layout.length, 1),
                    [&](int64_t begin, int64_t end) {
                      ArgRows<kMin>(layout, context.input<T>(0), begin, end, context.outputs[0], wide);
                    });
      return absl::OkStatus();
    });
  };
  if (instance.inputs[0].dtype == DataType::kBool) return make(TypeTag<uint8_t>());
  return DispatchNumeric(instance, instance.inputs[0].dtype, make);
}

}  // namespace

AxisLayout MakeAxisLayout(const Shape& shape, int64_t axis) {
  AxisLayout layout;
  if (axis < 0) axis += shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? layout.outer : d == axis ? layout.length : layout.inner) *= shape.dim(d);
  }
  return layout;
}

void RegisterArgReductionKernels(KernelRegistry& registry) {
  AddKernel(registry, "ArgMax", MakeArgReduction<false>);
  AddKernel(registry, "ArgMin", MakeArgReduction<true>);
}

}  // namespace millrace::cpu
