// explain and fit on real sessions of the null device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "graph/text.h"
#include "testlib/logged.h"
#include "millrace/status.h"
#include "models/models.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PlanningCommandsTest : public testing::Test {
 protected:
  PlanningCommandsTest() {
    environment_.out = &out_;
    environment_.err = &err_;
    environment_.load_graph = [](const std::string&) { return BuildModel("mlp", {.batch = 32, .layers = 3, .hidden = 64}); };
    environment_.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions options) {
      return Session::Create(std::move(graph), std::move(options));
    };
    options_.input.graph = "graph.pb";
    options_.input.synthetic_feeds = true;
    options_.input.fetches = {"loss:0"};
    options_.input.targets = {"train"};
    options_.engine.device = "null";
    options_.strategy.strategy = "planned";
  }

  // The number after `words` in what was printed; -1 when they are not there.
  int64_t NumberAfter(const std::string& words) const {
    const std::string text = out_.str();
    const size_t at = text.find(words);
    if (at == std::string::npos) return -1;
    const size_t begin = at + words.size();
    int64_t number = -1;
    return absl::SimpleAtoi(text.substr(begin, text.find_first_not_of("0123456789", begin) - begin), &number) ? number : -1;
  }

  int64_t LargestBatchAt(const std::string& device_memory) {
    FitModel("mlp");
    options_.vary = "batch";
    options_.engine.device_memory = device_memory;
    out_.str("");
    const absl::Status status = FitCommand(options_, environment_);
    EXPECT_TRUE(status.ok()) << status;
    return NumberAfter("with planned: ");
  }

  // A model takes the place of the graph.
  void FitModel(const std::string& model) {
    options_.argument = model;
    options_.input.graph.clear();
  }

  // `command`'s report, whatever became of it.
  std::string ReportOf(absl::Status (*command)(const Options&, const Environment&)) {
    options_.output.report_out = (fs::temp_directory_path() / absl::StrCat("planning_report_", getpid(), ".json")).string();
    command(options_, environment_).IgnoreError();
    std::stringstream text;
    text << std::ifstream(options_.output.report_out).rdbuf();
    fs::remove(options_.output.report_out);
    return text.str();
  }

  std::ostringstream out_, err_;
  Environment environment_;
  Options options_;
};

TEST_F(PlanningCommandsTest, InspectCountsAsUnsupportedWhatSignaturesNeed) {
  options_.input = {.saved_model = "folder"};
  const char* served = "Identity";
  environment_.load_saved_model = [&](const std::string&) -> absl::StatusOr<SavedModel> {
    SavedModel model;
    const auto add = [&](const char* name, const char* op) { return model.graph.AddNode({.name = name, .op = op}).status(); };
    MR_RETURN_IF_ERROR(add("loss", served));
    MR_RETURN_IF_ERROR(add("save/SaveV2", "SaveV2"));
    model.signatures["train"] = {.outputs = {{"loss", {"loss:0", {}}}}};
    return model;
  };
  ASSERT_TRUE(InspectCommand(options_, environment_).ok());
  EXPECT_THAT(out_.str(), HasSubstr("unsupported  none"));
  served = "Mystery";
  ASSERT_TRUE(InspectCommand(options_, environment_).ok());
  EXPECT_THAT(out_.str(), HasSubstr("unsupported  Mystery 1\n"));
}

TEST_F(PlanningCommandsTest, FactsOfTheGraphAreTheSameWhateverIsPlanned) {
  const auto facts = [&](absl::Status (*command)(const Options&, const Environment&)) {
    const std::string report = ReportOf(command);
    EXPECT_THAT(report, HasSubstr("\"graph\": {"));
    return report.substr(report.find("\"graph\""), report.find("\"largest_node\"") - report.find("\"graph\""));
  };
  options_.strategy.strategy = "baseline";
  const std::string want = facts(PlanCommand);
  EXPECT_THAT(want, testing::Not(HasSubstr("\"nodes\": 0,")));
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "reactive", "tflms", "planned"}) {
    // Some do not fit. What does has updates in parts, among others.
    for (const char* budget : {"", "60%", "100"}) {
      options_.strategy.strategy = strategy;
      options_.strategy.update_parts = "1KiB";
      options_.engine.device_memory = budget;
      EXPECT_EQ(facts(PlanCommand), want) << strategy << " at " << budget;
    }
  }
  options_.strategy.strategies = {"lru", "tflms"};
  options_.engine.device = "cpu";
  EXPECT_EQ(facts(CompareCommand), want);  // nothing runs without initial values
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("graph: 0 nodes")));
  options_.engine.device = "null";
  EXPECT_EQ(facts(SweepCommand), want);
}

