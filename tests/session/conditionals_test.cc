// Conditionals with effects: what a branch does happens in the steps that take it, and under every plan alike.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"
#include "text_session.h"
#include "two_references.h"

namespace millrace {
namespace {

using testing::OpenSession;

// Every second step w grows by x, in a branch that asserts; in the others it is halved by an update of another kind.
constexpr char kGraph[] = R"(
function grow ^set ^check
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  zero = Const() {dtype=float, value=float[]{0}}
  positive = Greater(x, zero) {T=float}
  check = Assert(positive, x) {T=[float]}
  old = ReadVariableOp(v) ^check {dtype=float}
  new = AddV2(old, x) {T=float}
  set = AssignVariableOp(v, new) {dtype=float}
  y = Identity(new) ^set {T=float}
  r = _Retval(y) {T=float, index=0}
end
function halve ^set
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  rate = Const() {dtype=float, value=float[]{0.5}}
  old = ReadVariableOp(v) {dtype=float}
  set = ResourceApplyGradientDescent(v, rate, old) ^old {T=float}
  y = ReadVariableOp(v) ^set {dtype=float}
  r = _Retval(y) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
one = Const() {dtype=float, value=float[]{1}}
init = AssignVariableOp(w, one) {dtype=float}
c = If(p, w, x) {Tcond=bool, then_branch=&grow, else_branch=&halve}
y = Identity(c) {T=float}
)";

// A second variable begins as the first one is, or as the first one will begin: TensorFlow's `initialized_value`.
constexpr char kFirstValue[] = R"(
function read
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  y = ReadVariableOp(v) {dtype=float}
  r = _Retval(y) {T=float, index=0}
end
function given
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  r = _Retval(x) {T=float, index=0}
end
x = Const() {dtype=float, value=float[]{4}}
five = Const() {dtype=float, value=float[]{5}}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
set_v = AssignVariableOp(v, five) {dtype=float}
p = VarIsInitializedOp(v)
absent = LogicalNot(p)
c = If(p, v, x) {Tcond=bool, then_branch=&read, else_branch=&given}
d = If(absent, v, x) {Tcond=bool, then_branch=&given, else_branch=&read}
e = AddV2(c, d) {T=float}
set_w = AssignVariableOp(w, e) {dtype=float}
y = ReadVariableOp(w) ^set_w {dtype=float}
z = ReadVariableOp(v) {dtype=float}
)";

// A branch that prints and draws a number.
constexpr char kDrawing[] = R"(
function draw
  x = _Arg() {T=float, index=0}
  none = Const() {dtype=int32, value=int32[0]{}}
  number = RandomUniform(none) {T=int32, dtype=float, seed=3, seed2=5}
  shown = Print(number, x) {T=float, U=[float], message="drawn for "}
  r = _Retval(shown) {T=float, index=0}
end
function pass
  x = _Arg() {T=float, index=0}
  r = _Retval(x) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
init = NoOp()
c = If(p, x) {Tcond=bool, then_branch=&draw, else_branch=&pass}
y = Identity(c) {T=float}
)";

absl::StatusOr<std::vector<float>> ValuesUnder(const std::string& strategy, const std::vector<std::pair<bool, float>>& steps,
                                               const std::string& text = kGraph) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  if (!graph.ok()) return graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
  if (!session.ok()) return session.status();
  absl::Status status = (*session)->Run({}, {}, {"init"}, nullptr);
  if (!status.ok()) return status;
  std::vector<float> values;
  for (const auto& [taken, x] : steps) {
    Tensor predicate(DataType::kBool, Shape());
    predicate.mutable_as<bool>()[0] = taken;
    std::vector<Tensor> fetched;
    status = (*session)->Run({{"p", predicate}, {"x", Tensor::Scalar<float>(x)}}, {"y:0"}, {}, &fetched);
    if (!status.ok()) return status;
    values.push_back(fetched.at(0).as<float>()[0]);
  }
  return values;
}

