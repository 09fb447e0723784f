// Kernels whose threads work together, by real threads: what one must wait for, it waits for.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/layout.cu"
#include "cuda/launch/reduce.cu"
#include "cuda/launch/sort.cu"
#include "cuda/launch/top_k.cu"

namespace millrace::cuda {
namespace {

constexpr int kCrewThreads = 8;

// As a block of the device: its threads meet at Sync and share `values`.
struct ThreadCrew {
  int thread = 0;
  std::barrier<>* barrier = nullptr;
  double* values = nullptr;
  int rank() const { return thread; }
  int size() const { return kCrewThreads; }
  void Sync() const { barrier->arrive_and_wait(); }
  template <typename V, typename Combine>
  V Reduce(V mine, const Combine& combine) const {
    V* const shared = reinterpret_cast<V*>(values);
    shared[thread] = mine;
    Sync();
    for (int half = kCrewThreads / 2; half > 0; half /= 2) {
      if (thread < half) shared[thread] = combine(shared[thread], shared[thread + half]);
      Sync();
    }
    const V all = shared[0];
    Sync();
    return all;
  }
};

template <typename Work>
void RunCrew(const Work& work) {
  std::barrier<> barrier(kCrewThreads);
  double values[kCrewThreads];
  std::vector<std::thread> threads;
  for (int t = 0; t < kCrewThreads; ++t) {
    threads.emplace_back([&, t] { work(ThreadCrew{t, &barrier, values}); });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> Noise(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random() % 20001) / 1000.0f - 10.0f;
  return values;
}

// What LaunchStridedCopy makes of a copy that goes through squares, by a crew; elements as the contract says them.
void CheckTransposed(const StridedCopy& copy, int64_t from_size, int64_t to_size) {
  const std::vector<float> from = Noise(from_size, 1);
  std::vector<float> to(to_size, -1.0f), expected = to;
  std::vector<int64_t> at(copy.rank, 0);
  for (int64_t i = 0; i < copy.elements; ++i) {
    int64_t source = 0, target = 0;
    for (int d = 0; d < copy.rank; ++d) {
      source += at[d] * copy.from_strides[d];
      target += at[d] * copy.to_strides[d];
    }
    expected[target] = from[source];
    for (int d = copy.rank - 1; d >= 0 && ++at[d] == copy.dims[d]; --d) at[d] = 0;
  }
  TileDims dims;
  const StridedCopy simple = Simplify(copy);
  ASSERT_TRUE(FindTranspose(simple, &dims));
  int64_t tasks = 0;
  const auto body = TransposeOf<float>(simple, dims, from.data(), to.data(), &tasks);
  TransposeBody<float>::Shared shared;
  RunCrew([&](const ThreadCrew& crew) {
    for (int64_t task = 0; task < tasks; ++task) body(crew, task, shared);
  });
  EXPECT_EQ(to, expected);
}

TEST(CrewTest, TransposesSquaresAndTheirRaggedEdges) {
  constexpr int64_t kMatrices = 3, kRows = 45, kColumns = 70;
  StridedCopy copy;
  copy.rank = 3;
  copy.elements = kMatrices * kRows * kColumns;
  const int64_t dims[] = {kMatrices, kRows, kColumns}, from[] = {kRows * kColumns, kColumns, 1};
  const int64_t to[] = {kRows * kColumns, 1, kRows};
  for (int d = 0; d < 3; ++d) {
    copy.dims[d] = dims[d];
    copy.from_strides[d] = from[d];
    copy.to_strides[d] = to[d];
  }
  CheckTransposed(copy, copy.elements, copy.elements);
}

// Filters as convolutions have them, [taps][inputs][outputs], and as cuDNN does, in both of its layouts, there and back.
TEST(CrewTest, EveryFilterGoesThroughSquares) {
  for (const int64_t taps : {1, 3, 9, 25, 27, 49}) {
    for (const int64_t inner : {3, 16, 37}) {
      for (const int64_t out : {16, 40}) {
        if (taps * inner < 16) continue;
        for (const int way : {0, 1, 2, 3}) {
          SCOPED_TRACE(::testing::Message() << taps << " taps, " << inner << " to " << out << ", way " << way);
          const bool first = way % 2 == 0, back = way / 2 == 0;
          const int64_t dims[] = {out, taps, inner}, node[] = {1, inner * out, out};
          const int64_t library[] = {taps * inner, first ? 1 : inner, first ? taps : 1};
          StridedCopy copy;
          copy.rank = 3;
          copy.elements = taps * inner * out;
          for (int d = 0; d < 3; ++d) {
            copy.dims[d] = dims[d];
            copy.from_strides[d] = back ? library[d] : node[d];
            copy.to_strides[d] = back ? node[d] : library[d];
          }
          CheckTransposed(copy, copy.elements, copy.elements);
        }
      }
    }
  }
}

TEST(CrewTest, SortsShortListsOfRowsKeepingTheOrderOfEqualOnes) {
  for (const int64_t n : {1, 2, 7, 32, 33, 64, 1000, 4096}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    std::vector<int32_t> indices(n);
    for (int32_t& index : indices) index = static_cast<int32_t>(random() % 12) - 1;
    Fault fault;
    ShortSort sort;
    sort.queue = {nullptr, &fault, 0};
    sort.index.count = n;
    sort.index.dims[0] = 11;
    sort.index.strides[0] = 1;
    sort.index.skips_negative = true;
    sort.indices = indices.data();
    sort.n = n;
    std::vector<int32_t> keys(n), items(n), expected(n);
    sort.keys = keys.data();
    sort.items = items.data();
    sort.skipped = 11;
    auto shared = std::make_unique<ShortSort::Shared>();
    RunCrew([&](const ThreadCrew& crew) {
      for (int64_t task = 0; task < sort.tasks(); ++task) sort(crew, task, *shared);
    });
    for (int64_t i = 0; i < n; ++i) expected[i] = static_cast<int32_t>(i);
    const auto key = [&](int32_t i) { return indices[i] < 0 ? 11 : indices[i]; };
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
    EXPECT_EQ(items, expected);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(keys[i], key(expected[i]));
    EXPECT_EQ(fault.code, FaultCode::kNone);
  }
}

// By value, then by column: NaNs first, zeros of either sign alike.
TEST(CrewTest, TheGreatestOfARowAreThoseOfAStableSort) {
  for (const int64_t columns : {1, 17, 300, 1000, 9000}) {
    constexpr int64_t kRows = 3;
    std::vector<float> x = Noise(kRows * columns, static_cast<uint32_t>(columns));
    for (float& value : x) value = std::floor(value);  // equal ones
    for (size_t i = 0; i < x.size(); i += 7) x[i] = i % 2 == 0 ? -0.0f : i % 3 == 0 ? static_cast<float>(NAN) : INFINITY;
    const int64_t k = std::min<int64_t>((columns + 1) / 2, 1000), pieces = PiecesOf(columns);
    std::vector<float> values(kRows * k);
    std::vector<int32_t> indices(kRows * k);
    std::vector<uint32_t> left(kRows * pieces * k);
    SortedTopTask<float> task{false, columns, k, x.data(), values.data(), indices.data(), columns, nullptr, DivideBy(pieces, kRows * pieces), left.data()};
    auto shared = std::make_unique<SortedTopTask<float>::Shared>();
    const auto run = [&] {
      RunCrew([&](const ThreadCrew& crew) {
        for (int64_t i = 0; i < kRows * task.pieces.by; ++i) task(crew, i, *shared);
      });
    };
    run();
    if (pieces > 1) {
      task.there = pieces * k;
      task.given = left.data();
      task.pieces = {};
      run();
    }
    for (int64_t row = 0; row < kRows; ++row) {
      const float* const from = x.data() + row * columns;
      std::vector<int32_t> expected(columns);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
        return std::isnan(from[a]) ? !std::isnan(from[b]) || a < b : from[a] > from[b];
      });
      for (int64_t rank = 0; rank < k; ++rank) {
        ASSERT_EQ(indices[row * k + rank], expected[rank]) << columns << ", " << row << ", " << rank;
        ASSERT_EQ(std::memcmp(&values[row * k + rank], &from[expected[rank]], sizeof(float)), 0);
      }
    }
  }
}

// Rows of logits with labels, where the crew's gradient takes the place of the logits.
TEST(CrewTest, LossesInPlaceHaveTheBitsOfLossesOutOfPlace) {
  constexpr int64_t kRows = 20, kColumns = 37;
  const std::vector<float> logits = Noise(kRows * kColumns, 3);
  std::vector<int32_t> labels(kRows);
  for (int64_t r = 0; r < kRows; ++r) labels[r] = static_cast<int32_t>(r * 7 % kColumns);
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  std::vector<float> loss(kRows), apart(kRows * kColumns), place = logits, place_loss(kRows);
  const auto run = [&](const float* x, float* l, float* dx) {
    const IndexLossRow<float> body = {queue, false, kColumns, x, labels.data(), l, dx};
    RunCrew([&](const ThreadCrew& crew) {
      for (int64_t row = 0; row < kRows; ++row) body(crew, row);
    });
  };
  run(logits.data(), loss.data(), apart.data());
  run(place.data(), place_loss.data(), place.data());
  EXPECT_EQ(place, apart);
  EXPECT_EQ(place_loss, loss);
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t k = 0; k < kColumns; ++k) sum += std::exp(static_cast<double>(logits[r * kColumns + k]));
    EXPECT_NEAR(loss[r], std::log(sum) - logits[r * kColumns + labels[r]], 1e-4);
    for (int64_t k = 0; k < kColumns; ++k) {
      const double p = std::exp(static_cast<double>(logits[r * kColumns + k])) / sum;
      EXPECT_NEAR(apart[r * kColumns + k], p - (k == labels[r] ? 1 : 0), 1e-5);
    }
  }
}

