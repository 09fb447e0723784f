// What may be fed to a step and set between steps, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// w goes up by two with every run of "add".
const char* const kVariable = R"(
w = VarHandleOp() {dtype=float, shape=shape[2], shared_name="w"}
two = Const() {dtype=float, value=float[2]{2, 2}}
init = AssignVariableOp(w, two) {dtype=float}
before = ReadVariableOp(w) {dtype=float}
add = AssignAddVariableOp(w, two) ^before {dtype=float}
train = NoOp() ^add
)";

// What tf.cond makes of an iterator's get_next_as_optional; where there is no element, zeros.
const char* const kNextAsOptional = R"(
function given
  o = _Arg() {T=variant, index=0}
  parts = OptionalGetValue(o) {output_types=[float, int64], output_shapes=[shape[2], shape[]]}
  r = _Retval(parts) {T=float, index=0}
  s = _Retval(parts:1) {T=int64, index=1}
end
function none
  o = _Arg() {T=variant, index=0}
  zeros = Const() {dtype=float, value=float[2]{0, 0}}
  zero = Const() {dtype=int64, value=int64[]{0}}
  r = _Retval(zeros) {T=float, index=0}
  s = _Retval(zero) {T=int64, index=1}
end
it = IteratorV2() {output_types=[float, int64], output_shapes=[shape[2], shape[]]}
next = IteratorGetNextAsOptional(it) {output_types=[float, int64], output_shapes=[shape[2], shape[]]}
has = OptionalHasValue(next)
chosen = StatelessIf(has, next) {Tcond=bool, Tin=[variant], Tout=[float, int64], then_branch=&given, else_branch=&none}
x = Identity(chosen) {T=float}
n = Identity(chosen:1) {T=int64}
)";

