// Loops that end by the step's own results: what they come to is asked of the same variables and random numbers first, and
// nothing of that stays.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "passes/unroll/questions.h"
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

// Two loops: how often the second turns, the first one's result says. Each count of turns is a plan, which stays.
TEST(OwnResults, PlansOfManyCountsOfTurnsAreKept) {
  const std::string text = absl::StrReplaceAll(
      kGraph, {{"update = Assign", "again = AddV2(y, forty) {T=float}\nsecond = StatelessWhile(again, n) {cond=&goes_on, body=&halve}\n"
                                   "m = Identity(second:1) {T=int32}\nupdate = Assign"}});
  for (const std::string& graph : {std::string(kGraph), text}) {
    const std::string fetch = graph == kGraph ? "n:0" : "m:0";
    const std::unique_ptr<Session> session = MakeSession("baseline", graph.c_str());
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    std::map<int, std::shared_ptr<const ExecutionPlan>> plans;
    for (int round : {0, 1}) {
      for (int turns : {3, 12, 5, 1, 9, 4, 11, 7, 2, 10, 6, 8}) {
        ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(std::ldexp(2.2f, turns))).ok());
        std::vector<Tensor> got;
        const absl::Status ran = session->Run({}, {fetch}, {}, &got);
        ASSERT_TRUE(ran.ok()) << ran;
        EXPECT_EQ(got[0].IntAt(0), graph == kGraph ? turns : turns + 4);
        if (round == 0) plans[turns] = session->last_run().plan;
        EXPECT_EQ(session->last_run().plan, plans[turns]) << turns;
      }
    }
  }
}

// The answers are asked for anew then, and may be those of a plan that is there.
TEST(OwnResults, APlanIsKeptOverAStepThatFails) {
  const std::string checked = absl::StrReplaceAll(
      kGraph, {{"x = AddV2(old, u) {T=float}", "sum = AddV2(old, u) {T=float}\nx = CheckNumerics(sum) {T=float, message=\"x\"}"}});
  const std::unique_ptr<Session> session = MakeSession("planned", checked.c_str());
  const auto run = [&](float v) {
    EXPECT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(v)).ok());
    return session->Run({}, {"n:0"}, {}, nullptr);
  };
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  ASSERT_TRUE(run(40).ok());
  const std::shared_ptr<const ExecutionPlan> plan = session->last_run().plan;
  EXPECT_FALSE(run(std::numeric_limits<float>::quiet_NaN()).ok());
  ASSERT_TRUE(run(40).ok());
  EXPECT_EQ(session->last_run().plan, plan);
}

int64_t ThreadsHere() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

TEST(OwnResults, PlansThatAreKeptDoNotAllKeepThreads) {
  const std::unique_ptr<Session> session = MakeSession("tensorflowmem");
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  int64_t threads = 0;
  for (int turns = 20; turns > 6; --turns) {
    ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(std::ldexp(2.2f, turns))).ok());
    std::vector<Tensor> got;
    const absl::Status ran = session->Run({}, {"n:0"}, {}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(got[0].IntAt(0), turns);
    if (turns == 13) threads = ThreadsHere();
  }
  EXPECT_LE(ThreadsHere(), threads) << "of eight plans";
}

TEST(OwnResults, ALoopMayHaveANameOfSeveralLines) {
  absl::StatusOr<Graph> graph = ParseGraphText(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph->Rename(graph->Find("loop"), "a\nloop");
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> got;
    const absl::Status ran = (*session)->Run({}, {"n:0"}, {}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(got[0].IntAt(0), 4);
  }
}

// x is put behind itself while its sum is less than v: 9 turns fit, and 16 do not.
constexpr char kDoubled[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  v = _Arg() {T=float, index=1}
  all = Const() {dtype=int32, value=int32[1]{0}}
  sum = Sum(x, all) {T=float, Tidx=int32, keep_dims=false}
  more = Less(sum, v) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function double
  x = _Arg() {T=float, index=0}
  v = _Arg() {T=float, index=1}
  axis = Const() {dtype=int32, value=int32[]{0}}
  y = ConcatV2(x, x, axis) {T=float, N=2, Tidx=int32}
  r0 = _Retval(y) {T=float, index=0}
  r1 = _Retval(v) {T=float, index=1}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
limit = ReadVariableOp(v) {dtype=float}
x = Placeholder() {dtype=float, shape=shape[1]}
loop = StatelessWhile(x, limit) {cond=&goes_on, body=&double}
y = Identity(loop:0) {T=float}
)";

TEST(OwnResults, AGraphThatCouldNotBeMadeToAskIsNotMadeAgain) {
  absl::StatusOr<Graph> graph = ParseGraphText(kDoubled);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = "baseline";
  options.machine.device_memory_bytes = 64 * 1024;
  int runs = 0;  // that ask, and more where a graph is made
  options.cancelled = [&] { return ++runs == 0; };
  const auto session = OpenSession(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetVariable("v", Tensor::Scalar<float>(512)).ok());
  for (int step = 0; step < 3; ++step) {
    runs = 0;
    std::vector<Tensor> got;
    const absl::Status ran = (*session)->Run({{"x", Tensor::Vector<float>({1})}}, {"y:0"}, {}, &got);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(got[0].num_elements(), 512);
  }
  EXPECT_EQ(runs, 1);
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
