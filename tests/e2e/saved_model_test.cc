// SavedModels whose own initialisation (TensorFlow 1's main op) needs what the model has saved, or what is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "program.h"

namespace millrace {
namespace {

using testing::HasSubstr;

std::string Attr(const std::string& key, const std::string& value) { return absl::StrCat("attr { key: '", key, "' value { ", value, " } } "); }

std::string NodeText(const std::string& name, const std::string& op, const std::vector<std::string>& inputs, const std::string& attrs) {
  std::string text = absl::StrCat("node { name: '", name, "' op: '", op, "' ");
  for (const std::string& input : inputs) absl::StrAppend(&text, "input: '", input, "' ");
  return absl::StrCat(text, attrs, "}\n");
}

std::string ConstText(const std::string& name, const std::string& type, const std::string& value) {
  return NodeText(name, "Const", {}, Attr("dtype", "type: " + type) + Attr("value", absl::StrCat("tensor { dtype: ", type, " tensor_shape { ", value, " }")));
}

// n is 3, saved; `w` has as many elements, or what a file holds, once the model is initialised.
class SavedModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string type = Attr("dtype", "type: DT_INT32");
    graph_ = NodeText("n", "VarHandleOp", {}, type + Attr("shape", "shape { }")) +
             NodeText("w", "VarHandleOp", {}, Attr("dtype", "type: DT_FLOAT") + Attr("shape", "shape { unknown_rank: true }")) +
             ConstText("three", "DT_INT32", "} int_val: 3") + NodeText("set_n", "AssignVariableOp", {"n", "three"}, type) +
             NodeText("read", "ReadVariableOp", {"n"}, type);
    program_.Write("graph.pbtxt", graph_);
    std::filesystem::create_directories(program_.Path("model/variables"));
    const Outcome saved = program_.Run({"run", "--graph=" + program_.Path("graph.pbtxt"), "--fetches=read:0", "--init_targets=set_n",
                                        "--checkpoint_out=" + program_.Path("model/variables/variables")});
    ASSERT_EQ(saved.exit_status, 0) << saved.err;
  }

  Outcome RunWith(const std::string& initialisation) {
    const std::string saver = NodeText("file", "Placeholder", {}, Attr("dtype", "type: DT_STRING") + Attr("shape", "shape { }")) +
                              ConstText("keys", "DT_STRING", "dim { size: 1 } } string_val: 'n'") +
                              ConstText("slices", "DT_STRING", "dim { size: 1 } } string_val: ''") +
                              NodeText("saved", "RestoreV2", {"file", "keys", "slices"}, Attr("dtypes", "list { type: DT_INT32 }")) +
                              NodeText("set_saved", "AssignVariableOp", {"n", "saved"}, Attr("dtype", "type: DT_INT32")) +
                              NodeText("restore", "NoOp", {"^set_saved"}, "");
    program_.Write("model/saved_model.pbtxt",
                   absl::StrCat("meta_graphs { meta_info_def { tags: 'serve' } graph_def {\n", graph_, saver, initialisation,
                                "} saver_def { filename_tensor_name: 'file:0' restore_op_name: 'restore' save_tensor_name: 'file:0' version: V2 }\n"
                                "collection_def { key: 'saved_model_main_op' value { node_list { value: 'main' } } }\n"
                                "signature_def { key: 'serving_default' value { outputs { key: 'n' value { name: 'read:0' dtype: DT_INT32 tensor_shape { } } } } } }"));
    return program_.Run({"run", "--saved_model=" + program_.Path("model"), "--fetches=n"});
  }

  TestedProgram program_;
  std::string graph_;
};

TEST_F(SavedModelTest, IsInitialisedWithTheValuesThatItHas) {
  const Outcome outcome = RunWith(ConstText("axis", "DT_INT32", "} int_val: 0") + ConstText("half", "DT_FLOAT", "} float_val: 0.5") +
                                  NodeText("dims", "ExpandDims", {"read", "axis"}, Attr("T", "type: DT_INT32") + Attr("Tdim", "type: DT_INT32")) +
                                  NodeText("halves", "Fill", {"dims", "half"}, Attr("T", "type: DT_FLOAT") + Attr("index_type", "type: DT_INT32")) +
                                  NodeText("main", "AssignVariableOp", {"w", "halves"}, Attr("dtype", "type: DT_FLOAT")));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("losses         3\n"));
}

