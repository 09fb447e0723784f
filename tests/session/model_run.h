// A generated model trained in a session, for tests that compare bits.
#ifndef MILLRACE_TESTS_SESSION_MODEL_RUN_H_
#define MILLRACE_TESTS_SESSION_MODEL_RUN_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/session.h"
#include "models/models.h"
#include "plan_use.h"
#include "testlib/open_session.h"

namespace millrace::testing {

// Small, with dropout (streams that go on from step to step) and a slot per variable.
inline Graph SmallModel() {
  auto graph = BuildModel("gpt", {.batch = 2, .layers = 2, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20,
                                  .dropout = 0.1, .optimizer = "momentum", .seed = 1});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// A budget, and links on which copies take longer than computing.
inline SessionOptions UnderBudget(const std::string& strategy, int64_t budget_bytes) {
  SessionOptions options;
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = budget_bytes;
  options.machine.to_host_bytes_per_second = options.machine.to_device_bytes_per_second = 2e9;
  options.threads = 2;
  return options;
}

// 0 or 1 for integers, halves for floats.
inline Session::Feeds FeedsOf(const Graph& graph) {
  Session::Feeds feeds;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op != "Placeholder") continue;
    Tensor tensor(node.outputs[0].dtype, node.outputs[0].shape);
    for (int64_t k = 0; k < tensor.num_elements(); ++k) {
      if (tensor.dtype() == DataType::kFloat) {
        tensor.mutable_as<float>()[k] = static_cast<float>(k % 5) * 0.5f - 1;
      } else {
        tensor.mutable_as<int32_t>()[k] = static_cast<int32_t>(k % 2);
      }
    }
    feeds[node.name] = std::move(tensor);
  }
  return feeds;
}

// One training run, step by step.
class ModelRun {
 public:
  explicit ModelRun(const SessionOptions& options) : ModelRun(SmallModel(), options) {}
  ModelRun(const Graph& graph, const SessionOptions& options) : feeds_(FeedsOf(graph)) {
    auto session = OpenSession(graph.Clone(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return;
    session_ = *std::move(session);
    status_ = session_->Run({}, {}, {"init"}, nullptr);
  }

  // Losses of `steps` more steps; status() says how it ended.
  std::vector<float> Steps(int steps) {
    std::vector<float> losses;
    for (int i = 0; i < steps && status_.ok(); ++i) {
      std::vector<Tensor> out;
      status_ = session_->Run(feeds_, {"loss:0"}, {"train"}, &out);
      if (status_.ok()) losses.push_back(out[0].as<float>()[0]);
    }
    return losses;
  }

  const absl::Status& status() const { return status_; }
  Session& session() { return *session_; }
  const RunReport& report() const { return session_->last_run(); }
  const Session::Feeds& feeds() const { return feeds_; }

  std::shared_ptr<const ExecutionPlan> TrainPlan() { return PlanOf(session_->Plan(TypesOf(feeds_), {"loss:0"}, {"train"})); }
  // Steps run this plan of another session instead of one that this one makes.
  void UseTrainPlan(std::shared_ptr<const ExecutionPlan> plan) {
    const absl::Status used = session_->UsePlan(std::move(plan), TypesOf(feeds_), {"loss:0"}, {"train"});
    EXPECT_TRUE(used.ok()) << used;
  }
  std::shared_ptr<const ExecutionPlan> InitPlan() { return PlanOf(session_->Plan({}, {}, {"init"})); }

  // Bytes of every variable.
  std::map<std::string, std::string> Variables() {
    std::map<std::string, std::string> bytes;
    auto variables = session_->Variables();
    EXPECT_TRUE(variables.ok()) << variables.status();
    if (!variables.ok()) return bytes;
    for (const auto& [name, tensor] : *variables) {
      bytes[name].assign(static_cast<const char*>(tensor.data()), tensor.size_bytes());
    }
    return bytes;
  }

 private:
  static std::shared_ptr<const ExecutionPlan> PlanOf(absl::StatusOr<std::shared_ptr<const ExecutionPlan>> plan) {
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : std::make_shared<const ExecutionPlan>();
  }

  const Session::Feeds feeds_;
  std::unique_ptr<Session> session_;
  absl::Status status_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_MODEL_RUN_H_
