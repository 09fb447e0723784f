// Loops that end by the step's own results: what they come to is asked of the same variables and random numbers first, and
// nothing of that stays.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "passes/unroll/questions.h"
#include "session/asker.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

// x begins as v + u and is halved until it is at most 3; the step counts itself first and takes nine off v at its end.
constexpr char kGraph[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  three = Const() {dtype=float, value=float[]{3}}
  more = Greater(x, three) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function halve
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  half = Const() {dtype=float, value=float[]{0.5}}
  one = Const() {dtype=int32, value=int32[]{1}}
  y = Mul(x, half) {T=float}
  m = AddV2(n, one) {T=int32}
  r0 = _Retval(y) {T=float, index=0}
  r1 = _Retval(m) {T=int32, index=1}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
count = VarHandleOp() {dtype=float, shape=shape[], shared_name="count"}
forty = Const() {dtype=float, value=float[]{40}}
nine = Const() {dtype=float, value=float[]{9}}
one = Const() {dtype=float, value=float[]{1}}
zero = Const() {dtype=float, value=float[]{0}}
none = Const() {dtype=int32, value=int32[]{0}}
set_v = AssignVariableOp(v, forty) {dtype=float}
set_count = AssignVariableOp(count, zero) {dtype=float}
init = NoOp() ^set_v ^set_count
scalar = Const() {dtype=int32, value=int32[0]{}}
u = RandomUniform(scalar) {T=int32, dtype=float, seed=3, seed2=5}
bump = AssignAddVariableOp(count, one) {dtype=float}
total = ReadVariableOp(count) ^bump {dtype=float}
old = ReadVariableOp(v) ^total {dtype=float}
x = AddV2(old, u) {T=float}
loop = StatelessWhile(x, none) {cond=&goes_on, body=&halve}
y = Identity(loop:0) {T=float}
n = Identity(loop:1) {T=int32}
update = AssignSubVariableOp(v, nine) ^y {dtype=float}
)";

// The same halving in a frame of TensorFlow 1.
constexpr char kFrame[] = R"(
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
forty = Const() {dtype=float, value=float[]{40}}
nine = Const() {dtype=float, value=float[]{9}}
zero = Const() {dtype=int32, value=int32[]{0}}
init = AssignVariableOp(v, forty) {dtype=float}
old = ReadVariableOp(v) {dtype=float}
x_in = Enter(old) {T=float, frame_name="halve"}
n_in = Enter(zero) {T=int32, frame_name="halve"}
x = Merge(x_in, x_again) {T=float, N=2}
n = Merge(n_in, n_again) {T=int32, N=2}
three = Const() ^x {dtype=float, value=float[]{3}}
more = Greater(x, three) {T=float}
goes_on = LoopCond(more)
x_switch = Switch(x, goes_on) {T=float}
n_switch = Switch(n, goes_on) {T=int32}
half = Const() ^x_switch {dtype=float, value=float[]{0.5}}
one = Const() ^n_switch {dtype=int32, value=int32[]{1}}
halved = Mul(x_switch:1, half) {T=float}
counted = AddV2(n_switch:1, one) {T=int32}
x_again = NextIteration(halved) {T=float}
n_again = NextIteration(counted) {T=int32}
y = Exit(x_switch) {T=float}
turns = Exit(n_switch) {T=int32}
update = AssignSubVariableOp(v, nine) ^y {dtype=float}
)";

std::unique_ptr<Session> MakeSession(const std::string& strategy, const char* text = kGraph) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  options.seed = 7;
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(OwnResults, ALoopTurnsAsOftenAsItsResultsSay) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const std::unique_ptr<Session> session = MakeSession(strategy), draws = MakeSession(strategy);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    float v = 40;
    for (int step = 0; step < 6; ++step, v -= 9) {
      std::vector<Tensor> got, drawn;
      ASSERT_TRUE(draws->Run({}, {"u:0"}, {}, &drawn).ok());
      const absl::Status ran = session->Run({}, {"y:0", "n:0", "total:0", "u:0"}, {"update"}, &got);
      ASSERT_TRUE(ran.ok()) << ran;
      float y = v + drawn[0].as<float>()[0];
      int turns = 0;
      for (; y > 3; ++turns) y *= 0.5f;
      EXPECT_EQ(got[0].as<float>()[0], y) << strategy << " step " << step;
      EXPECT_EQ(got[1].IntAt(0), turns);
      EXPECT_EQ(got[2].as<float>()[0], step + 1);
      EXPECT_TRUE(got[3].BitEqual(drawn[0])) << "a question drew a number";
    }
  }
}

