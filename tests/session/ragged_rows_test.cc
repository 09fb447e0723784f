// Ragged tensors whose rows go through lists, as map_fn and its gradient hand them to the turns of their loops.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
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
size = Shape(ragged) {T=variant, out_type=int32}
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
  absl::Status status = session->Run(Feeds({0, 2, 3, 6}), {"out_splits", "out_values", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[2]), ElementsAre(3));
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

// Two rows of rows, swapped, one of them squared; the gradient of what was swapped.
constexpr char kNested[] = R"(
outer = Const() {dtype=int64, value=int64[3]{0, 1, 3}}
nested = RaggedTensorToVariant(outer, splits, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=2, batched_input=true}
rows = TensorListFromTensor(nested, none) {element_dtype=variant, shape_type=int32}
a = TensorListGetItem(rows, zero, none) {element_dtype=variant}
b = TensorListGetItem(rows, one, none) {element_dtype=variant}
parts = RaggedTensorFromVariant(b) {input_ragged_rank=-1, output_ragged_rank=1, Tvalues=float, Tsplits=int64}
square = Square(parts:1) {T=float}
made = RaggedTensorToVariant(parts, square) {Tsplits=int64, Tvalues=float, RAGGED_RANK=1, batched_input=false}
empty = TensorListReserve(none, two) {element_dtype=variant, shape_type=int32}
with_b = TensorListSetItem(empty, zero, made) {element_dtype=variant}
with_a = TensorListSetItem(with_b, one, a) {element_dtype=variant}
stacked = TensorListStack(with_a, none) {element_dtype=variant, num_elements=2}
out = RaggedTensorFromVariant(stacked) {input_ragged_rank=-1, output_ragged_rank=2, Tvalues=float, Tsplits=int64}
out_outer = Identity(out) {T=int64}
out_splits = Identity(out:1) {T=int64}
out_values = Identity(out:2) {T=float}
swapped = Const() {dtype=int64, value=int64[3]{0, 2, 3}}
shape = Const() {dtype=int32, value=int32[1]{6}}
gradient = RaggedTensorToVariantGradient(stacked, swapped, shape) {Tvalues=float, Tsplits=int64}
)";

TEST(RaggedRows, ThatAreRaggedThemselvesAreListsOfTheirRows) {
  const auto session = SessionOf(std::string(kRows) + kNested);
  std::vector<Tensor> out;
  absl::Status status = session->Run(Feeds({0, 2, 3, 6}), {"out_outer", "out_splits", "out_values", "gradient"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 2, 3));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(0, 1, 4, 6));
  EXPECT_THAT(Numbers(out[2]), ElementsAre(9, 16, 25, 36, 1, 2));
  EXPECT_THAT(Numbers(out[3]), ElementsAre(9, 16, 25, 36, 1, 2));
}

// Three rows of rows: one inner row of two values, one of one, and two of one value together. `set` of them have a gradient.
std::string NestedGradient(const std::vector<int>& set) {
  std::string text = R"(
outer = Const() {dtype=int64, value=int64[4]{0, 1, 2, 4}}
inner = Const() {dtype=int64, value=int64[5]{0, 2, 3, 3, 4}}
values = Const() {dtype=float, value=float[4]{5, 6, 7, 8}}
none = Const() {dtype=int32, value=int32[0]{}}
three = Const() {dtype=int32, value=int32[]{3}}
nested = RaggedTensorToVariant(outer, inner, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=2, batched_input=true}
list = TensorListFromTensor(nested, none) {element_dtype=variant, shape_type=int32}
list_0 = TensorListReserve(none, three) {element_dtype=variant, shape_type=int32}
)";
  size_t lists = 0;
  for (const int row : set) {
    absl::StrAppend(&text, "at_", row, " = Const() {dtype=int32, value=int32[]{", row, "}}\n", "row_", row, " = TensorListGetItem(list, at_", row,
                    ", none) {element_dtype=variant}\n", "list_", lists + 1, " = TensorListSetItem(list_", lists, ", at_", row, ", row_", row,
                    ") {element_dtype=variant}\n");
    ++lists;
  }
  return absl::StrCat(text, "stacked = TensorListStack(list_", lists, ", none) {element_dtype=variant, num_elements=3}\n", R"(
shape = Const() {dtype=int32, value=int32[1]{4}}
gradient = RaggedTensorToVariantGradient(stacked, outer, shape) {Tvalues=float, Tsplits=int64}
)");
}

