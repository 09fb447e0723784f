// Loops that turn as often as values say, with all that a turn may do: it happens as often as turns come, under every plan, whatever runs
// were asked before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "text_session.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// v is halved until it is at most 3; each turn counts in `count`. PER_TURN: what a turn does besides.
constexpr char kHalving[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=float, index=1}
  bad = _Arg() {T=float, index=2}
  count = _Arg() {T=resource, index=3}
  table = _Arg() {T=resource, index=4}
  three = Const() {dtype=float, value=float[]{3}}
  MORE
  r = _Retval(more) {T=bool, index=0}
end
function turn ^tally ^effect
  x = _Arg() {T=float, index=0}
  n = _Arg() {T=float, index=1}
  bad = _Arg() {T=float, index=2}
  count = _Arg() {T=resource, index=3}
  table = _Arg() {T=resource, index=4}
  factor = Const() {dtype=float, value=float[]{0.5}}
  one = Const() {dtype=float, value=float[]{1}}
  PER_TURN
  y = Mul(x, factor) ^effect {T=float}
  tally = AssignAddVariableOp(count, one) ^effect {dtype=float}
  m = AddV2(n, one) {T=float}
  r0 = _Retval(y) {T=float, index=0}
  r1 = _Retval(m) {T=float, index=1}
  r2 = _Retval(bad) {T=float, index=2}
  r3 = _Retval(count) {T=resource, index=3}
  r4 = _Retval(table) {T=resource, index=4}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
fault = VarHandleOp() {dtype=float, shape=shape[], shared_name="fault"}
count = VarHandleOp() {dtype=float, shape=shape[], shared_name="count"}
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="table"}
x = ReadVariableOp(v) {dtype=float}
bad = ReadVariableOp(fault) {dtype=float}
zero = Const() {dtype=float, value=float[]{0}}
loop = While(x, zero, bad, count, table) {cond=&goes_on, body=&turn, T=[float, float, float, resource, resource]}
y = Identity(loop:0) {T=float}
n = Identity(loop:1) {T=float}
counted = ReadVariableOp(count) ^loop {dtype=float}
)";
constexpr char kAboveThree[] = "more = Greater(x, three) {T=float}";
// Also where x is not a number, but twelve times at most.
constexpr char kNotBelow[] = R"(
  low = LessEqual(x, three) {T=float}
  high = LogicalNot(low)
  twelve = Const() {dtype=float, value=float[]{12}}
  few = Less(n, twelve) {T=float}
  more = LogicalAnd(high, few))";
constexpr char kNothing[] = "effect = NoOp()";

std::string Halving(const std::string& per_turn, const std::string& more = kAboveThree) {
  return absl::StrReplaceAll(kHalving, {{"PER_TURN", per_turn}, {"MORE", more}});
}

struct Variant {
  const char* strategy;
  int64_t budget_bytes;
  int threads;
};
constexpr Variant kVariants[] = {{"baseline", 0, 1}, {"tensorflowmem", 8192, 2}, {"planned", 0, 8}};

class TurnsOfValues : public ::testing::TestWithParam<Variant> {
 protected:
  static std::unique_ptr<Session> Make(const std::string& text, const Variant& variant = GetParam()) {
    SessionOptions options;
    options.planning.strategy = variant.strategy;
    options.planning.device_memory_bytes = variant.budget_bytes;
    options.threads = variant.threads;
    auto session = SessionOf(text, options);
    for (const char* name : {"v", "count"}) EXPECT_TRUE(Set(*session, name, 0).ok());
    EXPECT_TRUE(Set(*session, "fault", -1).ok());
    return session;
  }
  static absl::Status Set(Session& session, const std::string& name, float value) { return session.SetVariable(name, Tensor::Scalar<float>(value)); }
  static float Value(Session& session, const std::string& name) { return session.Variables()->at(name).as<float>()[0]; }
  static std::vector<double> Run(Session& session, const std::vector<std::string>& fetches) {
    std::vector<Tensor> got;
    const absl::Status ran = session.Run({}, fetches, {}, &got);
    EXPECT_TRUE(ran.ok()) << ran;
    std::vector<double> values;
    for (const Tensor& tensor : got) values.push_back(Numbers(tensor)[0]);
    return values;
  }
};

