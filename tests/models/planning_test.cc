// The papers' large sizes plan without a device and without weights.
#include <string>

#include <gtest/gtest.h>

#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "millrace/optimizers.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "models/models.h"

namespace millrace {
namespace {

struct Size {
  const char* name;
  const char* model;
  ModelOptions options;
};

void PrintTo(const Size& size, std::ostream* out) { *out << size.name; }

class PaperSize : public ::testing::TestWithParam<Size> {};

TEST_P(PaperSize, PlansWithoutADevice) {
  absl::StatusOr<Graph> graph = BuildModel(GetParam().model, GetParam().options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  Session::FeedTypes feeds;
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    if (node.op == "Placeholder") feeds[node.name] = node.outputs[0];
  }
  SessionOptions options;
  options.device = "null";
  options.planning.strategy = "baseline";
  const auto session = Session::Create(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Plan({}, {}, {"init"}).ok());
  const auto plan = (*session)->Plan(feeds, {"loss:0"}, {"train"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT((*session)->last_run().predicted_peak_device_bytes, int64_t{1} << 30);
}

const Size kSizes[] = {
    {"resnet504", "resnet", {.batch = 16, .depth = 504}},
    {"googlenet_2240", "googlenet", {.batch = 15, .image_size = 2240}},
    {"unet3d_256", "unet3d", {.image_size = 256}},
    {"unet3d_batch_norm_144", "unet3d", {.variant = "batch"}},
    {"deeplab_5120", "deeplab", {.batch = 1, .image_size = 5120}},
    {"deeplab_resnet101_5120", "deeplab", {.batch = 1, .image_size = 5120, .variant = "resnet101"}},
    {"lstm_4_layers_100_steps", "lstm", {.layers = 4}},
    {"moe_48_experts_on_4_devices", "moe_transformer", {.experts = 48, .devices = 4}},
};

// The peak of a step in creation order over `layers` square matrices, their updates right behind their gradients or all
// at the end.
int64_t PeakOfStep(int layers, bool updates_at_the_end) {
  GraphBuilder b;
  const TensorType rows{DataType::kFloat, Shape({4, 512})};
  Output x = b.Placeholder("x", rows.dtype, rows.shape);
  for (int i = 0; i < layers; ++i) {
    x = ops::Relu(ops::MatMul(x, b.AddVariable("w" + std::to_string(i), {512, 512}, init::HeNormal())));
  }
  const Output loss = ops::Mean(x, {}, "loss");
  if (!updates_at_the_end) {
    Minimize(b, Sgd(0.1), loss, "train");
  } else {
    std::vector<Output> handles;
    for (const Variable& w : b.trainable()) handles.push_back(w.handle());
    const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {loss}, handles);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    const std::unique_ptr<Optimizer> sgd = Sgd(0.1);
    std::vector<Operation> updates;
    for (int i = 0; i < layers; ++i) updates.push_back(sgd->Apply(b, b.trainable()[i], (*gradients)[i]));
    b.Group(updates, "train");
  }
  b.AddInit("init");
  absl::StatusOr<Graph> graph = std::move(b).Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.device = "null";
  options.planning.strategy = "baseline";
  const auto session = Session::Create(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Plan({}, {}, {"init"}).ok());
  EXPECT_TRUE((*session)->Plan({{"x", rows}}, {"loss:0"}, {"train"}).ok());
  return (*session)->last_run().predicted_peak_device_bytes;
}

TEST(Minimize, UpdatesRightBehindTheirGradientsHoldOneGradientInsteadOfAll) {
  constexpr int kLayers = 8;
  constexpr int64_t kGradientBytes = int64_t{512} * 512 * 4;
  const int64_t early = PeakOfStep(kLayers, false), late = PeakOfStep(kLayers, true);
  EXPECT_GE(late - early, (kLayers - 2) * kGradientBytes) << early << " and " << late;
}

INSTANTIATE_TEST_SUITE_P(Sizes, PaperSize, ::testing::ValuesIn(kSizes),
                         [](const ::testing::TestParamInfo<Size>& info) { return info.param.name; });

// Whatever a model is, a little more than its largest working set is enough for each policy that makes room.
class TightBudget : public ::testing::TestWithParam<Size> {};

TEST_P(TightBudget, PlansInLittleMoreThanTheLargestWorkingSet) {
  const auto plan = [&](const std::string& strategy, int64_t budget_bytes) -> absl::StatusOr<GraphSummary> {
    MR_ASSIGN_OR_RETURN(Graph graph, BuildModel(GetParam().model, GetParam().options));
    Session::FeedTypes feeds;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.op == "Placeholder") feeds[node.name] = node.outputs[0];
    }
    SessionOptions options;
    options.device = "null";
    options.planning.strategy = strategy;
    options.planning.device_memory_bytes = budget_bytes;
    MR_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph), options));
    MR_RETURN_IF_ERROR(session->Plan(feeds, {"loss:0"}, {"train"}).status());
    return session->graph_summary();
  };
  const absl::StatusOr<GraphSummary> whole = plan("baseline", 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const int64_t budget_bytes = whole->largest_node_bytes + whole->largest_node_bytes / 20;
  for (const char* strategy : {"planned", "tensorflowmem", "lru"}) {
    const absl::StatusOr<GraphSummary> planned = plan(strategy, budget_bytes);
    EXPECT_TRUE(planned.ok()) << strategy << ": " << planned.status();
  }
}

const Size kSmallSizes[] = {
    {"resnet", "resnet", {.batch = 2, .image_size = 64, .depth = 50}},
    {"mlp", "mlp", {}},
    {"vgg", "vgg", {.batch = 2, .depth = 11}},
    {"googlenet", "googlenet", {.batch = 2}},
    {"densenet", "densenet", {.batch = 1, .image_size = 64}},
    {"deeplab", "deeplab", {.batch = 1, .image_size = 128}},
    {"unet3d", "unet3d", {.image_size = 32}},
    {"lstm", "lstm", {.layers = 1, .steps_unrolled = 20}},
    {"deepspeech", "deepspeech", {.steps_unrolled = 20}},
    {"moe_transformer", "moe_transformer", {.layers = 2, .hidden = 256, .experts = 4}},
    {"bert", "bert", {.layers = 2, .hidden = 256, .heads = 4}},
    {"gpt", "gpt", {.layers = 2, .hidden = 256, .heads = 4}},
};

INSTANTIATE_TEST_SUITE_P(Models, TightBudget, ::testing::ValuesIn(kSmallSizes),
                         [](const ::testing::TestParamInfo<Size>& info) { return info.param.name; });

}  // namespace
}  // namespace millrace
