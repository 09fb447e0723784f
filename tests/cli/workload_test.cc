#include "cli/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/train.h"
#include "cli/variable_files.h"
#include "fake_session.h"
#include "graph/text.h"
#include "testlib/logged.h"
#include "millrace/status.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

class WorkloadTest : public testing::Test {
 protected:
  WorkloadTest() {
    options_.input.graph = "graph.pb";
    options_.input.targets = {"train"};
    options_.input.init_targets = {"init"};
  }

  void UseGraph(const std::string& text) {
    world_.environment.load_graph = [text](const std::string&) { return ParseGraphText(text); };
  }

  Options options_;
  FakeWorld world_;
};

TEST_F(WorkloadTest, CheckpointsNameVariablesWithoutTheirContainers) {
  world_.environment.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
a = VariableV2() {dtype=float, shape=shape[], container="c"}
b = VariableV2() {dtype=float, shape=shape[], container="c"}
d = VarHandleOp() {dtype=float, shape=shape[], shared_name="b"}
e = VarHandleOp() {dtype=float, shape=shape[], shared_name="f", container="c"}
)");
  };
  const Tensor value = Tensor::Scalar(1.0f);
  world_.saved["checkpoint"] = {{"a", value}, {"b", value}, {"c:b", value}, {"f", value}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values, testing::ElementsAre(testing::Key("b"), testing::Key("c:a"), testing::Key("c:b"), testing::Key("c:f")));
  EXPECT_THAT(workload->checkpoint_keys, testing::ElementsAre(testing::Pair("c:a", "a"), testing::Pair("c:f", "f")));
}

// Those of a SavedModel are all there.
TEST_F(WorkloadTest, WhatACheckpointHasNoValueOfIsWarnedOfInContainersToo) {
  UseGraph(R"(
a = VariableV2() {dtype=float, shape=shape[], container="c"}
b = VariableV2() {dtype=float, shape=shape[], container="c"}
)");
  world_.saved["checkpoint"] = {{"b", Tensor::Scalar(1.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  Logged told(google::GLOG_WARNING);
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values, testing::ElementsAre(testing::Key("c:b")));
  EXPECT_THAT(told.lines, testing::Contains("checkpoint: no value of c:a, which start as the init_targets leave them"));
  options_.input = {.saved_model = "folder", .checkpoint_in = "checkpoint"};
  EXPECT_EQ(LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).status().message(),
            "checkpoint: no layer/w/VALUE, the value of variable w");
}

TEST_F(WorkloadTest, PlaceholdersThatAreNeededAndNotFedAreWrongUsage) {
  UseGraph(R"(
x = Placeholder() {dtype=float, shape=shape[2]}
z = PlaceholderV2() {dtype=int32, shape=shape[]}
spare = Placeholder() {dtype=float, shape=shape[]}
y = AddV2(x, x) ^z
)");
  options_.input = {.graph = "graph.pb", .fetches = {"y:0"}};
  const absl::Status status = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).status();
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("not fed, but needed by the fetches and targets: x float[2], z int32[]; "));
  world_.environment.load_arrays = [](const std::string&) { return Arrays{{"x", Tensor::Vector<float>({1, 2})}, {"z", Tensor::Scalar<int32_t>(1)}}; };
  options_.input.feeds = "feeds.npz";
  EXPECT_TRUE(LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).ok());
}

TEST_F(WorkloadTest, FoldersOfSavedModelsAreNoGraphsAndFilesNoFolders) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / absl::StrCat("kinds_", getpid()), file = folder / "saved_model.pb";
  std::filesystem::create_directories(folder);
  std::ofstream(file) << "x";
  const auto refused = [&](const InputOptions& input, const char* message) {
    options_.input = input;
    const absl::Status loaded = LoadWorkload(input, FeedValues::kTypesOnly, world_.environment).status();
    for (const absl::Status& status : {loaded, InspectCommand(options_, world_.environment)}) {
      EXPECT_EQ(ExitStatus(status), kExitUsage) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
  };
  refused({.graph = folder, .fetches = {"y"}}, ": the folder of a SavedModel, which --saved_model takes");
  refused({.saved_model = file}, "/saved_model.pb: a file, expected the folder that holds saved_model.pb");
  std::filesystem::remove_all(folder);
}

