// Functions of complex numbers over arrays against the standard library, in more bits, and at the edges as they are there.
#include "cpu/kernels/complex_math.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::cpu {
namespace {

template <typename T>
std::vector<std::complex<T>> Edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<std::complex<T>> numbers;
  const T parts[] = {0, -T(0), 1, -1, T(0.5), 2, -4, T(3e-20), T(1e20), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                     -Limits::max(), Limits::min(), Limits::denorm_min()};
  for (T real : parts) {
    for (T imag : parts) numbers.emplace_back(real, imag);
  }
  return numbers;
}
// Of every direction; some of size 1, and as many whose parts are of any size from 2^-range on.
template <typename T>
std::vector<std::complex<T>> Numbers(int range) {
  std::vector<std::complex<T>> numbers;
  uint32_t state = 1;
  const auto next = [&state] { return static_cast<double>((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24); };
  for (int i = 0; i < 2000; ++i) {
    const double angle = 6.3 * next();
    numbers.emplace_back(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
    numbers.emplace_back(static_cast<T>(std::ldexp(next() - 0.5, static_cast<int>(next() * 2 * range) - range)),
                         static_cast<T>(std::ldexp(next() - 0.5, static_cast<int>(next() * 2 * range) - range)));
    numbers.emplace_back(static_cast<T>(4 * next() - 2), static_cast<T>(4 * next() - 2));
  }
  return numbers;
}

template <typename T>
double UnitsApart(T got, long double expected) {
  if (static_cast<long double>(got) == expected || (got != got && expected != expected)) return 0;
  const T rounded = static_cast<T>(expected);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : INFINITY;
  const long double unit = std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity()) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(got) - expected) / unit);
}
bool SamePart(double a, double b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); }

template <typename T, typename Function, typename Standard>
void ExpectNear(Function&& function, Standard&& standard, int range, double units) {
  using C = std::complex<T>;
  const std::vector<C> numbers = Numbers<T>(range);
  std::vector<C> results = numbers;
  function(results.data(), results.data(), static_cast<int64_t>(results.size()));
  double worst = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::complex<long double> expected = standard(std::complex<long double>(numbers[i]));
    worst = std::max({worst, UnitsApart(results[i].real(), expected.real()), UnitsApart(results[i].imag(), expected.imag())});
    C alone;  // the others do not count
    function(&numbers[i], &alone, 1);
    EXPECT_EQ(std::memcmp(&alone, &results[i], sizeof(C)), 0) << numbers[i];
  }
  EXPECT_LE(worst, units);

  const std::vector<C> edges = Edges<T>();
  results = edges;
  function(edges.data(), results.data(), static_cast<int64_t>(results.size()));
  for (size_t i = 0; i < edges.size(); ++i) {
    const C expected = standard(edges[i]);
    const std::complex<long double> exact = standard(std::complex<long double>(edges[i]));
    const auto same = [](T a, T b) {
      return SamePart(a, b) ||
             (std::isfinite(a) && std::isfinite(b) && b != 0 && std::abs(a - b) <= 8 * std::numeric_limits<T>::epsilon() * std::abs(b));
    };
    // Of what is rounded to a few bits, or away, the sign counts: where the standard library's root is 0, its reciprocal has lost it.
    const auto tiny = [](T a, T b, long double exact) {
      constexpr T kLeast = std::numeric_limits<T>::min();
      return exact != 0 && std::signbit(a) == std::signbit(exact) && std::abs(a) < kLeast && std::abs(b) < kLeast;
    };
    EXPECT_TRUE(same(results[i].real(), expected.real()) || tiny(results[i].real(), expected.real(), exact.real())) << edges[i] << results[i] << expected;
    EXPECT_TRUE(same(results[i].imag(), expected.imag()) || tiny(results[i].imag(), expected.imag(), exact.imag())) << edges[i] << results[i] << expected;
  }
}

TEST(ComplexMath, AgreesWithTheStandardLibrary) {
  const auto root = [](auto x) { return std::sqrt(x); };
  const auto inverse_root = [](auto x) { return decltype(x)(1) / std::sqrt(x); };
  const auto logarithm = [](auto x) { return std::log(x); };
  ExpectNear<float>(ComplexSqrt<float>, root, 40, 2);
  ExpectNear<float>(ComplexRsqrt<float>, inverse_root, 40, 2);
  ExpectNear<float>(ComplexLog<float>, logarithm, 40, 2);
  ExpectNear<float>(ComplexExp, [](auto x) { return std::exp(x); }, 5, 2);
  ExpectNear<double>(ComplexSqrt<double>, root, 300, 4);
  ExpectNear<double>(ComplexRsqrt<double>, inverse_root, 300, 4);
  ExpectNear<double>(ComplexLog<double>, logarithm, 300, 4);
}

template <typename T>
void ExpectQuotients() {
  using C = std::complex<T>;
  std::vector<C> numbers = Numbers<T>(100);
  for (const C& edge : Edges<T>()) numbers.push_back(edge);
  const int64_t n = static_cast<int64_t>(numbers.size());
  std::vector<C> quotients(n);
  for (const C& a : {C(1), C(-3, 2), C(0, T(1e-30)), C(std::numeric_limits<T>::max(), 1)}) {
    ComplexDivide(&a, 0, numbers.data(), 1, quotients.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const C expected = a / numbers[i];
      EXPECT_TRUE(SamePart(quotients[i].real(), expected.real()) && SamePart(quotients[i].imag(), expected.imag())) << a << numbers[i];
    }
    ComplexDivide(numbers.data(), 1, &a, 0, quotients.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const C expected = numbers[i] / a;
      EXPECT_TRUE(SamePart(quotients[i].real(), expected.real()) && SamePart(quotients[i].imag(), expected.imag())) << numbers[i] << a;
    }
  }
}

TEST(ComplexMath, QuotientsHaveTheBitsOfTheOperator) {
  ExpectQuotients<float>();
  ExpectQuotients<double>();
}

}  // namespace
}  // namespace millrace::cpu
