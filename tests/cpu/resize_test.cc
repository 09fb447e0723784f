#include <cmath>
#include <limits>
#include <thread>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

AttrMap Alignment(bool corners, bool centers) {
  AttrMap attrs;
  attrs.Set("align_corners", corners);
  attrs.Set("half_pixel_centers", centers);
  return attrs;
}

Tensor Size(int32_t height, int32_t width) { return Tensor::Vector<int32_t>({height, width}); }

Tensor Resize(const std::string& op, const AttrMap& attrs, const Tensor& images, const Tensor& size) {
  return EvaluateOnThreads({op, attrs, {images, size}, {false, true}});
}

Tensor Row(absl::Span<const float> values) {
  return Tensor::Vector<float>(values).Reshaped(Shape({1, 1, static_cast<int64_t>(values.size()), 1}));
}

TEST(Resize, PutsOutputsWhereTheAlignmentSays) {
  const Tensor row = Row({0, 10, 20});
  ExpectClose(Resize("ResizeBilinear", Alignment(false, false), row, Size(1, 6)), {0, 5, 10, 15, 20, 20}, 1e-6);
  ExpectClose(Resize("ResizeBilinear", Alignment(true, false), row, Size(1, 5)), {0, 5, 10, 15, 20}, 1e-6);
  ExpectClose(Resize("ResizeBilinear", Alignment(false, true), row, Size(1, 6)), {0, 2.5, 7.5, 12.5, 17.5, 20}, 1e-6);
  ExpectClose(Resize("ResizeNearestNeighbor", Alignment(false, false), row, Size(1, 6)), {0, 0, 10, 10, 20, 20}, 0);
  ExpectClose(Resize("ResizeNearestNeighbor", Alignment(true, false), row, Size(1, 4)), {0, 10, 10, 20}, 0);
  ExpectClose(Resize("ResizeNearestNeighbor", Alignment(false, true), row, Size(1, 2)), {0, 20}, 0);
}

class ResizeMethods : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string op() const { return std::get<0>(GetParam()); }
  AttrMap attrs() const { return Alignment(std::get<1>(GetParam()) == 1, std::get<1>(GetParam()) == 2); }
};

TEST_P(ResizeMethods, EqualSizesChangeNothing) {
  const Tensor images = TestValues(DataType::kFloat, Shape({2, 5, 7, 3}), 1);
  EXPECT_TRUE(Resize(op(), attrs(), images, Size(5, 7)).BitEqual(images));
}

// <resize(x), g> = <x, grad(g)>, for sizes up, down and large enough for several shards.
TEST_P(ResizeMethods, GradientIsTheTransposedMap) {
  for (const auto& [from, to] : {std::pair(Shape({2, 5, 7, 3}), std::pair(9, 4)), std::pair(Shape({3, 40, 50, 8}), std::pair(61, 33)),
                                 std::pair(Shape({1, 1, 1, 2}), std::pair(3, 3))}) {
    const Tensor x = TestValues(DataType::kFloat, from, 1), size = Size(to.first, to.second);
    const Tensor g = TestValues(DataType::kFloat, Shape({from.dim(0), to.first, to.second, from.dim(3)}), 2);
    const Tensor y = Resize(op(), attrs(), x, size);
    const bool nearest = op() == "ResizeNearestNeighbor";
    const Tensor second = nearest ? Size(static_cast<int32_t>(from.dim(1)), static_cast<int32_t>(from.dim(2))) : x;
    const Tensor dx = EvaluateOnThreads({op() + "Grad", attrs(), {g, second}, {false, nearest}});
    double forward = 0, backward = 0, scale = 0;
    for (int64_t i = 0; i < y.num_elements(); ++i) forward += y.DoubleAt(i) * g.DoubleAt(i);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      backward += x.DoubleAt(i) * dx.DoubleAt(i);
      scale += std::abs(x.DoubleAt(i) * dx.DoubleAt(i));
    }
    EXPECT_NEAR(forward, backward, 1e-6 * scale) << from.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResizeMethods,
                         testing::Combine(testing::Values("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"),
                                          testing::Values(0, 1, 2)));

