// Fourier transforms of several lines at once, a line in each lane of a vector: every step is the same for all lines, so
// what a line gives does not depend on its neighbours.
//
// Stockham's self-sorting transform (Cochran et al., "What is the fast Fourier transform?", 1967) in mixed radix: a pass
// for each prime factor of the length, of which two and two make a four, from one buffer to the other.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {

// Element `i` of as many lines as a vector has lanes.
template <typename T>
struct ComplexLanes {
  using Vector = GemmVector<T>;
  Vector re, im;

  friend ComplexLanes operator+(const ComplexLanes& a, const ComplexLanes& b) { return {a.re + b.re, a.im + b.im}; }
  friend ComplexLanes operator-(const ComplexLanes& a, const ComplexLanes& b) { return {a.re - b.re, a.im - b.im}; }
  friend ComplexLanes operator*(const ComplexLanes& a, std::complex<T> w) {
    return {a.re * w.real() - a.im * w.imag(), a.re * w.imag() + a.im * w.real()};
  }
};

// By i, or by -i.
template <bool kForward, typename T>
ComplexLanes<T> QuarterTurn(const ComplexLanes<T>& a) {
  return kForward ? ComplexLanes<T>{a.im, -a.re} : ComplexLanes<T>{-a.im, a.re};
}

template <typename T>
class LaneFourier {
 public:
  using Lanes = ComplexLanes<T>;
  static constexpr int kLanes = kGemmLanes<T>;

  // Requires length >= 1. The roots of unity are computed once, in double.
  explicit LaneFourier(int64_t length) : length_(length), roots_(length) {
    for (int64_t k = 0; k < length; ++k) roots_[k] = std::complex<T>(Root(k, length));
    int64_t rest = length;
    const auto take = [&](int64_t radix) {
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    };
    take(4);
    for (int64_t radix = 2; radix * radix <= rest; ++radix) take(radix);
    if (rest > 1) radices_.push_back(rest);
  }

