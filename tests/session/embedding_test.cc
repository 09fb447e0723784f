// What programs that embed Millrace may do to a session, and what they are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/text.h"
#include "millrace/device.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Where { kShapeRule, kFactory, kKernel, kNowhere };

class PassingKernel final : public Kernel {
 public:
  explicit PassingKernel(bool throws) : throws_(throws) {}
  absl::Status Run(const KernelContext& context) const override {
    if (throws_ && context.input<float>(0)[0] < 0) throw std::runtime_error("boom");
    for (int i = 0; i < 2; ++i) context.output<float>(0)[i] = context.input<float>(0)[i];
    return absl::OkStatus();
  }

 private:
  const bool throws_;
};

// The op Pass of an embedding program, whose parts may throw.
SessionOptions WithPass(Where where) {
  auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef def;
  def.name = "Pass";
  def.shape = [where](InferenceContext& context) -> absl::Status {
    if (where == Where::kShapeRule) throw std::runtime_error("boom");
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  EXPECT_TRUE(ops->Register(def).ok());
  auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
  const absl::Status registered =
      kernels->Register("Pass", [where](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        if (where == Where::kFactory) throw std::runtime_error("y is in 'many' words of a factory");
        return std::make_unique<PassingKernel>(where == Where::kKernel);
      });
  EXPECT_TRUE(registered.ok());
  SessionOptions options;
  options.ops = ops;
  options.kernels = kernels;
  return options;
}

Graph Parsed(const char* text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

const char* const kFedPass = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
y = Pass(x) {}
z = Neg(y) {T=float}
other = Neg(x) {T=float}
)";

TEST(Exceptions, OfAProgramsOwnOpAreErrorsThatNameTheNode) {
  const Tensor good = Tensor::Vector<float>({1, 2}), bad = Tensor::Vector<float>({-1, 2});
  std::vector<Tensor> out;
  for (const Where where : {Where::kShapeRule, Where::kFactory, Where::kKernel}) {
    SCOPED_TRACE(static_cast<int>(where));
    const auto session = OpenSession(Parsed(kFedPass), WithPass(where));
    ASSERT_TRUE(session.ok()) << session.status();
    for (int turn = 0; turn < 2; ++turn) {
      const absl::Status status = (*session)->Run({{"x", bad}}, {"z"}, {}, &out);
      EXPECT_TRUE(absl::IsInternal(status)) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Pass)"), HasSubstr("threw")));
      // The session goes on.
      const absl::Status other = (*session)->Run({{"x", good}}, {where == Where::kKernel ? "z" : "other"}, {}, &out);
      ASSERT_TRUE(other.ok()) << other;
      EXPECT_EQ(out[0].as<float>()[1], -2);
    }
  }
}

TEST(Exceptions, OfCallbacksWhilePlanningAreErrors) {
  SessionOptions options = WithPass(Where::kNowhere);
  options.cancelled = []() -> bool { throw std::runtime_error("boom"); };
  const auto session = OpenSession(Parsed(kFedPass), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::FeedTypes types = {{"x", {DataType::kFloat, Shape({2})}}};
  EXPECT_THAT(std::string((*session)->Plan(types, {"z"}, {}).status().message()), HasSubstr("boom"));
  EXPECT_THAT(std::string((*session)->RewrittenGraph(types, {"z"}, {}).status().message()), HasSubstr("boom"));
}

TEST(Exceptions, OfAKernelThatComputesAConstantAreErrors) {
  const char* const constant = R"(
x = Const() {dtype=float, value=float[2]{-1, 2}}
y = Pass(x) {}
)";
  const auto session = OpenSession(Parsed(constant), WithPass(Where::kKernel));
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'y' (Pass)"), HasSubstr("boom")));
}

