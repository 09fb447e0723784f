// Pools have the bits of their definition, however many elements a thread takes; the gradient of max pooling goes through large
// batches in parts, so that its scratch stays small.
#include "cuda/launch/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/launch/queue.h"
#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

int64_t Elements(const PoolShape& shape, const int64_t* size) { return shape.batch * shape.channels * size[0] * size[1] * size[2]; }

// visit(window, element, tap) for every window and every element of it.
template <typename Visit>
void ForWindows(const PoolShape& s, const Visit& visit) {
  for (int64_t w = 0; w < Elements(s, s.out); ++w) {
    int64_t rest = w / s.channels, at[3];
    for (int d = 2; d >= 0; --d) {
      at[d] = rest % s.out[d] * s.stride[d] - s.pad[d];
      rest /= s.out[d];
    }
    for (int64_t tap = 0; tap < s.window[0] * s.window[1] * s.window[2]; ++tap) {
      const int64_t a = at[0] + tap / s.window[2] / s.window[1], b = at[1] + tap / s.window[2] % s.window[1], c = at[2] + tap % s.window[2];
      if (a < 0 || b < 0 || c < 0 || a >= s.in[0] || b >= s.in[1] || c >= s.in[2]) continue;
      visit(w, (((rest * s.in[0] + a) * s.in[1] + b) * s.in[2] + c) * s.channels + w % s.channels, tap);
    }
  }
}

struct Tensors {
  std::vector<float> x, mean, maximum, dy, dx[3];
};
Tensors Defined(const PoolShape& s) {
  Tensors t;
  const int64_t inputs = Elements(s, s.in), outputs = Elements(s, s.out);
  t.x.resize(inputs);
  t.dy.resize(outputs);
  // Steps of less than 1e-5, so that several elements are near a maximum.
  for (int64_t i = 0; i < inputs; ++i) t.x[i] = static_cast<float>(i * 7919 % 13) * 0x1p-18f;
  for (int64_t i = 0; i < outputs; ++i) t.dy[i] = i % 11 == 0 ? -0.0f : static_cast<float>(i * 31 % 97) * 0.3f - 1.5f;
  std::vector<float> count(outputs), sum(outputs);
  std::vector<int64_t> first(outputs, -1);
  ForWindows(s, [&](int64_t w, int64_t i, int64_t) {
    ++count[w];
    sum[w] += t.x[i];
    if (first[w] < 0 || t.x[first[w]] < t.x[i]) first[w] = i;
  });
  for (int64_t w = 0; w < outputs; ++w) {
    t.mean.push_back(sum[w] / count[w]);
    t.maximum.push_back(t.x[first[w]]);
  }
  for (std::vector<float>& dx : t.dx) dx.resize(inputs);
  ForWindows(s, [&](int64_t w, int64_t i, int64_t) {
    t.dx[static_cast<int>(PoolGradRule::kAverage)][i] += t.dy[w] * (1.0f / count[w]);
    if (first[w] == i) t.dx[static_cast<int>(PoolGradRule::kFirstMaximum)][i] += t.dy[w];
    if (t.maximum[w] - t.x[i] < 1e-5f) t.dx[static_cast<int>(PoolGradRule::kEveryMaximum)][i] += t.dy[w];
  });
  return t;
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<PoolShape> PoolShapes() {
  std::vector<PoolShape> shapes;
  for (const int64_t channels : {1, 3, 8}) {
    // Overlapping windows with padding, windows apart with a rest, windows that cover the input, in two and three dimensions.
    shapes.push_back({.batch = 3, .channels = channels, .in = {1, 9, 14}, .out = {1, 5, 7}, .window = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 0}});
    shapes.push_back({.batch = 2, .channels = channels, .in = {5, 5, 6}, .out = {3, 5, 6}, .window = {3, 3, 2}, .stride = {2, 1, 1}, .pad = {1, 1, 0}});
    shapes.push_back({.batch = 2, .channels = channels, .in = {1, 7, 9}, .out = {1, 2, 4}, .window = {1, 3, 2}, .stride = {1, 3, 2}});
    shapes.push_back({.batch = 2, .channels = channels, .in = {4, 6, 16}, .out = {2, 3, 8}, .window = {2, 2, 2}, .stride = {2, 2, 2}});
    shapes.push_back({.batch = 2, .channels = channels, .in = {4, 6, 10}, .out = {2, 3, 5}, .window = {2, 2, 2}, .stride = {2, 2, 2}});
    shapes.push_back({.batch = 3, .channels = channels, .in = {1, 6, 9}, .out = {1, 2, 3}, .window = {1, 3, 3}, .stride = {1, 3, 3}});
    // Windows of three, side by side in steps of one and two: with padding on no side, one, and both, and what is left over.
    for (const int64_t stride : {1, 2}) {
      for (const int64_t pad : {0, 1, 2}) {
        for (const int64_t wide : {7, 10}) {
          const int64_t high = 17 - wide, out_high = (high + pad - 1) / stride, out_wide = (wide - 1) / stride;
          shapes.push_back({.batch = 5,
                            .channels = channels,
                            .in = {1, high, wide},
                            .out = {1, out_high, out_wide},
                            .window = {1, 3, 3},
                            .stride = {1, stride, stride},
                            .pad = {0, pad, 2 - pad}});
        }
      }
    }
    // Steps above the window.
    shapes.push_back({.batch = 2, .channels = channels, .in = {1, 11, 13}, .out = {1, 2, 3}, .window = {1, 3, 3}, .stride = {1, 5, 5}, .pad = {0, 1, 1}});
    // More taps than a byte counts.
    shapes.push_back({.batch = 1, .channels = channels, .in = {1, 20, 19}, .out = {1, 5, 4}, .window = {1, 16, 16}, .stride = {1, 1, 1}});
  }
  return shapes;
}

