// What goes wrong with a CUDA device, thrown into the faked CUDA under the plugin's own code (runtime/devices/cuda/fake/faults.h), as
// a session tells it: what failed and where, which variables have changed, and whether the next step can be run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fake_library.h"
#include "fake_session.h"
#include "graph/text.h"
#include "millrace/session.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Products by cuBLASLt, kernels, one that the host runs, two updates; "more" needs a larger arena.
constexpr char kGraph[] = R"(
x = Placeholder() {dtype=float, shape=shape[2,3]}
w = VarHandleOp() {dtype=float, shape=shape[3,4], shared_name="w"}
b = VarHandleOp() {dtype=float, shape=shape[4], shared_name="b"}
w0 = Const() {dtype=float, value=float[3,4]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
b0 = Const() {dtype=float, value=float[4]{1, 2, 3, 4}}
init_w = AssignVariableOp(w, w0) {dtype=float}
init_b = AssignVariableOp(b, b0) {dtype=float}
fed = Placeholder() {dtype=float, shape=shape[4]}
set_b = AssignVariableOp(b, fed) {dtype=float}
rate = Const() {dtype=float, value=float[]{0.125}}
rows = Const() {dtype=int32, value=int32[1]{0}}
w_now = ReadVariableOp(w) {dtype=float}
b_now = ReadVariableOp(b) {dtype=float}
y = MatMul(x, w_now) {T=float, transpose_a=false, transpose_b=false}
z = BiasAdd(y, b_now) {T=float, data_format="NHWC"}
tanh = Tanh(z) {T=float}
one = Const() {dtype=float, value=float[]{1}}
square = Square(z) {T=float}
above = AddV2(square, one) {T=float}
fitted = IsotonicRegression(above) {T=float, output_dtype=float}
sum = AddV2(tanh, fitted) {T=float}
dw = MatMul(x, sum) {T=float, transpose_a=true, transpose_b=false}
db = Sum(sum, rows) {T=float, Tidx=int32, keep_dims=false}
step_w = ResourceApplyGradientDescent(w, rate, dw) {T=float, use_locking=false}
step_b = ResourceApplyGradientDescent(b, rate, db) {T=float, use_locking=false}
all = Const() {dtype=int32, value=int32[2]{0, 1}}
loss = Sum(sum, all) {T=float, Tidx=int32, keep_dims=false}
times = Const() {dtype=int32, value=int32[2]{500, 4}}
many = Tile(sum, times) {T=float, Tmultiples=int32}
more = Sum(many, all) {T=float, Tidx=int32, keep_dims=false}
)";
constexpr int kSteps = 4;

using Values = std::map<std::string, std::vector<float>>;

Values ValuesOf(const std::map<std::string, Tensor>& variables) {
  Values values;
  for (const auto& [name, value] : variables) values[name].assign(value.as<float>().begin(), value.as<float>().end());
  return values;
}

class FakeFaultsTest : public ::testing::Test {
 protected:
  void TearDown() override { Throw(""); }

  static absl::StatusOr<std::unique_ptr<Session>> Open(const std::string& cuda_graph = "auto", double timeout = 1800) {
    return OpenOnFake(kGraph, cuda_graph, timeout);
  }
  static absl::StatusOr<std::unique_ptr<Session>> OpenAndInitialise(const std::string& cuda_graph = "auto", double timeout = 1800) {
    auto session = Open(cuda_graph, timeout);
    if (!session.ok()) return session;
    const absl::Status initialised = (*session)->Run({}, {}, {"init_w", "init_b"}, nullptr);
    if (!initialised.ok()) return initialised;
    return session;
  }
  static absl::Status Step(Session& session, const char* fetch = "loss", std::vector<Tensor>* fetched = nullptr) {
    const Tensor x = Tensor::Vector<float>({0.5f, 1, -1, 2, 0.25f, 1}).Reshaped(Shape({2, 3}));
    return session.Run({{"x", x}}, {fetch}, {"step_w", "step_b"}, fetched);
  }