// `n` is the length of an asset, `positive` has nothing to do with it.
void WriteModelOfAnAsset(const TestedProgram& program, const std::string& folder) {
  std::filesystem::create_directories(program.Path(folder + "/assets"));
  program.Write(folder + "/assets/words.txt", "some\nwords");
  const std::string of_float = Attr("T", "type: DT_FLOAT");
  program.Write(folder + "/saved_model.pbtxt",
                absl::StrCat("meta_graphs { meta_info_def { tags: 'serve' } graph_def {\n", ConstText("words", "DT_STRING", "} string_val: ''"),
                             NodeText("content", "ReadFile", {"words"}, ""), NodeText("length", "StringLength", {"content"}, ""),
                             NodeText("x", "Placeholder", {}, Attr("dtype", "type: DT_FLOAT") + Attr("shape", "shape { dim { size: 2 } }")),
                             NodeText("relu", "Relu", {"x"}, of_float),
                             "} asset_file_def { tensor_info { name: 'words:0' } filename: 'words.txt' }\n"
                             "signature_def { key: 'n' value { outputs { key: 'n' value { name: 'length:0' dtype: DT_INT32 tensor_shape { } } } } }\n"
                             "signature_def { key: 'positive' value {\n"
                             "inputs { key: 'x' value { name: 'x:0' dtype: DT_FLOAT tensor_shape { dim { size: 2 } } } }\n"
                             "outputs { key: 'y' value { name: 'relu:0' dtype: DT_FLOAT tensor_shape { dim { size: 2 } } } } } } }"));
}

TEST(SavedModel, ReadsItsAssetsWhereItLies) {
  const TestedProgram program;
  WriteModelOfAnAsset(program, "model");
  const Outcome outcome = program.Run({"run", "--saved_model=" + program.Path("model"), "--signature=n"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("losses         10\n"));
}

TEST(SavedModel, IsTheSameGraphInAnotherFolder) {
  const TestedProgram program;
  for (const char* const folder : {"model", "moved"}) WriteModelOfAnAsset(program, folder);
  const auto run = [&](const char* folder, const std::string& signature, const std::string& plan) {
    return program.Run({"run", "--saved_model=" + program.Path(folder), "--signature=" + signature, "--synthetic_feeds", plan});
  };
  const std::string plan = program.Path("plan.pbtxt");
  for (const char* const signature : {"positive", "n"}) {
    ASSERT_EQ(run("model", signature, "--plan_out=" + plan).exit_status, 0);
    const Outcome moved = run("moved", signature, "--plan_in=" + plan);
    EXPECT_EQ(moved.exit_status, 0) << moved.err;
  }
  program.Write("moved/assets/words.txt", "others");
  const Outcome changed = run("moved", "n", "--plan_in=" + plan);
  EXPECT_EQ(changed.exit_status, 1);
  EXPECT_THAT(changed.err, HasSubstr("the plan does not compute what this graph does"));
}

TEST_F(SavedModelTest, RunsWithoutAnInitialisationThatReadsWhatIsNotThere) {
  const Outcome outcome = RunWith(ConstText("elsewhere", "DT_STRING", "} string_val: '/nowhere/file'") +
                                  NodeText("other", "RestoreV2", {"elsewhere", "keys", "slices"}, Attr("dtypes", "list { type: DT_INT32 }")) +
                                  NodeText("main", "AssignVariableOp", {"n", "other"}, Attr("dtype", "type: DT_INT32")));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("losses         3\n"));
  EXPECT_THAT(outcome.err, HasSubstr("the model's own initialisation is left out"));
}

}  // namespace
}  // namespace millrace
