// What a session refuses at its door: graphs, names, calls beside a call, a CPU without the kernels' instructions.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "session/cpu_check.h"
#include "text_session.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDoubled[] = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
y = AddV2(x, x) {T=float}
)";
const Tensor kFed = Tensor::Vector<float>({1, 2});

absl::Status Opened(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return OpenSession(*std::move(graph), {}).status();
}

TEST(EntryPoints, AttributesOfAnotherKindAreRefusedWithTheGraph) {
  EXPECT_EQ(Opened("x = Placeholder() {dtype=float, shape=shape[2,2]}\ny = MatMul(x, x) {T=float, transpose_b=1}").message(),
            "node 'y' (MatMul): attribute 'transpose_b' is int 1, expected bool");
  EXPECT_EQ(Opened("x = Placeholder() {dtype=float, shape=shape[2]}\ny = LeakyRelu(x) {T=float, alpha=\"0.5\"}").message(),
            "node 'y' (LeakyRelu): attribute 'alpha' is string \"0.5\", expected float");
  EXPECT_EQ(Opened("c = Const() {dtype=double, value=float[2]{1, 2}}").message(),
            "node 'c' (Const): attribute 'value' is float[2], expected double by attribute dtype");
  // Notes, and ops that TensorFlow does not have.
  EXPECT_TRUE(Opened("x = Placeholder() {dtype=float, shape=shape[2], _note=1}\ny = Own(x) {T=1}").ok());
}

TEST(EntryPoints, CallsFromCallbacksAreRefused) {
  Session* open = nullptr;
  std::vector<absl::Status> inner;
  SessionOptions options;
  options.planning_progress = [&](const std::string&) {
    std::vector<Tensor> out = {kFed};
    inner.push_back(open->Run({{"x", kFed}}, {"y"}, {}, &out));
    EXPECT_TRUE(out.empty());
    inner.push_back(open->Variables().status());
    inner.push_back(open->SetVariable("v", kFed));
    inner.push_back(open->MeasuredTimes().status());
    if (inner.size() == 4) open->PlanWithFeeds({});
  };
  const std::unique_ptr<Session> session = SessionOf(kDoubled, options);
  open = session.get();
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", kFed}}, {"y"}, {}, &out).ok());
  EXPECT_EQ(out[0].as<float>()[1], 4);
  ASSERT_FALSE(inner.empty());
  for (const absl::Status& status : inner) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("in use by another call"));
  }
}

TEST(EntryPoints, CallsOfASecondThreadAreRefusedOrRun) {
  const std::unique_ptr<Session> session = SessionOf(kDoubled);
  std::atomic<int> others = 0;
  const auto run = [&] {
    for (int i = 0; i < 20; ++i) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run({{"x", kFed}}, {"y"}, {}, &out);
      if (status.ok() ? out[0].as<float>()[1] != 4 : !absl::IsFailedPrecondition(status) || !out.empty()) ++others;
    }
  };
  std::thread second(run);
  run();
  second.join();
  EXPECT_EQ(others, 0);
  EXPECT_TRUE(session->Run({{"x", kFed}}, {"y"}, {}, nullptr).ok());
}

TEST(EntryPoints, WhatACallbackThrowsIsTheErrorAndTheSessionGoesOn) {
  bool throws = true;
  SessionOptions options;
  options.planning_progress = [&](const std::string&) {
    if (throws) throw std::runtime_error("mine");
  };
  const std::unique_ptr<Session> session = SessionOf(kDoubled, options);
  const absl::Status status = session->Run({{"x", kFed}}, {"y"}, {}, nullptr);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("threw an exception: mine"));
  throws = false;
  EXPECT_TRUE(session->Run({{"x", kFed}}, {"y"}, {}, nullptr).ok());
}

TEST(EntryPoints, AfterAnyErrorThereAreNoOutputs) {
  const std::unique_ptr<Session> session = SessionOf(absl::StrCat(kDoubled, R"(
i = Placeholder() {dtype=int32, shape=shape[]}
axis = Const() {dtype=int32, value=int32[]{0}}
g = GatherV2(x, i, axis) {Tparams=float, Tindices=int32, Taxis=int32}
)"));
  const Tensor beyond = Tensor::Scalar<int32_t>(7);
  const struct {
    Session::Feeds feeds;
    std::string fetch;
  } wrong[] = {{{{"x", kFed}}, "nobody"}, {{}, "y"}, {{{"x", Tensor()}}, "y"}, {{{"x", kFed}, {"i", beyond}}, "g"}};
  for (const auto& [feeds, fetch] : wrong) {
    std::vector<Tensor> out = {kFed, kFed};
    EXPECT_FALSE(session->Run(feeds, {fetch}, {}, &out).ok());
    EXPECT_TRUE(out.empty()) << fetch;
  }
}

TEST(EntryPoints, StatesAreOfNodesThatThereAre) {
  const std::unique_ptr<Session> session = SessionOf(R"(
shape = Const() {dtype=int32, value=int32[1]{2}}
r = RandomUniform(shape) {dtype=float, T=int32, seed=1, seed2=2}
)");
  const absl::Status status = session->SetNodeState("nobody", Tensor(DataType::kUint8, {8}));
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(status.message(), "the state of node 'nobody': the graph has no node of that name");
  ASSERT_TRUE(session->Run({}, {"r"}, {}, nullptr).ok());
  const auto states = session->NodeStates();
  ASSERT_TRUE(states.ok()) << states.status();
  for (const auto& [node, state] : *states) EXPECT_TRUE(session->SetNodeState(node, state).ok()) << node;
}

TEST(CpuCheck, NamesWhatIsMissing) {
  EXPECT_TRUE(CheckCpu().ok()) << "this one runs tests: " << CheckCpu();
  static constexpr const char* kNeeded[] = {"avx2", "avx512f", "gfni", nullptr};
  const absl::Status status = CheckCpu(kNeeded, [](std::string_view feature) { return feature == "avx2"; });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("a CPU with avx512f, gfni, which"), HasSubstr("MILLRACE_ARCH"), Not(HasSubstr("avx2"))));
}

}  // namespace
}  // namespace millrace::testing
