// Writes of variables that only order says are needed: every turn's of a loop of TensorFlow 1, those before a condition, those
// behind a constant; and writes of what is being read. Expected values are TensorFlow's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using ::testing::ElementsAre;

// The fetch `y` after each of `steps` steps that follow target `init`, x being fed.
std::vector<float> ValuesOf(const std::string& text, const Tensor& x, int steps, const std::string& strategy = "planned",
                            const std::vector<std::string>& targets = {}) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  auto session = OpenSession(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  const absl::Status initialised = (*session)->Run({}, {}, {"init"}, nullptr);
  EXPECT_TRUE(initialised.ok()) << initialised;
  std::vector<float> values;
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor> fetched;
    const absl::Status ran = (*session)->Run({{"x", x}}, {"y:0"}, targets, &fetched);
    EXPECT_TRUE(ran.ok()) << ran;
    if (!ran.ok()) return values;
    values.insert(values.end(), fetched[0].as<float>().begin(), fetched[0].as<float>().end());
  }
  return values;
}

// `with control_dependencies([assign_add(v, x)]): return i + 1`, three turns; LATER is what reads v waits for.
constexpr char kCounter[] = R"(
x = Placeholder() {dtype=float, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
start = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(v, start) {dtype=float}
zero = Const() {dtype=int32, value=int32[]{0}}
i_in = Enter(zero) {T=int32, frame_name="loop"}
x_in = Enter(x) {T=float, frame_name="loop", is_constant=true}
v_in = Enter(v) {T=resource, frame_name="loop", is_constant=true}
i = Merge(i_in, i_again) {T=int32, N=2}
three = Const() ^i {dtype=int32, value=int32[]{3}}
less = Less(i, three) {T=int32}
goes_on = LoopCond(less)
i_switch = Switch(i, goes_on) {T=int32}
taken = Identity(i_switch:1) {T=int32}
add = AssignAddVariableOp(v_in, x_in) ^taken {dtype=float}
one = Const() ^taken {dtype=int32, value=int32[]{1}}
next = AddV2(taken, one) WAITS {T=int32}
i_again = NextIteration(next) {T=int32}
i_out = Exit(i_switch) {T=int32}
read = ReadVariableOp(v) ^i_out {dtype=float}
y = Identity(read) {T=float}
)";

TEST(Effects, OfEveryTurnComeBeforeWhatWaitsForItsCounter) {
  const std::string text = absl::StrReplaceAll(kCounter, {{"WAITS", "^add"}});
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    EXPECT_THAT(ValuesOf(text, Tensor::Scalar(2.0f), 2, strategy), ElementsAre(7, 13)) << strategy;
  }
}

// What is read of a reference is its memory, when y is computed: after the write that the constant waits for behind another node.
TEST(Effects, OfAReferenceAreWhatConstantsBehindThemSee) {
  constexpr char kBehind[] = R"(
x = Placeholder() {dtype=float, shape=shape[]}
v = VariableV2() {dtype=float, shape=shape[]}
start = Const() {dtype=float, value=float[]{1}}
init = Assign(v, start) {T=float}
zero = Const() {dtype=int32, value=int32[]{0}}
none = Const() {dtype=float, value=float[]{0}}
i_in = Enter(zero) {T=int32, frame_name="loop"}
s_in = Enter(none) {T=float, frame_name="loop"}
x_in = Enter(x) {T=float, frame_name="loop", is_constant=true}
v_in = RefEnter(v) {T=float, frame_name="loop", is_constant=true}
i = Merge(i_in, i_again) {T=int32, N=2}
s = Merge(s_in, s_again) {T=float, N=2}
two = Const() ^i {dtype=int32, value=int32[]{2}}
less = Less(i, two) {T=int32}
goes_on = LoopCond(less)
i_switch = Switch(i, goes_on) {T=int32}
s_switch = Switch(s, goes_on) {T=float}
taken = Identity(i_switch:1) {T=int32}
sum = Identity(s_switch:1) {T=float}
one = Const() ^taken {dtype=int32, value=int32[]{1}}
next = AddV2(taken, one) {T=int32}
old = Identity(v_in) ^taken {T=float}
up = AssignAdd(v_in, x_in) ^old {T=float}
later = Tanh(sum) ^up {T=float}
factor = Const() ^later {dtype=float, value=float[]{2}}
part = Mul(factor, old) {T=float}
more = AddV2(sum, part) {T=float}
i_again = NextIteration(next) {T=int32}
s_again = NextIteration(more) {T=float}
s_out = Exit(s_switch) {T=float}
y = Identity(s_out) {T=float}
)";
  for (const char* strategy : {"baseline", "planned"}) {
    EXPECT_THAT(ValuesOf(kBehind, Tensor::Scalar(0.5f), 2, strategy), ElementsAre(7, 11)) << strategy;
  }
}

