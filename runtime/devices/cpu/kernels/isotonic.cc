// IsotonicRegression: the nearest rows, by squares, that never rise.
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/widened.h"

namespace millrace::cpu {
namespace {

// A stretch of a row whose numbers are their mean in the result.
template <typename T>
struct Stretch {
  int64_t first, end;
  T sum;
  T mean() const { return sum / static_cast<T>(end - first); }
};

// Neighbours that rise are joined until none do; equal ones stay apart.
template <typename In, typename T>
void SolveRow(const In* x, int64_t columns, std::vector<Stretch<T>>& stretches, T* y, int32_t* places) {
  stretches.clear();
  for (int64_t i = 0; i < columns; ++i) {
    stretches.push_back({i, i + 1, static_cast<T>(x[i])});
    while (stretches.size() > 1 && stretches[stretches.size() - 2].mean() < stretches.back().mean()) {
      const Stretch<T> last = stretches.back();
      stretches.pop_back();
      stretches.back().end = last.end;
      stretches.back().sum += last.sum;
    }
  }
  for (size_t s = 0; s < stretches.size(); ++s) {
    std::fill(y + stretches[s].first, y + stretches[s].end, stretches[s].mean());
    std::fill(places + stretches[s].first, places + stretches[s].end, static_cast<int32_t>(s));
  }
}

template <typename In, typename T>
std::unique_ptr<Kernel> MakeTyped(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t columns = shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1), rows = columns == 0 ? 0 : shape.num_elements() / columns;
  return MakeKernel([=](const KernelContext& context) {
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(4 * columns, 1), 1), [&](int64_t begin, int64_t end) {
      std::vector<Stretch<T>> stretches;
      for (int64_t r = begin; r < end; ++r) {
        SolveRow(context.input<In>(0) + r * columns, columns, stretches, context.output<T>(0) + r * columns, context.output<int32_t>(1) + r * columns);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeIsotonic(const OpInstance& node) {
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using In = typename decltype(tag)::type;
    return node.outputs[0].dtype == DataType::kDouble ? MakeTyped<In, double>(node) : MakeTyped<In, float>(node);
  });
}

}  // namespace

void RegisterIsotonicKernels(KernelRegistry& registry) { AddKernel(registry, "IsotonicRegression", Widened(MakeIsotonic)); }

}  // namespace millrace::cpu