// Where finding out fails, after it has counted.
TEST(OwnResults, AnErrorOfAQuestionTellsOfNoChange) {
  const std::string checked = absl::StrReplaceAll(
      kGraph, {{"x = AddV2(old, u) {T=float}", "sum = AddV2(old, u) {T=float}\nx = CheckNumerics(sum) {T=float, message=\"x\"}"}});
  const std::unique_ptr<Session> session = MakeSession("planned", checked.c_str());
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(std::numeric_limits<float>::quiet_NaN())).ok());
  const absl::Status failed = session->Run({}, {"y:0", "total:0"}, {"update"}, nullptr);
  EXPECT_TRUE(absl::StrContains(failed.message(), "'x' (CheckNumerics)")) << failed;
  EXPECT_TRUE(absl::EndsWith(failed.message(), "; no variable has changed")) << failed;
  EXPECT_TRUE(session->last_run().changed_variables.empty());
  EXPECT_EQ((*session->Variables())["count"].as<float>()[0], 0);
}

TEST(OwnResults, AFrameTurnsAsOftenAsItsResultsSay) {
  const std::unique_ptr<Session> session = MakeSession("planned", kFrame);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  float v = 40;
  for (int step = 0; step < 6; ++step, v -= 9) {
    std::vector<Tensor> got;
    const absl::Status ran = session->Run({}, {"y:0", "turns:0"}, {"update"}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    float y = v;
    int turns = 0;
    for (; y > 3; ++turns) y *= 0.5f;
    EXPECT_EQ(got[0].as<float>()[0], y) << "step " << step;
    EXPECT_EQ(got[1].IntAt(0), turns);
  }
  EXPECT_EQ((*session->Variables())["v"].as<float>()[0], 40 - 6 * 9);
}

// What x begins as is in a variable that the step gives a value, and that had none before the first.
constexpr char kGivesAValue[] = R"(
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
had = VarIsInitializedOp(w)
forty = Const() {dtype=float, value=float[]{40}}
zero = Const() {dtype=int32, value=int32[]{0}}
scalar = Const() {dtype=int32, value=int32[0]{}}
u = RandomUniform(scalar) {T=int32, dtype=float, seed=3, seed2=5}
some = AddV2(forty, u) {T=float}
set_w = AssignVariableOp(w, some) ^had {dtype=float}
old = ReadVariableOp(w) ^set_w {dtype=float}
x_in = Enter(old) {T=float, frame_name="halve"}
n_in = Enter(zero) {T=int32, frame_name="halve"}
x = Merge(x_in, x_again) {T=float, N=2}
n = Merge(n_in, n_again) {T=int32, N=2}
three = Const() ^x {dtype=float, value=float[]{3}}
more = Greater(x, three) {T=float}
goes_on = LoopCond(more)
x_switch = Switch(x, goes_on) {T=float}
n_switch = Switch(n, goes_on) {T=int32}
half = Const() ^x_switch {dtype=float, value=float[]{0.5}}
one = Const() ^n_switch {dtype=int32, value=int32[]{1}}
halved = Mul(x_switch:1, half) {T=float}
counted = AddV2(n_switch:1, one) {T=int32}
x_again = NextIteration(halved) {T=float}
n_again = NextIteration(counted) {T=int32}
turns = Exit(n_switch) {T=int32}
)";

TEST(OwnResults, AVariableWithoutAValueHasNoneAfterAQuestion) {
  const std::unique_ptr<Session> session = MakeSession("planned", kGivesAValue);
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> got;
    const absl::Status ran = session->Run({}, {"had:0", "turns:0"}, {"set_w"}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(got[0].as<bool>()[0], step > 0);
    EXPECT_EQ(got[1].IntAt(0), 4);
  }
}

