// How far the host is ahead of the faked CUDA (runtime/devices/cuda/plugin/run_ahead.h), which takes 1024 operations of a stream before
// the next call waits, and aborts the test where that would be for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fake_library.h"
#include "fake_session.h"

namespace millrace::testing {
namespace {

constexpr int kNodes = 1500;
constexpr int64_t kMostAhead = 256 + 2;  // the marks themselves

class FakeRunAheadTest : public ::testing::Test {
 protected:
  void TearDown() override { Throw(""); }

  // One node behind the other.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const std::string& cuda_graph, double timeout) {
    std::string text = "n0 = Placeholder() {dtype=float, shape=shape[3]}\n";
    for (int i = 1; i <= kNodes; ++i) absl::StrAppend(&text, "n", i, " = ", i % 2 == 0 ? "Tanh" : "Exp", "(n", i - 1, ") {T=float}\n");
    return OpenOnFake(text, cuda_graph, timeout);
  }
  static absl::Status Step(Session& session, std::vector<Tensor>* out = nullptr) {
    return session.Run({{"n0", Tensor::Vector<float>({0.5f, 1, -1})}}, {absl::StrCat("n", kNodes)}, {}, out);
  }
};

TEST_F(FakeRunAheadTest, ALongStepIsAheadOfItsDeviceByAFewNodesOnly) {
  std::vector<float> expected;
  for (const double timeout : {0.0, 1800.0}) {
    const auto session = Open("auto", timeout);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw("");
    for (int step = 0; step < 3; ++step) {  // on streams, then as a graph
      std::vector<Tensor> out;
      const absl::Status status = Step(**session, &out);
      ASSERT_TRUE(status.ok()) << status;
      const std::vector<float> values(out[0].as<float>().begin(), out[0].as<float>().end());
      if (expected.empty()) expected = values;
      EXPECT_EQ(values, expected);
    }
    if (timeout > 0) {
      EXPECT_LE(Count("ahead"), kMostAhead);
    } else {
      EXPECT_EQ(Count("ahead"), 1024) << "without a limit CUDA's is the only one";
    }
  }
}

TEST_F(FakeRunAheadTest, ADeviceThatHangsIsGivenUpByWhoHasMoreForItThanItTakes) {
  for (const char* cuda_graph : {"off", "auto"}) {
    for (const int64_t n : {0, 1, 120, 400, kNodes - 1100, kNodes - 1, kNodes + 400}) {
      SCOPED_TRACE(absl::StrCat("hang@", n, ", graph ", cuda_graph));
      Throw("");
      const auto session = Open(cuda_graph, 0.002);
      ASSERT_TRUE(session.ok()) << session.status();
      Throw(absl::StrCat("hang@", n));
      absl::Status status;
      for (int step = 0; step < 2 && status.ok(); ++step) status = Step(**session);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("fake (cuda:0) was lost (it did not answer for 0.002 s"));
      EXPECT_TRUE(absl::IsUnavailable(Step(**session)));
      EXPECT_LE(Count("ahead"), kMostAhead);
    }
  }
}

// A recurrent layer is a product and a launch for every step of time.
class FakeLayerTest : public FakeRunAheadTest {
 protected:
  static constexpr int64_t kTimes = 1200;
  static constexpr float kLast = 0.5f / (1 - 0.25f);