// As many rows as n says, which grows by ten in every step.
constexpr char kGrowingRows[] = R"(
n = VarHandleOp() {dtype=int32, shape=shape[], shared_name="n"}
start = Const() {dtype=int32, value=int32[]{50}}
wide = Const() {dtype=int32, value=int32[]{1000}}
one = Const() {dtype=int32, value=int32[]{10}}
half = Const() {dtype=float, value=float[]{0.5}}
init = AssignVariableOp(n, start) {dtype=int32}
now = ReadVariableOp(n) {dtype=int32}
dims = Pack(now, wide) {T=int32, N=2, axis=0}
rows = Fill(dims, half) {T=float, index_type=int32}
twice = AddV2(rows, rows) {T=float}
update = AssignAddVariableOp(n, one) ^twice {dtype=int32}
)";

// What decides the step's sizes is found where the step can be run.
TEST_F(PlanningCommandsTest, WhatIsLackingToFindSizesIsSaid) {
  environment_.load_graph = [](const std::string&) { return ParseGraphText(kGrowingRows); };
  options_.input.fetches = {"twice:0"};
  options_.input.targets = {"update"};
  EXPECT_THAT(std::string(PlanCommand(options_, environment_).message()),
              testing::AllOf(HasSubstr("'rows'"), HasSubstr("finds what decides this, but there is no device")));
  options_.engine.device = "cpu";
  EXPECT_THAT(std::string(PlanCommand(options_, environment_).message()),
              testing::AllOf(HasSubstr("'rows'"), HasSubstr("finds what decides this, but variable 'n'")));
  options_.input.init_targets = {"init"};
  const absl::Status status = PlanCommand(options_, environment_);
  EXPECT_TRUE(status.ok()) << status;
}

// Some step's rows are too many.
TEST_F(PlanningCommandsTest, ALaterStepThatDoesNotFitEndsAsTheFirstWould) {
  environment_.load_graph = [](const std::string&) { return ParseGraphText(kGrowingRows); };
  options_.engine.device = "cpu";
  options_.input.synthetic_feeds = false;
  options_.input.fetches = {"twice:0"};
  options_.input.targets = {"update"};
  options_.input.init_targets = {"init"};
  options_.input.steps = 10;
  options_.engine.device_memory = "500KiB";
  const absl::Status status = RunCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not fit"));
  EXPECT_THAT(out_.str(), HasSubstr("(median of "));

  // What the first step takes would be no help.
  const auto hint_of = [](const absl::Status& status) {
    std::pair<int64_t, int64_t> hint;  // step, bytes
    const std::string message(status.message());
    const size_t at = message.find("\nhint: ");
    EXPECT_NE(at, std::string::npos) << message;
    if (at == std::string::npos) return hint;
    EXPECT_EQ(std::sscanf(message.c_str() + at, "\nhint: step %" SCNd64 " needs about --device_memory=%" SCNd64, &hint.first, &hint.second), 2) << message;
    return hint;
  };
  const auto [step, bytes] = hint_of(status);
  EXPECT_GT(step, 1);
  options_.engine.device_memory = absl::StrCat(bytes);
  EXPECT_GT(hint_of(RunCommand(options_, environment_)).first, step);
}

TEST_F(PlanningCommandsTest, ExplainSaysWhyAVariableIsFetched) {
  options_.strategy.strategy = "tensorflowmem";
  options_.strategy.partition_size = 1;
  options_.argument = "layer1/kernel";
  const absl::Status status = ExplainCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), HasSubstr("its home is in host memory"));
}

TEST_F(PlanningCommandsTest, ExplainSaysThatEverythingFits) {
  options_.argument = "layer1/kernel";
  const absl::Status status = ExplainCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), HasSubstr("Everything fits, so nothing moves."));
}

TEST_F(PlanningCommandsTest, ExplainWantsANameThatIsThere) {
  EXPECT_EQ(ExitStatus(ExplainCommand(options_, environment_)), kExitUsage);
  options_.argument = "layer1/kernels";
  const absl::Status status = ExplainCommand(options_, environment_);
  EXPECT_THAT(status.message(), HasSubstr("no node or tensor 'layer1/kernels' in the plan"));
  EXPECT_THAT(status.message(), HasSubstr("there are layer1/kernel"));
  options_.argument = "kernel:0";
  EXPECT_THAT(ExplainCommand(options_, environment_).message(), HasSubstr("there are layer1/kernel"));
  options_.argument = "nothing/like/this";
  EXPECT_THAT(ExplainCommand(options_, environment_).message(), HasSubstr("it may have been folded"));
  EXPECT_EQ(out_.str(), "");
}

