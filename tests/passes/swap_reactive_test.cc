// The reactive strategy's choice alone, on graphs made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "passes/access/access_graph.h"
#include "passes/swaps/choose_swaps.h"

namespace millrace {
namespace {

constexpr double kThreshold = 0.5;
constexpr int64_t kSavedBytes = 4096;

class GraphMaker {
 public:
  // An activation, to be made by the operation that writes it.
  int32_t AddStorage(int64_t size_bytes) {
    graph_.names.push_back(absl::StrCat("s", graph_.storages.size()));
    graph_.storages.push_back({.size_bytes = size_bytes});
    return static_cast<int32_t>(graph_.storages.size()) - 1;
  }

  void AddOperation(std::initializer_list<Access> accesses) {
    graph_.first_access.push_back(static_cast<int64_t>(graph_.accesses.size()));
    graph_.accesses.insert(graph_.accesses.end(), accesses);
    graph_.seconds.push_back(1);
    graph_.scratch_bytes.push_back(0);
    graph_.partition.push_back(0);
  }

  AccessGraph Finish() {
    graph_.first_access.push_back(static_cast<int64_t>(graph_.accesses.size()));
    return std::move(graph_);
  }

 private:
  AccessGraph graph_;
};

Access Writes(int32_t storage) { return {.storage = storage, .writes = true}; }
Access Reads(int32_t storage) { return {.storage = storage, .reads = true}; }

// (after, before) of every decision of the storage.
std::vector<std::pair<int32_t, int32_t>> GapsOf(const SwapChoice& choice, int32_t storage) {
  std::vector<std::pair<int32_t, int32_t>> gaps;
  for (const SwapDecision& decision : choice.decisions) {
    if (decision.storage == storage) gaps.emplace_back(decision.after, decision.before);
  }
  return gaps;
}

using Gaps = std::vector<std::pair<int32_t, int32_t>>;

//   operation   0    1    2    3    4    5
//   a           W    .    .    R    R    .      the oldest: leaves when b has filled the half, comes back for 3 and is then no saved one
//   b           .    W    R    .    .    R      needed by 2, the next operation, so it stays; it leaves for a
//   small       W    .    .    .    .    R      of 64 bytes: never
TEST(SwapReactiveTest, TheOldestSavedActivationThatTheNextOperationDoesNotNeedLeaves) {
  GraphMaker maker;
  const int32_t a = maker.AddStorage(kSavedBytes), b = maker.AddStorage(kSavedBytes), small = maker.AddStorage(64);
  maker.AddOperation({Writes(a), Writes(small)});
  maker.AddOperation({Writes(b)});
  maker.AddOperation({Reads(b)});
  maker.AddOperation({Reads(a)});
  maker.AddOperation({Reads(a)});
  maker.AddOperation({Reads(b), Reads(small)});
  const auto choice = SwapReactive(maker.Finish(), 3 * kSavedBytes, kThreshold);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(GapsOf(*choice, a), (Gaps{{0, 3}}));
  EXPECT_EQ(GapsOf(*choice, b), (Gaps{{2, 5}}));
  EXPECT_EQ(GapsOf(*choice, small), Gaps());
}

// Operations that each make a tensor too small to leave, and as many that take them, above the threshold all the while.
double SecondsOfSmallTensors(int32_t count) {
  constexpr int64_t kSmallBytes = 64;
  GraphMaker maker;
  const int32_t large = maker.AddStorage(count * kSmallBytes);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t small = maker.AddStorage(kSmallBytes);
    if (i == 0) maker.AddOperation({Writes(large), Writes(small)});
    else maker.AddOperation({Reads(large), Writes(small)});
  }
  for (int32_t i = 0; i < count; ++i) maker.AddOperation({Reads(large), Reads(large + 1 + i)});
  const AccessGraph graph = maker.Finish();
  double least = 1e9;
  for (int run = 0; run < 3; ++run) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    EXPECT_TRUE(SwapReactive(graph, 2 * count * kSmallBytes, kThreshold).ok());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    least = std::min(least, static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  return least;
}

TEST(SwapReactiveTest, TakesTimeInProportionToTheGraph) {
  // Eight times the graph; quadratic would be 64 times, and caches are given room.
  EXPECT_LT(SecondsOfSmallTensors(32'000), 28 * SecondsOfSmallTensors(4'000));
}

}  // namespace
}  // namespace millrace