TEST(Feeds, OfWhatAPipelineHandsOverInOneOptionalAreItsParts) {
  const auto session = SessionOf(kNextAsOptional);
  const Tensor x = Tensor::Vector<float>({3, 4}), n = Tensor::Scalar<int64_t>(5);
  std::vector<Tensor> out;
  absl::Status status = session->Run({{"next", x}, {"next:1", n}}, {"x", "n", "has"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(3, 4));
  EXPECT_EQ(out[1].IntAt(0), 5);
  EXPECT_TRUE(out[2].as<bool>()[0]);
  status = session->Run({{"next", x}, {"next:1", n}}, {"next", "next:1", "x"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(3, 4));
  EXPECT_EQ(out[1].IntAt(0), 5);
  EXPECT_THAT(out[2].as<float>(), ElementsAre(3, 4));
  status = session->Run({{"next:1", n}}, {"next:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].IntAt(0), 5);
  const auto refusal = [&](const Session::Feeds& feeds) { return std::string(session->Run(feeds, {"x"}, {}, &out).message()); };
  EXPECT_THAT(refusal({}), HasSubstr("'next:0', 'next:1', is not fed"));
  EXPECT_THAT(refusal({{"next:0", x}}), HasSubstr("'next:1' is not fed, but others of the 2 tensors"));
  EXPECT_THAT(refusal({{"next:0", x}, {"next:1", x}}), HasSubstr("feed 'next:1' has type float[2], expected int64[]"));
  EXPECT_THAT(refusal({{"next:0", x}, {"next:1", n}, {"next:2", n}}), HasSubstr("hands over 2 tensors"));
}

TEST(Feeds, OfTheHandleOfAVariableAreRefused) {
  const auto session = SessionOf(kVariable);
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  const Tensor fed = Tensor::Vector<float>({7, 7});
  std::vector<Tensor> out;
  for (const char* name : {"w", "w:0"}) {
    const absl::Status status = session->Run({{name, fed}}, {"before"}, {"train"}, &out);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is the handle of a variable, which cannot be fed: set the variable by SetVariable"));
  }
  ASSERT_TRUE(session->Run({{"before", fed}}, {"before"}, {"train"}, &out).ok()) << "what reads it may be fed";
  EXPECT_THAT(out[0].as<float>(), ElementsAre(7, 7));
  EXPECT_THAT(session->Variables()->at("w").as<float>(), ElementsAre(4, 4));
}

// As in TensorFlow 1, where what takes the reference for its value takes what is fed.
TEST(Feeds, OfAReferenceAreReadButNotWritten) {
  const auto session = SessionOf(R"(
w = VariableV2() {dtype=float, shape=shape[2]}
two = Const() {dtype=float, value=float[2]{2, 2}}
add = AssignAdd(w, two) {T=float}
same = RefIdentity(w) {T=float}
again = RefIdentity(same) {T=float}
add_to_same = AssignAdd(again, two) {T=float}
twice = Mul(w, two) {T=float}
)");
  const Session::Feeds feeds = {{"w", Tensor::Vector<float>({7, 8})}};
  std::vector<Tensor> out;
  const absl::Status read = session->Run(feeds, {"twice"}, {}, &out);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(14, 16));
  for (const std::string add : {"add", "add_to_same"}) {
    const absl::Status written = session->Run(feeds, {"twice"}, {add}, &out);
    EXPECT_TRUE(absl::IsInvalidArgument(written)) << written;
    EXPECT_THAT(std::string(written.message()), HasSubstr("node '" + add + "' (AssignAdd) writes its input 0, 'w', which is fed, expected a variable"));
  }
}

TEST(Feeds, OfNodesWithoutOutputsAreRefused) {
  const auto session = SessionOf(kVariable);
  for (const char* name : {"train", "init"}) {
    const absl::Status status = session->Run({{name, Tensor::Scalar<float>(1)}}, {}, {"init"}, nullptr);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no outputs"));
  }
}

TEST(Feeds, OfWhatIsGivenBesideAWriteArePassedOverWhereNothingTakesThem) {
  const auto session = SessionOf(R"(
n = VariableV2() {dtype=int32, shape=shape[]}
zero = Const() {dtype=int32, value=int32[]{0}}
init = Assign(n, zero) {T=int32}
count = CountUpTo(n) {T=int32, limit=5}
more = AddV2(count, zero) {T=int32}
)");
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  const Session::Feeds feeds = {{"count", Tensor::Scalar<int32_t>(3)}};
  std::vector<Tensor> out;
  for (const std::vector<std::string>& fetches : {std::vector<std::string>{"n"}, {"n", "more"}, {"n", "count"}}) {
    const absl::Status ran = session->Run(feeds, fetches, {}, &out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(out[0].IntAt(0), 0);
    EXPECT_EQ(out.back().IntAt(0), fetches.size() == 1 ? 0 : 3);
  }
}

TEST(Feeds, OfPlaceholdersThatAreTargetsAreEnoughForThem) {
  const auto session = SessionOf("p = Placeholder() {dtype=float, shape=shape[2]}\nn = Neg(p) {T=float}\n");
  const Session::Feeds feeds = {{"p", Tensor::Vector<float>({1, 2})}};
  std::vector<Tensor> out;
  for (const std::vector<std::string>& fetches : {std::vector<std::string>{}, {"p"}, {"n"}}) {
    const absl::Status ran = session->Run(feeds, fetches, {"p"}, &out);
    EXPECT_TRUE(ran.ok()) << ran;
  }
  EXPECT_THAT(out[0].as<float>(), ElementsAre(-1, -2));
  EXPECT_THAT(std::string(session->Run({}, {}, {"p"}, &out).message()), HasSubstr("placeholder 'p'"));
}

TEST(Feeds, OfWhatWasMovedFromAreRefused) {
  const auto session = SessionOf("p = Placeholder() {dtype=float, shape=shape[]}\nn = Neg(p) {T=float}\n");
  Tensor tensor = Tensor::Scalar<float>(3);
  std::vector<Tensor> out;
  Session::Feeds first, second;
  first["p"] = std::move(tensor);
  ASSERT_TRUE(session->Run(first, {"n"}, {}, &out).ok());
  for (const char* name : {"p", "n"}) {
    second = {{name, std::move(tensor)}};
    const absl::Status status = session->Run(second, {"n"}, {}, &out);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("feed '", name, "' is no tensor")));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(session->SetVariable("v", tensor)));
}

TEST(Feeds, OfAPlaceholderDoNotStandForAnOutputThatItDoesNotHave) {
  absl::StatusOr<Graph> graph = ParseGraphText("p = Placeholder() {dtype=float, shape=shape[2]}\nn = Neg(p) {T=float}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph->mutable_node(graph->Find("n")).inputs[0].index = 5;
  const auto session = testing::OpenSession(*std::move(graph));
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Run({{"p", Tensor::Vector<float>({1, 2})}}, {"n"}, {}, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'n' (Neg) takes output 5 of 'p' (Placeholder), which has 1"));
}

TEST(Values, OfAWrongTypeCanBeSetAnewBeforeAStepHasUsedThem) {
  const auto session = SessionOf(kVariable);
  ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<double>({1, 2, 3})).ok());
  EXPECT_FALSE(session->Run({}, {"before"}, {}, nullptr).ok());
  const absl::Status set = session->SetVariable("w", Tensor::Vector<float>({1, 2}));
  ASSERT_TRUE(set.ok()) << set;
  std::vector<Tensor> out;
  const absl::Status ran = session->Run({}, {"before"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(session->SetVariable("w", Tensor::Vector<double>({1, 2, 3})).ok());
}

// A plan that was made for the type goes with it.
TEST(Values, OfVariablesThatTheGraphDoesNotGiveAShapeCanBeSetAnew) {
  const auto session = SessionOf("w = VarHandleOp() {dtype=float, shared_name=\"w\"}\nread = ReadVariableOp(w) {dtype=float}\n");
  ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<float>({1, 2, 3})).ok());
  ASSERT_TRUE(session->Plan({}, {"read"}, {}).ok());
  ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<float>({4, 5})).ok());
  std::vector<Tensor> out;
  const absl::Status ran = session->Run({}, {"read"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(4, 5));
}

// Nor does one stay that has nothing of the variable but its shape.
TEST(Values, OfAnotherShapeChangeWhatIsMadeOfTheShapeAlone) {
  const auto session = SessionOf("w = VarHandleOp() {dtype=float, shared_name=\"w\"}\nshape = VariableShape(w) {out_type=int32}\n");
  for (const std::vector<float>& value : {std::vector<float>{1, 2, 3}, {4, 5}}) {
    ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<float>(value)).ok());
    std::vector<Tensor> out;
    const absl::Status ran = session->Run({}, {"shape"}, {}, &out);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(out[0].as<int32_t>(), ElementsAre(static_cast<int32_t>(value.size())));
  }
}

