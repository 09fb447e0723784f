// Fused elementwise trees give the bits of the ops on their own.
#include <algorithm>
#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "millrace/session.h"
#include "model_run.h"
#include "text_session.h"

namespace millrace {
namespace {

std::unique_ptr<Session> Make(const std::string& text, bool fuse, SessionOptions options = {}) {
  options.planning.strategy = "baseline";
  options.planning.fuse = fuse;
  return testing::SessionOf(text, std::move(options));
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

// Operands that repeat within the tensor: a mean of each row, a weight of each channel, with and without the batch's images apart.
std::string Norm(const Shape& shape, const Shape& mean, const Shape& scale, const Shape& mask) {
  const auto typed = [](const char* type, const Shape& shape) {
    return absl::StrCat("{dtype=", type, ", shape=shape[", absl::StrJoin(shape.dims(), ","), "]}\n");
  };
  return absl::StrCat("x = Placeholder() ", typed("float", shape), "m = Placeholder() ", typed("float", mean), "g = Placeholder() ",
                      typed("float", scale), "k = Placeholder() ", typed("float", mask), R"(
zero = Const() {dtype=float, value=float[]{0}}
d = Sub(x, m) {T=float}
s = Mul(d, g) {T=float}
b = AddV2(m, s) {T=float}
r = Relu(b) {T=float}
h = Greater(k, zero) {T=float}
z = SelectV2(h, r, g) {T=float}
)");
}

TEST(Fusion, OperandsThatRepeatWithinTheTensorAreReadAsTheyAre) {
  struct Case {
    Shape shape, mean, scale, mask;
    int64_t steps;
  };
  for (const Case& c : {Case{Shape({700, 33}), Shape({700, 1}), Shape({33}), Shape({1, 33}), 2},
                        Case{Shape({3, 9000}), Shape({3, 1}), Shape({3, 9000}), Shape({3, 1}), 2},
                        Case{Shape({2, 5, 7, 6}), Shape({2, 1, 1, 6}), Shape({1, 1, 1, 6}), Shape({2, 5, 7, 1}), 2},
                        Case{Shape({2, 6, 5, 7}), Shape({2, 6, 1, 1}), Shape({6, 1, 1}), Shape({2, 1, 5, 7}), 2},
                        Case{Shape({4, 300, 1, 50}), Shape({300, 1, 1}), Shape({4, 1, 1, 50}), Shape({1, 300, 1, 1}), 2}}) {
    const std::string text = Norm(c.shape, c.mean, c.scale, c.mask);
    SCOPED_TRACE(text);
    const Session::Feeds feeds = {{"x", Numbers(c.shape, 1)}, {"m", Numbers(c.mean, 2)}, {"g", Numbers(c.scale, 3)}, {"k", Numbers(c.mask, 4)}};
    std::vector<Tensor> apart, fused;
    ASSERT_TRUE(Make(text, false)->Run(feeds, {"z"}, {}, &apart).ok());
    for (int threads : {1, 4}) {
      const std::unique_ptr<Session> other = Make(text, true, {.threads = threads});
      const absl::Status status = other->Run(feeds, {"z"}, {}, &fused);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(Steps(*other), c.steps);  // the comparison is of another shape
      EXPECT_TRUE(fused.at(0).BitEqual(apart.at(0))) << threads << " threads";
    }
  }
}

// Of a BroadcastTo or a Tile a group reads what it repeats, for ops that take nothing but whole tensors, too.
TEST(Fusion, WhatIsRepeatedIsReadInPlaceOfItsRepetition) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[3,50,40]}
m = Placeholder() {dtype=float, shape=shape[3,1,40]}
r = Placeholder() {dtype=float, shape=shape[40]}
o = Placeholder() {dtype=float, shape=shape[1]}
whole = Const() {dtype=int32, value=int32[3]{3,50,40}}
often = Const() {dtype=int32, value=int32[3]{1,50,1}}
axis = Const() {dtype=int32, value=int32[1]{1}}
mt = Tile(m, often) {T=float, Tmultiples=int32}
rb = BroadcastTo(r, whole) {T=float, Tidx=int32}
ob = BroadcastTo(o, whole) {T=float, Tidx=int32}
a = AddN(x, mt, rb, ob) {N=4, T=float}
total = Sum(a, axis) {T=float, Tidx=int32}
g = ReluGrad(mt, a) {T=float}
n = Neg(g) {T=float}
)";
  const Session::Feeds feeds = {{"x", Numbers(Shape({3, 50, 40}), 1)}, {"m", Numbers(Shape({3, 1, 40}), 2)}, {"r", Numbers(Shape({40}), 3)},
                                {"o", Numbers(Shape({1}), 4)}};
  for (const auto& [fetches, steps] : std::vector<std::pair<std::vector<std::string>, int64_t>>{
           {{"n"}, 1}, {{"total"}, 1}, {{"total", "n"}, 1}, {{"n", "mt"}, 2}, {{"n", "rb", "ob"}, 3}}) {
    std::vector<Tensor> apart, fused;
    ASSERT_TRUE(Make(text, false)->Run(feeds, fetches, {}, &apart).ok());
    const std::unique_ptr<Session> other = Make(text, true);
    const absl::Status status = other->Run(feeds, fetches, {}, &fused);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Steps(*other), steps) << absl::StrJoin(fetches, ",");
    for (size_t k = 0; k < fetches.size(); ++k) EXPECT_TRUE(fused[k].BitEqual(apart[k])) << fetches[k];
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
           {{"c", "total"}, 1}, {{"a", "c", "total"}, 1}, {{"c", "d"}, 2}, {{"a", "b", "c", "d"}, 2}, {{"c"}, 1}}) {
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

// A dense layer of each kind: bias and Relu in the product's node, an addition of a vector, a Reshape between them.
TEST(Fusion, ProductsWithTheirBiasHaveTheSameBits) {
  for (const char* type : {"float", "half", "bfloat16"}) {
    for (const auto& [rows, inner, columns] : {std::array<int64_t, 3>{6, 5, 4}, {128, 300, 70}, {2, 1, 3000}}) {
      const std::string text = absl::StrCat(
          "xf = Placeholder() {dtype=float, shape=shape[", rows, ",", inner, "]}\nwf = Placeholder() {dtype=float, shape=shape[",
          inner, ",", columns, "]}\nbf = Placeholder() {dtype=float, shape=shape[", columns,
          "]}\nfolded = Const() {dtype=int32, value=int32[3]{2,", rows / 2, ",", columns, "}}",
          absl::StrReplaceAll(R"(
x = Cast(xf) {SrcT=float, DstT=TYPE}
w = Cast(wf) {SrcT=float, DstT=TYPE}
b = Cast(bf) {SrcT=float, DstT=TYPE}
m1 = MatMul(x, w) {T=TYPE, transpose_a=false, transpose_b=false}
a1 = BiasAdd(m1, b) {T=TYPE}
r1 = Relu(a1) {T=TYPE}
m2 = MatMul(r1, w) {T=TYPE, transpose_a=false, transpose_b=true}
m3 = MatMul(m2, w) {T=TYPE, transpose_a=false, transpose_b=false}
a3 = AddV2(b, m3) {T=TYPE}
m4 = MatMul(m2, w) {T=TYPE, transpose_a=false, transpose_b=false}
s4 = Reshape(m4, folded) {T=TYPE, Tshape=int32}
a4 = BiasAdd(s4, b) {T=TYPE}
r4 = Relu(a4) {T=TYPE}
z1 = Cast(a3) {SrcT=TYPE, DstT=float}
z2 = Cast(r4) {SrcT=TYPE, DstT=float}
)", {{"TYPE", type}}));
      const Session::Feeds feeds = {{"xf", Numbers(Shape({rows, inner}), 1)},
                                    {"wf", Numbers(Shape({inner, columns}), 2)},
                                    {"bf", Numbers(Shape({columns}), 3)}};
      std::vector<Tensor> apart, fused;
      const std::unique_ptr<Session> one = Make(text, false), other = Make(text, true);
      ASSERT_TRUE(one->Run(feeds, {"z1", "z2"}, {}, &apart).ok());
      const absl::Status status = other->Run(feeds, {"z1", "z2"}, {}, &fused);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_LE(Steps(*other), Steps(*one) - 5) << type;
      for (size_t k = 0; k < apart.size(); ++k) EXPECT_TRUE(fused[k].BitEqual(apart[k])) << type << rows << ", " << k;
    }
  }
}

// Two and three dimensions, channels last and first, with a sum and without; every type, uneven padding.
TEST(Fusion, ConvolutionsWithTheirBiasHaveTheSameBits) {
  const std::string kText = R"(
xf = Placeholder() {dtype=float, shape=shape[2,9,8,4]}
wf = Placeholder() {dtype=float, shape=shape[3,3,4,6]}
vf = Placeholder() {dtype=float, shape=shape[1,5,6,7,4]}
kf = Placeholder() {dtype=float, shape=shape[2,2,2,4,6]}
bf = Placeholder() {dtype=float, shape=shape[6]}
x = Cast(xf) {SrcT=float, DstT=TYPE}
w = Cast(wf) {SrcT=float, DstT=TYPE}
v = Cast(vf) {SrcT=float, DstT=TYPE}
k = Cast(kf) {SrcT=float, DstT=TYPE}
b = Cast(bf) {SrcT=float, DstT=TYPE}
c1 = Conv2D(x, w) {T=TYPE, strides=[1,2,2,1], padding="SAME"}
a1 = BiasAdd(c1, b) {T=TYPE}
c2 = Conv2D(x, w) {T=TYPE, strides=[1,2,2,1], padding="SAME"}
a2 = BiasAdd(c2, b) {T=TYPE}
s2 = AddV2(a2, a1) {T=TYPE}
r2 = Relu(s2) {T=TYPE}
c3 = Conv3D(v, k) {T=TYPE, strides=[1,1,1,1,1], padding="SAME"}
a3 = BiasAdd(c3, b) {T=TYPE}
r3 = Relu(a3) {T=TYPE}
axes = Const() {dtype=int32, value=int32[4]{0,3,1,2}}
first = Transpose(x, axes) {T=TYPE, Tperm=int32}
c4 = Conv2D(first, w) {T=TYPE, strides=[1,1,2,2], padding="SAME", data_format="NCHW"}
a4 = BiasAdd(c4, b) {T=TYPE, data_format="NCHW"}
beside = Transpose(r2, axes) {T=TYPE, Tperm=int32}
s4 = AddV2(beside, a4) {T=TYPE}
r4 = Relu(s4) {T=TYPE}
z1 = Cast(r2) {SrcT=TYPE, DstT=float}
z2 = Cast(r3) {SrcT=TYPE, DstT=float}
z3 = Cast(r4) {SrcT=TYPE, DstT=float}
)";
  const Session::Feeds feeds = {{"xf", Numbers(Shape({2, 9, 8, 4}), 1)},    {"wf", Numbers(Shape({3, 3, 4, 6}), 2)},
                                {"vf", Numbers(Shape({1, 5, 6, 7, 4}), 3)}, {"kf", Numbers(Shape({2, 2, 2, 4, 6}), 4)},
                                {"bf", Numbers(Shape({6}), 5)}};
  for (const char* type : {"float", "half", "bfloat16"}) {
    const std::string text = absl::StrReplaceAll(kText, {{"TYPE", type}});
    std::vector<Tensor> apart, fused;
    const std::unique_ptr<Session> one = Make(text, false), other = Make(text, true);
    ASSERT_TRUE(one->Run(feeds, {"z1", "z2", "z3"}, {}, &apart).ok());
    const absl::Status status = other->Run(feeds, {"z1", "z2", "z3"}, {}, &fused);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(Steps(*other), Steps(*one) - 8) << type;
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(fused[i].BitEqual(apart[i])) << type << ", " << i;
  }
}

// Pads before convolutions, in both layouts of the node, and both gradients: none is left.
TEST(Fusion, ConvolutionsPadByThemselvesWithTheSameResults) {
  struct Case {
    const char *around, *strides, *dilations, *images, *padded, *gradient, *begin, *format;
  };
  for (const Case& c :
       {Case{"0,0,1,1,1,1,0,0", "1,2,2,1", "1,1,1,1", "2,9,7,4", "2,11,9,4", "2,5,4,6", "0,1,1,0", "NHWC"},
        Case{"0,0,2,0,0,1,0,0", "1,1,2,1", "1,1,1,1", "2,9,7,4", "2,11,8,4", "2,9,3,6", "0,2,0,0", "NHWC"},
        Case{"0,0,3,4,2,2,0,0", "1,1,1,1", "1,2,2,1", "2,9,7,4", "2,16,11,4", "2,12,7,6", "0,3,2,0", "NHWC"},
        Case{"0,0,0,0,1,2,2,1", "1,1,2,2", "1,1,1,1", "2,4,9,7", "2,4,12,10", "2,6,5,4", "0,0,1,2", "NCHW"}}) {
    const std::string attrs = absl::StrCat("{T=float, strides=[", c.strides, "], dilations=[", c.dilations,
                                           "], padding=\"VALID\", data_format=\"", c.format, "\"}\n");
    const std::string text = absl::StrCat(
        "x = Placeholder() {dtype=float, shape=shape[", c.images, "]}\nw = Placeholder() {dtype=float, shape=shape[3,3,4,6]}\n",
        "gy = Placeholder() {dtype=float, shape=shape[", c.gradient, "]}\naround = Const() {dtype=int32, value=int32[4,2]{", c.around,
        "}}\nwhole = Const() {dtype=int32, value=int32[4]{", c.padded, "}}\nfilter = Const() {dtype=int32, value=int32[4]{3,3,4,6}}\n",
        "begin = Const() {dtype=int32, value=int32[4]{", c.begin, "}}\nsize = Const() {dtype=int32, value=int32[4]{", c.images,
        "}}\np = Pad(x, around) {T=float, Tpaddings=int32}\ny = Conv2D(p, w) ", attrs, "gw = Conv2DBackpropFilter(p, filter, gy) ", attrs,
        "gp = Conv2DBackpropInput(whole, w, gy) ", attrs, "gx = Slice(gp, begin, size) {T=float, Index=int32}\n");
    SCOPED_TRACE(text);
    const auto shape = [](const char* dims) {
      std::vector<int64_t> sizes;
      for (absl::string_view dim : absl::StrSplit(dims, ',')) sizes.push_back(std::stoll(std::string(dim)));
      return Shape(sizes);
    };
    const Session::Feeds feeds = {
        {"x", Numbers(shape(c.images), 1)}, {"w", Numbers(Shape({3, 3, 4, 6}), 2)}, {"gy", Numbers(shape(c.gradient), 3)}};
    const auto apart = Make(text, false), folded = Make(text, true);
    std::vector<Tensor> expected, found;
    absl::Status status = apart->Run(feeds, {"y", "gw", "gx"}, {}, &expected);
    ASSERT_TRUE(status.ok()) << status;
    status = folded->Run(feeds, {"y", "gw", "gx"}, {}, &found);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Steps(*folded), 3);
    EXPECT_EQ(Steps(*apart), 5);
    for (int k = 0; k < 3; ++k) {
      ASSERT_EQ(found[k].shape(), expected[k].shape()) << k;
      double largest = 0;
      for (int64_t i = 0; i < found[k].num_elements(); ++i) largest = std::max(largest, std::abs(expected[k].DoubleAt(i)));
      for (int64_t i = 0; i < found[k].num_elements(); ++i) {
        ASSERT_NEAR(found[k].DoubleAt(i), expected[k].DoubleAt(i), 1e-6 * largest) << k << ", " << i;
      }
    }
  }
}

