// Times of operations as gaps see them.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "passes/planner/gaps.h"

namespace millrace {
namespace {

GapGraph GraphOf(const std::vector<double>& seconds, AccessGraph& graph) {
  graph.seconds = seconds;
  graph.scratch_bytes.assign(seconds.size(), 64);
  graph.partition.assign(seconds.size(), 0);
  graph.first_access.assign(seconds.size() + 1, 0);
  GapGraph gaps = FindGaps(graph, Machine());
  OrderGaps(gaps);
  return gaps;
}

// The last operation that has begun at time t; as many as there are when all are done.
int32_t LastBegun(const GapGraph& gaps, double t) {
  return std::max(static_cast<int32_t>(std::upper_bound(gaps.start.begin(), gaps.start.end(), t) - gaps.start.begin()) - 1, 0);
}

TEST(GapGraph, TellsTheOperationThatRunsAtATime) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> seconds(1 + random() % 40);
    for (double& s : seconds) s = random() % 4 == 0 ? 0 : std::exponential_distribution<double>(1)(random);
    AccessGraph graph;
    const GapGraph gaps = GraphOf(seconds, graph);
    std::vector<double> times = gaps.start;
    times.insert(times.end(), {-1.0, 2 * gaps.compute_seconds(), std::nextafter(gaps.compute_seconds(), 0)});
    for (int k = 0; k < 50; ++k) times.push_back(std::uniform_real_distribution<double>(0, gaps.compute_seconds())(random));
    for (double t : times) EXPECT_EQ(gaps.OperationAt(t), LastBegun(gaps, t)) << "round " << round << " at " << t;
  }
}

TEST(GapGraph, HomesMatterWhereTheyAreMoreThanAQuarterOfTheBudget) {
  GapGraph gaps;
  gaps.gaps = {{.bytes = 640, .home = true}, {.bytes = 320, .home = true}, {.bytes = 9'600}, {.bytes = 9'600, .home = true, .feed = true}};
  EXPECT_TRUE(HomesMatter(gaps, 3'839));
  EXPECT_FALSE(HomesMatter(gaps, 3'840));
}

}  // namespace
}  // namespace millrace