TEST(Conditionals, EffectsHappenInTheBranchThatIsTaken) {
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "planned"}) {
    const absl::StatusOr<std::vector<float>> values = ValuesUnder(strategy, {{true, 3}, {false, 3}, {true, 5}, {false, -1}});
    ASSERT_TRUE(values.ok()) << strategy << ": " << values.status();
    EXPECT_EQ(*values, (std::vector<float>{4, 2, 7, 3.5})) << strategy;
  }
}

TEST(Conditionals, StreamsOfRandomNumbersStandStillAndPrintsAreSilentUnlessTaken) {
  for (const char* strategy : {"baseline", "planned"}) {
    ::testing::internal::CaptureStderr();
    const absl::StatusOr<std::vector<float>> often = ValuesUnder(strategy, {{true, 3}, {true, 5}}, kDrawing);
    const absl::StatusOr<std::vector<float>> between = ValuesUnder(strategy, {{true, 13}, {false, 14}, {false, 17}, {true, 15}}, kDrawing);
    const std::string printed = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(often.ok() && between.ok()) << often.status() << between.status();
    EXPECT_NE(often->at(0), often->at(1));
    EXPECT_EQ(*between, (std::vector<float>{often->at(0), 14, 17, often->at(1)})) << strategy;
    for (const char* shown : {"[3]", "[5]", "[13]", "[15]"}) EXPECT_NE(printed.find(shown), std::string::npos) << printed;
    for (const char* silent : {"[14]", "[17]"}) EXPECT_EQ(printed.find(silent), std::string::npos) << printed;
  }
}

// A branch that draws twice by a generator that is a variable; nobody waits for what the draws write there.
constexpr char kGenerator[] = R"(
function draw
  g = _Arg() {T=resource, index=0}
  high = _Arg() {T=int64, index=1}
  philox = Const() {dtype=int64, value=int64[]{1}}
  size = Const() {dtype=int32, value=int32[1]{2}}
  low = Const() {dtype=int64, value=int64[]{0}}
  whole = StatefulUniformInt(g, philox, size, low, high) {dtype=int64, shape_dtype=int32}
  number = Cast(whole) {SrcT=int64, DstT=float}
  part = StatefulUniform(g, philox, size) ^whole {dtype=float, shape_dtype=int32}
  sum = AddV2(number, part) {T=float}
  r = _Retval(sum) {T=float, index=0}
end
function five
  g = _Arg() {T=resource, index=0}
  high = _Arg() {T=int64, index=1}
  fives = Const() {dtype=float, value=float[2]{5, 5}}
  r = _Retval(fives) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
high = Placeholder() {dtype=int64, shape=shape[]}
g = VarHandleOp() {dtype=int64, shape=shape[3], shared_name="g"}
first = Const() {dtype=int64, value=int64[3]{1, 2, 3}}
init = AssignVariableOp(g, first) {dtype=int64}
c = If(p, g, high) {Tcond=bool, then_branch=&draw, else_branch=&five}
y = Identity(c) {T=float}
behind = ReadVariableOp(g) ^y {dtype=int64}
state = ReadVariableOp(g) {dtype=int64}
)";