  // Variables after 0, 1, ... steps of which none fails.
  static std::vector<Values> Expected() {
    Throw("");
    std::vector<Values> expected;
    const auto session = OpenAndInitialise();
    EXPECT_TRUE(session.ok()) << session.status();
    for (int step = 0; step <= kSteps && session.ok(); ++step) {
      const auto variables = (*session)->Variables();
      EXPECT_TRUE(variables.ok()) << variables.status();
      expected.push_back(ValuesOf(*variables));
      const absl::Status status = Step(**session);
      EXPECT_TRUE(status.ok()) << status;
    }
    return expected;
  }
  // How many calls of `kind` the steps make.
  static int64_t CallsOfSteps(const char* kind, const std::string& cuda_graph) {
    Throw("");
    const auto session = OpenAndInitialise(cuda_graph);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return 0;
    Throw("");
    for (int step = 0; step < kSteps; ++step) EXPECT_TRUE(Step(**session).ok());
    return Count(kind);
  }

  struct Outcome {
    std::vector<absl::Status> failures;
    int steps_right = 0;
  };
  // The steps of a new session, into which `faults` are thrown, until the device is lost.
  Outcome Run(const std::string& faults, const std::string& cuda_graph, double timeout = 1800) const {
    Outcome outcome;
    Throw("");
    const auto session = OpenAndInitialise(cuda_graph, timeout);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return outcome;
    Throw(faults);
    for (int step = 0; step < kSteps; ++step) {
      const absl::Status status = Step(**session);
      if (status.ok()) {
        ++outcome.steps_right;
        continue;
      }
      outcome.failures.push_back(status);
      ExpectOthersUnchanged(**session, outcome.steps_right, status);
      if (absl::IsUnavailable(status)) {
        EXPECT_FALSE(Step(**session).ok());
        return outcome;
      }
      for (const auto& [name, value] : expected_[outcome.steps_right]) {
        const Tensor tensor = Tensor::Vector<float>(value);
        const absl::Status set = (*session)->SetVariable(name, name == "w" ? tensor.Reshaped(Shape({3, 4})) : tensor);
        EXPECT_TRUE(set.ok()) << set;
      }
    }
    const auto variables = (*session)->Variables();
    if (variables.ok()) {
      EXPECT_EQ(ValuesOf(*variables), expected_[outcome.steps_right]);
    } else {
      outcome.failures.push_back(variables.status());
    }
    return outcome;
  }
  void ExpectOthersUnchanged(Session& session, int steps, const absl::Status& status) const {
    const std::vector<std::string> changed = session.last_run().changed_variables;
    EXPECT_EQ(absl::StrContains(status.message(), "changed already by this step: "), !changed.empty()) << status;
    auto variables = session.Variables();
    if (!variables.ok()) {
      EXPECT_THAT(std::string(variables.status().message()), HasSubstr("are lost: "));
      variables = session.Variables();
    }
    ASSERT_TRUE(variables.ok()) << variables.status();
    for (const auto& [name, value] : ValuesOf(*variables)) {
      if (std::find(changed.begin(), changed.end(), name) != changed.end()) continue;
      EXPECT_EQ(value, expected_[steps].at(name)) << name;
    }
  }

  const std::vector<Values> expected_ = Expected();
};

TEST_F(FakeFaultsTest, ADeviceThatCannotBeOpenedSaysWhy) {
  const struct {
    const char* faults;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {"driver=0", absl::StatusCode::kFailedPrecondition, "no CUDA driver on this machine (libcuda.so.1 was not found)"},
      {"driver=12040", absl::StatusCode::kFailedPrecondition, "the CUDA driver supports CUDA 12.4, this build needs 13.0 or newer"},
      {"devices=0", absl::StatusCode::kFailedPrecondition, "no CUDA device 0: the driver sees 0 devices"},
      {"init=3", absl::StatusCode::kFailedPrecondition, "the CUDA driver of this machine does not start (cudaErrorInitializationError, initialization error)"},
      {"capability=80", absl::StatusCode::kFailedPrecondition,
       "fake (cuda:0) has compute capability 8.0, this build has code for 9.0 (no kernel image is available"},
      {"alloc@0", absl::StatusCode::kResourceExhausted, "cudaMalloc(&fault, sizeof(Fault)): cudaErrorMemoryAllocation, out of memory"},
      {"hostalloc@0", absl::StatusCode::kResourceExhausted, "cudaErrorMemoryAllocation, out of memory"},
      {"stream@0", absl::StatusCode::kResourceExhausted, "cudaStreamCreateWithFlags"},
      {"lost@0", absl::StatusCode::kUnavailable, "was lost (cudaSetDevice(options_.index): cudaErrorUnknown, unknown error)"},
  };
  for (const auto& one : cases) {
    Throw(one.faults);
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), one.code) << one.faults;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.message)) << one.faults;
  }
  Throw("");
  EXPECT_TRUE(Open().ok());
}

