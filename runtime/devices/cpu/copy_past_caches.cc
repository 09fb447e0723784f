#include "cpu/copy_past_caches.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace millrace::cpu {

void CopyPastCaches(void* destination, const void* source, int64_t bytes) {
  if (bytes <= 0) return;
#ifdef __SSE2__
  constexpr int64_t kLine = 64;
  constexpr int kParts = 4;
  auto* const to = static_cast<char*>(destination);
  const auto* const from = static_cast<const char*>(source);
  const auto beyond_line = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLine);
  int64_t at = std::min(bytes, (kLine - beyond_line) % kLine);
  std::memcpy(to, from, at);
  for (; at + kLine <= bytes; at += kLine) {
    __m128i line[kParts];
    for (int k = 0; k < kParts; ++k) line[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + k);
    for (int k = 0; k < kParts; ++k) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + k, line[k]);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // such stores are not ordered by the counters that tell others of the copy
#else
  std::memcpy(destination, source, bytes);
#endif
}

}  // namespace millrace::cpu