TEST(Conditionals, AGeneratorStandsStillUnlessItsBranchIsTaken) {
  for (const char* strategy : {"baseline", "planned"}) {
    absl::StatusOr<Graph> graph = ParseGraphText(kGenerator);
    ASSERT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.planning.strategy = strategy;
    absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
    ASSERT_TRUE(session.ok()) << session.status();
    absl::Status status = (*session)->Run({}, {}, {"init"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    // Which bound is refused does not matter where nothing is drawn.
    for (const auto& [taken, high, count] : std::vector<std::tuple<bool, int64_t, int64_t>>{{false, 0, 1}, {true, 10, 1025}, {false, 0, 1025}}) {
      std::vector<Tensor> drawn, state;
      status = (*session)->Run({{"p", Tensor::Scalar<bool>(taken)}, {"high", Tensor::Scalar<int64_t>(high)}}, {"y:0"}, {}, &drawn);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status;
      EXPECT_EQ(drawn.at(0).as<float>()[0] == 5, !taken) << strategy;
      status = (*session)->Run({}, {"state:0"}, {}, &state);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status;
      EXPECT_EQ(state.at(0).IntAt(0), count) << strategy;
    }
    // Who waits for the conditional's result finds what both draws have left.
    std::vector<Tensor> behind;
    status = (*session)->Run({{"p", Tensor::Scalar<bool>(true)}, {"high", Tensor::Scalar<int64_t>(10)}}, {"behind:0"}, {}, &behind);
    ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    EXPECT_EQ(behind.at(0).IntAt(0), 2049) << strategy;
  }
}

// As TensorFlow 1 writes v.assign(cond(flag, v * x, v * 5)): the flag is read for each Switch anew.
constexpr char kReadsOfOneFlag[] = R"(
flag = VarHandleOp() {dtype=bool, shape=shape[], shared_name="flag"}
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
yes = Const() {dtype=bool, value=bool[]{true}}
three = Const() {dtype=float, value=float[]{3}}
set_flag = AssignVariableOp(flag, yes) {dtype=bool}
set_v = AssignVariableOp(v, three) {dtype=float}
init = NoOp() ^set_flag ^set_v
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
data = ReadVariableOp(flag) {dtype=bool}
of_pivot = ReadVariableOp(flag) {dtype=bool}
pivot = Switch(data, of_pivot) {T=bool}
taken = Identity(pivot:1) {T=bool}
not_taken = Identity(pivot) {T=bool}
read = ReadVariableOp(flag) {dtype=bool}
pred = Identity(read) {T=bool}
old = ReadVariableOp(v) {dtype=float}
old_there = Switch(old, pred) {T=float}
factor = Identity(x) ^taken {T=float}
five = Const() ^not_taken {dtype=float, value=float[]{5}}
times_x = Mul(old_there:1, factor) {T=float}
times_five = Mul(old_there, five) {T=float}
new = Merge(times_five, times_x) {N=2, T=float}
set = AssignVariableOp(v, new) {dtype=float}
after = ReadVariableOp(v) ^set {dtype=float}
y = Select(p, after, after) {T=float}
)";

TEST(Conditionals, AVariableThatIsReadForEachSwitchIsOnePredicate) {
  for (const char* strategy : {"baseline", "planned"}) {
    const absl::StatusOr<std::vector<float>> values = ValuesUnder(strategy, {{true, 2}, {false, 3}}, kReadsOfOneFlag);
    ASSERT_TRUE(values.ok()) << strategy << ": " << values.status();
    EXPECT_EQ(*values, (std::vector<float>{6, 18})) << strategy;
  }
}

TEST(Conditionals, AnAssertionFailsOnlyInTheBranchThatIsTaken) {
  EXPECT_TRUE(ValuesUnder("baseline", {{false, -1}}).ok());
  const absl::Status status = ValuesUnder("baseline", {{true, -1}}).status();
  EXPECT_NE(status.message().find("assertion failed"), std::string::npos) << status;
}

TEST(Conditionals, AVariableIsReadWhereItIsInitialisedOnly) {
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "planned"}) {
    absl::StatusOr<Graph> graph = ParseGraphText(kFirstValue);
    ASSERT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.planning.strategy = strategy;
    absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> fetched;
    absl::Status status = (*session)->Run({}, {"y:0"}, {}, &fetched);
    ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    EXPECT_EQ(fetched.at(0).as<float>()[0], 8) << strategy;
    // Who reads it in any case still needs a value.
    status = (*session)->Run({}, {"y:0", "z:0"}, {}, &fetched);
    EXPECT_NE(status.message().find("variable 'v' has no value"), std::string::npos) << status;
    status = (*session)->Run({}, {}, {"set_v"}, nullptr);
    ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    status = (*session)->Run({}, {"y:0"}, {}, &fetched);
    ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    EXPECT_EQ(fetched.at(0).as<float>()[0], 10) << strategy;
  }
}

