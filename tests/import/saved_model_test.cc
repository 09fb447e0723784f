#include "import/saved_model.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testlib/logged.h"
#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "graph/variable_name.h"
#include "import/graph_export.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::string DataPath(const std::string& name) { return MILLRACE_SOURCE_DIR "/tests/import/data/" + name; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string InfosText(const std::map<std::string, SavedSignature::Info>& infos) {
  std::string text;
  for (const auto& [key, info] : infos) absl::StrAppend(&text, " ", key, "=", info.tensor, ":", info.type.ToString());
  return text;
}

double SumOf(const Tensor& tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) sum += tensor.DoubleAt(i);
  return sum;
}

Tensor ValueOf(const SavedModel& model, const std::string& variable) {
  const absl::StatusOr<Tensor> value = model.checkpoint->Read(model.checkpoint_keys.at(variable));
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(Tensor());
}

TEST(SavedModel, SignaturesNameWhatToFeedAndFetch) {
  const absl::StatusOr<SavedModel> model = LoadSavedModel(DataPath("saved_model_mlp"));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->signatures.size(), 3);
  const SavedSignature& step = model->signatures.at("train_step");
  EXPECT_EQ(InfosText(step.inputs), " x=train_step_x:0:float[16,12] y=train_step_y:0:int32[16]");
  EXPECT_EQ(InfosText(step.outputs), " loss=StatefulPartitionedCall_1:0:float[]");
  const SavedSignature& predict = model->signatures.at("predict");
  EXPECT_EQ(InfosText(predict.inputs), " x=predict_x:0:float[?,12]");
  EXPECT_EQ(InfosText(predict.outputs), " probabilities=StatefulPartitionedCall:0:float[?,5]");
  EXPECT_THAT(model->signatures.at("__saved_model_init_op").targets, ElementsAre("NoOp"));
}

