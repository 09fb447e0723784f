// Logarithm, sine and cosine as every device has them: as exact as floats can be, and nearly so as doubles.
#include "graph/normal_pair.h"

#include <cmath>

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int kUniforms = 1 << 23, kStep = 23;  // of all uniform floats every 23rd

double Ulp(long double exact) {
  const double near = static_cast<double>(exact);
  return std::nextafter(std::abs(near), INFINITY) - std::abs(near);
}

TEST(NormalPairTest, LogarithmsAreThoseOfTheNearestFloatAndWithinTwoUnitsAsDoubles) {
  double most = 0;
  for (int i = 1; i < kUniforms; i += kStep) {
    const double x = static_cast<double>(i) / kUniforms;
    const long double exact = std::log(static_cast<long double>(x));
    most = std::max(most, static_cast<double>(std::abs(static_cast<long double>(PortableLog(x)) - exact)) / Ulp(exact));
    ASSERT_EQ(static_cast<float>(PortableLog(x)), static_cast<float>(exact)) << i;
  }
  EXPECT_LE(most, 2);
  EXPECT_NEAR(PortableLog(1.0e-7), std::log(1.0e-7), 4e-15);
  EXPECT_EQ(PortableLog(1.0), 0);
}

TEST(NormalPairTest, SinesAndCosinesAreThoseOfTheNearestFloatAndWithinTwoUnitsAsDoubles) {
  double most = 0;
  for (int i = 0; i < kUniforms; i += kStep) {
    const double angle = 2 * M_PI * i / kUniforms;
    for (const double x : {angle, static_cast<double>(static_cast<float>(angle))}) {
      double sine, cosine;
      PortableSinCos(x, &sine, &cosine);
      const long double exact_sine = std::sin(static_cast<long double>(x)), exact_cosine = std::cos(static_cast<long double>(x));
      most = std::max(most, static_cast<double>(std::abs(sine - exact_sine)) / Ulp(exact_sine));
      most = std::max(most, static_cast<double>(std::abs(cosine - exact_cosine)) / Ulp(exact_cosine));
      ASSERT_EQ(static_cast<float>(sine), static_cast<float>(exact_sine)) << i;
      ASSERT_EQ(static_cast<float>(cosine), static_cast<float>(exact_cosine)) << i;
    }
  }
  EXPECT_LE(most, 2);
}

TEST(NormalPairTest, NumbersOfTheLeastAndTheLargestUniformsAreFinite) {
  for (const float u : {0.0f, 1.0f - 0x1p-23f}) {
    for (const float v : {0.0f, 0.25f, 0.5f, 0.75f, 1.0f - 0x1p-23f}) {
      float floats[2];
      double doubles[2];
      NormalPairOf(u, v, floats);
      NormalPairOf(static_cast<double>(u), static_cast<double>(v), doubles);
      for (int i = 0; i < 2; ++i) EXPECT_NEAR(floats[i], doubles[i], 4e-6);
    }
  }
  float pair[2];
  NormalPairOf(0.0f, 0.0f, pair);
  EXPECT_EQ(pair[0], 0);
  EXPECT_FLOAT_EQ(pair[1], std::sqrt(-2 * std::log(1.0e-7f)));
}

}  // namespace
}  // namespace millrace
