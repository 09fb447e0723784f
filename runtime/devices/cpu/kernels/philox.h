// The streams of graph/philox.h on the CPU: many samples at once, words one after another, halves.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_

#include <cstdint>

#include <Eigen/Core>

#include "graph/philox.h"

namespace millrace::cpu {

class Philox : public PhiloxStream {
 public:
  static constexpr int kBatch = 16;  // samples that Generate makes at once
  static constexpr int kBatchWords = kBatch * kWords;

  using PhiloxStream::PhiloxStream;
  Philox(const PhiloxStream& stream) : PhiloxStream(stream) {}
  // The stream of an op with attributes seed and seed2.
  static Philox FromSeeds(uint64_t seed, uint64_t seed2) { return Philox(seed, 0, seed2); }

  // Samples [0, kBatch), word after word.
  void Generate(uint32_t* words) const;
};

// Words one after another, for algorithms that take as many as they need.
class PhiloxWords {
 public:
  explicit PhiloxWords(const PhiloxStream& philox) : philox_(philox) {}
  uint32_t operator()() {
    if (used_ == Philox::kWords) {
      philox_.GenerateOne(words_);
      philox_.Skip(1);
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  PhiloxStream philox_;
  uint32_t words_[Philox::kWords];
  int used_ = Philox::kWords;
};

inline Eigen::half UniformHalf(uint32_t word) {
  return Eigen::half(static_cast<float>(word & 0x3ffu) / 1024.0f);
}
inline Eigen::bfloat16 UniformBfloat16(uint32_t word) {
  return Eigen::bfloat16(static_cast<float>(word & 0x7fu) / 128.0f);
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PHILOX_H_
