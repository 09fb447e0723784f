#include "passes/control_flow/loop_ops.h"
#include "passes/unroll/unroll_loops.h"
#include "passes/unroll/value.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "millrace/stream_name.h"
#include "passes/shapes/needed_feeds.h"
#include "runtime/op_evaluator.h"
#include "testlib/golden.h"
#include "testlib/graph_interpreter.h"

namespace millrace {
namespace {

constexpr int64_t kMaxNodes = 200;

// Folds with the CPU's kernels, as sessions do.
class EvaluatingOracle final : public KernelOracle {
 public:
  absl::StatusOr<int64_t> ScratchBytes(const OpInstance&) override { return 0; }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def, const OpInstance& instance,
                                               std::vector<Tensor> inputs) override {
    return EvaluateOp(def, testing::CpuKernels(), instance, std::move(inputs));
  }
};

std::string Unroll(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return absl::StrCat(graph.status().message(), "\n");
  EvaluatingOracle oracle;
  const std::string before = GraphToText(*graph);
  const absl::StatusOr<UnrollResult> result = UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {.max_nodes = kMaxNodes});
  if (!result.ok()) return absl::StrCat(result.status().message(), "\n");
  EXPECT_EQ(result->changed, before != GraphToText(*graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    EXPECT_FALSE(graph->alive(NodeId{i}) && IsLoopOp(graph->node(NodeId{i}))) << graph->node(NodeId{i}).name;
  }
  graph->set_library(nullptr);
  std::string text = result->changed ? "" : "unchanged\n";
  for (const std::string& effect : result->effects) absl::StrAppend(&text, "effect ", effect, "\n");
  return absl::StrCat(text, GraphToText(*graph));
}

class LoopsGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LoopsGolden, TextIsAsExpected) { CheckGolden(GetParam(), Unroll); }

std::string CaseName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Loops, LoopsGolden, ::testing::ValuesIn(GoldenFiles("loops")), CaseName);

// A list of three rows, and one node that uses it.
absl::StatusOr<UnrollResult> UnrollWith(std::string_view nodes, Graph* graph) {
  const absl::StatusOr<Graph> parsed = ParseGraphText(absl::StrCat(
      "x = Placeholder() {dtype=float, shape=shape[3,2]}\n"
      "i = Placeholder() {dtype=int32, shape=shape[]}\n"
      "shape = Const() {dtype=int32, value=int32[1]{2}}\n"
      "one = Const() {dtype=int32, value=int32[]{1}}\n"
      "five = Const() {dtype=int32, value=int32[]{5}}\n"
      "list = TensorListFromTensor(x, shape) {element_dtype=float}\n", std::string(nodes)));
  if (!parsed.ok()) return parsed.status();
  *graph = parsed->Clone();
  EvaluatingOracle oracle;
  return UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {});
}

// Of a loop over one int32 `i`, whose condition always holds and whose body is `body`.
absl::Status EndlessLoop(std::string_view body) {
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(
      "function c\n  i = _Arg() {T=int32, index=0}\n  t = Const() {dtype=bool, value=bool[]{true}}\n  r = _Retval(t) {T=bool, index=0}\nend\n"
      "function b\n  i = _Arg() {T=int32, index=0}\n", std::string(body), "end\n"
      "z = Const() {dtype=int32, value=int32[]{0}}\ny = StatelessWhile(z) {T=[int32], cond=&c, body=&b}\n"));
  if (!graph.ok()) return graph.status();
  EvaluatingOracle oracle;
  return UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {.max_nodes = 1000}).status();
}

TEST(UnrollLoops, AListThatIsStackedAgainIsItsTensor) {
  Graph graph;
  ASSERT_TRUE(UnrollWith("y = TensorListStack(list, shape) {element_dtype=float}\nz = Neg(y) {T=float}\n", &graph).ok());
  EXPECT_EQ(graph.node(graph.Find("z")).inputs[0].node, graph.Find("x"));
}

TEST(UnrollLoops, AnItemThatWasNeverSetIsZero) {
  Graph graph;
  ASSERT_TRUE(UnrollWith("empty = TensorListReserve(shape, five) {element_dtype=float}\n"
                         "y = TensorListGetItem(empty, one, shape) {element_dtype=float}\nz = Neg(y) {T=float}\n", &graph).ok());
  const Node& z = graph.node(graph.Find("z"));
  EXPECT_EQ(z.attrs.GetOr<Tensor>("value", Tensor()).shape(), Shape({2})) << "folded from zeros";
}

