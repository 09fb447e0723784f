// Sparse tensors whose rows go through lists, as map_fn hands them to the turns of its loops.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "passes/shapes/sparse_shapes.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// [0 1 0; 0 0 0; 2 0 3], rows in another order, the first one negated, the second one wider.
std::string Rows(const std::string& indices, const std::string& kind) {
  return absl::StrCat(R"(
indices = Const() {dtype=int64, value=int64[3,2]{)", indices, R"(}}
values = Const() {dtype=float, value=float[3]{1.0, 2.0, 3.0}}
shape = Const() {dtype=int64, value=int64[2]{3, 3}}
wide = Const() {dtype=int64, value=int64[1]{5}}
one_element = Const() {dtype=int32, value=int32[1]{3}}
none = Const() {dtype=int32, value=int32[0]{}}
three = Const() {dtype=int32, value=int32[]{3}}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
two = Const() {dtype=int32, value=int32[]{2}}
rows = SerializeManySparse(indices, values, shape) {T=float, out_type=)", kind, R"(}
size = Shape(rows) {T=variant, out_type=int32}
list = TensorListFromTensor(rows, one_element) {element_dtype=variant, shape_type=int32}
a = TensorListGetItem(list, zero, none) {element_dtype=variant}
b = TensorListGetItem(list, one, none) {element_dtype=variant}
c = TensorListGetItem(list, two, none) {element_dtype=variant}
row = DeserializeSparse(a) {dtype=float, Tserialized=variant}
minus = Neg(row:1) {T=float}
made = SerializeSparse(row, minus, row:2) {T=float, out_type=variant}
empty = DeserializeSparse(b) {dtype=float, Tserialized=variant}
wider = SerializeSparse(empty, empty:1, wide) {T=float, out_type=variant}
new = TensorListReserve(none, three) {element_dtype=variant, shape_type=int32}
with_a = TensorListSetItem(new, two, made) {element_dtype=variant}
with_b = TensorListSetItem(with_a, one, wider) {element_dtype=variant}
with_c = TensorListSetItem(with_b, zero, c) {element_dtype=variant}
stacked = TensorListStack(with_c, one_element) {element_dtype=variant, num_elements=3}
out = DeserializeSparse(stacked) {dtype=float, Tserialized=variant}
)");
}

TEST(SparseRows, GoThroughListsAndBack) {
  const auto session = SessionOf(Rows("0, 1, 2, 0, 2, 2", "variant"));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"out:0", "out:1", "out:2", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].as<int64_t>(), ElementsAre(0, 0, 0, 2, 2, 1));
  EXPECT_THAT(out[1].as<float>(), ElementsAre(2, 3, -1));
  EXPECT_THAT(out[2].as<int64_t>(), ElementsAre(3, 5));
  EXPECT_THAT(out[3].as<int32_t>(), ElementsAre(3, 3));
}

std::string ErrorOf(const std::string& text) {
  std::vector<Tensor> out;
  return std::string(SessionOf(text)->Run({}, {"out:1"}, {}, &out).message());
}

TEST(SparseRows, OutOfOrderAreAnError) {
  EXPECT_THAT(ErrorOf(Rows("2, 1, 0, 0, 2, 2", "variant")), HasSubstr("indices that are not in the order of rows"));
  EXPECT_THAT(ErrorOf(Rows("0, 1, 2, 0, 7, 2", "variant")), HasSubstr("or of rows that are not there"));
}

// The planner reckons with the shape that the kernel gives.
TEST(SparseRows, SlicesBeginBeforeTheFirstRow) {
  const auto session = SessionOf(R"(
indices = Placeholder() {dtype=int64, shape=shape[2,2]}
values = Const() {dtype=float, value=float[2]{1.0, 2.0}}
shape = Const() {dtype=int64, value=int64[2]{3, 4}}
start = Const() {dtype=int64, value=int64[2]{-1, 0}}
size = Const() {dtype=int64, value=int64[2]{5, 9}}
half = Const() {dtype=float, value=float[]{0.5}}
slice = SparseSlice(indices, values, shape, start, size) {T=float}
out = Fill(slice:2, half) {T=float, index_type=int64}
)");
  Tensor indices(DataType::kInt64, Shape({2, 2}));
  const int64_t at[] = {0, 0, 2, 3};
  std::copy(std::begin(at), std::end(at), indices.mutable_as<int64_t>().begin());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"indices", indices}}, {"slice:0", "slice:2", "out"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].as<int64_t>(), ElementsAre(1, 0, 3, 3));
  EXPECT_THAT(out[1].as<int64_t>(), ElementsAre(4, 4));
  EXPECT_EQ(out[2].shape(), Shape({4, 4}));
}

TEST(SparseRows, ShapesThatTheKernelRefusesAreNotPlannedFor) {
  const auto planned = [](std::vector<int64_t> from, std::vector<int64_t> to) {
    OpInstance instance{.name = "node", .op = "SparseReshape"};
    instance.input_values = {Tensor(), Tensor::Vector<int64_t>(from), Tensor::Vector<int64_t>(to)};
    const auto shapes = SparseShapes(instance);
    return shapes.empty() ? std::vector<int64_t>() : testing::Ints(shapes[0].second);
  };
  EXPECT_THAT(planned({3, 4}, {2, -1}), ElementsAre(2, 6));
  EXPECT_THAT(planned({12}, {-1, -1}), ElementsAre());
  EXPECT_THAT(planned({12}, {-2, -6}), ElementsAre());
  EXPECT_THAT(planned({0, 4}, {-1, 0}), ElementsAre());
  EXPECT_THAT(planned({int64_t{1} << 40, int64_t{1} << 40}, {-1}), ElementsAre());
}

TEST(SparseRows, AsStringsAreRefused) {
  EXPECT_THAT(ErrorOf(Rows("0, 1, 2, 0, 2, 2", "string")), HasSubstr("sparse tensors as strings are not supported"));
}

}  // namespace
}  // namespace millrace
