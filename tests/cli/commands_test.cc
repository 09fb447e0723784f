#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/settings.h"
#include "cli/variable_files.h"
#include "cli/workload.h"
#include "commands_fixture.h"
#include "graph/text.h"
#include "testlib/logged.h"
#include "millrace/profile.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class CommandsTest : public CommandsFixture {
 protected:
  CommandsTest() : CommandsFixture("commands") {}
  bool FolderIsEmpty() const { return fs::is_empty(folder_); }
};

TEST_F(CommandsTest, RunInitialisesOnceAndReportsEveryStep) {
  options_.output.report_out = Path("report.json");
  options_.output.variables_out = Path("variables.npz");
  options_.output.fetches_out = Path("fetches.npz");
  const absl::Status status = RunCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(world_.engine.steps_run, 3);
  const std::string report = Read("report.json");
  EXPECT_THAT(report, HasSubstr("\"losses\": [0.5, 0.3333333432674408, 0.25]"));
  EXPECT_THAT(report, HasSubstr("\"step_seconds\": [0.5, 0.5, 0.5]"));
  EXPECT_THAT(report, HasSubstr("\"status\": \"OK\""));
  EXPECT_EQ(world_.saved[Path("variables.npz")].at("w").DoubleAt(0), 4);
  EXPECT_EQ(world_.saved[Path("fetches.npz")].count("logits:0"), 1);
  EXPECT_THAT(world_.out.str(), HasSubstr("losses         0.5 0.333333343 0.25"));
  EXPECT_EQ(world_.err.str(), "");
}

TEST_F(CommandsTest, TheReportHasTheMachineOfTheSession) {
  options_.output.report_out = Path("report.json");
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_THAT(Read("report.json"), HasSubstr("\"name\": \"a fake's\""));
  options_.strategy.strategies = {"planned"};
  ASSERT_TRUE(CompareCommand(options_, world_.environment).ok());
  EXPECT_THAT(Read("report.json"), HasSubstr("\"name\": \"a fake's\""));
}

TEST_F(CommandsTest, WhatDoesNotFitIsRefusedBeforeAnythingRuns) {
  options_.engine.device_memory = "300";
  options_.output.report_out = Path("report.json");
  options_.output.variables_out = Path("variables.npz");
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << status;
  EXPECT_FALSE(world_.engine.init_run);
  EXPECT_EQ(world_.engine.steps_run, 0);
  EXPECT_THAT(Read("report.json"), HasSubstr("\"status\": \"RESOURCE_EXHAUSTED\""));
  EXPECT_TRUE(world_.saved.empty());
}

TEST_F(CommandsTest, AFormerTraceStaysWhereNothingFits) {
  options_.output.trace_out = Path("trace.json");
  std::ofstream(options_.output.trace_out) << "former";
  options_.engine.device_memory = "300";
  EXPECT_EQ(ExitStatus(RunCommand(options_, world_.environment)), kExitDoesNotFit);
  EXPECT_EQ(ExitStatus(PlanCommand(options_, world_.environment)), kExitDoesNotFit);
  EXPECT_EQ(Read("trace.json"), "former");
  options_.engine.device_memory = "400";
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_NE(Read("trace.json"), "former");
}

TEST_F(CommandsTest, HintsOfALargeGraphTakeNoPlan) {
  options_.engine.device_memory = "300";
  EXPECT_THAT(std::string(RunCommand(options_, world_.environment).message()), HasSubstr("hint: --device_memory="));
  world_.engine.sessions = 0;
  world_.environment.load_graph = [](const std::string&) -> absl::StatusOr<Graph> {
    Graph graph;
    for (int i = 0; i < 250'000; ++i) {
      Node node;
      node.name = absl::StrCat("n", i);
      node.op = "NoOp";
      if (auto added = graph.AddNode(std::move(node)); !added.ok()) return added.status();
    }
    return graph;
  };
  options_.strategy.strategy = "baseline";
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hint: the graph is too large to try what would fit"));
  EXPECT_EQ(world_.engine.sessions, 1);  // the plan that failed
}

TEST_F(CommandsTest, APercentageIsOfBaselinesPeak) {
  options_.engine.device_memory = "50%";
  options_.output.report_out = Path("report.json");
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_THAT(Read("report.json"), HasSubstr("\"device_memory_budget_bytes\": 500"));
  // Of the graph as it is rewritten here.
  options_.strategy.fuse = "on";
  options_.engine.device_memory = "80%";
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_THAT(Read("report.json"), HasSubstr("\"device_memory_budget_bytes\": 1200"));
}