// Plans have no step for what only reads a variable.
TEST_F(PlanningCommandsTest, ExplainOfAReadIsOfItsVariable) {
  environment_.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
v = VarHandleOp() {dtype=float, shape=shape[3], shared_name="w0"}
read = ReadVariableOp(v) {dtype=float}
same = Identity(read) {T=float}
out = Relu(same) {T=float}
unused = ReadVariableOp(v) {dtype=float}
)");
  };
  options_.input.fetches = {"out:0"};
  options_.input.targets = {};
  options_.argument = "unused:0";
  EXPECT_TRUE(absl::IsNotFound(ExplainCommand(options_, environment_)));
  for (const char* name : {"read:0", "read", "same:0", "v"}) {
    options_.argument = name;
    out_.str("");
    const absl::Status status = ExplainCommand(options_, environment_);
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_THAT(out_.str(), testing::StartsWith(absl::StrCat(name, " is the variable w0 itself:\nw0, "))) << name;
  }
}

TEST_F(PlanningCommandsTest, ExplainRefusesWhatDoesNotFit) {
  options_.argument = "layer1/kernel";
  options_.engine.device_memory = "100";
  EXPECT_EQ(ExitStatus(ExplainCommand(options_, environment_)), kExitDoesNotFit);
}

TEST_F(PlanningCommandsTest, WhatIsExportedHasNamesThatTensorFlowTakes) {
  options_.out = (fs::path(testing::TempDir()) / "exported.pb").string();
  std::string fetch;
  environment_.save_graph = [&](const Graph& graph, const std::string&) {
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed) continue;
      EXPECT_THAT(node.name, testing::MatchesRegex("[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*"));
      if (node.op == "_Fetch") fetch = node.name;
    }
    return absl::OkStatus();
  };
  const absl::Status status = ExportCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(fetch, "fetch/loss_0");
}

TEST_F(PlanningCommandsTest, FitFindsLargerBatchesInMoreMemory) {
  const int64_t small = LargestBatchAt("4MiB"), large = LargestBatchAt("8MiB");
  EXPECT_GT(small, 0);
  EXPECT_GT(large, small);
  EXPECT_THAT(out_.str(), HasSubstr("largest batch that fits 8.00 MiB with planned"));
}

TEST_F(PlanningCommandsTest, EveryPlanningCommandWritesAReport) {
  EXPECT_THAT(ReportOf(MachineCommand), HasSubstr("\"machine\""));
  options_.engine.device_memory = "1GiB";
  options_.argument = "layer1/MatMul";
  EXPECT_THAT(ReportOf(ExplainCommand), HasSubstr("\"predicted_step_seconds\""));
  FitModel("mlp");
  options_.vary = "batch";
  EXPECT_THAT(ReportOf(FitCommand), HasSubstr("\"memory_budget_bytes\": 1073741824"));
  options_.vary = "budget";
  EXPECT_THAT(ReportOf(FitCommand), HasSubstr("\"predicted_peak_device_bytes\""));
}

TEST_F(PlanningCommandsTest, FitSpreadsTheModelOverTheDevices) {
  options_.engine.devices = "2";
  options_.strategy.strategy = "baseline";
  FitModel("moe_transformer");
  options_.model.layers = 2;
  options_.vary = "budget";
  out_.str("");
  const absl::Status status = FitCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("null:1"), testing::Not(HasSubstr(" 0 kernels"))));
}

TEST_F(PlanningCommandsTest, FitSaysThatNothingFits) {
  FitModel("mlp");
  options_.vary = "batch";
  options_.engine.device_memory = "1KiB";
  const absl::Status status = FitCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(std::string(status.message()), testing::ContainsRegex("not even batch 1 fits 1.00 KiB with planned: .*node '[^']+'.*short by [0-9]+"));
  EXPECT_THAT(ReportOf(FitCommand), HasSubstr("\"status\": \"RESOURCE_EXHAUSTED\""));
}

