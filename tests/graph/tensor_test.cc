#include "millrace/tensor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/exceptions.h"

namespace millrace {
namespace {

TEST(TensorTest, WhatNoMemoryHoldsThrows) {
  for (const DataType dtype : {DataType::kFloat, DataType::kUint8, DataType::kString}) {
    EXPECT_THROW(Tensor(dtype, {int64_t{1} << 62}), std::bad_alloc);
    EXPECT_THROW(Tensor(dtype, {int64_t{1} << 61, 3}), std::bad_alloc);
    EXPECT_THROW(Tensor(dtype, {int64_t{1} << 40, int64_t{1} << 40}), std::bad_alloc);
  }
  EXPECT_EQ(Tensor(DataType::kFloat, {int64_t{1} << 40, int64_t{1} << 40, 0}).num_elements(), 0);
}

TEST(TensorTest, MemoryThatIsRefusedThrows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs addresses of its own";
#endif
  rlimit former;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &former), 0);
  const rlimit small{rlim_t{32} << 30, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  EXPECT_THROW(Tensor(DataType::kUint8, {int64_t{33} << 30}), std::bad_alloc);
  setrlimit(RLIMIT_AS, &former);
}

TEST(TensorTest, AShapeThatIsNotKnownThrows) {
  EXPECT_THROW(Tensor(DataType::kFloat, {-1, 3}), std::invalid_argument);
  EXPECT_THROW(Tensor(DataType::kString, {-1, -1}), std::invalid_argument);
  EXPECT_THROW(Tensor(DataType::kFloat, Shape::UnknownRank()), std::invalid_argument);
  EXPECT_EQ(Tensor(DataType::kFloat, {2, 3}).size_bytes(), 24);
}

TEST(TensorTest, WhatIsMovedFromIsNoTensor) {
  static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
  Tensor strings(DataType::kString, {2});
  Tensor kept = std::move(strings);
  EXPECT_TRUE(strings.empty());
  EXPECT_EQ(kept.strings().size(), 2);
  for (const Shape& shape : {Shape(), Shape({2, 3})}) {
    Tensor from(DataType::kFloat, shape);
    kept = std::move(from);
    EXPECT_TRUE(from.empty());
    EXPECT_EQ(from.size_bytes(), 0);
    EXPECT_EQ(kept.type(), (TensorType{DataType::kFloat, shape}));
    EXPECT_TRUE(from.BitEqual(Tensor()));
    EXPECT_FALSE(from.BitEqual(kept));
  }
  Tensor& same = kept;
  kept = std::move(same);
  EXPECT_EQ(kept.size_bytes(), 24);
  strings = kept;
  EXPECT_EQ(strings.data(), kept.data());
}

TEST(TensorTest, AnotherShapeHasAsManyElements) {
  const Tensor x = Tensor::Vector<float>({1, 2, 3, 4, 5, 6});
  for (const Shape& shape : {Shape({100000, 3}), Shape({5}), Shape({-1, 3}), Shape(), Shape::UnknownRank()}) {
    EXPECT_THROW(x.Reshaped(shape), std::invalid_argument) << shape.ToString();
  }
  EXPECT_EQ(x.Reshaped({3, 2}).as<float>()[5], 6);
  EXPECT_THROW(Tensor(DataType::kString, {2}).Reshaped({3}), std::invalid_argument);
}

TEST(TensorTest, ElementsAreReadAsOnesOfTheirSize) {
  Tensor halves(DataType::kHalf, {3});
  EXPECT_EQ(halves.mutable_as<uint16_t>().size(), 3);
  const Tensor x = Tensor::Vector<float>({1, 2});
  EXPECT_EQ(x.as<uint32_t>()[0], 0x3f800000u);
  EXPECT_THROW(x.as<double>(), std::invalid_argument);
  EXPECT_THROW(x.as<char>(), std::invalid_argument);
  EXPECT_THROW(halves.mutable_as<float>(), std::invalid_argument);
  EXPECT_THROW(Tensor(DataType::kString, {2}).as<float>(), std::invalid_argument);
  EXPECT_EQ(Tensor().as<float>().size(), 0);
  EXPECT_EQ(Tensor().mutable_as<int64_t>().size(), 0);
}

TEST(TensorTest, WrappingNoMemoryThrows) {
  EXPECT_THROW(Tensor::Wrap(DataType::kFloat, {2}, nullptr, nullptr), std::invalid_argument);
  float values[2] = {1, 2};
  EXPECT_THROW(Tensor::Wrap(DataType::kFloat, {-1}, values, nullptr), std::invalid_argument);
  EXPECT_THROW(Tensor::Wrap(DataType::kFloat, Shape::UnknownRank(), values, nullptr), std::invalid_argument);
  std::string text = "text";
  EXPECT_THROW(Tensor::Wrap(DataType::kString, {}, &text, nullptr), std::invalid_argument);
  EXPECT_EQ(Tensor::Wrap(DataType::kFloat, {0, 3}, nullptr, nullptr).num_elements(), 0);
  EXPECT_EQ(Tensor::Wrap(DataType::kFloat, {2}, values, nullptr).as<float>()[1], 2);
}

TEST(WithoutExceptions, MemoryThatNoMachineHasIsExhausted) {
  const auto code = [](auto throws) {
    return WithoutExceptions([&]() -> absl::Status { return throws(), absl::OkStatus(); }).code();
  };
  EXPECT_EQ(code([] { throw std::bad_alloc(); }), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code([] { std::vector<double>().resize(std::numeric_limits<size_t>::max()); }), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code([] { throw std::runtime_error("no"); }), absl::StatusCode::kInternal);
}

TEST(WithoutExceptions, ALengthErrorOfAKernelIsNotAboutMemory) {
  const absl::Status status = WithoutKernelExceptions([]() -> absl::Status { throw std::length_error("too long"); });
  EXPECT_EQ(status, absl::InternalError("threw an exception: too long"));
  EXPECT_EQ(WithoutKernelExceptions([]() -> absl::Status { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace
