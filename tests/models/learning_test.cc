// A small size of every generated model learns one fixed batch.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "models/models.h"
#include "testlib/graph_interpreter.h"

namespace millrace {
namespace {

struct Learner {
  const char* model;
  ModelOptions options;
  int steps;
};

void PrintTo(const Learner& learner, std::ostream* out) { *out << learner.model; }

const Learner kLearners[] = {
    {"mlp", {.batch = 16, .classes = 3, .layers = 3, .hidden = 16, .channels = 8, .seed = 1}, 60},
    {"resnet", {.batch = 8, .image_size = 16, .classes = 4, .depth = 11, .variant = "cifar", .seed = 1}, 15},
    {"vgg",
     {.batch = 4, .image_size = 32, .classes = 4, .depth = 11, .hidden = 16, .channels = 4, .dropout = 0,
      .optimizer = "adam", .learning_rate = 0.003, .seed = 1},
     30},
    {"googlenet", {.batch = 2, .image_size = 64, .classes = 4, .dropout = 0, .optimizer = "adam",
                   .learning_rate = 0.0003, .seed = 1}, 8},
    {"densenet", {.batch = 4, .image_size = 32, .classes = 4, .depth = 13, .channels = 4, .seed = 1}, 30},
    {"deeplab",
     {.batch = 2, .image_size = 32, .classes = 4, .dropout = 0, .variant = "resnet50", .learning_rate = 0.003,
      .seed = 1},
     8},
    {"unet3d", {.batch = 2, .image_size = 8, .channels = 2, .levels = 2, .learning_rate = 0.01, .seed = 1}, 40},
    {"lstm", {.batch = 8, .layers = 2, .hidden = 16, .steps_unrolled = 5, .vocab = 10, .seed = 1}, 30},
    {"deepspeech",
     {.batch = 2, .layers = 1, .hidden = 16, .steps_unrolled = 16, .channels = 2, .learning_rate = 0.01, .seed = 1},
     20},
    {"bert",
     {.batch = 4, .layers = 1, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20, .dropout = 0,
      .learning_rate = 0.01, .seed = 1},
     30},
    {"gpt",
     {.batch = 4, .layers = 1, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20, .dropout = 0,
      .learning_rate = 0.01, .seed = 1},
     30},
    {"moe_transformer",
     {.batch = 4, .layers = 1, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20, .experts = 4, .dropout = 0,
      .learning_rate = 0.01, .seed = 1},
     30},
};

// Numbers in [-1, 1) for floats, 0 or 1 for integers, the same in every run.
std::map<std::string, Tensor> FixedFeeds(const Graph& graph) {
  std::map<std::string, Tensor> feeds;
  uint64_t state = 1;
  const auto next = [&state] { return state = state * 6364136223846793005u + 1442695040888963407u; };
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op != "Placeholder") continue;
    Tensor tensor(node.outputs[0].dtype, node.outputs[0].shape);
    for (int64_t k = 0; k < tensor.num_elements(); ++k) {
      if (tensor.dtype() == DataType::kFloat) {
        tensor.mutable_as<float>()[k] = static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f;
      } else {
        tensor.mutable_as<int32_t>()[k] = static_cast<int32_t>(next() >> 63);
      }
    }
    feeds[node.name] = std::move(tensor);
  }
  return feeds;
}

class SmallModel : public ::testing::TestWithParam<Learner> {};

// Of every step.
absl::StatusOr<std::vector<float>> Losses(const Learner& learner, const std::string& precision) {
  ModelOptions options = learner.options;
  options.precision = precision;
  MR_ASSIGN_OR_RETURN(const Graph graph, BuildModel(learner.model, options));
  testing::GraphInterpreter interpreter(graph);
  MR_RETURN_IF_ERROR(interpreter.Run({}, {}, {"init"}).status());
  const std::map<std::string, Tensor> feeds = FixedFeeds(graph);
  std::vector<float> losses;
  for (int step = 0; step < learner.steps; ++step) {
    MR_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, interpreter.Run(feeds, {"loss:0"}, {"train"}));
    losses.push_back(fetched.front().as<float>()[0]);
    if (!std::isfinite(losses.back())) return absl::InternalError(absl::StrCat("step ", step, ": ", losses.back()));
  }
  return losses;
}

TEST_P(SmallModel, Learns) {
  const absl::StatusOr<std::vector<float>> losses = Losses(GetParam(), "");
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_LT(losses->back(), 0.7f * losses->front()) << ::testing::PrintToString(*losses);
}

TEST_P(SmallModel, LearnsInSixteenBitsWhereItHasThem) {
  const auto& options = std::find_if(Models().begin(), Models().end(), [](const ModelInfo& info) { return info.name == GetParam().model; })->options;
  if (std::find(options.begin(), options.end(), "precision") == options.end()) return;
  const absl::StatusOr<std::vector<float>> wide = Losses(GetParam(), "float32");
  ASSERT_TRUE(wide.ok()) << wide.status();
  for (const char* precision : {"bfloat16", "float16"}) {
    const absl::StatusOr<std::vector<float>> losses = Losses(GetParam(), precision);
    ASSERT_TRUE(losses.ok()) << precision << ": " << losses.status();
    EXPECT_NEAR(losses->front(), wide->front(), 0.02f * wide->front()) << precision;
    EXPECT_LT(losses->back(), 0.7f * losses->front()) << precision << ::testing::PrintToString(*losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SmallModel, ::testing::ValuesIn(kLearners),
                         [](const ::testing::TestParamInfo<Learner>& info) { return std::string(info.param.model); });

TEST(SmallModels, IncludeEveryModel) {
  for (const ModelInfo& info : Models()) {
    EXPECT_TRUE(std::any_of(std::begin(kLearners), std::end(kLearners),
                            [&](const Learner& learner) { return learner.model == info.name; }))
        << info.name;
  }
}

}  // namespace
}  // namespace millrace
