#include "graph/murmur_hash.h"

#include <cstring>

namespace millrace {
namespace {

constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;

uint64_t Fold(uint64_t word) { return word ^ (word >> 47); }

}  // namespace

uint64_t MurmurHash(uint64_t seed, std::string_view bytes) {
  uint64_t hash = seed ^ (bytes.size() * kFactor);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = (hash ^ Fold(word * kFactor) * kFactor) * kFactor;
  }
  if (!bytes.empty()) {
    uint64_t rest = 0;
    std::memcpy(&rest, bytes.data(), bytes.size());
    hash = (hash ^ rest) * kFactor;
  }
  return Fold(Fold(hash) * kFactor);
}

}  // namespace millrace