TEST(UnrollLoops, AnIndexKnownOnlyWhenRunningIsAGather) {
  Graph graph;
  ASSERT_TRUE(UnrollWith("y = TensorListGetItem(list, i, shape) {element_dtype=float}\nz = Neg(y) {T=float}\n", &graph).ok());
  const Node& gather = graph.node(graph.node(graph.Find("z")).inputs[0].node);
  EXPECT_EQ(gather.op, "GatherV2");
  EXPECT_EQ(gather.inputs[0].node, graph.Find("x"));
}

// Later passes lower what reads a table, and hashes of numbers' texts: their sizes are those of the keys.
TEST(UnrollLoops, WhatTablesAndHashesOfNumbersGiveHasItsSize) {
  constexpr char kNodes[] =
      "keys = Placeholder() {dtype=int64, shape=shape[4]}\nnone = Const() {dtype=int64, value=int64[]{0}}\n"
      "pair = Const() {dtype=float, value=float[2]{0, 0}}\nscalar = Const() {dtype=int32, value=int32[0]{}}\n"
      "table = HashTableV2() {key_dtype=int64, value_dtype=int64}\n"
      "found = LookupTableFindV2(table, keys, none) {Tin=int64, Tout=int64}\n"
      "found_list = TensorListFromTensor(found, scalar) {element_dtype=int64}\na = TensorListLength(found_list)\n"
      "pairs = MutableHashTableOfTensorsV2() {key_dtype=int64, value_dtype=float, value_shape=shape[2]}\n"
      "found_pairs = LookupTableFindV2(pairs, keys, pair) {Tin=int64, Tout=float}\n"
      "pairs_list = TensorListFromTensor(found_pairs, shape) {element_dtype=float}\nb = TensorListLength(pairs_list)\n"
      "texts = AsString(keys) {T=int64}\nhash = StringToHashBucketFast(texts) {num_buckets=5}\n"
      "hash_list = TensorListFromTensor(hash, scalar) {element_dtype=int64}\nc = TensorListLength(hash_list)\n";
  Graph graph;
  const absl::StatusOr<UnrollResult> result = UnrollWith(kNodes, &graph);
  ASSERT_TRUE(result.ok()) << result.status();
  constexpr char kLong[] = "size = LookupTableSizeV2(table)\nlong = TensorListReserve(shape, size) {element_dtype=float}\n";
  const absl::Status refused = UnrollWith(absl::StrCat(kNodes, kLong), &graph).status();
  EXPECT_TRUE(absl::StrContains(refused.message(), "table 'table'")) << refused;
  EXPECT_FALSE(absl::StrContains(refused.message(), "not supported")) << refused;
}

TEST(UnrollLoops, ItemsWhoseSizesAreNotKnownMayBeGathered) {
  Graph graph;
  ASSERT_TRUE(UnrollWith("found = Where(x) {T=float}\nempty = EmptyTensorList(shape, five) {element_dtype=int64}\n"
                         "first = TensorListPushBack(empty, found) {element_dtype=int64}\nboth = TensorListPushBack(first, found) {element_dtype=int64}\n"
                         "y = TensorListGetItem(both, i, shape) {element_dtype=int64}\nz = Neg(y) {T=int64}\n", &graph).ok());
  const Node& gather = graph.node(graph.node(graph.Find("z")).inputs[0].node);
  EXPECT_EQ(gather.op, "GatherV2");
  const Node& pack = graph.node(gather.inputs[0].node);
  EXPECT_EQ(pack.op, "Pack");
  EXPECT_EQ(pack.attrs.GetOr<DataType>("T", DataType::kInvalid), DataType::kInt64);
}