TEST_F(FakeFaultsTest, ADeviceThatIsLostWhileItIsOpenedSaysSo) {
  ASSERT_TRUE(Open().ok());
  Throw("");
  ASSERT_TRUE(Open().ok());
  const int64_t calls = Count("call");  // closing included
  int refused = 0;
  for (int64_t n = 0; n < calls; ++n) {
    Throw(absl::StrCat("lost@", n));
    const absl::Status status = Open().status();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << n << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("was lost (")) << n;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(FakeFaultsTest, AnArenaThatIsRefusedWhenItGrowsLeavesTheSmallerPlanAsItWas) {
  const auto session = OpenAndInitialise();
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(Step(**session).ok());
  Throw("alloc@0");
  const absl::Status refused = Step(**session, "more");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("cannot allocate "), HasSubstr(" bytes of device memory"), HasSubstr("lower --device_memory")));
  EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[1]);
  ASSERT_TRUE(Step(**session).ok());
  ASSERT_TRUE(Step(**session, "more").ok());
  EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[3]);
}

TEST_F(FakeFaultsTest, WhateverIsRefusedOnceIsAnErrorOfOneStepAtMost) {
  // Message, and what of it is in an error of a step; nullptr where slower copies or no graph are the answer.
  const struct {
    const char* kind;
    const char* message;
    bool names_node;
  } kinds[] = {{"alloc", "bytes of device memory", false},
               {"pin", nullptr, false},
               {"hostalloc", nullptr, false},
               {"stream", "cudaStreamCreateWithFlags", false},
               {"event", "cudaEventCreateWithFlags", false},
               {"instantiate", nullptr, false},
               {"graph", "cudaGraphLaunch", false},
               {"launch", "cudaErrorLaunchOutOfResources", true},
               {"copy", "cudaMemcpyAsync", false}};
  for (const char* cuda_graph : {"off", "auto"}) {
    for (const auto& kind : kinds) {
      const int64_t calls = CallsOfSteps(kind.kind, cuda_graph);
      int64_t errors = 0;
      for (int64_t n = 0; n < calls; ++n) {
        SCOPED_TRACE(absl::StrCat(kind.kind, "@", n, ", graph ", cuda_graph));
        const Outcome outcome = Run(absl::StrCat(kind.kind, "@", n), cuda_graph);
        EXPECT_LE(outcome.failures.size(), 1);
        EXPECT_GE(outcome.steps_right, kSteps - 1);
        for (const absl::Status& status : outcome.failures) {
          ++errors;
          EXPECT_FALSE(absl::IsUnavailable(status)) << status;
          ASSERT_NE(kind.message, nullptr) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr(kind.message));
          EXPECT_TRUE(!kind.names_node || absl::StrContains(status.message(), "node '")) << status;
        }
        ASSERT_FALSE(HasFailure());
      }
      EXPECT_TRUE(errors > 0 || kind.message == nullptr || calls == 0) << kind.kind;
    }
  }
}

TEST_F(FakeFaultsTest, WhateverIsRefusedAgainAndAgainIsTheErrorOfEveryStepUntilItIsNot) {
  const struct {
    const char* faults;
    const char* message;  // nullptr: slower copies, and no graph
  } cases[] = {{"alloc@0+", "bytes of device memory"},
               {"stream@0+", "cudaStreamCreateWithFlags"},
               {"event@0+", "cudaEventCreateWithFlags"},
               {"launch@5+", "cudaErrorLaunchOutOfResources"},
               {"graph@0+", "cudaGraphLaunch"},
               {"pin@0+,hostalloc@0+", nullptr},
               {"instantiate@0+", nullptr}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.faults);
    Throw("");
    const auto session = OpenAndInitialise();
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(one.faults);
    int right = 0;
    for (int step = 0; step < kSteps && right < kSteps; ++step) {
      const absl::Status status = Step(**session);
      right += status.ok() ? 1 : 0;
      if (status.ok()) continue;
      ASSERT_NE(one.message, nullptr) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(one.message));
      EXPECT_THAT((*session)->last_run().changed_variables, ::testing::IsEmpty());
    }
    EXPECT_EQ(right, one.message == nullptr ? kSteps : std::string(one.faults) == "graph@0+" ? 1 : 0);
    EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[right]);
    Throw("");
    if (right == kSteps) continue;
    EXPECT_TRUE(Step(**session).ok());
    EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[right + 1]);
  }
}

