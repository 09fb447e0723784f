// Softmax and LogSoftmax over the last dimension.
#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_math.h"

namespace millrace::cpu {
namespace {

// An exponential costs about as much as moving this many elements.
constexpr int64_t kExpWeight = 4;

template <typename S>
void SoftmaxRow(const S* x, int64_t n, S* y) {
  RowExp(x, RowMax(x, n), n, y);
  RowMap<S> row(y, n);
  row *= S(1) / row.sum();
}

// The sum of exponentials is computed piecewise, in place of a row of its own.
template <typename S>
void LogSoftmaxRow(const S* x, int64_t n, S* y) {
  constexpr int64_t kPiece = 512;
  alignas(64) S piece[kPiece];
  const S maximum = RowMax(x, n);
  S sum = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t size = std::min(kPiece, n - i);
    RowExp(x + i, maximum, size, piece);
    sum += RowMap<S>(piece, size).sum();
  }
  const S log_sum = std::log(sum);
  RowMap<S>(y, n) = (ConstRowMap<S>(x, n) - maximum) - log_sum;
}

template <typename T, bool kLog>
absl::StatusOr<std::unique_ptr<Kernel>> MakeTyped(const OpInstance& node) {
  using S = ComputeType<T>;
  const Shape& shape = node.inputs[0].shape;
  const int64_t columns = shape.dim(shape.rank() - 1);
  const int64_t elements = shape.num_elements();
  if (elements == 0) return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
  const int64_t rows = elements / columns;
  const int64_t grain = std::max<int64_t>(kElementGrain / kExpWeight / columns, 1);
  const int64_t shards = NumShards(rows, grain);
  const int64_t scratch = std::is_same_v<T, S> ? 0 : shards * AlignUp(columns * sizeof(S));
  return MakeKernel(
      [=](const KernelContext& context) {
        context.parallel->For(shards, [&](int64_t s) {
          S* buffer = reinterpret_cast<S*>(static_cast<char*>(context.scratch) + s * AlignUp(columns * sizeof(S)));
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            T* to = context.output<T>(0) + r * columns;
            const S* x = LoadRow<T, S>(context.input<T>(0) + r * columns, columns, buffer);
            S* y = WorkRow<T, S>(to, buffer);
            kLog ? LogSoftmaxRow(x, columns, y) : SoftmaxRow(x, columns, y);
            StoreRow<T, S>(y, columns, to);
          }
        });
        return absl::OkStatus();
      },
      scratch);
}

template <bool kLog>
absl::StatusOr<std::unique_ptr<Kernel>> MakeSoftmax(const OpInstance& node) {
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) {
    return MakeTyped<typename decltype(tag)::type, kLog>(node);
  });
}

}  // namespace

void RegisterSoftmaxKernels(KernelRegistry& registry) {
  AddKernel(registry, "Softmax", MakeSoftmax<false>);
  AddKernel(registry, "LogSoftmax", MakeSoftmax<true>);
}

}  // namespace millrace::cpu