// Predicates follow from shapes, the second from the result of the first; what is not taken has shapes that are impossible.
constexpr char kNeverTaken[] = R"(
function backwards
  n = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  twelve = Const() {dtype=int32, value=int32[]{12}}
  one = Const() {dtype=int32, value=int32[]{1}}
  numbers = Range(twelve, n, one) {Tidx=int32}
  axis = Const() {dtype=int32, value=int32[]{0}}
  sum = Sum(numbers, axis) {T=int32, Tidx=int32, keep_dims=false}
  r = _Retval(sum) {T=int32, index=0}
  rx = _Retval(x) {T=float, index=1}
end
function forwards
  n = _Arg() {T=int32, index=0}
  x = _Arg() {T=float, index=1}
  one = Const() {dtype=int32, value=int32[]{1}}
  less = Sub(n, one) {T=int32}
  y = AddV2(x, x) {T=float}
  r = _Retval(less) {T=int32, index=0}
  ry = _Retval(y) {T=float, index=1}
end
function grow ^put
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  put = AssignAddVariableOp(v, x) {dtype=float}
  one = Const() {dtype=float, value=float[]{1}}
  r = _Retval(one) {T=float, index=0}
end
function stay
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  r = _Retval(x) {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
ten = Const() {dtype=float, value=float[]{10}}
init = AssignVariableOp(w, ten) {dtype=float}
three = Const() {dtype=float, value=float[3]{1, 2, 3}}
n = Size(three) {T=float, out_type=int32}
five = Const() {dtype=int32, value=int32[]{5}}
two = Const() {dtype=int32, value=int32[]{2}}
large = Greater(n, five) {T=int32}
a = StatelessIf(large, n, x) {Tcond=bool, then_branch=&backwards, else_branch=&forwards}
small = LessEqual(a, two) {T=int32}
b = If(small, a, a:1) {Tcond=bool, then_branch=&forwards, else_branch=&backwards}
c = If(small, w, b:1) {Tcond=bool, then_branch=&grow, else_branch=&stay}
d = If(p, w, x) {Tcond=bool, then_branch=&grow, else_branch=&stay}
y = ReadVariableOp(w) ^c ^d {dtype=float}
)";

TEST(Conditionals, ABranchThatIsKnownNotToBeTakenMayHaveImpossibleShapes) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const absl::StatusOr<std::vector<float>> values = ValuesUnder(strategy, {{true, 3}, {false, 3}, {true, 5}}, kNeverTaken);
    ASSERT_TRUE(values.ok()) << strategy << ": " << values.status();
    EXPECT_EQ(*values, (std::vector<float>{25, 37, 62})) << strategy;
  }
}

// In the second turn of three.
constexpr char kInATurn[] = R"(
function grow ^put
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  put = AssignAddVariableOp(v, x) {dtype=float}
  one = Const() {dtype=float, value=float[]{1}}
  r = _Retval(one) {T=float, index=0}
end
function pass
  v = _Arg() {T=resource, index=0}
  x = _Arg() {T=float, index=1}
  r = _Retval(x) {T=float, index=0}
end
function go
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  x = _Arg() {T=float, index=2}
  three = Const() {dtype=int32, value=int32[]{3}}
  l = Less(i, three) {T=int32}
  r = _Retval(l) {T=bool, index=0}
end
function turn ^c
  i = _Arg() {T=int32, index=0}
  v = _Arg() {T=resource, index=1}
  x = _Arg() {T=float, index=2}
  one = Const() {dtype=int32, value=int32[]{1}}
  p = Equal(i, one) {T=int32}
  c = If(p, v, x) {Tcond=bool, then_branch=&grow, else_branch=&pass}
  n = AddV2(i, one) {T=int32}
  r0 = _Retval(n) {T=int32, index=0}
  r1 = _Retval(v) {T=resource, index=1}
  r2 = _Retval(x) {T=float, index=2}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
one = Const() {dtype=float, value=float[]{1}}
zero = Const() {dtype=int32, value=int32[]{0}}
init = AssignVariableOp(w, one) {dtype=float}
c = While(zero, w, x) {cond=&go, body=&turn, T=[int32, resource, float]}
y = ReadVariableOp(w) ^c {dtype=float}
)";