// Values are TensorFlow's: the variables of the loaded model, summed.
TEST(SavedModel, VariablesAreRestoredThroughTheModelsOwnRestoreFunction) {
  const absl::StatusOr<SavedModel> model = LoadSavedModel(DataPath("saved_model_mlp"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->checkpoint_keys.size(), 13);
  EXPECT_EQ(model->checkpoint_keys.at("hidden/kernel"), "parameters/0/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(model->checkpoint_keys.at("adam_m_3"), "moment1/0/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(ValueOf(*model, "adam_m_3").type().ToString(), "float[12,20]");
  EXPECT_EQ(ValueOf(*model, "step").type().ToString(), "int64[]");
  EXPECT_NEAR(SumOf(ValueOf(*model, "hidden/kernel")), 0.17980550159700215, 1e-5);
}

TEST(SavedModel, KerasModelsKeepOptimizerVariablesApart) {
  const absl::StatusOr<SavedModel> model = LoadSavedModel(DataPath("saved_model_keras_cnn"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->checkpoint_keys.size(), 30);
  EXPECT_FLOAT_EQ(ValueOf(*model, "adam/learning_rate").as<float>()[0], 0.005f);
  EXPECT_EQ(ValueOf(*model, "conv2/kernel").type().ToString(), "float[3,3,12,24]");
  EXPECT_EQ(model->checkpoint_extras.count("_CHECKPOINTABLE_OBJECT_GRAPH"), 1);
}

// The saver that restores by "all" from "file:0".
absl::StatusOr<CheckpointNames> NamesOfSaverIn(const Graph& graph) {
  proto::SaverDef saver;
  saver.set_restore_op_name("all");
  saver.set_filename_tensor_name("file:0");
  return NamesOfSaver(graph, saver);
}

TEST(SavedModel, ReferenceVariablesAreRestoredByTheSaversAssigns) {
  const absl::StatusOr<Graph> graph = ParseGraphText(
      "file = Placeholder() {dtype=string, shape=shape[]}\n"
      "w = VariableV2() {dtype=float, shape=shape[2]}\n"
      "b = VariableV2() {dtype=float, shape=shape[]}\n"
      "part = VariableV2() {dtype=float, shape=shape[1]}\n"
      "names = Const() {dtype=string, value=string[3]{\"bias\", \"weights\", \"part\"}}\n"
      "slices = Const() {dtype=string, value=string[3]{\"\", \"\", \"2 0,1\"}}\n"
      "restore = RestoreV2(file, names, slices)\n"
      "aw = Assign(w, restore:1)\n"
      "ab = Assign(b, restore)\n"
      "apart = Assign(part, restore:2)\n"
      "all = NoOp() ^aw ^ab ^apart\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto names = NamesOfSaverIn(*graph);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->variables, ElementsAre(std::pair("b", "bias"), std::pair("w", "weights")));
}

TEST(SavedModel, TablesAreRestoredByTheSaversImports) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
file = Placeholder() {dtype=string, shape=shape[]}
t = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
names = Const() {dtype=string, value=string[2]{"c-values", "c-keys"}}
slices = Const() {dtype=string, value=string[2]{"", ""}}
restore = RestoreV2(file, names, slices)
keys = Identity(restore:1)
import = LookupTableImportV2(t, keys, restore)
all = NoOp() ^import
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto names = NamesOfSaverIn(*graph);
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_EQ(names->tables.count("counts"), 1);
  EXPECT_EQ(names->tables.at("counts").keys, "c-keys");
  EXPECT_EQ(names->tables.at("counts").values, "c-values");
}

TEST(SavedModel, ErrorsSayWhatIsThere) {
  EXPECT_EQ(std::string(LoadSavedModel(DataPath("saved_model_mlp"), {"gpu", "train"}).status().message()),
            DataPath("saved_model_mlp") + "/saved_model.pb: no graph with tags {gpu, train}, there are {serve}");
  EXPECT_THAT(std::string(LoadSavedModel("/nowhere").status().message()), HasSubstr("/nowhere/saved_model.pb"));
  EXPECT_EQ(std::string(SavedModelFromBytes("", {"serve"}, "").status().message()),
            "no graphs, expected a TensorFlow SavedModel");
}

// Sparse tensors are three of the graph's; one signature names what the graph lacks, and the others can be run all the same.
TEST(SavedModel, AssetsArePathsAndUnreadSignaturesAreNamed) {
  const absl::StatusOr<SavedModel> model = SavedModelFromBytes(R"(
meta_graphs {
  meta_info_def { tags: "serve" }
  graph_def {
    node { name: "words" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "at" op: "Placeholder" attr { key: "dtype" value { type: DT_INT64 } } }
    node { name: "of" op: "Placeholder" attr { key: "dtype" value { type: DT_INT64 } } }
  }
  signature_def {
    key: "dense"
    value {
      inputs { key: "x" value { name: "x:0" dtype: DT_FLOAT tensor_shape { } } }
      outputs { key: "y" value { name: "y:0" dtype: DT_FLOAT tensor_shape { } } }
    }
  }
  signature_def {
    key: "sparse"
    value {
      inputs {
        key: "x"
        value {
          coo_sparse { values_tensor_name: "x:0" indices_tensor_name: "at:0" dense_shape_tensor_name: "of:0" }
          dtype: DT_FLOAT
          tensor_shape { dim { size: -1 } dim { size: 3 } }
        }
      }
      inputs { key: "ragged" value { composite_tensor { components { name: "x:0" } } } }
      outputs { key: "rows" value { composite_tensor { components { name: "y:0" } } } }
      outputs { key: "y" value { name: "y:0" dtype: DT_FLOAT tensor_shape { } } }
    }
  }
  signature_def { key: "strange" value { inputs { key: "z" value { name: "z:0" dtype: DT_FLOAT } } } }
  asset_file_def { tensor_info { name: "words:0" } filename: "words.txt" }
}
)", {"serve"}, "/models/m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->signatures.size(), 2);
  EXPECT_EQ(InfosText(model->signatures.at("dense").outputs), " y=y:0:float[]");
  const SavedSignature& sparse = model->signatures.at("sparse");
  EXPECT_EQ(InfosText(sparse.inputs), " x/dense_shape=of:0:int64[2] x/indices=at:0:int64[?,2] x/values=x:0:float[?]");
  EXPECT_EQ(InfosText(sparse.outputs), " y=y:0:float[]");
  EXPECT_EQ(std::string(sparse.unread_outputs.at("rows").message()), "'rows' is neither a dense nor a sparse tensor");
  EXPECT_EQ(std::string(sparse.unread_inputs.at("ragged").message()), "'ragged' is neither a dense nor a sparse tensor");
  EXPECT_EQ(sparse.unread_outputs.size() + sparse.unread_inputs.size(), 2);
  EXPECT_THAT(std::string(model->unread_signatures.at("strange").message()), HasSubstr("z"));
  const Node& words = model->graph.node(model->graph.Find("words"));
  EXPECT_EQ(words.op, "Const");
  EXPECT_EQ(words.attrs.GetOr<Tensor>("value", Tensor()).strings()[0], "/models/m/assets/words.txt");
  EXPECT_EQ(words.attrs.GetOr<std::string>("_asset_file", ""), "words.txt");
}

// As TensorFlow 1 writes them.
TEST(SavedModel, CollectionsTellAssetsAndTheMainOp) {
  proto::SavedModel saved;
  proto::MetaGraphDef& meta = *saved.add_meta_graphs();
  meta.mutable_meta_info_def()->add_tags("serve");
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
words = Placeholder() {dtype=string, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[]}
one = Const() {dtype=float, value=float[]{1}}
set = AssignVariableOp(w, one) {dtype=float}
table = HashTableV2() {key_dtype=string, value_dtype=int64}
keys = Const() {dtype=string, value=string[1]{"a"}}
values = Const() {dtype=int64, value=int64[1]{1}}
fill = InitializeTableV2(table, keys, values) {Tkey=string, Tval=int64}
fills = NoOp() ^fill
counts = MutableHashTableV2() {key_dtype=string, value_dtype=int64}
count = LookupTableInsertV2(counts, keys, values) {Tin=string, Tout=int64}
word = Placeholder() {dtype=string, shape=shape[1]}
count_more = LookupTableInsertV2(counts, word, values) {Tin=string, Tout=int64}
both = NoOp() ^fill ^set
path = VarHandleOp() {dtype=string, shape=shape[]}
set_path = AssignVariableOp(path, words) {dtype=string}
paths = NoOp() ^set_path ^both
strange = SomeOpOfOthers()
more = NoOp() ^paths ^strange
f = Identity(words) ^set ^set_path {T=string}
mixed = NoOp() ^f
unfed = Placeholder() {dtype=float, shape=shape[]}
set_unfed = AssignVariableOp(w, unfed) {dtype=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  *meta.mutable_graph_def() = *GraphToProto(*graph);
  const auto collection = [&](const char* key) {
    proto::MetaGraphDef::CollectionEntry& entry = *meta.add_collection_def();
    entry.set_key(key);
    return entry.mutable_value();
  };
  proto::AssetFileDef asset;
  asset.set_filename("words.txt");
  asset.mutable_tensor_info()->set_name("words:0");
  google::protobuf::Any& any = *collection("saved_model_assets")->mutable_any_list()->add_value();
  any.set_type_url("type.googleapis.com/tensorflow.AssetFileDef");
  any.set_value(asset.SerializeAsString());
  std::string& main_op = *collection("legacy_init_op")->mutable_node_list()->add_value();

  main_op = "both";
  absl::StatusOr<SavedModel> model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->init_targets, ElementsAre("both"));
  EXPECT_EQ(model->graph.node(model->graph.Find("words")).op, "Const");
  main_op = "paths";
  model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->init_targets, ElementsAre("both")) << "strings are no variable's";
  Logged told(google::GLOG_WARNING);
  for (const auto& [op, warning] : std::map<std::string, std::string>{
           {"more", "'strange' is left out: it uses SomeOpOfOthers, which is not supported"}, {"mixed", "'f' is left out: it sets strings, too"},
           {"set_unfed", "'set_unfed' is left out: "}, {"nowhere", "'nowhere' is left out: "}}) {
    main_op = op;
    told.lines.clear();
    model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->init_targets, op == "more" ? std::vector<std::string>{"both"} : std::vector<std::string>()) << op;
    EXPECT_THAT(told.lines, ElementsAre(HasSubstr("/models/m: the model's initialisation " + warning))) << op;
  }
  main_op = "count";
  model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->init_targets, ElementsAre("count")) << "steps change it";
  main_op = "fills";
  model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->init_targets, ElementsAre()) << "tables that are filled once need nothing to be run";
}

