#include "cuda/launch/random_rare.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/random_stream.h"
#include "graph/distributions.h"
#include "graph/index_shuffle.h"
#include "graph/random_algorithm.h"
#include "graph/truncated_normal.h"

namespace millrace::cuda {
namespace {

// Types are told apart one element at a time: the draws cost far more.
MR_DEVICE inline double NumberAt(Type type, const void* data, int64_t i) {
  switch (type) {
    case Type::kFloat: return static_cast<double>(static_cast<const float*>(data)[i]);
    case Type::kDouble: return static_cast<const double*>(data)[i];
    case Type::kHalf: return static_cast<double>(Widen(static_cast<const Half*>(data)[i]));
    case Type::kBfloat16: return static_cast<double>(Widen(static_cast<const Bfloat16*>(data)[i]));
    case Type::kInt32: return static_cast<double>(static_cast<const int32_t*>(data)[i]);
    default: return static_cast<double>(static_cast<const int64_t*>(data)[i]);
  }
}

// What is no such integer is the least one, as on the CPU.
template <typename T>
MR_DEVICE T IntegerOf(double value) {
  constexpr double kEnd = sizeof(T) == 4 ? 0x1p31 : 0x1p63;
  return value > -kEnd - 1 && value < kEnd ? static_cast<T>(value) : static_cast<T>(T{1} << (8 * sizeof(T) - 1));
}

MR_DEVICE inline void SetNumber(Type type, double value, void* data, int64_t i) {
  switch (type) {
    case Type::kFloat: static_cast<float*>(data)[i] = static_cast<float>(value); return;
    case Type::kDouble: static_cast<double*>(data)[i] = value; return;
    case Type::kHalf: static_cast<Half*>(data)[i] = NarrowHalf(static_cast<float>(value)); return;
    case Type::kBfloat16: static_cast<Bfloat16*>(data)[i] = NarrowBfloat16(static_cast<float>(value)); return;
    case Type::kInt32: static_cast<int32_t*>(data)[i] = IntegerOf<int32_t>(value); return;
    default: static_cast<int64_t*>(data)[i] = IntegerOf<int64_t>(value);
  }
}

struct RoundAs {
  Type type;
  MR_DEVICE double operator()(double value) const {
    switch (type) {
      case Type::kFloat: return static_cast<double>(static_cast<float>(value));
      case Type::kHalf: return static_cast<double>(Widen(NarrowHalf(static_cast<float>(value))));
      case Type::kBfloat16: return static_cast<double>(Widen(NarrowBfloat16(static_cast<float>(value))));
      default: return value;
    }
  }
};

struct CheckAlgorithmBody {
  Queue queue;
  int input;
  const int32_t* algorithm;
  MR_DEVICE void operator()(int64_t) const {
    if (*algorithm != kAlgorithmPhilox && *algorithm != kAlgorithmAuto) ReportIndex(queue, input, 0, *algorithm, kAlgorithmAuto + 1);
  }
};

template <typename Draw>
struct ParameterDrawsBody {
  ParameterDraws draws;
  Divider parameters;
  RandomSource source;
  const void* x;
  void* y;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t sample = parameters(i), parameter = i - sample * parameters.by;
    const auto draw = static_cast<uint64_t>(parameter * draws.samples + sample);
    SetNumber(draws.to, Draw()(NumberAt(draws.from, x, parameter), StreamOf(source).After(draw * kSamplesPerOutput)), y, i);
  }
};

using SetIndex = StridedIndex<ParameterSets::kMost>;
SetIndex IndexOfSets(const ParameterSets& sets) {
  SetIndex index;
  index.rank = sets.rank;
  for (int d = 0; d < sets.rank; ++d) {
    index.SetDim(d, sets.dims[d], sets.count);
    for (int k = 0; k < ParameterSets::kMost; ++k) index.strides[k][d] = sets.strides[k][d];
  }
  return index;
}

struct BinomialBody {
  Type from, to;
  SetIndex index;
  Divider sets;
  int64_t samples;
  RandomSource source;
  const void* counts;
  const void* probabilities;
  void* y;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t sample = sets(i), set = i - sample * sets.by;
    int64_t at[ParameterSets::kMost];
    index.Offsets(set, at);
    const double count = NumberAt(from, counts, at[0]), p = NumberAt(from, probabilities, at[1]);
    SetNumber(to, BinomialDraw(count, p, RoundAs{from}, StreamOf(source), set * samples + sample), y, i);
  }
};

