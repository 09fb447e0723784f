// memcpy in an order that the processor does not trip over.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COPY_BYTES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COPY_BYTES_H_

#include <cstdint>
#include <cstring>

namespace millrace::cpu {

// Loads are checked against older stores by the low 12 bits of their addresses. Where the destination lies a little after
// the source modulo 4096, as it does after every small shift of a tensor that begins a page, each load of an ascending
// copy waits for the store before it: ten times slower. Descending, none does.
inline void CopyBytes(void* out, const void* in, int64_t bytes) {
  constexpr int64_t kPage = 4096, kChunk = 256;
  const auto ahead = static_cast<int64_t>((reinterpret_cast<uintptr_t>(out) - reinterpret_cast<uintptr_t>(in)) % kPage);
  if (bytes < 2 * kChunk || ahead == 0 || ahead >= kPage / 2) {
    std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  while (bytes >= kChunk) {
    bytes -= kChunk;
    std::memcpy(static_cast<char*>(out) + bytes, static_cast<const char*>(in) + bytes, kChunk);
  }
  std::memcpy(out, in, static_cast<size_t>(bytes));
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_COPY_BYTES_H_