constexpr int kTurns[] = {5, 2, 9, 0, 6, 1, 9};
float Starting(int turns) { return 2.5f * static_cast<float>(1 << turns); }

TEST_P(TurnsOfValues, CountInVariables) {
  const auto session = Make(Halving(kNothing));
  double total = 0;
  for (const int turns : kTurns) {
    ASSERT_TRUE(Set(*session, "v", Starting(turns)).ok());
    total += turns;
    EXPECT_EQ(Run(*session, {"y:0", "n:0", "counted:0"}), (std::vector<double>{2.5, static_cast<double>(turns), total}));
  }
  EXPECT_EQ(Value(*session, "count"), total);
}

// It holds the answers to five questions, and what gathers them, each of 64 bytes: what asks of eight turns does not fit.
TEST_F(TurnsOfValues, CountInVariablesUnderABudgetForFew) {
  const auto session = Make(Halving(kNothing), {"planned", 384, 2});
  double total = 0;
  for (const int turns : {4, 1, 3, 4, 0}) {
    ASSERT_TRUE(Set(*session, "v", Starting(turns)).ok());
    total += turns;
    EXPECT_EQ(Run(*session, {"n:0", "counted:0"}), (std::vector<double>{static_cast<double>(turns), total}));
  }
}

TEST_P(TurnsOfValues, InsertIntoTables) {
  auto session = Make(absl::StrCat(Halving(R"(
  key = Cast(n) {SrcT=float, DstT=int64}
  effect = LookupTableInsertV2(table, key, x) {Tin=int64, Tout=float})"),
                                   "size = LookupTableSizeV2(table) ^loop\n"));
  int most = 0;
  for (const int turns : kTurns) {
    ASSERT_TRUE(Set(*session, "v", Starting(turns)).ok());
    most = std::max(most, turns);
    EXPECT_EQ(Run(*session, {"n:0", "size:0"}), (std::vector<double>{static_cast<double>(turns), static_cast<double>(most)}));
  }
}