// One task: the stream goes on from set to set, wherever the last number of one was accepted. The crew proposes numbers of the samples
// that follow, its first thread counts what is accepted of them in their order.
template <typename T>
struct TruncatedTask {
  enum class Outcome { kGoesOn, kDone, kNothingAccepted };
  struct Shared {
    uint32_t accepted[kThreads];  // a bit for each number that a thread proposes
    int64_t before[kThreads];     // numbers of the set that are accepted before those
    int64_t used;                 // threads whose proposals count
    Outcome outcome;
  };
  Queue queue;
  TruncatedDraws draws;
  SetIndex index;
  RandomSource source;
  T* y;

  MR_DEVICE TruncatedParameters<T> ParametersOf(int64_t set) const {
    int64_t at[ParameterSets::kMost];
    index.Offsets(set, at);
    const auto parameter = [&](int k) { return static_cast<const T*>(draws.parameters[k])[at[k]]; };
    return {parameter(0), parameter(1), parameter(2), parameter(3)};
  }
  MR_DEVICE void ReportSet(int64_t set, TruncatedFault fault, const TruncatedParameters<T>& parameters) const {
    if (!Report(queue, FaultCode::kIndexOutOfRange, 2, static_cast<int64_t>(fault), 0, set)) return;
    const T shown[] = {parameters.mean, parameters.deviation, parameters.low, parameters.high};
    for (int k = 0; k < ParameterSets::kMost; ++k) queue.fault->tuple[k] = static_cast<int64_t>(millrace::BitsOf(static_cast<double>(shown[k])));
  }
  // Goes through what `threads` threads have proposed, `each` numbers each. made, tries: accepted so far, rejected since.
  MR_DEVICE static void Count(int threads, int each, int64_t asked, int64_t* made, int* tries, Shared& shared) {
    shared.outcome = Outcome::kGoesOn;
    for (shared.used = 0; shared.used < threads && shared.outcome == Outcome::kGoesOn; ++shared.used) {
      shared.before[shared.used] = *made;
      const uint32_t accepted = shared.accepted[shared.used];
      for (int i = 0; i < each && shared.outcome == Outcome::kGoesOn; ++i) {
        if ((accepted >> i & 1) != 0) {
          *tries = 0;
          if (++*made == asked) shared.outcome = Outcome::kDone;
        } else if (++*tries >= kMostTruncatedTries) {
          shared.outcome = Outcome::kNothingAccepted;
        }
      }
    }
  }
  template <typename Crew>
  MR_DEVICE bool DrawSet(const Crew& crew, int64_t set, PhiloxStream& stream, Shared& shared) const {
    TruncatedParameters<T> parameters = ParametersOf(set);
    if (!parameters.Arrange()) {
      if (crew.rank() == 0) ReportSet(set, TruncatedFault::kParameters, parameters);
      return false;
    }
    const TruncatedNormal<T> truncated(parameters);
    const int64_t asked = set + 1 == draws.sets.count ? draws.last_numbers : draws.numbers;
    int64_t made = 0;
    int tries = 0;
    for (Outcome outcome = Outcome::kGoesOn; outcome != Outcome::kDone;) {
      T drawn[TruncatedNormal<T>::kCount];
      bool accepted[TruncatedNormal<T>::kCount];
      const int each = truncated.Propose(stream.After(static_cast<uint64_t>(crew.rank() * truncated.samples())), drawn, accepted);
      uint32_t bits = 0;
      for (int i = 0; i < each; ++i) bits |= static_cast<uint32_t>(accepted[i]) << i;
      shared.accepted[crew.rank()] = bits;
      crew.Sync();
      if (crew.rank() == 0) Count(crew.size(), each, asked, &made, &tries, shared);
      crew.Sync();
      outcome = shared.outcome;
      int64_t at = crew.rank() < shared.used ? shared.before[crew.rank()] : asked;
      for (int i = 0; i < each; ++i) {
        if (!accepted[i] || at >= asked) continue;
        y[set * draws.set_stride + at++ * draws.number_stride] = drawn[i] * parameters.deviation + parameters.mean;
      }
      stream.Skip(static_cast<uint64_t>(shared.used * truncated.samples()));
      crew.Sync();
      if (outcome != Outcome::kNothingAccepted) continue;
      if (crew.rank() == 0) ReportSet(set, TruncatedFault::kNothingAccepted, parameters);
      return false;
    }
    return true;
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t, Shared& shared) const {
    PhiloxStream stream = StreamOf(source);
    for (int64_t set = 0; set < draws.sets.count; ++set) {
      if (!DrawSet(crew, set, stream, shared)) return;
    }
  }
};

