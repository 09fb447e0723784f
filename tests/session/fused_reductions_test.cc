// Reductions take the elementwise ops before them along: what only they read is never a tensor, and all results have the bits of
// the ops on their own.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Session> Make(const std::string& text, bool fuse, int threads = 1) {
  SessionOptions options;
  options.threads = threads;
  options.planning.strategy = "baseline";
  options.planning.fuse = fuse;
  return testing::SessionOf(text, std::move(options));
}

Tensor Numbers(Shape shape, uint32_t seed) {
  Tensor tensor(DataType::kFloat, std::move(shape));
  uint32_t state = seed;
  for (float& value : tensor.mutable_as<float>()) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / (1 << 22) - 2.0f;
  }
  return tensor;
}

// Op, the group's ops and its reductions, of every step.
std::vector<std::string> StepsOf(const Session& session) {
  std::vector<std::string> steps;
  const ExecutionPlan& plan = *session.last_run().plan;
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      const OpInstance& node = plan.instances[step.instance];
      std::vector<std::string> parts;
      for (const FunctionRef& op : node.attrs.GetOr<std::vector<FunctionRef>>("ops", {})) parts.push_back(op.name);
      const auto reductions = node.attrs.GetOr<std::vector<std::string>>("reductions", {});
      parts.insert(parts.end(), reductions.begin(), reductions.end());
      steps.push_back(parts.empty() ? node.op : absl::StrCat(node.op, "(", absl::StrJoin(parts, " "), ")"));
    }
  }
  return steps;
}

class FusedReductionsTest : public ::testing::Test {
 protected:
  // The steps with fusion; all fetches have the bits that they have without.
  std::vector<std::string> StepsWithTheBitsApart(const std::string& text, const Session::Feeds& feeds, const std::vector<std::string>& fetches) {
    std::vector<Tensor> apart, fused;
    EXPECT_TRUE(Make(text, false)->Run(feeds, fetches, {}, &apart).ok());
    std::vector<std::string> steps;
    for (int threads : {1, 4}) {
      const std::unique_ptr<Session> session = Make(text, true, threads);
      const absl::Status status = session->Run(feeds, fetches, {}, &fused);
      EXPECT_TRUE(status.ok()) << status;
      for (size_t k = 0; k < fused.size(); ++k) EXPECT_TRUE(fused[k].BitEqual(apart[k])) << fetches[k] << ", " << threads << " threads";
      steps = StepsOf(*session);
    }
    return steps;
  }
};

std::string Placeholders(const std::vector<std::string>& names, const Shape& shape) {
  std::string text;
  for (const std::string& name : names) {
    absl::StrAppend(&text, name, " = Placeholder() {dtype=float, shape=shape[", absl::StrJoin(shape.dims(), ","), "]}\n");
  }
  return text;
}

// A normalisation with its gradient: three passes forward, in which `d` is computed three times and is no tensor; backward one
// that writes the gradient of Relu, and two that sum what they write.
TEST_F(FusedReductionsTest, NormalisationHasAPassForEverySum) {
  struct Case {
    Shape shape;
    std::string axes;
  };
  for (const Case& c : {Case{Shape({70, 300}), "int32[1]{1}"}, Case{Shape({2, 6, 40, 50}), "int32[2]{2,3}"},
                        Case{Shape({3, 20, 30, 8}), "int32[2]{1,2}"}, Case{Shape({500, 40}), "int32[1]{0}"}}) {
    const std::string text = absl::StrCat(Placeholders({"x"}, c.shape), "axes = Const() {dtype=int32, value=", c.axes, R"(}
m = Mean(x, axes) {T=float, Tidx=int32, keep_dims=true}
d = Sub(x, m) {T=float}
q = Square(d) {T=float}
v = Mean(q, axes) {T=float, Tidx=int32, keep_dims=true}
s = Rsqrt(v) {T=float}
n = Mul(d, s) {T=float}
y = Relu(n) {T=float}
dy = ReverseV2(y, axes) {T=float, Tidx=int32}
g = ReluGrad(dy, y) {T=float}
p = Mul(g, d) {T=float}
t = Sum(p, axes) {T=float, Tidx=int32, keep_dims=true}
gs = Mul(g, s) {T=float}
dt = Mul(d, t) {T=float}
r = AddN(gs, dt) {T=float, N=2}
b = Sum(r, axes) {T=float, Tidx=int32, keep_dims=true}
dx = Sub(r, b) {T=float}
c = Sum(dx, axes) {T=float, Tidx=int32}
)");
    SCOPED_TRACE(text);
    EXPECT_THAT(StepsWithTheBitsApart(text, {{"x", Numbers(c.shape, 1)}}, {"y", "dx", "c"}),
                ElementsAre("Mean", "_FusedReduce(Sub Square Mean)", "Rsqrt", "_Fused(Sub Mul Relu)", "ReverseV2", "_FusedMapReduce(Sub ReluGrad Mul Sum)",
                            "_FusedMapReduce(Sub Mul Mul AddN Sum)", "_FusedMapReduce(Sub Sum)"));
  }
}

