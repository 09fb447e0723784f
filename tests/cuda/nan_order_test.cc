// Where NaN is among the numbers that an op puts in order, its kernels here, compiled for the host, have the CPU's bits.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/kernel_testing.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

using cpu::NodeRun;

constexpr DataType kFloats[] = {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16};

// Small numbers, many of them equal, with zeros of either sign and infinities; of rows of `columns` some have NaNs, one begins with one.
Tensor NumbersWithNan(DataType dtype, const Shape& shape, int64_t columns) {
  std::mt19937 random(4);
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
    const uint32_t kind = random() % 12;
    values[i] = kind == 0 ? -0.0 : kind == 1 ? std::numeric_limits<double>::infinity() : static_cast<double>(random() % 40) - 20;
    if ((row % 3 == 1 && kind > 9) || (row % 3 == 2 && column == 0)) values[i] = std::nan("");
  }
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DataType::kFloat) tensor.mutable_as<float>()[i] = static_cast<float>(values[i]);
    if (dtype == DataType::kDouble) tensor.mutable_as<double>()[i] = values[i];
    if (dtype == DataType::kHalf) static_cast<Eigen::half*>(tensor.mutable_data())[i] = Eigen::half(static_cast<float>(values[i]));
    if (dtype == DataType::kBfloat16) static_cast<Eigen::bfloat16*>(tensor.mutable_data())[i] = Eigen::bfloat16(static_cast<float>(values[i]));
  }
  return tensor;
}

class NanOrderTest : public ::testing::Test {
 protected:
  NanOrderTest() { RegisterCudaKernels(cuda_, services_); }
  void ExpectCpusBits(const NodeRun& run) {
    SCOPED_TRACE(run.op + " of " + std::string(DataTypeName(run.inputs[0].dtype())) + " " + run.inputs[0].shape().ToString());
    const auto expected = cpu::Evaluate(run), found = cpu::Evaluate(run, nullptr, cuda_);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(found.ok()) << found.status();
    for (size_t k = 0; k < expected->size(); ++k) EXPECT_TRUE((*found)[k].BitEqual((*expected)[k])) << "output " << k;
  }
  HostServices services_{/*written_out=*/true};
  KernelRegistry cuda_;
};

TEST_F(NanOrderTest, TheGreatestOfRows) {
  for (const DataType dtype : kFloats) {
    for (const int64_t columns : {5, 30, 300}) {
      for (const int32_t k : {1, 2, 5, 29, 200}) {
        for (const bool sorted : {true, false}) {
          if (k > columns) continue;
          NodeRun run = {"TopKV2", {}, {NumbersWithNan(dtype, Shape({7, columns}), columns), Tensor::Scalar<int32_t>(k)}, {false, true}};
          run.attrs.Set("sorted", sorted);
          SCOPED_TRACE(k);
          ExpectCpusBits(run);
        }
      }
    }
  }
}

TEST_F(NanOrderTest, ThePlacesOfTheGreatest) {
  for (const DataType dtype : kFloats) {
    for (const char* op : {"ArgMax", "ArgMin"}) {
      ExpectCpusBits({op, {}, {NumbersWithNan(dtype, Shape({7, 30}), 30), Tensor::Scalar<int32_t>(1)}, {false, true}});
      ExpectCpusBits({op, {}, {NumbersWithNan(dtype, Shape({30, 7}), 7), Tensor::Scalar<int32_t>(0)}, {false, true}});
    }
  }
}

// Some have no rows, one has many.
TEST_F(NanOrderTest, TheGreatestOfSegments) {
  constexpr int64_t kRows = 700, kColumns = 3;
  std::vector<int32_t> rising, any;
  for (int32_t i = 0; i < kRows; ++i) {
    rising.push_back(i < 20 ? i / 4 : i < 100 ? 7 : i < 600 ? 8 : 10);
    any.push_back(i * 7 % 13 == 0 ? -1 : i % 2 == 0 ? 4 : i * 5 % 11);
  }
  for (const DataType dtype : kFloats) {
    const Tensor data = NumbersWithNan(dtype, Shape({kRows, kColumns}), kColumns);
    for (const char* op : {"SegmentMax", "SegmentMin"}) ExpectCpusBits({op, {}, {data, Tensor::Vector<int32_t>(rising)}, {false, true}});
    for (const char* op : {"UnsortedSegmentMax", "UnsortedSegmentMin"}) {
      ExpectCpusBits({op, {}, {data, Tensor::Vector<int32_t>(any), Tensor::Scalar<int32_t>(12)}, {false, false, true}});
    }
  }
}

TEST_F(NanOrderTest, TheGreaterOfTwo) {
  for (const DataType dtype : kFloats) {
    const Tensor a = NumbersWithNan(dtype, Shape({9, 11}), 11), b = NumbersWithNan(dtype, Shape({9, 11}), 10);
    for (const char* op : {"Maximum", "Minimum", "ReluGrad"}) ExpectCpusBits({op, {}, {a, b}});
    for (const char* op : {"Relu", "Relu6", "Sign"}) ExpectCpusBits({op, {}, {a}});  // of -0, too
    for (const char* op : {"Max", "Min"}) {
      ExpectCpusBits({op, {}, {a, Tensor::Scalar<int32_t>(1)}, {false, true}});
      ExpectCpusBits({op, {}, {a, Tensor::Scalar<int32_t>(0)}, {false, true}});
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
