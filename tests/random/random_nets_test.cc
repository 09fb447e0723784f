// Random networks under the rewrites that change rounding: near the results of the graph as it is, and the same bits under every
// plan. See README.md.
#include <cstdlib>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/import.h"
#include "random/random_nets.h"
#include "random/training.h"

namespace millrace {
namespace {

// Of a tensor's largest value, after one step of networks that may have twenty layers: some make more of rounding in each.
constexpr double kTolerance = 1e-4, kMixedTolerance = 0.05;

SessionOptions AsItIs() {
  SessionOptions options;
  options.threads = 1;
  options.planning.strategy = "baseline";
  options.planning.accumulate_products = false;
  return options;
}

SessionOptions WithRewrites(std::mt19937_64& random) {
  SessionOptions options = AsItIs();
  if (random() % 3 == 0) options.device = kEmulated;
  if (const char* const device = std::getenv("MILLRACE_RANDOM_DEVICE")) options.device = device;
  // Rewrites end at what is sent.
  if (random() % 4 == 0 && (options.device != "cuda" || FromEnvironment("MILLRACE_RANDOM_GPUS", 1) > 1)) options.planning.devices = {options.device + ":0", options.device + ":1"};
  options.planning.fuse = random() % 3 != 0;
  options.planning.pack_rows = options.planning.channels_first = true;
  options.planning.accumulate_products = random() % 2 == 0;
  return options;
}

// With the same rewrites on the same devices.
SessionOptions RandomPlan(const SessionOptions& rewriting, int64_t peak, std::mt19937_64& random) {
  SessionOptions options = RandomOptions(rewriting.device, peak, random);
  if (random() % 2 == 0) options.planning.strategy = "planned";
  options.planning.devices = rewriting.planning.devices;
  options.planning.fuse = rewriting.planning.fuse;
  options.planning.pack_rows = rewriting.planning.pack_rows;
  options.planning.channels_first = rewriting.planning.channels_first;
  options.planning.accumulate_products = rewriting.planning.accumulate_products;
  return options;
}

struct Tally {
  int64_t rewritten = 0, spread = 0, compared = 0, refused = 0, replanned = 0, tiered = 0;
};

void ExpectTheSameBits(const TrainingGraph& net, const SessionOptions& rewriting, const TrainingResult& expected, std::mt19937_64& random,
                       Tally& tally) {
  constexpr int kVariants = 3;
  SessionOptions former = rewriting;
  for (int variant = 0; variant < kVariants; ++variant) {
    const SessionOptions options = RandomPlan(rewriting, expected.run.predicted_peak_device_bytes, random);
    const bool hands_over = random() % 3 == 0;
    SCOPED_TRACE(absl::StrCat(Describe(options), hands_over ? " after " + Describe(former) : ""));
    const absl::StatusOr<TrainingResult> found = hands_over ? TrainHandedOver(net, former, options) : Train(net, options);
    if (absl::IsResourceExhausted(found.status())) {
      EXPECT_GT(options.planning.device_memory_bytes + options.planning.host_memory_bytes, 0) << found.status();
      ++tally.refused;
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Difference(net, *found, expected), "");
    former = options;
    ++tally.compared;
    tally.replanned += found->run.replans > 0;
    tally.tiered += found->run.bytes_to_disk > 0;
  }
}

using MakeNet = TrainingGraph (*)(std::mt19937_64&);
using CountRewritten = std::function<int64_t(const ExecutionPlan&)>;

// `rewritten`: nodes of a plan that only a rewrite makes.
void ExpectTheSameOfNet(TrainingGraph net, const CountRewritten& rewritten, std::mt19937_64& random, Tally& tally) {
  const absl::StatusOr<TrainingResult> as_it_is = Train(net, AsItIs(), 1);
  ASSERT_TRUE(as_it_is.ok()) << as_it_is.status();
  const SessionOptions options = WithRewrites(random);
  if (!options.planning.devices.empty()) {
    net = Spread(net, options.device, random);
    ++tally.spread;
  }
  const absl::StatusOr<TrainingResult> one_step = Train(net, options, 1), expected = Train(net, options);
  ASSERT_TRUE(one_step.ok() && expected.ok()) << Describe(options) << ": " << one_step.status() << " " << expected.status();
  EXPECT_EQ(FarApart(net, *one_step, *as_it_is, net.in_low_precision ? kMixedTolerance : kTolerance), "") << Describe(options);
  tally.rewritten += rewritten(*expected->run.plan) > 0;
  ExpectTheSameBits(net, options, *expected, random, tally);
}

void ExpectTheSameOfRandomNets(MakeNet make, const CountRewritten& rewritten) {
  const int64_t nets = FromEnvironment("MILLRACE_RANDOM_NETS", 40);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  Tally tally;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(nets); ++seed) {
    std::mt19937_64 random(seed);
    TrainingGraph net = make(random);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", net.made_of));
    if (const char* const path = std::getenv("MILLRACE_RANDOM_OUT")) {
      const absl::Status saved = SaveGraph(net.graph, path);
      ASSERT_TRUE(saved.ok()) << saved;
    }
    ExpectTheSameOfNet(std::move(net), rewritten, random, tally);
    if (::testing::Test::HasFatalFailure()) return;
  }
  std::printf("%s\n", absl::StrCat(nets, " nets, ", tally.rewritten, " rewritten, ", tally.spread, " over two devices, ", tally.compared, " plans compared (", tally.replanned,
                                   " planned again between steps, ", tally.tiered, " with copies to disk), ", tally.refused, " refused").c_str());
  if (nets >= 40) {
    EXPECT_GT(tally.rewritten, nets / 3);
    EXPECT_GT(tally.compared, nets);
    EXPECT_GT(tally.replanned, nets / 20);
    EXPECT_GT(tally.tiered, 0);
  }
}

int64_t CountNamed(const ExecutionPlan& plan, const std::string& with) {
  int64_t count = 0;
  for (const OpInstance& instance : plan.instances) count += instance.name.find(with) != std::string::npos;
  return count;
}

TEST(RandomNets, RecurrentOnesWithTheirRowsPacked) {
  ExpectTheSameOfRandomNets(RandomRecurrentNet, [](const ExecutionPlan& plan) { return CountNamed(plan, "/rows"); });
}

TEST(RandomNets, ThoseOfImagesWithTheirChannelsFirst) {
  ExpectTheSameOfRandomNets(RandomImageNet, [](const ExecutionPlan& plan) { return CountNamed(plan, "/channels_first"); });
}

TEST(RandomNets, ThoseOfSequencesInGroups) {
  const auto groups = [](const ExecutionPlan& plan) {
    int64_t count = 0;
    for (const OpInstance& instance : plan.instances) count += instance.op.rfind("_Fused", 0) == 0 || instance.op == "_SumProducts";
    return count;
  };
  ExpectTheSameOfRandomNets(RandomSequenceNet, groups);
}

}  // namespace
}  // namespace millrace