TEST_F(WorkloadTest, ErrorsOfFilesAreWrongUsageWhereNoFileCanBeRead) {
  const auto refused = [](const std::string&) { return absl::InvalidArgumentError("refused"); };
  world_.environment.load_saved_model = refused;
  world_.environment.load_onnx = [](const std::string&, const OnnxOptions&) { return absl::InvalidArgumentError("refused"); };
  world_.environment.load_plan = refused;
  world_.environment.open_checkpoint_reader = refused;
  const auto exit_status = [&](auto change) {
    InputOptions input{.graph = "graph.pb", .targets = {"train"}};
    change(input);
    return ExitStatus(LoadWorkload(input, FeedValues::kTypesOnly, world_.environment).status());
  };
  const std::string folder = MILLRACE_SOURCE_DIR "/tests/import";
  const std::string file = folder + "/data/tensorflow.index";
  for (const auto& [path, expected] : {std::pair(file, kExitFailed), std::pair(file + "/missing", kExitUsage), std::pair(folder, kExitUsage)}) {
    EXPECT_EQ(exit_status([&, path = path](InputOptions& in) { in.plan_in = path; }), expected) << path;
    EXPECT_EQ(exit_status([&, path = path](InputOptions& in) { in.graph.clear(), in.onnx = path; }), expected) << path;
    EXPECT_EQ(exit_status([&, path = path](InputOptions& in) { in.checkpoint_in = path; }), expected) << path;
    world_.environment.load_arrays = refused;
    EXPECT_EQ(exit_status([&, path = path](InputOptions& in) { in.feeds = path; }), expected) << path;
    world_.environment.load_graph = refused;
    EXPECT_EQ(exit_status([&, path = path](InputOptions& in) { in.graph = path; }), expected) << path;
    world_.environment.load_graph = [](const std::string&) -> absl::StatusOr<MetaGraph> { return Graph(); };
  }
  EXPECT_EQ(exit_status([&](InputOptions& in) { in.graph.clear(), in.saved_model = folder; }), kExitUsage);
}

TEST_F(WorkloadTest, WhichPlansCanBeReadIsToldOfOthers) {
  world_.environment.load_plan = [](const std::string& path) { return absl::InvalidArgumentError(absl::StrCat(path, ": no plan.")); };
  const auto message = [&](const char* path) {
    const InputOptions input{.graph = "graph.pb", .targets = {"train"}, .plan_in = path};
    return std::string(LoadWorkload(input, FeedValues::kTypesOnly, world_.environment).status().message());
  };
  EXPECT_EQ(message("plan.txt"), "plan.txt: no plan; --plan_in reads what --plan_out=F.pb or F.pbtxt wrote");
  EXPECT_EQ(message("plan.pb"), "plan.pb: no plan.");
}

