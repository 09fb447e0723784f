// Staging areas: what a step puts aside for itself or a later one. Expected values are TensorFlow's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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

constexpr char kArea[] = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
k = Placeholder() {dtype=int64, shape=shape[]}
put = Stage(x, k) {dtypes=[float, int64], capacity=3, memory_limit=40, shared_name="area"}
got = Unstage() {dtypes=[float, int64], capacity=3, memory_limit=40, shared_name="area"}
next = AddV2(got:1, got:1) {T=int64}
index = Const() {dtype=int32, value=int32[]{1}}
second = StagePeek(index) {dtypes=[float, int64], capacity=3, memory_limit=40, shared_name="area"}
size = StageSize() {dtypes=[float, int64], capacity=3, memory_limit=40, shared_name="area"}
clear = StageClear() {dtypes=[float, int64], capacity=3, memory_limit=40, shared_name="area"}
)";

std::map<std::string, Tensor> Pair(float x, int64_t k) { return {{"x", Tensor::Vector<float>({x, x + 1})}, {"k", Tensor::Scalar<int64_t>(k)}}; }

std::vector<double> Fetched(Session& session, const std::string& fetch, std::map<std::string, Tensor> feeds = {}, std::vector<std::string> targets = {}) {
  std::vector<Tensor> out;
  const absl::Status status = session.Run(std::move(feeds), {fetch}, std::move(targets), &out);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? Numbers(out[0]) : std::vector<double>();
}

std::string Refused(Session& session, const std::string& fetch) {
  std::vector<Tensor> out;
  return session.Run({}, {fetch}, {}, &out).ToString();
}

TEST(StagingAreas, GiveWhatWasPutAsideInItsOrder) {
  const auto session = SessionOf(kArea);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->Run(Pair(static_cast<float>(i), 10 * i), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Fetched(*session, "second:0"), ElementsAre(1, 2));
  EXPECT_THAT(Fetched(*session, "size"), ElementsAre(2));
  EXPECT_THAT(Fetched(*session, "got:0"), ElementsAre(0, 1));
  EXPECT_THAT(Fetched(*session, "next"), ElementsAre(20));
  EXPECT_THAT(Refused(*session, "got:0"), AllOf(HasSubstr("'got'"), HasSubstr("the queue is empty")));
}

TEST(StagingAreas, AreLookedIntoAndCleared) {
  const auto session = SessionOf(kArea);
  EXPECT_THAT(Fetched(*session, "size"), ElementsAre(0));
  ASSERT_TRUE(session->Run(Pair(0, 7), {}, {"put"}, nullptr).ok());
  EXPECT_THAT(Refused(*session, "second:1"), AllOf(HasSubstr("'second'"), HasSubstr("element 1 is looked at, of 1 that are there")));
  // What the step puts aside is there to be looked at.
  EXPECT_THAT(Fetched(*session, "second:1", Pair(0, 8), {"put"}), ElementsAre(8));
  ASSERT_TRUE(session->Run({}, {}, {"clear"}, nullptr).ok());
  EXPECT_THAT(Fetched(*session, "size"), ElementsAre(0));
  EXPECT_THAT(Fetched(*session, "got:1", Pair(0, 9), {"put"}), ElementsAre(9));
}