// sums[row][c] = what the classes up to c weigh, added up in their order, as on the CPU: the crew computes, its first thread adds.
template <typename T>
struct WeightsTask {
  using W = typename Wide<T>::type;
  static constexpr int kAtOnce = 1024;
  struct Shared {
    double sums[kAtOnce];
  };
  int64_t classes;
  W lowest;
  const T* logits;
  double* sums;
  MR_DEVICE static bool IsFinite(W value) { return value - value == W{0}; }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t row, Shared& shared) const {
    const T* const from = logits + row * classes;
    W largest = lowest;
    for (int64_t c = crew.rank(); c < classes; c += crew.size()) {
      const W logit = Widen(from[c]);
      if (IsFinite(logit) && largest < logit) largest = logit;
    }
    largest = crew.Reduce(largest, [](W a, W b) { return a < b ? b : a; });
    double total = 0;
    for (int64_t base = 0; base < classes; base += kAtOnce) {
      const int count = static_cast<int>(classes - base < kAtOnce ? classes - base : kAtOnce);
      for (int k = crew.rank(); k < count; k += crew.size()) {
        const W logit = Widen(from[base + k]);
        shared.sums[k] = IsFinite(logit) ? exp(static_cast<double>(logit) - static_cast<double>(largest)) : 0;
      }
      crew.Sync();
      for (int k = 0; crew.rank() == 0 && k < count; ++k) shared.sums[k] = total += shared.sums[k];
      crew.Sync();
      for (int k = crew.rank(); k < count; k += crew.size()) sums[row * classes + base + k] = shared.sums[k];
      crew.Sync();
    }
  }
};

// Draw i takes two words of the stream.
template <typename Out>
struct ClassDrawsBody {
  Divider samples;
  int64_t classes;
  RandomSource source;
  const double* sums;
  Out* y;
  MR_DEVICE void operator()(int64_t i) const {
    uint32_t words[PhiloxStream::kWords];
    StreamOf(source).After(static_cast<uint64_t>(i / 2)).GenerateOne(words);
    const double* const row = sums + samples(i) * classes;
    const double wanted = (i % 2 == 0 ? UniformDouble(words[0], words[1]) : UniformDouble(words[2], words[3])) * row[classes - 1];
    int64_t low = 0, high = classes;  // the first sum that is larger
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      wanted < row[middle] ? high = middle : low = middle + 1;
    }
    y[i] = static_cast<Out>(low);
  }
};