// Which are 11, 13, 16 and 19.
TEST_F(PlanningCommandsTest, FitGoesOverDepthsThatAModelDoesNotHave) {
  FitModel("vgg");
  options_.model = {.batch = 2, .image_size = 64};
  options_.vary = "depth";
  options_.engine.device_memory = "4GiB";
  absl::Status status = FitCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(NumberAfter("with planned: "), 19);
  options_.engine.device_memory = "1KiB";
  status = FitCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("not even depth 11 fits"));
  options_.model.depth = 9;
  status = FitCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_EQ(status.message(), "model vgg: depth is 9, expected 11, 13, 16 or 19");
}

TEST_F(PlanningCommandsTest, FitTellsWhatItTries) {
  const auto tried = [&](const char* vary) {
    FitModel("mlp");
    options_.vary = vary;
    Logged told(google::GLOG_INFO);
    EXPECT_TRUE(FitCommand(options_, environment_).ok());
    return told.lines;
  };
  options_.engine.device_memory = "20MiB";
  EXPECT_THAT(tried("batch"), testing::Contains(testing::StartsWith("fit: trying batch ")));
  options_.engine.device_memory = "";
  EXPECT_THAT(tried("budget"), testing::AllOf(testing::Contains("fit: trying budget none"),
                                              testing::Contains(testing::ContainsRegex("fit: trying budget [0-9.]+ MiB"))));
}

TEST_F(PlanningCommandsTest, FitSaysThatHostMemoryIsMissing) {
  FitModel("mlp");
  options_.vary = "batch";
  options_.engine.device_memory = "20MiB";
  options_.engine.host_memory = "1KiB";
  const absl::Status status = FitCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("bytes of host memory"), HasSubstr("the budget is 1024"),
                                                            HasSubstr("; largest variables and constants: ")));
}

TEST_F(PlanningCommandsTest, FitIsOfAModelOrOfAGraph) {
  options_.argument = "mlp";
  options_.vary = "batch";
  options_.engine.device_memory = "20MiB";
  const absl::Status status = FitCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(status.message(), HasSubstr("the model mlp or the graph"));
}

TEST_F(PlanningCommandsTest, TheSmallestBudgetPlansAndHalfOfItDoesNot) {
  options_.vary = "budget";
  ASSERT_TRUE(FitCommand(options_, environment_).ok());
  const int64_t smallest = NumberAfter("with planned: ");
  ASSERT_GT(smallest, 0) << out_.str();
  options_.engine.device_memory = absl::StrCat(smallest);
  EXPECT_TRUE(PlanCommand(options_, environment_).ok());
  options_.engine.device_memory = absl::StrCat(smallest / 2);
  EXPECT_EQ(ExitStatus(PlanCommand(options_, environment_)), kExitDoesNotFit);
}

TEST_F(PlanningCommandsTest, WhatHostMemoryLacksIsHintedAt) {
  options_.engine.host_memory = "1KiB";
  const absl::Status status = PlanCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitDoesNotFit);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("--disk"))) << "whose buffer is larger";
  const std::string message(status.message()), flag = "hint: --host_memory=";
  const size_t at = message.find(flag);
  ASSERT_NE(at, std::string::npos) << message;
  options_.engine.host_memory = message.substr(at + flag.size(), message.find(' ', at + flag.size()) - at - flag.size());
  EXPECT_TRUE(PlanCommand(options_, environment_).ok()) << options_.engine.host_memory;
}

// Initialisers, and states of nodes, may need more than the steps' plan; with a disk its buffer is of host memory, too.
TEST_F(PlanningCommandsTest, HintsOfHostMemoryAreEnough) {
  options_.engine.device = "cpu";
  options_.input.init_targets = {"init"};
  int64_t hidden = 8;  // of less than the buffer is large
  environment_.load_graph = [&hidden](const std::string&) {
    return BuildModel("mlp", {.batch = 4, .layers = 2, .hidden = hidden, .optimizer = "adam"});
  };
  const std::string folder = fs::temp_directory_path().string();
  int hinted_at_disks = 0;
  for (const auto& [size, disk] : {std::pair<int64_t, std::string>{8, ""}, {8, folder}, {400, ""}, {400, folder}}) {
    hidden = size;
    for (const char* memory : {"1", "1KiB", "1MiB", "2MiB"}) {
      options_.engine.disk = disk;
      options_.engine.host_memory = memory;
      const absl::Status status = PlanCommand(options_, environment_);
      if (status.ok()) continue;
      EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << memory << " " << disk << status;
      const std::string message(status.message()), flag = "hint: --host_memory=";
      const size_t at = message.find(flag);
      ASSERT_NE(at, std::string::npos) << memory << " " << disk << message;
      options_.engine.host_memory = message.substr(at + flag.size(), message.find(' ', at + flag.size()) - at - flag.size());
      const absl::Status hinted = PlanCommand(options_, environment_);
      EXPECT_TRUE(hinted.ok()) << memory << " " << disk << ": " << hinted;
      options_.engine.host_memory = absl::StrCat(std::stoll(options_.engine.host_memory) * 9 / 10);
      EXPECT_EQ(ExitStatus(PlanCommand(options_, environment_)), kExitDoesNotFit) << options_.engine.host_memory << " would do, too";
      if (message.find("hint: --disk=DIR") == std::string::npos) continue;
      options_.engine.host_memory = memory;
      options_.engine.disk = folder;
      EXPECT_TRUE(PlanCommand(options_, environment_).ok()) << memory;
      options_.engine.disk = disk;
      ++hinted_at_disks;
    }
  }
  EXPECT_GT(hinted_at_disks, 0);
}