  static absl::StatusOr<std::unique_ptr<Session>> OpenLayer(double timeout) {
    return OpenOnFake(absl::StrCat("x = Placeholder() {dtype=float, shape=shape[", kTimes, ", 1, 1]}\n", R"(
h = Const() {dtype=float, value=float[1, 1, 1]{0}}
weights = Const() {dtype=float, value=float[4]{0.5, 0.25, 0, 0}}
y = CudnnRNN(x, h, h, weights) {T=float, rnn_mode="rnn_relu", input_mode="linear_input", direction="unidirectional", is_training=false}
)"), "off", timeout);
  }
  static absl::Status RunLayer(Session& session, std::vector<Tensor>* out = nullptr) {
    Tensor ones(DataType::kFloat, Shape({kTimes, 1, 1}));
    for (float& one : ones.mutable_as<float>()) one = 1;
    return session.Run({{"x", ones}}, {"y"}, {}, out);
  }
};

TEST_F(FakeLayerTest, ANodeOfManyLaunchesIsNoFurtherAhead) {
  Throw("");
  {
    const auto session = OpenLayer(1800);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> out;
    const absl::Status status = RunLayer(**session, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(Count("ahead"), kMostAhead);
    EXPECT_GT(Count("launch"), kTimes);
    EXPECT_FLOAT_EQ(out[0].as<float>()[kTimes - 1], kLast);
  }
  for (const int64_t n : {5, 200, 900}) {
    SCOPED_TRACE(n);
    Throw("");
    const auto other = OpenLayer(0.002);
    ASSERT_TRUE(other.ok()) << other.status();
    Throw(absl::StrCat("hang@", n));
    EXPECT_TRUE(absl::IsUnavailable(RunLayer(**other)));
    EXPECT_LE(Count("ahead"), kMostAhead);
  }
}

// Whether the device has come to a mark is asked between the launches of the node, and the answer that it has not is an error to CUDA.
TEST_F(FakeLayerTest, ALaunchThatIsRefusedAmongManyIsAnErrorOfItsNode) {
  Throw("");
  const auto session = OpenLayer(1800);
  ASSERT_TRUE(session.ok()) << session.status();
  for (const int64_t n : {0, 10, 20, 300, 700, 1100}) {
    SCOPED_TRACE(n);
    Throw(absl::StrCat("launch@", n));
    const absl::Status status = RunLayer(**session);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::AllOf(::testing::HasSubstr("node 'y'"), ::testing::HasSubstr("cudaErrorLaunchOutOfResources")));
    std::vector<Tensor> out;
    const absl::Status next = RunLayer(**session, &out);
    ASSERT_TRUE(next.ok()) << next;
    EXPECT_FLOAT_EQ(out[0].as<float>()[kTimes - 1], kLast);
  }
}

// Its inputs and outputs are copied, and so is the word of faults, to and fro.
TEST_F(FakeRunAheadTest, NodesThatTheHostComputesAreNoFurtherAhead) {
  constexpr int kRoots = 400;
  std::string text = "n0 = Placeholder() {dtype=float, shape=shape[1, 1]}\n";
  for (int i = 1; i <= kRoots; ++i) absl::StrAppend(&text, "n", i, " = MatrixSquareRoot(n", i - 1, ") {T=float}\n");
  for (const int64_t n : {-1, 2, 700}) {
    SCOPED_TRACE(n);
    Throw("");
    const auto session = OpenOnFake(text, "off", n < 0 ? 1800 : 0.002);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(n < 0 ? "" : absl::StrCat("hang@", n));
    std::vector<Tensor> out;
    const absl::Status status = (*session)->Run({{"n0", Tensor::Vector<float>({16}).Reshaped(Shape({1, 1}))}}, {absl::StrCat("n", kRoots)}, {}, &out);
    EXPECT_EQ(status.code(), n < 0 ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable) << status;
    if (n < 0) {
      EXPECT_GE(Count("copy"), 3 * kRoots);
    }
    EXPECT_LE(Count("ahead"), kMostAhead);
  }
}

TEST_F(FakeRunAheadTest, ADeviceThatIsLostMeanwhileIsAnError) {
  for (const char* fault : {"lost@700", "ecc@300", "crash@1400"}) {
    Throw("");
    const auto session = Open("off", 1800);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(fault);
    const absl::Status status = Step(**session);
    EXPECT_TRUE(absl::IsUnavailable(status)) << fault << ": " << status;
  }
}

TEST_F(FakeRunAheadTest, AMarkThatIsRefusedIsAnErrorOfItsStep) {
  Throw("");
  const auto session = Open("off", 1800);
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("");
  ASSERT_TRUE(Step(**session).ok());
  const int64_t last = Count("event") - 1;  // the engine's are made before it
  Throw("");
  const auto other = Open("off", 1800);
  ASSERT_TRUE(other.ok()) << other.status();
  Throw(absl::StrCat("event@", last));
  const absl::Status status = Step(**other);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("node 'n"));
  EXPECT_TRUE(Step(**other).ok());
}

TEST_F(FakeRunAheadTest, ACallForWhichThereIsNoRoomAbortsTheProgramWhereNobodyLooks) {
  const auto session = Open("off", 0);
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("hang@40");
  // The feed is there already, and nothing is fetched: no other thread waits meanwhile.
  EXPECT_DEATH((*session)->Run({{"n0", Tensor::Vector<float>({0.5f, 1, -1})}}, {}, {absl::StrCat("n", kNodes)}, nullptr).IgnoreError(),
               "a launch behind 1024 others would wait for ever: the device hangs");
  Throw("");
}

}  // namespace
}  // namespace millrace::testing
