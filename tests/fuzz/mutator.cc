#include "mutator.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace millrace {
namespace {

// Sizes and counts that break parsers.
constexpr uint64_t kNastyNumbers[] = {0,          1,          127,        128,         255,        256,
                                      0x7FFF,     0xFFFF,     0x7FFFFFFF, 0x80000000,  0xFFFFFFFF, 1ull << 32,
                                      1ull << 60, 1ull << 62, 1ull << 63, ~uint64_t{0}};

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

}  // namespace

void Mutator::Edit(std::string& bytes) {
  const size_t at = Below(bytes.size() + 1);
  const size_t length = 1 + Below(std::min<size_t>(64, bytes.size() - at + 1));
  const uint64_t number = kNastyNumbers[Below(std::size(kNastyNumbers))];
  switch (Below(10)) {
    case 0:  // flip a bit
      if (at < bytes.size()) bytes[at] ^= static_cast<char>(1 << Below(8));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(Below(256));
      break;
    case 2: bytes.erase(at, length); break;
    case 3: bytes.insert(at, bytes.substr(Below(bytes.size() + 1), length)); break;
    case 4: {  // take from another input
      const std::string& other = corpus_[Below(corpus_.size())];
      bytes.insert(at, other.substr(Below(other.size() + 1), 1 + Below(256)));
      break;
    }
    case 5: bytes.insert(at, Varint(number)); break;
    case 6: {  // a nasty number over what is there, as a varint or as text
      const std::string text = Below(2) == 0 ? Varint(number) : std::to_string(static_cast<int64_t>(number));
      bytes.replace(at, std::min(text.size(), bytes.size() - at), text);
      break;
    }
    case 7: {  // a little-endian number over what is there
      const size_t size = std::min<size_t>(size_t{1} << Below(4), bytes.size() - at);
      std::memcpy(bytes.data() + at, &number, size);
      break;
    }
    case 8: bytes.resize(at); break;
    default: bytes.insert(at, length, static_cast<char>(Below(256))); break;
  }
}

std::string Mutator::Next() {
  std::string bytes = corpus_[Below(corpus_.size())];
  do {
    Edit(bytes);
  } while (Below(2) == 0);
  return bytes;
}

FuzzCounts Fuzz(const std::vector<std::string>& corpus, uint64_t seed, int64_t inputs, double seconds,
             const std::function<bool(const std::string&)>& target) {
  if (const char* text = std::getenv("MILLRACE_FUZZ_SECONDS")) {
    seconds = std::atof(text);
    inputs = INT64_MAX;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  Mutator mutator(corpus, seed);
  FuzzCounts counts;
  for (; counts.inputs < inputs && std::chrono::steady_clock::now() < end; ++counts.inputs) {
    counts.accepted += target(mutator.Next());
  }
  return counts;
}

}  // namespace millrace
