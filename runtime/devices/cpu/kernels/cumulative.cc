// Cumsum, Cumprod and Bucketize.
#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

struct ScanLayout : AxisLayout {
  bool exclusive = false;
  bool reverse = false;
};

// Running totals are kept in double or uint64 for many inner elements at a time.
template <typename T>
using TotalOf = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
constexpr int64_t kScanColumns = 256;

template <typename T, bool kProduct>
void ScanColumns(const ScanLayout& layout, const T* x, T* y, int64_t columns) {
  using Total = TotalOf<T>;
  std::array<Total, kScanColumns> total;
  total.fill(kProduct ? 1 : 0);
  for (int64_t step = 0; step < layout.length; ++step) {
    const int64_t at = (layout.reverse ? layout.length - 1 - step : step) * layout.inner;
    for (int64_t c = 0; c < columns; ++c) {
      const Total value = static_cast<Total>(x[at + c]), before = total[c];
      total[c] = kProduct ? before * value : before + value;
      y[at + c] = static_cast<T>(layout.exclusive ? before : total[c]);
    }
  }
}

template <bool kProduct>
absl::StatusOr<std::unique_ptr<Kernel>> MakeScan(const OpInstance& instance) {
  const ScanLayout layout = {MakeAxisLayout(instance.inputs[0].shape, instance.input_values[1].IntAt(0)),
                             instance.attrs.GetOr<bool>("exclusive", false),
                             instance.attrs.GetOr<bool>("reverse", false)};
  return DispatchNumeric(instance, instance.inputs[0].dtype, [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    using T = typename decltype(tag)::type;
    return MakeKernel([layout](const KernelContext& context) {
      const int64_t chunks = (layout.inner + kScanColumns - 1) / kScanColumns;
      const int64_t grain =
          kElementGrain / 4 / std::max<int64_t>(layout.length * std::min(layout.inner, kScanColumns), 1);
      ParallelRange(context, layout.outer * chunks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % chunks * kScanColumns;
          const int64_t at = i / chunks * layout.length * layout.inner + first;
          ScanColumns<T, kProduct>(layout, context.input<T>(0) + at, context.output<T>(0) + at,
                                   std::min(kScanColumns, layout.inner - first));
        }
      });
      return absl::OkStatus();
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeBucketizeOf(const OpInstance& instance) {
  const int64_t elements = instance.inputs[0].shape.num_elements();
  return MakeKernel([elements, boundaries = instance.attrs.GetOr<std::vector<float>>("boundaries", {})](
                        const KernelContext& context) {
    ParallelRange(context, elements, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), context.input<T>(0)[i]);
        context.output<int32_t>(0)[i] = static_cast<int32_t>(above - boundaries.begin());
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBucketize(const OpInstance& instance) {
  switch (instance.inputs[0].dtype) {
    case DataType::kFloat:
      return MakeBucketizeOf<float>(instance);
    case DataType::kDouble:
      return MakeBucketizeOf<double>(instance);
    case DataType::kInt32:
      return MakeBucketizeOf<int32_t>(instance);
    case DataType::kInt64:
      return MakeBucketizeOf<int64_t>(instance);
    default:
      return UnsupportedType(instance, instance.inputs[0].dtype);
  }
}

}  // namespace

void RegisterCumulativeKernels(KernelRegistry& registry) {
  AddKernel(registry, "Cumsum", MakeScan<false>);
  AddKernel(registry, "Cumprod", MakeScan<true>);
  AddKernel(registry, "Bucketize", MakeBucketize);
}

}  // namespace millrace::cpu