TEST_F(CommandsTest, APercentageIsTheSameWithMeasuredTimes) {
  Profile profile;
  profile.nodes["f"] = {"Relu", "float[2]->float[2]", 1};
  ASSERT_TRUE(SaveProfile(profile, Path("profile.pbtxt")).ok());
  options_.engine.profile_in = Path("profile.pbtxt");
  options_.engine.device_memory = "50%";
  options_.output.report_out = Path("report.json");
  const absl::Status status = RunCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Read("report.json"), HasSubstr("\"device_memory_budget_bytes\": 500"));
}

TEST_F(CommandsTest, AFileThatCannotBeWrittenLeavesTheOthersWhole) {
  options_.output.variables_out = Path("variables.npz");
  options_.output.checkpoint_out = Path("checkpoint");
  options_.output.fetches_out = Path("fetches.npz");
  world_.no_room = options_.output.variables_out;
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_THAT(std::string(status.message()), HasSubstr("variables.npz: no room"));
  EXPECT_EQ(world_.saved[options_.output.checkpoint_out].at("w").DoubleAt(0), 4);
  EXPECT_EQ(world_.saved.count(options_.output.fetches_out), 1);
  EXPECT_EQ(world_.saved.count(options_.output.variables_out), 0);
}

TEST_F(CommandsTest, NoneIsNoLimit) {
  options_.engine.machine = MILLRACE_SOURCE_DIR "/configs/machines/titanx.pbtxt";
  options_.engine.device_memory = options_.engine.host_memory = "none";
  ASSERT_TRUE(PlanCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.out.str(), HasSubstr("budget none, peak predicted 400 B"));
  options_.sweep.budgets = {"none", "500"};
  options_.engine.machine.clear();
  ASSERT_TRUE(SweepCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.out.str(), HasSubstr("lru,none,0,OK,0,"));
  options_.engine.device_memory = "none,1GiB";
  EXPECT_EQ(ExitStatus(RunCommand(options_, world_.environment)), kExitUsage);
}

TEST_F(CommandsTest, AFailedStepIsReportedWithTheStepsBeforeIt) {
  world_.engine.fail_at_step = 2;
  options_.output.report_out = Path("report.json");
  options_.output.variables_out = Path("variables.npz");
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitFailed);
  EXPECT_THAT(Read("report.json"), HasSubstr("\"error\": \"kernel of node f failed\""));
  EXPECT_THAT(Read("report.json"), HasSubstr("\"step_seconds\": [0.5, 0.5]"));
  EXPECT_THAT(Read("report.json"), HasSubstr("\"changed_variables\": [\"w\"]"));
  EXPECT_TRUE(world_.saved.empty());
}

TEST_F(CommandsTest, ASavedModelRunsByTheKeysOfItsSignature) {
  options_.input = {.saved_model = "folder", .signature = "train", .feeds = "image.npz", .fetches = {"scores", "loss"}, .steps = 1};
  world_.environment.load_arrays = [](const std::string&) { return Arrays{{"image", Tensor::Scalar(1.0f)}}; };
  options_.output.fetches_out = Path("fetches.npz");
  options_.output.checkpoint_out = Path("checkpoint");
  absl::Status status = RunCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(world_.saved[Path("fetches.npz")], testing::ElementsAre(testing::Key("loss"), testing::Key("scores")));
  const Arrays& checkpoint = world_.saved[Path("checkpoint")];
  EXPECT_THAT(checkpoint, testing::ElementsAre(testing::Key("OBJECTS"), testing::Key("layer/w/VALUE")));
  EXPECT_EQ(checkpoint.at("layer/w/VALUE").DoubleAt(0), 11);

  // Two steps equal one step, saved, loaded, and another.
  options_.input.checkpoint_in = Path("checkpoint");
  status = RunCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(world_.saved[Path("checkpoint")].at("layer/w/VALUE").DoubleAt(0), 12);
}

