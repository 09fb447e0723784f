#include "millrace/tensor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <new>
#include <stdexcept>
#include <string>
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
  EXPECT_EQ(Tensor(DataType::kFloat, {2, 3}).size_bytes(), 24);
}

TEST(TensorTest, WrappingNoMemoryThrows) {
  EXPECT_THROW(Tensor::Wrap(DataType::kFloat, {2}, nullptr, nullptr), std::invalid_argument);
  float values[2] = {1, 2};
  EXPECT_THROW(Tensor::Wrap(DataType::kFloat, {-1}, values, nullptr), std::invalid_argument);
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