// In a process of its own, for the sake of those who may read all.
TEST(ExitStatusTest, OfAPipeThatCannotBeOpenedIsThatOfWrongUsage) {
  const std::string pipe = absl::StrCat(testing::TempDir(), "/workload_test_pipe_", getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const absl::Status refused = absl::InvalidArgumentError("refused");
  EXPECT_EQ(ExitStatus(AsInputError(refused, pipe)), kExitFailed);
  ASSERT_EQ(chmod(pipe.c_str(), 0), 0);
  const auto exit_without_rights = [&] {
    constexpr uid_t kNobody = 65534;
    if (getuid() == 0 && setuid(kNobody) != 0) std::exit(EXIT_FAILURE);
    std::exit(ExitStatus(AsInputError(refused, pipe)));
  };
  EXPECT_EXIT(exit_without_rights(), testing::ExitedWithCode(kExitUsage), "");
  unlink(pipe.c_str());
}

// The graph does not tell the shape of v.
TEST_F(WorkloadTest, ValuesAreOfTheTypesThatTheGraphDeclares) {
  UseGraph(R"(
w = VarHandleOp() {dtype=float, shape=shape[3]}
v = VariableV2() {dtype=float, shape=shape[?]}
)");
  options_.input.checkpoint_in = "checkpoint";
  options_.input.init_targets = {};
  const auto initialise = [&](const Tensor& value, const char* name) {
    world_.saved["checkpoint"] = {{name, value}};
    const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
    EXPECT_TRUE(workload.ok()) << workload.status();
    FakeSession session({}, world_.engine);
    return std::string(Initialise(*workload, session, [] { return false; }, /*own_is_left_out=*/false).message());
  };
  EXPECT_EQ(initialise(Tensor::Vector<float>({1, 2, 3}), "w"), "");
  EXPECT_EQ(initialise(Tensor::Vector<float>({1, 2}), "w"),
            "--checkpoint_in=checkpoint: variable 'w' is float[2], the graph declares float[3]");
  EXPECT_THAT(initialise(Tensor::Vector<int32_t>({1, 2, 3}), "w"), testing::EndsWith("'w' is int32[3], the graph declares float[3]"));
  EXPECT_THAT(initialise(Tensor::Vector<float>({1, 2}), "v"), HasSubstr("no variable v")) << "which is the fake session's answer";
}

TEST_F(WorkloadTest, WhatResourcesKeepIsNoStranger) {
  UseGraph(R"(
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
sums = ConditionalAccumulator() {dtype=float, shape=shape[]}
)");
  const Tensor bytes = Tensor::Vector<uint8_t>({0});
  world_.saved["checkpoint"] = {{"counts/table", bytes}, {"sums/accumulator", bytes}, {"table/table", bytes}};
  options_.input.checkpoint_in = "checkpoint";
  Logged told(google::GLOG_WARNING);
  ASSERT_TRUE(LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment).ok());
  EXPECT_THAT(told.lines, testing::ElementsAre("checkpoint: the graph has no variable table/table of the checkpoint"));
}

