// What rewrites must leave as it is: the values that variables had when they were read, and effects that only a removed node waited for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

std::unique_ptr<Session> Fused(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.fuse = true;
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

// After a run of "init" and one with these fetches and targets.
std::vector<Tensor> Step(Session& session, const Session::Feeds& feeds, const std::vector<std::string>& fetches, const std::vector<std::string>& targets) {
  absl::Status status = session.Run({}, {}, {"init"}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  status = session.Run(feeds, fetches, targets, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

std::vector<float> Floats(const Tensor& tensor) { return {tensor.as<float>().begin(), tensor.as<float>().end()}; }

// What "now" reads, in a run of its own.
std::vector<float> Now(Session& session) {
  std::vector<Tensor> out;
  const absl::Status status = session.Run({}, {"now"}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.empty() ? std::vector<float>() : Floats(out[0]);
}

TEST(KeptByRewrites, AnAverageOfAVariableThatIsWrittenMeanwhile) {
  const auto session = Fused(R"(
v = VarHandleOp() {dtype=float, shape=shape[2], shared_name="v"}
w = VarHandleOp() {dtype=float, shape=shape[2], shared_name="w"}
ones = Const() {dtype=float, value=float[2]{1, 1}}
zeros = Const() {dtype=float, value=float[2]{0, 0}}
init_v = AssignVariableOp(v, ones) {dtype=float}
init_w = AssignVariableOp(w, zeros) {dtype=float}
init = NoOp() ^init_v ^init_w
rate = Const() {dtype=float, value=float[]{0.5}}
old = ReadVariableOp(v) {dtype=float}
value = ReadVariableOp(w) {dtype=float}
difference = Sub(old, value) {T=float}
part = Mul(difference, rate) {T=float}
more = AssignAddVariableOp(w, ones) ^difference {dtype=float}
step = AssignSubVariableOp(v, part) ^more {dtype=float}
now = ReadVariableOp(v) ^step {dtype=float}
)");
  EXPECT_EQ(Floats(Step(*session, {}, {"now"}, {})[0]), (std::vector<float>{0.5f, 0.5f}));
}

TEST(KeptByRewrites, ACopyOfAVariableThatIsWrittenMeanwhile) {
  const auto session = Fused(R"(
b = VarHandleOp() {dtype=float, shape=shape[3], shared_name="b"}
ones = Const() {dtype=float, value=float[3]{1, 1, 1}}
zeros = Const() {dtype=float, value=float[3]{0, 0, 0}}
init = AssignVariableOp(b, zeros) {dtype=float}
x = Placeholder() {dtype=float, shape=shape[4,3]}
sizes = Const() {dtype=int32, value=int32[2]{4, 3}}
read = ReadVariableOp(b) {dtype=float}
copy = BroadcastTo(read, sizes) {T=float, Tidx=int32}
more = AssignAddVariableOp(b, ones) ^copy {dtype=float}
sum = AddV2(x, copy) ^more {T=float}
y = Square(sum) {T=float}
)");
  Tensor x(DataType::kFloat, Shape({4, 3}));
  for (float& v : x.mutable_as<float>()) v = 3;
  EXPECT_EQ(Floats(Step(*session, {{"x", x}}, {"y"}, {})[0]), std::vector<float>(12, 9));
}

TEST(KeptByRewrites, WhatAPadWaitedFor) {
  const auto session = Fused(R"(
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
one = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(v, one) {dtype=float}
more = AssignAddVariableOp(v, one) {dtype=float}
x = Placeholder() {dtype=float, shape=shape[1,3,3,1]}
pads = Const() {dtype=int32, value=int32[4,2]{0, 0, 1, 1, 1, 1, 0, 0}}
padded = Pad(x, pads) ^more {T=float, Tpaddings=int32}
filter = Const() {dtype=float, value=float[3,3,1,1]{1, 1, 1, 1, 1, 1, 1, 1, 1}}
y = Conv2D(padded, filter) {T=float, strides=[1, 1, 1, 1], padding="VALID", data_format="NHWC"}
now = ReadVariableOp(v) {dtype=float}
)");
  Tensor x(DataType::kFloat, Shape({1, 3, 3, 1}));
  for (float& v : x.mutable_as<float>()) v = 1;
  EXPECT_EQ(Floats(Step(*session, {{"x", x}}, {"y"}, {})[0]), (std::vector<float>{4, 6, 4, 6, 9, 6, 4, 6, 4}));
  EXPECT_EQ(Now(*session), std::vector<float>{2});
}

TEST(KeptByRewrites, WhatATextWaitedForThatIsHashed) {
  const auto session = Fused(R"(
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
one = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(v, one) {dtype=float}
more = AssignAddVariableOp(v, one) {dtype=float}
x = Placeholder() {dtype=int64, shape=shape[]}
text = AsString(x) ^more {T=int64}
y = StringToHashBucketFast(text) {num_buckets=10}
now = ReadVariableOp(v) {dtype=float}
)");
  EXPECT_EQ(Step(*session, {{"x", Tensor::Scalar<int64_t>(5)}}, {"y"}, {}).size(), 1);
  EXPECT_EQ(Now(*session), std::vector<float>{2});
}

TEST(KeptByRewrites, APrintOfNoValuesThatIsWaitedFor) {
  const auto session = Fused(R"(
init = NoOp()
x = Placeholder() {dtype=float, shape=shape[2]}
first = StringFormat() {template="a", placeholder="{}", summarize=3}
show = PrintV2(first)
y = Square(x) ^show {T=float}
second = StringFormat() {template="b", placeholder="{}", summarize=3}
show_again = PrintV2(second) ^y
)");
  ::testing::internal::CaptureStderr();
  Step(*session, {{"x", Tensor::Vector<float>({1, 2})}}, {}, {"show_again"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a\nb\n");
}

}  // namespace
}  // namespace millrace
