// What the CPU kernels share: fixed shards, element-type dispatch, kernels from lambdas.
//
// Shards depend on sizes alone, never on the number of threads, so bits do not either.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMMON_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMMON_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <Eigen/Core>

#include "absl/strings/str_cat.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

// Elements that one shard of memory-bound work should have at least (64 KiB of floats and more).
inline constexpr int64_t kElementGrain = 32768;
inline constexpr int64_t kMaxShards = 16;

// Shards for `items` units of which one shard should hold at least `grain`.
inline int64_t NumShards(int64_t items, int64_t grain, int64_t max_shards = kMaxShards) {
  return std::clamp<int64_t>(items / std::max<int64_t>(grain, 1), 1, max_shards);
}

// Calls fn(begin, end) over [0, items) cut into NumShards equal ranges, side by side when there are several.
template <typename Fn>
void ParallelRange(const KernelContext& context, int64_t items, int64_t grain, Fn&& fn) {
  const int64_t shards = NumShards(items, grain);
  if (shards == 1) {
    fn(int64_t{0}, items);
    return;
  }
  context.parallel->For(shards, [&](int64_t s) { fn(items * s / shards, items * (s + 1) / shards); });
}

// A kernel whose Run is `fn(const KernelContext&) -> absl::Status` and that needs `scratch` bytes.
template <typename Fn>
std::unique_ptr<Kernel> MakeKernel(Fn fn, int64_t scratch = 0) {
  class LambdaKernel final : public Kernel {
   public:
    LambdaKernel(Fn fn, int64_t scratch) : fn_(std::move(fn)), scratch_(scratch) {}
    int64_t scratch_bytes() const override { return scratch_; }
    absl::Status Run(const KernelContext& context) const override { return fn_(context); }

   private:
    Fn fn_;
    int64_t scratch_;
  };
  return std::unique_ptr<Kernel>(new LambdaKernel(std::move(fn), scratch));  // no unique_ptr of its own type: there are thousands
}

inline absl::Status UnsupportedType(const OpInstance& instance, DataType dtype) {
  return absl::UnimplementedError(absl::StrCat("no CPU kernel of op '", instance.op, "' for element type ",
                                               std::string(DataTypeName(dtype)), " (node '", instance.name, "')"));
}

template <typename T>
struct TypeTag {
  using type = T;
};

// Call visit(TypeTag<T>()) for the C++ type of `dtype`; UnsupportedType for others.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchFloating(const OpInstance& instance, DataType dtype, Visit&& visit) {
  switch (dtype) {
    case DataType::kFloat: return visit(TypeTag<float>());
    case DataType::kDouble: return visit(TypeTag<double>());
    case DataType::kHalf: return visit(TypeTag<Eigen::half>());
    case DataType::kBfloat16: return visit(TypeTag<Eigen::bfloat16>());
    default: return UnsupportedType(instance, dtype);
  }
}

template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchInteger(const OpInstance& instance, DataType dtype, Visit&& visit) {
  switch (dtype) {
    case DataType::kInt8: return visit(TypeTag<int8_t>());
    case DataType::kInt16: return visit(TypeTag<int16_t>());
    case DataType::kInt32: return visit(TypeTag<int32_t>());
    case DataType::kInt64: return visit(TypeTag<int64_t>());
    case DataType::kUint8: return visit(TypeTag<uint8_t>());
    case DataType::kUint16: return visit(TypeTag<uint16_t>());
    case DataType::kUint32: return visit(TypeTag<uint32_t>());
    case DataType::kUint64: return visit(TypeTag<uint64_t>());
    default: return UnsupportedType(instance, dtype);
  }
}

template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchNumeric(const OpInstance& instance, DataType dtype, Visit&& visit) {
  return IsInteger(dtype) ? DispatchInteger(instance, dtype, visit) : DispatchFloating(instance, dtype, visit);
}

// By size of the element: for ops that only move bytes (copy, concat, gather). The types are the unsigned
// integers of 1, 2, 4, 8 bytes and, for 16, complex<double>.
template <typename Visit>
absl::StatusOr<std::unique_ptr<Kernel>> DispatchBySize(const OpInstance& instance, DataType dtype, Visit&& visit) {
  switch (DataTypeSize(dtype)) {
    case 1: return visit(TypeTag<uint8_t>());
    case 2: return visit(TypeTag<uint16_t>());
    case 4: return visit(TypeTag<uint32_t>());
    case 8: return visit(TypeTag<uint64_t>());
    case 16: return visit(TypeTag<std::pair<uint64_t, uint64_t>>());
    default: return UnsupportedType(instance, dtype);
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMMON_H_