// Of which the saver restores variables from others' averages.
TEST_F(WorkloadTest, ASaversNamesWinOverTheVariables) {
  world_.environment.load_graph = [](const std::string&) -> absl::StatusOr<MetaGraph> {
    MR_ASSIGN_OR_RETURN(Graph graph, ParseGraphText(R"(
w = VarHandleOp() {dtype=float, shape=shape[]}
average = VarHandleOp() {dtype=float, shape=shape[]}
b = VarHandleOp() {dtype=float, shape=shape[]}
)"));
    MetaGraph meta(std::move(graph));
    meta.names.variables = {{"w", "average"}};
    return meta;
  };
  world_.saved["checkpoint"] = {{"w", Tensor::Scalar(1.0f)}, {"average", Tensor::Scalar(2.0f)}, {"b", Tensor::Scalar(3.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  Logged told(google::GLOG_WARNING);
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values, testing::ElementsAre(testing::Key("b"), testing::Key("w")));
  EXPECT_EQ(workload->initial_values.at("w")()->DoubleAt(0), 2);
  EXPECT_THAT(told.lines, testing::Contains(HasSubstr("what it holds under the name of w is left out")));

  options_.output.checkpoint_out = testing::TempDir() + "/averages_out";
  VariableFiles files(options_.output, *workload, world_.environment);
  for (const char* name : {"average", "b", "w"}) files.Add(name, Tensor::Scalar(static_cast<float>(name[0])));
  ASSERT_TRUE(files.Finish({}).ok());
  const Arrays& saved = world_.saved[options_.output.checkpoint_out];
  EXPECT_THAT(saved, testing::ElementsAre(testing::Key("_millrace_own_name/average"), testing::Key("average"), testing::Key("b")));
  EXPECT_EQ(saved.at("average").DoubleAt(0), 'w');

  options_.input.checkpoint_in = options_.output.checkpoint_out;
  told.lines.clear();
  const absl::StatusOr<Workload> resumed = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_THAT(told.lines, testing::ElementsAre());
  for (const char* name : {"average", "b", "w"}) {
    ASSERT_EQ(resumed->initial_values.count(name), 1) << name;
    EXPECT_EQ(resumed->initial_values.at(name)()->DoubleAt(0), name[0]) << name;
  }
}

// They are constants when the graph is planned (passes/rewrite/known_words.h).
TEST_F(WorkloadTest, VariablesOfStringsAreDeclaredWithTheCheckpointsWords) {
  UseGraph(R"(
v = VarHandleOp() {dtype=string, shape=shape[]}
w = VarHandleOp() {dtype=string, shape=shape[]}
unread = VarHandleOp() {dtype=string, shape=shape[]}
of_v = ReadVariableOp(v) {dtype=string}
of_w = ReadVariableOp(w) {dtype=string}
train = NoOp() ^of_v ^of_w
)");
  Tensor word(DataType::kString, Shape());
  word.mutable_strings()[0] = "yew";
  world_.saved["checkpoint"] = {{"unread", word}, {"v", word}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  const Graph& graph = *workload->graph;
  EXPECT_EQ(graph.node(graph.Find("v")).attrs.GetOr<Tensor>("_words", Tensor()).strings()[0], "yew");
  EXPECT_FALSE(graph.node(graph.Find("w")).attrs.Has("_words"));
  EXPECT_FALSE(graph.node(graph.Find("unread")).attrs.Has("_words")) << "plans are of the graph as it is";
}

// A plan is of the graph as it is.
TEST_F(WorkloadTest, ShapesThatTheGraphsInitializersTellAreNotDeclared) {
  const auto shape = [&](const std::string& initial) {
    UseGraph(absl::StrCat(R"(
v = VarHandleOp() {dtype=float, shape=shape<unknown>}
prefix = Const() {dtype=string, value=string[]{"checkpoint"}}
names = Const() {dtype=string, value=string[1]{"v"}}
slices = Const() {dtype=string, value=string[1]{""}}
restored = RestoreV2(prefix, names, slices) {dtypes=[float]}
three = Const() {dtype=float, value=float[3]{1, 2, 3}}
set = AssignVariableOp(v, )", initial, R"() {dtype=float}
read = ReadVariableOp(v) {dtype=float}
train = NoOp() ^read
)"));
    const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
    EXPECT_TRUE(workload.ok()) << workload.status();
    return workload->graph->node(workload->graph->Find("v")).attrs.GetOr("shape", Shape::UnknownRank());
  };
  world_.saved["checkpoint"] = {{"v", Tensor::Vector<float>({1, 2, 3})}};
  options_.input.checkpoint_in = "checkpoint";
  options_.input.init_targets = {};
  EXPECT_EQ(shape("three"), Shape::UnknownRank());
  EXPECT_EQ(shape("restored"), Shape({3})) << "which tells none";
}

TEST_F(WorkloadTest, StringsGoThroughToTheCheckpointThatIsWritten) {
  UseGraph("s = VarHandleOp() {dtype=string, shape=shape[]}\n");
  world_.saved["checkpoint"] = {{"s", Tensor(DataType::kString, Shape())}};
  options_.input.checkpoint_in = "checkpoint";
  options_.input.init_targets = {};
  options_.output.checkpoint_out = testing::TempDir() + "/strings_out";
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  FakeSession session({}, world_.engine);
  EXPECT_TRUE(Initialise(*workload, session, [] { return false; }, /*own_is_left_out=*/false).ok());
  VariableFiles files(options_.output, *workload, world_.environment);
  ASSERT_TRUE(files.Finish({}).ok());
  EXPECT_THAT(world_.saved[options_.output.checkpoint_out], testing::ElementsAre(testing::Key("s")));
}

class SavedModelWorkloadTest : public WorkloadTest {
 protected:
  SavedModelWorkloadTest() {
    options_.input = {.saved_model = "folder", .feeds = "x.npz"};
    options_.input.signature = "serve";
    world_.environment.load_saved_model = [this](const std::string&) -> absl::StatusOr<SavedModel> {
      SavedModel model;
      MR_ASSIGN_OR_RETURN(model.graph, ParseGraphText(graph_));
      model.signatures["serve"] = signature_;
      model.checkpoint_keys = {{"w", "W"}};
      model.checkpoint = *OpenReader({{"W", Tensor::Scalar(10.0f)}});
      model.init_targets = init_targets_;
      return model;
    };
    world_.environment.load_arrays = [this](const std::string&) { return feeds_; };
  }
  absl::StatusOr<Workload> Load() { return LoadWorkload(options_.input, FeedValues::kMade, world_.environment); }

  std::string graph_ = R"(
serve_x = Placeholder() {dtype=float, shape=shape[?,2]}
serve_y = Placeholder() {dtype=float, shape=shape[?]}
w = VarHandleOp() {dtype=float, shape=shape<unknown>}
init = NoOp()
sum = AddV2(serve_x, serve_y)
)";
  SavedSignature signature_{.inputs = {{"x", {"serve_x:0", {}}}, {"y", {"serve_y:0", {}}}}, .outputs = {{"sum", {"sum:0", {}}}}};
  std::vector<std::string> init_targets_ = {"init"};
  Arrays feeds_ = {{"x", Tensor(DataType::kFloat, Shape({3, 2}))}, {"y", Tensor(DataType::kFloat, Shape({2}))}};
};

// What the fake session's init target leaves in w is 1.
TEST_F(SavedModelWorkloadTest, ItsOwnInitialisationComesAfterItsValuesAndBeforeACheckpoints) {
  const auto initialised = [&] {
    const absl::StatusOr<Workload> workload = Load();
    EXPECT_TRUE(workload.ok()) << workload.status();
    FakeSession session({}, world_.engine);
    EXPECT_TRUE(Initialise(*workload, session, [] { return false; }, /*own_is_left_out=*/false).ok());
    return session.Variables()->at("w").DoubleAt(0);
  };
  EXPECT_EQ(initialised(), 1);
  world_.saved["checkpoint"] = {{"W", Tensor::Scalar(5.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  EXPECT_EQ(initialised(), 5);
  options_.input.checkpoint_in.clear();
  init_targets_.clear();
  options_.input.init_targets = {"init"};
  EXPECT_EQ(initialised(), 10) << "those that are asked for come before its values";
}

TEST_F(SavedModelWorkloadTest, WhatOfItsInitialisationIsNotSupportedIsLeftOut) {
  world_.engine.unsupported = "init";
  const auto trained = [&] { return Train(*Load(), {}, world_.environment, [](const std::string&, Tensor) {}).run.status; };
  Logged told(google::GLOG_WARNING);
  const absl::Status status = trained();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(told.lines, testing::ElementsAre("the SavedModel's own initialisation init, before the first step: no kernel of init; it is left out"));
  FakeSession session({}, world_.engine);
  const auto never = [] { return false; };
  EXPECT_TRUE(Initialise(*Load(), session, never, /*own_is_left_out=*/true).ok());
  EXPECT_THAT(Initialise(*Load(), session, never, /*own_is_left_out=*/false).message(), HasSubstr("no kernel of init")) << "nobody was told";
  init_targets_.clear();
  options_.input.init_targets = {"init"};
  EXPECT_THAT(trained().message(), HasSubstr("no kernel of init")) << "it was asked for";
}

// As older versions wrote them of variables whose keys they did not know.
TEST_F(SavedModelWorkloadTest, CheckpointsMayHoldValuesUnderTheVariablesNames) {
  world_.saved["checkpoint"] = {{"w", Tensor::Scalar(7.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = Load();
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->initial_values.at("w")()->DoubleAt(0), 7);
}

TEST_F(SavedModelWorkloadTest, CheckpointsTellTheKeysOfWhatTheModelWithoutOneOnlyBinds) {
  world_.environment.load_saved_model = [this](const std::string&) -> absl::StatusOr<SavedModel> {
    SavedModel model;
    MR_ASSIGN_OR_RETURN(model.graph, ParseGraphText(graph_));
    model.signatures["serve"] = signature_;
    model.bound.objects = {{"w", 1}};
    return model;
  };
  world_.environment.add_bound_keys = [](const std::string& prefix, TensorReader& reader, SavedModel* model) {
    model->checkpoint_keys["w"] = absl::StrCat(prefix, "/", reader.names()[0]);
    return absl::OkStatus();
  };
  world_.saved["checkpoint"] = {{"W", Tensor::Scalar(7.0f)}};
  options_.input.checkpoint_in = "checkpoint";
  EXPECT_EQ(Load().status().message(), "checkpoint: no checkpoint/W, the value of variable w");
}

TEST_F(SavedModelWorkloadTest, ErrorsSayWhoseInitialisationIsMeant) {
  SessionOptions session;
  session.planning.device_memory_bytes = 1;
  const auto message = [&] { return std::string(PlanOnly(*Load(), session, world_.environment).run.status.message()); };
  EXPECT_THAT(message(), testing::StartsWith("the SavedModel's own initialisation init, before the first step: "));
  options_.input.init_targets = {"other"};
  EXPECT_THAT(message(), testing::StartsWith("init_targets other, before the first step: "));
}

TEST_F(SavedModelWorkloadTest, StringsAreWarnedOfOnce) {
  world_.saved["checkpoint"] = {{"W", Tensor::Scalar(5.0f)}, {"s", Tensor(DataType::kString, Shape())}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = Load();
  ASSERT_TRUE(workload.ok()) << workload.status();
  FakeSession session({}, world_.engine);
  Logged told(google::GLOG_WARNING);
  EXPECT_TRUE(Initialise(*workload, session, [] { return false; }, /*own_is_left_out=*/false).ok());
  EXPECT_THAT(told.lines, testing::Contains(HasSubstr("'s' holds strings")).Times(1));
}

TEST_F(SavedModelWorkloadTest, SignaturesThatAreNotThereAreNamed) {
  SavedModel model;
  world_.environment.load_saved_model = [&model](const std::string&) {
    SavedModel copy;
    copy.signatures = model.signatures;
    copy.unread_signatures = model.unread_signatures;
    return copy;
  };
  const auto message = [&] { return std::string(Load().status().message()); };
  options_.input.signature = "foo";
  EXPECT_THAT(message(), testing::StartsWith("the model has no signature 'foo', nor another, so nothing in it can be run"));
  model.unread_signatures["serving_default"] = absl::NotFoundError("no node 'nope' in the graph");
  EXPECT_EQ(message(), "the model has no signature 'foo'; cannot be read: serving_default");
  model.signatures["train"] = {};
  EXPECT_EQ(message(), "the model has no signature 'foo', expected one of train; cannot be read: serving_default");
  options_.input.signature.clear();
  EXPECT_EQ(message(), "signature 'serving_default': no node 'nope' in the graph");
  model.unread_signatures.clear();
  model.signatures["serve"] = {};
  EXPECT_EQ(message(), "give --signature: the model has serve, train");
  EXPECT_EQ(ExitStatus(Load().status()), kExitUsage);
}

TEST_F(SavedModelWorkloadTest, VariablesOfOpenShapeHaveTheirValuesWhereTheStepAssignsNone) {
  const auto shape = [&] {
    const absl::StatusOr<Workload> workload = Load();
    EXPECT_TRUE(workload.ok()) << workload.status();
    return workload->graph->node(workload->graph->Find("w")).attrs.GetOr("shape", Shape::UnknownRank());
  };
  EXPECT_EQ(shape(), Shape());
  graph_ += "set = AssignVariableOp(w, serve_y) {dtype=float}\n";
  signature_.targets = {"set"};
  EXPECT_EQ(shape(), Shape::UnknownRank());
}

TEST_F(SavedModelWorkloadTest, InputsAreNamedByTheirKeys) {
  const auto message = [&] { return std::string(Load().status().message()); };
  EXPECT_EQ(message(), "");
  feeds_["x"] = Tensor(DataType::kFloat, Shape({3, 4}));
  EXPECT_EQ(message(), "feed x is float[3,4], expected float[?,2]");
  feeds_.erase("x");
  EXPECT_THAT(message(), testing::StartsWith("not fed, but needed by the fetches and targets: x float[?,2]; "));
  options_.input.feeds.clear();
  options_.input.synthetic_feeds = true;
  EXPECT_THAT(message(), HasSubstr("inputs without a known shape: x float[?,2], y float[?]; give"));
}

TEST_F(SavedModelWorkloadTest, FlagsThatAreMissingAreWrongUsage) {
  feeds_.erase("x");
  EXPECT_EQ(ExitStatus(Load().status()), kExitUsage);
  options_.input.feeds.clear();
  options_.input.synthetic_feeds = true;
  EXPECT_EQ(ExitStatus(Load().status()), kExitUsage);
}

TEST_F(SavedModelWorkloadTest, WhatCannotBeReadIsRefusedWhereItIsAskedFor) {
  const absl::Status neither = absl::UnimplementedError("'rows' is neither a dense nor a sparse tensor");
  signature_.unread_outputs["rows"] = neither;
  {
    Logged told(google::GLOG_WARNING);
    EXPECT_TRUE(Load().ok());
    EXPECT_THAT(told.lines, testing::Contains("output 'rows' is neither a dense nor a sparse tensor, and is left out"));
  }
  options_.input.fetches = {"rows"};
  EXPECT_EQ(std::string(Load().status().message()), "fetch: 'rows' is neither a dense nor a sparse tensor");
  // An input of that name is another thing.
  signature_.unread_outputs.clear();
  signature_.unread_inputs["rows"] = neither;
  EXPECT_EQ(std::string(Load().status().message()), "fetch rows: the signature has no such output, expected sum");
  options_.input.fetches.clear();
  {
    Logged told(google::GLOG_WARNING);
    EXPECT_TRUE(Load().ok());
    EXPECT_THAT(told.lines, testing::Not(testing::Contains(HasSubstr("rows"))));
  }
  feeds_["rows"] = Tensor::Scalar(1.0f);
  EXPECT_EQ(std::string(Load().status().message()), "feed: 'rows' is neither a dense nor a sparse tensor");
  world_.environment.load_saved_model = [](const std::string&) { return SavedModel(); };
  EXPECT_THAT(std::string(Load().status().message()), testing::StartsWith("the model has no signature 'serve', nor another, so nothing in it can be run"));
}

TEST_F(WorkloadTest, AnInterruptEndsInitialisationBeforeTheModelsOwn) {
  Workload workload;
  workload.model_init.targets = {"init"};
  FakeSession session({}, world_.engine);
  EXPECT_TRUE(absl::IsCancelled(Initialise(workload, session, [] { return true; }, /*own_is_left_out=*/false)));
  EXPECT_FALSE(world_.engine.init_run);
}

TEST_F(WorkloadTest, ReadingValuesCanBeInterrupted) {
  Workload workload;
  int read = 0;
  for (const char* name : {"w", "x"}) workload.initial_values[name] = [&read] { return Tensor::Scalar(static_cast<float>(++read)); };
  FakeSession session({}, world_.engine);
  EXPECT_TRUE(absl::IsCancelled(Initialise(workload, session, [&read] { return read == 1; }, /*own_is_left_out=*/false)));
  EXPECT_EQ(read, 1);
}

TEST_F(WorkloadTest, WhatInitTargetsRestoreIsFedToThem) {
  std::string names = R"(string[3]{"w", "unused", "e"})";
  world_.environment.load_graph = [&](const std::string&) {
    return ParseGraphText(absl::StrCat(R"(
default = Const() {dtype=string, value=string[]{"checkpoint"}}
prefix = PlaceholderWithDefault(default) {dtype=string, shape=shape[]}
names = Const() {dtype=string, value=)", names, R"(}
slices = Const() {dtype=string, value=string[3]{"", "", "3 1,2"}}
r = RestoreV2(prefix, names, slices) {dtypes=[float, float, float]}
w = VariableV2() {dtype=float, shape=shape[2]}
e/part_0 = VariableV2() {dtype=float, shape=shape[2]}
a = Assign(w, r:0) {T=float}
b = Assign(e/part_0, r:2) {T=float}
init = NoOp() ^a ^b
other = RestoreV2(prefix, names, slices) {dtypes=[float, float, float]}
)"));
  };
  world_.saved["checkpoint"] = {{"e", Tensor::Vector<float>({1, 2, 3})}, {"w", Tensor::Vector<float>({4, 5})}};
  absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->init.feed_types, testing::ElementsAre(testing::Key("r:0"), testing::Key("r:2")));
  const absl::StatusOr<Session::Feeds> feeds = workload->init.feeds();
  ASSERT_TRUE(feeds.ok()) << feeds.status();
  EXPECT_EQ(feeds->at("r:0").DoubleAt(1), 5);
  EXPECT_EQ(feeds->at("r:2").DoubleAt(1), 3);

  names = R"(string[2]{"w", "unused"})";
  workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  EXPECT_THAT(std::string(workload.status().message()), HasSubstr("node 'r' (RestoreV2): prefix, names and slices must be constants"));
}

}  // namespace
}  // namespace millrace::cli
