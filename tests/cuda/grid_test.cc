// The grid that the host runs kernels on (runtime/devices/cuda/fake/grid.h): its barriers hold, and one that is missing is seen.
// All conformance cases run on it in cuda_fake_test, copies (copies_test.cc) beside this one.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/fake/fiber.h"
#include "cuda/fake/grid.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {

void fake::LaunchGrid(void*, int64_t blocks, int threads, std::function<void()> thread) { RunGrid(blocks, threads, thread); }

namespace {

// Of all kernels in this program.
[[maybe_unused]] const bool looks_for_races = (fake::LookForRaces(), true);

TEST(GridTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> seen(5 * 96);
  fake::RunGrid(5, 96, [&] { ++seen[blockIdx.x * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 5 * 96);
}

// Each thread reads what its neighbour wrote.
int WrongNeighbours(bool wait) {
  std::vector<int> value(64, -1), wrong(64);
  fake::RunGrid(1, 64, [&] {
    const int t = static_cast<int>(threadIdx.x);
    value[t] = t;
    if (wait) __syncthreads();
    wrong[t] = value[(t + 1) % 64] != (t + 1) % 64;
  });
  return std::accumulate(wrong.begin(), wrong.end(), 0);
}

// Many are wrong without the barrier, or ThreadSanitizer, where it watches, says so: of a process of its own, as it makes programs fail.
void ExpectManyWrong(int (*count)(bool wait)) {
  constexpr int kExitOfReport = 66;
  if (fake::kThreadsAreWatched) {
    EXPECT_EXIT(std::exit(count(/*wait=*/false) < 0), ::testing::ExitedWithCode(kExitOfReport), "data race");
  } else {
    EXPECT_GT(count(/*wait=*/false), 10);
  }
}

TEST(GridTest, AMissingBarrierIsSeen) {
  EXPECT_EQ(WrongNeighbours(/*wait=*/true), 0);
  ExpectManyWrong(WrongNeighbours);
}

TEST(GridTest, WarpsWaitForThemselvesAlone) {
  std::vector<int> turns(64);
  fake::RunGrid(1, 64, [&] {
    for (int i = 0; i < (threadIdx.x < 32 ? 3 : 7); ++i) {
      __syncwarp();
      ++turns[threadIdx.x];
    }
    __syncthreads();
    ++turns[threadIdx.x];
  });
  EXPECT_EQ(std::accumulate(turns.begin(), turns.end(), 0), 32 * 4 + 32 * 8);
}

// A warp writes between barriers of its own what another one reads behind as many of them.
int WrongOfOtherWarps(bool wait) {
  int value = 0;
  std::vector<int> wrong(20 * 64);
  fake::RunGrid(20, 64, [&] {
    if (threadIdx.x == 0) value = 0;
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
      if (threadIdx.x == 0) ++value;
      __syncwarp();
    }
    if (wait) __syncthreads();
    wrong[blockIdx.x * blockDim.x + threadIdx.x] = value != 4;
    __syncthreads();
  });
  return std::accumulate(wrong.begin(), wrong.end(), 0);
}

TEST(GridTest, WarpsRunAheadOfOneAnother) {
  EXPECT_EQ(WrongOfOtherWarps(/*wait=*/true), 0);
  ExpectManyWrong(WrongOfOtherWarps);
}

TEST(GridDeathTest, ThreadsAtDifferentBarriersAreABug) {
  EXPECT_DEATH(fake::RunGrid(1, 64, [] { threadIdx.x == 3 ? __syncwarp() : __syncthreads(); }), "wait at different barriers");
}

TEST(GridTest, AVoteIsAllThreadsAndIsOverWithItsBarrier) {
  std::vector<int> votes(2 * 64);
  fake::RunGrid(1, 64, [&] {
    const int t = static_cast<int>(threadIdx.x);
    votes[t] = __syncthreads_or(t == 40 ? 7 : 0);
    votes[64 + t] = __syncthreads_or(0);
  });
  EXPECT_EQ(std::count(votes.begin(), votes.begin() + 64, 0), 0);
  EXPECT_EQ(std::count(votes.begin() + 64, votes.end(), 0), 64);
}

TEST(GridDeathTest, ThreadsThatEndBeforeOthersWaitAreABug) {
  const auto end_unless = [](bool (*goes_on)(), void (*wait)()) {
    fake::RunGrid(1, 64, [=] {
      if (goes_on()) wait();
    });
  };
  EXPECT_DEATH(end_unless([] { return threadIdx.x >= 32; }, __syncthreads), "block wait for some that have ended");
  EXPECT_DEATH(end_unless([] { return threadIdx.x != 3; }, __syncwarp), "warp wait for some that have ended");
  end_unless([] { return threadIdx.x >= 32; }, __syncwarp);
}

// Warps of a block, and blocks, that look for a fault after the first of them has reported one.
TEST(GridTest, KernelsWhoseThreadsWaitForOneAnotherStopByWholeBlocks) {
  for (const int64_t columns : {100, 3000}) {
    constexpr int64_t kRows = 40;
    const std::vector<float> logits(kRows * columns, 0.5f);
    std::vector<float> loss(kRows), gradient(logits.size());
    const std::vector<int32_t> labels(kRows, -1);
    Fault fault;
    LaunchCrossEntropy({nullptr, &fault, 3}, Type::kFloat, true, false, kRows, columns, logits.data(), labels.data(), loss.data(),
                       gradient.data());
    EXPECT_EQ(fault.code, FaultCode::kBadLabel);
    EXPECT_EQ(fault.position, 3);
  }
}

TEST(GridDeathTest, AGridWithoutBlocksIsABug) { EXPECT_DEATH(fake::RunGrid(0, 64, [] {}), "0 blocks"); }

}  // namespace
}  // namespace millrace::cuda
