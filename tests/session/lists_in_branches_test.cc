// Lists whose items are written in branches that are known only when running: an item that was not written is zeros, whoever asks.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

// x is written where both hold, as TensorFlow 1's conditionals would.
constexpr char kGraph[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
q = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[2]}
shape = Const() {dtype=int32, value=int32[1]{2}}
two = Const() {dtype=int32, value=int32[]{2}}
place = Const() {dtype=int32, value=int32[]{1}}
list = TensorListReserve(shape, two) {element_dtype=float, shape_type=int32}
outer = Switch(list, p) {T=variant}
q_there = Switch(q, p) {T=bool}
x_there = Switch(x, p) {T=float}
inner = Switch(outer:1, q_there:1) {T=variant}
x_deep = Switch(x_there:1, q_there:1) {T=float}
written = TensorListSetItem(inner:1, place, x_deep:1) {element_dtype=float}
first = Merge(inner, written) {T=variant, N=2}
either = Merge(outer, first) {T=variant, N=2}
item = TensorListGetItem(either, place, shape) {element_dtype=float}
rows = TensorListStack(either, shape) {element_dtype=float, num_elements=2}
nothing = ZerosLike(either) {T=variant}
zeros = TensorListGetItem(nothing, place, shape) {element_dtype=float}
)";

TEST(ListsInBranches, WhatWasNotWrittenIsZeros) {
  absl::StatusOr<Graph> graph = ParseGraphText(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto values = [](const Tensor& tensor) { return std::vector<float>(tensor.as<float>().begin(), tensor.as<float>().end()); };
  for (const bool p : {false, true}) {
    for (const bool q : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(std::pair(p, q)));
      std::vector<Tensor> out;
      const absl::Status status = (*session)->Run({{"p", Tensor::Scalar<bool>(p)}, {"q", Tensor::Scalar<bool>(q)}, {"x", Tensor::Vector<float>({3, 4})}},
                                                  {"item:0", "rows:0", "zeros:0"}, {}, &out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(values(out[0]), (p && q ? std::vector<float>{3, 4} : std::vector<float>{0, 0}));
      EXPECT_EQ(values(out[1]), (p && q ? std::vector<float>{0, 0, 3, 4} : std::vector<float>{0, 0, 0, 0}));
      EXPECT_EQ(values(out[2]), (std::vector<float>{0, 0}));
    }
  }
}

// As TensorFlow 1's conditionals read an array and ask for its size; and the sum of a list with itself whose item is one of two Optionals.
constexpr char kRead[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=int32, shape=shape[2]}
one = Const() {dtype=int32, value=int32[]{1}}
zero = Const() {dtype=int32, value=int32[]{0}}
array = TensorArrayV3(one) {dtype=int32, element_shape=shape[2], clear_after_read=false}
flow = TensorArrayWriteV3(array, zero, x, array:1) {T=int32}
there = Switch(array, p) {T=resource}
flow_there = Switch(flow, p) {T=float}
sides = Switch(p, p) {T=bool}
not_taken = Identity(sides) {T=bool}
taken = Identity(sides:1) {T=bool}
place = Const() ^taken {dtype=int32, value=int32[]{0}}
read = TensorArrayReadV3(there:1, place, flow_there:1) {dtype=int32}
sevens = Const() ^not_taken {dtype=int32, value=int32[2]{7, 7}}
item = Merge(sevens, read) {T=int32, N=2}
size = TensorArraySizeV3(there:1, flow_there:1)
seven = Const() ^not_taken {dtype=int32, value=int32[]{7}}
length = Merge(seven, size) {T=int32, N=2}
x_there = Switch(x, p) {T=int32}
some = OptionalFromValue(x_there:1) {Toutput_types=[int32]}
none = OptionalNone() ^not_taken
either = Merge(none, some) {T=variant, N=2}
any = Const() {dtype=int32, value=int32[0]{}}
empty = EmptyTensorList(any, one) {element_dtype=variant, shape_type=int32}
list = TensorListPushBack(empty, either) {element_dtype=variant}
sum = AddN(list, list) {T=variant, N=2}
popped = TensorListPopBack(sum, any) {element_dtype=variant}
held = Switch(popped:1, p) {T=variant}
twice = OptionalGetValue(held:1) {output_types=[int32], output_shapes=[shape[2]]}
doubled = Merge(x_there, twice) {T=int32, N=2}
)";

TEST(ListsInBranches, WhatIsReadOnASideIsThereOnThatSideAlone) {
  absl::StatusOr<Graph> graph = ParseGraphText(kRead);
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto values = [](const Tensor& tensor) { return std::vector<int32_t>(tensor.as<int32_t>().begin(), tensor.as<int32_t>().end()); };
  for (const bool p : {false, true}) {
    std::vector<Tensor> out;
    const absl::Status status = (*session)->Run({{"p", Tensor::Scalar<bool>(p)}, {"x", Tensor::Vector<int32_t>({3, 4})}}, {"item", "length", "doubled"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(values(out[0]), (p ? std::vector<int32_t>{3, 4} : std::vector<int32_t>{7, 7}));
    EXPECT_EQ(values(out[1]), std::vector<int32_t>{p ? 1 : 7});
    EXPECT_EQ(values(out[2]), (p ? std::vector<int32_t>{6, 8} : std::vector<int32_t>{3, 4}));
  }
}

}  // namespace
}  // namespace millrace