TEST(Fusion, GelusOfFusedProductsFollowTheirFormulas) {
  for (const bool exact : {false, true}) {
    const std::string text = absl::StrCat(R"(
x = Placeholder() {dtype=float, shape=shape[40,8]}
w = Placeholder() {dtype=float, shape=shape[8,30]}
b = Placeholder() {dtype=float, shape=shape[30]}
m = MatMul(x, w) {T=float}
a = BiasAdd(m, b) {T=float}
y = _FusedMatMul(x, w, b) {T=float, num_args=1, fused_ops=["BiasAdd", "Gelu)", exact ? "Exact" : "Approximate", "\"]}\n");
    std::vector<Tensor> out;
    const absl::Status status = Make(text, false)->Run(
        {{"x", Numbers(Shape({40, 8}), 1)}, {"w", Numbers(Shape({8, 30}), 2)}, {"b", Numbers(Shape({30}), 3)}}, {"a", "y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < out[0].num_elements(); ++i) {
      const double x = out[0].DoubleAt(i);
      const double y = exact ? std::erf(x / std::sqrt(2)) : std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
      EXPECT_NEAR(out[1].DoubleAt(i), 0.5 * x * (1 + y), 1e-5 * std::max(1.0, std::abs(x))) << i;
    }
  }
}

TEST(Fusion, ABiasThatDoesNotFitIsRefusedByName) {
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[4,8]}
b = Placeholder() {dtype=float, shape=shape[7]}
y = _FusedMatMul(x, x, b) {T=float, transpose_b=true, num_args=1, fused_ops=["BiasAdd"]}
)";
  std::vector<Tensor> out;
  const absl::Status status =
      Make(text, false)->Run({{"x", Numbers(Shape({4, 8}), 1)}, {"b", Numbers(Shape({7}), 2)}}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), ::testing::AllOf(::testing::HasSubstr("'y'"), ::testing::HasSubstr("float[7]")));
}