// One step of gradient descent a turn, on (v - x)^2; what the loop carries is the loss, which no later turn needs.
constexpr char kDescent[] = R"(
x = Placeholder() {dtype=float, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
start = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(v, start) {dtype=float}
zero = Const() {dtype=int32, value=int32[]{0}}
none = Const() {dtype=float, value=float[]{0}}
i_in = Enter(zero) {T=int32, frame_name="loop"}
l_in = Enter(none) {T=float, frame_name="loop"}
x_in = Enter(x) {T=float, frame_name="loop", is_constant=true}
v_in = Enter(v) {T=resource, frame_name="loop", is_constant=true}
i = Merge(i_in, i_again) {T=int32, N=2}
l = Merge(l_in, l_again) {T=float, N=2}
three = Const() ^i {dtype=int32, value=int32[]{3}}
less = Less(i, three) {T=int32}
goes_on = LoopCond(less)
i_switch = Switch(i, goes_on) {T=int32}
l_switch = Switch(l, goes_on) {T=float}
taken = Identity(i_switch:1) {T=int32}
one = Const() ^taken {dtype=int32, value=int32[]{1}}
half = Const() ^taken {dtype=float, value=float[]{0.5}}
next = AddV2(taken, one) {T=int32}
before = ReadVariableOp(v_in) ^taken {dtype=float}
difference = Sub(before, x_in) {T=float}
loss = Mul(difference, difference) {T=float}
step = Mul(difference, half) {T=float}
update = AssignSubVariableOp(v_in, step) {dtype=float}
carried = Identity(loss) ^update {T=float}
i_again = NextIteration(next) {T=int32}
l_again = NextIteration(carried) {T=float}
l_out = Exit(l_switch) {T=float}
y = Identity(l_out) {T=float}
)";

TEST(Effects, OfEveryTurnHappenThoughOnlyTheLastTurnsValueIsTaken) {
  // Differences from x = 3: -2, -1, -1/2 in the first step; -1/4, -1/8, -1/16 in the second.
  for (const char* strategy : {"baseline", "planned"}) {
    EXPECT_THAT(ValuesOf(kDescent, Tensor::Scalar(3.0f), 2, strategy), ElementsAre(0.25f, 1.0f / 256)) << strategy;
  }
}

TEST(Effects, OfATurnAreFoundByTheNextThoughAReferenceWasReadBeforeTheLoop) {
  // The same of a reference variable: what is read of it is its memory, in every turn.
  const std::string text = absl::StrReplaceAll(kDescent, {{"VarHandleOp() {dtype=float, shape=shape[], shared_name=\"v\"}",
                                                           "VariableV2() {dtype=float, shape=shape[]}"},
                                                          {"AssignVariableOp(v, start) {dtype=float}", "Assign(v, start) {T=float}"},
                                                          {"v_in = Enter(v) {T=resource,", "outside = Identity(v) {T=float}\nr_in = Enter(outside) {T=float, frame_name=\"loop\", is_constant=true}\nv_in = RefEnter(v) {T=float,"},
                                                          {"ReadVariableOp(v_in) ^taken {dtype=float}", "Identity(r_in) ^taken {T=float}"},
                                                          {"AssignSubVariableOp(v_in, step) {dtype=float}", "AssignSub(v_in, step) {T=float}"}});
  EXPECT_THAT(ValuesOf(text, Tensor::Scalar(3.0f), 2), ElementsAre(0.25f, 1.0f / 256));
}