// Step i of a shuffle exchanges places i and targets[i] >= i.
struct TargetsBody {
  int64_t rows;
  RandomSource source;
  int32_t* order;
  int32_t* targets;
  MR_DEVICE void operator()(int64_t sample) const {
    uint32_t words[PhiloxStream::kWords];
    StreamOf(source).After(static_cast<uint64_t>(sample)).GenerateOne(words);
    for (int k = 0; k < PhiloxStream::kWords; ++k) {
      const int64_t i = sample * PhiloxStream::kWords + k;
      if (i >= rows) return;
      order[i] = static_cast<int32_t>(i);
      targets[i] = static_cast<int32_t>(i + words[k] % static_cast<uint32_t>(rows - i));
    }
  }
};

MR_DEVICE inline void Exchange(int32_t* order, int64_t i, int64_t target) {
  const int32_t other = order[target];
  order[target] = order[i];
  order[i] = other;
}

// Steps come one after another, but those that no place is common to are done at once: while there are many places, few steps of a
// window meet. What is left in the end is shuffled by one thread, in shared memory.
struct ShuffleTask {
  static constexpr int kWindow = 128, kPlaces = 8192;
  struct Shared {
    int32_t targets[kWindow];
    int32_t places[kPlaces];
  };
  int64_t rows;
  const int32_t* targets;
  int32_t* order;

  template <typename Crew>
  MR_DEVICE void Window(const Crew& crew, int64_t base, int count, Shared& shared) const {
    for (int i = crew.rank(); i < count; i += crew.size()) shared.targets[i] = targets[base + i];
    crew.Sync();
    bool meets = false;
    for (int i = crew.rank(); i < count; i += crew.size()) {
      const int32_t target = shared.targets[i];
      meets = meets || (target != base + i && target < base + count);
      for (int k = 0; k < i; ++k) meets = meets || shared.targets[k] == target;
    }
    if (!crew.Any(meets)) {
      for (int i = crew.rank(); i < count; i += crew.size()) Exchange(order, base + i, shared.targets[i]);
    } else if (crew.rank() == 0) {
      for (int i = 0; i < count; ++i) Exchange(order, base + i, shared.targets[i]);
    }
    crew.Sync();
  }
  // The steps from `last` on; several targets are on their way.
  MR_DEVICE void ExchangeRest(int64_t last, int32_t* places) const {
    constexpr int kAtOnce = 16;
    MR_NO_UNROLL for (int64_t base = last; base < rows; base += kAtOnce) {
      int32_t ahead[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) ahead[u] = targets[base + u < rows ? base + u : rows - 1];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        if (base + u < rows) Exchange(places, base + u - last, ahead[u] - last);
      }
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t, Shared& shared) const {
    const int64_t last = rows > kPlaces ? rows - kPlaces : 0;
    for (int64_t base = 0; base < last; base += kWindow) {
      Window(crew, base, static_cast<int>(last - base < kWindow ? last - base : kWindow), shared);
    }
    for (int64_t i = last + crew.rank(); i < rows; i += crew.size()) shared.places[i - last] = order[i];
    crew.Sync();
    if (crew.rank() == 0) ExchangeRest(last, shared.places);
    crew.Sync();
    for (int64_t i = last + crew.rank(); i < rows; i += crew.size()) order[i] = shared.places[i - last];
  }
};

template <typename U>
struct IndexShuffleBody {
  Queue queue;
  IndexShuffle shuffle;
  const U* index;
  const void* seeds;
  const U* most;
  U* y;
  MR_DEVICE int64_t ValueOf(U number) const {
    if (sizeof(U) == 4 && shuffle.is_signed) return static_cast<int32_t>(number);
    return static_cast<int64_t>(number);
  }
  MR_DEVICE void operator()(int64_t i) const {
    const U from = index[i * shuffle.index_step], end = most[i * shuffle.most_step];
    const bool negative = shuffle.is_signed && ValueOf(from) < 0;
    if (negative || (shuffle.is_signed ? ValueOf(end) < ValueOf(from) : end < from)) {
      return ReportIndex(queue, 0, i, ValueOf(from), ValueOf(end) + 1);
    }
    IndexShuffleSeed seed;
    for (int k = 0; k < 3; ++k) seed.words[k] = static_cast<uint32_t>(IndexAt(seeds, shuffle.wide_seed, i * shuffle.seed_step + k));
    y[i] = static_cast<U>(ShuffledIndex(from, seed, end, shuffle.rounds));
  }
};

}  // namespace

