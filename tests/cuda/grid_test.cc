// The grid that the host runs kernels on (runtime/devices/cuda/fake/grid.h): its barriers hold, and one that is missing is seen.
// All conformance cases run on it in cuda_fake_test.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/fake/grid.h"

namespace millrace::cuda {
namespace {

TEST(GridTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> seen(5 * 96);
  fake::RunGrid(5, 96, [&] { ++seen[blockIdx.x * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 5 * 96);
}

// Each thread reads what its neighbour wrote.
int WrongNeighbours(bool wait) {
  std::vector<int> value(64, -1);
  int wrong = 0;
  fake::RunGrid(1, 64, [&] {
    const int t = static_cast<int>(threadIdx.x);
    value[t] = t;
    if (wait) __syncthreads();
    wrong += value[(t + 1) % 64] != (t + 1) % 64;
  });
  return wrong;
}

TEST(GridTest, AMissingBarrierIsSeen) {
  EXPECT_EQ(WrongNeighbours(/*wait=*/true), 0);
  EXPECT_GT(WrongNeighbours(/*wait=*/false), 10);
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

TEST(GridDeathTest, ThreadsAtDifferentBarriersAreABug) {
  EXPECT_DEATH(fake::RunGrid(1, 64, [] { threadIdx.x == 3 ? __syncwarp() : __syncthreads(); }), "wait at different barriers");
}

TEST(GridDeathTest, AGridWithoutBlocksIsABug) { EXPECT_DEATH(fake::RunGrid(0, 64, [] {}), "0 blocks"); }

}  // namespace
}  // namespace millrace::cuda
