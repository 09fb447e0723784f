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

}  // namespace
}  // namespace millrace