// Gradients of a dense layer's scale and shift: both sums in the pass that multiplies.
TEST_F(FusedReductionsTest, SumsOverTheSameDimensionsAreOnePass) {
  const Shape shape({130, 48});
  const std::string text = absl::StrCat(Placeholders({"x", "dy"}, shape), R"(
rows = Const() {dtype=int32, value=int32[1]{0}}
columns = Const() {dtype=int32, value=int32[1]{-1}}
p = Mul(dy, x) {T=float}
scale = Sum(p, rows) {T=float, Tidx=int32}
shift = BiasAddGrad(dy) {T=float}
largest = Max(p, columns) {T=float, Tidx=int32}
least = Min(dy, columns) {T=float, Tidx=int32}
)");
  const Session::Feeds feeds = {{"x", Numbers(shape, 1)}, {"dy", Numbers(shape, 2)}};
  EXPECT_THAT(StepsWithTheBitsApart(text, feeds, {"scale", "shift"}), ElementsAre("_FusedReduce(Mul Sum Sum)"));
  EXPECT_THAT(StepsWithTheBitsApart(text, feeds, {"largest", "least"}), ElementsAre("_FusedReduce(Mul Max Min)"));
  // Over others: the product is a tensor.
  EXPECT_THAT(StepsWithTheBitsApart(text, feeds, {"scale", "largest"}), ElementsAre("_FusedMapReduce(Mul Sum)", "Max"));
}

// What is read before its sum is, by the group itself or by what it waits for, is not taken.
TEST_F(FusedReductionsTest, WhatTheGroupWaitsForIsNotInIt) {
  const Shape shape({20, 64});
  const std::string text = absl::StrCat(Placeholders({"x"}, shape), R"(
axis = Const() {dtype=int32, value=int32[1]{1}}
e = Exp(x) {T=float}
total = Sum(e, axis) {T=float, Tidx=int32, keep_dims=true}
share = RealDiv(e, total) {T=float}
l = Log(share) {T=float}
all = Sum(l, axis) {T=float, Tidx=int32}
)");
  EXPECT_THAT(StepsWithTheBitsApart(text, {{"x", Numbers(shape, 1)}}, {"share", "all"}),
              ElementsAre("_FusedMapReduce(Exp Sum)", "_FusedMapReduce(RealDiv Log Sum)"));
}

// A sum that something else takes too (here a product of matrices) is kept, and the groups read it.
TEST_F(FusedReductionsTest, WhatIsNeededAsATensorIsNotComputedTwice) {
  const Shape shape({48, 48});
  const std::string text = absl::StrCat(Placeholders({"x"}, shape), R"(
axis = Const() {dtype=int32, value=int32[1]{1}}
m = Mean(x, axis) {T=float, Tidx=int32, keep_dims=true}
d = Sub(x, m) {T=float}
q = Square(d) {T=float}
v = Mean(q, axis) {T=float, Tidx=int32, keep_dims=true}
y = Mul(d, v) {T=float}
w = MatMul(d, x) {T=float}
)");
  EXPECT_THAT(StepsWithTheBitsApart(text, {{"x", Numbers(shape, 1)}}, {"y", "w"}),
              ElementsAre("Mean", "_FusedMapReduce(Sub Square Mean)", "Mul", "MatMul"));
}

// Halves are rounded before they are added up, though the tensor is never there.
TEST_F(FusedReductionsTest, NarrowTypesAreRoundedBeforeTheSum) {
  for (const char* type : {"half", "bfloat16", "double"}) {
    const Shape shape({60, 90});
    const std::string text = absl::StrCat(Placeholders({"xf"}, shape), "axis = Const() {dtype=int32, value=int32[1]{1}}\nx = Cast(xf) {SrcT=float, DstT=",
                                          type, "}\ne = Exp(x) {T=", type, "}\nt = Sum(e, axis) {T=", type, ", Tidx=int32}\nz = Cast(t) {SrcT=",
                                          type, ", DstT=float}\n");
    EXPECT_THAT(StepsWithTheBitsApart(text, {{"xf", Numbers(shape, 1)}}, {"z"}), ElementsAre("_FusedReduce(Cast Exp Sum)", "Cast"));
  }
}

}  // namespace
}  // namespace millrace
