// Ragged tensors whose rows go through lists, as map_fn and its gradient hand them to the turns of their loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/types/span.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRows[] = R"(
splits = Placeholder() {dtype=int64, shape=shape[4]}
values = Placeholder() {dtype=float, shape=shape[6]}
none = Const() {dtype=int32, value=int32[0]{}}
three = Const() {dtype=int32, value=int32[]{3}}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
two = Const() {dtype=int32, value=int32[]{2}}
ragged = RaggedTensorToVariant(splits, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=1, batched_input=true}
list = TensorListFromTensor(ragged, none) {element_dtype=variant, shape_type=int32}
)";

// Rows in another order, the first one squared.
constexpr char kMapped[] = R"(
a = TensorListGetItem(list, zero, none) {element_dtype=variant}
b = TensorListGetItem(list, one, none) {element_dtype=variant}
c = TensorListGetItem(list, two, none) {element_dtype=variant}
row = RaggedTensorFromVariant(a) {input_ragged_rank=-1, output_ragged_rank=0, Tvalues=float, Tsplits=int64}
square = Square(row) {T=float}
made = RaggedTensorToVariant(square) {Tsplits=int64, Tvalues=float, RAGGED_RANK=0, batched_input=false}
empty = TensorListReserve(none, three) {element_dtype=variant, shape_type=int32}
with_a = TensorListSetItem(empty, two, made) {element_dtype=variant}
with_b = TensorListSetItem(with_a, zero, b) {element_dtype=variant}
with_c = TensorListSetItem(with_b, one, c) {element_dtype=variant}
stacked = TensorListStack(with_c, none) {element_dtype=variant, num_elements=3}
out = RaggedTensorFromVariant(stacked) {input_ragged_rank=-1, output_ragged_rank=1, Tvalues=float, Tsplits=int64}
out_splits = Identity(out) {T=int64}
out_values = Identity(out:1) {T=float}
)";

// The gradient of `values` where only the row in the middle has one.
constexpr char kGradient[] = R"(
b = TensorListGetItem(list, one, none) {element_dtype=variant}
empty = TensorListReserve(none, three) {element_dtype=variant, shape_type=int32}
with_b = TensorListSetItem(empty, one, b) {element_dtype=variant}
stacked = TensorListStack(with_b, none) {element_dtype=variant, num_elements=3}
shape = Const() {dtype=int32, value=int32[1]{6}}
gradient = RaggedTensorToVariantGradient(stacked, splits, shape) {Tvalues=float, Tsplits=int64}
)";

// The rows [1 2 | 3 | 4 5 6] and then [ | 1 2 3 4 | 5 6].
Session::Feeds Feeds(const std::vector<int64_t>& splits) {
  return {{"splits", Tensor::Vector<int64_t>(absl::MakeConstSpan(splits))}, {"values", Tensor::Vector<float>({1, 2, 3, 4, 5, 6})}};
}

TEST(RaggedRows, AreItemsOfAList) {
  const auto session = SessionOf(std::string(kRows) + kMapped);
  std::vector<Tensor> out;
  absl::Status status = session->Run(Feeds({0, 2, 3, 6}), {"out_splits", "out_values"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 1, 4, 6));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(3, 4, 5, 6, 1, 4));
  status = session->Run(Feeds({0, 0, 4, 6}), {"out_splits", "out_values"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 4, 6, 6));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(RaggedRows, WithoutAGradientCountAsZeros) {
  const auto session = SessionOf(std::string(kRows) + kGradient);
  std::vector<Tensor> out;
  const absl::Status status = session->Run(Feeds({0, 2, 3, 6}), {"gradient"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 0, 3, 0, 0, 0));
}

TEST(RaggedRows, ThatAreRaggedThemselvesAreRefused) {
  const auto session = SessionOf(std::string(kRows) + R"(
nested = RaggedTensorToVariant(splits, splits, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=2, batched_input=true}
rows = TensorListFromTensor(nested, none) {element_dtype=variant, shape_type=int32}
count = TensorListLength(rows)
)");
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run(Feeds({0, 2, 3, 6}), {"count"}, {}, &out).message(), HasSubstr("rows that are ragged themselves are not supported"));
}

TEST(RaggedRows, SplitsThatFallAreAnError) {
  const auto session = SessionOf(std::string(kRows) + kMapped);
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run(Feeds({0, 4, 3, 6}), {"out_values"}, {}, &out).message(), HasSubstr("row splits that do not grow from 0"));
}

}  // namespace
}  // namespace millrace
