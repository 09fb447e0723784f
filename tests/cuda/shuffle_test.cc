// A block that shuffles does the steps of one exchange after another. Once as loops (cuda_kernels_test) and once on the grid
// (cuda_grid_test).
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/random_rare.h"
#include "graph/philox.h"

namespace millrace::cuda {
namespace {

std::vector<int32_t> ShuffledOneAfterAnother(const uint64_t seed[2], int64_t rows) {
  const PhiloxStream stream = PhiloxStream::FromStatelessSeed(seed[0], seed[1]);
  std::vector<int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i < rows; ++i) {
    uint32_t words[PhiloxStream::kWords];
    stream.After(static_cast<uint64_t>(i / PhiloxStream::kWords)).GenerateOne(words);
    std::swap(order[i], order[i + words[i % PhiloxStream::kWords] % static_cast<uint32_t>(rows - i)]);
  }
  return order;
}

// Of up to 8,192 rows one thread exchanges all, of more windows come before; the first ones of 200,000 rows meet no other, most of the last do.
TEST(ShuffleTest, ABlockHasTheOrderOfExchangesOneAfterAnother) {
  for (const int64_t rows : {1, 2, 15, 16, 17, 300, 8192, 8193, 8320, 10'000, 200'000}) {
    const uint64_t seed[] = {7, static_cast<uint64_t>(rows)};
    RandomSource source;
    source.kind = RandomSource::Kind::kSeed;
    source.counter = seed;
    std::vector<int32_t> order(rows, -1), scratch(rows + 1, 77);
    Fault fault;
    LaunchShuffledOrder({nullptr, &fault, 0}, source, rows, order.data(), scratch.data());
    EXPECT_EQ(order, ShuffledOneAfterAnother(seed, rows)) << rows;
    EXPECT_EQ(scratch.back(), 77);
  }
}

}  // namespace
}  // namespace millrace::cuda
