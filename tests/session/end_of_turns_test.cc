// Runs that ask how often a loop turns end with the loop.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/text.h"
#include "millrace/device.h"
#include "millrace/session.h"

namespace millrace {
namespace {

// x is v, halved until it is at most 3, and then 40 times that, in a loop like the first one.
constexpr char kGraph[] = R"(
function goes_on
  x = _Arg() {T=float, index=0}
  three = Const() {dtype=float, value=float[]{3}}
  more = Greater(x, three) {T=float}
  r = _Retval(more) {T=bool, index=0}
end
function halve
  x = _Arg() {T=float, index=0}
  y = Halve(x) {}
  r = _Retval(y) {T=float, index=0}
end
v = VarHandleOp() {dtype=float, shape=shape[], shared_name="v"}
x = ReadVariableOp(v) {dtype=float}
first = StatelessWhile(x) {cond=&goes_on, body=&halve}
forty = Const() {dtype=float, value=float[]{40}}
again = Mul(first, forty) {T=float}
second = StatelessWhile(again) {cond=&goes_on, body=&halve}
)";

class HalveKernel final : public Kernel {
 public:
  explicit HalveKernel(std::atomic<int>* runs) : runs_(runs) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelContext& context) const override {
    ++*runs_;
    *context.output<float>(0) = *context.input<float>(0) / 2;
    return absl::OkStatus();
  }

 private:
  std::atomic<int>* const runs_;
};

class EndOfTurnsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> MakeSession(const std::string& strategy, int threads, const std::string& text = kGraph) {
    OpDef halve;
    halve.name = "Halve";
    halve.shape = [](InferenceContext& context) {
      context.AddOutput(context.dtype(0), context.shape(0));
      return absl::OkStatus();
    };
    auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
    EXPECT_TRUE(ops->Register(halve).ok());
    auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
    EXPECT_TRUE(kernels->Register("Halve", [this](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      return std::make_unique<HalveKernel>(&runs_);
    }).ok());
    SessionOptions options;
    options.ops = ops;
    options.kernels = kernels;
    options.planning.strategy = strategy;
    options.threads = threads;
    absl::StatusOr<Graph> graph = ParseGraphText(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  // How often it is halved, which `x` becomes.
  static int Halved(float& x) {
    int turns = 0;
    for (; x > 3; ++turns) x /= 2;
    return turns;
  }

  std::atomic<int> runs_{0};
};

constexpr int kTurns[] = {20, 9, 30, 3, 17, 1, 25, 0, 12};

TEST_F(EndOfTurnsTest, NoTurnIsRunInVain) {
  for (const int threads : {1, 4}) {
    const auto session = MakeSession("baseline", threads);
    ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(3e12f)).ok());
    ASSERT_TRUE(session->Run({}, {"first"}, {}, nullptr).ok());
    for (const int turns : kTurns) {
      float x = 2.5f * static_cast<float>(1 << turns);
      ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(x)).ok());
      std::vector<Tensor> got;
      runs_ = 0;
      ASSERT_TRUE(session->Run({}, {"first"}, {}, &got).ok());
      // Where the last step took none, that is told first.
      EXPECT_LE(runs_, 2 * turns + (turns == 12 ? 3 : 1)) << turns << " turns by " << threads << " threads";
      EXPECT_EQ(Halved(x), turns);
      EXPECT_EQ(got[0].as<float>()[0], x);
    }
  }
}

TEST_F(EndOfTurnsTest, LoopsThatFollowFromEachOtherTurnAsOftenAsTheyMust) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const auto session = MakeSession(strategy, 2);
    for (const int turns : kTurns) {
      float x = 2.9f * static_cast<float>(1 << turns);
      ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(x)).ok());
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({}, {"first", "second"}, {}, &got);
      ASSERT_TRUE(ran.ok()) << ran;
      Halved(x);
      EXPECT_EQ(got[0].as<float>()[0], x) << strategy;
      x *= 40;
      Halved(x);
      EXPECT_EQ(got[1].as<float>()[0], x) << strategy;
    }
  }
}

// The loop's own vectors of bools, as long as those of the answers and where these are, are not taken for them.
TEST_F(EndOfTurnsTest, BoolsOfTheLoopItselfAreNoAnswers) {
  std::string text = kGraph;
  const std::string more = "  more = Greater(x, three) {T=float}\n";
  text.replace(text.find(more), more.size(), R"(
  low = Const() {dtype=float, value=float[]{-5}}
  a = Greater(x, three) {T=float}
  b = Less(x, low) {T=float}
  two = Pack(b, a) {T=bool, N=2, axis=0}
  four = Pack(b, a, b, a) {T=bool, N=4, axis=0}
  eight = Pack(b, a, b, a, b, a, b, a) {T=bool, N=8, axis=0}
  all = ConcatV2(two, four, eight, zero) {T=bool, N=3, Tidx=int32}
  zero = Const() {dtype=int32, value=int32[]{0}}
  more = Any(all, zero) {Tidx=int32, keep_dims=false}
)");
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    const auto session = MakeSession(strategy, 2, text);
    for (const int turns : {2, 3, 5, 2, 9, 0, 4, 1, 7, 8, 3}) {
      float x = 2.9f * static_cast<float>(1 << turns);
      ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<float>(x)).ok());
      std::vector<Tensor> got;
      const absl::Status ran = session->Run({}, {"first"}, {}, &got);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(got[0].as<float>()[0], 2.9f) << strategy << " " << turns;
    }
  }
}

}  // namespace
}  // namespace millrace