TEST_F(CommandsTest, PartsOfAPartitionedVariableAreReadAndSavedAsSlices) {
  world_.environment.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
e/part_0 = VariableV2() {dtype=float, shape=shape[1]}
e/part_1 = VariableV2() {dtype=float, shape=shape[2]}
own/part_0 = VariableV2() {dtype=float, shape=shape[1]}
)");
  };
  world_.saved["checkpoint"] = {{"e", Tensor::Vector<float>({1, 2, 3})}, {"own/part_0", Tensor::Vector<float>({4})}};
  options_.input.checkpoint_in = "checkpoint";
  const absl::StatusOr<Workload> workload = LoadWorkload(options_.input, FeedValues::kTypesOnly, world_.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_THAT(workload->initial_values,
              testing::ElementsAre(testing::Key("e/part_0"), testing::Key("e/part_1"), testing::Key("own/part_0")));
  EXPECT_EQ(workload->initial_values.at("e/part_1")()->DoubleAt(1), 3);
  EXPECT_EQ(workload->initial_values.at("own/part_0")()->DoubleAt(0), 4);

  options_.output.checkpoint_out = Path("out");
  VariableFiles files(options_.output, *workload, world_.environment);
  files.Add("e/part_1", Tensor::Vector<float>({5, 6}));
  files.Add("other", Tensor::Scalar(7.0f));
  ASSERT_TRUE(files.Finish({}).ok());
  EXPECT_THAT(world_.saved[Path("out")], testing::ElementsAre(testing::Key("e from 1 of 3"), testing::Key("other")));
}

TEST_F(CommandsTest, ValuesOfACheckpointAreReadBeforeTheFirstStepOnly) {
  class BrokenReader : public FakeReader {
   public:
    using FakeReader::FakeReader;
    absl::StatusOr<Tensor> Read(const std::string& name) override {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': corrupt"));
    }
  };
  world_.environment.open_checkpoint_reader = [](const std::string&) -> absl::StatusOr<std::unique_ptr<TensorReader>> {
    return std::unique_ptr<TensorReader>(new BrokenReader({{"w", Tensor::Scalar(1.0f)}}));
  };
  options_.input.checkpoint_in = "checkpoint";
  EXPECT_TRUE(PlanCommand(options_, world_.environment).ok());
  EXPECT_EQ(RunCommand(options_, world_.environment).message(), "tensor 'w': corrupt");
  EXPECT_EQ(world_.engine.steps_run, 0);
  world_.environment.open_checkpoint_reader = [](const std::string&) { return OpenReader({{"graph", Tensor(DataType::kString, Shape())}}); };
  EXPECT_TRUE(RunCommand(options_, world_.environment).ok()) << "what TensorFlow 2 writes beside the variables is of none";
}

TEST_F(CommandsTest, ShapesOfASavedModelGoByTheKeysOfItsSignature) {
  options_.input = {.saved_model = "folder", .signature = "train", .synthetic_feeds = true, .feed_shapes = "image:2x3", .fetches = {"loss"}};
  world_.environment.load_saved_model = [](const std::string&) -> absl::StatusOr<SavedModel> {
    SavedModel model;
    Node image;
    image.name = "serve_image";
    image.op = "Placeholder";
    image.attrs.Set("dtype", DataType::kFloat);
    Node loss;
    loss.name = "loss";
    loss.op = "Identity";
    MR_ASSIGN_OR_RETURN(const NodeId fed, model.graph.AddNode(std::move(image)));
    loss.inputs = {{fed, 0}};
    MR_RETURN_IF_ERROR(model.graph.AddNode(std::move(loss)).status());
    model.signatures["train"] = {.inputs = {{"image", {"serve_image:0", {}}}}, .outputs = {{"loss", {"loss:0", {}}}}};
    return model;
  };
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_TRUE(status.ok()) << status;
  options_.input.feed_shapes = "picture:2x3";
  EXPECT_THAT(std::string(RunCommand(options_, world_.environment).message()), HasSubstr("picture"));
}

TEST_F(CommandsTest, ASavedModelNamesTheKeysThatItHas) {
  const auto message = [&](const InputOptions& input) {
    Options options = options_;
    options.input = input;
    return std::string(RunCommand(options, world_.environment).message());
  };
  EXPECT_THAT(message({.saved_model = "folder", .signature = "serve"}), HasSubstr("expected one of train"));
  EXPECT_THAT(message({.saved_model = "folder", .fetches = {"los"}}), HasSubstr("expected loss, scores"));
  EXPECT_THAT(message({.saved_model = "folder", .feeds = "x.npz"}), HasSubstr("expected image"));
  EXPECT_THAT(message({.graph = "graph.pb", .saved_model = "folder"}), HasSubstr("which graph"));
  EXPECT_THAT(message({.graph = "graph.pb", .signature = "train", .fetches = {"y"}}), HasSubstr("--signature"));
}