TEST(Effects, OfACondition) {
  // The condition counts how often it is asked: four times for three turns.
  const std::string text = R"(
function ask ^count
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  one = Const() {dtype=float, value=float[]{1}}
  count = AssignAddVariableOp(v, one) {dtype=float}
  three = Const() {dtype=int32, value=int32[]{3}}
  less = Less(i, three) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function turn
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(v) {T=resource, index=1}
end
x = Placeholder() {dtype=float, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
start = Const() {dtype=float, value=float[]{0}}
init = AssignVariableOp(v, start) {dtype=float}
zero = Const() {dtype=int32, value=int32[]{0}}
loop = While(zero, v) {cond=&ask, body=&turn, T=[int32, resource]}
read = ReadVariableOp(v) ^loop {dtype=float}
y = AddV2(read, x) {T=float}
)";
  EXPECT_THAT(ValuesOf(text, Tensor::Scalar(0.0f), 2), ElementsAre(4, 8));
}

TEST(Effects, OfACarriedValueHappenInEveryTurnWhereItIsNeededAndElseInNone) {
  // As TensorFlow 1 makes functions: none says what it does. Three turns count in v, or in w where the value is positive.
  const std::string text = R"(
function ask
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  w = _Arg() {T=resource, index=2}
  a = _Arg() {T=float, index=3}
  c = _Arg() {T=float, index=4}
  d = _Arg() {T=float, index=5}
  three = Const() {dtype=int32, value=int32[]{3}}
  less = Less(i, three) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function turn
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  w = _Arg() {T=resource, index=2}
  a = _Arg() {T=float, index=3}
  c = _Arg() {T=float, index=4}
  d = _Arg() {T=float, index=5}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  more = Const() {dtype=float, value=float[]{1}}
  count = AssignAddVariableOp(v, more) {dtype=float}
  counted = ReadVariableOp(v) ^count {dtype=float}
  zero = Const() {dtype=float, value=float[]{0}}
  positive = Less(zero, a) {T=float}
  switch = Switch(w, positive) {T=resource}
  count_w = AssignAddVariableOp(switch:1, more) {dtype=float}
  counted_w = ReadVariableOp(switch:1) ^count_w {dtype=float}
  old = Switch(d, positive) {T=float}
  merged = Merge(old, counted_w) {T=float, N=2}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(v) {T=resource, index=1}
  r2 = _Retval(w) {T=resource, index=2}
  r3 = _Retval(a) {T=float, index=3}
  r4 = _Retval(counted) {T=float, index=4}
  r5 = _Retval(merged) {T=float, index=5}
end
x = Placeholder() {dtype=float, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
start = Const() {dtype=float, value=float[]{0}}
init_v = AssignVariableOp(v, start) {dtype=float}
init = AssignVariableOp(w, start) ^init_v {dtype=float}
before = ReadVariableOp(v) {dtype=float}
before_w = ReadVariableOp(w) {dtype=float}
zero = Const() {dtype=int32, value=int32[]{0}}
loop = While(zero, v, w, x, start, start) ^before ^before_w {cond=&ask, body=&turn, T=[int32, resource, resource, float, float, float]}
y = RESULT {T=float}
)";
  const auto of = [&](const char* result, float x) { return ValuesOf(absl::StrReplaceAll(text, {{"RESULT", result}}), Tensor::Scalar(x), 3); };
  EXPECT_THAT(of("Identity(loop:4)", 1), ElementsAre(3, 6, 9));
  EXPECT_THAT(of("Identity(loop:5)", 1), ElementsAre(3, 6, 9));
  EXPECT_THAT(of("Identity(loop:5)", -1), ElementsAre(0, 0, 0));
  // By nothing that is needed.
  EXPECT_THAT(of("AddV2(loop:3, before)", 1), ElementsAre(1, 1, 1));
  EXPECT_THAT(of("AddV2(loop:4, before_w)", 1), ElementsAre(3, 6, 9));
  EXPECT_THAT(of("AddV2(loop:5, before)", 1), ElementsAre(3, 6, 9));
  // By waiting for the loop.
  EXPECT_THAT(of("AddV2(before_w, before) ^loop", 1), ElementsAre(0, 6, 12));
  // As a target, by its name or an output's.
  for (const char* target : {"loop", "loop:0"}) {
    const std::string unread = absl::StrReplaceAll(text, {{"RESULT", "AddV2(before_w, before)"}});
    EXPECT_THAT(ValuesOf(unread, Tensor::Scalar(1.0f), 3, "planned", {target}), ElementsAre(0, 6, 12)) << target;
  }
  // By way of a second loop, which passes the count on; and what the first one's turns put aside has been counted before it.
  const std::string second = absl::StrReplaceAll(text, {{"y = RESULT", R"(function short
  i = _Arg() {T=int32, index=0}
  a = _Arg() {T=float, index=1}
  c = _Arg() {T=float, index=2}
  two = Const() {dtype=int32, value=int32[]{2}}
  less = Less(i, two) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function pass
  i = _Arg() {T=int32, index=0}
  a = _Arg() {T=float, index=1}
  c = _Arg() {T=float, index=2}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  opposite = Neg(a) {T=float}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(opposite) {T=float, index=1}
  r2 = _Retval(c) {T=float, index=2}
end
again = While(zero, loop:3, loop:4) {cond=&short, body=&pass, T=[int32, float, float]}
y = RESULT)"}, {"While(zero, v, w, x, start, start) ^before ^before_w", "While(zero, v, w, x, counted_before, start) ^before"},
                                                      {"zero = Const() {dtype=int32, value=int32[]{0}}\nloop", R"(hundred = Const() {dtype=float, value=float[]{100}}
count_before = AssignAddVariableOp(w, hundred) ^before_w {dtype=float}
counted_before = ReadVariableOp(w) ^count_before {dtype=float}
zero = Const() {dtype=int32, value=int32[]{0}}
loop)"}});
  const auto of_both = [&](const char* result) { return ValuesOf(absl::StrReplaceAll(second, {{"RESULT", result}}), Tensor::Scalar(1.0f), 3); };
  EXPECT_THAT(of_both("AddV2(again:1, before)"), ElementsAre(1, 1, 1));
  EXPECT_THAT(of_both("AddV2(again:1, before_w)"), ElementsAre(1, 1, 1));
  EXPECT_THAT(of_both("Identity(again:2)"), ElementsAre(3, 6, 9));
  EXPECT_THAT(of_both("AddV2(again:2, before_w)"), ElementsAre(3, 106, 209));
}

// A loop that doubles x as often as `k` says.
constexpr char kDoubles[] = R"(
function less
  i = _Arg() {T=int32, index=0}
  k = _Arg() {T=int32, index=1}
  a = _Arg() {T=float, index=2}
  less = Less(i, k) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function turn
  i = _Arg() {T=int32, index=0}
  k = _Arg() {T=int32, index=1}
  a = _Arg() {T=float, index=2}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  twice = AddV2(a, a) {T=float}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(k) {T=int32, index=1}
  r2 = _Retval(twice) {T=float, index=2}
end
x = Placeholder() {dtype=float, shape=shape[]}
n = VarHandleOp() {dtype=int32, shape=shape[], shared_name="n"}
zero = Const() {dtype=int32, value=int32[]{0}}
one = Const() {dtype=int32, value=int32[]{1}}
five = Const() {dtype=int32, value=int32[]{5}}
scalar = Const() {dtype=int32, value=int32[0]{}}
init = AssignVariableOp(n, zero) {dtype=int32}
count = AssignAddVariableOp(n, one) {dtype=int32}
k = KIND
loop = While(zero, k, x) {cond=&less, body=&turn, T=[int32, int32, float]}
y = Identity(loop:2) {T=float}
)";

TEST(Effects, OfWhatSaysHowManyTurnsALoopTakes) {
  // The answer takes the place of the assignment's result, not of the assignment.
  const std::string text = absl::StrReplaceAll(kDoubles, {{"KIND", "ReadVariableOp(n) ^count {dtype=int32}"}});
  for (const char* strategy : {"baseline", "planned"}) EXPECT_THAT(ValuesOf(text, Tensor::Scalar(1.0f), 3, strategy), ElementsAre(2, 4, 8)) << strategy;
}

TEST(Effects, ADrawThatSaysHowManyTurnsALoopTakesIsDrawnInEveryStep) {
  const std::string text = absl::StrReplaceAll(kDoubles, {{"KIND", "RandomUniformInt(scalar, zero, five) {Tout=int32, T=int32, seed=7, seed2=3}"}});
  const std::string drawn = absl::StrReplaceAll(text, {{"y = Identity(loop:2) {T=float}", "y = Cast(k) {SrcT=int32, DstT=float}"}});
  std::vector<float> expected = ValuesOf(drawn, Tensor::Scalar(1.0f), 6);
  for (float& value : expected) value = std::exp2(value);
  EXPECT_EQ(ValuesOf(text, Tensor::Scalar(1.0f), 6), expected);
  EXPECT_NE(expected, std::vector<float>(6, expected[0]));
  // On the side of a predicate that holds.
  const std::string side = absl::StrReplaceAll(text, {{"k = RandomUniformInt(scalar, zero, five)",
                                                       "nothing = Const() {dtype=float, value=float[]{0}}\nholds = Less(nothing, x) {T=float}\n"
                                                       "switch = Switch(x, holds) {T=float}\npivot = Identity(switch:1) {T=float}\n"
                                                       "k = RandomUniformInt(scalar, zero, five) ^pivot"},
                                                      {"While(zero, k, x)", "While(zero, k, switch:1)"},
                                                      {"y = Identity(loop:2) {T=float}", "y = Merge(switch, loop:2) {T=float, N=2}"}});
  EXPECT_EQ(ValuesOf(side, Tensor::Scalar(1.0f), 6), expected);
  EXPECT_EQ(ValuesOf(side, Tensor::Scalar(-1.0f), 2), std::vector<float>(2, -1));
}

// A turn's draw is for the next one; the last one's is for nobody, unless it is fetched.
TEST(Effects, TheLastTurnDrawsThoughNobodyReadsIt) {
  const std::string text = R"(
function less
  i = _Arg() {T=int32, index=0}
  a = _Arg() {T=float, index=1}
  u = _Arg() {T=float, index=2}
  three = Const() {dtype=int32, value=int32[]{3}}
  less = Less(i, three) {T=int32}
  r = _Retval(less) {T=bool, index=0}
end
function turn
  i = _Arg() {T=int32, index=0}
  a = _Arg() {T=float, index=1}
  u = _Arg() {T=float, index=2}
  one = Const() {dtype=int32, value=int32[]{1}}
  scalar = Const() {dtype=int32, value=int32[0]{}}
  next = AddV2(i, one) {T=int32}
  sum = AddV2(a, u) {T=float}
  draw = RandomUniform(scalar) ^sum {T=int32, dtype=float, seed=6, seed2=2}
  r0 = _Retval(next) {T=int32, index=0}
  r1 = _Retval(sum) {T=float, index=1}
  r2 = _Retval(draw) {T=float, index=2}
end
x = Placeholder() {dtype=float, shape=shape[]}
init = NoOp()
zero = Const() {dtype=int32, value=int32[]{0}}
loop = While(zero, x, x) {cond=&less, body=&turn, T=[int32, float, float]}
none = Const() {dtype=float, value=float[]{0}}
last = Mul(loop:2, none) {T=float}
y = AddV2(loop:1, LAST) {T=float}
)";
  const Tensor x = Tensor::Scalar(0.0f);
  EXPECT_EQ(ValuesOf(absl::StrReplaceAll(text, {{"LAST", "none"}}), x, 3), ValuesOf(absl::StrReplaceAll(text, {{"LAST", "last"}}), x, 3));
}

