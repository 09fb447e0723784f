// A batch norm with a sum and a Relu behind, and its gradient with that of the Relu, give the bits of the kernels one by one,
// whichever way elements are moved. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch/elementwise.h"
#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

struct Layout {
  int64_t images, plane, channels;
  bool channels_first = false;
  int64_t offset = 0;  // of the tensors, in elements: where they lie so, elements are moved one by one
};

const Layout kLayouts[] = {
    {2, 35, 3},             // one by one: no whole number of packs
    {3, 50, 64},            // channels side by side
    {3, 50, 64, false, 1},  //
    {5, 1000, 12},          // sums in chunks
    {2, 36, 5, true},       // pixels of a channel side by side
    {2, 35, 8, true},       //
    {1, 1, 4},              //
    {4, 2500, 3, true},     // chunks
    {4, 300, 700},          // many blocks
};

template <typename T>
constexpr Type kType = Type::kFloat;
template <>
constexpr Type kType<Half> = Type::kHalf;
template <>
constexpr Type kType<Bfloat16> = Type::kBfloat16;

// The bits, or NaN, of which a host's compiler chooses one when it swaps operands.
template <typename V>
bool Same(const std::vector<V>& a, const std::vector<V>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool nan = Widen(a[i]) != Widen(a[i]) && Widen(b[i]) != Widen(b[i]);
    if (!nan && std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
  }
  return a.size() == b.size();
}

template <typename T>
class NormTest : public ::testing::Test {
 protected:
  using Values = std::vector<T>;
  using Floats = std::vector<float>;

  // The tensor within `values`, which the allocator aligns to 16 bytes.
  T* At(Values& values) const { return values.data() + layout_.offset; }
  int64_t elements() const { return layout_.images * layout_.plane * layout_.channels; }
  Values Tensor() const { return Values(elements() + layout_.offset); }
  Values Random(uint32_t seed, bool rare) const {
    Values values = Tensor();
    std::mt19937 random(seed);
    const float rares[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, INFINITY, -INFINITY, NAN};
    for (T& value : values) {
      const uint32_t dice = random();
      const float ordinary = (static_cast<float>(dice % 2001) - 1000) / 300;
      value = Wide<T>::Narrow(rare && dice % 16 == 0 ? rares[dice / 16 % 8] : ordinary);
    }
    return values;
  }
  // Numbers of the channels. Some results are so small that T has 0 for them, or nearly.
  Floats PerChannel(uint32_t seed, bool positive) const {
    Floats values(layout_.channels);
    std::mt19937 random(seed);
    for (float& value : values) value = (static_cast<float>(random() % 1001) - (positive ? -1 : 500)) / 400;
    return values;
  }

  BatchNormShape Shape(bool training) const {
    BatchNormShape shape;
    shape.pixels = layout_.images * layout_.plane;
    shape.plane = layout_.plane;
    shape.channels_first = layout_.channels_first;
    shape.channels = layout_.channels;
    shape.epsilon = 1e-3f;
    shape.training = training;
    return shape;
  }

  struct Result {
    Values y;
    Floats mean, variance, mean_saved, variance_saved;
    bool operator==(const Result& other) const {
      return Same(y, other.y) && Same(mean, other.mean) && Same(variance, other.variance) && Same(mean_saved, other.mean_saved) &&
             Same(variance_saved, other.variance_saved);
    }
  };

  Result Norm(bool training, Values& x, Values* side, bool relu) {
    Result result{Tensor(), Floats(layout_.channels), Floats(layout_.channels), Floats(layout_.channels), Floats(layout_.channels)};
    const BatchNormShape shape = Shape(training);
    std::vector<char> scratch(BatchNormScratchBytes(shape));
    BatchNormForward arguments{.x = At(x),
                               .side = side != nullptr ? At(*side) : nullptr,
                               .scale = scale_.data(),
                               .offset = offset_.data(),
                               .old_mean = given_mean_.data(),
                               .old_variance = given_variance_.data(),
                               .y = At(result.y),
                               .mean_out = result.mean.data(),
                               .variance_out = result.variance.data(),
                               .mean_saved = result.mean_saved.data(),
                               .variance_saved = result.variance_saved.data(),
                               .reserve = nullptr,
                               .relu = relu};
    LaunchBatchNorm(queue_, kType<T>, shape, arguments, scratch.data());
    return result;
  }

  struct Gradients {
    Values dx;
    Floats d_scale, d_offset;
    bool operator==(const Gradients& other) const { return Same(dx, other.dx) && Same(d_scale, other.d_scale) && Same(d_offset, other.d_offset); }
  };

  Gradients Gradient(bool training, Values& dy, Values& x, const Result& forward, bool relu) {
    Gradients result{Tensor(), Floats(layout_.channels), Floats(layout_.channels)};
    const BatchNormShape shape = Shape(training);
    std::vector<char> scratch(BatchNormScratchBytes(shape));
    const BatchNormBackward arguments{.dy = At(dy),
                                      .x = At(x),
                                      .scale = scale_.data(),
                                      .mean = forward.mean_saved.data(),
                                      .variance = forward.variance_saved.data(),
                                      .offset = relu ? offset_.data() : nullptr,
                                      .dx = At(result.dx),
                                      .d_scale = result.d_scale.data(),
                                      .d_offset = result.d_offset.data()};
    LaunchBatchNormGrad(queue_, kType<T>, shape, arguments, scratch.data());
    return result;
  }