// Asked for before anything that would tell the one of two lists from the other.
TEST(UnrollLoops, AnIndexIntoItemsOfSeveralKindsIsTheFirstQuestion) {
  const absl::StatusOr<Graph> parsed = ParseGraphText(
      "v = VarHandleOp() {dtype=int32, shape=shape[], shared_name=\"v\"}\ni = ReadVariableOp(v) {dtype=int32}\n"
      "zero = Const() {dtype=int32, value=int32[]{0}}\np = Greater(i, zero) {T=int32}\n"
      "shape = Const() {dtype=int32, value=int32[0]{}}\nthree = Const() {dtype=int32, value=int32[]{3}}\n"
      "short = EmptyTensorList(shape, three) {element_dtype=float}\nlong = TensorListReserve(shape, three) {element_dtype=float}\n"
      "short_side = Switch(short, p) {T=variant}\nlong_side = Switch(long, p) {T=variant}\n"
      "either = Merge(short_side, long_side:1) {T=variant, N=2}\n"
      "empty = EmptyTensorList(shape, three) {element_dtype=variant}\nlists = TensorListPushBack(empty, either) {element_dtype=variant}\n"
      "one = TensorListGetItem(lists, i, shape) {element_dtype=variant}\nlength = TensorListLength(one)\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  Graph graph = parsed->Clone();
  EvaluatingOracle oracle;
  const absl::Status refused = UnrollLoops(graph, OpRegistry::Builtin(), oracle, {}).status();
  EXPECT_TRUE(NeedsAnswer(refused));
  EXPECT_TRUE(absl::StrContains(refused.message(), "node 'one' (TensorListGetItem): the index depends on")) << refused;
}

TEST(UnrollLoops, ErrorsNameTheNodeAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"y = TensorListGetItem(list, five, shape) {element_dtype=float}\n",
       "node 'y' (TensorListGetItem): index 5 is not in a list of 3"},
      {"n = Const() {dtype=int64, value=int64[2]{1, 2}}\nunequal = TensorListSplit(x, shape, n) {element_dtype=float}\n"
       "y = TensorListGetItem(unequal, i, shape) {element_dtype=float}\n",
       "node 'y' (TensorListGetItem): the index depends on what is known only when running"},
      {"y = TensorListSetItem(list, i, x) {element_dtype=float}\n", "the index depends on what is known only when running"},
      {"e = EmptyTensorList(shape, five) {element_dtype=float}\ny = TensorListPopBack(e, shape) {element_dtype=float}\n",
       "node 'y' (TensorListPopBack): takes the last item of a list that has none"},
      {"y = Exp(list) {T=variant}\n", "node 'y' (Exp) takes a list"},
      {"y = TensorListLength(x)\n", "node 'y' (TensorListLength): takes something that is no list"},
      {"y = TensorListStack(list, shape) {element_dtype=float, num_elements=4}\n", "stacks 4 items, the list has 3"},
      {"y = TensorListReserve(shape, i) {element_dtype=float}\n", "the length of the list depends on"},
      {"y = StackPopV2(x) {elem_type=float}\n", "node 'y' (StackPopV2): takes something that is no array or stack"},
      {"y = StatelessWhile(x) {cond=&c, body=&b}\n", "node 'y' (StatelessWhile): function 'c' is not in the graph's library"},
      {"e = Enter(x) {T=float, frame_name=\"f\"}\ny = Neg(e) {T=float}\n", "loop 'f' has no LoopCond"},
      {"y = LoopCond()\n", "node 'y' (LoopCond) has 0 inputs, expected 1"},
      {"y = Switch(x) {T=float}\n", "node 'y' (Switch) has 1 inputs, expected 2"},
      {"p = Const() {dtype=bool, value=bool[0]{}}\ny = Switch(x, p) {T=float}\n", "node 'y' (Switch): the predicate is bool[0], expected a bool scalar"},
      {"y = TensorListPushBack(list) {element_dtype=float}\n", "node 'y' (TensorListPushBack) has 1 inputs, expected at least 2"},
      {"y = TensorListSetItem(list, one) {element_dtype=float}\n", "node 'y' (TensorListSetItem) has 2 inputs, expected at least 3"},
      {"s = StackV2(five) {elem_type=float}\ny = StackPushV2(s) {T=float}\n", "node 'y' (StackPushV2) has 1 inputs, expected at least 2"},
      {"a = TensorArrayV3(five) {dtype=float}\ny = TensorArrayWriteV3(a, one) {T=float}\n",
       "node 'y' (TensorArrayWriteV3) has 2 inputs, expected at least 3"},
      {"a = TensorArrayV3(five) {dtype=float}\ny = TensorArrayWriteV3(a, one, i, a:1) {T=int32}\n",
       "node 'y' (TensorArrayWriteV3): writes int32 to an array of float"},
      {"n = Const() {dtype=int64, value=int64[2]{1, 1}}\ny = TensorListSplit(x, shape, n) {element_dtype=float}\n", "splits 3 rows into 2"},
      {"n = Const() {dtype=int64, value=int64[2]{-1, 4}}\ny = TensorListSplit(x, shape, n) {element_dtype=float}\n",
       "splits rows into items, one of which has -1"},
      {"a = TensorArrayV3(five) {dtype=float}\nn = Const() {dtype=int64, value=int64[2]{1, 2}}\n"
       "y = TensorArraySplitV3(a, x, n, a:1) {T=float}\n", "splits into 2 items, the array has 5"},
      {"a = TensorArrayV3(one) {dtype=float}\nn = Const() {dtype=int64, value=int64[1]{4}}\n"
       "y = TensorArraySplitV3(a, x, n, a:1) {T=float}\n", "node 'y' (TensorArraySplitV3): splits 3 rows into more"},
      {"a = TensorArrayV3(one) {dtype=float}\nn = Const() {dtype=int64, value=int64[1]{-2}}\n"
       "y = TensorArraySplitV3(a, x, n, a:1) {T=float}\n", "splits rows into items, one of which has -2"},
      {"a = TensorArrayV3(five) {dtype=float}\nn = Const() {dtype=int32, value=int32[4]{0, 1, 2, 3}}\n"
       "y = TensorArrayScatterV3(a, n, x, a:1) {T=float}\n", "node 'y' (TensorArrayScatterV3): 4 indices for 3 rows"},
      {"n = Const() {dtype=int32, value=int32[]{2147483647}}\ne = TensorListReserve(shape, n) {element_dtype=float}\n"
       "y = TensorListStack(e, shape) {element_dtype=float}\n", "node 'y' (TensorListStack) takes 2147483647 items, more than 1000000 nodes"},
      {"n = Const() {dtype=int32, value=int32[]{2147483647}}\na = TensorArrayV3(n) {dtype=float}\n"
       "y = TensorArrayConcatV3(a, a:1) {dtype=float}\n", "node 'y' (TensorArrayConcatV3) takes 2147483647 items, more than 1000000 nodes"},
      {"e = Enter(i) {T=int32, frame_name=\"f\"}\nm = Merge(e, back) {T=int32, N=2}\nc = LoopCond(m)\ns = Switch(m, c) {T=int32}\n"
       "out = Exit(s) {T=int32}\nn = Neg(out) {T=int32}\nagain = Enter(n) {T=int32, frame_name=\"f\"}\nback = NextIteration(again) {T=int32}\n",
       "a loop takes in what comes out of it: loop 'f' -> node 'n' -> loop 'f'"},
      {"e = Enter(i) {T=int32, frame_name=\"f\"}\nm = Merge(e, back) {T=int32, N=2}\nc = LoopCond(m)\ns = Switch(m, c) {T=int32}\n"
       "out = Exit(s) {T=int32}\nagain = Enter(out) {T=int32, frame_name=\"f\"}\nback = NextIteration(again) {T=int32}\n",
       "a loop takes in what comes out of it: loop 'f' -> loop 'f'"},
  };
  for (const auto& [nodes, message] : cases) {
    Graph graph;
    const absl::Status status = UnrollWith(nodes, &graph).status();
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << nodes << status;
  }
}

