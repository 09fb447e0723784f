// Variables of strings: what they hold is known where they are assigned once, with constants.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Of TensorFlow 2. Where each fed word is among those of the variable.
constexpr char kResource[] = R"(
first = Const() {dtype=string, value=string[1]{"oak"}}
others = Const() {dtype=string, value=string[2]{"fig", "elm"}}
axis = Const() {dtype=int32, value=int32[]{0}}
names = ConcatV2(first, others, axis) {T=string, N=2, Tidx=int32}
v = VarHandleOp() {dtype=string, shape=shape[3], shared_name="v"}
assign = AssignVariableOp(v, names) {dtype=string}
there = VarIsInitializedOp(v)
read = ReadVariableOp(v) {dtype=string}
word = Placeholder() {dtype=string, shape=shape[]}
same = Equal(read, word) {T=string}
lengths = StringLength(read) {unit="BYTE"}
w = VarHandleOp() {dtype=float, shape=shape[], shared_name="w"}
one = Const() {dtype=float, value=float[]{1}}
init = NoOp() ^assign ^set
set = AssignVariableOp(w, one) {dtype=float}
)";

Tensor Word(const std::string& word) {
  Tensor tensor(DataType::kString, Shape());
  tensor.mutable_strings()[0] = word;
  return tensor;
}

std::string Refusal(const std::string& graph) {
  std::vector<Tensor> out;
  return SessionOf(graph)->Run({{"word", Word("fig")}}, {"same"}, {}, &out).ToString();
}

TEST(WordsInVariables, AreKnown) {
  const auto session = SessionOf(kResource);
  const absl::Status initialized = session->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(initialized.ok()) << initialized;
  for (const auto& [word, same] : std::map<std::string, std::vector<double>>{{"fig", {0, 1, 0}}, {"oak", {1, 0, 0}}, {"ash", {0, 0, 0}}}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"word", Word(word)}}, {"same", "lengths", "there"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Numbers(out[0]), same) << word;
    EXPECT_THAT(Numbers(out[1]), ElementsAre(3, 3, 3));
    EXPECT_TRUE(out[2].as<bool>()[0]);
  }
  const auto variables = session->Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_EQ(variables->size(), 2);
  EXPECT_EQ(variables->count("v/assigned"), 1) << "whether it is initialised";
}

TEST(WordsInVariables, AreInitialisedOnceTheyAreAssigned) {
  const std::string reference = absl::StrReplaceAll(kResource, {{"VarHandleOp() {dtype=string", "VariableV2() {dtype=string"},
                                                                {"AssignVariableOp(v, names) {dtype=string}", "Assign(v, names) {T=string}"},
                                                                {"VarIsInitializedOp(v)", "IsVariableInitialized(v) {dtype=string}"},
                                                                {"ReadVariableOp(v) {dtype=string}", "Identity(v) {T=string}"}});
  for (const std::string& graph : {std::string(kResource), reference}) {
    const auto session = SessionOf(absl::StrCat(graph, "of_names = StringLength(read) ^assign {unit=\"BYTE\"}\n"));
    for (const bool there : {false, true}) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run({}, {"there"}, {}, &out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(out[0].as<bool>()[0], there);
      const absl::Status assigned = session->Run({}, {"of_names"}, {}, &out);
      ASSERT_TRUE(assigned.ok()) << assigned;
    }
  }
}

TEST(WordsInVariables, AreKnownInThoseOfTensorFlow1) {
  const auto session = SessionOf(absl::StrReplaceAll(kResource, {{"VarHandleOp() {dtype=string", "VariableV2() {dtype=string"},
                                                                 {"AssignVariableOp(v, names) {dtype=string}", "Assign(v, names) {T=string}"},
                                                                 {"VarIsInitializedOp(v)", "IsVariableInitialized(v) {dtype=string}"},
                                                                 {"ReadVariableOp(v) {dtype=string}", "Identity(v) {T=string}"}}));
  const absl::Status initialized = session->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(initialized.ok()) << initialized;
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"word", Word("elm")}}, {"same", "there"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 0, 1));
  EXPECT_TRUE(out[1].as<bool>()[0]);
}

