// Copies with strides, whichever way the kernel moves them: element by element, many at once, through squares.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/layout.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {
namespace {

// Copies element by element, as the contract says it.
void CopyByDefinition(int bytes, const StridedCopy& copy, const char* from, char* to) {
  std::vector<int64_t> at(copy.rank, 0);
  for (int64_t i = 0; i < copy.elements; ++i) {
    int64_t source = copy.from_offset, target = copy.to_offset;
    for (int d = 0; d < copy.rank; ++d) {
      source += at[d] * copy.from_strides[d];
      target += at[d] * copy.to_strides[d];
    }
    std::memcpy(to + target * bytes, from + source * bytes, bytes);
    for (int d = copy.rank - 1; d >= 0 && ++at[d] == copy.dims[d]; --d) at[d] = 0;
  }
}

// A tensor of up to four dimensions whose target is a permutation of the source, with room around it.
StridedCopy RandomCopy(std::mt19937& random, int64_t* from_size, int64_t* to_size) {
  StridedCopy copy;
  copy.rank = 1 + static_cast<int>(random() % 4);
  copy.elements = 1;
  const int64_t sizes[] = {1, 2, 3, 8, 16, 33, 64};
  std::vector<int> order(copy.rank);
  for (int d = 0; d < copy.rank; ++d) {
    copy.dims[d] = sizes[random() % 7];
    if (copy.elements * copy.dims[d] > 20000) copy.dims[d] = 1;
    copy.elements *= copy.dims[d];
    order[d] = d;
  }
  const auto set = [&](int64_t* strides, int64_t* offset) {
    int64_t step = 1;
    for (int k = copy.rank - 1; k >= 0; --k) {
      strides[order[k]] = step;
      step *= copy.dims[order[k]] + (random() % 4 == 0 ? random() % 5 : 0);
    }
    *offset = random() % 3 == 0 ? random() % 9 : 0;
    return step + *offset;
  };
  *from_size = set(copy.from_strides, &copy.from_offset);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  *to_size = set(copy.to_strides, &copy.to_offset);
  if (random() % 5 == 0) copy.from_strides[random() % copy.rank] = 0;
  if (random() % 5 == 0) {
    const int d = static_cast<int>(random() % copy.rank);
    copy.from_offset += (copy.dims[d] - 1) * copy.from_strides[d];
    copy.from_strides[d] = -copy.from_strides[d];
  }
  return copy;
}

std::vector<char> Noise(std::mt19937& random, int64_t bytes) {
  std::vector<char> noise(bytes);
  for (char& value : noise) value = static_cast<char>(random());
  return noise;
}

TEST(StridedCopyTest, MovesEveryElementAndNoOtherForRandomStrides) {
  std::mt19937 random(11);
  Fault fault;
  for (int trial = 0; trial < 3000; ++trial) {
    int64_t from_size = 0, to_size = 0;
    const StridedCopy copy = RandomCopy(random, &from_size, &to_size);
    const int bytes = 1 << random() % 4;
    const std::vector<char> from = Noise(random, from_size * bytes), before = Noise(random, to_size * bytes);
    std::vector<char> expected = before, to = before;
    CopyByDefinition(bytes, copy, from.data(), expected.data());
    LaunchStridedCopy({nullptr, &fault, 0}, bytes, copy, from.data(), to.data());
    ASSERT_TRUE(to == expected) << "trial " << trial;
  }
}

TEST(StridedCopyTest, SeveralInOneLaunchAreAsOneByOne) {
  std::mt19937 random(12);
  Fault fault;
  for (int trial = 0; trial < 200; ++trial) {
    const int count = 1 + static_cast<int>(random() % 20), bytes = 1 << random() % 4;
    std::vector<std::vector<char>> from, to, expected;
    std::vector<CopyTask> tasks;
    for (int k = 0; k < count; ++k) {
      int64_t from_size = 0, to_size = 0;
      CopyTask task;
      task.copy = RandomCopy(random, &from_size, &to_size);
      tasks.push_back(task);
      from.push_back(Noise(random, from_size * bytes));
      to.push_back(Noise(random, to_size * bytes));
      expected.push_back(to.back());
      CopyByDefinition(bytes, task.copy, from.back().data(), expected.back().data());
    }
    for (int k = 0; k < count; ++k) {
      tasks[k].from = from[k].data();
      tasks[k].to = to[k].data();
    }
    LaunchStridedCopies({nullptr, &fault, 0}, bytes, tasks.data(), count);
    ASSERT_TRUE(to == expected) << "trial " << trial;
  }
}

TEST(GatherTest, RowsOfEveryLengthAndAlignment) {
  std::mt19937 random(13);
  Fault fault;
  for (const int64_t inner : {1, 2, 3, 4, 6, 8, 16, 20}) {
    for (const int bytes : {1, 2, 4, 8}) {
      for (const int shift : {0, 1}) {
        const std::vector<char> in = Noise(random, (10 * inner + shift) * bytes);
        std::vector<char> out((6 * inner + shift) * bytes);
        const std::vector<int32_t> index = {3, 0, 9, 9, 1, 5};
        LaunchGather({nullptr, &fault, 0}, bytes, false, 1, 1, 10, 6, inner, in.data() + shift * bytes, index.data(),
                     out.data() + shift * bytes);
        for (int i = 0; i < 6; ++i) {
          ASSERT_EQ(std::memcmp(out.data() + (shift + i * inner) * bytes, in.data() + (shift + index[i] * inner) * bytes,
                                inner * bytes), 0)
              << inner << " elements of " << bytes << " bytes";
        }
      }
    }
  }
  EXPECT_EQ(fault.code, FaultCode::kNone);
}

// Sums in the order of the indices, by the sort of short lists and by that of long ones.
TEST(ScatterTest, AddsTheUpdatesOfARowInTheirOrderWhateverTheLength) {
  constexpr int64_t kRows = 100, kInner = 3;
  for (const int64_t n : {1, 2, 31, 4095, 4096, 4097, 9000}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    std::vector<int64_t> indices(n);
    std::vector<float> updates(n * kInner), expected(kRows * kInner), out(kRows * kInner);
    for (int64_t i = 0; i < n; ++i) {
      indices[i] = static_cast<int64_t>(random() % (kRows + 1)) - 1;
      for (int64_t c = 0; c < kInner; ++c) {
        updates[i * kInner + c] = static_cast<float>(random() % 100000) * 1e-3f;
        if (indices[i] >= 0) expected[indices[i] * kInner + c] += updates[i * kInner + c];
      }
    }
    RowIndex index;
    index.wide = index.skips_negative = true;
    index.count = n;
    index.dims[0] = kRows;
    index.strides[0] = 1;
    Fault fault;
    std::vector<char> scratch(ScatterScratchBytes(n, kRows));
    LaunchScatterRows({nullptr, &fault, 0}, CombineOp::kAdd, Type::kFloat, index, kRows, kInner, false, indices.data(),
                      updates.data(), out.data(), scratch.data());
    EXPECT_EQ(out, expected) << n << " updates";
  }
}

}  // namespace
}  // namespace millrace::cuda
