// Steps of two signatures by turns, which share variables wherever these live, with values that are read and set between them: the bits of
// baseline without a budget.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "disk_session.h"
#include "model_run.h"

namespace millrace::testing {
namespace {

struct Place {
  const char* name;
  int devices;
  int64_t part_bytes;
  int host_percent;  // of what is swapped and kept there; 0: no disk below it
  const char* device = "cpu";
};
constexpr Place kPlaces[] = {
    {"Parts", 1, 1024, 0},
    {"PartsOnTwoDevices", 2, 1024, 0},
    {"AboveADisk", 1, 0, 20},
    {"TwoDevicesAboveADisk", 2, 0, 20},
    {"GraphsOfStreams", 1, 1024, 0, "cuda_emulated"},
    {"GraphsOfTwoDevices", 2, 0, 0, "cuda_emulated"},
};

Graph Layers(int devices, bool cpu) {
  auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 32, .channels = 32, .optimizer = "momentum", .seed = 3});
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (int32_t i = 0; devices > 1 && i < graph->num_ids(); ++i) {
    Node& node = graph->mutable_node(NodeId{i});
    node.requested_device = absl::StrCat("/device:", cpu ? "CPU:" : "GPU:", absl::StrContains(node.name, "layer1") ? 1 : 0);
  }
  return *std::move(graph);
}

struct Results {
  std::vector<float> losses;
  std::map<std::string, std::string> variables;
  bool operator==(const Results&) const = default;
};

// Before each training step its loss alone.
Results RunByTurns(ModelRun& run) {
  Results results;
  for (int step = 0; step < 4; ++step) {
    std::vector<Tensor> out;
    const absl::Status ran = run.session().Run(run.feeds(), {"loss:0"}, {}, &out);
    EXPECT_TRUE(ran.ok()) << ran;
    if (!ran.ok()) return results;
    results.losses.push_back(out[0].as<float>()[0]);
    if (step == 2) {
      auto variables = run.session().Variables();
      EXPECT_TRUE(variables.ok()) << variables.status();
      for (auto& [name, value] : *variables) {
        if (!absl::StrContains(name, "layer1") || value.dtype() != DataType::kFloat) continue;
        for (float& element : value.mutable_as<float>()) element *= 0.5f;
        EXPECT_TRUE(run.session().SetVariable(name, value).ok());
      }
    }
    for (const float loss : run.Steps(1)) results.losses.push_back(loss);
    EXPECT_TRUE(run.status().ok()) << run.status();
    if (step == 1) run.Variables();
  }
  results.variables = run.Variables();
  return results;
}

class AlternatingSteps : public ::testing::TestWithParam<Place> {
 protected:
  static SessionOptions Options(const std::string& strategy, int64_t budget_bytes) {
    SessionOptions options = UnderBudget(strategy, budget_bytes);
    options.device = GetParam().device;
    options.replan.mode = ReplanOptions::Mode::kOff;
    return options;
  }
};

TEST_P(AlternatingSteps, HaveTheBitsOfBaseline) {
  const Place& place = GetParam();
  const Graph graph = Layers(place.devices, std::string(place.device) == "cpu");
  ModelRun free(graph, Options("baseline", 0));
  const Results expected = RunByTurns(free);
  EXPECT_NE(expected.losses[4], expected.losses[5]) << "the values that were set are used";
  for (const char* strategy : {"planned", "tensorflowmem"}) {
    SessionOptions options = Options(strategy, free.report().peak_device_bytes * 7 / 10);
    options.planning.update_part_bytes = place.part_bytes;
    for (int d = 0; d < place.devices && place.devices > 1; ++d) options.planning.devices.push_back(absl::StrCat(place.device, ":", d));
    if (place.host_percent > 0) {
      ModelRun untiered(graph, options);
      options = WithDisk(options, HostBudget(untiered, place.host_percent / 100.0));
    }
    ModelRun run(graph, options);
    EXPECT_TRUE(RunByTurns(run) == expected) << strategy << ": " << run.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Places, AlternatingSteps, ::testing::ValuesIn(kPlaces), [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace millrace::testing