TEST(PoolTest, HasTheBitsOfItsDefinition) {
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  for (const PoolShape& shape : PoolShapes()) {
    SCOPED_TRACE(::testing::Message() << shape.channels << " channels, windows of " << shape.window[0] << shape.window[1] << shape.window[2] << " on rows of "
                                      << shape.in[2]);
    const Tensors t = Defined(shape);
    std::vector<float> y(t.dy.size(), -7), dx(t.x.size(), -7);
    LaunchPool(queue, Type::kFloat, PoolRule::kAverage, shape, t.x.data(), y.data());
    EXPECT_TRUE(Same(y, t.mean));
    for (const PoolRule rule : {PoolRule::kMaximumAsXla, PoolRule::kMaximum}) {
      LaunchPool(queue, Type::kFloat, rule, shape, t.x.data(), y.data());
      EXPECT_TRUE(Same(y, t.maximum));
    }
    for (const PoolGradRule rule : {PoolGradRule::kAverage, PoolGradRule::kFirstMaximum, PoolGradRule::kEveryMaximum}) {
      std::vector<char> scratch(PoolGradScratchBytes(rule, shape));
      std::fill(dx.begin(), dx.end(), -7.0f);
      LaunchPoolGrad(queue, Type::kFloat, rule, shape, t.x.data(), y.data(), t.dy.data(), dx.data(), scratch.data());
      EXPECT_TRUE(Same(dx, t.dx[static_cast<int>(rule)])) << "rule " << static_cast<int>(rule);
    }
  }
}

// Tensors that begin an element behind 16 bytes are taken an element at a time.
TEST(PoolTest, ElementsTakenTogetherHaveTheBitsOfOneByOneInEveryType) {
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  for (const auto& [type, bytes, one] : {std::tuple(Type::kFloat, 4, 0x3f800000), std::tuple(Type::kDouble, 8, 0x3ff00000), std::tuple(Type::kHalf, 2, 0x3c00),
                                         std::tuple(Type::kBfloat16, 2, 0x3f80)}) {
    for (const PoolShape& shape : PoolShapes()) {
      const int64_t inputs = Elements(shape, shape.in), outputs = Elements(shape, shape.out);
      std::vector<std::vector<char>> results[2];
      for (const int shift : {0, 1}) {
        const auto make = [&, bytes = bytes, one = one](int64_t n, int seed) {
          std::vector<char> tensor((n + 1) * bytes);
          for (int64_t i = 0; i < n; ++i) {
            const uint64_t word = static_cast<uint64_t>(one + static_cast<int>(i * seed % 29)) << (bytes == 8 ? 32 : 0);
            std::memcpy(&tensor[(i + shift) * bytes], &word, bytes);
          }
          return tensor;
        };
        const auto keep = [&, bytes = bytes](std::vector<char>& tensor, int64_t n) {
          results[shift].emplace_back(&tensor[shift * bytes], &tensor[shift * bytes] + n * bytes);
        };
        std::vector<char> x = make(inputs, 7919), dy = make(outputs, 31), y = make(outputs, 1), dx = make(inputs, 1);
        char *const from = &x[shift * bytes], *const to = &y[shift * bytes];
        for (const PoolRule pool : {PoolRule::kAverage, PoolRule::kMaximumAsXla, PoolRule::kMaximum}) {
          LaunchPool(queue, type, pool, shape, from, to);
          keep(y, outputs);
        }
        for (const PoolGradRule rule : {PoolGradRule::kAverage, PoolGradRule::kFirstMaximum, PoolGradRule::kEveryMaximum}) {
          std::vector<char> scratch(PoolGradScratchBytes(rule, shape));
          LaunchPoolGrad(queue, type, rule, shape, from, to, &dy[shift * bytes], &dx[shift * bytes], scratch.data());
          keep(dx, inputs);
        }
      }
      for (size_t k = 0; k < results[0].size(); ++k) {
        EXPECT_TRUE(results[0][k] == results[1][k]) << "type " << static_cast<int>(type) << ", " << shape.channels << " channels, rows of " << shape.in[2]
                                                    << ", result " << k;
      }
    }
  }
}

