// What only values can do wrong: an error that names the node, as TensorFlow has it, and variables that are as before the
// step or named in the message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A node `op` that fails for `bad` and not for `good`, each the value of the placeholder x.
struct Failure {
  const char* op;
  const char* type;  // of x
  Tensor good, bad;
  const char* nodes;
  const char* message;
};

Tensor Ids(std::vector<int32_t> values) { return Tensor::Vector<int32_t>(values); }
Tensor Reals(std::vector<float> values) { return Tensor::Vector<float>(values); }

std::vector<Failure> Failures() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"GatherV2", "int32", Ids({0, 1}), Ids({0, 4}), "op = GatherV2(table, x, zero) {Taxis=int32, Tindices=int32, Tparams=float}",
       "indices[1] = 4 is not in [0, 3)"},
      {"ResourceGather", "int32", Ids({0, 1}), Ids({-1, 1}), "op = ResourceGather(a, x) {dtype=float, Tindices=int32}",
       "indices[0] = -1 is not in [0, 3)"},
      {"ResourceScatterAdd", "int32", Ids({0, 1}), Ids({2, 3}),
       "op = ResourceScatterAdd(b, x, two) {dtype=float, Tindices=int32}", "indices[1] = 3"},
      {"CheckNumerics", "float", Reals({0, 1}), Reals({0, nan}), "op = CheckNumerics(x) {T=float, message=\"the sum\"}",
       "the sum : Tensor had NaN values"},
      {"FloorDiv", "int32", Ids({2, 1}), Ids({2, 0}), "op = FloorDiv(x, x) {T=int32}", "Integer division by zero"},
      {"FloorMod", "int32", Ids({2, 1}), Ids({2, 0}), "op = FloorMod(x, x) {T=int32}", "Integer division by zero"},
      {"Pow", "int32", Ids({2, 1}), Ids({2, -1}), "op = Pow(x, x) {T=int32}", "negative"},
      {"SparseSoftmaxCrossEntropyWithLogits", "int32", Ids({0, 1}), Ids({0, 5}),
       "op = SparseSoftmaxCrossEntropyWithLogits(logits, x) {T=float, Tlabels=int32}", "5"},
      {"SegmentSum", "int32", Ids({0, 1}), Ids({1, 0}), "op = SegmentSum(two, x) {T=float, Tindices=int32}", "segment"},
      {"UnsortedSegmentSum", "int32", Ids({0, 1}), Ids({0, 9}),
       "op = UnsortedSegmentSum(two, x, three) {T=float, Tindices=int32, Tnumsegments=int32}", "segment_ids[1] = 9 is out of range [0, 3)"},
      {"InvertPermutation", "int32", Ids({1, 0}), Ids({1, 1}), "op = InvertPermutation(x) {T=int32}", "1"},
      {"StatelessParameterizedTruncatedNormal", "float", Reals({1, 2}), Reals({1, -1}),
       "dims = Const() {dtype=int32, value=int32[1]{2}}\nseed = Const() {dtype=int32, value=int32[2]{1, 2}}\n"
       "low = Const() {dtype=float, value=float[2]{-1, -1}}\n"
       "op = StatelessParameterizedTruncatedNormal(dims, seed, two, x, low, two) {dtype=float, S=int32, Tseed=int32}",
       "Invalid parameters"},
      {"StatelessParameterizedTruncatedNormal of no number", "float", Reals({1, 2}), Reals({1, nan}),
       "dims = Const() {dtype=int32, value=int32[1]{2}}\nseed = Const() {dtype=int32, value=int32[2]{1, 2}}\n"
       "low = Const() {dtype=float, value=float[2]{-1, -1}}\nhigh = Const() {dtype=float, value=float[2]{5, 5}}\n"
       "op = StatelessParameterizedTruncatedNormal(dims, seed, x, two, low, high) {dtype=float, S=int32, Tseed=int32}",
       "failed to accept a sample: mean nan, deviation"},
      {"OneHot and Assert", "int32", Ids({1, 1}), Ids({1, 0}),
       "all = All(yes, zero) {Tidx=int32, keep_dims=false}\nwhat = Const() {dtype=string, value=string[]{\"all must hold\"}}\n"
       "op = Assert(all, what, x) {T=[string, int32], summarize=3}", "assertion failed: [all must hold] [1 0]"},
  };
}