// What planning knows of a table of words it has without running anything; others are filled by what fills them, where they can be kept.
TEST(SavedModel, TablesOfWordsThatStepsChangeAreInitialised) {
  const auto loaded = [](const std::string& value_dtype, const std::string& more) {
    const absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat("table = MutableHashTableV2() {key_dtype=string, value_dtype=", value_dtype, R"(}
keys = Const() {dtype=string, value=string[1]{"a"}}
values = Const() {dtype=int64, value=int64[1]{1}}
words = Const() {dtype=string, value=string[1]{"b"}}
fill = LookupTableImportV2(table, keys, )", value_dtype == "string" ? "words" : "values", R"() {Tin=string, Tout=)", value_dtype, R"(}
main = NoOp() ^fill
x = Placeholder() {dtype=string, shape=shape[1]}
)", more));
    EXPECT_TRUE(graph.ok()) << graph.status();
    proto::SavedModel saved;
    proto::MetaGraphDef& meta = *saved.add_meta_graphs();
    meta.mutable_meta_info_def()->add_tags("serve");
    *meta.mutable_graph_def() = *GraphToProto(*graph);
    proto::MetaGraphDef::CollectionEntry& entry = *meta.add_collection_def();
    entry.set_key("saved_model_main_op");
    entry.mutable_value()->mutable_node_list()->add_value("main");
    const absl::StatusOr<SavedModel> model = SavedModelFromBytes(saved.SerializeAsString(), {"serve"}, "/models/m");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->init_targets : std::vector<std::string>();
  };
  const std::string insert = "more = LookupTableInsertV2(table, x, values) {Tin=string, Tout=int64}\n";
  const std::string restore = R"(
file = Placeholder() {dtype=string, shape=shape[]}
names = Const() {dtype=string, value=string[2]{"t-keys", "t-values"}}
slices = Const() {dtype=string, value=string[2]{"", ""}}
saved = RestoreV2(file, names, slices) {dtypes=[string, int64]}
restore = LookupTableImportV2(table, saved, saved:1) {Tin=string, Tout=int64}
)";
  Logged told(google::GLOG_WARNING);
  EXPECT_THAT(loaded("int64", ""), ElementsAre());
  EXPECT_THAT(loaded("int64", insert), ElementsAre("main"));
  EXPECT_THAT(told.lines, ElementsAre());
  EXPECT_THAT(loaded("int64", restore), ElementsAre());
  EXPECT_THAT(loaded("string", "more = LookupTableInsertV2(table, x, words) {Tin=string, Tout=string}\n"), ElementsAre());
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("'fill' is left out: it fills a table of strings"),
                                      HasSubstr("'fill' is left out: it fills a table of strings")));
}

