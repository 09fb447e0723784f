// Fused elementwise trees give the bits of the ops on their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"

namespace millrace {
namespace {

std::unique_ptr<Session> Make(const std::string& text, bool fuse, SessionOptions options = {}) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  options.planning.strategy = "baseline";
  options.planning.fuse = fuse;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), std::move(options));
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

// Small and large, negative and positive.
Tensor Numbers(Shape shape, uint32_t seed) {
  Tensor tensor(DataType::kFloat, std::move(shape));
  uint32_t state = seed;
  for (float& value : tensor.mutable_as<float>()) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / (1 << 22) - 2.0f) * ((state & 3) == 0 ? 10.0f : 1.0f);
  }
  return tensor;
}

int64_t Steps(const Session& session) {
  int64_t steps = 0;
  for (const Lane& lane : session.last_run().plan->lanes) steps += static_cast<int64_t>(lane.compute.size());
  return steps;
}

// Every kind of operand: whole tensors, a row, one element, a condition; a value used twice within the tree.
std::string Tree(int64_t rows, int64_t columns) {
  const std::string type = absl::StrCat("{dtype=float, shape=shape[", rows, ",", columns, "]}");
  return absl::StrCat("x = Placeholder() ", type, "\ny = Placeholder() ", type,
                      "\nbias = Placeholder() {dtype=float, shape=shape[", columns, "]}", R"(
half = Const() {dtype=float, value=float[]{0.5}}
b = BiasAdd(x, bias) {T=float}
e = Exp(b) {T=float}
t = Tanh(y) {T=float}
m = Mul(e, t) {T=float}
s = Mul(m, half) {T=float}
d = RealDiv(s, e) {T=float}
l = LeakyRelu(d) {T=float, alpha=0.25}
g = Greater(l, y) {T=float}
w = SelectV2(g, l, x) {T=float}
q = SquaredDifference(w, bias) {T=float}
sum = AddN(q, w, y) {N=3, T=float}
z = Sigmoid(sum) {T=float}
)");
}

TEST(Fusion, TreeIsOneStepWithTheSameBits) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {1, 7}, {700, 33}, {64, 4096}, {3, 9000}}) {
    const std::string text = Tree(rows, columns);
    const Session::Feeds feeds = {{"x", Numbers(Shape({rows, columns}), 1)},
                                  {"y", Numbers(Shape({rows, columns}), 2)},
                                  {"bias", Numbers(Shape({columns}), 3)}};
    std::vector<Tensor> apart, fused;
    const std::unique_ptr<Session> one = Make(text, false);
    ASSERT_TRUE(one->Run(feeds, {"z"}, {}, &apart).ok());
    EXPECT_EQ(Steps(*one), 12);
    for (int threads : {1, 4}) {
      const std::unique_ptr<Session> other = Make(text, true, {.threads = threads});
      const absl::Status status = other->Run(feeds, {"z"}, {}, &fused);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(Steps(*other), 1);
      EXPECT_TRUE(fused.at(0).BitEqual(apart.at(0))) << rows << " x " << columns << ", " << threads << " threads";
    }
  }
}

TEST(Fusion, ValuesThatOthersNeedStayOnTheirOwn) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[100]}
a = Exp(x) {T=float}
b = Neg(a) {T=float}
c = Tanh(b) {T=float}
axis = Const() {dtype=int32, value=int32[1]{0}}
total = Sum(b, axis) {T=float, Tidx=int32}
late = NoOp() ^a
)";
  const std::unique_ptr<Session> session = Make(text, true);
  std::vector<Tensor> out;
  // a is waited for, b is summed too: nothing can be fused.
  ASSERT_TRUE(session->Run({{"x", Numbers(Shape({100}), 1)}}, {"c", "total"}, {"late"}, &out).ok());
  EXPECT_EQ(Steps(*session), 4);
  // Without `late`, a and b are one.
  ASSERT_TRUE(session->Run({{"x", Numbers(Shape({100}), 1)}}, {"c", "total"}, {}, &out).ok());
  EXPECT_EQ(Steps(*session), 3);
}

// The value read from the variable before the update is the old one, fused or not.
TEST(Fusion, ReadsOfVariablesStayBeforeTheirWrites) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[3]}
v = VarHandleOp() {dtype=float, shape=shape[3], shared_name="v"}
init = AssignVariableOp(v, x) {dtype=float}
read = ReadVariableOp(v) {dtype=float}
n = Neg(read) {T=float}
update = AssignAddVariableOp(v, x) {dtype=float}
e = Mul(n, x) {T=float}
z = Exp(e) {T=float}
)";
  Tensor results[2];
  for (bool fuse : {false, true}) {
    const std::unique_ptr<Session> session = Make(text, fuse);
    const Tensor x = Tensor::Vector<float>({1, 2, 0.5f});
    ASSERT_TRUE(session->Run({{"x", x}}, {}, {"init"}, nullptr).ok());
    std::vector<Tensor> out;
    ASSERT_TRUE(session->Run({{"x", x}}, {"z"}, {"update"}, &out).ok());
    results[fuse] = out.at(0);
  }
  EXPECT_TRUE(results[0].BitEqual(results[1]));
}

}  // namespace
}  // namespace millrace