TEST(Options, OutOfTheirRangeAreRefusedByNameBeforeAnythingIsPlanned) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  using Set = void (*)(SessionOptions&);
  const std::pair<const char*, Set> wrong[] = {
      {"planning.partition_size is -7", [](SessionOptions& o) { o.planning.partition_size = -7; }},
      {"planning.swap_distance is -1", [](SessionOptions& o) { o.planning.swap_distance = -1; }},
      {"planning.max_unrolled_nodes is -1", [](SessionOptions& o) { o.planning.max_unrolled_nodes = -1; }},
      {"planning.min_swap_bytes", [](SessionOptions& o) { o.planning.min_swap_bytes = -1; }},
      {"planning.occupancy_threshold is 0", [](SessionOptions& o) { o.planning.occupancy_threshold = 0; }},
      {"planning.occupancy_threshold is 1.5", [](SessionOptions& o) { o.planning.occupancy_threshold = 1.5; }},
      {"planning.update_part_bytes", [](SessionOptions& o) { o.planning.update_part_bytes = -2; }},
      {"planning.plan_seconds", [](SessionOptions& o) { o.planning.plan_seconds = -1; }},
      {"planning.device_memory_bytes", [](SessionOptions& o) { o.planning.device_memory_bytes = -1; }},
      {"planning.host_memory_bytes", [](SessionOptions& o) { o.planning.host_memory_bytes = -1; }},
      {"planning.device_memory_bytes_of is -5",
       [](SessionOptions& o) {
         o.planning.devices = {"cpu:0", "cpu:1"};
         o.planning.device_memory_bytes_of = {4096, -5};
       }},
      {"planning.tflms.sync_mode is 99", [](SessionOptions& o) { o.planning.tflms.sync_mode = 99; }},
      {"planning.tflms.swapout_threshold is 0", [](SessionOptions& o) { o.planning.tflms.swapout_threshold = 0; }},
      {"planning.tflms.memory_ratio is 2", [](SessionOptions& o) { o.planning.tflms.memory_ratio = 2; }},
      {"planning.tflms.serialization: \"1..2\"", [](SessionOptions& o) { o.planning.tflms.serialization = {"1..2"}; }},
      {"machine.flops_per_second is 0", [](SessionOptions& o) { o.machine.flops_per_second = 0; }},
      {"machine.to_host_bytes_per_second is nan", [](SessionOptions& o) { o.machine.to_host_bytes_per_second = kNan; }},
      {"machine.to_device_bytes_per_second is inf", [](SessionOptions& o) { o.machine.to_device_bytes_per_second = kInfinity; }},
      {"machine.tensor_alignment_bytes is 96, expected a power of two", [](SessionOptions& o) { o.machine.tensor_alignment_bytes = 96; }},
      {"machine.tensor_alignment_bytes is 0", [](SessionOptions& o) { o.machine.tensor_alignment_bytes = 0; }},
      {"machine.tensor_alignment_bytes is 4611686018427387904", [](SessionOptions& o) { o.machine.tensor_alignment_bytes = int64_t{1} << 62; }},
      {"machine.convolution_flops_per_second is -1", [](SessionOptions& o) { o.machine.convolution_flops_per_second = -1; }},
      {"machine.copy_launch_seconds", [](SessionOptions& o) { o.machine.copy_launch_seconds = -1; }},
      {"machine.launch_seconds", [](SessionOptions& o) { o.machine.launch_seconds = -1; }},
      {"machine.copy_latency_seconds is 1e+308", [](SessionOptions& o) { o.machine.copy_latency_seconds = 1e308; }},
      {"machine.disk_bytes_per_second is 1e+300", [](SessionOptions& o) { o.machine.disk_bytes_per_second = 1e300; }},
      {"threads is -5, expected 0 to 4096", [](SessionOptions& o) { o.threads = -5; }},
      {"link_gbps is nan", [](SessionOptions& o) { o.link_gbps = kNan; }},
      {"link_gbps is -3", [](SessionOptions& o) { o.link_gbps = -3; }},
      {"disk_gbps is 1e-10", [](SessionOptions& o) { o.disk_gbps = 1e-10; }},
      {"disk_gbps is 1e+300", [](SessionOptions& o) { o.disk_gbps = 1e300; }},
      {"device_timeout_seconds is -1, expected 0 or more", [](SessionOptions& o) { o.device_timeout_seconds = -1; }},
      {"device_timeout_seconds is nan", [](SessionOptions& o) { o.device_timeout_seconds = kNan; }},
      {"device_timeout_seconds is inf", [](SessionOptions& o) { o.device_timeout_seconds = kInfinity; }},
      {"replan.replayed_steps", [](SessionOptions& o) { o.replan.replayed_steps = -1; }},
      {"replan.skipped_steps", [](SessionOptions& o) { o.replan.skipped_steps = -3; }},
      {"replan.measured_steps is 0, expected 1 or more", [](SessionOptions& o) { o.replan.measured_steps = 0; }},
      {"cuda_graph is 'never'", [](SessionOptions& o) { o.cuda_graph = "never"; }},
  };
  for (const auto& [message, set] : wrong) {
    SessionOptions options;
    set(options);
    const absl::Status status = OpenSession(Parsed(kFedPass), options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  EXPECT_TRUE(OpenSession(Parsed(kFedPass), SessionOptions()).ok());
  // The link of the CPU, whichever device is tested.
  SessionOptions options;
  options.link_gbps = 1e-12;
  const absl::Status status = Session::Create(Parsed(kFedPass), options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("link_gbps is 1e-12, expected 0 (not slowed) or GB/s, 1e-09 to 1e+21"));
}

TEST(Budgets, AreTheMachinesWhereTheOptionsNameNone) {
  constexpr int64_t kNoLimit = PlanningOptions::kNoLimit;
  using Budgets = std::vector<int64_t>;
  struct Case {
    int64_t of_machine, bytes;
    Budgets bytes_of, expected;
  };
  const Session::FeedTypes feeds = {{"x", {DataType::kFloat, Shape({2})}}};
  for (const Case& c : {Case{0, 0, {}, {0, 0}}, Case{4096, 0, {}, {4096, 4096}}, Case{4096, 8192, {}, {8192, 8192}},
                        Case{4096, kNoLimit, {}, {0, 0}}, Case{4096, 0, {kNoLimit, 0}, {0, 4096}}, Case{0, 1024, {0, 2048}, {0, 2048}}}) {
    SessionOptions options;
    options.device = "null";
    options.machine.device_memory_bytes = c.of_machine;
    options.planning.devices = {"cpu:0", "cpu:1"};
    options.planning.device_memory_bytes = c.bytes;
    options.planning.device_memory_bytes_of = c.bytes_of;
    const auto session = OpenSession(Parsed("x = Placeholder() {dtype=float, shape=shape[2]}\ny = Neg(x) {T=float}\n"), options);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto plan = (*session)->Plan(feeds, {"y"}, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    Budgets found;
    for (const PlanDevice& device : (*plan)->devices) found.push_back(device.budget_bytes);
    EXPECT_EQ(found, c.expected) << c.of_machine << " " << c.bytes;
  }
}

TEST(Budgets, OfHostMemoryAreTheMachinesToo) {
  const auto planned = [](int64_t of_machine, int64_t bytes) {
    SessionOptions options;
    options.device = "null";
    options.machine.host_memory_bytes = of_machine;
    options.planning.host_memory_bytes = bytes;
    const char* const constant = "c = Const() {dtype=float, value=float[2]{-1, 2}}\nv = VarHandleOp() {dtype=float, shape=shape[2], shared_name=\"v\"}\n"
                                 "a = AssignVariableOp(v, c) {dtype=float}\n";
    const auto session = OpenSession(Parsed(constant), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return (*session)->Plan({}, {}, {"a"}).status();
  };
  EXPECT_TRUE(planned(0, 0).ok());
  EXPECT_TRUE(planned(1, 1 << 20).ok());
  EXPECT_TRUE(planned(1, PlanningOptions::kNoLimit).ok());
  const absl::Status refused = planned(1, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(": variables 64 B, states 0 B, constants "), HasSubstr("; largest variables and constants: "),
                                                    HasSubstr("v 8 B")));
}

TEST(Session, WithoutAGraphIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSession(std::shared_ptr<const Graph>(), SessionOptions()).status()));
}

