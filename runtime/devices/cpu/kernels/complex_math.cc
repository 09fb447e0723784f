#include "cpu/kernels/complex_math.h"

#include <algorithm>
#include <cmath>

#include "cpu/kernels/arctangent.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

// Numbers of a turn, a multiple of the lanes of every packet.
constexpr int64_t kRun = 128;
struct Parts {
  alignas(64) double real[kRun], imag[kRun];
};

// Parts of which squares and quotients stay far inside the range.
constexpr double kLeast = 0x1p-400, kMost = 0x1p400;
bool IsPlain(double magnitude) { return (magnitude >= kLeast) & (magnitude <= kMost); }

template <typename T>
void Load(const std::complex<T>* x, int64_t step, int64_t n, Parts& parts) {
  const T* pairs = reinterpret_cast<const T*>(x);
  for (int64_t i = 0; i < n; ++i) {
    parts.real[i] = pairs[2 * i * step];
    parts.imag[i] = pairs[2 * i * step + 1];
  }
  std::fill(parts.real + n, parts.real + kRun, 1.0);
  std::fill(parts.imag + n, parts.imag + kRun, 1.0);
}

// Where edge[i] is set, y[i] is of(i) instead. Requires n <= kRun.
template <typename T, typename Of>
void Store(const Parts& parts, const int64_t* edge, int64_t n, std::complex<T>* y, Of&& of) {
  int64_t edges = 0;
  for (int64_t i = 0; i < n; ++i) edges |= edge[i];
  if (edges == 0) {
    T* pairs = reinterpret_cast<T*>(y);
    for (int64_t i = 0; i < n; ++i) {
      pairs[2 * i] = static_cast<T>(parts.real[i]);
      pairs[2 * i + 1] = static_cast<T>(parts.imag[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = edge[i] != 0 ? of(i) : std::complex<T>(static_cast<T>(parts.real[i]), static_cast<T>(parts.imag[i]));
}

// Function::Run(in, out, edge) for kRun numbers in parts; Function::Of(x) for those that it calls edges.
template <typename Function, typename T>
void Over(const std::complex<T>* x, std::complex<T>* y, int64_t n) {
  Parts in, out;
  int64_t edge[kRun];
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t run = std::min(kRun, n - at);
    Load(x + at, 1, run, in);
    Function::Run(in, out, edge);
    Store(out, edge, run, y + at, [&](int64_t i) { return Function::Of(x[at + i]); });
  }
}

// The root with the larger part from a sum, the smaller one from the product.
struct Root {
  template <bool kInverse>
  static void Take(double x, double y, double& real, double& imag) {
    const double a = std::abs(x), b = std::abs(y), magnitude = std::sqrt(a * a + b * b);
    const double large = std::sqrt((magnitude + a) * 0.5), small = b / (large + large);
    const double along = x >= 0 ? large : small, across = std::copysign(x >= 0 ? small : large, y);
    real = kInverse ? along / magnitude : along;
    imag = kInverse ? 0.0 - across / magnitude : across;
  }
};
struct Sqrt : Root {
  static void Run(const Parts& in, Parts& out, int64_t* edge) {
    for (int64_t i = 0; i < kRun; ++i) {
      edge[i] = !IsPlain(std::max(std::abs(in.real[i]), std::abs(in.imag[i]))) | (in.real[i] != in.real[i]) | (in.imag[i] != in.imag[i]);
      Take<false>(in.real[i], in.imag[i], out.real[i], out.imag[i]);
    }
  }
  template <typename C>
  static C Of(C x) {
    return std::sqrt(x);
  }
};
struct Rsqrt : Root {
  static void Run(const Parts& in, Parts& out, int64_t* edge) {
    for (int64_t i = 0; i < kRun; ++i) {
      edge[i] = !(IsPlain(std::abs(in.real[i])) & IsPlain(std::abs(in.imag[i])));
      Take<true>(in.real[i], in.imag[i], out.real[i], out.imag[i]);
    }
  }
  template <typename C>
  static C Of(C x) {
    return C(1) / std::sqrt(x);
  }
};

// What the rounded square of x lacks, without fused operations: they give the same where there are some. Of numbers near 1.
inline double SquareRest(double x, double square) {
  const double split = 134217729.0 * x, high = split - (split - x), low = x - high;
  return ((high * high - square) + 2.0 * high * low) + low * low;
}
// Near the unit circle log |x| is that of 1 and the small rest of the squares' sum.
struct Log {
  static constexpr double kLeastRest = 0x1p-54;  // below, the rest itself is not exact enough
  static void Run(const Parts& in, Parts& out, int64_t* edge) {
    alignas(64) double sum[kRun], factor[kRun];
    for (int64_t i = 0; i < kRun; ++i) {
      const double a = std::abs(in.real[i]), b = std::abs(in.imag[i]);
      const double large = std::max(a, b), small = std::min(a, b);
      const double square = large * large, small_square = small * small, total = square + small_square;
      const bool near = (total >= 0.5) & (total <= 2.0);
      const double rest = (small_square - (total - square)) + (SquareRest(large, square) + SquareRest(small, small_square));
      const double beyond = (total - 1.0) + rest, whole = 1.0 + beyond;
      edge[i] = !IsPlain(large) | (a != a) | (b != b) | (near & (std::abs(beyond) < kLeastRest));
      // log(1 + beyond) is log(whole) beyond / (whole - 1), or beyond where the sum rounds to 1.
      const bool gone = near & (whole == 1.0);
      sum[i] = near ? (gone ? M_E : whole) : total;
      factor[i] = (gone ? beyond : near ? beyond / (whole - 1.0) : 1.0) * 0.5;
    }
    using P = PacketOf<double>;
    constexpr int64_t kLanes = ei::unpacket_traits<P>::size;
    for (int64_t i = 0; i < kRun; i += kLanes) {
      const P logarithm = ei::plog(ei::pload<P>(sum + i));
      ei::pstore(out.real + i, ei::pmul(logarithm, ei::pload<P>(factor + i)));
      ei::pstore(out.imag + i, Atan2::Apply(ei::pload<P>(in.imag + i), ei::pload<P>(in.real + i)));
    }
  }
  template <typename C>
  static C Of(C x) {
    return std::log(x);
  }
};

// Of float: y = r + k pi / 2 with pi / 2 in two parts, and as many terms of the series as float's bits take for r.
struct Exp {
  static void Run(const Parts& in, Parts& out, int64_t* edge) {
    alignas(64) double power[kRun];
    using P = PacketOf<double>;
    constexpr int64_t kLanes = ei::unpacket_traits<P>::size;
    for (int64_t i = 0; i < kRun; i += kLanes) ei::pstore(power + i, ei::pexp(ei::pload<P>(in.real + i)));
    for (int64_t i = 0; i < kRun; ++i) {
      const bool plain = (std::abs(in.real[i]) < 80.0) & (std::abs(in.imag[i]) < 1e5);
      edge[i] = !plain;
      const double y = plain ? in.imag[i] : 0.0, k = std::rint(y * M_2_PI);
      const double r = (y - k * 1.5707963267341256) - k * 6.077100506506192e-11, q = r * r;  // the first part has 33 bits
      const double odd_tail = ((-1.0 / 39916800 * q + 1.0 / 362880) * q - 1.0 / 5040) * q + 1.0 / 120;
      const double odd = r + r * q * (odd_tail * q - 1.0 / 6);
      const double even_tail = ((-1.0 / 3628800 * q + 1.0 / 40320) * q - 1.0 / 720) * q + 1.0 / 24;
      const double even = 1.0 + q * (even_tail * q - 0.5);
      const int64_t quarter = static_cast<int32_t>(k);
      const double sine = (quarter & 1) != 0 ? even : odd, cosine = (quarter & 1) != 0 ? odd : even;
      out.real[i] = power[i] * (((quarter + 1) & 2) != 0 ? -cosine : cosine);
      out.imag[i] = y == 0.0 ? y : power[i] * ((quarter & 2) != 0 ? -sine : sine);
    }
  }
  template <typename C>
  static C Of(C x) {
    return std::exp(x);
  }
};

// As libgcc divides: of float in double, of double by the quotient of the divisor's parts (R. L. Smith).
template <typename T>
struct Quotient;
template <>
struct Quotient<float> {
  static int64_t Take(double a, double b, double c, double d, double& real, double& imag) {
    const double square = c * c + d * d;
    real = (a * c + b * d) / square;
    imag = (b * c - a * d) / square;
    return (real != real) & (imag != imag);
  }
};
template <>
struct Quotient<double> {
  static int64_t Take(double a, double b, double c, double d, double& real, double& imag) {
    const bool steep = std::abs(c) < std::abs(d);
    const double large = steep ? d : c, small = steep ? c : d, r = small / large, divisor = small * r + large;
    real = ((steep ? a : b) * r + (steep ? b : a)) / divisor;
    imag = (steep ? b * r - a : b - a * r) / divisor;
    const bool plain = IsPlain(std::abs(large)) & ((small == 0) | IsPlain(std::abs(small))) & ((a == 0) | IsPlain(std::abs(a))) &
                       ((b == 0) | IsPlain(std::abs(b)));
    return !plain;
  }
};

}  // namespace

template <typename T>
void ComplexSqrt(const std::complex<T>* x, std::complex<T>* y, int64_t n) {
  Over<Sqrt>(x, y, n);
}
template <typename T>
void ComplexRsqrt(const std::complex<T>* x, std::complex<T>* y, int64_t n) {
  Over<Rsqrt>(x, y, n);
}
template <typename T>
void ComplexLog(const std::complex<T>* x, std::complex<T>* y, int64_t n) {
  Over<Log>(x, y, n);
}
void ComplexExp(const std::complex<float>* x, std::complex<float>* y, int64_t n) { Over<Exp>(x, y, n); }

template <typename T>
void ComplexDivide(const std::complex<T>* a, int64_t a_step, const std::complex<T>* b, int64_t b_step, std::complex<T>* out, int64_t n) {
  if (n < 8) {  // less than the turn of kRun is worth
    for (int64_t i = 0; i < n; ++i) out[i] = a[i * a_step] / b[i * b_step];
    return;
  }
  Parts above, below, quotient;
  int64_t edge[kRun];
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t run = std::min(kRun, n - at);
    Load(a + at * a_step, a_step, run, above);
    Load(b + at * b_step, b_step, run, below);
    for (int64_t i = 0; i < kRun; ++i) {
      edge[i] = Quotient<T>::Take(above.real[i], above.imag[i], below.real[i], below.imag[i], quotient.real[i], quotient.imag[i]);
    }
    Store(quotient, edge, run, out + at, [&](int64_t i) { return a[(at + i) * a_step] / b[(at + i) * b_step]; });
  }
}

template void ComplexSqrt(const std::complex<float>*, std::complex<float>*, int64_t);
template void ComplexSqrt(const std::complex<double>*, std::complex<double>*, int64_t);
template void ComplexRsqrt(const std::complex<float>*, std::complex<float>*, int64_t);
template void ComplexRsqrt(const std::complex<double>*, std::complex<double>*, int64_t);
template void ComplexLog(const std::complex<float>*, std::complex<float>*, int64_t);
template void ComplexLog(const std::complex<double>*, std::complex<double>*, int64_t);
template void ComplexDivide(const std::complex<float>*, int64_t, const std::complex<float>*, int64_t, std::complex<float>*, int64_t);
template void ComplexDivide(const std::complex<double>*, int64_t, const std::complex<double>*, int64_t, std::complex<double>*, int64_t);

}  // namespace millrace::cpu
