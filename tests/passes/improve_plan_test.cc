// Which move is next: kinds that there are, their shares, and when the search ends.
#include "passes/planner/improve_plan.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

// Variables that are read now and then.
struct Graph {
  Graph() {
    for (int k = 0; k < 8; ++k) graph.AddStorage(StorageKind::kVariable, 64);
    for (int32_t i = 0; i < 32; ++i) graph.AddOperation({Reads(i % 8)});
    gaps = FindGaps(graph.access(), UnitLink());
    OrderGaps(gaps);
  }
  SmallAccessGraph graph;
  GapGraph gaps;
};

int Differences(const TrialSettings& a, const TrialSettings& b) {
  return (a.target != b.target ? 1 : 0) + (a.window != b.window ? 1 : 0) + (a.slack != b.slack ? 1 : 0) +
         (a.policy != b.policy ? 1 : 0) + (a.carried != b.carried ? 1 : 0);
}

bool SameWeights(const TransferWeights& a, const TransferWeights& b) {
  return a.out == b.out && a.in == b.in && a.bias == b.bias && a.spread_homes == b.spread_homes;
}

class ImproverTest : public testing::Test {
 protected:
  // Moves until the search ends, none of which gains anything; a look finds `trial_seconds(k)` in the k-th.
  template <typename Seconds>
  std::vector<Move> InVain(Improver& improver, const TrialSettings& best, Seconds trial_seconds) {
    std::vector<Move> moves;
    while (std::optional<Move> move = improver.Next(best, {})) {
      improver.Told(*move, 1000, 0, trial_seconds(moves.size()));
      moves.push_back(*std::move(move));
      EXPECT_LT(moves.size(), 100000) << "it does not end";
      if (moves.size() >= 100000) break;
    }
    return moves;
  }
  std::vector<Move> InVain(Improver& improver, const TrialSettings& best) {
    return InVain(improver, best, [](size_t) { return 1.0; });
  }
  static std::array<int, Move::kKinds> Count(const std::vector<Move>& moves) {
    std::array<int, Move::kKinds> count{};
    for (const Move& move : moves) ++count[move.kind];
    return count;
  }
  Graph graph_;
};

TEST_F(ImproverTest, NeighboursDifferInOneSettingAndEachIsTriedOnce) {
  Improver improver(graph_.gaps, 256, {});
  const std::vector<Move> moves = InVain(improver, {});
  // Eight targets, the slacks and the windows, less the one of each that the best plan has.
  EXPECT_EQ(moves.size(), 7 + std::size(kAnchorSlack) - 1 + std::size(kWindows) - 1);
  for (const Move& move : moves) {
    EXPECT_EQ(move.kind, Move::kNeighbour);
    EXPECT_FALSE(move.look);
    EXPECT_EQ(Differences(move.settings, {}), 1);
    EXPECT_TRUE(SameWeights(move.settings.weights, {}));
    EXPECT_EQ(move.settings.policy, 0) << "policies do not matter";
    EXPECT_EQ(move.settings.carried, 0) << "nothing may be carried";
  }
  for (size_t a = 0; a < moves.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_GT(Differences(moves[a].settings, moves[b].settings), 0) << a << " is " << b << " again";
  }
}

TEST_F(ImproverTest, PoliciesAreNeighboursWherePlacingIsTried) {
  Improver improver(graph_.gaps, 256, {.places = true});
  size_t policies = 0;
  for (const Move& move : InVain(improver, {})) policies += move.settings.policy != 0 ? 1 : 0;
  EXPECT_EQ(policies, std::size(kLongLived) - 1);
}

TEST_F(ImproverTest, WhatIsNotCarriedHasNoNeighbourThatIs) {
  Improver without(graph_.gaps, 256, {.may_carry = true});
  for (const Move& move : InVain(without, {})) EXPECT_TRUE(move.kind == Move::kCarry || move.settings.carried == 0);
  Improver with(graph_.gaps, 256, {.may_carry = true});
  size_t carried = 0;
  for (const Move& move : InVain(with, {.carried = 2})) {
    carried += move.kind == Move::kNeighbour && move.settings.carried != 2 ? 1 : 0;
  }
  EXPECT_EQ(carried, std::size(kCarried) - 1);
}

TEST_F(ImproverTest, OnlyKindsThatThereAreHaveMoves) {
  using Counts = std::array<int, Move::kKinds>;
  const auto kinds = [&](const Improver::Options& options) {
    Improver improver(graph_.gaps, 256, options);
    Counts counts = Count(InVain(improver, {}));
    for (int& count : counts) count = count > 0 ? 1 : 0;
    return counts;
  };
  EXPECT_EQ(kinds({}), (Counts{1, 0, 0, 0, 0}));
  EXPECT_EQ(kinds({.reprices = true}), (Counts{1, 1, 0, 0, 0}));
  EXPECT_EQ(kinds({.homes_matter = true}), (Counts{1, 0, 1, 0, 0})) << "homes are exchanged at random, as prices are";
  EXPECT_EQ(kinds({.may_carry = true}), (Counts{1, 0, 0, 0, 1}));
  EXPECT_EQ(kinds({true, true, true, true}), (Counts{1, 1, 1, 1, 1}));
}

TEST_F(ImproverTest, MovesAtRandomEndWhenFiveHundredWereInVain) {
  Improver improver(graph_.gaps, 256, {.reprices = true, .homes_matter = true});
  const std::vector<Move> moves = InVain(improver, {});
  const std::array<int, Move::kKinds> counts = Count(moves);
  EXPECT_EQ(counts[Move::kReprice] + counts[Move::kExchangeHomes], 500);
  EXPECT_NEAR(counts[Move::kExchangeHomes], 2 * counts[Move::kReprice], 2) << "shares of four to two";
}

