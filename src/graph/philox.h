// Philox 4x32-10 (Salmon et al., SC 2011), the counter-based generator of TensorFlow's random ops, and the way they turn its words
// into numbers. Sample i of a stream is four words that depend on the key and on counter + i alone. Included by kernels of the CPU
// and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_PHILOX_H_
#define MILLRACE_SRC_GRAPH_PHILOX_H_

#include <cstdint>

#include "graph/normal_pair.h"

namespace millrace {

// Samples that ops of TensorFlow set aside for each output element, whether it needs them or not.
inline constexpr uint64_t kSamplesPerOutput = 256;

MR_ANYWHERE inline uint64_t JoinWords(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

// Ten rounds on `kLanes` counters side by side, in loops that vectorise.
template <int kLanes>
MR_ANYWHERE inline void PhiloxRounds(uint64_t key, uint32_t (&c)[4][kLanes]) {
  constexpr uint32_t kMultiplierA = 0xD2511F53, kMultiplierB = 0xCD9E8D57, kWeylA = 0x9E3779B9, kWeylB = 0xBB67AE85;
  constexpr int kRounds = 10;
  uint32_t key_a = static_cast<uint32_t>(key), key_b = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = static_cast<uint64_t>(kMultiplierA) * c[0][i], b = static_cast<uint64_t>(kMultiplierB) * c[2][i];
      c[0][i] = static_cast<uint32_t>(b >> 32) ^ c[1][i] ^ key_a;
      c[2][i] = static_cast<uint32_t>(a >> 32) ^ c[3][i] ^ key_b;
      c[1][i] = static_cast<uint32_t>(b);
      c[3][i] = static_cast<uint32_t>(a);
    }
    key_a += kWeylA;
    key_b += kWeylB;
  }
}

class PhiloxStream {
 public:
  static constexpr int kWords = 4;  // per sample

  PhiloxStream() = default;
  MR_ANYWHERE PhiloxStream(uint64_t key, uint64_t counter_low, uint64_t counter_high)
      : key_{key}, low_{counter_low}, high_{counter_high} {}
  // The stream of a stateless op with a seed of two integers: they are scrambled into key and counter.
  MR_ANYWHERE static PhiloxStream FromStatelessSeed(uint64_t seed0, uint64_t seed1) {
    uint32_t words[kWords];
    PhiloxStream(JoinWords(0x3ec8f720, 0x02461e29), seed0, seed1).GenerateOne(words);
    return {JoinWords(words[0], words[1]), 0, JoinWords(words[2], words[3])};
  }

  MR_ANYWHERE uint64_t key() const { return key_; }
  MR_ANYWHERE uint64_t counter_low() const { return low_; }
  MR_ANYWHERE uint64_t counter_high() const { return high_; }

  MR_ANYWHERE void Skip(uint64_t samples) {
    low_ += samples;
    if (low_ < samples) ++high_;
  }
  MR_ANYWHERE PhiloxStream After(uint64_t samples) const {
    PhiloxStream later = *this;
    later.Skip(samples);
    return later;
  }
  // Samples [0, kLanes), word after word.
  template <int kLanes>
  MR_ANYWHERE void GenerateLanes(uint32_t* words) const {
    uint32_t c[kWords][kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t low = low_ + i, high = high_ + (low < low_ ? 1 : 0);
      c[0][i] = static_cast<uint32_t>(low);
      c[1][i] = static_cast<uint32_t>(low >> 32);
      c[2][i] = static_cast<uint32_t>(high);
      c[3][i] = static_cast<uint32_t>(high >> 32);
    }
    PhiloxRounds<kLanes>(key_, c);
    for (int i = 0; i < kLanes; ++i) {
      for (int word = 0; word < kWords; ++word) words[i * kWords + word] = c[word][i];
    }
  }
  // Sample 0.
  MR_ANYWHERE void GenerateOne(uint32_t* words) const { GenerateLanes<1>(words); }

 private:
  uint64_t key_ = 0;
  uint64_t low_ = 0;
  uint64_t high_ = 0;
};

// [0, 1) from the low bits of a word: a mantissa under the exponent of 1, less 1.
MR_ANYWHERE inline float UniformFloat(uint32_t word) {
  const uint32_t bits = (word & 0x7fffffu) | 0x3f800000u;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value - 1.0f;
}
MR_ANYWHERE inline double UniformDouble(uint32_t high, uint32_t low) {
  return DoubleOf(JoinWords(low, high & 0xfffffu) | uint64_t{1023} << 52) - 1.0;
}

// Two normal numbers from two words (four for double).
MR_ANYWHERE inline void NormalPair(const uint32_t* words, float* pair) {
  NormalPairOf(UniformFloat(words[0]), UniformFloat(words[1]), pair);
}
MR_ANYWHERE inline void NormalPair(const uint32_t* words, double* pair) {
  NormalPairOf(UniformDouble(words[0], words[1]), UniformDouble(words[2], words[3]), pair);
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_PHILOX_H_
