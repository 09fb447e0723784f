// Accumulators of gradients and queues of tokens: what they hold from step to step, and that nothing waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGradients[] = R"(
sums = ConditionalAccumulator() {dtype=float, shape=shape[2]}
local = Placeholder() {dtype=int64, shape=shape[]}
g = Placeholder() {dtype=float, shape=shape[2]}
give = AccumulatorApplyGradient(sums, local, g) {dtype=float}
count = AccumulatorNumAccumulated(sums)
required = Placeholder() {dtype=int32, shape=shape[]}
mean = AccumulatorTakeGradient(sums, required) {dtype=float}
set = AccumulatorSetGlobalStep(sums, local)
)";

absl::Status Give(Session& session, int64_t local, float first) {
  return session.Run({{"local", Tensor::Scalar<int64_t>(local)}, {"g", Tensor::Vector<float>({first, 1})}}, {}, {"give"}, nullptr);
}

TEST(Accumulators, GiveTheMeanOfWhatCame) {
  const auto session = SessionOf(kGradients);
  std::vector<Tensor> out;
  for (const float first : {1.f, 2.f, 6.f}) ASSERT_TRUE(Give(*session, 0, first).ok());
  ASSERT_TRUE(session->Run({}, {"count"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(3));
  const absl::Status status = session->Run({{"required", Tensor::Scalar<int32_t>(2)}}, {"mean"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(3, 1));
}

// What was taken began a new step: gradients of the one before come too late.
TEST(Accumulators, WhatWouldWaitForEverIsAnErrorAndChangesNothing) {
  const auto session = SessionOf(kGradients);
  ASSERT_TRUE(Give(*session, 0, 1).ok());
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"required", Tensor::Scalar<int32_t>(1)}}, {"mean"}, {}, &out).ok());
  ASSERT_TRUE(Give(*session, 0, 2).ok());
  ASSERT_TRUE(Give(*session, 1, 4).ok());
  const absl::Status status = session->Run({{"required", Tensor::Scalar<int32_t>(2)}}, {"mean"}, {}, &out);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("'mean'"), HasSubstr("would wait for ever: 2 gradients are required and 1 there"),
                                       HasSubstr("local step before 1")));
  EXPECT_THAT(session->Run({{"required", Tensor::Scalar<int32_t>(0)}}, {"mean"}, {}, &out).ToString(), HasSubstr("num_required must be positive"));
  ASSERT_TRUE(session->Run({{"required", Tensor::Scalar<int32_t>(1)}}, {"mean"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(4, 1));
  ASSERT_TRUE(session->Run({{"local", Tensor::Scalar<int64_t>(9)}}, {}, {"set"}, nullptr).ok());
  ASSERT_TRUE(Give(*session, 8, 4).ok());
  ASSERT_TRUE(session->Run({}, {"count"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0));
}

TEST(Accumulators, WhatGivesComesBeforeWhatTakesWhereverItWasWritten) {
  const auto session = SessionOf(R"(
sums = ResourceConditionalAccumulator() {dtype=float, shape=shape[], reduction_type="SUM", shared_name="s"}
two = Const() {dtype=int32, value=int32[]{2}}
sum = ResourceAccumulatorTakeGradient(sums, two) {dtype=float}
queue = FIFOQueueV2() {component_types=[int64], shapes=[shape[]], shared_name="q"}
token = QueueDequeueV2(queue) {component_types=[int64]}
now = Const() {dtype=int64, value=int64[]{0}}
a = Const() {dtype=float, value=float[]{3}}
tower_0 = ResourceAccumulatorApplyGradient(sums, now, a) {dtype=float}
other = ResourceConditionalAccumulator() {dtype=float, shape=shape[], reduction_type="SUM", shared_name="s"}
tower_1 = ResourceAccumulatorApplyGradient(other, now, a) {dtype=float}
tokens = Const() {dtype=int64, value=int64[2]{7, 8}}
fill = QueueEnqueueManyV2(queue, tokens) ^sum {Tcomponents=[int64]}
left = QueueSizeV2(queue) ^token
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"sum", "token", "left"}, {"tower_0", "tower_1", "fill"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(6));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(7));
  EXPECT_THAT(Numbers(out[2]), ElementsAre(1));
  ASSERT_TRUE(session->Run({}, {"token"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(8));
  EXPECT_THAT(session->Run({}, {"token"}, {}, &out).ToString(), AllOf(HasSubstr("'token'"), HasSubstr("the queue is empty")));
}

TEST(Accumulators, SparseOnesGiveEachRowTheMeanOfThoseThatHadIt) {
  const auto session = SessionOf(R"(
sums = SparseConditionalAccumulator() {dtype=float, shape=shape[5,2]}
now = Const() {dtype=int64, value=int64[]{0}}
rows = Placeholder() {dtype=int64, shape=shape[2]}
g = Const() {dtype=float, value=float[2,2]{1, 2, 3, 4}}
shape = Const() {dtype=int64, value=int64[2]{5, 2}}
give = SparseAccumulatorApplyGradient(sums, now, rows, g, shape) {dtype=float, has_known_shape=true}
one = Const() {dtype=int32, value=int32[]{1}}
taken = SparseAccumulatorTakeGradient(sums, one) {dtype=float}
)");
  std::vector<Tensor> out;
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{1, 4}, {0, 1}}) {
    ASSERT_TRUE(session->Run({{"rows", Tensor::Vector<int64_t>(rows)}}, {}, {"give"}, nullptr).ok());
  }
  EXPECT_THAT(session->Run({{"rows", Tensor::Vector<int64_t>({0, 5})}}, {}, {"give"}, nullptr).ToString(), HasSubstr("gradient_indices[1] = 5"));
  const absl::Status status = session->Run({}, {"taken:0", "taken:1", "taken:2"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 1, 4));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(1, 2, 2, 3, 3, 4));
  EXPECT_THAT(Numbers(out[2]), ElementsAre(5, 2));
}