TEST(Session, ATensorThatIsFedByTwoNamesIsRefused) {
  const auto session = OpenSession(Parsed(kFedPass), WithPass(Where::kNowhere));
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor one = Tensor::Vector<float>({1, 2}), other = Tensor::Vector<float>({3, 4});
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({{"x", one}, {"x:0", other}}, {"z"}, {}, &out);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor x:0 is fed twice"));
  EXPECT_TRUE((*session)->Run({{"x:0", one}}, {"z"}, {}, &out).ok());
}

TEST(Session, NoPlanToUseIsAnError) {
  const auto session = OpenSession(Parsed(kFedPass), WithPass(Where::kNowhere));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(absl::IsInvalidArgument((*session)->UsePlan(nullptr, {}, {"z"}, {})));
}

TEST(Session, AnOpThatIsNotKnownIsFoundByTheFirstRunThatNeedsIt) {
  const auto session = OpenSession(Parsed(kFedPass), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::Feeds feeds = {{"x", Tensor::Vector<float>({1, 2})}};
  std::vector<Tensor> out;
  EXPECT_TRUE((*session)->Run(feeds, {"other"}, {}, &out).ok());
  EXPECT_THAT(std::string((*session)->Run(feeds, {"z"}, {}, &out).message()), AllOf(HasSubstr("Pass"), HasSubstr("'y'")));
}

// A batch of any size is summed up, with noise that goes on from step to step. Beside it is fed what takes a copy on a thread of its own.
const char* const kAnyBatch = R"(
x = Placeholder() {dtype=float, shape=shape[?,4]}
wide = Placeholder() {dtype=float, shape=shape[1,20000]}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
total = VarHandleOp() {dtype=float, shape=shape[], shared_name="total"}
nothing = Const() {dtype=float, value=float[]{0}}
init = AssignVariableOp(total, nothing) {dtype=float}
size = Const() {dtype=int32, value=int32[0]{}}
noise = RandomUniform(size) {T=int32, dtype=float, seed=3, seed2=4}
sum = Sum(x, axes) {T=float, Tidx=int32, keep_dims=false}
noisy = AddV2(sum, noise) {T=float}
greatest = Max(wide, axes) {T=float, Tidx=int32, keep_dims=false}
more = AddV2(noisy, greatest) {T=float}
add = AssignAddVariableOp(total, more) {dtype=float}
)";