// What is read waits for a constant that was computed from what was written.
// As tf.Session does it: the value that is fed replaces what the node makes, and what waits for the node still has it run. A
// placeholder has nothing to run.
TEST(Effects, OfANodeThatIsFedHappenWhereOthersWaitForIt) {
  const auto session = OpenSession(*ParseGraphText(R"(
v = VariableV2() {dtype=float, shape=shape[]}
two = Const() {dtype=float, value=float[]{2}}
init = Assign(v, two) {T=float}
add = AssignAdd(v, two) {T=float}
p = Placeholder() {dtype=float, shape=shape[]}
twice = Add(add, add) ^p {T=float}
y = Identity(twice) ^add {T=float}
)"));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  for (const auto& [fetch, after] : std::vector<std::pair<std::string, float>>{{"twice", 2}, {"y", 4}}) {
    const absl::Status status = (*session)->Run({{"add", Tensor::Scalar<float>(7)}, {"p", Tensor::Scalar<float>(0)}}, {fetch}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].as<float>()[0], 14);
    ASSERT_TRUE((*session)->Run({}, {"v"}, {}, &out).ok());
    EXPECT_EQ(out[0].as<float>()[0], after);
  }
}

TEST(Effects, OfVariablesWithoutElementsAreKept) {
  const auto session = OpenSession(*ParseGraphText(R"(
v = VarHandleOp() {dtype=float, shape=shape[0,2], shared_name="v"}
none = Const() {dtype=float, value=float[0,2]{}}
init = AssignVariableOp(v, none) {dtype=float}
read = ReadVariableOp(v) {dtype=float}
)"));
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  EXPECT_EQ((*session)->Variables()->count("v"), 0);
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  const absl::Status status = (*session)->Run({}, {"read"}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*session)->Variables()->count("v"), 1);
}

