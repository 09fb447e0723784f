// A block of channels in one vector register, by GCC's vector extension. Values of 16 bits and less are computed as
// float. Vectors are passed by reference: passing them by value depends on the instruction set.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LANES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LANES_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <Eigen/Core>

#include "cpu/kernels/plain_floats.h"

namespace millrace::cpu {

// What conversions of T vectorise as.
template <typename T>
struct PlainOf {
  using Type = T;
};
template <>
struct PlainOf<Eigen::half> {
  using Type = PlainHalf;
};
template <>
struct PlainOf<Eigen::bfloat16> {
  using Type = PlainBfloat16;
};

template <typename T>
struct Lanes {
  // Small integers are floats too; larger ones are what they are.
  using Value = std::conditional_t<sizeof(T) >= 4, T, float>;
  using Integer = std::conditional_t<sizeof(Value) == 8, int64_t, int32_t>;
  static constexpr int kCount = 64 / sizeof(Value);
  typedef Value Vector __attribute__((vector_size(64)));
  typedef Integer Index __attribute__((vector_size(64)));
  using Plain = typename PlainOf<T>::Type;

  // The first `count` lanes from memory, the others 0.
  static void Load(const T* from, int count, Vector& vector) {
    if (count == kCount) {
      if constexpr (std::is_same_v<T, Value>) {
        std::memcpy(&vector, from, sizeof(vector));
      } else {
        Value values[kCount];
        for (int i = 0; i < kCount; ++i) values[i] = static_cast<Value>(reinterpret_cast<const Plain*>(from)[i]);
        std::memcpy(&vector, values, sizeof(vector));
      }
      return;
    }
    vector = Vector{};
    for (int i = 0; i < count; ++i) vector[i] = static_cast<Value>(from[i]);
  }
  static void Store(const Vector& vector, int count, T* to) {
    if (count == kCount) {
      if constexpr (std::is_same_v<T, Value>) {
        std::memcpy(to, &vector, sizeof(vector));
      } else {
        Value values[kCount];
        std::memcpy(values, &vector, sizeof(vector));
        for (int i = 0; i < kCount; ++i) reinterpret_cast<Plain*>(to)[i] = static_cast<Plain>(values[i]);
      }
      return;
    }
    for (int i = 0; i < count; ++i) to[i] = static_cast<T>(vector[i]);
  }
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_LANES_H_