TEST(UnrollLoops, FunctionsOfALoopTakeItsVariables) {
  absl::StatusOr<Graph> graph = ParseGraphText(
      "function c\n  i = _Arg() {T=int32, index=0}\n  n = _Arg() {T=int32, index=1}\n  t = Less(i, n) {T=int32}\n  r = _Retval(t) {T=bool, index=0}\nend\n"
      "function b\n  i = _Arg() {T=int32, index=0}\n  r = _Retval(i) {T=int32, index=0}\nend\n"
      "z = Const() {dtype=int32, value=int32[]{0}}\ny = StatelessWhile(z) {T=[int32], cond=&c, body=&b}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EvaluatingOracle oracle;
  const absl::Status status = UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {}).status();
  EXPECT_EQ(status.message(), "node 'y' (StatelessWhile): has 1 variables, and functions that take 2");
}

// What a frame's Merge takes of its second turn is an output that no node has; what says whether it goes on has no elements.
TEST(UnrollLoops, FramesOfWhatIsNotThereEnd) {
  for (const char* nodes : {"e = Enter(one) {T=int32, frame_name=\"f\"}\nm = Merge(e, n:5) {N=2, T=int32}\n"
                            "two = Const() ^m {dtype=int32, value=int32[]{2}}\nless = Less(m, two) {T=int32}\nc = LoopCond(less)\n"
                            "s = Switch(m, c) {T=int32}\nnext = AddV2(s:1, two) {T=int32}\nn = NextIteration(next) {T=int32}\nout = Exit(s) {T=int32}\n",
                            "e = Enter(one) {T=int32, frame_name=\"f\"}\nm = Merge(e, n) {N=2, T=int32}\n"
                            "none = Const() ^m {dtype=int32, value=int32[0]{}}\nc = LoopCond(none)\n"
                            "s = Switch(m, c) {T=int32}\nn = NextIteration(s:1) {T=int32}\nout = Exit(s) {T=int32}\n"}) {
    Graph graph;
    const absl::Status status = UnrollWith(nodes, &graph).status();
    EXPECT_TRUE(status.ok()) << nodes << status;
  }
}