TEST(Effects, BehindWhatIsKnownWithoutThem) {
  const std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
v = VariableV2() {dtype=float, shape=shape[2]}
start = Const() {dtype=float, value=float[2]{1, 2}}
init = Assign(v, start) {T=float}
add = AssignAdd(v, x) {T=float}
exp = Exp(add) {T=float}
shape = Shape(exp) {T=float}
read = Identity(v) ^shape {T=float}
y = Neg(read) {T=float}
)";
  EXPECT_THAT(ValuesOf(text, Tensor::Vector<float>({1, 1}), 2), ElementsAre(-2, -3, -3, -4));
}

TEST(Effects, ABranchThatTurnsItsOwnPredicateOverIsTakenWhole) {
  // The first step sets the flag, then w to ten times x; others give x and 1.
  const std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[]}
flag = VariableV2() {dtype=bool, shape=shape[]}
w = VariableV2() {dtype=float, shape=shape[]}
no = Const() {dtype=bool, value=bool[]{false}}
yes = Const() {dtype=bool, value=bool[]{true}}
start = Const() {dtype=float, value=float[]{0}}
set_flag = Assign(flag, no) {T=bool}
set_w = Assign(w, start) {T=float}
init = NoOp() ^set_flag ^set_w
one = Const() {dtype=float, value=float[]{1}}
ten = Const() {dtype=float, value=float[]{10}}
read = Identity(flag) {T=bool}
p = Identity(read) {T=bool}
pivot = Switch(p, p) {T=bool}
x_switch = Switch(x, p) {T=float}
first = Identity(pivot) {T=bool}
now = Assign(flag, yes) ^first {T=bool}
times = Mul(x_switch, ten) {T=float}
keep = Assign(w, times) ^now {T=float}
done = Identity(times) ^keep {T=float}
later = AddV2(x_switch:1, one) {T=float}
merge = Merge(done, later) {T=float, N=2}
w_now = Identity(w) ^merge {T=float}
y = Pack(merge, w_now) {T=float, N=2}
)";
  EXPECT_THAT(ValuesOf(text, Tensor::Scalar(2.0f), 2), ElementsAre(20, 20, 3, 20));
}

