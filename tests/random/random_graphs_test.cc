// Random graphs under random strategies, partition sizes, budgets and threads, and with lanes that are held up, give the bits of
// `baseline`. See README.md.
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "millrace/op.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "passes/strategy.h"
#include "passes/unroll/questions.h"
#include "plan/disk_layout.h"
#include "random/random_graph.h"
#include "runtime/executor.h"
#include "runtime/op_evaluator.h"
#include "testlib/lane_delays.h"

namespace millrace {
namespace {

constexpr int kSteps = 2;
constexpr char kFolder[] = MILLRACE_SOURCE_DIR "/tests/conformance/data";

int64_t FromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

struct Result {
  std::vector<Tensor> fetched;  // of all steps
  std::map<std::string, Tensor> variables;
  RunReport run;
};

absl::StatusOr<Result> Train(const GraphOfCases& random, const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(random.graph.Clone(), options));
  MR_RETURN_IF_ERROR(session->Run({}, {}, {"init"}, nullptr));
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session->Run({}, random.fetches, {"train"}, &fetched));
    result.fetched.insert(result.fetched.end(), fetched.begin(), fetched.end());
  }
  result.run = session->last_run();
  MR_ASSIGN_OR_RETURN(result.variables, session->Variables());
  return result;
}

// As Train, by executors of the session's plans whose lanes are held up. `copies`: copies in of a step.
absl::StatusOr<Result> TrainHeldUp(const GraphOfCases& random, const SessionOptions& options, uint64_t seed, int64_t& copies) {
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
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    delays.NextStep();
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(train->RunStep({}, &fetched, nullptr));
    result.fetched.insert(result.fetched.end(), fetched.begin(), fetched.end());
  }
  MR_ASSIGN_OR_RETURN(result.variables, variables.Read());
  return result;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// What differs first; empty when nothing does.
std::string Difference(const GraphOfCases& random, const Result& found, const Result& expected) {
  for (size_t i = 0; i < expected.fetched.size(); ++i) {
    if (!SameBits(found.fetched[i], expected.fetched[i])) {
      return absl::StrCat("fetch ", random.fetches[i % random.fetches.size()], " of step ", i / random.fetches.size());
    }
  }
  for (const auto& [name, value] : expected.variables) {
    const auto other = found.variables.find(name);
    if (other == found.variables.end() || !SameBits(other->second, value)) return absl::StrCat("variable ", name);
  }
  return "";
}

SessionOptions RandomOptions(int64_t peak, std::mt19937_64& random) {
  const std::vector<std::string> strategies = StrategyNames();
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 20};
  SessionOptions options;
  options.threads = 1 + static_cast<int>(random() % 3);
  options.planning.strategy = strategies[random() % strategies.size()];
  options.planning.partition_size = kSizes[random() % std::size(kSizes)];
  options.planning.swap_distance = static_cast<int64_t>(random() % 4);
  options.planning.fuse = random() % 2 == 0;
  if (random() % 4 != 0) options.planning.device_memory_bytes = std::max<int64_t>(1, peak * static_cast<int64_t>(30 + random() % 80) / 100);
  if (random() % 4 == 0) options.planning.update_part_bytes = static_cast<int64_t>(64 << random() % 6);
  if (random() % 4 == 0) {
    options.planning.host_memory_bytes = kDiskBounceBytes + kStateReserveBytes + static_cast<int64_t>(1 + random() % 3) * kDiskPageBytes;
    options.disk = ::testing::TempDir();
  } else if (random() % 4 == 0) {
    options.planning.devices = {"cpu:0", "cpu:1"};
    options.planning.share_recv = random() % 2 == 0;
  }
  return options;
}

// A third of the nodes asks for each of two devices.
GraphOfCases Spread(const GraphOfCases& whole, std::mt19937_64& random) {
  GraphOfCases spread{whole.graph.Clone(), whole.fetches, whole.cases};
  for (int32_t i = 0; i < spread.graph.num_ids(); ++i) {
    const uint64_t device = random() % 3;
    if (device < 2) spread.graph.mutable_node(NodeId{i}).requested_device = absl::StrCat("/cpu:", device);
  }
  return spread;
}