TEST_P(TurnsOfValues, PrintEachOnce) {
  const auto session = Make(Halving(R"(
  text = StringFormat(n) {template="turn {}", placeholder="{}", summarize=3}
  effect = PrintV2(text))"));
  for (const int turns : kTurns) {
    ASSERT_TRUE(Set(*session, "v", Starting(turns)).ok());
    ::testing::internal::CaptureStderr();
    Run(*session, {"n:0"});
    const std::vector<std::string> lines = absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
    std::vector<std::string> expected;
    for (int turn = 0; turn < turns; ++turn) expected.push_back(absl::StrCat("turn ", turn));
    EXPECT_EQ(lines, expected);
  }
}

// Random streams are as far as the turns that came have taken them: as where no step was run before.
TEST_P(TurnsOfValues, DrawNoMoreThanTheyNeed) {
  const std::string text = absl::StrReplaceAll(Halving(kNothing), {{"factor = Const() {dtype=float, value=float[]{0.5}}",
                                                                    "scalar = Const() {dtype=int32, value=int32[0]{}}\n"
                                                                    "  factor = RandomUniform(scalar) {T=int32, dtype=float, seed=3, seed2=5}"}});
  const auto session = Make(text);
  std::map<std::string, Tensor> states;
  for (int step = 0; step < 4; ++step) {
    const auto fresh = Make(text);
    for (const auto& [node, state] : states) ASSERT_TRUE(fresh->SetNodeState(node, state).ok());
    for (Session* each : {session.get(), fresh.get()}) ASSERT_TRUE(Set(*each, "v", 200).ok());
    ASSERT_EQ(Run(*session, {"y:0", "n:0"}), Run(*fresh, {"y:0", "n:0"})) << step;
    states = *fresh->NodeStates();
    const auto kept = *session->NodeStates();
    ASSERT_EQ(kept.size(), states.size());
    for (const auto& [node, state] : states) EXPECT_TRUE(kept.at(node).BitEqual(state)) << node;
  }
}

TEST_P(TurnsOfValues, FailWhereATurnThatComesDoes) {
  const auto session = Make(Halving(R"(
  from_bad = Sub(x, bad) {T=float}
  inverse = Reciprocal(from_bad) {T=float}
  effect = CheckNumerics(inverse) {T=float, message="bad"})"));
  for (const int turns : {6, 1, 4}) {
    ASSERT_TRUE(Set(*session, "v", Starting(turns)).ok());
    // The turn that does not come would fail.
    ASSERT_TRUE(Set(*session, "fault", 2.5f).ok());
    EXPECT_EQ(Run(*session, {"n:0"}), std::vector<double>{static_cast<double>(turns)});
    if (turns < 2) continue;
    const float before = Value(*session, "count");
    ASSERT_TRUE(Set(*session, "fault", Starting(turns / 2)).ok());
    const absl::Status failed = session->Run({}, {"n:0"}, {}, nullptr);
    EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("effect"));
    const std::vector<std::string>& changed = session->last_run().changed_variables;
    const bool named = std::find(changed.begin(), changed.end(), "count") != changed.end();
    EXPECT_TRUE(named || Value(*session, "count") == before) << failed;
    EXPECT_EQ(Value(*session, "v"), Starting(turns));
    ASSERT_TRUE(Set(*session, "fault", -1).ok());
    const float now = Value(*session, "count");
    EXPECT_EQ(Run(*session, {"n:0", "counted:0"}), (std::vector<double>{static_cast<double>(turns), static_cast<double>(now) + turns}));
  }
}

TEST_P(TurnsOfValues, MayFollowFromWhatIsNotANumber) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto ends = Make(Halving(kNothing)), goes_on = Make(Halving(kNothing, kNotBelow));
  for (const float v : {40.f, kNaN, 5.f, kNaN, kNaN, 2.f, 1e3f, kNaN}) {
    for (Session* session : {ends.get(), goes_on.get()}) ASSERT_TRUE(Set(*session, "v", v).ok());
    double turns = 0;
    for (float x = v; x > 3; x /= 2) ++turns;
    EXPECT_EQ(Run(*ends, {"n:0"}), std::vector<double>{turns}) << v;
    EXPECT_EQ(Run(*goes_on, {"n:0"}), std::vector<double>{v == v ? turns : 12}) << v;
  }
}

TEST_P(TurnsOfValues, HaveLoopsWithin) {
  const auto session = Make(R"(
function goes_on
  x = _Arg() {T=float, index=0}
  three = Const() {dtype=float, value=float[]{3}}
  more = Greater(x, three) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function halve
  x = _Arg() {T=float, index=0}
  half = Const() {dtype=float, value=float[]{0.5}}
  y = Mul(x, half) {T=float}
  r = _Retval(y) {T=float, index=0}
end
function lower
  x = _Arg() {T=float, index=0}
  forty = Const() {dtype=float, value=float[]{40}}
  more = Mul(x, forty) {T=float}
  within = StatelessWhile(more) {cond=&goes_on, body=&halve}
  y = Sub(x, within) {T=float}
  r = _Retval(y) {T=float, index=0}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
x = ReadVariableOp(v) {dtype=float}
y = StatelessWhile(x) {cond=&goes_on, body=&lower}
)");
  for (const float v : {7.f, 4.f, 2.f, 8.f}) {
    ASSERT_TRUE(Set(*session, "v", v).ok());
    float x = v;
    while (x > 3) {
      float within = x * 40;
      while (within > 3) within /= 2;
      x -= within;
    }
    EXPECT_EQ(Run(*session, {"y:0"}), std::vector<double>{x}) << v;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, TurnsOfValues, ::testing::ValuesIn(kVariants), [](const auto& param) {
  return absl::StrCat(param.param.strategy, param.param.budget_bytes, "Bytes", param.param.threads, "Threads");
});

}  // namespace
}  // namespace millrace::testing
