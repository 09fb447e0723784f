// Complex numbers: their arithmetic, and the elementwise ops and reductions of them.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_H_

#include "cuda/launch/elementwise.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {

// As it lies in tensors; a load of one is one instruction.
template <typename T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;
};

template <typename T>
MR_DEVICE inline Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
MR_DEVICE inline Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename T>
MR_DEVICE inline Complex<T> operator-(Complex<T> a) {
  return {-a.re, -a.im};
}
// Without the second look at infinities that C++ takes, as the CPU's kernels do it.
template <typename T>
MR_DEVICE inline Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T>
MR_DEVICE inline Complex<T> Scaled(Complex<T> a, T by) {
  return {a.re * by, a.im * by};
}
template <typename T>
MR_DEVICE inline Complex<T> Conjugate(Complex<T> a) {
  return {a.re, -a.im};
}
template <typename T>
MR_DEVICE inline bool operator==(Complex<T> a, Complex<T> b) {
  return a.re == b.re && a.im == b.im;
}

enum class ComplexUnary { kNeg, kSquare, kReciprocal, kSign, kConj };
enum class ComplexPart { kReal, kImag, kAbs, kAngle };
enum class ComplexBinary {
  kAdd, kSub, kMul, kDiv, kDivNoNan, kMulNoNan, kSquaredDifference,
  kReciprocalGrad, kSqrtGrad, kRsqrtGrad, kTanhGrad, kSigmoidGrad
};

// `type`: of the parts, kFloat or kDouble, here and below. `y` may be `x`.
void LaunchComplexUnary(const Queue& queue, ComplexUnary op, Type type, const void* x, void* y, int64_t n);
// A real number of each complex one.
void LaunchComplexPart(const Queue& queue, ComplexPart part, Type type, const void* x, void* y, int64_t n);
void LaunchComplexBinary(const Queue& queue, ComplexBinary op, Type type, const Broadcast& shape, const void* a, const void* b, void* y);
void LaunchComplexEqual(const Queue& queue, bool negated, Type type, const Broadcast& shape, const void* a, const void* b, bool* y);
// Complex numbers of real and imaginary parts.
void LaunchComplexJoin(const Queue& queue, Type type, const Broadcast& shape, const void* re, const void* im, void* y);

// Real numbers become real parts, and real types keep the real parts of complex ones, whose types here are those of their parts.
void LaunchRealToComplex(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n);
void LaunchComplexToReal(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n);
void LaunchComplexToComplex(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n);

// kSum, kMean and kProd, in double precision.
int64_t ComplexReduceScratchBytes(const ReduceShape& shape);
void LaunchComplexReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y, void* partial);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_H_