// The children of the model's root: variables, but for the table, which is none.
constexpr const char* kObjects[] = {"rate", "none", "kernel", "table"};

// As Keras 3 writes them: the function takes "kernel" and "rate", the saver restores "Variable" and "other", and only the object graph
// tells where the values of the former are. Writes that to `dir`; without an object graph no checkpoint. `more`: of the graph.
void SaveBoundVariables(const std::string& dir, const std::optional<std::string>& object_graph, const std::string& more = "",
                        const std::vector<int>& taken_by_more = {}) {
  proto::SavedModel saved;
  proto::MetaGraphDef& meta = *saved.add_meta_graphs();
  meta.mutable_meta_info_def()->add_tags("serve");
  const absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(R"(
function more
  k = _Arg() {T=resource, index=0}
  product = ReadVariableOp(k) {dtype=float}
  y = _Retval(product) {T=float, index=0}
end
function step
  x = _Arg() {T=float, index=0}
  k = _Arg() {T=resource, index=1}
  r = _Arg() {T=resource, index=2}
  n = _Arg() {T=resource, index=3}
  s = _Arg() {T=resource, index=4}
  product = ReadVariableOp(k) {dtype=float}
  y = _Retval(product) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[]}
kernel = VarHandleOp() {dtype=float, shape=shape[], shared_name="kernel"}
rate = VarHandleOp() {dtype=float, shape=shape[], shared_name="rate"}
none = VarHandleOp() {dtype=float, shape=shape[], shared_name="none"}
rate_2 = VarHandleOp() {dtype=float, shape=shape[], shared_name="same rate"}
Variable = VarHandleOp() {dtype=float, shape=shape[], shared_name="Variable"}
other = VarHandleOp() {dtype=float, shape=shape[], shared_name="other"}
call = StatefulPartitionedCall(x, kernel, rate, none, rate_2) {Tin=[float, resource, resource, resource, resource], Tout=[float], f=&step}
file = Placeholder() {dtype=string, shape=shape[]}
names = Const() {dtype=string, value=string[3]{"layer/kernel", "layer/rate", "layer/other"}}
slices = Const() {dtype=string, value=string[3]{"", "", ""}}
restore = RestoreV2(file, names, slices) {dtypes=[float, float, float]}
set = AssignVariableOp(Variable, restore) {dtype=float}
set_other = AssignVariableOp(other, restore:2) {dtype=float}
all = NoOp() ^set ^set_other
)", more));
  ASSERT_TRUE(graph.ok()) << graph.status();
  *meta.mutable_graph_def() = *GraphToProto(*graph);
  meta.mutable_saver_def()->set_restore_op_name("all");
  meta.mutable_saver_def()->set_filename_tensor_name("file:0");
  auto& function = *meta.mutable_object_graph_def()->add_concrete_functions();
  function.set_key("step");
  for (const int object : {3, 1, 2, 1}) function.mutable_value()->add_bound_inputs(object);
  auto& another = *meta.mutable_object_graph_def()->add_concrete_functions();
  another.set_key("more");
  for (const int object : taken_by_more) another.mutable_value()->add_bound_inputs(object);
  auto& root = *meta.mutable_object_graph_def()->add_nodes();
  for (const char* name : kObjects) {
    auto& child = *root.add_children();
    child.set_local_name(name);
    child.set_node_id(meta.object_graph_def().nodes_size());
    proto::SavedObject& object = *meta.mutable_object_graph_def()->add_nodes();
    if (std::string_view(name) == "table") object.mutable_constant();
    else object.mutable_variable();
  }
  std::filesystem::create_directories(dir + "/variables");
  std::ofstream(dir + "/saved_model.pb", std::ios::binary) << saved.SerializeAsString();
  std::filesystem::remove(dir + "/variables/variables.index");
  if (!object_graph.has_value()) return;
  Tensor objects(DataType::kString, Shape());
  objects.mutable_strings()[0] = *object_graph;
  const absl::Status written =
      WriteCheckpoint(dir + "/variables/variables", {{"layer/kernel", Tensor::Scalar<float>(2)}, {"layer/rate", Tensor::Scalar<float>(3)},
                                                     {"layer/other", Tensor::Scalar<float>(4)}, {"_CHECKPOINTABLE_OBJECT_GRAPH", objects}});
  ASSERT_TRUE(written.ok()) << written;
}

