#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/models.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

int64_t Convolutions(const Graph& graph) {
  int64_t count = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op == "Conv2D" && node.name.find("shortcut") == std::string::npos) ++count;
  }
  return count;
}

TEST(Resnet, EveryDepthHasThatManyLayers) {
  for (int64_t depth : {14, 15, 16, 50, 101, 152, 160, 200, 265, 266, 504, 1001, 1916}) {
    const absl::StatusOr<Graph> graph = BuildModel("resnet", {.batch = 1, .image_size = 64, .depth = depth});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(Convolutions(*graph) + 1, depth);
  }
  const absl::StatusOr<Graph> cifar =
      BuildModel("resnet", {.batch = 1, .image_size = 32, .depth = 164, .variant = "cifar"});
  ASSERT_TRUE(cifar.ok()) << cifar.status();
  EXPECT_EQ(Convolutions(*cifar) + 1, 164);
}

TEST(Resnet, TooFewLayersAndUnknownVariantsAreErrors) {
  EXPECT_THAT(std::string(BuildModel("resnet", {.depth = 13}).status().message()),
              HasSubstr("depth is 13, expected at least 14"));
  EXPECT_THAT(std::string(BuildModel("resnet", {.variant = "v3"}).status().message()), HasSubstr("'v3', expected auto"));
}

TEST(Resnet, DeepestIsGeneratedWithinASecondOfTheProcessor) {
  const std::clock_t start = std::clock();
  const absl::StatusOr<Graph> graph = BuildModel("resnet", {.batch = 16, .depth = 1916});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(graph.ok()) << graph.status();
  RecordProperty("nodes", graph->num_nodes());
  EXPECT_LT(seconds, 1.0) << graph->num_nodes() << " nodes";
}

TEST(Resnet, EveryUpdateStandsBeforeTheGradientsOfTheLayerBelow) {
  const absl::StatusOr<Graph> graph = BuildModel("resnet", {.batch = 1, .image_size = 64});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const NodeId update = graph->Find("stage4_block3/conv3/kernel/update");
  const NodeId below = graph->Find("gradients/stage4_block3/conv2/Conv2D_grad/Conv2DBackpropInput");
  ASSERT_TRUE(update.valid());
  ASSERT_TRUE(below.valid());
  EXPECT_LT(update, below);
}

}  // namespace
}  // namespace millrace
