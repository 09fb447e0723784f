// Functions of complex numbers over arrays, many at a time: in double, with what lies at the edges (nothing, infinities, NaN, powers
// that leave the range) by the standard library.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_MATH_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_MATH_H_

#include <complex>
#include <cstdint>

namespace millrace::cpu {

// y[i] of x[i]; `y` may be `x` itself. Of float and double.
template <typename T>
void ComplexSqrt(const std::complex<T>* x, std::complex<T>* y, int64_t n);
template <typename T>
void ComplexRsqrt(const std::complex<T>* x, std::complex<T>* y, int64_t n);
template <typename T>
void ComplexLog(const std::complex<T>* x, std::complex<T>* y, int64_t n);
// Of float; there is a function of double that is as fast as its parts.
void ComplexExp(const std::complex<float>* x, std::complex<float>* y, int64_t n);

// out[i] = a[i * a_step] / b[i * b_step], steps being 0 or 1, with the bits of the operator.
template <typename T>
void ComplexDivide(const std::complex<T>* a, int64_t a_step, const std::complex<T>* b, int64_t b_step, std::complex<T>* out, int64_t n);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COMPLEX_MATH_H_