  int64_t length() const { return length_; }
  // exp(-2 pi i k / n)
  static std::complex<double> Root(int64_t k, int64_t n) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    return {std::cos(angle), std::sin(angle)};
  }

  // Transforms `length` elements at `a`, unscaled; gives where the result is, `a` or `b`, which both are overwritten.
  template <bool kForward>
  Lanes* Run(Lanes* a, Lanes* b) const {
    int64_t n = length_, stride = 1;
    for (const int64_t radix : radices_) {
      switch (radix) {
        case 2: Pass2<kForward>(n, stride, a, b); break;
        case 3: Pass3<kForward>(n, stride, a, b); break;
        case 4: Pass4<kForward>(n, stride, a, b); break;
        case 5: Pass5<kForward>(n, stride, a, b); break;
        default: PassOf<kForward>(radix, n, stride, a, b);
      }
      std::swap(a, b);
      n /= radix;
      stride *= radix;
    }
    return a;
  }

 private:
  template <bool kForward>
  std::complex<T> RootAt(int64_t k) const {
    return kForward ? roots_[k] : std::conj(roots_[k]);
  }

  // Every pass: butterfly(inputs, outputs) of `radix` elements stride * m apart, results turned by powers of a root.
  template <bool kForward, int kRadix, typename Butterfly>
  void Pass(int64_t n, int64_t stride, const Lanes* in, Lanes* out, Butterfly&& butterfly) const {
    const int64_t m = n / kRadix;
    for (int64_t p = 0; p < m; ++p) {
      std::complex<T> turn[kRadix];
      for (int j = 1; j < kRadix; ++j) turn[j] = RootAt<kForward>(p * j * stride);
      for (int64_t q = 0; q < stride; ++q) {
        const Lanes* x = in + q + stride * p;
        Lanes* y = out + q + stride * kRadix * p;
        Lanes result[kRadix];
        butterfly(x, stride * m, result);
        y[0] = result[0];
        for (int j = 1; j < kRadix; ++j) y[j * stride] = result[j] * turn[j];
      }
    }
  }

  template <bool kForward>
  void Pass2(int64_t n, int64_t stride, const Lanes* in, Lanes* out) const {
    Pass<kForward, 2>(n, stride, in, out, [](const Lanes* x, int64_t step, Lanes* y) {
      const Lanes a = x[0], b = x[step];
      y[0] = a + b;
      y[1] = a - b;
    });
  }
  template <bool kForward>
  void Pass4(int64_t n, int64_t stride, const Lanes* in, Lanes* out) const {
    Pass<kForward, 4>(n, stride, in, out, [](const Lanes* x, int64_t step, Lanes* y) {
      const Lanes a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
      const Lanes even = a + c, odd = b + d, minus = a - c, turned = QuarterTurn<kForward>(b - d);
      y[0] = even + odd;
      y[1] = minus + turned;
      y[2] = even - odd;
      y[3] = minus - turned;
    });
  }
  template <bool kForward>
  void Pass3(int64_t n, int64_t stride, const Lanes* in, Lanes* out) const {
    static const T half_root3 = static_cast<T>(std::numbers::sqrt3 / 2);
    Pass<kForward, 3>(n, stride, in, out, [](const Lanes* x, int64_t step, Lanes* y) {
      const Lanes a = x[0], sum = x[step] + x[2 * step], difference = x[step] - x[2 * step];
      const Lanes middle = {a.re - sum.re * T(0.5), a.im - sum.im * T(0.5)};
      const Lanes turned = QuarterTurn<kForward>(Lanes{difference.re * half_root3, difference.im * half_root3});
      y[0] = a + sum;
      y[1] = middle + turned;
      y[2] = middle - turned;
    });
  }
  template <bool kForward>
  void Pass5(int64_t n, int64_t stride, const Lanes* in, Lanes* out) const {
    static const T c1 = static_cast<T>(Root(1, 5).real()), c2 = static_cast<T>(Root(2, 5).real());
    static const T s1 = static_cast<T>(-Root(1, 5).imag()), s2 = static_cast<T>(-Root(2, 5).imag());
    Pass<kForward, 5>(n, stride, in, out, [](const Lanes* x, int64_t step, Lanes* y) {
      const Lanes a = x[0], sum1 = x[step] + x[4 * step], sum2 = x[2 * step] + x[3 * step];
      const Lanes diff1 = x[step] - x[4 * step], diff2 = x[2 * step] - x[3 * step];
      const Lanes m1 = {a.re + sum1.re * c1 + sum2.re * c2, a.im + sum1.im * c1 + sum2.im * c2};
      const Lanes m2 = {a.re + sum1.re * c2 + sum2.re * c1, a.im + sum1.im * c2 + sum2.im * c1};
      const Lanes t1 = QuarterTurn<kForward>(Lanes{diff1.re * s1 + diff2.re * s2, diff1.im * s1 + diff2.im * s2});
      const Lanes t2 = QuarterTurn<kForward>(Lanes{diff1.re * s2 - diff2.re * s1, diff1.im * s2 - diff2.im * s1});
      y[0] = a + sum1 + sum2;
      y[1] = m1 + t1;
      y[2] = m2 + t2;
      y[3] = m2 - t2;
      y[4] = m1 - t1;
    });
  }
  // A prime factor above five, by the definition.
  template <bool kForward>
  void PassOf(int64_t radix, int64_t n, int64_t stride, const Lanes* in, Lanes* out) const {
    const int64_t m = n / radix, step = length_ / radix;
    for (int64_t p = 0; p < m; ++p) {
      for (int64_t j = 0; j < radix; ++j) {
        const std::complex<T> turn = RootAt<kForward>(p * j * stride);
        for (int64_t q = 0; q < stride; ++q) {
          const Lanes* x = in + q + stride * p;
          Lanes sum = x[0];
          for (int64_t k = 1, at = j; k < radix; ++k, at += at + j >= radix ? j - radix : j) {
            sum = sum + x[k * stride * m] * RootAt<kForward>(at * step);
          }
          out[q + stride * (radix * p + j)] = sum * turn;
        }
      }
    }
  }

  int64_t length_;
  std::vector<std::complex<T>> roots_;
  std::vector<int64_t> radices_;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_
