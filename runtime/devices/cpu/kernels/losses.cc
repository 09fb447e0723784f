// Softmax cross entropy with dense or sparse labels: the loss of every row and its gradient.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_math.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kExpWeight = 4;

// A matrix that is broadcast to the batch: element (r, c) is data[r * row + c * column].
struct Strides {
  int64_t row;
  int64_t column;
};

Strides BroadcastStrides(const Shape& shape) {
  const int64_t columns = shape.rank() < 1 ? 1 : shape.dim(shape.rank() - 1);
  const int64_t rows = shape.rank() < 2 ? 1 : shape.dim(0);
  return {rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
}

template <typename T, typename S>
void LoadStrided(const T* x, Strides strides, int64_t row, int64_t n, S* y) {
  const T* from = x + row * strides.row;
  if (strides.column == 0) {
    std::fill(y, y + n, static_cast<S>(*from));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<S>(from[i]);
  }
}

// `x` holds the logits and becomes the gradient; `labels` and `exps` are rows too. Returns the loss.
template <typename S>
S CrossEntropyRow(const S* labels, int64_t n, S* exps, S* x) {
  RowMap<S> row(x, n), exponentials(exps, n);
  const ConstRowMap<S> label(labels, n);
  row -= RowMax(x, n);
  RowExp(x, S(0), n, exps);
  const S sum = exponentials.sum();
  const S loss = (label * (std::log(sum) - row)).sum();
  row = exponentials / sum - label;
  return loss;
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeDense(const OpInstance& node) {
  using S = ComputeType<T>;
  const int64_t rows = node.outputs[1].shape.dim(0), columns = node.outputs[1].shape.dim(1);
  const Strides logits = BroadcastStrides(node.inputs[0].shape), labels = BroadcastStrides(node.inputs[1].shape);
  const int64_t shards = NumShards(rows, std::max<int64_t>(kElementGrain / kExpWeight / std::max<int64_t>(columns, 1), 1));
  const int64_t row_bytes = AlignUp(columns * sizeof(S));
  return MakeKernel(
      [=](const KernelContext& context) {
        T* loss = context.output<T>(0);
        if (columns == 0) std::fill(loss, loss + rows, T(0));
        if (rows == 0 || columns == 0) return absl::OkStatus();
        context.parallel->For(shards, [&](int64_t s) {
          char* base = static_cast<char*>(context.scratch) + s * 3 * row_bytes;
          S *label = reinterpret_cast<S*>(base), *exps = reinterpret_cast<S*>(base + row_bytes);
          S* x = reinterpret_cast<S*>(base + 2 * row_bytes);
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            LoadStrided(context.input<T>(0), logits, r, columns, x);
            LoadStrided(context.input<T>(1), labels, r, columns, label);
            loss[r] = static_cast<T>(CrossEntropyRow(label, columns, exps, x));
            T* gradient = context.output<T>(1) + r * columns;
            for (int64_t i = 0; i < columns; ++i) gradient[i] = static_cast<T>(x[i]);
          }
        });
        return absl::OkStatus();
      },
      shards * 3 * row_bytes);
}

template <typename Label>
absl::Status CheckLabels(const Label* labels, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] < 0 || labels[r] >= classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("label ", labels[r], " of row ", r, " is out of range, expected [0, ", classes, ")"));
    }
  }
  return absl::OkStatus();
}

template <typename T, typename Label>
absl::StatusOr<std::unique_ptr<Kernel>> MakeSparse(const OpInstance& node) {
  using S = ComputeType<T>;
  const int64_t rows = node.inputs[0].shape.dim(0), columns = node.inputs[0].shape.dim(1);
  const int64_t shards = NumShards(rows, std::max<int64_t>(kElementGrain / kExpWeight / std::max<int64_t>(columns, 1), 1));
  const int64_t row_bytes = AlignUp(columns * sizeof(S));
  const int64_t scratch = std::is_same_v<T, S> ? 0 : shards * row_bytes;
  return MakeKernel(
      [=](const KernelContext& context) {
        const Label* labels = context.input<Label>(1);
        const absl::Status checked = CheckLabels(labels, rows, columns);
        if (!checked.ok() || rows == 0) return checked;
        context.parallel->For(shards, [&](int64_t s) {
          S* buffer = reinterpret_cast<S*>(static_cast<char*>(context.scratch) + s * row_bytes);
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            T* to = context.output<T>(1) + r * columns;
            const S* x = LoadRow<T, S>(context.input<T>(0) + r * columns, columns, buffer);
            S* y = WorkRow<T, S>(to, buffer);
            const S maximum = RowMax(x, columns), wanted = x[labels[r]];
            RowExp(x, maximum, columns, y);
            RowMap<S> row(y, columns);
            const S sum = row.sum();
            context.output<T>(0)[r] = static_cast<T>(std::log(sum) - (wanted - maximum));
            row *= S(1) / sum;
            y[labels[r]] -= S(1);
            StoreRow<T, S>(y, columns, to);
          }
        });
        return absl::OkStatus();
      },
      scratch);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDenseCrossEntropy(const OpInstance& node) {
  return DispatchFloating(node, node.inputs[0].dtype,
                          [&](auto tag) { return MakeDense<typename decltype(tag)::type>(node); });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseCrossEntropy(const OpInstance& node) {
  const DataType labels = node.inputs[1].dtype;
  if (labels != DataType::kInt32 && labels != DataType::kInt64) return UnsupportedType(node, labels);
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return labels == DataType::kInt32 ? MakeSparse<T, int32_t>(node) : MakeSparse<T, int64_t>(node);
  });
}

}  // namespace

void RegisterLossKernels(KernelRegistry& registry) {
  AddKernel(registry, "SoftmaxCrossEntropyWithLogits", MakeDenseCrossEntropy);
  AddKernel(registry, "SparseSoftmaxCrossEntropyWithLogits", MakeSparseCrossEntropy);
}

}  // namespace millrace::cpu
