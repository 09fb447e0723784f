// What tf.print writes: in the branch that is taken, in the order of turns and calls, once, under every plan alike.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

// A text alone on one side, a value on the other.
constexpr char kBranches[] = R"(
function say ^show
  x = _Arg() {T=float, index=0}
  text = StringFormat() {template="taken", placeholder="{}", summarize=3}
  show = PrintV2(text)
  r = _Retval(x) ^show {T=float, index=0}
end
function show ^show
  x = _Arg() {T=float, index=0}
  text = StringFormat(x) {template="not taken {}", placeholder="{}", summarize=3}
  show = PrintV2(text)
  r = _Retval(x) ^show {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
c = If(p, x) {Tcond=bool, then_branch=&say, else_branch=&show}
y = Identity(c) {T=float}
)";

// Numbers of turns are constants by then, and so is what is printed of them.
constexpr char kTurn[] = R"(
function less
  i = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  three = Const() {dtype=int32, value=int32[]{3}}
  c = Less(i, three) {T=int32}
  r = _Retval(c) {T=bool, index=0}
end
function turn ^show ^again
  i = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  ten = Const() {dtype=int32, value=int32[]{10}}
  tens = Mul(i, ten) {T=int32}
  text = StringFormat(tens) {template="{}", placeholder="{}", summarize=3}
  show = PrintV2(text)
  word = StringFormat() ^show {template="and", placeholder="{}", summarize=3}
  again = PrintV2(word)
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(x) {T=float, index=1}
end
)";
constexpr char kTurns[] = R"(
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
zero = Const() {dtype=int32, value=int32[]{0}}
loop = While(zero, x) {T=[int32, float], cond=&less, body=&turn}
y = Identity(loop:1) {T=float}
)";

// The loop waits for what its branch computes, its texts for nothing.
constexpr char kTurnsOfABranch[] = R"(
function loud ^loop
  x = _Arg() {T=float, index=0}
  more = AddV2(x, x) {T=float}
  zero = Const() {dtype=int32, value=int32[]{0}}
  loop = While(zero, more) {T=[int32, float], cond=&less, body=&turn}
  r = _Retval(loop:1) {T=float, index=0}
end
function quiet
  x = _Arg() {T=float, index=0}
  r = _Retval(x) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
c = If(p, x) {Tcond=bool, then_branch=&loud, else_branch=&quiet}
y = Identity(c) {T=float}
)";

// How often it turns is what the step itself computes: x is doubled until it is 8.
constexpr char kUntil[] = R"(
function less
  x = _Arg() {T=float, index=0}
  end = Const() {dtype=float, value=float[]{8}}
  c = Less(x, end) {T=float}
  r = _Retval(c) {T=bool, index=0}
end
function turn ^show
  x = _Arg() {T=float, index=0}
  more = AddV2(x, x) {T=float}
  text = StringFormat(more) {template="{}", placeholder="{}", summarize=3}
  show = PrintV2(text)
  old = Identity(more) ^show {T=float}
  r = _Retval(old) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
loop = While(x) {T=[float], cond=&less, body=&turn}
y = Identity(loop) {T=float}
)";

// The lines of a step.
std::vector<std::string> Printed(const std::string& text, const char* strategy, bool p, float x) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  ::testing::internal::CaptureStderr();
  const absl::Status status = (*session)->Run({{"p", Tensor::Scalar<bool>(p)}, {"x", Tensor::Scalar<float>(x)}}, {"y:0"}, {}, nullptr);
  std::vector<std::string> lines = absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
  EXPECT_TRUE(status.ok()) << status;
  return lines;
}

using Lines = std::vector<std::string>;

class Prints : public ::testing::TestWithParam<const char*> {};

TEST_P(Prints, OfABranchAreThoseOfTheOneThatIsTaken) {
  EXPECT_EQ(Printed(kBranches, GetParam(), true, 3), Lines{"taken"});
  EXPECT_EQ(Printed(kBranches, GetParam(), false, 3), Lines{"not taken 3"});
}

// Which one it is only the step itself tells.
TEST_P(Prints, OfABranchThatIsChosenByWhatIsComputedAreThoseOfTheOneThatIsTaken) {
  const std::string text = absl::StrReplaceAll(kBranches, {{"c = If(p, x)", "one = Const() {dtype=float, value=float[]{1}}\n"
                                                                             "less = Less(x, one) {T=float}\n"
                                                                             "c = If(less, x)"}});
  EXPECT_EQ(Printed(text, GetParam(), true, 0.5), Lines{"taken"});
  EXPECT_EQ(Printed(text, GetParam(), true, 3), Lines{"not taken 3"});
}

TEST_P(Prints, OfTurnsComeInTheirOrder) {
  const Lines all = {"0", "and", "10", "and", "20", "and"};
  EXPECT_EQ(Printed(absl::StrCat(kTurn, kTurns), GetParam(), true, 3), all);
  EXPECT_EQ(Printed(absl::StrCat(kTurn, kTurnsOfABranch), GetParam(), true, 3), all);
  EXPECT_EQ(Printed(absl::StrCat(kTurn, kTurnsOfABranch), GetParam(), false, 3), Lines());
}

TEST_P(Prints, OfTurnsThatMustBeCountedFirstComeOnce) {
  EXPECT_EQ(Printed(kUntil, GetParam(), true, 1), (Lines{"2", "4", "8"}));
  EXPECT_EQ(Printed(kUntil, GetParam(), true, 9), Lines());
}

INSTANTIATE_TEST_SUITE_P(Strategies, Prints, ::testing::Values("baseline", "tensorflowmem", "planned"));

}  // namespace
}  // namespace millrace