TEST(WordsInVariables, ThatAreNotKnownAreRefusedByName) {
  EXPECT_THAT(Refusal(absl::StrCat(kResource, "again = AssignVariableOp(v, names) {dtype=string}\n")),
              AllOf(HasSubstr("'read'"), HasSubstr("variable 'v' of strings is assigned by 'assign' and by 'again'")));
  EXPECT_THAT(Refusal(absl::StrReplaceAll(kResource, {{"first = Const() {dtype=string, value=string[1]{\"oak\"}}",
                                                       "first = Placeholder() {dtype=string, shape=shape[1]}"}})),
              HasSubstr("gets by 'assign' what is not known when the graph is planned"));
  EXPECT_THAT(Refusal(absl::StrReplaceAll(kResource, {{"assign = AssignVariableOp(v, names) {dtype=string}", "assign = NoOp()"}})),
              HasSubstr("is assigned nowhere in the graph"));
}

constexpr char kSets[] = R"(
function sets ^set
  h = _Arg() {T=resource, index=0}
  words = Const() {dtype=string, value=string[3]{"a", "b", "c"}}
  set = AssignVariableOp(h, words) {dtype=string}
  seven = Const() {dtype=int32, value=int32[]{7}}
  r = _Retval(seven) {T=int32, index=0}
end
function does_not
  h = _Arg() {T=resource, index=0}
  eight = Const() {dtype=int32, value=int32[]{8}}
  r = _Retval(eight) {T=int32, index=0}
end
)";

// Whether it was set is known in no other step.
TEST(WordsInVariables, ThatABranchMayAssignAreNotKnown) {
  const std::string branch = R"(
larger = Greater(of_w, one) {T=float}
of_w = ReadVariableOp(w) {dtype=float}
chosen = If(larger, v) {Tcond=bool, Tin=[resource], Tout=[int32], then_branch=&sets, else_branch=&does_not}
)";
  EXPECT_THAT(Refusal(absl::StrCat(kSets, kResource, branch)), HasSubstr("is assigned by 'assign' and by 'chosen'"));
  EXPECT_EQ(Refusal(absl::StrCat(kSets, kResource, absl::StrReplaceAll(branch, {{"&sets", "&does_not"}}))), "OK");
}

TEST(WordsInVariables, AreReadAsAWholeOnly) {
  const std::string gather = "which = Const() {dtype=int32, value=int32[1]{1}}\ngathered = ResourceGather(v, which) {dtype=string, Tindices=int32}\n"
                             "length = StringLength(gathered) {unit=\"BYTE\"}\n";
  std::vector<Tensor> out;
  EXPECT_THAT(SessionOf(absl::StrCat(kResource, gather))->Run({}, {"length"}, {}, &out).ToString(),
              AllOf(HasSubstr("'gathered' (ResourceGather)"), HasSubstr("variable 'v' of strings can only be read as a whole")));
}

// As --checkpoint_in declares them.
TEST(WordsInVariables, OfACheckpointAreTheCheckpoints) {
  const std::string restored = absl::StrReplaceAll(kResource, {{"shared_name=\"v\"", "shared_name=\"v\", _words=string[3]{\"yew\", \"ivy\", \"fig\"}"}});
  std::vector<Tensor> out;
  const absl::Status status = SessionOf(restored)->Run({{"word", Word("fig")}}, {"same"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 0, 1));
  ASSERT_TRUE(SessionOf(restored)->Run({}, {"there"}, {}, &out).ok());
  EXPECT_TRUE(out[0].as<bool>()[0]);
  EXPECT_THAT(SessionOf(restored)->Run({{"word", Word("fig")}}, {"same"}, {"assign"}, &out).ToString(),
              HasSubstr("comes from a checkpoint, and the same step assigns it"));
  EXPECT_TRUE(absl::IsUnimplemented(SessionOf(kResource)->SetVariable("v", Word("fig"))));
}

}  // namespace
}  // namespace millrace
