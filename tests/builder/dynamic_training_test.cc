// Gradients through tensors whose length is known only when running, in a session.
#include <gtest/gtest.h>

#include <vector>

#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/optimizers.h"
#include "millrace/session.h"

namespace millrace {
namespace {

// loss = sum of the squares of w's elements above 1: w - 0.1 * 2 w there, the others stay.
TEST(DynamicTraining, ElementsThatAreChosenByTheirValuesGetTheirGradients) {
  for (const char* strategy : {"baseline", "planned", "tensorflowmem"}) {
    GraphBuilder b;
    Tensor initial(DataType::kFloat, Shape({4}));
    for (int i = 0; i < 4; ++i) initial.mutable_as<float>()[i] = static_cast<float>(i);
    const Variable w = b.AddVariable("w", {4}, init::Value(initial));
    const Output value = w.Read();
    const Output above =
        b.Op("Where", {ops::Binary("Greater", value, b.Scalar(DataType::kFloat, 1))}, {{"T", DataType::kBool}});
    const Output chosen = ops::Gather(value, ops::Squeeze(above, {1}));
    Minimize(b, Sgd(0.1), ops::Sum(ops::Square(chosen), {}, false, "loss"), "train");
    b.AddInit("init");
    absl::StatusOr<Graph> graph = std::move(b).Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.planning.strategy = strategy;
    const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
    std::vector<Tensor> fetched;
    // 4 + 9; then 1.6 and 2.4.
    for (const float loss : {13.0f, 8.32f}) {
      const absl::Status status = (*session)->Run({}, {"loss:0"}, {"train"}, &fetched);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status;
      EXPECT_NEAR(fetched[0].as<float>()[0], loss, 1e-5) << strategy;
    }
  }
}

// A net over `batch` images (-1: as many as are fed); its losses are "loss:0".
absl::StatusOr<Graph> SmallNet(int64_t batch) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {batch, 6, 6, 2}), labels = b.Placeholder("labels", DataType::kInt32, {batch});
  const Variable filter = b.AddVariable("filter", {3, 3, 2, 4}, init::HeNormal()), scale = b.AddVariable("scale", {4}, init::Constant(1));
  const Variable weights = b.AddVariable("weights", {36, 3}, init::GlorotUniform()), bias = b.AddVariable("bias", {3}, init::Constant(0));
  const Output features = ops::AvgPool(ops::Relu(ops::Conv2D(x, filter.Read()) * scale.Read()), {2}, {.strides = {2}});
  const Output flat = ops::Reshape(features, {-1, 36}), centered = flat - ops::Mean(flat, {1}, {}, true);
  const Output logits = ops::BiasAdd(ops::MatMul(centered, weights.Read()), bias.Read());
  const Output loss = ops::Mean(ops::SparseSoftmaxCrossEntropy(logits, labels).loss, {}, "loss");
  Minimize(b, Momentum(0.1, 0.9), loss, "train");
  b.AddInit("init");
  return std::move(b).Build();
}

// Losses of steps over batches of these sizes; the graph for each of them by `batch`.
std::vector<float> LossesOf(const char* strategy, const std::vector<int64_t>& batches, int64_t built_for) {
  absl::StatusOr<Graph> graph = SmallNet(built_for);
  EXPECT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.planning.strategy = strategy;
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<float> losses;
  for (const int64_t batch : batches) {
    Tensor x(DataType::kFloat, Shape({batch, 6, 6, 2})), labels(DataType::kInt32, Shape({batch}));
    for (int64_t i = 0; i < x.num_elements(); ++i) x.mutable_as<float>()[i] = static_cast<float>((i * 37 + batch) % 23) / 11 - 1;
    for (int64_t i = 0; i < batch; ++i) labels.mutable_as<int32_t>()[i] = static_cast<int32_t>(i % 3);
    std::vector<Tensor> fetched;
    const absl::Status status = (*session)->Run({{"x", x}, {"labels", labels}}, {"loss:0"}, {"train"}, &fetched);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    losses.push_back(fetched[0].as<float>()[0]);
  }
  return losses;
}

// The same bits as of a graph for that batch; and the last batch of an epoch may be smaller.
TEST(DynamicTraining, ABatchOfASizeThatIsNotKnownTrainsAsOneThatIs) {
  for (const char* strategy : {"baseline", "planned", "tensorflowmem"}) {
    EXPECT_EQ(LossesOf(strategy, {8, 8, 8}, -1), LossesOf(strategy, {8, 8, 8}, 8)) << strategy;
    const std::vector<float> losses = LossesOf(strategy, {8, 8, 3, 8, 8, 3}, -1);
    ASSERT_EQ(losses.size(), 6);
    EXPECT_EQ(losses, LossesOf("baseline", {8, 8, 3, 8, 8, 3}, -1)) << strategy;
    EXPECT_LT(losses[4], losses[0]) << strategy;
  }
}

// The dense shape of what is decoded is bounded when planning, so that a metric of it has a shape: two sequences, one of
// which is decoded as it should be; of the other one of two labels is wrong.
TEST(DynamicTraining, DistancesOfDecodedSequencesHaveAShape) {
  GraphBuilder b;
  Tensor scores(DataType::kFloat, Shape({2, 2, 3}));  // [time, batch, classes]; the last class is the blank
  for (int64_t i = 0; i < 12; ++i) scores.mutable_as<float>()[i] = 0;
  const auto best = [&](int64_t time, int64_t batch, int64_t label) { scores.mutable_as<float>()[(time * 2 + batch) * 3 + label] = 9; };
  best(0, 0, 0), best(1, 0, 1), best(0, 1, 1), best(1, 1, 1);
  const Variable w = b.AddVariable("w", {2, 2, 3}, init::Value(scores));
  const auto ints = [&](DataType dtype, Shape shape, std::vector<int64_t> values, const char* name) {
    Tensor tensor(dtype, shape);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DataType::kInt32) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(values[i]);
      else tensor.mutable_as<int64_t>()[i] = values[i];
    }
    return b.Const(std::move(tensor), name);
  };
  b.Op("CTCGreedyDecoder", {w.Read(), ints(DataType::kInt32, Shape({2}), {2, 2}, "lengths")}, {{"T", DataType::kFloat}}, "decoded");
  ints(DataType::kInt64, Shape({4, 2}), {0, 0, 0, 1, 1, 0, 1, 1}, "truth");
  ints(DataType::kInt64, Shape({4}), {0, 1, 1, 0}, "labels"), ints(DataType::kInt64, Shape({2}), {2, 2}, "shape");
  b.AddInit("init");
  absl::StatusOr<Graph> graph = std::move(b).Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  Node distance;
  distance.name = "distance";
  distance.op = "EditDistance";
  const NodeId from = graph->Find("decoded");
  distance.inputs = {{from, 0}, {from, 1}, {from, 2}, {graph->Find("truth"), 0}, {graph->Find("labels"), 0}, {graph->Find("shape"), 0}};
  distance.attrs.Set("T", DataType::kInt64);
  distance.attrs.Set("normalize", false);
  ASSERT_TRUE(graph->AddNode(std::move(distance)).ok());
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), {});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> fetched;
  const absl::Status status = (*session)->Run({}, {"distance:0"}, {}, &fetched);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(fetched[0].shape(), Shape({2}));
  EXPECT_EQ(fetched[0].as<float>()[0], 0);
  EXPECT_EQ(fetched[0].as<float>()[1], 1);
}

}  // namespace
}  // namespace millrace