// Initializers start them: some put that among those of tables.
TEST(Feeds, APipelineNeedNotBeStarted) {
  const auto session = SessionOf(R"(
from = Const() {dtype=float, value=float[2,2]{0, 0, 0, 0}}
rows = TensorSliceDataset(from) {Toutput_types=[float], output_shapes=[shape[2]]}
it = IteratorV2() {output_types=[float], output_shapes=[shape[2]]}
start = MakeIterator(rows, it) ^assign
w = VarHandleOp() {dtype=float, shape=shape[2]}
two = Const() {dtype=float, value=float[2]{2, 3}}
assign = AssignVariableOp(w, two) {dtype=float}
row = IteratorGetNext(it) {output_types=[float], output_shapes=[shape[2]]}
read = ReadVariableOp(w) {dtype=float}
y = Mul(row, read) {T=float}
)");
  absl::Status status = session->Run({}, {}, {"start"}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  status = session->Run({{"row", Tensor::Vector<float>({1, 2})}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].as<float>(), ElementsAre(2, 6)) << "what it waits for has run";
  EXPECT_THAT(session->Run({}, {"y"}, {"start"}, &out).message(), HasSubstr("IteratorGetNext (1x, first at 'row')"));
}

// Initializers may be functions.
TEST(Feeds, APipelineInAFunctionNeedNotBeStarted) {
  const auto session = SessionOf(R"(
function start ^make ^tell
  w = _Arg() {T=resource, index=0}
  it = _Arg() {T=resource, index=1}
  two = Const() {dtype=float, value=float[2]{2, 3}}
  assign = AssignVariableOp(w, two) {dtype=float}
  read = ReadVariableOp(w) ^assign {dtype=float}
  rows = TensorSliceDataset(read) {Toutput_types=[float], output_shapes=[shape[]]}
  size = Const() {dtype=int64, value=int64[]{2}}
  drop = Const() {dtype=bool, value=bool[]{false}}
  batches = BatchDatasetV2(rows, size, drop) {output_types=[float], output_shapes=[shape[?]]}
  make = MakeIterator(batches, it)
  tell = AssignAddVariableOp(w, two) ^make {dtype=float}
end
w = VarHandleOp() {dtype=float, shape=shape[2]}
it = IteratorV2() {output_types=[float], output_shapes=[shape[?]]}
init = StatefulPartitionedCall(w, it) {Tin=[resource, resource], Tout=[], f=&start}
y = ReadVariableOp(w) {dtype=float}
)");
  const absl::Status status = session->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {"y"}, {}, &out).ok());
  EXPECT_THAT(out[0].as<float>(), ElementsAre(4, 6));
}