// x is what is fed; or, in a branch, what is fed where `taken`.
std::string Fed(const std::string& type) {
  return absl::StrCat("x = Placeholder() {dtype=", type, ", shape=shape[2]}\n");
}
std::string FedInBranch(const std::string& type) {
  return absl::StrCat("fed = Placeholder() {dtype=", type, ", shape=shape[2]}\n",
                      "taken = Placeholder() {dtype=bool, shape=shape[]}\n", "side = Switch(fed, taken) {T=", type, "}\n",
                      "x = Identity(side:1) {T=", type, "}\n");
}

// a changes before the node, b after it.
std::string GraphOf(const Failure& failure, const std::string& x) {
  return absl::StrCat(R"(
a = VarHandleOp() {dtype=float, shape=shape[3], shared_name="a"}
b = VarHandleOp() {dtype=float, shape=shape[3], shared_name="b"}
start = Const() {dtype=float, value=float[3]{1, 2, 3}}
table = Const() {dtype=float, value=float[3]{1, 2, 3}}
two = Const() {dtype=float, value=float[2]{1, 2}}
zero = Const() {dtype=int32, value=int32[]{0}}
three = Const() {dtype=int32, value=int32[]{3}}
logits = Const() {dtype=float, value=float[2,3]{1, 2, 3, 4, 5, 6}}
init_a = AssignVariableOp(a, start) {dtype=float}
init_b = AssignVariableOp(b, start) {dtype=float}
)", x, "yes = Cast(x) {SrcT=", failure.type, ", DstT=bool}\n", failure.nodes,
                      "\nadd_b = AssignAddVariableOp(b, start) ^op {dtype=float}\n");
}

TEST(RunTimeErrors, NameTheNodeAndLeaveVariablesAsBeforeTheStep) {
  for (const Failure& failure : Failures()) {
    SCOPED_TRACE(failure.op);
    absl::StatusOr<Graph> graph = ParseGraphText(GraphOf(failure, Fed(failure.type)));
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const char* strategy : {"baseline", "planned"}) {
      SessionOptions options;
      options.planning.strategy = strategy;
      const auto session = OpenSession(graph->Clone(), options);
      ASSERT_TRUE(session.ok()) << session.status();
      ASSERT_TRUE((*session)->Run({}, {}, {"init_a", "init_b"}, nullptr).ok());
      const absl::Status fine = (*session)->Run({{"x", failure.good}}, {}, {"add_b"}, nullptr);
      ASSERT_TRUE(fine.ok()) << fine;
      const auto before = (*session)->Variables();
      ASSERT_TRUE(before.ok());
      const absl::Status status = (*session)->Run({{"x", failure.bad}}, {}, {"add_b"}, nullptr);
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'op'"), HasSubstr(failure.message)));
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      const auto after = (*session)->Variables();
      ASSERT_TRUE(after.ok());
      for (const auto& [name, value] : *before) {
        for (int i = 0; i < 3; ++i) EXPECT_EQ(after->at(name).as<float>()[i], value.as<float>()[i]) << name << " " << i;
      }
      // The session goes on.
      EXPECT_TRUE((*session)->Run({{"x", failure.good}}, {}, {"add_b"}, nullptr).ok());
    }
  }
}

// More than a message lists.
TEST(RunTimeErrors, TheReportHasAllVariablesThatAFailedStepHasChanged) {
  std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
one = Const() {dtype=float, value=float[]{1}}
)";
  std::string adds;
  std::vector<std::string> inits, names;
  for (int i = 10; i < 23; ++i) {
    names.push_back(absl::StrCat("v", i));
    absl::StrAppend(&text, names.back(), " = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"", names.back(), "\"}\n", "init", i,
                    " = AssignVariableOp(", names.back(), ", one) {dtype=float}\n");
    absl::StrAppend(&text, "add", i, " = AssignAddVariableOp(", names.back(), ", one) {dtype=float}\n");
    absl::StrAppend(&adds, " ^add", i);
    inits.push_back(absl::StrCat("init", i));
  }
  absl::StrAppend(&text, "op = CheckNumerics(x)", adds, " {T=float, message=\"x\"}\n");
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, inits, nullptr).ok());
  const absl::Status failed = (*session)->Run({{"x", Reals({0, std::numeric_limits<float>::infinity()})}}, {}, {"op"}, nullptr);
  EXPECT_THAT(std::string(failed.message()), HasSubstr(" and 3 more"));
  EXPECT_THAT((*session)->last_run().changed_variables, ::testing::UnorderedElementsAreArray(names));
  ASSERT_TRUE((*session)->Run({{"x", Reals({0, 1})}}, {}, {"op"}, nullptr).ok());
  EXPECT_THAT((*session)->last_run().changed_variables, ::testing::IsEmpty());
  EXPECT_EQ((*session)->last_run().device_context_bytes, 0) << "on the CPU";
}