TEST(RaggedRows, ThatAreRaggedAndHaveNoGradientAreAsManyZerosAsTheOthersLeave) {
  const std::pair<std::vector<int>, std::vector<double>> cases[] = {
      {{0, 1, 2}, {5, 6, 7, 8}}, {{1, 2}, {0, 0, 7, 8}}, {{0, 2}, {5, 6, 0, 8}}, {{0}, {5, 6, 0, 0}}, {{2}, {0, 0, 0, 8}}, {{}, {0, 0, 0, 0}}};
  for (const auto& [set, expected] : cases) {
    SCOPED_TRACE(::testing::PrintToString(set));
    std::vector<Tensor> out;
    const absl::Status status = SessionOf(NestedGradient(set))->Run({}, {"gradient"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAreArray(expected));
  }
}

TEST(RaggedRows, ThatAreRaggedAndHaveNoGradientInSeveralPlacesAreAnError) {
  std::vector<Tensor> out;
  EXPECT_THAT(SessionOf(NestedGradient({1}))->Run({}, {"gradient"}, {}, &out).message(), HasSubstr("how many values each has is not known"));
}

// Three inner rows are no indices, values and shape of a sparse tensor.
TEST(RaggedRows, ThatAreRaggedThemselvesAreNoSparseTensorsHoweverManyTheyAre) {
  const auto session = SessionOf(R"(
outer = Const() {dtype=int64, value=int64[3]{0, 3, 4}}
inner = Const() {dtype=int64, value=int64[5]{0, 2, 3, 3, 4}}
values = Const() {dtype=float, value=float[4]{5, 6, 7, 8}}
none = Const() {dtype=int32, value=int32[0]{}}
two = Const() {dtype=int32, value=int32[]{2}}
both = Const() {dtype=int32, value=int32[2]{0, 1}}
nested = RaggedTensorToVariant(outer, inner, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=2, batched_input=true}
list = TensorListFromTensor(nested, none) {element_dtype=variant, shape_type=int32}
empty = TensorListReserve(none, two) {element_dtype=variant, shape_type=int32}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
a = TensorListGetItem(list, zero, none) {element_dtype=variant}
b = TensorListGetItem(list, one, none) {element_dtype=variant}
with_a = TensorListSetItem(empty, zero, a) {element_dtype=variant}
with_b = TensorListSetItem(with_a, one, b) {element_dtype=variant}
stacked = TensorListStack(with_b, none) {element_dtype=variant, num_elements=2}
array = TensorArrayV3(two) {dtype=variant, element_shape=shape[]}
filled = TensorArrayScatterV3(array, both, nested, array:1) {T=variant}
gathered = TensorArrayGatherV3(array, both, filled) {dtype=variant, element_shape=shape[]}
of_stacked = Shape(stacked) {T=variant, out_type=int32}
of_gathered = Shape(gathered) {T=variant, out_type=int32}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"of_stacked", "of_gathered"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(2));
}

TEST(RaggedRows, AsManyByEverySplits) {
  const auto session = SessionOf(std::string(kRows) + R"(
outer = Const() {dtype=int64, value=int64[3]{0, 1, 2}}
nested = RaggedTensorToVariant(outer, splits, values) {Tsplits=int64, Tvalues=float, RAGGED_RANK=2, batched_input=true}
rows = TensorListFromTensor(nested, none) {element_dtype=variant, shape_type=int32}
count = TensorListLength(rows)
)");
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run(Feeds({0, 2, 3, 6}), {"count"}, {}, &out).message(), HasSubstr("has 2 rows by one row splits, and 3 by the next"));
}

// TensorFlow forgets what shape the values had; the node may say it.
TEST(RaggedRows, MayBeNone) {
  const auto session = SessionOf(R"(
none = Const() {dtype=int32, value=int32[0]{}}
zero = Const() {dtype=int32, value=int32[]{0}}
empty = TensorListReserve(none, zero) {element_dtype=variant, shape_type=int32}
stacked = TensorListStack(empty, none) {element_dtype=variant, num_elements=-1}
out = RaggedTensorFromVariant(stacked) {input_ragged_rank=-1, output_ragged_rank=2, Tvalues=float, Tsplits=int64}
outer = Identity(out) {T=int64}
splits = Identity(out:1) {T=int64}
values = Identity(out:2) {T=float}
wide = RaggedTensorFromVariant(stacked) {_output_shapes=[shape[1], shape[?,3]], input_ragged_rank=-1, output_ragged_rank=1, Tvalues=float, Tsplits=int64}
wide_values = Identity(wide:1) {T=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"outer", "splits", "values", "wide_values"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(0));
  EXPECT_EQ(out[2].shape(), Shape({0}));
  EXPECT_EQ(out[3].shape(), Shape({0, 3}));
}

// As loops of TensorFlow 1 take them.
TEST(RaggedRows, AreItemsOfAnArray) {
  const auto session = SessionOf(std::string(kRows) + R"(
order = Const() {dtype=int32, value=int32[3]{2, 0, 1}}
array = TensorArrayV3(three) {dtype=variant, element_shape=shape[]}
filled = TensorArrayScatterV3(array, order, ragged, array:1) {T=variant}
read = TensorArrayReadV3(array, two, filled) {dtype=variant}
row = RaggedTensorFromVariant(read) {input_ragged_rank=-1, output_ragged_rank=0, Tvalues=float, Tsplits=int64}
square = Square(row) {T=float}
made = RaggedTensorToVariant(square) {Tsplits=int64, Tvalues=float, RAGGED_RANK=0, batched_input=false}
results = TensorArrayV3(two) {dtype=variant, element_shape=shape[]}
first = TensorArrayWriteV3(results, zero, made, results:1) {T=variant}
both = TensorArrayWriteV3(results, one, made, first) {T=variant}
pair = Const() {dtype=int32, value=int32[2]{0, 1}}
gathered = TensorArrayGatherV3(results, pair, both) {dtype=variant, element_shape=shape[]}
out = RaggedTensorFromVariant(gathered) {input_ragged_rank=-1, output_ragged_rank=1, Tvalues=float, Tsplits=int64}
out_splits = Identity(out) {T=int64}
out_values = Identity(out:1) {T=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run(Feeds({0, 2, 3, 6}), {"out_splits", "out_values"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 2, 4));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(1, 4, 1, 4));
}

TEST(RaggedRows, SplitsThatFallAreAnError) {
  const auto session = SessionOf(std::string(kRows) + kMapped);
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run(Feeds({0, 4, 3, 6}), {"out_values"}, {}, &out).message(), HasSubstr("row splits that do not grow from 0"));
}

}  // namespace
}  // namespace millrace
