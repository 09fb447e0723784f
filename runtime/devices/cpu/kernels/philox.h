// Philox 4x32-10 (Salmon et al., SC 2011), the counter-based generator of TensorFlow's random ops, and the way they
// turn its words into numbers. Sample i of a stream is four words that depend on the key and on counter + i alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_

#include <bit>
#include <cstdint>

#include <Eigen/Core>

#include "graph/normal_pair.h"

namespace millrace::cpu {

class Philox {
 public:
  static constexpr int kWords = 4;           // per sample
  static constexpr int kBatch = 16;          // samples that Generate makes at once
  static constexpr int kBatchWords = kBatch * kWords;

  Philox() = default;
  Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
      : key_{key}, low_{counter_low}, high_{counter_high} {}
  // The stream of an op with attributes seed and seed2.
  static Philox FromSeeds(uint64_t seed, uint64_t seed2) { return Philox(seed, 0, seed2); }
  // The stream of a stateless op with a seed of two integers: they are scrambled into key and counter.
  static Philox FromStatelessSeed(uint64_t seed0, uint64_t seed1);

  uint64_t key() const { return key_; }
  uint64_t counter_low() const { return low_; }
  uint64_t counter_high() const { return high_; }

  void Skip(uint64_t samples) {
    low_ += samples;
    if (low_ < samples) ++high_;
  }
  Philox After(uint64_t samples) const {
    Philox later = *this;
    later.Skip(samples);
    return later;
  }
  // Samples [0, kBatch), word after word.
  void Generate(uint32_t* words) const;
  // Sample 0.
  void GenerateOne(uint32_t* words) const;

 private:
  uint64_t key_ = 0;
  uint64_t low_ = 0;
  uint64_t high_ = 0;
};

// Words one after another, for algorithms that take as many as they need.
class PhiloxWords {
 public:
  explicit PhiloxWords(const Philox& philox) : philox_(philox) {}
  uint32_t operator()() {
    if (used_ == Philox::kWords) {
      philox_.GenerateOne(words_);
      philox_.Skip(1);
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  Philox philox_;
  uint32_t words_[Philox::kWords];
  int used_ = Philox::kWords;
};

// [0, 1) from the low bits of a word: a mantissa under the exponent of 1, less 1.
inline float UniformFloat(uint32_t word) {
  return std::bit_cast<float>((word & 0x7fffffu) | 0x3f800000u) - 1.0f;
}
inline double UniformDouble(uint32_t high, uint32_t low) {
  const uint64_t mantissa = (static_cast<uint64_t>(high & 0xfffffu) << 32) | low;
  return std::bit_cast<double>(mantissa | (uint64_t{1023} << 52)) - 1.0;
}
inline Eigen::half UniformHalf(uint32_t word) {
  return Eigen::half(static_cast<float>(word & 0x3ffu) / 1024.0f);
}
inline Eigen::bfloat16 UniformBfloat16(uint32_t word) {
  return Eigen::bfloat16(static_cast<float>(word & 0x7fu) / 128.0f);
}
inline uint64_t JoinWords(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

// Two normal numbers from two words (four for double).
inline void NormalPair(const uint32_t* words, float* pair) {
  NormalPairOf(UniformFloat(words[0]), UniformFloat(words[1]), pair);
}
inline void NormalPair(const uint32_t* words, double* pair) {
  NormalPairOf(UniformDouble(words[0], words[1]), UniformDouble(words[2], words[3]), pair);
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_
