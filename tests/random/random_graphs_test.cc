// Random graphs under random strategies, partition sizes, budgets and threads, and with lanes that are held up, give the bits of
// `baseline`. See README.md.
#include <cstdlib>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "millrace/op.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "passes/unroll/questions.h"
#include "random/random_graph.h"
#include "random/training.h"
#include "runtime/executor.h"
#include "runtime/op_evaluator.h"
#include "testlib/lane_delays.h"

namespace millrace {
namespace {

constexpr char kFolder[] = MILLRACE_SOURCE_DIR "/tests/conformance/data";

// As Train, by executors of the session's plans whose lanes are held up. `copies`: copies in of a step.
absl::StatusOr<TrainingResult> TrainHeldUp(const TrainingGraph& random, const SessionOptions& options, uint64_t seed, int64_t& copies) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(random.graph.Clone(), options));
  MR_ASSIGN_OR_RETURN(const auto init_plan, session->Plan({}, {}, {"init"}));
  MR_ASSIGN_OR_RETURN(const auto train_plan, session->Plan({}, random.fetches, {"train"}));
  copies = train_plan->counts.swap_ins;
  HostMemory host(0);
  VariableStore variables(&host);
  const std::unique_ptr<TaskRunner> runner = MakeTbbTaskRunner(options.threads);
  const std::unique_ptr<RuntimeDevice> device = cpu::MakeCpuDevice(0);
  KernelCache kernels(CpuKernels());
  const auto infer_shapes = [](OpInstance& instance) -> absl::Status {
    const OpDef* const def = OpRegistry::Builtin().Find(instance.op);
    if (def == nullptr) return absl::NotFoundError(instance.op);
    return InferOutputs(*def, instance);
  };
  const RuntimeContext context{{device.get()}, runner.get(), &kernels, &host, &variables, nullptr, infer_shapes};
  testing::LaneDelays delays(seed);
  ExecutorOptions held_up;
  held_up.observer = &delays;
  MR_ASSIGN_OR_RETURN(const auto init, Executor::Create(init_plan, context, held_up));
  MR_RETURN_IF_ERROR(init->RunStep({}, nullptr, nullptr));
  MR_ASSIGN_OR_RETURN(const auto train, Executor::Create(train_plan, context, held_up));
  TrainingResult result;
  for (int step = 0; step < kRandomSteps; ++step) {
    delays.NextStep();
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(train->RunStep({}, &fetched, nullptr));
    result.fetched.insert(result.fetched.end(), fetched.begin(), fetched.end());
  }
  MR_ASSIGN_OR_RETURN(result.variables, variables.Read());
  return result;
}

TEST(RandomGraphs, GiveTheBitsOfBaselineUnderEveryPlan) {
  constexpr int kVariants = 5;
  const int64_t graphs = FromEnvironment("MILLRACE_RANDOM_GRAPHS", 100);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  const std::vector<conformance::Case> cases = UsableCases(kFolder);
  int64_t ran = 0, compared = 0, refused = 0, spread = 0, tiered = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(seed);
    const TrainingGraph graph = MakeGraphOfCases(cases, 2 + static_cast<int>(random() % 12), random);
    SessionOptions baseline;
    if (random() % 4 == 0) baseline.device = kEmulated;
    const bool emulated = baseline.device == kEmulated;
    baseline.planning.fuse = emulated && random() % 2 == 0;
    baseline.threads = 1;
    baseline.planning.strategy = "baseline";
    const absl::StatusOr<TrainingResult> expected = Train(graph, baseline);
    EXPECT_FALSE(absl::IsInternal(expected.status())) << expected.status() << ", seed " << seed << ", made of " << graph.made_of;
    // Refused by every plan: a number of an earlier result that is out of an op's range.
    if (!expected.ok()) continue;
    ++ran;
    for (int variant = 0; variant < kVariants; ++variant) {
      SessionOptions options = RandomOptions(baseline.device, expected->run.predicted_peak_device_bytes, random);
      // CUDA devices round a bias with the sum that it is fused with, where both are on one device.
      if (emulated) options.planning.fuse = baseline.planning.fuse;
      if (baseline.planning.fuse) options.planning.devices.clear();
      const bool two = !options.planning.devices.empty();
      const absl::StatusOr<TrainingResult> found = two ? Train(Spread(graph, baseline.device, random), options) : Train(graph, options);
      const std::string where = absl::StrCat("seed ", seed, ", ", Describe(options), ", made of ", graph.made_of);
      if (absl::IsResourceExhausted(found.status())) {
        EXPECT_GT(options.planning.device_memory_bytes + options.planning.host_memory_bytes, 0) << where << ": " << found.status();
        ++refused;
        continue;
      }
      ASSERT_TRUE(found.ok()) << where << ": " << found.status();
      EXPECT_EQ(Difference(graph, *found, *expected), "") << where;
      if (options.planning.device_memory_bytes > 0) {
        // Of all devices together.
        EXPECT_LE(found->run.peak_device_bytes, options.planning.num_devices() * options.planning.device_memory_bytes) << where;
      }
      ++compared;
      spread += two ? 1 : 0;
      tiered += found->run.bytes_to_disk > 0 ? 1 : 0;
    }
  }
  std::printf("%lld graphs of %lld, %lld plans compared (%lld on two devices, %lld with copies to disk), %lld refused\n",
              static_cast<long long>(ran), static_cast<long long>(graphs), static_cast<long long>(compared),
              static_cast<long long>(spread), static_cast<long long>(tiered), static_cast<long long>(refused));
  if (graphs >= 50) {
    EXPECT_GT(ran, graphs / 2);
    EXPECT_GT(compared, graphs);
    EXPECT_GT(spread, graphs / 10);
    EXPECT_GT(tiered, 0);
  }
}

