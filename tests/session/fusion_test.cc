// Fused elementwise trees give the bits of the ops on their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// What others need later comes out beside the root; what others need before the root runs stays on its own.
TEST(Fusion, ValuesThatOthersNeedAreResultsOfTheirOwn) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[100]}
a = Exp(x) {T=float}
b = Neg(a) {T=float}
c = Tanh(b) {T=float}
axis = Const() {dtype=int32, value=int32[1]{0}}
total = Sum(b, axis) {T=float, Tidx=int32}
late = NoOp() ^a
d = Sub(b, total) {T=float}
)";
  const std::unique_ptr<Session> apart = Make(text, false), fused = Make(text, true);
  const auto run = [&](Session& session, const std::vector<std::string>& fetches, const std::vector<std::string>& targets) {
    std::vector<Tensor> out;
    const absl::Status status = session.Run({{"x", Numbers(Shape({100}), 1)}}, fetches, targets, &out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  for (const auto& [fetches, steps] : std::vector<std::pair<std::vector<std::string>, int64_t>>{
           {{"c", "total"}, 2}, {{"a", "c", "total"}, 2}, {{"c", "d"}, 3}, {{"a", "b", "c", "d"}, 3}, {{"c"}, 1}}) {
    const std::vector<Tensor> expected = run(*apart, fetches, {"late"}), found = run(*fused, fetches, {"late"});
    EXPECT_EQ(Steps(*fused), steps) << absl::StrJoin(fetches, ",");
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].BitEqual(expected[i])) << fetches[i];
  }
}

// The cell of an LSTM: gates read out of the sum with their bias, states and gates all needed later, gates put together.
std::string Cell(int64_t rows, int64_t columns, const std::string& split) {
  const std::string one = absl::StrCat("{dtype=float, shape=shape[", rows, ",", columns, "]}");
  return absl::StrCat("x = Placeholder() {dtype=float, shape=shape[", rows, ",", 4 * columns, "]}\nc0 = Placeholder() ", one,
                      "\nbias = Placeholder() {dtype=float, shape=shape[", 4 * columns, "]}\n", R"(
one = Const() {dtype=float, value=float[]{1}}
axis = Const() {dtype=int32, value=int32[]{1}}
sizes = Const() {dtype=int32, value=int32[4]{)", columns, ",", columns, ",", columns, ",", columns, R"(}}
r = Relu(x) {T=float}
z = BiasAdd(r, bias) {T=float}
s = )", split, R"(
i = Sigmoid(s:0) {T=float}
g = Tanh(s:1) {T=float}
fb = AddV2(s:2, one) {T=float}
f = Sigmoid(fb) {T=float}
o = Sigmoid(s:3) {T=float}
cf = Mul(c0, f) {T=float}
ig = Mul(i, g) {T=float}
c = AddV2(cf, ig) {T=float}
t = Tanh(c) {T=float}
h = Mul(t, o) {T=float}
all = ConcatV2(i, g, f, o, axis) {N=4, T=float, Tidx=int32}
)");
}

TEST(Fusion, CellReadsItsGatesByRowsAndWritesThemByRows) {
  for (const char* split : {"Split(axis, z) {T=float, num_split=4}", "SplitV(z, sizes, axis) {T=float, Tlen=int32, num_split=4}"}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {1, 7}, {130, 33}, {2, 3000}, {64, 1}}) {
      const std::string text = Cell(rows, columns, split);
      const Session::Feeds feeds = {{"x", Numbers(Shape({rows, 4 * columns}), 1)},
                                    {"c0", Numbers(Shape({rows, columns}), 2)},
                                    {"bias", Numbers(Shape({4 * columns}), 3)}};
      for (const std::vector<std::string>& fetches :
           {std::vector<std::string>{"h"}, {"h", "c", "i", "f", "o", "g", "t"}, {"all", "c", "h", "t"}}) {
        std::vector<Tensor> apart, fused;
        const std::unique_ptr<Session> one = Make(text, false);
        ASSERT_TRUE(one->Run(feeds, fetches, {}, &apart).ok());
        for (int threads : {1, 4}) {
          const std::unique_ptr<Session> other = Make(text, true, {.threads = threads});
          const absl::Status status = other->Run(feeds, fetches, {}, &fused);
          ASSERT_TRUE(status.ok()) << status;
          EXPECT_EQ(Steps(*other), 2) << split << rows << " x " << columns << fetches[0];
          for (size_t k = 0; k < fetches.size(); ++k) {
            EXPECT_TRUE(fused[k].BitEqual(apart[k])) << fetches[k] << ", " << rows << " x " << columns << ", " << threads;
          }
        }
      }
    }
  }
}

// A copy that others read, a cut through the first axis, a bias that is needed whole: still the same bits.
TEST(Fusion, CopiesThatOthersReadStay) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[6,8]}
bias = Placeholder() {dtype=float, shape=shape[8]}
begin = Const() {dtype=int32, value=int32[2]{2,0}}
size = Const() {dtype=int32, value=int32[2]{3,8}}
inner = Const() {dtype=int32, value=int32[2]{0,3}}
wide = Const() {dtype=int32, value=int32[2]{6,4}}
axis = Const() {dtype=int32, value=int32[1]{0}}
first = Const() {dtype=int32, value=int32[]{0}}
z = BiasAdd(x, bias) {T=float}
rows = Slice(z, begin, size) {T=float, Index=int32}
er = Exp(rows) {T=float}
nr = Neg(er) {T=float}
columns = Slice(z, inner, wide) {T=float, Index=int32}
ec = Exp(columns) {T=float}
nc = Neg(ec) {T=float}
read = Sum(columns, axis) {T=float, Tidx=int32}
both = ConcatV2(nr, er, first) {N=2, T=float, Tidx=int32}
)";
  const Session::Feeds feeds = {{"x", Numbers(Shape({6, 8}), 1)}, {"bias", Numbers(Shape({8}), 2)}};
  const std::vector<std::string> fetches = {"nr", "nc", "read", "both", "z"};
  std::vector<Tensor> out[2];
  for (bool fuse : {false, true}) ASSERT_TRUE(Make(text, fuse)->Run(feeds, fetches, {}, &out[fuse]).ok());
  for (size_t k = 0; k < fetches.size(); ++k) EXPECT_TRUE(out[1][k].BitEqual(out[0][k])) << fetches[k];
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