TEST_F(CommandsTest, WrongUsageIsFoundBeforeTheGraphIsLoaded) {
  const auto exit_status = [&](auto change) {
    Options options = options_;
    change(options);
    const absl::Status status = RunCommand(options, world_.environment);
    EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos) << status;
    return ExitStatus(status);
  };
  EXPECT_EQ(exit_status([](Options& o) { o.input.graph = ""; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.input.fetches = o.input.targets = {}; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.input.steps = -1; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.device_memory = "-1GiB"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.device_memory = "0%"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.device_memory = "nan%"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.host_memory = "lots"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.host_memory = "0"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.link_gbps = -1; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.link_gbps = 1e-300; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.link_gbps = 1e300; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.disk = "d", o.engine.host_memory = "1MiB", o.engine.disk_gbps = 1e300; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.device_timeout = -1; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.threads = -2; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.engine.machine = "/no/such.pbtxt"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.strategy.partition_size = -5; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.strategy.tflms.sync_mode = 4; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.strategy.tflms.memory_ratio = 2; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.strategy.tflms.serialization = {"1..2"}; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.output.plot_out = "a.bmp"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.output.report_out = "/no/such/folder/r.json"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.output.variables_out = "/no/such/folder/v.npz"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.input.feed_shapes = "x:3"; }), kExitUsage);
  EXPECT_EQ(exit_status([](Options& o) { o.input.synthetic_feeds = true; o.input.feed_shapes = "x=3"; }), kExitUsage);
  // Times that nothing will measure.
  const auto profile = [](Options& o) { o.input.steps = 8; o.output.profile_out = "times.pbtxt"; };
  EXPECT_EQ(exit_status([&](Options& o) { profile(o); o.engine.replan = "off"; }), kExitUsage);
  EXPECT_EQ(exit_status([&](Options& o) { profile(o); o.input.plan_in = "plan.pb"; }), kExitUsage);
  EXPECT_EQ(world_.engine.sessions, 0);
}