  void ExpectStatisticsOf(Values& x, const Result& result) {
    const double count = static_cast<double>(layout_.images * layout_.plane);
    std::vector<double> sums(layout_.channels), squares(layout_.channels);
    for (int64_t i = 0; i < elements(); ++i) {
      const int64_t c = layout_.channels_first ? i / layout_.plane % layout_.channels : i % layout_.channels;
      const double value = Widen(At(x)[i]);
      sums[c] += value;
      squares[c] += value * value;
    }
    for (int64_t c = 0; c < layout_.channels; ++c) {
      const double mean = sums[c] / count;
      ASSERT_NEAR(result.mean_saved[c], mean, 1e-6 * (1 + std::abs(mean))) << "channel " << c;
      ASSERT_NEAR(result.variance_saved[c], squares[c] / count - mean * mean, 1e-5) << "channel " << c;
    }
  }

  void Relu(Values& x) { LaunchUnary(queue_, UnaryOp::kRelu, kType<T>, At(x), At(x), elements(), 0); }
  // a op b where `a` was
  void Binary(BinaryOp op, Values& a, Values& b) {
    Broadcast shape{.rank = 1, .elements = elements(), .dims = {elements()}, .strides = {{1}, {1}}};
    LaunchBinary(queue_, op, kType<T>, shape, At(a), At(b), At(a), 0);
  }

  // Every way through the kernels of `layout`, of ordinary numbers or others, too.
  void Check(const Layout& layout, bool rare) {
    layout_ = layout;
    scale_ = PerChannel(1, false);
    offset_ = PerChannel(2, false);
    given_mean_ = PerChannel(3, false);
    given_variance_ = PerChannel(4, true);
    scale_[0] = 2e-8f, offset_[0] = 0;                                                              // halves are 0 here or their least number, and signs matter
    if (layout_.channels > 1) scale_[1] = std::numeric_limits<float>::min() / 300, offset_[1] = 0;  // and bfloat16 here
    Values x = Random(5, rare), side = Random(6, rare), dr = Random(7, rare);
    for (const bool training : {true, false}) {
      SCOPED_TRACE(training ? "training" : "given statistics");
      const Result plain = Norm(training, x, nullptr, false);
      if (training && !rare) ExpectStatisticsOf(x, plain);
      Result with_relu = plain, with_sum = plain;
      Relu(with_relu.y);
      EXPECT_TRUE(Norm(training, x, nullptr, true) == with_relu);
      Binary(BinaryOp::kAdd, with_sum.y, side);
      EXPECT_TRUE(Norm(training, x, &side, false) == with_sum);
      Relu(with_sum.y);
      EXPECT_TRUE(Norm(training, x, &side, true) == with_sum);

      if (training) {
        given_mean_ = plain.mean_saved, given_variance_ = plain.variance_saved;
        EXPECT_TRUE(Same(Norm(false, x, &side, true).y, with_sum.y)) << "given the statistics that were saved";
        given_mean_ = PerChannel(3, false), given_variance_ = PerChannel(4, true);
      }
      Values dy = dr;
      Binary(BinaryOp::kReluGrad, dy, with_relu.y);
      EXPECT_TRUE(Gradient(training, dr, x, plain, true) == Gradient(training, dy, x, plain, false));
      EXPECT_EQ(fault_.code, FaultCode::kNone);
    }
  }

  Fault fault_;
  const Queue queue_{.fault = &fault_};
  Layout layout_;
  Floats scale_, offset_, given_mean_, given_variance_;
};

using Types = ::testing::Types<float, Half, Bfloat16>;
TYPED_TEST_SUITE(NormTest, Types);

TYPED_TEST(NormTest, AsOneHasTheBitsOfTheKernelsOneByOne) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(std::to_string(layout.images) + " images of " + std::to_string(layout.plane) + " pixels, " + std::to_string(layout.channels) + " channels " +
                 (layout.channels_first ? "first" : "last") + " from " + std::to_string(layout.offset));
    for (const bool rare : {false, true}) this->Check(layout, rare);
  }
}

// The same elements, moved together and one by one.
TYPED_TEST(NormTest, WhereTensorsLieDoesNotChangeABit) {
  for (Layout layout : {Layout{3, 50, 64}, Layout{2, 36, 5, true}}) {
    std::vector<std::vector<TypeParam>> results, gradients;
    for (const int64_t offset : {0, 1}) {
      layout.offset = offset;
      this->layout_ = layout;
      this->scale_ = this->PerChannel(1, false), this->offset_ = this->PerChannel(2, false);
      this->given_mean_ = this->PerChannel(3, false), this->given_variance_ = this->PerChannel(4, true);
      auto x = this->Tensor(), dy = this->Tensor();
      for (int64_t i = 0; i < this->elements(); ++i) {
        this->At(x)[i] = Wide<TypeParam>::Narrow(static_cast<float>(i * 7919 % 1009) / 300 - 1);
        this->At(dy)[i] = Wide<TypeParam>::Narrow(static_cast<float>(i * 6131 % 1013) / 300 - 1);
      }
      auto forward = this->Norm(true, x, nullptr, true);
      auto gradient = this->Gradient(true, dy, x, forward, true);
      results.push_back({forward.y.begin() + offset, forward.y.end()});
      gradients.push_back({gradient.dx.begin() + offset, gradient.dx.end()});
    }
    EXPECT_TRUE(Same(results[0], results[1]));
    EXPECT_TRUE(Same(gradients[0], gradients[1]));
  }
}

}  // namespace
}  // namespace millrace::cuda