// TensorFlow's values: the step reads the rows, though no one takes them.
TEST(Feeds, WhatComesBeforeAPipelineRuns) {
  const auto session = SessionOf(R"(
w = VarHandleOp() {dtype=float, shape=shape[2]}
one = Const() {dtype=float, value=float[2]{1, 2}}
add = AssignAddVariableOp(w, one) {dtype=float}
read = ReadVariableOp(w) ^add {dtype=float}
x = Placeholder() {dtype=float, shape=shape[2]}
sum = Add(read, x) {T=float}
name = Const() ^add {dtype=string, value=string[]{"a"}}
rows = TensorSliceDataset(sum) {Toutput_types=[float], output_shapes=[shape[]]}
named = CacheDataset(rows, name) {output_types=[float], output_shapes=[shape[]]}
it = IteratorV2() {output_types=[float], output_shapes=[shape[]]}
start = MakeIterator(named, it)
after = ReadVariableOp(w) ^start {dtype=float}
from_x = TensorSliceDataset(x) {Toutput_types=[float], output_shapes=[shape[]]}
start_x = MakeIterator(from_x, it)
name_start = TensorSliceDataset(name) {Toutput_types=[string], output_shapes=[shape[]]}
start_name = MakeIterator(name_start, it)
after_name = ReadVariableOp(w) ^start_name {dtype=float}
)");
  ASSERT_TRUE(session->SetVariable("w", Tensor::Vector<float>({1, 1})).ok());
  const Tensor x = Tensor::Vector<float>({0, 0});
  std::vector<Tensor> out;
  for (const float expected : {2.0f, 3.0f}) {
    const absl::Status status = session->Run({{"x", x}}, {"after"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].DoubleAt(0), expected);
  }
  absl::Status status = session->Run({}, {"after_name"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(0), 4) << "by a control edge to what leads there";
  status = session->Run({{"x", x}}, {}, {"start_x"}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  for (const char* start : {"start", "start_x"}) {
    EXPECT_THAT(session->Run({}, {}, {start}, nullptr).message(), HasSubstr("placeholder 'x' (float[2]) is needed")) << start;
  }
}

TEST(Feeds, WhatAnUnsupportedOpMakesCanBeFed) {
  const auto session = SessionOf(R"(
rows = OneShotIterator() {dataset_factory="f"}
row = IteratorGetNext(rows) {output_types=[float], output_shapes=[shape[2]]}
y = Neg(row) {T=float}
)");
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({}, {"y"}, {}, &out).message(), AllOf(HasSubstr("IteratorGetNext (1x, first at 'row')"), HasSubstr("'row:0'")));
  const absl::Status status = session->Run({{"row:0", Tensor::Vector<float>({1, 2})}}, {"y"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(1), -2);
}

// A loop over what an op makes that Millrace has not: the op is what is missing, not the loop's turns.
TEST(Feeds, OfLoopsOverWhatAnUnsupportedOpMakesNameTheOp) {
  const auto session = SessionOf(R"(
rows = Const() {dtype=int64, value=int64[3]{0, 1, 2}}
x = Const() {dtype=float, value=float[2]{1, 2}}
found = LookupVariants(rows, x) {T=float}
shape = Const() {dtype=int32, value=int32[0]{}}
list = TensorListFromTensor(found, shape) {element_dtype=variant, shape_type=int32}
count = TensorListLength(list)
)");
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({}, {"count"}, {}, &out).message(), HasSubstr("LookupVariants"));
}

TEST(Values, OfMoreBytesThanThereAreNumbersDoNotFit) {
  const auto session = SessionOf(
      "w = VarHandleOp() {dtype=float, shape=shape[2147483647,2147483647,2147483647], shared_name=\"w\"}\nread = ReadVariableOp(w) {dtype=float}\n");
  const absl::Status status = session->Run({}, {"read"}, {}, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not fit: variable 'w' is float[2147483647,2147483647,2147483647]"));
}

}  // namespace
}  // namespace millrace
