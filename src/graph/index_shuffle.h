// A permutation of [0, most] that needs no memory: a block cipher (Simon, Beaulieu et al., 2013, with few rounds) over the next power
// of four, walked along until it comes back inside. Included by kernels of the CPU and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_INDEX_SHUFFLE_H_
#define MILLRACE_SRC_GRAPH_INDEX_SHUFFLE_H_

#include <cstdint>

#include "graph/anywhere.h"

namespace millrace {

struct IndexShuffleSeed {
  uint32_t words[3];
};

// Bits of numbers up to `most`, which is not 0: the logarithm of what is nearest to it in double, rounded as a double is, and then up.
MR_ANYWHERE inline int BitsUpTo(uint64_t most) {
  // From 2^32 on the logarithms of the next 11 doubles behind a power of two round to that power's.
  constexpr int kWideExponent = 32;
  constexpr uint64_t kRoundedAway = 11;
  const uint64_t bits = BitsOf(static_cast<double>(most)), fraction = bits & ((uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  return exponent + (fraction > (exponent >= kWideExponent ? kRoundedAway : 0) ? 1 : 0);
}

// Words of `bits` bits. Keys are made as they are used: each follows from the three before it.
class SimonCipher {
 public:
  MR_ANYWHERE SimonCipher(const IndexShuffleSeed& seed, int bits, int64_t rounds)
      : seed_(seed), bits_(bits), rounds_(rounds), mask_((uint64_t{1} << bits) - 1) {}

  MR_ANYWHERE uint64_t Encrypt(uint64_t value) const {
    uint64_t left = (value >> bits_) & mask_, right = value & mask_, noise = 0x7369f885192c0ef5 & mask_;
    uint64_t last[3] = {seed_.words[0] & mask_, seed_.words[1] & mask_, seed_.words[2] & mask_};
    for (int64_t i = 0; i < rounds_; ++i) {
      const uint64_t key = last[0], next = (0xfffffffc & mask_) ^ (noise & 1) ^ key ^ Left(last[2], bits_ - 3) ^ Left(last[2], bits_ - 4);
      const uint64_t mixed = left ^ Mixed(right) ^ key;
      left = right;
      right = mixed;
      last[0] = last[1];
      last[1] = last[2];
      last[2] = next;
      noise >>= 1;
    }
    return left << bits_ | right;
  }

 private:
  MR_ANYWHERE uint64_t Left(uint64_t word, int by) const { return (word << by | word >> (bits_ - by)) & mask_; }
  MR_ANYWHERE uint64_t Mixed(uint64_t word) const { return (Left(word, 1) & Left(word, 8)) ^ Left(word, 2); }

  IndexShuffleSeed seed_;
  int bits_;
  int64_t rounds_;
  uint64_t mask_;
};

// Where `index`, at most `most`, goes. An even number of rounds.
MR_ANYWHERE inline uint64_t ShuffledIndex(uint64_t index, const IndexShuffleSeed& seed, uint64_t most, int64_t rounds) {
  if (most == 0) return 0;
  constexpr int kLeastBits = 16;  // of a block: two words
  const int bits = BitsUpTo(most), even = bits + bits % 2;
  const SimonCipher cipher(seed, (even < kLeastBits ? kLeastBits : even) / 2, rounds);
  do {
    index = cipher.Encrypt(index);
  } while (index > most);
  return index;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_INDEX_SHUFFLE_H_
