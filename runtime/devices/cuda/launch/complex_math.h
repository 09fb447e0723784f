// Complex division, and what tells special numbers apart. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_MATH_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_MATH_H_

#include "cuda/launch/complex.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {

template <typename T>
MR_DEVICE inline bool IsNan(T x) {
  return x != x;
}
template <typename T>
MR_DEVICE inline bool IsFinite(T x) {
  return x - x == T(0);
}
template <typename T>
MR_DEVICE inline bool IsInfinite(T x) {
  return !IsFinite(x) && !IsNan(x);
}
template <typename T>
MR_DEVICE inline bool IsZero(Complex<T> x) {
  return x.re == T(0) && x.im == T(0);
}

// The quotient as far as finite numbers go: in double for floats; doubles by Smith's way, which overflows late.
MR_DEVICE inline Complex<float> Quotient(Complex<float> a, Complex<float> b) {
  const double c = b.re, d = b.im, square = c * c + d * d;
  return {static_cast<float>((a.re * c + a.im * d) / square), static_cast<float>((a.im * c - a.re * d) / square)};
}
MR_DEVICE inline Complex<double> Quotient(Complex<double> a, Complex<double> b) {
  if (fabs(b.re) < fabs(b.im)) {
    const double ratio = b.re / b.im, square = b.re * ratio + b.im;
    return {(a.re * ratio + a.im) / square, (a.im * ratio - a.re) / square};
  }
  const double ratio = b.im / b.re, square = b.im * ratio + b.re;
  return {(a.im * ratio + a.re) / square, (a.im - a.re * ratio) / square};
}

// What a NaN should have been: by zero, of infinities, by infinities (C11, annex G).
template <typename T>
MR_DEVICE Complex<T> operator/(Complex<T> a, Complex<T> b) {
  const Complex<T> quotient = Quotient(a, b);
  if (!IsNan(quotient.re) || !IsNan(quotient.im)) return quotient;
  const auto unit = [](T x) { return copysign(IsInfinite(x) ? T(1) : T(0), x); };
  const T infinity = static_cast<T>(INFINITY);
  if (b.re == T(0) && b.im == T(0) && (!IsNan(a.re) || !IsNan(a.im))) return Scaled(a, static_cast<T>(copysign(infinity, b.re)));
  if ((IsInfinite(a.re) || IsInfinite(a.im)) && IsFinite(b.re) && IsFinite(b.im)) {
    const T x = unit(a.re), y = unit(a.im);
    return {infinity * (x * b.re + y * b.im), infinity * (y * b.re - x * b.im)};
  }
  if ((IsInfinite(b.re) || IsInfinite(b.im)) && IsFinite(a.re) && IsFinite(a.im)) {
    const T c = unit(b.re), d = unit(b.im);
    return {T(0) * (a.re * c + a.im * d), T(0) * (a.im * c - a.re * d)};
  }
  return quotient;
}

// fn(Tag of the type of the parts).
template <typename Fn>
void ForParts(Type type, const Fn& fn) {
  type == Type::kDouble ? fn(Tag<double>()) : fn(Tag<float>());
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_COMPLEX_MATH_H_
