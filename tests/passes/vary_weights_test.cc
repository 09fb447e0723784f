// Neighbours of weights: what is changed, and what is left alone.
#include "passes/planner/vary_weights.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

constexpr int32_t kOperations = 256;

// Operations of a second each.
struct Chain {
  Chain() {
    const int32_t a = graph.AddStorage(StorageKind::kActivation);
    for (int32_t i = 0; i < kOperations; ++i) graph.AddOperation({i == 0 ? Writes(a) : Reads(a)});
    gaps = FindGaps(graph.access(), UnitLink());
    OrderGaps(gaps);
  }
  SmallAccessGraph graph;
  GapGraph gaps;
};

TEST(Reprice, ChangesOneWindowByOneFactor) {
  const Chain chain;
  std::mt19937 random(1);
  std::set<double> factors;
  int outs = 0, ins = 0, both = 0;
  for (int round = 0; round < 200; ++round) {
    const TransferWeights weights = Reprice(chain.gaps, {}, random);
    ASSERT_EQ(weights.out.size(), kOperations);
    ASSERT_EQ(weights.in.size(), kOperations);
    int32_t first = kOperations, last = -1;
    double factor = 1;
    bool out = false, in = false;
    for (int32_t i = 0; i < kOperations; ++i) {
      if (weights.out[i] == 1 && weights.in[i] == 1) continue;
      first = std::min(first, i), last = i;
      out = out || weights.out[i] != 1;
      in = in || weights.in[i] != 1;
      factor = out ? weights.out[i] : weights.in[i];
    }
    ASSERT_LT(first, kOperations) << "nothing was changed";
    for (int32_t i = first; i <= last; ++i) {
      EXPECT_EQ(weights.out[i], out ? factor : 1);
      EXPECT_EQ(weights.in[i], in ? factor : 1);
    }
    EXPECT_LE(last - first + 1, kOperations / 2 + 2) << "a fourth of the step to either side";
    EXPECT_GE(last - first + 1, kOperations / 64) << "a sixty-fourth to one side at least";
    factors.insert(factor);
    (out && in ? both : out ? outs : ins) += 1;
  }
  EXPECT_EQ(factors, (std::set<double>{0.2, 0.5, 2, 5}));
  EXPECT_GT(outs, 20);
  EXPECT_GT(ins, 20);
  EXPECT_GT(both, 20);
}

TEST(Reprice, MultipliesWhatThereIsAndLeavesTheRestAlone) {
  const Chain chain;
  TransferWeights before;
  before.out.assign(kOperations, 3);
  before.in.assign(kOperations, 0.05);
  before.most = {1, 2};
  before.bias = {4, 5};
  before.spread_homes = true;
  std::mt19937 random(2);
  const TransferWeights after = Reprice(chain.gaps, before, random);
  EXPECT_EQ(after.most, before.most);
  EXPECT_EQ(after.bias, before.bias);
  EXPECT_TRUE(after.spread_homes);
  const std::set<double> factors = {1, 0.2, 0.5, 2, 5};
  for (int32_t i = 0; i < kOperations; ++i) {
    EXPECT_TRUE(factors.count(after.out[i] / 3)) << after.out[i];
    EXPECT_TRUE(factors.count(after.in[i] / 0.05)) << after.in[i];
  }
}

// Storages: variables of 64, 128 and 512 bytes, a constant, a feed, an activation. The last variable and the constant are fetched.
class Homes : public testing::Test {
 protected:
  void SetUp() override {
    for (const int64_t bytes : {64, 128, 512}) variables_.push_back(graph_.AddStorage(StorageKind::kVariable, bytes));
    constant_ = graph_.AddStorage(StorageKind::kConstant, 256);
    feed_ = graph_.AddStorage(StorageKind::kFeed, 1024);
    activation_ = graph_.AddStorage(StorageKind::kActivation, 1024);
    graph_.AddOperation({Reads(variables_[0]), Reads(variables_[1]), Reads(variables_[2]), Reads(constant_), Reads(feed_), Writes(activation_)})
        .AddOperation({Reads(activation_), Reads(feed_), Updates(variables_[2])});
    gaps_ = FindGaps(graph_.access(), UnitLink());
    decisions_ = {{.storage = variables_[2], .before = 0}, {.storage = constant_, .before = 0}, {.storage = feed_, .before = 0}};
  }
  // Which storages have a bias, checked to be that of what a home gap is.
  std::set<int32_t> Biased(const TransferWeights& weights, const std::set<int32_t>& fetched) const {
    std::set<int32_t> biased;
    EXPECT_EQ(weights.bias.size(), gaps_.gaps.size());
    for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
      if (weights.bias[k] == 1) continue;
      EXPECT_TRUE(gaps_.gaps[k].home && !gaps_.gaps[k].feed) << "gap " << k;
      const int32_t s = gaps_.gaps[k].storage;
      EXPECT_EQ(weights.bias[k], fetched.count(s) ? 1e-3 : 1e3) << "storage " << s;
      biased.insert(s);
    }
    return biased;
  }
  SmallAccessGraph graph_;
  GapGraph gaps_;
  std::vector<int32_t> variables_;
  int32_t constant_ = 0, feed_ = 0, activation_ = 0;
  std::vector<SwapDecision> decisions_;
};

