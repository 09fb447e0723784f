#include "cuda/launch/random.h"

#include "cuda/launch/portable.h"
#include "cuda/launch/random_stream.h"

namespace millrace::cuda {
namespace {

MR_DEVICE inline void Sample(const PhiloxStream& stream, uint64_t index, uint32_t* words) { stream.After(index).GenerateOne(words); }

// Values that a sample gives, and the words of each.
template <typename T>
struct Per {
  static constexpr int kWords = sizeof(T) == 8 ? 2 : 1;
  static constexpr int kValues = 4 / kWords;
};

MR_DEVICE inline void Uniform(const uint32_t* words, float* values) {
  for (int i = 0; i < 4; ++i) values[i] = UniformFloat(words[i]);
}
MR_DEVICE inline void Uniform(const uint32_t* words, double* values) {
  for (int i = 0; i < 2; ++i) values[i] = UniformDouble(words[2 * i], words[2 * i + 1]);
}
MR_DEVICE inline void Uniform(const uint32_t* words, Half* values) {
  for (int i = 0; i < 4; ++i) values[i] = NarrowHalf(static_cast<float>(words[i] & 0x3ffu) / 1024.0f);
}
MR_DEVICE inline void Uniform(const uint32_t* words, Bfloat16* values) {
  for (int i = 0; i < 4; ++i) values[i] = NarrowBfloat16(static_cast<float>(words[i] & 0x7fu) / 128.0f);
}

// Every sample fills the elements that are its own.
template <typename T>
struct FillBody {
  bool normal;
  RandomSource source;
  T* y;
  int64_t n;
  MR_DEVICE void operator()(int64_t sample) const {
    uint32_t words[4];
    Sample(StreamOf(source), static_cast<uint64_t>(sample), words);
    T values[Per<T>::kValues];
    if (normal) {
      typename Wide<T>::type pair[2];
      for (int i = 0; i < Per<T>::kValues; i += 2) {
        NormalPair(words + i * Per<T>::kWords, pair);
        values[i] = Wide<T>::Narrow(pair[0]);
        values[i + 1] = Wide<T>::Narrow(pair[1]);
      }
    } else {
      Uniform(words, values);
    }
    for (int i = 0; i < Per<T>::kValues; ++i) {
      const int64_t at = sample * Per<T>::kValues + i;
      if (at < n) y[at] = values[i];
    }
  }
};

// Every group of values has 256 words per value of the stream to itself, so that rejection in one group does not move
// the others.
template <typename T>
struct TruncatedBody {
  RandomSource source;
  T* y;
  int64_t n;
  MR_DEVICE void operator()(int64_t group) const {
    using W = typename Wide<T>::type;
    constexpr int kValues = Per<T>::kValues, kPairWords = 2 * Per<T>::kWords;
    constexpr uint64_t kSamples = static_cast<uint64_t>(kValues) * 256 / 4;
    const PhiloxStream stream = StreamOf(source);
    const int wanted = n - group * kValues < kValues ? static_cast<int>(n - group * kValues) : kValues;
    uint32_t words[4];
    int made = 0;
    for (uint64_t pair_index = 0; made < wanted; ++pair_index) {
      const int used = static_cast<int>(pair_index * kPairWords % 4);
      if (used == 0) Sample(stream, static_cast<uint64_t>(group) * kSamples + pair_index * kPairWords / 4, words);
      W pair[2];
      NormalPair(words + used, pair);
      for (int i = 0; i < 2 && made < wanted; ++i) {
        if ((pair[i] < W(0) ? -pair[i] : pair[i]) < W(2)) y[group * kValues + made++] = Wide<T>::Narrow(pair[i]);
      }
    }
  }
};

template <typename U>
MR_DEVICE bool IsBelow(U low, U high, bool is_signed) {
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  return is_signed ? (low ^ kSign) < (high ^ kSign) : low < high;
}

template <typename U>
struct IntegersBody {
  Queue queue;
  RandomIntegers integers;
  RandomSource source;
  U* y;
  int64_t n;
  MR_DEVICE void operator()(int64_t sample) const {
    const auto bound = [](const void* at, uint64_t given) { return at != nullptr ? *static_cast<const U*>(at) : static_cast<U>(given); };
    const U low = bound(integers.low_at, integers.low), high = bound(integers.high_at, integers.high);
    if (integers.bounded && !IsBelow(low, high, integers.is_signed)) {
      if (sample == 0) Report(queue, FaultCode::kNotBelow, 0, ValueOf(low), ValueOf(high));
      return;
    }
    uint32_t words[4];
    Sample(StreamOf(source), static_cast<uint64_t>(sample), words);
    constexpr int kWords = sizeof(U) / 4, kValues = 4 / kWords;
    for (int i = 0; i < kValues && sample * kValues + i < n; ++i) {
      const U bits = kWords == 2 ? static_cast<U>(JoinWords(words[2 * i % 4], words[(2 * i + 1) % 4])) : static_cast<U>(words[i]);
      y[sample * kValues + i] = integers.bounded ? low + bits % static_cast<U>(high - low) : bits;
    }
  }
  MR_DEVICE int64_t ValueOf(U bound) const {
    if (sizeof(U) == 4 && integers.is_signed) return static_cast<int32_t>(bound);
    return static_cast<int64_t>(bound);
  }
};

struct AdvanceVariableBody {
  uint64_t* state;
  uint64_t factor;
  const uint64_t* count;
  uint64_t* former;
  MR_DEVICE void operator()(int64_t) const {
    for (int i = 0; former != nullptr && i < 3; ++i) former[i] = state[i];
    const uint64_t samples = count != nullptr ? *count * factor : factor;
    state[0] += samples;
    if (state[0] < samples) ++state[1];
  }
};

struct AdvanceBody {
  uint64_t* counter;
  uint64_t samples;
  MR_DEVICE void operator()(int64_t) const { *counter += samples; }
};

struct KeyBody {
  RandomSource source;
  uint64_t* key;
  uint64_t* counter;
  MR_DEVICE void operator()(int64_t) const {
    const PhiloxStream stream = StreamOf(source);
    *key = stream.key();
    counter[0] = stream.counter_low();
    counter[1] = stream.counter_high();
  }
};

}  // namespace

void LaunchRandom(const Queue& queue, RandomKind kind, Type type, const RandomSource& source, void* y, int64_t n) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t samples = CeilDiv(n, Per<T>::kValues);
    if (kind == RandomKind::kTruncatedNormal) return ForEach(queue, samples, TruncatedBody<T>{source, static_cast<T*>(y), n});
    ForEach(queue, samples, FillBody<T>{kind == RandomKind::kNormal, source, static_cast<T*>(y), n});
  });
}

void LaunchRandomIntegers(const Queue& queue, const RandomIntegers& integers, const RandomSource& source, void* y, int64_t n) {
  if (integers.wide) return ForEach(queue, CeilDiv(n, 2), IntegersBody<uint64_t>{queue, integers, source, static_cast<uint64_t*>(y), n});
  ForEach(queue, CeilDiv(n, 4), IntegersBody<uint32_t>{queue, integers, source, static_cast<uint32_t*>(y), n});
}

void LaunchAdvanceVariable(const Queue& queue, uint64_t* state, uint64_t factor, const uint64_t* count, uint64_t* former) {
  ForEach(queue, 1, AdvanceVariableBody{state, factor, count, former});
}

void LaunchAdvance(const Queue& queue, uint64_t* counter, uint64_t samples) {
  ForEach(queue, 1, AdvanceBody{counter, samples});
}

void LaunchKeyOfSeed(const Queue& queue, const RandomSource& source, uint64_t* key, uint64_t* counter) {
  ForEach(queue, 1, KeyBody{source, key, counter});
}

}  // namespace millrace::cuda
