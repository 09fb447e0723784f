// Which terms of a sum of products are packed, and in how much scratch: by sizes alone. Which sparse products are the CPU's.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Remembers which products were planned, by the length of their inner dimension.
class Recorder final : public HostServices {
 public:
  Recorder() : HostServices(/*written_out=*/true) {}
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) override {
    depths.push_back(shape.k);
    return HostServices::PlanProduct(shape);
  }
  std::vector<int64_t> depths;
};

struct Made {
  std::vector<int64_t> depths;
  int64_t scratch_bytes = 0;
};

Made Make(int64_t m, int64_t n, const std::vector<int64_t>& depths) {
  Recorder services;
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  OpInstance instance;
  instance.op = "_SumProducts";
  instance.attrs.Set("transpose_a", true);
  for (int64_t depth : depths) {
    instance.inputs.push_back({DataType::kFloat, Shape({depth, m})});
    instance.inputs.push_back({DataType::kFloat, Shape({depth, n})});
  }
  instance.outputs.push_back({DataType::kFloat, Shape({m, n})});
  const auto kernel = (*registry.Find("_SumProducts"))(instance);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return {services.depths, kernel.ok() ? (*kernel)->scratch_bytes() : -1};
}

Made Make(int64_t m, int64_t n, int64_t depth, int terms) { return Make(m, n, std::vector<int64_t>(terms, depth)); }

TEST(ProductSumTest, EightTermsOfALargeSumAreOneProduct) {
  const Made eight = Make(2000, 4000, 64, 8);
  EXPECT_THAT(eight.depths, ElementsAre(512));
  EXPECT_EQ(eight.scratch_bytes, 512 * 6000 * 4 + kLibraryAlignment);
  EXPECT_THAT(Make(2000, 4000, 64, 9).depths, ElementsAre(512, 64));
  EXPECT_THAT(Make(2000, 4000, 64, 17).depths, ElementsAre(512, 64)) << "equal products are planned once";
  EXPECT_THAT(Make(2000, 4000, {64, 8, 64}).depths, ElementsAre(136));
}

TEST(ProductSumTest, OneTermIsReadWhereItIs) {
  const Made one = Make(2000, 4000, 64, 1);
  EXPECT_THAT(one.depths, ElementsAre(64));
  EXPECT_EQ(one.scratch_bytes, 0);
}

TEST(ProductSumTest, TermsWhoseCopiesMoveMoreThanTheSumAreProductsOfTheirOwn) {
  const Made deep = Make(64, 64, 100000, 8);
  EXPECT_THAT(deep.depths, ElementsAre(100000));
  EXPECT_EQ(deep.scratch_bytes, 0);
  EXPECT_THAT(Make(2048, 2048, 1200, 2).depths, ElementsAre(1200)) << "79 MB of copies, 34 MB of a sum";
  EXPECT_THAT(Make(2048, 2048, 500, 2).depths, ElementsAre(1000)) << "33 MB of copies";
}

TEST(ProductSumTest, ScratchIsBounded) {
  const Made made = Make(16384, 16384, 128, 8);  // 16 MiB a term
  EXPECT_THAT(made.depths, ElementsAre(512));
  EXPECT_EQ(made.scratch_bytes, (int64_t{64} << 20) + kLibraryAlignment);
  EXPECT_THAT(Make(16384, 16384, 700, 2).depths, ElementsAre(700)) << "one term is more than that";
}

absl::Status MakeSparse(DataType type) {
  HostServices services(/*written_out=*/true);
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  OpInstance instance{.name = "node", .op = "SparseTensorDenseMatMul", .outputs = {{type, Shape({3, 5})}}};
  instance.inputs = {{DataType::kInt64, Shape({2, 2})}, {type, Shape({2})}, {DataType::kInt64, Shape({2})}, {type, Shape({4, 5})}};
  instance.input_values = {Tensor(), Tensor(), Tensor::Vector<int64_t>({3, 4}), Tensor()};
  return (*registry.Find(instance.op))(instance).status();
}

// The kernel adds up halves and bfloat16 as floats, the CPU's, as TensorFlow's, only halves.
TEST(SparseProductTest, Bfloat16IsLeftToTheCpu) {
  for (DataType type : {DataType::kFloat, DataType::kHalf}) EXPECT_TRUE(MakeSparse(type).ok()) << MakeSparse(type);
  EXPECT_THAT(std::string(MakeSparse(DataType::kBfloat16).message()), AllOf(HasSubstr("no CUDA kernel"), HasSubstr("bfloat16")));
}

}  // namespace
}  // namespace millrace::cuda