// The same objects in another order, and some that are not there.
std::string ObjectsOfCheckpoint() {
  proto::TrackableObjectGraph objects;
  auto& root = *objects.add_nodes();
  const auto add = [&](const char* name, int32_t id) {
    auto& child = *root.add_children();
    child.set_local_name(name);
    child.set_node_id(id);
  };
  add("kernel", 1), add("rate", 2), add("table", 3), add("none", 1000), add("nothing", -7);
  for (const char* key : {"layer/kernel", "layer/rate", "layer/other"}) {
    auto& attribute = *objects.add_nodes()->add_attributes();
    attribute.set_name("VARIABLE_VALUE");
    attribute.set_checkpoint_key(key);
  }
  return objects.SerializeAsString();
}

std::string FolderOfBound() { return absl::StrCat(::testing::TempDir(), "/millrace_bound_variables_", getpid()); }

TEST(SavedModel, VariablesThatOnlyFunctionsTakeHaveTheValuesOfTheirObjects) {
  const std::string dir = FolderOfBound();
  SaveBoundVariables(dir, ObjectsOfCheckpoint());
  Logged told(google::GLOG_WARNING);
  const absl::StatusOr<SavedModel> model = LoadSavedModel(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->checkpoint_keys, ElementsAre(std::pair("kernel", "layer/kernel"), std::pair("other", "layer/other"), std::pair("rate", "layer/rate")));
  EXPECT_EQ(SumOf(ValueOf(*model, "kernel")), 2);
  const auto name_of = [&](const char* node) { return model->graph.node(model->graph.Find(node)).attrs.GetOr<std::string>("shared_name", ""); };
  EXPECT_EQ(name_of("Variable"), "kernel") << "they are one variable";
  EXPECT_EQ(name_of("rate_2"), "rate") << "and so are these";
  EXPECT_EQ(name_of("other"), "other");
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("variables: no value of none, which functions of the SavedModel use")));
  told.lines.clear();
  SaveBoundVariables(dir, "\xff");
  const absl::StatusOr<SavedModel> corrupt = LoadSavedModel(dir);
  ASSERT_TRUE(corrupt.ok()) << corrupt.status();
  EXPECT_THAT(corrupt->checkpoint_keys, ElementsAre(std::pair("Variable", "layer/kernel"), std::pair("other", "layer/other")));
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("variables: tensor '_CHECKPOINTABLE_OBJECT_GRAPH': "),
                                      HasSubstr("no value of kernel, none, rate, same rate, which functions")));
  std::filesystem::remove_all(dir);
}

