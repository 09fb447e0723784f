// Unary elementwise kernels: a loop per (operation, computed type), everything else shared.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNARY_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNARY_H_

#include "cpu/kernels/binary.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"

namespace millrace::cpu {

// y[i] = op x[i]. `y` may be `x` itself when the elements have the same size.
using UnaryLoop = void (*)(const void* x, void* y, int64_t n);

using UnaryLoops = TypedLoops<UnaryLoop>;

struct UnaryOptions {
  bool tests = false;  // the output is bool
  int64_t grain = kElementGrain;
};
// Elements of a shard of something like exp, and of something like lgamma.
inline constexpr int64_t kMathGrain = 8192;
inline constexpr int64_t kSpecialGrain = 1024;

void RegisterUnary(KernelRegistry& registry, const char* op, UnaryLoops loops, UnaryOptions options = {});

// Op::Apply(T) -> R over an array; the compiler vectorises what it can.
template <typename Op, typename T, typename R = T>
void UnaryLoopOver(const void* vx, void* vy, int64_t n) {
  const T* x = static_cast<const T*>(vx);
  R* y = static_cast<R*>(vy);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Op::Apply(x[i]);
}

template <typename Op>
UnaryLoops FloatingUnary() {
  return {.on_float = &UnaryLoopOver<Op, float>, .on_double = &UnaryLoopOver<Op, double>};
}
template <typename Op>
UnaryLoops NumericUnary() {
  return {.on_float = &UnaryLoopOver<Op, float>,
          .on_double = &UnaryLoopOver<Op, double>,
          .on_int32 = &UnaryLoopOver<Op, int32_t>,
          .on_int64 = &UnaryLoopOver<Op, int64_t>,
          .on_uint64 = &UnaryLoopOver<Op, uint64_t>};
}

// 1 / x, which is the power of minus one too.
struct Reciprocal {
  template <typename T>
  static T Apply(T x) {
    return T{1} / x;
  }
};

// Op::Apply(T, T) -> T over two arrays of equal shape, for gradients of unary ops.
template <typename Op, typename T>
void PairLoopOver(BinaryMode, const void* va, const void* vb, void* vout, int64_t n) {
  const T* a = static_cast<const T*>(va);
  const T* b = static_cast<const T*>(vb);
  T* out = static_cast<T*>(vout);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i], b[i]);
}
template <typename Op>
BinaryLoops FloatingPairs() {
  return {.on_float = &PairLoopOver<Op, float>, .on_double = &PairLoopOver<Op, double>};
}
template <typename Op>
BinaryLoops NumericPairs() {
  BinaryLoops loops = FloatingPairs<Op>();
  loops.on_int32 = &PairLoopOver<Op, int32_t>;
  loops.on_int64 = &PairLoopOver<Op, int64_t>;
  loops.on_uint64 = &PairLoopOver<Op, uint64_t>;
  return loops;
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UNARY_H_