TEST(Effects, RowsThatAreWrittenFromTheVariableItselfAreThoseOfBefore) {
  const std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[]}
v = VarHandleOp() {dtype=float, shape=shape[4, 2], shared_name="v"}
start = Const() {dtype=float, value=float[4,2]{0, 1, 2, 3, 4, 5, 6, 7}}
init = AssignVariableOp(v, start) {dtype=float}
rows = Const() {dtype=int32, value=int32[4]{1, 2, 3, 0}}
old = ReadVariableOp(v) {dtype=float}
scatter = ResourceScatterUpdate(v, rows, old) {dtype=float, Tindices=int32}
new = ReadVariableOp(v) ^scatter {dtype=float}
y = AddV2(new, x) {T=float}
)";
  for (const char* strategy : {"baseline", "planned"}) {
    EXPECT_THAT(ValuesOf(text, Tensor::Scalar(0.0f), 1, strategy), ElementsAre(6, 7, 0, 1, 2, 3, 4, 5)) << strategy;
  }
}

// As dropout makes them where a fed value says whether one trains.
TEST(Effects, RandomOpsOfABranchDrawByTheirOwnNames) {
  const std::string head = R"(
x = Placeholder() {dtype=bool, shape=shape[]}
init = NoOp()
s = Switch(x, x) {T=bool}
taken = Identity(s:1) {T=bool}
left = Identity(s:0) {T=bool}
shape = Const() {dtype=int32, value=int32[1]{4}}
none = Const() ^left {dtype=float, value=float[4]{0, 0, 0, 0}}
a = RandomUniform(shape) ^taken {T=int32, dtype=float}
b = RandomUniform(shape) ^taken {T=int32, dtype=float}
)";
  const std::string merge = "m = Merge(none, d) {T=float, N=2}\ny = Identity(m) {T=float}\n";
  const Tensor yes = Tensor::Scalar(true);
  const std::vector<float> a = ValuesOf(absl::StrCat(head, "d = Identity(a) {T=float}\n", merge), yes, 1);
  const std::vector<float> b = ValuesOf(absl::StrCat(head, "d = Identity(b) {T=float}\n", merge), yes, 1);
  const std::vector<float> sum = ValuesOf(absl::StrCat(head, "d = AddV2(a, b) {T=float}\n", merge), yes, 1);
  ASSERT_EQ(sum.size(), 4);
  EXPECT_NE(a, b);
  EXPECT_THAT(sum, ElementsAre(a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]));
}

TEST(Effects, TheTimeIsAskedAnewInEveryStepAndInOrder) {
  const std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[]}
init = NoOp()
first = Timestamp()
later = Timestamp() ^first
early = Const() {dtype=double, value=double[]{1.5e9}}
is_now = Greater(first, early) {T=double}
is_later = GreaterEqual(later, first) {T=double}
both = Pack(is_now, is_later) {T=bool, N=2}
y = Cast(both) {SrcT=bool, DstT=float}
)";
  EXPECT_THAT(ValuesOf(text, Tensor::Scalar(0.0f), 2), ElementsAre(1, 1, 1, 1));
}

TEST(Kernels, OfAttributesThatDifferInTheLastDigitAreTwo) {
  const std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[]}
init = NoOp()
a = LeakyRelu(x) {T=float, alpha=1000001.0}
b = LeakyRelu(x) {T=float, alpha=1000004.0}
y = Pack(a, b) {T=float, N=2}
)";
  EXPECT_THAT(ValuesOf(text, Tensor::Scalar(-1.0f), 1), ElementsAre(-1000001, -1000004));
}

}  // namespace
}  // namespace millrace
