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

}  // namespace
}  // namespace millrace