// What follows from the loop enters it again, and nobody asks for it there.
TEST(UnrollLoops, WhatEntersLateMayLeadNowhere) {
  Graph graph;
  const absl::Status status = UnrollWith("no = Const() {dtype=bool, value=bool[]{false}}\ne = Enter(no) {T=bool, frame_name=\"f\"}\nc = LoopCond(e)\n"
                                         "h = Enter(x) {T=float, frame_name=\"f\"}\ns = Switch(h, c) {T=float}\nout = Exit(s) {T=float}\n"
                                         "y = Neg(out) {T=float}\nback = Enter(y) {T=float, frame_name=\"f\"}\nlost = Exp(back) {T=float}\n", &graph).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(graph.node(graph.Find("y")).inputs[0].node, graph.Find("x"));
}

// Each of them waits for itself, and for the one before it. They are parted at once: one after another, these took minutes.
TEST(UnrollLoops, ManyLoopsInPartsArePartedAtOnce) {
  std::string nodes = "x0 = Placeholder() {dtype=float, shape=shape[]}\nno = Const() {dtype=bool, value=bool[]{false}}\n";
  constexpr int kLoops = 1500;
  for (int i = 0; i < kLoops; ++i) {
    const std::string frame = absl::StrCat("frame_name=\"f", i, "\"");
    absl::StrAppend(&nodes, "e", i, " = Enter(no) {T=bool, ", frame, "}\nc", i, " = LoopCond(e", i, ")\n");
    std::string from = absl::StrCat("x", i);
    for (const char* part : {"a", "b"}) {
      absl::StrAppend(&nodes, part, i, " = Enter(", from, ") {T=float, ", frame, "}\ns_", part, i, " = Switch(", part, i, ", c", i, ") {T=float}\n");
      from = absl::StrCat("out_", part, i);
      absl::StrAppend(&nodes, from, " = Exit(s_", part, i, ") {T=float}\n");
    }
    absl::StrAppend(&nodes, "x", i + 1, " = Neg(", from, ") {T=float}\n");
  }
  absl::StatusOr<Graph> graph = ParseGraphText(nodes);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EvaluatingOracle oracle;
  const absl::Time begin = absl::Now();
  const absl::Status status = UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {}).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  EXPECT_EQ(graph->node(graph->Find(absl::StrCat("x", kLoops))).inputs[0].node, graph->Find(absl::StrCat("x", kLoops - 1)));
}