TEST(CrewTest, ALabelOutOfRangeIsAFaultOfItsRowAndEndsTheCrew) {
  const std::vector<float> logits = Noise(12, 4);
  const std::vector<int64_t> labels = {0, 6};
  Fault fault;
  std::vector<float> loss(2), gradient(12);
  const IndexLossRow<float> body = {{nullptr, &fault, 5}, true, 6, logits.data(), labels.data(), loss.data(), gradient.data()};
  RunCrew([&](const ThreadCrew& crew) {
    for (int64_t row = 0; row < 2; ++row) body(crew, row);
  });
  EXPECT_EQ(fault.code, FaultCode::kBadLabel);
  EXPECT_EQ(fault.value, 6);
  EXPECT_EQ(fault.position, 5);
}

TEST(CrewTest, SoftmaxOfARowWithNanOrInfinityIsNan) {
  const float infinity = INFINITY;
  for (const float odd : {static_cast<float>(NAN), infinity}) {
    std::vector<float> x = Noise(24, 5);
    x[13] = odd;
    const SoftmaxRow<float> body = {false, 24, x.data(), x.data()};
    RunCrew([&](const ThreadCrew& crew) { body(crew, 0); });
    for (const float y : x) EXPECT_TRUE(std::isnan(y));
  }
}

}  // namespace
}  // namespace millrace::cuda