// Every wait that a plan lacks shows where the lane it should wait for is late.
TEST(RandomGraphs, GiveTheBitsOfBaselineWhenLanesAreHeldUp) {
  const int64_t graphs = FromEnvironment("MILLRACE_RANDOM_GRAPHS", 40);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  const std::vector<conformance::Case> cases = UsableCases(kFolder);
  int64_t compared = 0, copies = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(seed);
    const TrainingGraph graph = MakeGraphOfCases(cases, 2 + static_cast<int>(random() % 12), random);
    SessionOptions options;
    options.threads = 1;
    options.planning.strategy = "baseline";
    const absl::StatusOr<TrainingResult> expected = Train(graph, options);
    if (!expected.ok()) continue;
    for (const char* strategy : {"planned", "tensorflowmem", "lru", "tflms"}) {
      options.threads = 1 + static_cast<int>(random() % 3);
      options.planning.strategy = strategy;
      options.planning.device_memory_bytes =
          std::max<int64_t>(1, expected->run.predicted_peak_device_bytes * static_cast<int64_t>(50 + random() % 50) / 100);
      int64_t copies_of_step = 0;
      const absl::StatusOr<TrainingResult> found = TrainHeldUp(graph, options, random(), copies_of_step);
      // What needs results of a step to be planned is planned by Run alone.
      if (absl::IsResourceExhausted(found.status()) || NeedsAnswer(found.status())) continue;
      const std::string where = absl::StrCat("seed ", seed, ", ", Describe(options), ", made of ", graph.made_of);
      ASSERT_TRUE(found.ok()) << where << ": " << found.status();
      EXPECT_EQ(Difference(graph, *found, *expected), "") << where;
      ++compared;
      copies += copies_of_step;
    }
  }
  std::printf("%lld plans compared, %lld copies in\n", static_cast<long long>(compared), static_cast<long long>(copies));
  if (graphs >= 40) {
    EXPECT_GT(compared, graphs);
    EXPECT_GT(copies, compared);
  }
}

// What a rule or a kernel does not check would end the program here.
TEST(RandomGraphs, EditedCasesAreRefusedOrRun) {
  const int64_t graphs = FromEnvironment("MILLRACE_RANDOM_EDITS", 300);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  const std::vector<conformance::Case> cases = UsableCases(kFolder);
  const CasePicker picker(cases);
  int64_t ran = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(seed);
    const conformance::Case edited = EditCase(picker.Pick(random), random);
    if (std::getenv("MILLRACE_RANDOM_TRACE") != nullptr) {
      std::fprintf(stderr, "seed %llu: %s.%s\n", static_cast<unsigned long long>(seed), edited.family.c_str(), edited.name.c_str());
    }
    SessionOptions options;
    options.threads = 1;
    options.planning.strategy = "baseline";
    options.planning.device_memory_bytes = int64_t{64} << 20;
    options.planning.host_memory_bytes = int64_t{256} << 20;
    const TrainingGraph graph = MakeGraphOfCases({edited}, 1, random);
    const absl::Status status = Train(graph, options).status();
    EXPECT_FALSE(absl::IsInternal(status)) << status << ", seed " << seed << ", " << graph.made_of;
    ran += status.ok();
  }
  std::printf("%lld of %lld ran\n", static_cast<long long>(ran), static_cast<long long>(graphs));
  if (graphs >= 100) {
    EXPECT_GT(ran, graphs / 20);
    EXPECT_LT(ran, graphs);
  }
}

}  // namespace
}  // namespace millrace