// The first step leaves a value on the device, which is read over a stream.
TEST_F(FakeFaultsTest, NoValueIsLostForAStreamThatIsRefused) {
  int refused = 0;
  for (int n = 0; n < 8; ++n) {
    SCOPED_TRACE(n);
    Throw("");
    const auto session = Open();
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(absl::StrCat("stream@", n));
    for (bool done = false; !done; refused += done ? 0 : 1) {
      done = (*session)->Run({{"fed", Tensor::Vector<float>({4, 3, 2, 1})}}, {}, {"set_b"}, nullptr).ok();
      ASSERT_LE(refused, n + 1);
    }
    const auto variables = (*session)->Variables();
    ASSERT_TRUE(variables.ok()) << variables.status();
    EXPECT_THAT(ValuesOf(*variables)["b"], ::testing::ElementsAre(4, 3, 2, 1));
  }
  EXPECT_GT(refused, 1);
}

class FakeLossTest : public FakeFaultsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(FakeLossTest, IsTheErrorOfItsStepAndOfAllBehindIt) {
  const std::string fault = GetParam();
  for (const char* cuda_graph : {"off", "auto"}) {
    const int64_t places = CallsOfSteps(fault == "lost" ? "call" : "operation", cuda_graph);
    int in_steps = 0;
    for (int64_t n = 0; n < places; ++n) {
      SCOPED_TRACE(absl::StrCat(fault, "@", n, ", graph ", cuda_graph));
      const Outcome outcome = Run(absl::StrCat(fault, "@", n), cuda_graph);
      ASSERT_EQ(outcome.failures.size(), 1);
      const absl::Status& status = outcome.failures[0];
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("fake (cuda:0) was lost ("), HasSubstr("a new process is needed"),
                                                       HasSubstr(fault == "ecc"     ? "uncorrectable ECC error"
                                                                 : fault == "crash" ? "unspecified launch failure"
                                                                                    : "unknown error")));
      in_steps += outcome.steps_right < kSteps ? 1 : 0;
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(in_steps, places / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FakeLossTest, ::testing::Values("ecc", "crash", "lost"), [](const auto& param) { return std::string(param.param); });

constexpr double kShortTimeout = 0.002;

// Calls that wait for a device that hangs abort the program: this closes its sessions, too.
TEST_F(FakeFaultsTest, ADeviceThatHangsIsGivenUp) {
  for (const char* cuda_graph : {"off", "auto"}) {
    const int64_t places = CallsOfSteps("operation", cuda_graph);
    int in_steps = 0;
    for (int64_t n = 0; n < places; ++n) {
      SCOPED_TRACE(absl::StrCat("hang@", n, ", graph ", cuda_graph));
      const Outcome outcome = Run(absl::StrCat("hang@", n), cuda_graph, kShortTimeout);
      ASSERT_EQ(outcome.failures.size(), 1);
      const absl::Status& status = outcome.failures[0];
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("fake (cuda:0) was lost (it did not answer for 0.002 s, device_timeout)"));
      in_steps += outcome.steps_right < kSteps ? 1 : 0;
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(in_steps, places / 2);
  }
  Throw("");
  const auto session = OpenAndInitialise();
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(Step(**session).ok());
  EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[1]);
}

// CUDA itself waits for the stream before it copies such memory.
TEST_F(FakeFaultsTest, ADeviceThatHangsIsGivenUpBeforeCopiesThatAreNotPageLocked) {
  constexpr char kPageable[] = "pin@0+,hostalloc@1+";  // the fault word has its memory
  Throw(kPageable);
  int64_t places = 0;
  {
    const auto session = OpenAndInitialise();
    ASSERT_TRUE(session.ok()) << session.status();
    for (int step = 0; step < kSteps; ++step) ASSERT_TRUE(Step(**session).ok());
    EXPECT_EQ(ValuesOf(*(*session)->Variables()), expected_[kSteps]);
    places = Count("operation");
  }
  for (int64_t n = 0; n < places; ++n) {
    SCOPED_TRACE(n);
    Throw(absl::StrCat(kPageable, ",hang@", n));
    const auto session = OpenAndInitialise("auto", kShortTimeout);
    absl::Status status = session.status();
    for (int step = 0; step < kSteps && status.ok(); ++step) status = Step(**session);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer for "));
  }
}