void LaunchCheckAlgorithm(const Queue& queue, int input, const int32_t* algorithm) {
  ForEach(queue, 1, CheckAlgorithmBody{queue, input, algorithm});
}

void LaunchParameterDraws(const Queue& queue, const ParameterDraws& draws, const RandomSource& source, const void* parameters, void* y) {
  const int64_t n = draws.parameters * draws.samples;
  const Divider divider = DivideBy(draws.parameters, n);
  if (draws.distribution == Distribution::kGamma) {
    return ForEach(queue, n, ParameterDrawsBody<GammaDraw>{draws, divider, source, parameters, y});
  }
  ForEach(queue, n, ParameterDrawsBody<PoissonDraw>{draws, divider, source, parameters, y});
}

void LaunchBinomial(const Queue& queue, Type from, Type to, const ParameterSets& sets, int64_t samples, const RandomSource& source,
                    const void* counts, const void* probabilities, void* y) {
  const int64_t n = sets.count * samples;
  ForEach(queue, n, BinomialBody{from, to, IndexOfSets(sets), DivideBy(sets.count, n), samples, source, counts, probabilities, y});
}

void LaunchTruncated(const Queue& queue, const TruncatedDraws& draws, const RandomSource& source, void* y) {
  const SetIndex index = IndexOfSets(draws.sets);
  if (draws.type == Type::kDouble) return ForEachTask(queue, 1, TruncatedTask<double>{queue, draws, index, source, static_cast<double*>(y)});
  ForEachTask(queue, 1, TruncatedTask<float>{queue, draws, index, source, static_cast<float*>(y)});
}

int64_t ClassDrawsScratchBytes(const ClassDraws& draws) { return draws.rows * draws.classes * static_cast<int64_t>(sizeof(double)); }

void LaunchClassDraws(const Queue& queue, const ClassDraws& draws, const RandomSource& source, const void* logits, void* y, void* scratch) {
  double* const sums = static_cast<double*>(scratch);
  ForFloating(draws.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = typename Wide<T>::type;
    // The least finite number of each type; sums are relative to it where no logit is finite, and then 0.
    const W lowest = sizeof(W) == sizeof(double) ? static_cast<W>(-0x1.fffffffffffffp1023) : static_cast<W>(-0x1.fffffep127);
    ForEachTask(queue, draws.rows, WeightsTask<T>{draws.classes, lowest, static_cast<const T*>(logits), sums});
  });
  const int64_t n = draws.rows * draws.samples;
  const Divider samples = DivideBy(draws.samples, n);
  if (draws.wide) return ForEach(queue, n, ClassDrawsBody<int64_t>{samples, draws.classes, source, sums, static_cast<int64_t*>(y)});
  ForEach(queue, n, ClassDrawsBody<int32_t>{samples, draws.classes, source, sums, static_cast<int32_t*>(y)});
}

void LaunchShuffledOrder(const Queue& queue, const RandomSource& source, int64_t rows, int32_t* order, int32_t* scratch) {
  ForEach(queue, CeilDiv(rows, PhiloxStream::kWords), TargetsBody{rows, source, order, scratch});
  ForEachTask(queue, 1, ShuffleTask{rows, scratch, order});
}

void LaunchIndexShuffle(const Queue& queue, const IndexShuffle& shuffle, const void* index, const void* seeds, const void* most, void* y) {
  const auto launch = [&](auto tag) {
    using U = typename decltype(tag)::type;
    ForEach(queue, shuffle.count, IndexShuffleBody<U>{queue, shuffle, static_cast<const U*>(index), seeds, static_cast<const U*>(most), static_cast<U*>(y)});
  };
  shuffle.wide ? launch(Tag<uint64_t>()) : launch(Tag<uint32_t>());
}

}  // namespace millrace::cuda