TEST_F(Homes, OneOfEachKindIsExchangedAndFeedsAndActivationsNever) {
  std::mt19937 random(3);
  std::set<std::set<int32_t>> seen;
  const std::set<int32_t> fetched = {variables_[2], constant_};
  for (int round = 0; round < 200; ++round) {
    const TransferWeights weights = ExchangeHomes(gaps_, 0, decisions_, {}, random);
    EXPECT_TRUE(weights.out.empty() && weights.in.empty() && weights.most.empty());
    const std::set<int32_t> biased = Biased(weights, fetched);
    int stays = 0, leaves = 0;
    for (int32_t s : biased) (fetched.count(s) ? stays : leaves) += 1;
    EXPECT_LE(stays, 1);
    EXPECT_LE(leaves, 1);
    seen.insert(biased);
  }
  // Two that may stay, two that may leave, alone and together.
  EXPECT_EQ(seen.size(), 2 + 2 + 4);
}

TEST_F(Homes, SmallOnesAreLeftAlone) {
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    for (int32_t s : Biased(ExchangeHomes(gaps_, 128, decisions_, {}, random), {variables_[2], constant_})) EXPECT_NE(s, variables_[0]);
    EXPECT_TRUE(Biased(ExchangeHomes(gaps_, 2048, decisions_, {}, random), {}).empty());
  }
}

TEST_F(Homes, WhatIsBiasedSoAlreadyIsNotChosenAgain) {
  std::mt19937 random(5);
  TransferWeights weights;
  std::set<int32_t> biased;
  for (int round = 0; round < 50; ++round) {
    weights = ExchangeHomes(gaps_, 0, decisions_, std::move(weights), random);
    const std::set<int32_t> now = Biased(weights, {variables_[2], constant_});
    EXPECT_TRUE(std::includes(now.begin(), now.end(), biased.begin(), biased.end())) << "a bias was taken back";
    biased = now;
  }
  EXPECT_EQ(biased.size(), 4);
  const TransferWeights same = ExchangeHomes(gaps_, 0, decisions_, weights, random);
  EXPECT_EQ(same.bias, weights.bias);
  // Where one of each is left, every exchange finds it.
  for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
    const Gap& gap = gaps_.gaps[k];
    if (gap.home && (gap.storage == constant_ || gap.storage == variables_[1])) weights.bias[k] = 1;
  }
  for (int round = 0; round < 50; ++round) {
    EXPECT_GT(Biased(ExchangeHomes(gaps_, 0, decisions_, weights, random), {variables_[2], constant_}).size(), 2);
  }
}

TEST_F(Homes, ANoteOfTheOtherDirectionIsTurnedRound) {
  // The plan fetches now what an earlier one was told to fetch: it may be told to stay.
  TransferWeights weights;
  weights.bias.assign(gaps_.gaps.size(), 1e3);
  std::mt19937 random(6);
  for (int round = 0; round < 50; ++round) weights = ExchangeHomes(gaps_, 0, decisions_, std::move(weights), random);
  for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
    const bool fetched = gaps_.gaps[k].storage == variables_[2] || gaps_.gaps[k].storage == constant_;
    EXPECT_EQ(weights.bias[k], fetched && gaps_.gaps[k].home ? 1e-3 : 1e3);
  }
}

TEST(VaryWeights, TheSameNumbersGiveTheSameNeighbours) {
  const Chain chain;
  std::mt19937 one(7), two(7);
  for (int round = 0; round < 10; ++round) {
    const TransferWeights a = Reprice(chain.gaps, {}, one), b = Reprice(chain.gaps, {}, two);
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.in, b.in);
  }
}

}  // namespace
}  // namespace millrace