// Beside a disk updates are whole, and more than the device holds.
TEST_F(PlanningCommandsTest, WhatFitsWithoutADiskIsHintedAt) {
  environment_.load_graph = [](const std::string&) {
    return BuildModel("mlp", {.batch = 4, .layers = 3, .hidden = 1024, .optimizer = "adam"});
  };
  options_.engine.device_memory = "12MiB";
  for (const auto& [host_memory, hint] : {std::pair<std::string, std::string>{"64MiB", "\nhint: without --disk it would fit"},
                                          {"10MiB", " would fit with planned without --disk"}}) {
    options_.engine.host_memory = host_memory;
    options_.engine.disk = fs::temp_directory_path().string();
    const absl::Status status = PlanCommand(options_, environment_);
    EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << status;
    const std::string message(status.message()), flag = "hint: --host_memory=";
    EXPECT_THAT(message, HasSubstr(hint));
    const size_t at = message.find(flag);
    if (at != std::string::npos) {
      options_.engine.host_memory = message.substr(at + flag.size(), message.find(' ', at + flag.size()) - at - flag.size());
    }
    options_.engine.disk.clear();
    EXPECT_TRUE(PlanCommand(options_, environment_).ok()) << options_.engine.host_memory;
  }
}

TEST_F(PlanningCommandsTest, FiltersOfTflmsNameNodesOfTheGraphWhetherInitialisersHaveThemOrNot) {
  options_.strategy.strategy = "tflms";
  options_.input.init_targets = {"init"};
  options_.strategy.filters.exclude_outputs = {"gradients/", "type:MatMul"};
  const absl::Status status = PlanCommand(options_, environment_);
  EXPECT_TRUE(status.ok()) << status;
  options_.strategy.filters.exclude_outputs = {"gradient_of/"};
  EXPECT_THAT(PlanCommand(options_, environment_).message(), HasSubstr("no node's name begins with \"gradient_of/\""));
}

TEST_F(PlanningCommandsTest, WhatIsPlannedForThisCpuHasItsKernelsScratch) {
  environment_.load_graph = [](const std::string&) { return BuildModel("unet3d", {.batch = 1, .image_size = 16, .channels = 8}); };
  options_.vary = "budget";
  const auto smallest = [&](const std::string& device) {
    out_.str("");
    options_.engine.device = device;
    EXPECT_TRUE(FitCommand(options_, environment_).ok());
    return NumberAfter("with planned: ");
  };
  EXPECT_NE(smallest("cpu"), smallest("null"));
}

TEST_F(PlanningCommandsTest, FitAsksForABudgetAndForWhatCanVary) {
  FitModel("mlp");
  for (const auto& [vary, memory] : {std::pair{"batch", ""}, {"batch", "50%"}, {"width", "4MiB"}, {"", "4MiB"}}) {
    options_.vary = vary;
    options_.engine.device_memory = memory;
    EXPECT_EQ(ExitStatus(FitCommand(options_, environment_)), kExitUsage) << vary << " at " << memory;
  }
  options_.argument = "";
  options_.input.graph = "graph.pb";
  options_.vary = "depth";  // of a model only
  EXPECT_EQ(ExitStatus(FitCommand(options_, environment_)), kExitUsage);
}