TEST(Conditionals, WhatABranchDoesInATurnHappensWhoeverTakesItsResult) {
  const absl::StatusOr<std::vector<float>> values = ValuesUnder("planned", {{true, 3}, {false, 5}}, kInATurn);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<float>{4, 9}));
}

// Each side adds to a variable of its own, and what the conditional gives is that one.
constexpr char kEitherVariable[] = R"(
x_there = Switch(x, p) {T=float}
more_a = AssignAdd(of_a:1, x_there:1) {T=float}
more_b = AssignAdd(of_b, x_there) {T=float}
c = RefMerge(more_b, more_a) {T=float, N=2}
y = Identity(c) {T=float}
set = AssignAdd(c, x) {T=float}
)";

// Runs a step with p and x; what is fetched, one number each.
absl::StatusOr<std::vector<float>> FetchedOf(Session& session, bool p, float x, const std::vector<std::string>& fetches) {
  std::vector<Tensor> fetched;
  const absl::Status status = session.Run({{"p", Tensor::Scalar<bool>(p)}, {"x", Tensor::Scalar<float>(x)}}, fetches, {}, &fetched);
  if (!status.ok()) return status;
  std::vector<float> values;
  for (const Tensor& tensor : fetched) values.push_back(tensor.as<float>()[0]);
  return values;
}

TEST(Conditionals, AReferenceOfOneOfTwoVariablesIsReadAndWritten) {
  const std::string text = absl::StrCat(testing::kTwoReferences, kEitherVariable);
  for (const char* strategy : {"baseline", "planned"}) {
    const absl::StatusOr<std::vector<float>> values = ValuesUnder(strategy, {{true, 10}, {false, 20}, {true, 100}}, text);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(*values, (std::vector<float>{11, 22, 111}));
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = testing::SessionOf(text, options);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    // The side adds x, and so does what takes the reference.
    absl::StatusOr<std::vector<float>> fetched = FetchedOf(*session, true, 10, {"set"});
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(*fetched, (std::vector<float>{21}));
    fetched = FetchedOf(*session, false, 100, {"set"});
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(*fetched, (std::vector<float>{202}));
    EXPECT_EQ(session->Variables()->at("a").as<float>()[0], 21);
    EXPECT_EQ(session->Variables()->at("b").as<float>()[0], 202);
  }
}

// A handle of one of two variables, and that of its momentum; used in a conditional, too.
constexpr char kChosenHandles[] = R"(
function first
  a = _Arg() {T=resource, index=0}
  ma = _Arg() {T=resource, index=1}
  b = _Arg() {T=resource, index=2}
  mb = _Arg() {T=resource, index=3}
  r = _Retval(a) {T=resource, index=0}
  s = _Retval(ma) {T=resource, index=1}
end
function second
  a = _Arg() {T=resource, index=0}
  ma = _Arg() {T=resource, index=1}
  b = _Arg() {T=resource, index=2}
  mb = _Arg() {T=resource, index=3}
  r = _Retval(b) {T=resource, index=0}
  s = _Retval(mb) {T=resource, index=1}
end
function halve ^set
  v = _Arg() {T=resource, index=0}
  half = Const() {dtype=float, value=float[]{0.5}}
  old = ReadVariableOp(v) {dtype=float}
  new = Mul(old, half) {T=float}
  set = AssignVariableOp(v, new) {dtype=float}
  r = _Retval(new) {T=float, index=0}
end
function read
  v = _Arg() {T=resource, index=0}
  y = ReadVariableOp(v) {dtype=float}
  r = _Retval(y) {T=float, index=0}