int64_t ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

absl::Status RunBatch(Session& session, int64_t size) {
  Tensor x(DataType::kFloat, {size, 4});
  for (float& element : x.mutable_as<float>()) element = 0.25f;
  const Tensor zeros(DataType::kFloat, {1, 20'000});
  return session.Run({{"x", x}, {"wide", zeros}}, {}, {"add"}, nullptr);
}

float Total(Session& session) {
  const auto variables = session.Variables();
  EXPECT_TRUE(variables.ok()) << variables.status();
  return variables->at("total").as<float>()[0];
}

TEST(ManySignatures, OnlySomeArePlannedAtATimeAndResultsAreAsIfAllWere) {
  const auto many = OpenSession(Parsed(kAnyBatch), {}), few = OpenSession(Parsed(kAnyBatch), {});
  ASSERT_TRUE(many.ok() && few.ok());
  ASSERT_TRUE((*many)->Run({}, {}, {"init"}, nullptr).ok());
  ASSERT_TRUE((*few)->Run({}, {}, {"init"}, nullptr).ok());
  constexpr int64_t kSignatures = 64;
  int64_t threads = 0, taken = 0;
  for (int64_t size = 1; size <= 2 * kSignatures; ++size) {
    const absl::Status ran = RunBatch(**many, size);
    ASSERT_TRUE(ran.ok()) << ran;
    if (size == kSignatures) threads = ThreadsOfThisProcess();
    taken += size;
  }
  EXPECT_GT(threads, kSignatures);
  EXPECT_LE(ThreadsOfThisProcess(), threads);
  // One that has been forgotten comes again.
  ASSERT_TRUE(RunBatch(**many, 1).ok());
  EXPECT_GT((*many)->last_run().plan_seconds, 0);
  ++taken;
  // As many draws of the same stream.
  for (int64_t i = 0; i < 2 * kSignatures; ++i) ASSERT_TRUE(RunBatch(**few, 1).ok());
  ASSERT_TRUE(RunBatch(**few, taken - 2 * kSignatures).ok());
  EXPECT_NEAR(Total(**many), Total(**few), 1e-2);
  EXPECT_GT(Total(**many), static_cast<float>(taken));
}

TEST(SessionOptionsTest, ADeviceThatIsThereTwiceIsRefused) {
  SessionOptions options;
  for (const std::string other : {"cpu:0", "/device:CPU:0", "cpu"}) {
    options.planning.devices = {"cpu:0", other};
    const auto session = OpenSession(Parsed(kAnyBatch), options);
    EXPECT_TRUE(absl::IsInvalidArgument(session.status())) << other << ": " << session.status();
    EXPECT_THAT(std::string(session.status().message()), HasSubstr("is there twice"));
  }
}

TEST(ManySignatures, APlanThatWasGivenStays) {
  const auto session = OpenSession(Parsed(kAnyBatch), {});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
  const Session::FeedTypes feeds = {{"x", {DataType::kFloat, Shape({7, 4})}}, {"wide", {DataType::kFloat, Shape({1, 20'000})}}};
  const auto plan = (*session)->Plan(feeds, {}, {"add"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto given = std::make_shared<const ExecutionPlan>(**plan);
  ASSERT_TRUE((*session)->UsePlan(given, feeds, {}, {"add"}).ok());
  for (int64_t size = 10; size < 80; ++size) ASSERT_TRUE(RunBatch(**session, size).ok());
  ASSERT_TRUE(RunBatch(**session, 7).ok());
  EXPECT_EQ((*session)->last_run().plan, given);
}

// Sizes are values: each is a plan of its own. What fills may be fed, too.
TEST(ManySignatures, PlansByValueAreForgottenForThoseOfTheSameSignatureAlone) {
  const auto session = OpenSession(Parsed(R"(
n = Placeholder() {dtype=int32, shape=shape[1]}
one = Const() {dtype=float, value=float[]{1}}
x = PlaceholderWithDefault(one) {dtype=float, shape=shape[]}
y = Fill(n, x) {T=float, index_type=int32}
)"), {});
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::Feeds both = {{"n", Tensor::Vector<int32_t>({100})}, {"x", Tensor::Scalar<float>(2)}};
  std::vector<Tensor> out;
  ASSERT_TRUE((*session)->Run(both, {"y"}, {}, &out).ok());
  const std::shared_ptr<const ExecutionPlan> plan = (*session)->last_run().plan;
  for (int32_t n = 1; n <= 20; ++n) {
    const absl::Status ran = (*session)->Run({{"n", Tensor::Vector<int32_t>({n})}}, {"y"}, {}, &out);
    ASSERT_TRUE(ran.ok()) << ran;
  }
  ASSERT_TRUE((*session)->Run(both, {"y"}, {}, &out).ok());
  EXPECT_EQ((*session)->last_run().plan, plan);
}

// A constant, strings and a sum of what is fed.
const char* const kFetched = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
c = Const() {dtype=float, value=float[2]{1, 2}}
y = Mul(x, c) {T=float}
s = Placeholder() {dtype=string, shape=shape[2]}
low = StringLower(s) {encoding=""}
text = AsString(y) {T=float, precision=-1, scientific=false, shortest=false, width=-1, fill=""}
)";

TEST(Fetches, OfConstantsAreTheCallersOwn) {
  for (const char* strategy : {"baseline", "planned", "tensorflowmem"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = OpenSession(Parsed(kFetched), options);
    ASSERT_TRUE(session.ok()) << session.status();
    const Session::Feeds feeds = {{"x", Tensor::Vector<float>({3, 3})}};
    std::vector<Tensor> out;
    ASSERT_TRUE((*session)->Run({}, {"c"}, {}, &out).ok());
    out[0].mutable_as<float>()[0] = 100;
    ASSERT_TRUE((*session)->Run(feeds, {"y", "c"}, {}, &out).ok());
    EXPECT_EQ(out[0].as<float>()[0], 3) << strategy;
    EXPECT_EQ(out[1].as<float>()[0], 1) << strategy;
  }
}

// A constant that is swapped for its other use, by the name of what it was folded from.
TEST(Fetches, OfWhatIsKnownWhenPlanningNeedNoCopy) {
  for (const char* strategy : {"baseline", "planned", "tensorflowmem", "lru"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    options.planning.device_memory_bytes = 4096;
    const auto session = OpenSession(Parsed(R"(
x = Placeholder() {dtype=float, shape=shape[4]}
value = Const() {dtype=float, value=float[1,4]{1, 2, 3, 4}}
axis = Const() {dtype=int32, value=int32[]{0}}
rows = Unpack(value) {T=float, axis=0, num=1}
y = Mul(x, rows) {T=float}
)"), options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> out;
    const absl::Status status = (*session)->Run({{"x", Tensor::Vector<float>({2, 2, 2, 2})}}, {"rows", "y"}, {}, &out);
    ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    EXPECT_THAT(std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().end()), ::testing::ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(std::vector<float>(out[1].as<float>().begin(), out[1].as<float>().end()), ::testing::ElementsAre(2, 4, 6, 8));
  }
}

TEST(Fetches, OfStringsHaveTheirTextOrAreRefused) {
  const auto session = OpenSession(Parsed(kFetched), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  Tensor words(DataType::kString, {2});
  words.mutable_strings() = {"One", "Two"};
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({{"s", words}}, {"s", "low"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].strings(), words.strings());
  EXPECT_THAT(out[1].strings(), ::testing::ElementsAre("one", "two"));
  words.mutable_strings() = {"THREE", ""};
  ASSERT_TRUE((*session)->Run({{"s", words}}, {"low"}, {}, &out).ok());
  EXPECT_THAT(out[0].strings(), ::testing::ElementsAre("three", ""));
  const absl::Status computed = (*session)->Run({{"x", Tensor::Vector<float>({3, 3})}}, {"text"}, {}, &out);
  if (computed.ok()) {
    EXPECT_THAT(out[0].strings(), ::testing::ElementsAre("3.000000", "6.000000"));
  } else {
    EXPECT_THAT(std::string(computed.message()), HasSubstr("strings that are found only when running"));
  }
}

// The values are TensorFlow's. "a", e with an acute accent, a Chinese character and an emoji; a lone byte of what would be one.
TEST(Fetches, OfStringsCountCharacters) {
  const auto session = OpenSession(Parsed(R"(
s = Const() {dtype=string, value=string[2]{"a\303\251\346\274\242\360\237\230\200", "\200\200ab"}}
from = Const() {dtype=int32, value=int32[]{1}}
from_end = Const() {dtype=int32, value=int32[]{-2}}
two = Const() {dtype=int32, value=int32[]{2}}
minus = Const() {dtype=int32, value=int32[]{-1}}
part = Substr(s, from, two) {T=int32, unit="UTF8_CHAR"}
end = Substr(s, from_end, two) {T=int32, unit="UTF8_CHAR"}
none = Substr(s, from, minus) {T=int32, unit="UTF8_CHAR"}
outside = Substr(s, from_end, minus) {T=int32, unit="UTF8_CHAR"}
length = StringLength(s) {unit="UTF8_CHAR"}
z = Const() {dtype=complex64, value=complex64[1]{(1.5, -2.0)}}
complex = AsString(z) {T=complex64, precision=2, scientific=false, shortest=false, width=6, fill="0"}
)"), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run({}, {"part", "end", "none", "length", "complex"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].strings(), ::testing::ElementsAre("\303\251\346\274\242", "ab"));
  EXPECT_THAT(out[1].strings(), ::testing::ElementsAre("\346\274\242\360\237\230\200", "ab"));
  EXPECT_THAT(out[2].strings(), ::testing::ElementsAre("", ""));
  EXPECT_EQ(out[3].IntAt(0), 4);
  EXPECT_EQ(out[3].IntAt(1), 2);
  EXPECT_THAT(out[4].strings(), ::testing::ElementsAre("(001.50,-02.00)"));
  EXPECT_THAT(std::string((*session)->Run({}, {"outside"}, {}, &out).message()), HasSubstr("pos -2 out of range"));
}

// What is made of them is not known either.
TEST(Fetches, OfStringsThatAreNotComputedSayWhy) {
  const auto session = OpenSession(Parsed(R"(
s = Const() {dtype=string, value=string[2]{"A", "b"}}
ascii = Const() {dtype=string, value=string[]{"Ab"}}
square = MatrixDiag(s) {T=string}
high = StringUpper(ascii) {encoding="utf-8"}
joined = StringJoin(high, square) {N=2, separator=""}
)"), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> out;
  ASSERT_TRUE((*session)->Run({}, {"high"}, {}, &out).ok());
  EXPECT_THAT(out[0].strings(), ::testing::ElementsAre("AB"));
  for (const char* fetch : {"square", "joined"}) {
    EXPECT_THAT(std::string((*session)->Run({}, {fetch}, {}, &out).message()),
                AllOf(HasSubstr(fetch), HasSubstr("the strings of op 'MatrixDiag' (node 'square') are not computed")));
  }
}

TEST(Session, NamesWithCommasAreNotSeveralNames) {
  const auto session = OpenSession(Parsed(kFetched), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::Feeds feeds = {{"x", Tensor::Vector<float>({3, 3})}};
  std::vector<Tensor> out;
  ASSERT_TRUE((*session)->Run(feeds, {"y", "c"}, {}, &out).ok());
  EXPECT_TRUE(absl::IsNotFound((*session)->Run(feeds, {"y,c"}, {}, &out)));
}

TEST(Session, FeedsAndTargetsOfOutputsThatNothingTakesAreRefused) {
  const auto session = OpenSession(Parsed(kFetched), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor x = Tensor::Vector<float>({3, 3});
  std::vector<Tensor> out;
  const absl::Status fed = (*session)->Run({{"x", x}, {"c:5", x}}, {"y"}, {}, &out);
  EXPECT_THAT(std::string(fed.message()), HasSubstr("feed 'c:5': no node takes output 5 of 'c'"));
  const absl::Status target = (*session)->Run({{"x", x}}, {}, {"y:99"}, nullptr);
  EXPECT_THAT(std::string(target.message()), HasSubstr("target 'y:99': no node takes output 99 of 'y'"));
}

TEST(Session, AGraphWithInputsThatAreNotThereIsRefused) {
  Graph graph = Parsed(kFetched);
  graph.mutable_node(graph.Find("y")).inputs[1].node.value = 99;
  EXPECT_THAT(std::string(OpenSession(std::move(graph), SessionOptions()).status().message()), HasSubstr("node 'y' has output 0 of node number 99"));
  Graph control = Parsed(kFetched);
  control.mutable_node(control.Find("y")).control_inputs.push_back(NodeId{-3});
  EXPECT_THAT(std::string(OpenSession(std::move(control), SessionOptions()).status().message()), HasSubstr("node number -3"));
}

TEST(Session, APlanThatDoesNotHoldTogetherIsRefused) {
  const auto session = OpenSession(Parsed(kFetched), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::FeedTypes types = {{"x", {DataType::kFloat, Shape({2})}}};
  const auto plan = (*session)->Plan(types, {"y"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto broken = std::make_shared<ExecutionPlan>(**plan);
  for (Lane& lane : broken->lanes) {
    for (ComputeStep& step : lane.compute) step.instance = 1000;
  }
  EXPECT_FALSE((*session)->UsePlan(broken, types, {"y"}, {}).ok());
  EXPECT_TRUE((*session)->UsePlan(*plan, types, {"y"}, {}).ok());
}

// Random numbers are drawn before the index turns out to be wrong.
TEST(Session, AStepThatFailsLeavesRandomStreamsWhereTheyWere) {
  const char* const text = R"(
size = Const() {dtype=int32, value=int32[1]{4}}
noise = RandomUniform(size) {T=int32, dtype=float, seed=3, seed2=4}
i = Placeholder() {dtype=int32, shape=shape[1]}
axis = Const() {dtype=int32, value=int32[]{0}}
picked = GatherV2(noise, i, axis) {Taxis=int32, Tindices=int32, Tparams=float}
)";
  const auto draws = [&](bool with_failures) {
    std::vector<float> values;
    const auto session = OpenSession(Parsed(text), SessionOptions());
    EXPECT_TRUE(session.ok()) << session.status();
    for (int step = 0; step < 4; ++step) {
      std::vector<Tensor> out;
      if (with_failures) {
        EXPECT_FALSE((*session)->Run({{"i", Tensor::Vector<int32_t>({9})}}, {"picked"}, {}, &out).ok());
      }
      EXPECT_TRUE((*session)->Run({{"i", Tensor::Vector<int32_t>({1})}}, {"picked"}, {}, &out).ok());
      values.push_back(out[0].as<float>()[0]);
    }
    return values;
  };
  EXPECT_EQ(draws(true), draws(false));
}

}  // namespace
}  // namespace millrace