// Whether the loop goes on is a constant of the branch that is taken, so that only what the constants wait for says by which feed.
constexpr char kConstants[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  more = _Arg() {T=bool, index=2}
  r = _Retval(more) {T=bool, index=0}
end
function halve
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=int32, index=1}
  more = _Arg() {T=bool, index=2}
  half = Const() {dtype=float, value=float[]{0.5}}
  one = Const() {dtype=int32, value=int32[]{1}}
  three = Const() {dtype=float, value=float[]{3}}
  y = Mul(x, half) {T=float}
  m = AddV2(n, one) {T=int32}
  above = Greater(y, three) {T=float}
  side = Switch(above, above) {T=bool}
  taken = Identity(side:1) {T=bool}
  other = Identity(side) {T=bool}
  yes = Const() ^taken {dtype=bool, value=bool[]{true}}
  no = Const() ^other {dtype=bool, value=bool[]{false}}
  again = Merge(yes, no) {T=bool, N=2}
  r0 = _Retval(y) {T=float, index=0}
  r1 = _Retval(m) {T=int32, index=1}
  r2 = _Retval(again) {T=bool, index=2}
end
x = Placeholder() {dtype=float, shape=shape[]}
none = Const() {dtype=int32, value=int32[]{0}}
yes = Const() {dtype=bool, value=bool[]{true}}
loop = StatelessWhile(x, none, yes) {cond=&goes_on, body=&halve}
n = Identity(loop:1) {T=int32}
)";

TEST(OwnResults, ALoopThatGoesOnByAConstantOfTheBranchTakenTurnsAsItsFeedSays) {
  const std::unique_ptr<Session> session = MakeSession("planned", kConstants);
  for (const auto& [x, turns] : {std::pair(40.0f, 4), std::pair(5.0f, 1), std::pair(100.0f, 6), std::pair(40.0f, 4)}) {
    std::vector<Tensor> got;
    const absl::Status ran = session->Run({{"x", Tensor::Scalar<float>(x)}}, {"n:0"}, {}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(got[0].IntAt(0), turns) << "x = " << x;
  }
}

TEST(OwnResults, BeforeVariablesHaveValuesPlanningSaysWhatItLacks) {
  const std::unique_ptr<Session> session = MakeSession("planned");
  const absl::Status status = session->Plan({}, {"y:0"}, {"update"}).status();
  EXPECT_TRUE(NeedsAnswer(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "node 'loop' (StatelessWhile): the number of its turns")) << status;
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  EXPECT_TRUE(session->Plan({}, {"y:0"}, {"update"}).ok());
}

// In a branch: x is doubled until it exceeds 100, which it never does where it is negative and the branch is not taken. What
// the turns had is kept in a list that only this side of the conditional has, for another conditional as gradients make them.
constexpr char kInBranch[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  kept = _Arg() {T=variant, index=1}
  limit = Const() {dtype=float, value=float[]{100}}
  more = Less(x, limit) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function twice
  x = _Arg() {T=float, index=0}
  kept = _Arg() {T=variant, index=1}
  y = AddV2(x, x) {T=float}
  more = TensorListPushBack(kept, x) {element_dtype=float}
  r0 = _Retval(y) {T=float, index=0}
  r1 = _Retval(more) {T=variant, index=1}
end
function grow
  x = _Arg() {T=float, index=0}
  scalar = Const() {dtype=int32, value=int32[0]{}}
  any = Const() {dtype=int32, value=int32[]{-1}}
  none = EmptyTensorList(scalar, any) {element_dtype=float, shape_type=int32}
  loop = StatelessWhile(x, none) {cond=&goes_on, body=&twice}
  kept = OptionalFromValue(loop:1) {Toutput_types=[variant]}
  r0 = _Retval(loop:0) {T=float, index=0}
  r1 = _Retval(kept) {T=variant, index=1}
end
function stay
  x = _Arg() {T=float, index=0}
  nothing = OptionalNone() {}
  r0 = _Retval(x) {T=float, index=0}
  r1 = _Retval(nothing) {T=variant, index=1}
end
function last
  x = _Arg() {T=float, index=0}
  kept = _Arg() {T=variant, index=1}
  list = OptionalGetValue(kept) {output_types=[variant]}
  scalar = Const() {dtype=int32, value=int32[0]{}}
  item = TensorListPopBack(list, scalar) {element_dtype=float}
  r = _Retval(item:1) {T=float, index=0}
end
function first
  x = _Arg() {T=float, index=0}
  kept = _Arg() {T=variant, index=1}
  r = _Retval(x) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[]}
zero = Const() {dtype=float, value=float[]{0}}
p = Greater(x, zero) {T=float}
c = If(p, x) {Tcond=bool, Tout=[float, variant], then_branch=&grow, else_branch=&stay}
y = Identity(c:0) {T=float}
d = If(p, x, c:1) {Tcond=bool, then_branch=&last, else_branch=&first}
)";