TEST_F(PlanningCommandsTest, FitRefusesWhatTheModelDoesNotHave) {
  options_.engine.device_memory = "4GiB";
  for (const auto& [model, vary, has] : {std::tuple{"lstm", "image_size", "budget, batch, steps_unrolled, layers"},
                                         {"mlp", "depth", "budget, batch, layers"},
                                         {"resnet", "steps_unrolled", "budget, batch, depth, image_size"}}) {
    FitModel(model);
    options_.vary = vary;
    const absl::Status status = FitCommand(options_, environment_);
    EXPECT_EQ(ExitStatus(status), kExitUsage) << model;
    EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr(absl::StrCat("the model ", model, " has no such size")), testing::EndsWith(has)));
  }
  FitModel("no_such_model");
  options_.vary = "batch";
  EXPECT_EQ(ExitStatus(FitCommand(options_, environment_)), kExitUsage);
}

TEST_F(PlanningCommandsTest, WhatDoesNotFitNamesNodeNeedAndShortfall) {
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "reactive", "tflms", "planned"}) {
    for (const char* budget : {"100", "40KiB", "100KiB", "150KiB"}) {
      options_.strategy.strategy = strategy;
      options_.engine.device_memory = budget;
      const absl::Status status = PlanCommand(options_, environment_);
      if (status.ok()) continue;
      EXPECT_EQ(ExitStatus(status), kExitDoesNotFit) << strategy << " at " << budget;
      const std::string first_line = std::string(status.message()).substr(0, status.message().find('\n'));
      EXPECT_THAT(first_line, testing::ContainsRegex("node '[^']+'")) << strategy << " at " << budget;
      EXPECT_THAT(first_line, testing::ContainsRegex("needs [0-9]+ bytes")) << strategy << " at " << budget;
      EXPECT_THAT(first_line, testing::ContainsRegex("short by [0-9]+")) << strategy << " at " << budget;
    }
  }
}

// Whatever feeds come first.
TEST_F(PlanningCommandsTest, TheHintOfABatchIsOfFeedsWithAnOpenBatch) {
  environment_.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
a = Placeholder() {dtype=float, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[?,1024]}
y = Mul(x, a) {T=float}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
loss = Sum(y, axes) {T=float, Tidx=int32, keep_dims=false}
)");
  };
  options_.input.targets = {};
  options_.input.feed_shapes = "x:64x1024";
  options_.engine.device_memory = "200KiB";
  const std::string message(PlanCommand(options_, environment_).message()), words = "a batch of ";
  const size_t at = message.find(words);
  ASSERT_NE(at, std::string::npos) << message;
  const double batch = std::stod(message.substr(at + words.size()));
  EXPECT_GT(batch, 16);
  EXPECT_LT(batch, 50);
}

// The hint of a refused plan is the least that fits, as fit finds it, though it tries few plans.
TEST_F(PlanningCommandsTest, TheHintIsTheSmallestBudget) {
  for (const char* strategy : {"baseline", "reactive", "tflms", "planned"}) {
    options_.strategy.strategy = strategy;
    options_.vary = "budget";
    options_.engine.device_memory.clear();
    out_.str("");
    ASSERT_TRUE(FitCommand(options_, environment_).ok());
    const int64_t smallest = NumberAfter(absl::StrCat("with ", strategy, ": "));
    options_.engine.device_memory = absl::StrCat(smallest / 2);
    const std::string message(PlanCommand(options_, environment_).message());
    const std::string flag = "hint: --device_memory=";
    const size_t at = message.find(flag);
    ASSERT_NE(at, std::string::npos) << message;
    const double hint = std::stod(message.substr(at + flag.size()));
    EXPECT_NEAR(hint / static_cast<double>(smallest), 1, 0.021) << strategy << ": " << message;
    EXPECT_THAT(message, testing::Not(HasSubstr("at most that is needed")));
  }
}

TEST_F(PlanningCommandsTest, AnInitialiserThatNeedsFeedsIsNamed) {
  options_.input.init_targets = {"train"};
  EXPECT_THAT(std::string(PlanCommand(options_, environment_).message()), testing::StartsWith("init_targets train, before the first step: "));
}

TEST_F(PlanningCommandsTest, ARefusedInitialiserIsNamed) {
  options_.strategy.strategy = "tflms";
  options_.input.init_targets = {"init"};
  options_.vary = "budget";
  options_.input.fetches = {};
  options_.input.targets = {"init"};
  ASSERT_TRUE(FitCommand(options_, environment_).ok());
  const int64_t smallest = NumberAfter("with tflms: ");
  options_.input.targets = {"train"};
  options_.engine.device_memory = absl::StrCat(smallest / 2);
  const std::string message(PlanCommand(options_, environment_).message());
  EXPECT_THAT(message, testing::StartsWith("init_targets init, before the first step: does not fit"));
}

}  // namespace
}  // namespace millrace::cli