// Random numbers have state in host memory, loaded and stored by each of their nodes.
class FakeStateTest : public FakeFaultsTest {
 protected:
  static constexpr char kPageable[] = "pin@0+";
  static constexpr int kDraws = 3;

  static absl::StatusOr<std::unique_ptr<Session>> OpenDraws(double timeout) {
    Throw(kPageable);
    std::string text = "dims = Const() {dtype=int32, value=int32[1]{8}}\n";
    for (int i = 0; i < kDraws; ++i) {
      absl::StrAppend(&text, "draw", i, " = RandomUniform(dims) {T=int32, dtype=float, seed=", i + 1, ", seed2=5}\n");
      absl::StrAppend(&text, "n", i, " = Sin(draw", i, ") {T=float}\n");
    }
    return OpenOnFake(text, "auto", timeout);
  }
  static absl::Status Draw(Session& session) {
    std::vector<Tensor> out;
    std::vector<std::string> fetches;
    for (int i = 0; i < kDraws; ++i) fetches.push_back(absl::StrCat("n", i));
    return session.Run({}, fetches, {}, &out);
  }
  // What a first step asks for.
  static int64_t CountOfDraws(const char* kind) {
    const auto session = OpenDraws(1800);
    EXPECT_TRUE(session.ok()) << session.status();
    Throw(kPageable);
    EXPECT_TRUE(session.ok() && Draw(**session).ok());
    return Count(kind);
  }
};

TEST_F(FakeStateTest, ThatIsNotPageLockedIsNotCopiedBeforeTheStreamIsIdle) {
  const int64_t places = CountOfDraws("operation");
  EXPECT_GE(places, 2 * kDraws);
  for (int64_t n = 0; n < places; ++n) {
    SCOPED_TRACE(n);
    const auto session = OpenDraws(0.002);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(absl::StrCat(kPageable, ",hang@", n));
    const absl::Status status = Draw(**session);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer for "));
  }
}

TEST_F(FakeStateTest, ThatIsNotPageLockedIsNotStoredBehindALaunchThatWasRefused) {
  const int64_t launches = CountOfDraws("launch");
  EXPECT_GE(launches, 2 * kDraws);
  for (int64_t n = 0; n < launches; ++n) {
    SCOPED_TRACE(n);
    const auto session = OpenDraws(1800);
    ASSERT_TRUE(session.ok()) << session.status();
    Throw(absl::StrCat(kPageable, ",launch@", n));
    const absl::Status status = Draw(**session);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node '"), HasSubstr("cudaErrorLaunchOutOfResources")));
  }
}

TEST_F(FakeFaultsTest, WhatWasGivenUpIsNotWaitedForAgain) {
  Throw("");
  constexpr double kTimeout = 0.2;
  const auto session = OpenAndInitialise("off", kTimeout);
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("hang@0");
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  ASSERT_TRUE(absl::IsUnavailable(Step(**session)));
  EXPECT_GE(waited(), kTimeout);
  const int64_t operations = Count("operation"), launches = Count("launch"), copies = Count("copy");
  for (int step = 0; step < 3; ++step) {
    EXPECT_FALSE(Step(**session).ok());
    const absl::Status status = (*session)->Run({}, {}, {"init_w", "init_b"}, nullptr);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer for 0.2 s"));
  }
  EXPECT_EQ(Count("operation"), operations);
  EXPECT_EQ(Count("launch"), launches);
  EXPECT_EQ(Count("copy"), copies);
}

TEST_F(FakeFaultsTest, ADeviceThatHangsWhileItIsOpenedOrInitialisedIsGivenUp) {
  const auto open = [] {
    const auto session = OpenAndInitialise("auto", kShortTimeout);
    return session.status();
  };
  Throw("");
  ASSERT_TRUE(open().ok());
  const int64_t operations = Count("operation");
  int given_up = 0;
  for (int64_t n = 0; n < operations; ++n) {
    Throw(absl::StrCat("hang@", n));
    const absl::Status status = open();
    if (status.ok()) continue;
    ++given_up;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << n << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer for ")) << n;
  }
  EXPECT_GT(given_up, 1);
}