// The model has none; that of another has its object graph.
TEST(SavedModel, ACheckpointThatIsNotTheModelsOwnHasValuesOfBoundVariablesToo) {
  const std::string dir = FolderOfBound(), other = dir + "_other";
  SaveBoundVariables(dir, std::nullopt);
  SaveBoundVariables(other, ObjectsOfCheckpoint());
  absl::StatusOr<SavedModel> model = LoadSavedModel(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->checkpoint, nullptr);
  const auto reader = OpenCheckpointReader(other + "/variables/variables");
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::Status added = AddBoundKeys(other, **reader, &*model);
  ASSERT_TRUE(added.ok()) << added;
  EXPECT_THAT(model->checkpoint_keys, ElementsAre(std::pair("kernel", "layer/kernel"), std::pair("other", "layer/other"), std::pair("rate", "layer/rate")));
  EXPECT_EQ(model->checkpoint_extras.count("_CHECKPOINTABLE_OBJECT_GRAPH"), 1);
  std::filesystem::remove_all(dir);
  std::filesystem::remove_all(other);
}

// Another function takes a variable that is restored, or one in a container, of another type, a constant, or an object that is not there.
TEST(SavedModel, VariablesOfOneObjectAreOneWhereTheyCanBe) {
  const std::string dir = FolderOfBound();
  struct Case {
    std::string node;
    int object;
    std::vector<std::string> names;  // of Variable, kernel and the node, without their containers
    std::string warning = "";
  };
  for (const Case& test : std::vector<Case>{
           {"a = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"a\"}\n", 3, {"a", "a", "a"}},
           {"a = VarHandleOp() {dtype=float, shape=shape[], container=\"c\"}\n", 3, {"c:a", "c:a", "c:a"}},
           {"a = VarHandleOp() {dtype=int32, shape=shape[], shared_name=\"z\"}\n", 3, {"kernel", "kernel", "z"}, "of different types, and stay apart"},
           {"a = Const() {dtype=float, value=float[]{1}}\n", 3, {"kernel", "kernel", "a"}},
           {"a = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"a\"}\n", 4, {"kernel", "kernel", "a"}},
           {"a = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"a\"}\n", 1000, {"kernel", "kernel", "a"}},
           {"a = VarHandleOp() {dtype=float, shape=shape[], shared_name=\"a\"}\n", -1, {"kernel", "kernel", "a"}},
           {"a = Identity(Variable) {T=resource}\n", 3, {"kernel", "kernel", "a"}},
       }) {
    SCOPED_TRACE(absl::StrCat(test.node, test.object));
    SaveBoundVariables(dir, ObjectsOfCheckpoint(), test.node + "use = StatefulPartitionedCall(a) {Tin=[resource], Tout=[float], f=&more}\n", {test.object});
    Logged told(google::GLOG_WARNING);
    const absl::StatusOr<SavedModel> model = LoadSavedModel(dir);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto name_of = [&](const char* node) { return VariableName(model->graph.node(model->graph.Find(node))); };
    EXPECT_THAT((std::vector{name_of("Variable"), name_of("kernel"), name_of("a")}), ElementsAreArray(test.names));
    EXPECT_EQ(told.lines.size(), test.warning.empty() ? 1 : 2);
    EXPECT_THAT(told.lines.back(), HasSubstr(test.warning));
  }
  const std::string restored = "use = StatefulPartitionedCall(Variable) {Tin=[resource], Tout=[float], f=&more}\n";
  SaveBoundVariables(dir, ObjectsOfCheckpoint(), restored, {3});
  const absl::StatusOr<SavedModel> model = LoadSavedModel(dir);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(VariableName(model->graph.node(model->graph.Find("kernel"))), "Variable") << "what is restored and taken keeps its name";
  EXPECT_EQ(model->checkpoint_keys.at("Variable"), "layer/kernel");
  std::filesystem::remove_all(dir);
}

TEST(SavedModel, TruncationsAreErrors) {
  const std::string whole = ReadFile(DataPath("saved_model_mlp/saved_model.pb"));
  ASSERT_TRUE(SavedModelFromBytes(whole, {"serve"}, "").ok());
  for (size_t length = 3; length < whole.size(); length += 97) {
    ASSERT_FALSE(SavedModelFromBytes(whole.substr(0, length), {"serve"}, "").ok()) << length;
  }
}

}  // namespace
}  // namespace millrace
