// Binary elementwise kernels: a loop per (operation, computed type), everything else shared.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BINARY_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BINARY_H_

#include <memory>

#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"

namespace millrace::cpu {

// Which operands are arrays of n elements, and which one element.
enum class BinaryMode { kVectorVector, kVectorScalar, kScalarVector };

// out[i] = a[i] op b[i]. `out` may be `a` or `b` themselves when the elements have the same size.
using BinaryLoop = void (*)(BinaryMode mode, const void* a, const void* b, void* out, int64_t n);

// The loops of one operation by computed type (see convert.h); null where it has none.
template <typename Loop>
struct TypedLoops {
  Loop on_float = nullptr;
  Loop on_double = nullptr;
  Loop on_int32 = nullptr;
  Loop on_int64 = nullptr;
  Loop on_uint64 = nullptr;

  Loop For(DataType compute) const {
    switch (compute) {
      case DataType::kFloat: return on_float;
      case DataType::kDouble: return on_double;
      case DataType::kInt32: return on_int32;
      case DataType::kInt64: return on_int64;
      case DataType::kUint64: return on_uint64;
      default: return nullptr;
    }
  }
};
using BinaryLoops = TypedLoops<BinaryLoop>;

// A loop with the conversions of its operands and result around it.
class ConvertedLoop {
 public:
  ConvertedLoop() = default;
  // `compares`: the loop gives bools whatever the operands are.
  ConvertedLoop(BinaryLoop loop, DataType dtype, bool compares);
  // Of bytes, without conversion.
  explicit ConvertedLoop(BinaryLoop loop) : loop_(loop), input_bytes_(1), output_bytes_(1) {}

  void Run(BinaryMode mode, const char* a, const char* b, char* out, int64_t n) const;
  int64_t input_bytes() const { return input_bytes_; }
  int64_t output_bytes() const { return output_bytes_; }

 private:
  BinaryLoop loop_ = nullptr;
  Widening input_;
  ConvertFn store_ = nullptr;
  int64_t input_bytes_ = 0;
  int64_t output_bytes_ = 0;
};

// What an integer operation refuses in its second operand.
enum class DivisorCheck { kNone, kZero, kNegative };

struct BinaryOptions {
  bool compares = false;          // the output is bool
  int64_t grain = kElementGrain;  // elements of a shard
  DivisorCheck check = DivisorCheck::kNone;
};

// Kernel of inputs 0 and 1 broadcast to output 0, their shapes as given.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBinaryKernel(const OpInstance& instance, const BinaryLoops& loops,
                                                         const BinaryOptions& options, const Shape& a, const Shape& b,
                                                         const Shape& output);

// Kernel of two inputs of bytes (bools) broadcast to an output of bytes.
std::unique_ptr<Kernel> MakeBytesKernel(BinaryLoop loop, const Shape& a, const Shape& b, const Shape& output);

// Registers `op` with TensorFlow's broadcasting.
void RegisterBinary(KernelRegistry& registry, const char* op, BinaryLoops loops, BinaryOptions options = {});

// Whether an integer array holds a zero.
bool AnyZero(const void* data, int64_t element_bytes, int64_t n);

// The loops of arithmetic that other kernels use too.
BinaryLoops AddLoops();
BinaryLoops SubLoops();
BinaryLoops MulLoops();
BinaryLoops DivLoops();
BinaryLoops MaximumLoops();
BinaryLoops MinimumLoops();

// Op::Apply(T, T) -> R over arrays; the compiler vectorises it.
template <typename Op, typename T, typename R = T>
void LoopOver(BinaryMode mode, const void* va, const void* vb, void* vout, int64_t n) {
  const T* a = static_cast<const T*>(va);
  const T* b = static_cast<const T*>(vb);
  R* out = static_cast<R*>(vout);
  switch (mode) {
    case BinaryMode::kVectorVector:
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i], b[i]);
      break;
    case BinaryMode::kVectorScalar: {
      const T scalar = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i], scalar);
      break;
    }
    case BinaryMode::kScalarVector: {
      const T scalar = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(scalar, b[i]);
      break;
    }
  }
}

template <typename Op>
BinaryLoops FloatingLoops() {
  return {.on_float = &LoopOver<Op, float>, .on_double = &LoopOver<Op, double>};
}
template <typename Op>
BinaryLoops IntegerLoops() {
  return {.on_int32 = &LoopOver<Op, int32_t>, .on_int64 = &LoopOver<Op, int64_t>, .on_uint64 = &LoopOver<Op, uint64_t>};
}
template <typename Op>
BinaryLoops NumericLoops() {
  BinaryLoops loops = IntegerLoops<Op>();
  loops.on_float = &LoopOver<Op, float>;
  loops.on_double = &LoopOver<Op, double>;
  return loops;
}
// Op::Apply(T, T) -> bool.
template <typename Op>
BinaryLoops ComparisonLoops() {
  return {.on_float = &LoopOver<Op, float, bool>,
          .on_double = &LoopOver<Op, double, bool>,
          .on_int32 = &LoopOver<Op, int32_t, bool>,
          .on_int64 = &LoopOver<Op, int64_t, bool>,
          .on_uint64 = &LoopOver<Op, uint64_t, bool>};
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_BINARY_H_