// A pipeline: each step takes what the one before put aside, also where there is room for one alone.
TEST(StagingAreas, StepsTakeWhatTheOneBeforePutAside) {
  for (const char* strategy : {"baseline", "planned", "lru"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = SessionOf(absl::StrReplaceAll(kArea, {{"capacity=3", "capacity=1"}}), options);
    ASSERT_TRUE(session->Run(Pair(0, 0), {}, {"put"}, nullptr).ok());
    for (int step = 1; step < 5; ++step) EXPECT_THAT(Fetched(*session, "got:1", Pair(0, step), {"put"}), ElementsAre(step - 1)) << strategy;
  }
}

TEST(StagingAreas, OfSingleNumbersHaveRoomForTheNextOne) {
  const auto session = SessionOf(R"(
k = Placeholder() {dtype=int64, shape=shape[]}
put = Stage(k) {dtypes=[int64], capacity=1, shared_name="area"}
got = Unstage() {dtypes=[int64], capacity=1, shared_name="area"}
)");
  ASSERT_TRUE(session->Run({{"k", Tensor::Scalar<int64_t>(0)}}, {}, {"put"}, nullptr).ok());
  for (int64_t step = 1; step < 4; ++step) EXPECT_THAT(Fetched(*session, "got", {{"k", Tensor::Scalar(step)}}, {"put"}), ElementsAre(step - 1));
}

TEST(StagingAreas, TakeShapesFromTheFeedsWherePlaceholdersLeaveThemOpen) {
  const auto session = SessionOf(absl::StrReplaceAll(kArea, {{"shape[2]", "shape[?]"}}));
  EXPECT_THAT(Fetched(*session, "got:0", Pair(4, 0), {"put"}), ElementsAre(4, 5));
  EXPECT_THAT(Refused(*session, "got:0"), AllOf(HasSubstr("'got'"), HasSubstr("staging area 'area' is filled by no Stage of the graph whose inputs have shapes")));
}

TEST(StagingAreas, WhatDoesNotFitIsRefusedByName) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return Refused(*SessionOf(absl::StrReplaceAll(kArea, {{from, to}})), "got:0");
  };
  EXPECT_THAT(refusal("memory_limit=40", "memory_limit=15"), AllOf(HasSubstr("'got'"), HasSubstr("elements of 16 bytes, expected at most its memory limit of 15")));
  EXPECT_THAT(refusal("Unstage() {dtypes=[float, int64]", "Unstage() {dtypes=[float]"), AllOf(HasSubstr("of 2 components"), HasSubstr("the 1 of attribute")));
}

// Only a branch that is taken puts aside, and every turn of a loop does.
TEST(StagingAreas, BranchesAndTurnsPutAsideAsTheyRun) {
  const auto session = SessionOf(R"(
yes = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
sides = Switch(x, yes) {T=float}
taken = Identity(sides:1) {T=float}
put = Stage(taken) {dtypes=[float], shared_name="area"}
other = Identity(sides) {T=float}
done = Identity(taken) ^put {T=float}
y = Merge(other, done) {T=float, N=2}
size = StageSize() ^y {dtypes=[float], shared_name="area"}
zero = Const() {dtype=int32, value=int32[]{0}}
enter = Enter(zero) {T=int32, frame_name="loop"}
turns = Enter(x) {T=float, frame_name="loop", is_constant=true}
i = Merge(enter, again) {T=int32, N=2}
three = Const() ^i {dtype=int32, value=int32[]{3}}
less = Less(i, three) {T=int32}
goes_on = LoopCond(less)
either = Switch(i, goes_on) {T=int32}
turn = Identity(either:1) {T=int32}
number = Cast(turn) {SrcT=int32, DstT=float}
product = Mul(number, turns) {T=float}
aside = Stage(product) {dtypes=[float], shared_name="area"}
one = Const() ^turn {dtype=int32, value=int32[]{1}}
more = AddV2(turn, one) ^aside {T=int32}
again = NextIteration(more) {T=int32}
out = Exit(either) {T=int32}
got = Unstage() {dtypes=[float], shared_name="area"}
)");
  const auto feeds = [](bool yes, float x) { return std::map<std::string, Tensor>{{"yes", Tensor::Scalar(yes)}, {"x", Tensor::Scalar(x)}}; };
  EXPECT_THAT(Fetched(*session, "size", feeds(false, 3)), ElementsAre(0));
  EXPECT_THAT(Fetched(*session, "size", feeds(true, 5)), ElementsAre(1));
  EXPECT_THAT(Fetched(*session, "out", feeds(true, 2)), ElementsAre(3));
  for (const double expected : {5, 0, 2, 4}) EXPECT_THAT(Fetched(*session, "got"), ElementsAre(expected));
}

TEST(StagingAreas, TheComponentThatIsNoNumberIsNamed) {
  const auto session = SessionOf(R"(
x = Placeholder() {dtype=float, shape=shape[2]}
word = Const() {dtype=string, value=string[]{"a"}}
put = Stage(x, word) {dtypes=[float, string], shared_name="area"}
)");
  const absl::Status status = session->Run({{"x", Tensor::Vector<float>({1, 2})}}, {}, {"put"}, nullptr);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("'put'"), HasSubstr("has elements of string[]; only numbers of known shapes are kept")));
}

}  // namespace
}  // namespace millrace
