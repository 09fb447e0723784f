#include "graph/sip_hash.h"

#include <bit>
#include <cstring>

namespace millrace {
namespace {

struct State {
  uint64_t a, b, c, d;
  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }
  void Take(uint64_t word) {
    d ^= word;
    Rounds(2);
    a ^= word;
  }
};

}  // namespace

uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view bytes) {
  // The constants spell "somepseudorandomlygeneratedbytes".
  State state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    state.Take(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = at; i < bytes.size(); ++i) last |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * (i - at));
  state.Take(last);
  state.c ^= 0xff;
  state.Rounds(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace millrace
