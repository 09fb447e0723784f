// Random networks under the rewrites that change rounding: near the results of the graph as it is, and the same bits under every
// plan. See README.md.
#include <cstdlib>
#include <functional>

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

void TakeRewrites(const PlanningOptions& from, PlanningOptions& to) {
  to.fuse = from.fuse;
  to.pack_rows = from.pack_rows;
  to.channels_first = from.channels_first;
  to.accumulate_products = from.accumulate_products;
}

using MakeNet = TrainingGraph (*)(std::mt19937_64&);
using CountRewritten = std::function<int64_t(const ExecutionPlan&)>;

// `rewritten`: nodes of a plan that only a rewrite makes.
void ExpectTheSameOfRandomNets(MakeNet make, const CountRewritten& rewritten) {
  constexpr int kVariants = 3;
  const int64_t nets = FromEnvironment("MILLRACE_RANDOM_NETS", 40);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  int64_t touched = 0, compared = 0, refused = 0, replanned = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(nets); ++seed) {
    std::mt19937_64 random(seed);
    TrainingGraph net = make(random);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", net.made_of));
    if (const char* const path = std::getenv("MILLRACE_RANDOM_OUT")) {
      const absl::Status saved = SaveGraph(net.graph, path);
      ASSERT_TRUE(saved.ok()) << saved;
    }
    const absl::StatusOr<TrainingResult> as_it_is = Train(net, AsItIs(), 1);
    ASSERT_TRUE(as_it_is.ok()) << as_it_is.status();
    SessionOptions options = AsItIs();
    if (random() % 3 == 0) options.device = kEmulated;
    if (const char* const device = std::getenv("MILLRACE_RANDOM_DEVICE")) options.device = device;
    if (random() % 4 == 0) {  // where rewrites end at what is sent
      options.planning.devices = {options.device + ":0", options.device + ":1"};
      net = Spread(net, options.device, random);
    }
    options.planning.fuse = random() % 3 != 0;
    options.planning.pack_rows = options.planning.channels_first = true;
    options.planning.accumulate_products = random() % 2 == 0;
    const absl::StatusOr<TrainingResult> one_step = Train(net, options, 1), expected = Train(net, options);
    ASSERT_TRUE(one_step.ok() && expected.ok()) << Describe(options) << ": " << one_step.status() << " " << expected.status();
    EXPECT_EQ(FarApart(net, *one_step, *as_it_is, net.in_low_precision ? kMixedTolerance : kTolerance), "") << Describe(options);
    touched += rewritten(*expected->run.plan) > 0;
    SessionOptions former = options;
    for (int variant = 0; variant < kVariants; ++variant) {
      SessionOptions other = RandomOptions(options.device, expected->run.predicted_peak_device_bytes, random);
      other.planning.devices = options.planning.devices;
      if (random() % 2 == 0) other.planning.strategy = "planned";
      TakeRewrites(options.planning, other.planning);
      const bool hands_over = random() % 3 == 0;
      const absl::StatusOr<TrainingResult> found = hands_over ? TrainHandedOver(net, former, other) : Train(net, other);
      if (absl::IsResourceExhausted(found.status())) {
        EXPECT_GT(other.planning.device_memory_bytes + other.planning.host_memory_bytes, 0) << Describe(other) << ": " << found.status();
        ++refused;
        continue;
      }
      ASSERT_TRUE(found.ok()) << Describe(other) << ": " << found.status();
      EXPECT_EQ(Difference(net, *found, *expected), "") << Describe(other) << (hands_over ? " after " + Describe(former) : "");
      former = other;
      ++compared;
      replanned += found->run.replans > 0;
    }
  }
  std::printf("%lld nets, %lld rewritten, %lld plans compared (%lld planned again between steps), %lld refused\n", static_cast<long long>(nets),
              static_cast<long long>(touched), static_cast<long long>(compared), static_cast<long long>(replanned), static_cast<long long>(refused));
  if (nets >= 40) {
    EXPECT_GT(touched, nets / 3);
    EXPECT_GT(compared, nets);
    EXPECT_GT(replanned, nets / 20);
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