// `quiet` is the NaN that all become, `nan` another one.
template <typename T>
void ExpectStartsAndNans(Type type, T lowest, T quiet, T nan) {
  SCOPED_TRACE(static_cast<int>(type));
  using W = typename Wide<T>::type;
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  const PoolShape shape = {.batch = 1, .channels = 1, .in = {1, 1, 10}, .out = {1, 1, 5}, .window = {1, 1, 2}, .stride = {1, 1, 2}};
  const T one = Wide<T>::Narrow(W(1)), two = Wide<T>::Narrow(W(2)), least = Wide<T>::Narrow(-std::numeric_limits<W>::infinity());
  const std::vector<T> x = {one, nan, nan, two, least, least, nan, nan, quiet, nan};
  std::vector<T> y(5);
  const auto expect = [&](PoolRule rule, const std::vector<T>& expected) {
    LaunchPool(queue, type, rule, shape, x.data(), y.data());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::memcmp(&y[i], &expected[i], sizeof(T)), 0) << i << ": " << Widen(y[i]);
  };
  expect(PoolRule::kMaximumAsXla, {quiet, quiet, least, quiet, quiet});
  expect(PoolRule::kMaximum, {one, two, lowest, lowest, lowest});
}

TEST(PoolTest, AsXlaNanWinsAndWindowsStartFromNothing) {
  ExpectStartsAndNans(Type::kFloat, std::numeric_limits<float>::lowest(), FloatOf(0x7fc00000), FloatOf(0xffc00001));
  ExpectStartsAndNans(Type::kDouble, std::numeric_limits<double>::lowest(), DoubleOf(0x7ff8000000000000), DoubleOf(0xfff8000000000001));
  ExpectStartsAndNans(Type::kHalf, Half{0xfbff}, Half{0x7e00}, Half{0xfe01});
  ExpectStartsAndNans(Type::kBfloat16, Bfloat16{0xff7f}, Bfloat16{0x7fc0}, Bfloat16{0xffc1});
}

TEST(PoolGradTest, OfNoWindowIsZero) {
  Fault fault;
  for (const auto& [channels, stride] : {std::pair(1, 1), std::pair(1, 2), std::pair(4, 1)}) {
    const PoolShape shape = {.batch = 2, .channels = channels, .in = {1, 2, 5}, .out = {1, 0, 2}, .window = {1, 3, 3}, .stride = {1, stride, 2}};
    for (const PoolGradRule rule : {PoolGradRule::kAverage, PoolGradRule::kFirstMaximum, PoolGradRule::kEveryMaximum}) {
      const std::vector<float> x(Elements(shape, shape.in), 1.0f);
      std::vector<float> dx(x.size(), -7.0f);
      LaunchPoolGrad({nullptr, &fault, 0}, Type::kFloat, rule, shape, x.data(), nullptr, nullptr, dx.data(), nullptr);
      EXPECT_TRUE(Same(dx, std::vector<float>(x.size())));
    }
  }
}

// Of images of 1201 x 1201; the windows overlap.
void ExpectPartsOfImages(int64_t batch, int64_t channels, int64_t part) {
  const PoolShape all = {.batch = batch, .channels = channels, .in = {1, 1201, 1201}, .out = {1, 600, 600}, .window = {1, 3, 3}, .stride = {1, 2, 2}};
  const int64_t inputs = all.channels * 1201 * 1201, outputs = all.channels * 600 * 600;
  std::vector<float> x(all.batch * inputs), y(all.batch * outputs), dy(all.batch * outputs), dx(x.size(), -7);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 101) * 0.25f;
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * 31 % 97) * 0.03125f - 1.5f;
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  constexpr auto kRule = PoolGradRule::kFirstMaximum;
  const int64_t bytes = PoolGradScratchBytes(kRule, all);
  EXPECT_EQ(bytes, part * outputs);
  std::vector<char> scratch(bytes);
  LaunchPoolGrad(queue, Type::kFloat, kRule, all, x.data(), y.data(), dy.data(), dx.data(), scratch.data());
  PoolShape one = all;
  one.batch = 1;
  std::vector<float> expected(inputs);
  for (int64_t image = 0; image < all.batch; ++image) {
    LaunchPoolGrad(queue, Type::kFloat, kRule, one, &x[image * inputs], &y[image * outputs], &dy[image * outputs], expected.data(), scratch.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), dx.begin() + image * inputs)) << image;
  }
}

TEST(PoolGradTest, PartsHaveTheBitsOfImagesOneByOne) {
  // Of 1,440,000 windows in an image, and of 360,000: two parts.
  ExpectPartsOfImages(/*batch=*/3, /*channels=*/4, /*part=*/2);
  ExpectPartsOfImages(/*batch=*/12, /*channels=*/1, /*part=*/11);
}

}  // namespace
}  // namespace millrace::cuda