TEST_F(ImproverTest, AGainGivesNeighboursAndMovesAtRandomAnotherChance) {
  Improver improver(graph_.gaps, 256, {.reprices = true});
  const size_t all = InVain(improver, {}).size();
  EXPECT_FALSE(improver.Next({}, {}).has_value());
  improver.Told({Move::kReprice, {}}, 1000, 0.01, 1);
  EXPECT_EQ(InVain(improver, {}).size(), all);
}

TEST_F(ImproverTest, TheKindThatGainsIsTriedMore) {
  // Of 300 moves, so many are neighbours.
  const auto neighbours = [&](Move::Kind gains) {
    Improver improver(graph_.gaps, 256, {.reprices = true});
    int count = 0;
    for (int k = 0; k < 300; ++k) {
      const std::optional<Move> move = improver.Next({}, {});
      count += move->kind == Move::kNeighbour ? 1 : 0;
      improver.Told(*move, 1000, move->kind == gains ? 0.001 : 0, 1);
    }
    return count;
  };
  // Shares of four to two; what gains most gets four times as much.
  EXPECT_NEAR(neighbours(Move::kNeighbour), 300 * 16 / 18, 2);
  EXPECT_NEAR(neighbours(Move::kReprice), 300 * 4 / 12, 2);
}

TEST_F(ImproverTest, WhatTakesMoreWorkHasFewerTurns) {
  Improver improver(graph_.gaps, 256, {.reprices = true, .homes_matter = true});
  int reprices = 0, exchanges = 0;
  for (int k = 0; k < 400; ++k) {
    const std::optional<Move> move = improver.Next({}, {});
    reprices += move->kind == Move::kReprice ? 1 : 0;
    exchanges += move->kind == Move::kExchangeHomes ? 1 : 0;
    improver.Told(*move, move->kind == Move::kExchangeHomes ? 4000 : 1000, 0, 1);
  }
  EXPECT_NEAR(reprices, 2 * exchanges, 3) << "twice the share, four times the work";
}

TEST_F(ImproverTest, OfABatchThatWasLookedAtTheBestArePlannedInTheirOrder) {
  // What the k-th trial takes; every seventh made nothing of use.
  const auto seconds = [](size_t k) { return k % 7 == 0 ? 0.0 : static_cast<double>(1 + (k * 37) % 101); };
  Improver improver(graph_.gaps, 256, {.homes_matter = true});
  const std::vector<Move> moves = InVain(improver, {}, seconds);
  std::vector<std::pair<double, const Move*>> looked;
  std::vector<const Move*> planned;
  for (size_t k = 0; k < moves.size(); ++k) {
    if (moves[k].kind != Move::kSpreadHomes) continue;
    EXPECT_TRUE(moves[k].settings.weights.spread_homes);
    EXPECT_FALSE(moves[k].look && !planned.empty()) << "a look after the first plan";
    if (!moves[k].look) planned.push_back(&moves[k]);
    else if (seconds(k) > 0) looked.emplace_back(seconds(k), &moves[k]);
  }
  std::stable_sort(looked.begin(), looked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ASSERT_EQ(planned.size(), 10);
  ASSERT_GT(looked.size(), planned.size());
  for (size_t k = 0; k < planned.size(); ++k) EXPECT_EQ(Differences(planned[k]->settings, looked[k].second->settings), 0) << k;
}

TEST_F(ImproverTest, ABatchInWhichNothingWasOfUseIsNotPlanned) {
  Improver improver(graph_.gaps, 256, {.homes_matter = true, .may_carry = true});
  const std::vector<Move> moves = InVain(improver, {}, [](size_t) { return 0.0; });
  int looks = 0;
  for (const Move& move : moves) {
    EXPECT_TRUE(move.look || move.kind == Move::kNeighbour);
    looks += move.look ? 1 : 0;
  }
  EXPECT_GT(looks, 0);
}

TEST_F(ImproverTest, MoreOfACarriedBatchIsLookedAtOnlyIfTheFirstGained) {
  const auto looks = [&](double gained) {
    Improver improver(graph_.gaps, 256, {.may_carry = true});
    int count = 0;
    bool told = false;
    while (std::optional<Move> move = improver.Next({}, {})) {
      const bool first_planned = move->kind == Move::kCarry && !move->look && !told;
      told = told || first_planned;
      count += move->look ? 1 : 0;
      improver.Told(*move, 1000, first_planned ? gained : 0, 1);
    }
    return count;
  };
  const int of_a_target = static_cast<int>((std::size(kCarried) - 1) * std::size(kWindows));
  EXPECT_EQ(looks(0), of_a_target);
  EXPECT_EQ(looks(0.01), 2 * of_a_target);
}

TEST_F(ImproverTest, TheSameThatIsToldGivesTheSameMoves) {
  Improver one(graph_.gaps, 256, {true, true, true, true}), two(graph_.gaps, 256, {true, true, true, true});
  const std::vector<Move> a = InVain(one, {}), b = InVain(two, {});
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(a[k].kind, b[k].kind);
    EXPECT_EQ(Differences(a[k].settings, b[k].settings), 0);
    EXPECT_TRUE(SameWeights(a[k].settings.weights, b[k].settings.weights));
  }
}

}  // namespace
}  // namespace millrace