TEST(OwnResults, ALoopInABranchThatIsNotTakenTakesNoTurn) {
  absl::StatusOr<Graph> graph = ParseGraphText(kInBranch);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](float x) -> absl::StatusOr<float> {
    std::vector<Tensor> fetched;
    const absl::Status status = (*session)->Run({{"x", Tensor::Scalar<float>(x)}}, {"y:0"}, {}, &fetched);
    if (!status.ok()) return status;
    return fetched[0].as<float>()[0];
  };
  for (const auto& [x, y] : {std::pair(-1.0f, -1.0f), {3.0f, 192.0f}, {-7.0f, -7.0f}, {60.0f, 120.0f}}) {
    const auto found = run(x);
    ASSERT_TRUE(found.ok()) << x << ": " << found.status();
    EXPECT_EQ(*found, y);
  }
}

TEST(OwnResults, AListOfOneSideOfAConditionalIsThereForTheSameSideOfAnother) {
  absl::StatusOr<Graph> graph = ParseGraphText(kInBranch);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> fetched;
  const absl::Status status = (*session)->Run({{"x", Tensor::Scalar<float>(3)}}, {"d:0"}, {}, &fetched);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(fetched[0].as<float>()[0], 96);
}

// A loop of so many turns; one that is run beyond its end fails where `fails` is set.
class FakeLoop {
 public:
  explicit FakeLoop(int turns, bool fails = false) : turns_(turns), fails_(fails) {}

  absl::Status Find(Answers& answers) {
    runs = 0;
    return FindAnswers([this](const Answers& so_far, int64_t guesses) { return Ask(so_far, guesses); }, answers);
  }

  int runs = 0;

 private:
  absl::StatusOr<Asked> Ask(const Answers& so_far, int64_t guesses) {
    ++runs;
    Asked asked;
    for (int turn = 0;; ++turn) {
      const std::string name = absl::StrCat("turn_", turn);
      asked.questions.push_back(name);
      asked.answers.push_back(Tensor::Scalar<bool>(turn < turns_));
      if (fails_ && turn > turns_) return absl::InvalidArgumentError("there is no such turn");
      const auto answer = so_far.find(name);
      if (answer == so_far.end() && guesses-- <= 0) {
        asked.stopped = true;
        return asked;
      }
      if (answer != so_far.end() && answer->second.IntAt(0) == 0) return asked;
    }
  }

  const int turns_;
  const bool fails_;
};

TEST(FindAnswers, AsksUntilTheLoopEnds) {
  for (bool fails : {false, true}) {
    for (int turns : {0, 1, 2, 5, 40}) {
      Answers answers;
      FakeLoop loop(turns, fails);
      ASSERT_TRUE(loop.Find(answers).ok());
      EXPECT_EQ(answers.size(), turns + 1);
      EXPECT_EQ(answers[absl::StrCat("turn_", turns)].IntAt(0), 0);
      ASSERT_TRUE(loop.Find(answers).ok());
      EXPECT_EQ(loop.runs, 1) << "the answers of the step before hold";
    }
  }
}

TEST(FindAnswers, RunsGrowWithTheLoop) {
  Answers answers;
  FakeLoop loop(3000, false);
  ASSERT_TRUE(loop.Find(answers).ok());
  EXPECT_EQ(answers.size(), 3001);
  EXPECT_LE(loop.runs, 14);
}

// A step that asks for sizes, one behind the other in its graph. What is guessed is one; `follow`: each size is that before it
// and 10 more, and where what it follows from is wrong a run may fail.
class FakeSizes {
 public:
  FakeSizes(int sizes, int first, bool follow, bool fails) : sizes_(sizes), first_(first), follow_(follow), fails_(fails) {}

  int64_t Right(int i) const { return first_ + 10 * i; }

  absl::Status Find(Answers& answers) {
    runs = 0;
    return FindAnswers([this](const Answers& told, int64_t guesses) { return Ask(told, guesses); }, answers);
  }

  int runs = 0;

 private:
  absl::StatusOr<Asked> Ask(const Answers& told, int64_t guesses) {
    ++runs;
    Asked asked;
    int64_t before = first_ - 10;  // as taken, right or wrong
    for (int i = 0; i < sizes_; ++i) {
      const std::string name = absl::StrCat("size_", i);
      const auto answer = told.find(name);
      const int64_t found = follow_ ? before + 10 : Right(i);
      if (fails_ && found != Right(i)) return absl::OutOfRangeError("rows that are not there");
      asked.questions.push_back(name);
      asked.answers.push_back(Tensor::Scalar<int64_t>(found));
      if (answer == told.end() && guesses-- <= 0) {
        asked.stopped = true;
        return asked;
      }
      before = answer == told.end() ? 1 : answer->second.IntAt(0);
    }
    return asked;
  }

