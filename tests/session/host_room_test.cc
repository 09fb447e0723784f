// Host memory that planning accepts is enough for every step: homes and states of all plans of a session are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "model_run.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using testing::FeedsOf;
using testing::SmallModel;
using testing::TypesOf;

// Plans as the command line does: what initialises, then the step.
absl::Status PlanAll(Session& session, const Session::Feeds& feeds) {
  const absl::Status init = session.Plan({}, {}, {"init"}).status();
  return init.ok() ? session.Plan(TypesOf(feeds), {"loss:0"}, {"train"}).status() : init;
}

int64_t NeededBytes(const absl::Status& status) {
  const std::string message(status.message());
  int64_t bytes = 0;
  const size_t at = message.find("need ") + 5;
  EXPECT_TRUE(absl::SimpleAtoi(message.substr(at, message.find(' ', at) - at), &bytes)) << message;
  return bytes;
}

std::unique_ptr<Session> WithHostMemory(const Graph& graph, const std::string& strategy, int64_t bytes) {
  SessionOptions options;
  options.planning.strategy = strategy;
  options.planning.host_memory_bytes = bytes;
  auto session = OpenSession(graph.Clone(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(HostRoomTest, WhatPlanningAsksForIsEnoughAndOneByteLessIsRefused) {
  const Graph graph = SmallModel();
  const Session::Feeds feeds = FeedsOf(graph);
  for (const char* strategy : {"baseline", "tensorflowmem"}) {
    SCOPED_TRACE(strategy);
    int64_t bytes = 1;
    for (int round = 0; round < 3; ++round) {
      const absl::Status status = PlanAll(*WithHostMemory(graph, strategy, bytes), feeds);
      if (status.ok()) break;
      ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
      ASSERT_GT(NeededBytes(status), bytes);
      bytes = NeededBytes(status);
    }
    const std::unique_ptr<Session> session = WithHostMemory(graph, strategy, bytes);
    const absl::Status planned = PlanAll(*session, feeds);
    ASSERT_TRUE(planned.ok()) << planned;
    const absl::Status initialised = session->Run({}, {}, {"init"}, nullptr);
    ASSERT_TRUE(initialised.ok()) << initialised;
    std::vector<Tensor> out;
    for (int step = 0; step < 3; ++step) {
      const absl::Status ran = session->Run(feeds, {"loss:0"}, {"train"}, &out);
      ASSERT_TRUE(ran.ok()) << ran;
    }
    const absl::Status less = PlanAll(*WithHostMemory(graph, strategy, bytes - 1), feeds);
    EXPECT_TRUE(absl::IsResourceExhausted(less)) << less;
  }
}

}  // namespace
}  // namespace millrace