// As steps do that gather gradients until there are enough.
TEST(Accumulators, BranchesThatAreNotTakenTakeNothing) {
  const auto session = SessionOf(R"(
sums = ConditionalAccumulator() {dtype=float, shape=shape[]}
now = Const() {dtype=int64, value=int64[]{9}}
g = Placeholder() {dtype=float, shape=shape[]}
give = AccumulatorApplyGradient(sums, now, g) {dtype=float}
count = AccumulatorNumAccumulated(sums) ^give
two = Const() {dtype=int32, value=int32[]{2}}
enough = GreaterEqual(count, two) {T=int32}
required = Switch(two, enough) {T=int32}
taken = AccumulatorTakeGradient(sums, required:1) {dtype=float}
zero = Const() {dtype=float, value=float[]{0}}
none = Switch(zero, enough) {T=float}
step = Merge(none, taken) {T=float, N=2}
)");
  std::vector<Tensor> out;
  std::vector<double> steps;
  for (int i = 1; i <= 4; ++i) {
    Tensor g(DataType::kFloat, Shape());
    g.mutable_as<float>()[0] = static_cast<float>(i);
    const absl::Status status = session->Run({{"g", g}}, {"step"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    steps.push_back(out[0].DoubleAt(0));
  }
  EXPECT_THAT(steps, ElementsAre(0, 1.5, 0, 3.5));
}

// A side gives and takes; what the other one would give is none of its business.
TEST(Accumulators, EachSideTakesWhatItGave) {
  const auto session = SessionOf(R"(
sums = ConditionalAccumulator() {dtype=float, shape=shape[]}
now = Const() {dtype=int64, value=int64[]{9}}
g = Placeholder() {dtype=float, shape=shape[]}
p = Placeholder() {dtype=bool, shape=shape[]}
s = Switch(g, p) {T=float}
needed = Const() {dtype=int32, value=int32[]{1}}
left = Switch(needed, p) {T=int32}
give = AccumulatorApplyGradient(sums, now, s) {dtype=float}
take = AccumulatorTakeGradient(sums, left) ^give {dtype=float}
on_side = Identity(s:1) {T=float}
three = Const() ^on_side {dtype=float, value=float[]{3}}
more = Mul(s:1, three) {T=float}
give_more = AccumulatorApplyGradient(sums, now, more) {dtype=float}
take_more = AccumulatorTakeGradient(sums, left:1) ^give_more {dtype=float}
y = Merge(take, take_more) {T=float, N=2}
)");
  std::vector<Tensor> out;
  for (const bool side : {false, true, true}) {
    const absl::Status status = session->Run({{"g", Tensor::Scalar<float>(2)}, {"p", Tensor::Scalar<bool>(side)}}, {"y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].DoubleAt(0), side ? 6 : 2);
  }
}

TEST(Accumulators, GradientsOfUnknownShapeAreRefusedByName) {
  const auto session = SessionOf(absl::StrReplaceAll(kGradients, {{"shape=shape[2]}\nlocal", "shape=shape[?]}\nlocal"}}));
  EXPECT_THAT(Give(*session, 0, 1).ToString(), AllOf(HasSubstr("'sums'"), HasSubstr("their shape must be known")));
}

}  // namespace
}  // namespace millrace