std::string Describe(const SessionOptions& options) {
  return absl::StrCat(options.planning.strategy, " partition_size=", options.planning.partition_size, " swap_distance=",
                      options.planning.swap_distance, " device_memory=", options.planning.device_memory_bytes,
                      options.planning.fuse ? " fuse" : "", " update_parts=", options.planning.update_part_bytes,
                      options.disk.empty() ? "" : absl::StrCat(" disk below host_memory=", options.planning.host_memory_bytes),
                      options.planning.devices.empty() ? "" : options.planning.share_recv ? " two devices, sharing" : " two devices",
                      " threads=", options.threads);
}

TEST(RandomGraphs, GiveTheBitsOfBaselineUnderEveryPlan) {
  constexpr int kVariants = 5;
  const int64_t graphs = FromEnvironment("MILLRACE_RANDOM_GRAPHS", 60);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  const std::vector<conformance::Case> cases = UsableCases(kFolder);
  int64_t ran = 0, compared = 0, refused = 0, spread = 0, tiered = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(seed);
    const GraphOfCases graph = MakeGraphOfCases(cases, 2 + static_cast<int>(random() % 12), random);
    SessionOptions baseline;
    baseline.threads = 1;
    baseline.planning.strategy = "baseline";
    const absl::StatusOr<Result> expected = Train(graph, baseline);
    EXPECT_FALSE(absl::IsInternal(expected.status())) << expected.status() << ", seed " << seed << ", made of " << graph.cases;
    // Refused by every plan: a number of an earlier result that is out of an op's range.
    if (!expected.ok()) continue;
    ++ran;
    for (int variant = 0; variant < kVariants; ++variant) {
      const SessionOptions options = RandomOptions(expected->run.predicted_peak_device_bytes, random);
      const bool two = !options.planning.devices.empty();
      const absl::StatusOr<Result> found = two ? Train(Spread(graph, random), options) : Train(graph, options);
      const std::string where = absl::StrCat("seed ", seed, ", ", Describe(options), ", made of ", graph.cases);
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
    const GraphOfCases graph = MakeGraphOfCases(cases, 2 + static_cast<int>(random() % 12), random);
    SessionOptions options;
    options.threads = 1;
    options.planning.strategy = "baseline";
    const absl::StatusOr<Result> expected = Train(graph, options);
    if (!expected.ok()) continue;
    for (const char* strategy : {"planned", "tensorflowmem", "lru", "tflms"}) {
      options.threads = 1 + static_cast<int>(random() % 3);
      options.planning.strategy = strategy;
      options.planning.device_memory_bytes =
          std::max<int64_t>(1, expected->run.predicted_peak_device_bytes * static_cast<int64_t>(50 + random() % 50) / 100);
      int64_t copies_of_step = 0;
      const absl::StatusOr<Result> found = TrainHeldUp(graph, options, random(), copies_of_step);
      // What needs results of a step to be planned is planned by Run alone.
      if (absl::IsResourceExhausted(found.status()) || NeedsAnswer(found.status())) continue;
      const std::string where = absl::StrCat("seed ", seed, ", ", Describe(options), ", made of ", graph.cases);
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
  int64_t ran = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(graphs); ++seed) {
    std::mt19937_64 random(seed);
    const conformance::Case edited = EditCase(cases[random() % cases.size()], random);
    if (std::getenv("MILLRACE_RANDOM_TRACE") != nullptr) {
      std::fprintf(stderr, "seed %llu: %s.%s\n", static_cast<unsigned long long>(seed), edited.family.c_str(), edited.name.c_str());
    }
    SessionOptions options;
    options.threads = 1;
    options.planning.strategy = "baseline";
    options.planning.device_memory_bytes = int64_t{64} << 20;
    options.planning.host_memory_bytes = int64_t{256} << 20;
    const GraphOfCases graph = MakeGraphOfCases({edited}, 1, random);
    const absl::Status status = Train(graph, options).status();
    EXPECT_FALSE(absl::IsInternal(status)) << status << ", seed " << seed << ", " << graph.cases;
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