// Its turns make no nodes, so that their number is all that grows.
TEST(UnrollLoops, ALoopThatNeverEndsIsRefused) {
  const absl::Status status = EndlessLoop("  r = _Retval(i) {T=int32, index=0}\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(absl::StrContains(status.message(), "node 'y' (StatelessWhile): the graph's loops take more than 1000 turns (--max_unrolled_nodes)")) << status;
}

// The condition holds for every number of the other type, so that nothing else would end it soon.
TEST(UnrollLoops, VariablesOfLoopsKeepTheirTypes) {
  const absl::Status status = EndlessLoop("  n = Cast(i) {SrcT=int32, DstT=float}\n  r = _Retval(n) {T=float, index=0}\n");
  EXPECT_EQ(status.message(), "node 'y' (StatelessWhile): variable 0 is int32, and float after a turn");
}

// Each search passes the turns before, so one for each turn would make planning take time by their square.
TEST(UnrollLoops, TurnsThatAreAskedForAreNotSearchedOneByOne) {
  const auto unroll = [](const char* x, const QuestionOptions& questions) {
    const absl::StatusOr<Graph> parsed = ParseGraphText(absl::StrCat(
        "function c\n  x = _Arg() {T=float, index=0}\n  three = Const() {dtype=float, value=float[]{3}}\n"
        "  more = Greater(x, three) {T=float}\n  r = _Retval(more) {T=bool, index=0}\nend\n"
        "function b\n  x = _Arg() {T=float, index=0}\n  half = Const() {dtype=float, value=float[]{0.5}}\n"
        "  y = Mul(x, half) {T=float}\n  r = _Retval(y) {T=float, index=0}\nend\n"
        "v = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"v\"}\nf = _Feed() {dtype=float, shape=shape[], tensor=\"f:0\"}\n"
        "x = ", x, "\ny = StatelessWhile(x) {T=[float], cond=&c, body=&b}\n"));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    Graph graph = parsed->Clone();
    EvaluatingOracle oracle;
    return UnrollLoops(graph, OpRegistry::Builtin(), oracle, {.questions = questions});
  };
  constexpr char kOfAVariable[] = "ReadVariableOp(v) {dtype=float}", kOfAFeed[] = "Neg(f) {T=float}";
  constexpr int kTurns = 50;
  const absl::StatusOr<UnrollResult> asked = unroll(kOfAVariable, {.ask = true, .guesses = kTurns});
  ASSERT_TRUE(asked.ok()) << asked.status();
  ASSERT_EQ(asked->asked.size(), 1) << "the answers are not copied one by one";
  const std::vector<std::string> questions = QuestionsOf(asked->asked[0]);
  ASSERT_EQ(questions.size(), kTurns + 1);
  EXPECT_EQ(asked->searches, 0);
  QuestionOptions answers;
  for (int turn = 0; turn <= kTurns; ++turn) answers.answers[questions[turn]] = Tensor::Scalar<bool>(turn < kTurns);
  const absl::StatusOr<UnrollResult> answered = unroll(kOfAVariable, answers);
  ASSERT_TRUE(answered.ok()) << answered.status();
  EXPECT_EQ(answered->searches, 0);
  const absl::Status refused = unroll(kOfAVariable, {}).status();
  EXPECT_TRUE(NeedsAnswer(refused));
  EXPECT_TRUE(absl::StrContains(refused.message(), "variable 'v'")) << refused;
  EXPECT_EQ(NeededFeeds(unroll(kOfAFeed, {.ask = true, .guesses = kTurns}).status()), std::vector<std::string>{"f:0"});
}

// Names of scopes that look like those of loops and their conditions.
TEST(UnrollLoops, EveryRandomOpHasAStreamOfItsOwnOverAllTurns) {
  absl::StatusOr<Graph> graph = ParseGraphText(
      "function goes_on\n  i = _Arg() {T=int32, index=0}\n  n = Const() {dtype=int32, value=int32[]{2}}\n"
      "  one = Const() {dtype=int32, value=int32[1]{1}}\n  u = RandomUniform(one) {T=int32, dtype=float}\n"
      "  t = Less(i, n) {T=int32}\n  r = _Retval(t) {T=bool, index=0}\nend\n"
      "function draws\n  i = _Arg() {T=int32, index=0}\n  n = Const() {dtype=int32, value=int32[]{1}}\n"
      "  one = Const() {dtype=int32, value=int32[1]{1}}\n  cond/u = RandomUniform(one) {T=int32, dtype=float}\n"
      "  u = RandomUniform(one) {T=int32, dtype=float}\n  next = AddV2(i, n) {T=int32}\n  r = _Retval(next) {T=int32, index=0}\nend\n"
      "function one_in_b\n  i = _Arg() {T=int32, index=0}\n  n = Const() {dtype=int32, value=int32[]{1}}\n  z = Const() {dtype=int32, value=int32[]{0}}\n"
      "  b/c = While(z) {T=[int32], cond=&goes_on, body=&draws}\n  next = AddV2(i, n) {T=int32}\n  r = _Retval(next) {T=int32, index=0}\nend\n"
      "function another\n  i = _Arg() {T=int32, index=0}\n  n = Const() {dtype=int32, value=int32[]{1}}\n  z = Const() {dtype=int32, value=int32[]{0}}\n"
      "  c = While(z) {T=[int32], cond=&goes_on, body=&draws}\n  next = AddV2(i, n) {T=int32}\n  r = _Retval(next) {T=int32, index=0}\nend\n"
      "z = Const() {dtype=int32, value=int32[]{0}}\none = Const() {dtype=int32, value=int32[1]{1}}\n"
      "a/cond/u = RandomUniform(one) {T=int32, dtype=float}\n"
      "a = While(z) {T=[int32], cond=&goes_on, body=&one_in_b}\na/b = While(z) {T=[int32], cond=&goes_on, body=&another}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EvaluatingOracle oracle;
  const absl::StatusOr<UnrollResult> result = UnrollLoops(*graph, OpRegistry::Builtin(), oracle, {});
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, int> draws;
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    if (graph->alive(NodeId{i}) && node.op == "RandomUniform") ++draws[node.attrs.GetOr<std::string>(kStreamAttr, node.name)];
  }
  const std::map<std::string, int> expected = {
      {"a/cond/u", 1},
      {"a:cond:u", 3}, {"a:body:b/c:cond:u", 6}, {"a:body:b/c:body:u", 4}, {"a:body:b/c:body:cond/u", 4},
      {"a/b:cond:u", 3}, {"a/b:body:c:cond:u", 6}, {"a/b:body:c:body:u", 4}, {"a/b:body:c:body:cond/u", 4}};
  EXPECT_EQ(draws, expected);
}

TEST(UnrollLoops, CopiesOfManyItemsAreOfTheirOwn) {
  constexpr int64_t kMany = 5000;
  const auto index_at = [](const Items& items, int64_t i) { return items.at(i).missing() ? -1 : items.at(i).index; };
  std::vector<Items> grown(1);
  for (int64_t i = 0; i < kMany; ++i) {
    grown.push_back(grown.back());
    grown.back().PushBack(Value::Object(i));
  }
  for (const int64_t size : {int64_t{1}, int64_t{32}, int64_t{33}, int64_t{2048}, int64_t{2049}, kMany}) {
    ASSERT_EQ(grown[size].size(), size);
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(index_at(grown[size], i), i) << size;
  }
  Items changed = grown[kMany];
  EXPECT_TRUE(changed.SharesChunk(4000, grown[kMany]));
  changed.Set(4000, Value::Object(-2));
  EXPECT_EQ(index_at(changed, 4000), -2);
  EXPECT_EQ(index_at(grown[kMany], 4000), 4000);
  EXPECT_FALSE(changed.SharesChunk(4000, grown[kMany]));
  EXPECT_TRUE(changed.SharesChunk(4032, grown[kMany]));
  // What lay beyond the end is gone when it grows again.
  changed.Resize(2050);
  changed.Resize(kMany);
  EXPECT_EQ(index_at(changed, 2049), 2049);
  EXPECT_EQ(index_at(changed, 2050), -1);
  EXPECT_TRUE(changed.LacksChunk(4000) && changed.LacksChunk(4900));
  EXPECT_EQ(index_at(grown[kMany], 2050), 2050);
  Items empty;
  empty.Resize(kMany);
  EXPECT_TRUE(empty.LacksChunk(0));
  empty.Set(4999, Value());
  EXPECT_TRUE(empty.LacksChunk(4999));
}

TEST(UnrollLoops, TheStatusHoldsTheFeedsThatWouldHelp) {
  Graph graph;
  const absl::Status status = UnrollWith("f = _Feed() {dtype=int32, shape=shape[], tensor=\"length:0\"}\n"
                                         "y = TensorListReserve(shape, f) {element_dtype=float}\n", &graph).status();
  EXPECT_EQ(NeededFeeds(status), std::vector<std::string>{"length:0"});
  EXPECT_TRUE(NeededFeeds(UnrollWith("y = TensorListReserve(shape, i) {element_dtype=float}\n", &graph).status()).empty());
}

}  // namespace
}  // namespace millrace