TEST(Resize, TakesEveryElementType) {
  for (DataType dtype : {DataType::kDouble, DataType::kHalf, DataType::kBfloat16, DataType::kInt32, DataType::kInt64}) {
    const Tensor images = TestValues(dtype, Shape({1, 2, 2, 1}), 1);
    const Tensor resized = Resize("ResizeBilinear", {}, images, Size(2, 2));
    EXPECT_EQ(resized.dtype(), DataType::kFloat);
    EXPECT_EQ(resized.DoubleAt(3), images.DoubleAt(3));
    EXPECT_EQ(Resize("ResizeNearestNeighbor", {}, images, Size(4, 4)).dtype(), dtype);
  }
}

TEST(Resize, RefusesWhatMakesNoImage) {
  const Tensor images = TestValues(DataType::kFloat, Shape({1, 2, 2, 1}), 1);
  const auto refused = [](const NodeRun& run) { return !Evaluate(run).ok(); };
  EXPECT_TRUE(refused({"ResizeBilinear", {}, {images, Size(0, 2)}, {false, true}}));
  EXPECT_TRUE(refused({"ResizeBilinear", {}, {images, Tensor::Vector<int32_t>({3})}, {false, true}}));
  EXPECT_TRUE(refused({"ResizeBilinear", {}, {images, Size(2, 2)}}));
  EXPECT_TRUE(refused({"ResizeBilinear", Alignment(true, true), {images, Size(2, 2)}, {false, true}}));
  EXPECT_TRUE(refused({"ResizeBilinear", {}, {Tensor(DataType::kFloat, Shape({1, 0, 2, 1})), Size(2, 2)}, {false, true}}));
  EXPECT_TRUE(refused({"ResizeBilinearGrad", {}, {images, TestValues(DataType::kFloat, Shape({2, 2, 2, 1}), 1)}}));
}

// A kernel is also made to ask for its scratch, of images that no memory has room for: it makes no tables of their size then.
TEST(Resize, KernelsOfHugeImagesAreMadeAtOnce) {
  constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
  const Tensor images = TestValues(DataType::kFloat, Shape({1, 1, 2, 1}), 1);
  for (const char* op : {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"}) {
    const auto node = Infer({op, {}, {images, Size(1, kHuge)}, {false, true}});
    ASSERT_TRUE(node.ok()) << node.status();
    const auto kernel = (*CpuKernels().Find(op))(*node);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_LT((*kernel)->scratch_bytes(), 1 << 20) << op;
  }
}

// Sessions share kernels: whoever comes first makes the tables.
TEST(Resize, KernelsMayFirstRunOnSeveralThreads) {
  const Tensor images = TestValues(DataType::kFloat, Shape({1, 20, 30, 3}), 1);
  const NodeRun run = {"ResizeBilinear", {}, {images, Size(50, 70)}, {false, true}};
  const auto node = Infer(run);
  ASSERT_TRUE(node.ok()) << node.status();
  const auto kernel = (*CpuKernels().Find(run.op))(*node);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Tensor expected = EvaluateOnThreads(run);
  std::vector<Tensor> results(4, Tensor(DataType::kFloat, expected.shape()));
  std::vector<std::thread> threads;
  for (Tensor& result : results) {
    threads.emplace_back([&] {
      Tensor scratch(DataType::kUint8, Shape({(*kernel)->scratch_bytes()}));
      void* const inputs[] = {const_cast<void*>(images.data()), nullptr};
      void* const outputs[] = {result.mutable_data()};
      ThreadsRunner runner(1);
      KernelContext context;
      context.instance = &*node;
      context.inputs = inputs;
      context.outputs = outputs;
      context.scratch = scratch.mutable_data();
      context.parallel = &runner;
      EXPECT_TRUE((*kernel)->Run(context).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) EXPECT_TRUE(result.BitEqual(expected));
}

}  // namespace
}  // namespace millrace::cpu