TEST_F(FakeFaultsTest, ACallThatWaitsForADeviceThatHangsAbortsTheProgram) {
  const auto session = OpenAndInitialise("off", 0);  // no limit
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("hang@0");
  EXPECT_DEATH(Step(**session).IgnoreError(), "cudaStreamSynchronize would wait for ever: the device hangs");
  Throw("");
}

TEST_F(FakeFaultsTest, WhatIsBesideTheArenaIsMeasuredOnceKernelsHaveBeenLoaded) {
  Throw("");
  const auto session = Open();
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {"init_w", "init_b"}, nullptr).ok());
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(Step(**session).ok());
    const int64_t beside = (*session)->last_run().device_context_bytes;
    // The fake's context and code, and the driver's fault word.
    EXPECT_GT(beside, (int64_t{1} << 30) + (int64_t{64} << 20));
    EXPECT_LT(beside, (int64_t{1} << 30) + (int64_t{64} << 20) + 1024);
    EXPECT_EQ((*session)->last_run().devices.at(0).context_bytes, beside);
  }
}

TEST_F(FakeFaultsTest, WhatAGraphsHostFunctionsReadGoesWithTheGraph) {
  const int64_t before = Count("object");
  {
    const auto session = OpenAndInitialise();
    ASSERT_TRUE(session.ok()) << session.status();
    // Another plan's turn ends a graph, and the next one is captured anew.
    int64_t of_a_graph = 0;
    for (int turn = 0; turn < 3; ++turn) {
      for (int step = 0; step < 3; ++step) ASSERT_TRUE(Step(**session).ok());
      if (turn == 0) of_a_graph = Count("object") - before;
      EXPECT_GT(of_a_graph, 0) << "the graph has a kernel of the host";
      EXPECT_EQ(Count("object") - before, of_a_graph) << turn;
      ASSERT_TRUE((*session)->Run({}, {}, {"init_w", "init_b"}, nullptr).ok());
    }
  }
  EXPECT_EQ(Count("object"), before);
}

// The fake refuses code that is compiled at run time, as a driver that is older than the compiler does.
class FakeFusedTest : public FakeFaultsTest {
 protected:
  // Two groups of one text, for two shapes.
  static absl::StatusOr<std::unique_ptr<Session>> OpenFused() {
    auto graph = ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[2,3]}
a = Square(x) {T=float}
b = Tanh(a) {T=float}
y = MatMul(b, b) {T=float, transpose_a=true, transpose_b=false}
c = Square(y) {T=float}
d = Tanh(c) {T=float}
)");
    if (!graph.ok()) return graph.status();
    SessionOptions options;
    options.device = "cuda";
    options.threads = 1;
    options.planning.fuse = true;
    options.replan.mode = ReplanOptions::Mode::kOff;
    return Session::Create(*std::move(graph), options);
  }
  static absl::Status RunFused(Session& session) {
    std::vector<Tensor> out;
    return session.Run({{"x", Tensor::Vector<float>({1, 2, 3, 4, 5, 6}).Reshaped(Shape({2, 3}))}}, {"d"}, {}, &out);
  }
};

TEST_F(FakeFusedTest, AFusedKernelThatCannotBeLoadedIsNotCompiledAgainAndTheOneThatReadsStepsRuns) {
  const auto session = OpenFused();
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("");
  for (int step = 0; step < 3; ++step) {
    const absl::Status status = RunFused(**session);
    ASSERT_TRUE(status.ok()) << status;
    if (Count("library") == 0) GTEST_SKIP() << "there is no compiler";
    EXPECT_EQ(Count("library"), 1) << "two groups of one text, for two shapes";
  }
}

TEST_F(FakeFusedTest, AFusedKernelThatMemoryIsShortForIsAskedForAgainBeforeAStepIsCaptured) {
  const auto session = OpenFused();
  ASSERT_TRUE(session.ok()) << session.status();
  Throw("code=2");  // cudaErrorMemoryAllocation
  int64_t before = 0;
  for (int step = 0; step < 2; ++step) {
    const absl::Status status = RunFused(**session);
    ASSERT_TRUE(status.ok()) << status;
    if (Count("library") == 0) GTEST_SKIP() << "there is no compiler";
    EXPECT_GT(Count("library"), before);
    before = Count("library");
  }
}

}  // namespace
}  // namespace millrace::testing