end
a = VarHandleOp() {dtype=float, shape=shape[], shared_name="a"}
b = VarHandleOp() {dtype=float, shape=shape[], shared_name="b"}
ma = VarHandleOp() {dtype=float, shape=shape[], shared_name="ma"}
mb = VarHandleOp() {dtype=float, shape=shape[], shared_name="mb"}
one = Const() {dtype=float, value=float[]{1}}
two = Const() {dtype=float, value=float[]{2}}
init_a = AssignVariableOp(a, one) {dtype=float}
init_b = AssignVariableOp(b, two) {dtype=float}
init_ma = AssignVariableOp(ma, one) {dtype=float}
init_mb = AssignVariableOp(mb, two) {dtype=float}
init = NoOp() ^init_a ^init_b ^init_ma ^init_mb
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
h = If(p, a, ma, b, mb) {Tcond=bool, Tin=[resource, resource, resource, resource], Tout=[resource, resource], then_branch=&first, else_branch=&second}
before = ReadVariableOp(h) {dtype=float}
train = ResourceApplyMomentum(h, h:1, one, x, two) ^before {T=float, use_locking=false, use_nesterov=false}
ten = Const() {dtype=float, value=float[]{10}}
many = Greater(x, ten) {T=float}
c = If(many, h) ^train {Tcond=bool, Tin=[resource], Tout=[float], then_branch=&halve, else_branch=&read}
y = Identity(c) {T=float}
limit = ResourceCountUpTo(h) {limit=9, T=int64}
)";

TEST(Conditionals, AHandleOfOneOfTwoVariablesIsReadAndWritten) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = testing::SessionOf(kChosenHandles, options);
    ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
    const auto run = [&](bool p, float x) { return FetchedOf(*session, p, x, {"before", "y"}); };
    const std::vector<std::string> names = {"a", "ma", "b", "mb"};
    const auto state = [&] {
      std::vector<float> values;
      for (const std::string& name : names) values.push_back(session->Variables()->at(name).as<float>()[0]);
      return values;
    };
    // The momentum is doubled and x added; the variable goes down by it, and is halved where x is more than ten.
    absl::StatusOr<std::vector<float>> fetched = run(true, 1);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(*fetched, (std::vector<float>{1, -2}));
    EXPECT_EQ(state(), (std::vector<float>{-2, 3, 2, 2})) << strategy;
    fetched = run(false, 20);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(*fetched, (std::vector<float>{2, -11}));
    EXPECT_EQ(state(), (std::vector<float>{-2, 3, -11, 24})) << strategy;
    const absl::Status status = FetchedOf(*session, true, 1, {"limit"}).status();
    EXPECT_NE(status.message().find("node 'limit' (ResourceCountUpTo) takes one of the variables 'a', 'b'"), std::string::npos) << status;
  }
}

TEST(Conditionals, WhatIsNotAddedLeavesAZeroItsSign) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
minus = Const() {dtype=float, value=float[]{-0.0}}
init = AssignVariableOp(v, minus) {dtype=float}
p = Placeholder() {dtype=bool, shape=shape[]}
v_there = Switch(v, p) {T=resource}
one = Const() {dtype=float, value=float[]{1}}
one_there = Switch(one, p) {T=float}
add = AssignAddVariableOp(v_there:1, one_there:1) {dtype=float}
read = ReadVariableOp(v) {dtype=float}
y = Reciprocal(read) {T=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  absl::Status status = (*session)->Run({{"p", Tensor::Scalar<bool>(false)}}, {}, {"add"}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  status = (*session)->Run({}, {"y:0"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].as<float>()[0], -std::numeric_limits<float>::infinity());
}

TEST(Conditionals, APredicateOfSeveralElementsIsRefused) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
p = Placeholder() {dtype=bool, shape=shape[2]}
x = Placeholder() {dtype=float, shape=shape[2]}
there = Switch(x, p) {T=float}
square = Square(there:1) {T=float}
y = Merge(there, square) {T=float, N=2}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Run({{"p", Tensor::Vector<bool>({true, false})}, {"x", Tensor::Vector<float>({1, 2})}}, {"y"}, {}, nullptr);
  EXPECT_NE(status.message().find("the predicate of a conditional is bool[2], expected a scalar"), std::string::npos) << status;
}

}  // namespace
}  // namespace millrace
