#include "cpu/kernels/philox.h"

namespace millrace::cpu {
namespace {

constexpr uint32_t kMultiplierA = 0xD2511F53, kMultiplierB = 0xCD9E8D57;
constexpr uint32_t kWeylA = 0x9E3779B9, kWeylB = 0xBB67AE85;
constexpr int kRounds = 10;

// Ten rounds on `kLanes` counters side by side, in loops that vectorise.
template <int kLanes>
void Rounds(uint64_t key, uint32_t (&c)[4][kLanes]) {
  uint32_t key_a = static_cast<uint32_t>(key), key_b = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = static_cast<uint64_t>(kMultiplierA) * c[0][i];
      const uint64_t b = static_cast<uint64_t>(kMultiplierB) * c[2][i];
      c[0][i] = static_cast<uint32_t>(b >> 32) ^ c[1][i] ^ key_a;
      c[2][i] = static_cast<uint32_t>(a >> 32) ^ c[3][i] ^ key_b;
      c[1][i] = static_cast<uint32_t>(b);
      c[3][i] = static_cast<uint32_t>(a);
    }
    key_a += kWeylA;
    key_b += kWeylB;
  }
}

template <int kLanes>
void GenerateLanes(uint64_t key, uint64_t low, uint64_t high, uint32_t* words) {
  uint32_t c[4][kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t lane_low = low + i, lane_high = high + (lane_low < low ? 1 : 0);
    c[0][i] = static_cast<uint32_t>(lane_low);
    c[1][i] = static_cast<uint32_t>(lane_low >> 32);
    c[2][i] = static_cast<uint32_t>(lane_high);
    c[3][i] = static_cast<uint32_t>(lane_high >> 32);
  }
  Rounds<kLanes>(key, c);
  for (int i = 0; i < kLanes; ++i) {
    for (int word = 0; word < Philox::kWords; ++word) words[i * Philox::kWords + word] = c[word][i];
  }
}

}  // namespace

void Philox::Generate(uint32_t* words) const { GenerateLanes<kBatch>(key_, low_, high_, words); }

void Philox::GenerateOne(uint32_t* words) const { GenerateLanes<1>(key_, low_, high_, words); }

Philox Philox::FromStatelessSeed(uint64_t seed0, uint64_t seed1) {
  const Philox scrambler(JoinWords(0x3ec8f720, 0x02461e29), seed0, seed1);
  uint32_t words[kWords];
  scrambler.GenerateOne(words);
  return Philox(JoinWords(words[0], words[1]), 0, JoinWords(words[2], words[3]));
}

}  // namespace millrace::cpu