// Programs ask for what would fail: both sides run here, and only the one that is taken may.
TEST(RunTimeErrors, ComeFromBranchesThatAreTakenAlone) {
  const Tensor yes = Tensor::Scalar<bool>(true), no = Tensor::Scalar<bool>(false);
  for (const Failure& failure : Failures()) {
    if (std::string(failure.op) == "InvertPermutation") continue;  // has no harmless value (passes/control_flow)
    SCOPED_TRACE(failure.op);
    absl::StatusOr<Graph> graph = ParseGraphText(GraphOf(failure, FedInBranch(failure.type)));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto session = OpenSession(*std::move(graph), {});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({}, {}, {"init_a", "init_b"}, nullptr).ok());
    const auto before = (*session)->Variables();
    ASSERT_TRUE(before.ok());
    for (const Tensor& x : {failure.bad, failure.good}) {
      const absl::Status fine = (*session)->Run({{"fed", x}, {"taken", no}}, {}, {"add_b"}, nullptr);
      ASSERT_TRUE(fine.ok()) << fine;
    }
    const auto after = (*session)->Variables();
    ASSERT_TRUE(after.ok());
    for (const auto& [name, value] : *before) EXPECT_TRUE(value.BitEqual(after->at(name))) << name;
    EXPECT_TRUE((*session)->Run({{"fed", failure.good}, {"taken", yes}}, {}, {"add_b"}, nullptr).ok());
    const absl::Status status = (*session)->Run({{"fed", failure.bad}, {"taken", yes}}, {}, {"add_b"}, nullptr);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'op'"), HasSubstr(failure.message)));
  }
}

// Branches without effects have a form of their own, unless something in them may fail.
TEST(RunTimeErrors, ComeFromPureBranchesThatAreTakenAlone) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
function divide
  a = _Arg() {T=int32, index=0}
  b = _Arg() {T=int32, index=1}
  q = FloorDiv(a, b) {T=int32}
  r = _Retval(q) {T=int32, index=0}
end
function keep
  a = _Arg() {T=int32, index=0}
  b = _Arg() {T=int32, index=1}
  r = _Retval(a) {T=int32, index=0}
end
function invert
  m = _Arg() {T=float, index=0}
  i = MatrixInverse(m) {T=float, adjoint=false}
  r = _Retval(i) {T=float, index=0}
end
function pass
  m = _Arg() {T=float, index=0}
  r = _Retval(m) {T=float, index=0}
end
a = Placeholder() {dtype=int32, shape=shape[2]}
b = Placeholder() {dtype=int32, shape=shape[2]}
m = Placeholder() {dtype=float, shape=shape[2,2]}
p = Placeholder() {dtype=bool, shape=shape[]}
c = If(p, a, b) {Tcond=bool, then_branch=&divide, else_branch=&keep}
d = If(p, m) {Tcond=bool, then_branch=&invert, else_branch=&pass}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](bool taken, Tensor b, std::vector<float> m) -> absl::StatusOr<std::vector<Tensor>> {
    Tensor matrix(DataType::kFloat, Shape({2, 2}));
    std::copy(m.begin(), m.end(), matrix.mutable_as<float>().begin());
    std::vector<Tensor> fetched;
    const absl::Status status = (*session)->Run(
        {{"a", Ids({6, 8})}, {"b", b}, {"m", matrix}, {"p", Tensor::Scalar<bool>(taken)}}, {"c:0", "d:0"}, {}, &fetched);
    if (!status.ok()) return status;
    return fetched;
  };
  const auto kept = run(false, Ids({0, 0}), {0, 0, 0, 0});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE((*kept)[0].BitEqual(Ids({6, 8})));
  EXPECT_EQ((*kept)[1].as<float>()[0], 0);
  const auto divided = run(true, Ids({3, 2}), {2, 0, 0, 4});
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_TRUE((*divided)[0].BitEqual(Ids({2, 4})));
  EXPECT_EQ((*divided)[1].as<float>()[0], 0.5f);
  EXPECT_THAT(std::string(run(true, Ids({3, 0}), {2, 0, 0, 4}).status().message()), HasSubstr("division by zero"));
  EXPECT_THAT(std::string(run(true, Ids({3, 1}), {0, 0, 0, 4}).status().message()), HasSubstr("not invertible"));
}

