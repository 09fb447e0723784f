// Numbers of the types that cuBLASLt and cuDNN are asked for.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_NUMBERS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_NUMBERS_H_

#include <cstdint>

#include "cuda/launch/scalar.h"

namespace millrace::cuda::fake {

enum class Number { kFloat, kDouble, kHalf, kBfloat16 };

inline int64_t SizeOf(Number type) { return type == Number::kDouble ? 8 : type == Number::kFloat ? 4 : 2; }
inline double Get(Number type, const void* data, int64_t at) {
  switch (type) {
    case Number::kDouble: return static_cast<const double*>(data)[at];
    case Number::kHalf: return static_cast<double>(Widen(static_cast<const Half*>(data)[at]));
    case Number::kBfloat16: return static_cast<double>(Widen(static_cast<const Bfloat16*>(data)[at]));
    case Number::kFloat: break;
  }
  return static_cast<double>(static_cast<const float*>(data)[at]);
}
inline void Set(Number type, void* data, int64_t at, double value) {
  switch (type) {
    case Number::kFloat: static_cast<float*>(data)[at] = static_cast<float>(value); return;
    case Number::kDouble: static_cast<double*>(data)[at] = value; return;
    case Number::kHalf: static_cast<Half*>(data)[at] = NarrowHalf(static_cast<float>(value)); return;
    case Number::kBfloat16: static_cast<Bfloat16*>(data)[at] = NarrowBfloat16(static_cast<float>(value)); return;
  }
}

// Scratch that was asked for is there, and begins where libraries want it.
inline bool IsScratch(const void* scratch, size_t given, size_t wanted) {
  return wanted == 0 || (scratch != nullptr && given >= wanted && reinterpret_cast<uintptr_t>(scratch) % 256 == 0);
}
// It is nobody else's: all of it is overwritten.
inline void SpoilScratch(void* scratch, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(scratch)[i] = 0xa5;
}

}  // namespace millrace::cuda::fake

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_NUMBERS_H_
