// InTopK and NthElement: the order of values in a row.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

// Whether fewer than k classes are larger than the target. As in TensorFlow it is not, when the target or any class
// met on the way is not finite, or the target is not a class.
bool IsInTopK(const float* row, int64_t classes, int64_t target, int64_t k) {
  if (target < 0 || target >= classes || !std::isfinite(row[target])) return false;
  int64_t larger = 0;
  for (int64_t c = 0; c < classes && larger <= k; ++c) {
    if (!std::isfinite(row[c])) return false;
    if (row[c] > row[target]) ++larger;
  }
  return larger < k;
}

template <typename Target>
std::unique_ptr<Kernel> MakeInTopKTyped(const OpInstance& node) {
  const int64_t rows = node.inputs[0].shape.dim(0), classes = node.inputs[0].shape.dim(1);
  const int64_t k_attr = node.attrs.GetOr<int64_t>("k", 0);
  const bool k_is_input = node.op == "InTopKV2";
  return MakeKernel([=](const KernelContext& context) {
    const int64_t k = k_is_input ? static_cast<int64_t>(*context.input<Target>(2)) : k_attr;
    const int64_t grain = std::max<int64_t>(kElementGrain / std::max<int64_t>(classes, 1), 1);
    ParallelRange(context, rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        context.output<bool>(0)[r] =
            IsInTopK(context.input<float>(0) + r * classes, classes, context.input<Target>(1)[r], k);
      }
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeInTopK(const OpInstance& node) {
  switch (node.inputs[1].dtype) {
    case DataType::kInt32: return MakeInTopKTyped<int32_t>(node);
    case DataType::kInt64: return MakeInTopKTyped<int64_t>(node);
    default: return UnsupportedType(node, node.inputs[1].dtype);
  }
}

template <typename T>
std::unique_ptr<Kernel> MakeNthTyped(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t columns = shape.dim(shape.rank() - 1), rows = node.outputs[0].shape.num_elements();
  const bool reverse = node.attrs.GetOr<bool>("reverse", false);
  const int64_t shards = NumShards(rows, std::max<int64_t>(kElementGrain / std::max<int64_t>(4 * columns, 1), 1));
  const int64_t stride = AlignUp(columns * sizeof(T));
  return MakeKernel(
      [=](const KernelContext& context) {
        const int64_t n = *context.input<int32_t>(1);
        if (n < 0 || n >= columns) {
          return absl::InvalidArgumentError(absl::StrCat("n is ", n, ", expected [0, ", columns, ")"));
        }
        const int64_t place = reverse ? columns - 1 - n : n;
        context.parallel->For(shards, [&](int64_t s) {
          T* row = reinterpret_cast<T*>(static_cast<char*>(context.scratch) + s * stride);
          for (int64_t r = rows * s / shards; r < rows * (s + 1) / shards; ++r) {
            std::copy_n(context.input<T>(0) + r * columns, columns, row);
            std::nth_element(row, row + place, row + columns);
            context.output<T>(0)[r] = row[place];
          }
        });
        return absl::OkStatus();
      },
      shards * stride);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeNthElement(const OpInstance& node) {
  return DispatchNumeric(node, node.inputs[0].dtype,
                         [&](auto tag) { return MakeNthTyped<typename decltype(tag)::type>(node); });
}

}  // namespace

void RegisterRankKernels(KernelRegistry& registry) {
  for (const char* name : {"InTopK", "InTopKV2"}) AddKernel(registry, name, MakeInTopK);
  AddKernel(registry, "NthElement", MakeNthElement);
}

}  // namespace millrace::cpu