// An update that is done when another node fails is not taken back: the message says which.
TEST(RunTimeErrors, NameTheVariablesThatHadChangedAlready) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
a = VarHandleOp() {dtype=float, shape=shape[2], shared_name="first"}
start = Const() {dtype=float, value=float[2]{1, 2}}
init = AssignVariableOp(a, start) {dtype=float}
x = Placeholder() {dtype=float, shape=shape[2]}
add = AssignAddVariableOp(a, start) {dtype=float}
op = CheckNumerics(x) ^add {T=float, message="x"}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  const absl::Status status = (*session)->Run({{"x", Reals({1, std::numeric_limits<float>::infinity()})}}, {"op"}, {}, nullptr);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'op'"), HasSubstr("first")));
  EXPECT_THAT(std::string((*session)->Run({{"x", Reals({1, 2})}}, {"op"}, {}, nullptr).message()), Not(HasSubstr("first")));
}

TEST(RunTimeErrors, NameFetchesByTheirTensors) {
  const std::string straight = R"(
x = Placeholder() {dtype=int32, shape=shape[2]}
squares = Square(x) {T=int32}
)";
  const std::string loop = R"(
zero = Const() {dtype=int32, value=int32[]{0}}
i_in = Enter(zero) {T=int32, frame_name="loop"}
i = Merge(i_in, i_again) {T=int32, N=2}
three = Const() ^i {dtype=int32, value=int32[]{3}}
less = Less(i, three) {T=int32}
goes_on = LoopCond(less)
i_switch = Switch(i, goes_on) {T=int32}
taken = Identity(i_switch:1) {T=int32}
one = Const() ^taken {dtype=int32, value=int32[]{1}}
next = AddV2(taken, one) {T=int32}
i_again = NextIteration(next) {T=int32}
i_out = Exit(i_switch) {T=int32}
)";
  const auto refused = [](const std::string& text, const Session::FeedTypes& feeds, const std::string& fetch) {
    absl::StatusOr<Graph> graph = ParseGraphText(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    const auto session = OpenSession(*std::move(graph));
    const absl::Status status = (*session)->Plan(feeds, {fetch}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refused(straight, {{"x", {DataType::kInt32, Shape({2})}}}, "squares:1"), "fetch 'squares:1': the node 'squares' has 1 output");
  EXPECT_EQ(refused(loop, {}, "i_out:1"), "fetch 'i_out:1' is of a branch that is not taken, or an output that its node does not have");
}

TEST(RunTimeErrors, OnlyVariablesAreAskedWhetherTheyAreInitialised) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[2]}
asked = VarIsInitializedOp(x)
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto session = OpenSession(*std::move(graph));
  const absl::Status status = (*session)->Plan({{"x", {DataType::kFloat, Shape({2})}}}, {"asked"}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message(), "node 'asked' (VarIsInitializedOp) asks whether 'x' is initialised, which is no variable");
}

// What a graph takes from Python or a pipeline is not in it; it can be fed.
TEST(RunTimeErrors, SayWhatToFeedInPlaceOfWhatComesFromOutside) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
pipeline = OneShotIterator()
next = IteratorGetNext(pipeline) {output_types=[float], output_shapes=[shape[2]]}
y = Neg(next) {T=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  const absl::Status refused = (*session)->Run({}, {"y"}, {}, &out);
  EXPECT_NE(refused.message().find("What such a node makes for others can be fed in its place, as arrays 'next:0'"), std::string::npos) << refused;
  const absl::Status status = (*session)->Run({{"next:0", Reals({1, 2})}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(1), -2);
}

// A handle is nothing that an array could be.
TEST(RunTimeErrors, NameNoHandleAsWhatToFeed) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
queue = FIFOQueueV2() {component_types=[float]}
taken = QueueDequeueV2(queue) {component_types=[float]}
y = Neg(taken) {T=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  const absl::Status refused = (*session)->Run({}, {"y"}, {}, &out);
  EXPECT_NE(refused.message().find("as arrays 'taken:0'"), std::string::npos) << refused;
  const absl::Status of_handle = (*session)->Run({}, {"queue"}, {}, &out);
  EXPECT_EQ(of_handle.message().find("fed in its place"), std::string::npos) << of_handle;
}

}  // namespace
}  // namespace millrace