// A fused node may run again where those that it stands for may.
TEST(Fusion, FusedNodesAreComputedAgainWithTheSameBits) {
  const auto model = BuildModel("lstm", {.batch = 8, .hidden = 32, .steps_unrolled = 8, .vocab = 50, .dropout = 0, .seed = 1});
  ASSERT_TRUE(model.ok()) << model.status();
  SessionOptions options = testing::UnderBudget("baseline", 0);
  options.planning.fuse = true;
  testing::ModelRun baseline(*model, options);
  const std::vector<float> losses = baseline.Steps(3);
  ASSERT_TRUE(baseline.status().ok()) << baseline.status();

  options = testing::UnderBudget("planned", baseline.report().predicted_peak_device_bytes * 45 / 100);
  options.planning.fuse = true;
  testing::ModelRun run(*model, options);
  EXPECT_EQ(run.Steps(3), losses) << run.status();
  EXPECT_EQ(run.Variables(), baseline.Variables());
  int64_t again = 0;
  for (const OpInstance& instance : run.TrainPlan()->instances) {
    again += absl::StrContains(instance.name, "/recompute") && absl::StartsWith(instance.op, "_Fused") ? 1 : 0;
  }
  EXPECT_GT(again, 0);
}

}  // namespace
}  // namespace millrace