  const int sizes_, first_;
  const bool follow_, fails_;
};

TEST(FindAnswers, SizesThatFollowFromNoOtherAreFoundTogether) {
  Answers answers;
  FakeSizes step(500, 3, false, false), next(500, 4, false, false);
  ASSERT_TRUE(step.Find(answers).ok());
  EXPECT_LE(step.runs, 12);
  ASSERT_TRUE(next.Find(answers).ok());
  EXPECT_EQ(next.runs, 2) << "one that finds them all, one that confirms them";
  ASSERT_EQ(answers.size(), 500);
  for (int i : {0, 1, 499}) EXPECT_EQ(answers[absl::StrCat("size_", i)].IntAt(0), next.Right(i));
}

TEST(FindAnswers, SizesThatFollowFromEachOtherAreFoundOneByOne) {
  for (bool fails : {false, true}) {
    Answers answers;
    for (int first : {3, 5}) {
      FakeSizes step(100, first, true, fails);
      ASSERT_TRUE(step.Find(answers).ok());
      EXPECT_LE(step.runs, fails ? 125 : 102) << first;
      ASSERT_EQ(answers.size(), 100);
      for (int i : {0, 1, 99}) EXPECT_EQ(answers[absl::StrCat("size_", i)].IntAt(0), step.Right(i));
    }
  }
}

TEST(FindAnswers, AnInterruptEndsAsking) {
  Answers answers;
  int runs = 0;
  const absl::Status status = FindAnswers([&](const Answers&, int64_t) -> absl::StatusOr<Asked> {
    ++runs;
    return absl::CancelledError("planning was interrupted");
  }, answers);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(runs, 1);
}

TEST(OwnResults, AnInterruptEndsPlanning) {
  absl::StatusOr<Graph> graph = ParseGraphText(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  bool interrupted = false;
  options.cancelled = [&] { return interrupted; };
  const auto session = OpenSession(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  interrupted = true;
  for (const char* fetch : {"y:0", "total:0"}) {
    const absl::Status status = (*session)->Run({}, {fetch}, {}, nullptr);
    EXPECT_TRUE(absl::IsCancelled(status)) << fetch << ": " << status;
  }
  interrupted = false;
  EXPECT_TRUE((*session)->Run({}, {"y:0"}, {}, nullptr).ok());
}

TEST(FindAnswers, AnswersOfAnotherStepAreOnlyGuesses) {
  Answers answers;
  ASSERT_TRUE(FakeLoop(9).Find(answers).ok());
  for (int turns : {4, 12, 0}) {
    ASSERT_TRUE(FakeLoop(turns, true).Find(answers).ok());
    EXPECT_EQ(answers.size(), turns + 1);
  }
}

// Both sides of conditionals may be too many nodes, and those that are taken few enough; no form of the graph is smaller than that one.
TEST(OwnResults, ALoopOfTooManyTurnsIsRefusedAtOnce) {
  const std::string text = R"(
function less
  i = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  many = Const() {dtype=int32, value=int32[]{1000}}
  less = Less(i, many) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function turn
  i = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  zero = Const() {dtype=float, value=float[]{0}}
  positive = Less(zero, x) {T=float}
  switch = Switch(x, positive) {T=float}
  other = Neg(switch:0) {T=float}
  taken = Tanh(switch:1) {T=float}
  merged = Merge(other, taken) {T=float, N=2}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(merged) {T=float, index=1}
end
x = Placeholder() {dtype=float, shape=shape[]}
zero = Const() {dtype=int32, value=int32[]{0}}
loop = StatelessWhile(zero, x) {cond=&less, body=&turn}
y = Identity(loop:1) {T=float}
)";
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.max_unrolled_nodes = 500;
  const auto session = OpenSession(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Plan({{"x", {DataType::kFloat, Shape({})}}}, {"y:0"}, {}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "its loop makes the graph larger than 500 nodes")) << status;
  for (const PassTime& pass : (*session)->last_run().passes) {
    EXPECT_LE(pass.runs, 2) << pass.name;
  }
}

}  // namespace
}  // namespace millrace