TEST_F(CommandsTest, AnErrorLeavesNoFileBehind) {
  options_.input.graph = "missing.pb";
  for (auto* path : {&options_.output.report_out, &options_.output.trace_out, &options_.output.variables_out,
                     &options_.output.fetches_out}) {
    *path = Path("out");
  }
  options_.output.plot_out = Path("plot.svg");
  EXPECT_EQ(ExitStatus(RunCommand(options_, world_.environment)), kExitUsage);
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_F(CommandsTest, CompareFindsEqualBits) {
  const absl::Status status = CompareCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  const std::string out = world_.out.str();
  EXPECT_THAT(out, HasSubstr("reference"));
  EXPECT_THAT(out, HasSubstr("equal"));
  EXPECT_THAT(out, Not(HasSubstr("DIFFERS")));
  EXPECT_THAT(out, HasSubstr("budget: none; 3 steps, seed 0"));
}

TEST_F(CommandsTest, CompareNamesWhatDiffers) {
  world_.engine.wrong_strategy = "lru";
  const absl::Status status = CompareCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lru"));
  EXPECT_THAT(world_.out.str(), HasSubstr("DIFFERS: losses, logits:0, loss:0, w"));
}

TEST_F(CommandsTest, CompareOfNoStepsClaimsNeitherTimesNorBits) {
  options_.input.steps = 0;
  ASSERT_TRUE(CompareCommand(options_, world_.environment).ok());
  const std::string out = world_.out.str();
  EXPECT_THAT(out, HasSubstr("1000 B"));
  EXPECT_THAT(out, Not(HasSubstr("250.0 ms")));  // predicted
  EXPECT_THAT(out, Not(HasSubstr("equal")));
  EXPECT_THAT(out, Not(HasSubstr("reference")));
  world_.engine.wrong_strategy = "lru";
  EXPECT_EQ(ExitStatus(CompareCommand(options_, world_.environment)), kExitFailed);
}

TEST_F(CommandsTest, CompareRunsABaselineThatDoesNotFitWithoutABudget) {
  options_.engine.device_memory = "50%";
  options_.output.report_out = Path("report.json");
  const absl::Status status = CompareCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(world_.out.str(), HasSubstr("baseline *"));
  EXPECT_THAT(world_.out.str(), HasSubstr("* does not fit the budget; ran without one, as the reference"));
  EXPECT_THAT(world_.out.str(), HasSubstr("500 B, 50% of baseline's predicted peak"));
  EXPECT_THAT(Read("report.json"), HasSubstr("\"device_memory_budget_bytes\": 0"));
}

TEST_F(CommandsTest, CompareMarksABaselineWithoutABudgetOnlyWhereItRanAndAsTheReferenceOnlyWhereItIs) {
  options_.engine.device_memory = "500";
  options_.strategy.strategies = {"lru", "baseline"};
  ASSERT_TRUE(CompareCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.out.str(), testing::AllOf(HasSubstr("baseline *"), HasSubstr("* does not fit the budget; ran without one\n")));
  world_.out.str("");
  world_.engine.fail_at_step = 0;
  EXPECT_EQ(ExitStatus(CompareCommand(options_, world_.environment)), kExitFailed);
  EXPECT_THAT(world_.out.str(), testing::AllOf(HasSubstr("kernel of node f failed"), Not(HasSubstr("*"))));
  // Without a budget of the device there is none to run without.
  world_.out.str("");
  options_.engine.device_memory = "";
  world_.environment.create_session = [](std::shared_ptr<const Graph>, const SessionOptions&) -> absl::StatusOr<std::unique_ptr<Session>> {
    return absl::ResourceExhaustedError("no host memory");
  };
  EXPECT_EQ(ExitStatus(CompareCommand(options_, world_.environment)), kExitDoesNotFit);
  EXPECT_THAT(world_.out.str(), Not(HasSubstr("*")));
}

TEST_F(CommandsTest, AWrongStrategyIsFoundBeforeAnythingRuns) {
  options_.strategy.strategies = {"baseline", "plannd"};
  EXPECT_EQ(ExitStatus(CompareCommand(options_, world_.environment)), kExitUsage);
  options_.engine.device = "null";
  EXPECT_EQ(ExitStatus(SweepCommand(options_, world_.environment)), kExitUsage);
  EXPECT_EQ(world_.engine.sessions, 0);
}

TEST_F(CommandsTest, AReportThatCannotBeWrittenDoesNotHideThatNothingFits) {
  options_.engine.device_memory = "300";
  options_.output.report_out = "/dev/full";
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
}

TEST_F(CommandsTest, ACheckpointIsNotOverwrittenByAnotherOutput) {
  options_.output.checkpoint_out = Path("ck");
  for (const char* file : {"ck.index", "ck.data-00000-of-00001"}) {
    options_.output.report_out = Path(file);
    EXPECT_EQ(ExitStatus(CheckOutputNames(options_)), kExitUsage) << file;
  }
  options_.output.report_out = Path("report.json");
  options_.flag_files = {Path("report.json")};
  EXPECT_THAT(std::string(CheckOutputNames(options_).message()), HasSubstr("would overwrite the file of --flagfile"));
  options_.flag_files.clear();
  options_.input.checkpoint_in = Path("ck");  // goes on where it is
  EXPECT_TRUE(CheckOutputNames(options_).ok());
  options_.output.checkpoint_out = Path("other");
  options_.output.report_out = Path("ck.index");
  EXPECT_EQ(ExitStatus(CheckOutputNames(options_)), kExitUsage);
  for (const std::string& prefix : {Path(""), Path(".."), std::string("."), std::string("-")}) {
    options_.output = {.checkpoint_out = prefix};
    EXPECT_EQ(ExitStatus(CheckOutputNames(options_)), kExitUsage) << prefix;
  }
  for (const std::string& prefix : {std::string("./-"), Path("-")}) {
    options_.output = {.checkpoint_out = prefix};
    EXPECT_TRUE(CheckOutputNames(options_).ok()) << prefix;
  }
  options_.output = {.report_out = "-"};
  EXPECT_EQ(ExitStatus(CheckOutputNames(options_)), kExitUsage);
  EXPECT_EQ(CheckOutputNames(options_).message(), "--report_out=-: expected the name of a file; standard output is /dev/stdout, the file of this name ./-");
  options_.output = {.plot_out = "-"};
  EXPECT_EQ(CheckOutputNames(options_).message(), "--plot_out=-: expected the name of a file");
  EXPECT_EQ(CheckGraphOutput("-").message(), "--out=-: expected a name that ends in .pb, .pbtxt or .dot");
}

TEST_F(CommandsTest, AMachineThatGoesByItsNameIsNotOverwritten) {
  std::ofstream(Path("box.pbtxt")) << "name: 'box'";
  options_.engine.machine = "box";
  options_.engine.machine_folders = {Path("")};
  options_.out = Path("box.pbtxt");
  EXPECT_THAT(std::string(CheckOutputNames(options_).message()), HasSubstr("box.pbtxt would overwrite the file of --machine"));
  options_.out = Path("other.pbtxt");
  EXPECT_TRUE(CheckOutputNames(options_).ok());
}

TEST_F(CommandsTest, EveryCommandThatPlansTellsWhatItsPassesTook) {
  world_.engine.passes = {{"a pass", 0.25, 2}};
  options_.engine.device = "null";
  options_.argument = "f";
  options_.out = Path("g.pb");
  FLAGS_v = 1;
  for (auto* command : {PlanCommand, ExplainCommand, ExportCommand, SweepCommand}) {
    Logged told(google::GLOG_INFO);
    command(options_, world_.environment).IgnoreError();
    EXPECT_THAT(told.lines, testing::Contains("planning: a pass took 0.25 s in 2 runs"));
  }
  FLAGS_v = 0;
}

TEST_F(CommandsTest, InspectWritesNoReportOfItsListOfOps) {
  options_.ops = true;
  EXPECT_TRUE(InspectCommand(options_, world_.environment).ok());
  options_.output.report_out = Path("report.json");
  const absl::Status status = InspectCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--report_out"));
}

TEST_F(CommandsTest, CompareEndsWithDoesNotFitWhenAnotherStrategyDoesNot) {
  options_.engine.device_memory = "300";
  const absl::Status status = CompareCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(world_.out.str(), HasSubstr("does not fit"));
  EXPECT_THAT(world_.out.str(), HasSubstr("lru: RESOURCE_EXHAUSTED: init_targets init, before the first step: node f alone needs 400 B, budget is 300 B"));
}

TEST_F(CommandsTest, SweepCoversTheGridOnceAndKeepsWhatDoesNotFit) {
  options_.sweep.partition_sizes = {"1", "5"};
  options_.sweep.budgets = {"100%", "300"};
  options_.sweep.csv_out = Path("sweep.csv");
  options_.output.plot_out = Path("sweep.svg");
  const absl::Status status = SweepCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  const std::string csv = Read("sweep.csv");
  EXPECT_THAT(csv, HasSubstr("tensorflowmem,100%,5,OK,1000,"));
  EXPECT_THAT(csv, HasSubstr("tensorflowmem,300,1,RESOURCE_EXHAUSTED,300,"));
  // Strategies without partitions by count have a row a budget, whether it fits or not: a header, 2 x 2 sizes, 2 + 2.
  EXPECT_THAT(csv, HasSubstr("baseline,100%,0,OK"));
  EXPECT_THAT(csv, Not(HasSubstr("baseline,100%,5")));
  EXPECT_THAT(csv, HasSubstr("baseline,300,0,RESOURCE_EXHAUSTED"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_THAT(Read("sweep.svg"), HasSubstr("partition size (nodes)"));
}

TEST_F(CommandsTest, SweepComparesVariablesAndFetches) {
  EXPECT_TRUE(SweepCommand(options_, world_.environment).ok());
  for (std::string* wrong : {&world_.engine.wrong_strategy, &world_.engine.wrong_fetches}) {
    *wrong = "lru";
    const absl::Status status = SweepCommand(options_, world_.environment);
    EXPECT_THAT(std::string(status.message()), HasSubstr("lru, budget none, partition size 0 does not give the same bits"));
    wrong->clear();
  }
}

// On CUDA devices: products take their bias there, which --fuse=auto asks for.
TEST_F(CommandsTest, WhatIsAutomaticGoesByTheDevicesThatAreNamed) {
  options_.engine.devices = "gpu:0,gpu:1";
  const auto named = MakeSessionOptions(options_, "planned");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->device, "cuda");
  EXPECT_TRUE(named->planning.fuse);
  EXPECT_TRUE(named->planning.channels_first);
  EXPECT_TRUE(named->planning.pack_rows);
  options_.engine.device = "cuda";
  options_.engine.devices = "cpu:0,cpu:1";
  EXPECT_FALSE(MakeSessionOptions(options_, "planned")->planning.fuse);
  EXPECT_FALSE(MakeSessionOptions(options_, "planned")->planning.pack_rows);
}

TEST_F(CommandsTest, WhatRunsIsRefusedTheNullDeviceBeforeAnythingIsRead) {
  for (const char* devices : {"", "2", "null:0,null:1"}) {
    options_.engine.device = *devices == 'n' ? "cpu" : "null";
    options_.engine.devices = devices;
    for (const auto command : {RunCommand, CompareCommand}) {
      const absl::Status status = command(options_, world_.environment);
      EXPECT_EQ(ExitStatus(status), kExitUsage) << devices;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the null device runs nothing"));
    }
  }
  EXPECT_EQ(world_.engine.sessions, 0);
}

TEST_F(CommandsTest, SweepOnTheNullDeviceOnlyPlans) {
  options_.engine.device = "null";
  ASSERT_TRUE(SweepCommand(options_, world_.environment).ok());
  EXPECT_EQ(world_.engine.steps_run, 0);
  EXPECT_THAT(world_.out.str(), HasSubstr("lru,none,0,OK,0,0,0,0,400,,"));
}

TEST_F(CommandsTest, SweepOfWhatNeverFitsDoesNotFit) {
  options_.sweep.budgets = {"10"};
  EXPECT_EQ(ExitStatus(SweepCommand(options_, world_.environment)), kExitDoesNotFit);
}

TEST_F(CommandsTest, PlanUsesTheMachinesMemoryAndRunsNothing) {
  options_.engine.machine = MILLRACE_SOURCE_DIR "/configs/machines/titanx.pbtxt";
  options_.output.report_out = Path("report.json");
  const absl::Status status = PlanCommand(options_, world_.environment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(world_.engine.steps_run, 0);
  EXPECT_FALSE(world_.engine.init_run);
  EXPECT_THAT(world_.out.str(), HasSubstr("budget 12.00 GiB, peak predicted 400 B"));
  EXPECT_THAT(Read("report.json"), HasSubstr("\"name\": \"titanx\""));
}

TEST_F(CommandsTest, ExportAndModelAskForAFileOfAKnownKind) {
  EXPECT_EQ(ExitStatus(ExportCommand(options_, world_.environment)), kExitUsage);
  options_.out = Path("graph.onnx");
  EXPECT_EQ(ExitStatus(ExportCommand(options_, world_.environment)), kExitUsage);
  options_.out = Path("graph.dot");
  EXPECT_TRUE(ExportCommand(options_, world_.environment).ok());
  options_.argument = "no such";
  const absl::Status status = ModelCommand(options_, world_.environment);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("resnet"));
  options_.argument = "resnet";
  EXPECT_TRUE(ModelCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.out.str(), HasSubstr("parameters"));
}

TEST_F(CommandsTest, ProgressIsShownOnATerminalOnly) {
  world_.environment.err_is_terminal = true;
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.err.str(), HasSubstr("tensorflowmem [####################..........] 2/3 500.0 ms a step"));
  EXPECT_THAT(world_.err.str(), testing::EndsWith("\r\x1b[K"));
}

TEST_F(CommandsTest, ProgressIsNoWiderThanTheTerminal) {
  world_.environment.err_is_terminal = true;
  world_.environment.err_columns = [] { return 20; };
  ASSERT_TRUE(RunCommand(options_, world_.environment).ok());
  EXPECT_THAT(world_.err.str(), HasSubstr("\r\x1b[Ktensorflowmem [####\r"));
}

TEST(CommandTableTest, EveryCommandHasASummaryAndAnExampleOfItself) {
  for (const Command& command : Commands()) {
    EXPECT_EQ(FindCommand(command.name), &command);
    EXPECT_THAT(std::string(command.example), testing::StartsWith(std::string("millrace ") + command.name));
    EXPECT_FALSE(std::string(command.summary).empty());
  }
  EXPECT_EQ(FindCommand("frobnicate"), nullptr);
}

}  // namespace
}  // namespace millrace::cli
