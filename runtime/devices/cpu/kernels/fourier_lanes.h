// Fourier transforms of several lines at once, a line in each lane of a vector: every step is the same for all lines, so
// what a line gives does not depend on its neighbours.
//
// Stockham's self-sorting transform (Cochran et al., "What is the fast Fourier transform?", 1967) in mixed radix: a pass
// for each prime factor of the length, of which two and two make a four, from one buffer to the other. A length with a large
// prime factor is a convolution with a chirp (Bluestein, "A linear filtering approach to the computation of discrete Fourier
// transform", 1970), by transforms of a power of two.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <memory>
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

  // Requires length >= 1. The roots of unity are computed once, in double; without them (`tables` false) Run must not be called.
  explicit LaneFourier(int64_t length, bool tables = true) : length_(length), room_(length) {
    int64_t rest = length;
    const auto take = [&](int64_t radix) {
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    };
    take(4);
    for (int64_t radix = 2; radix <= kLargestRadix; ++radix) take(radix);
    if (rest > 1) room_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length_ - 1)));
    if (!tables) return;
    if (rest > 1) {
      MakeConvolution();
      return;
    }
    roots_.resize(length);
    for (int64_t k = 0; k < length; ++k) roots_[k] = std::complex<T>(Root(k, length));
  }

  int64_t length() const { return length_; }
  // Elements of either buffer of Run.
  int64_t room() const { return room_; }
  // exp(-2 pi i k / n)
  static std::complex<double> Root(int64_t k, int64_t n) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    return {std::cos(angle), std::sin(angle)};
  }

  // Transforms `length` elements at `a`, unscaled; gives where the result is, `a` or `b`, which both are overwritten.
  template <bool kForward>
  Lanes* Run(Lanes* a, Lanes* b) const {
    if (convolution_ != nullptr) return Convolve<kForward>(a, b);
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
  static constexpr int64_t kLargestRadix = 61;

  // With jk = (j^2 + k^2 - (k - j)^2) / 2, number k is chirp[k] times the sum of x[j] chirp[j] over the chirp's number k - j.
  struct Convolution {
    LaneFourier fourier;
    std::vector<std::complex<T>> chirp;   // exp(-pi i k^2 / n)
    std::vector<std::complex<T>> filter;  // the transform of 1 / chirp, to both sides, over its length
  };

  void MakeConvolution() {
    std::vector<std::complex<double>> around(room_);
    std::vector<std::complex<T>> chirp(length_), filter(room_);
    for (int64_t k = 0; k < length_; ++k) {
      const std::complex<double> root = Root(k * k % (2 * length_), 2 * length_);
      chirp[k] = std::complex<T>(root);
      around[k] = around[k == 0 ? 0 : room_ - k] = std::conj(root);
    }
    TransformOnce(around);
    for (int64_t k = 0; k < room_; ++k) filter[k] = std::complex<T>(around[k] / static_cast<double>(room_));
    convolution_ = std::make_shared<const Convolution>(Convolution{LaneFourier(room_), std::move(chirp), std::move(filter)});
  }

  // In place, of a power of two, in double.
  static void TransformOnce(std::vector<std::complex<double>>& x) {
    const int64_t n = static_cast<int64_t>(x.size());
    for (int64_t i = 0, reversed = 0; i < n; ++i) {
      if (i < reversed) std::swap(x[i], x[reversed]);
      int64_t bit = n / 2;
      for (; (reversed & bit) != 0; bit /= 2) reversed ^= bit;
      reversed ^= bit;
    }
    for (int64_t half = 1; half < n; half *= 2) {
      for (int64_t k = 0; k < half; ++k) {
        const std::complex<double> root = Root(k, 2 * half);
        for (int64_t i = k; i < n; i += 2 * half) {
          const std::complex<double> even = x[i], odd = x[i + half] * root;
          x[i] = even + odd;
          x[i + half] = even - odd;
        }
      }
    }
  }

  // The way back has all factors conjugated: the filter is its own mirror image.
  template <bool kForward>
  Lanes* Convolve(Lanes* a, Lanes* b) const {
    const auto factor = [](std::complex<T> w) { return kForward ? w : std::conj(w); };
    const Convolution& by = *convolution_;
    for (int64_t k = 0; k < length_; ++k) a[k] = a[k] * factor(by.chirp[k]);
    std::fill(a + length_, a + room_, Lanes{});
    Lanes* spectrum = by.fourier.template Run<true>(a, b);
    for (int64_t k = 0; k < room_; ++k) spectrum[k] = spectrum[k] * factor(by.filter[k]);
    Lanes* result = by.fourier.template Run<false>(spectrum, spectrum == a ? b : a);
    for (int64_t k = 0; k < length_; ++k) result[k] = result[k] * factor(by.chirp[k]);
    return result;
  }

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
  // A prime factor above five, up to kLargestRadix, by the definition.
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

  int64_t length_, room_;
  std::vector<std::complex<T>> roots_;
  std::vector<int64_t> radices_;
  std::shared_ptr<const Convolution> convolution_;  // of a length with a larger prime factor
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LANES_H_
