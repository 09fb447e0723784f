// Arithmetic of two numbers as TensorFlow has it, where that of C++ is not defined or not the same.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARITHMETIC_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARITHMETIC_H_

#include <type_traits>

namespace millrace::cpu {

// Integers wrap around, narrow ones in the int that they are computed in.
template <typename T, typename Fn>
T Wrapping(T a, T b, Fn fn) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<decltype(a + b)>;
    return static_cast<T>(fn(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return fn(a, b);
  }
}

// Integers are divided towards zero. The kernel has refused zero; -1 is apart because the least integer has no opposite.
template <typename T>
T Quotient(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    if (b == -1) return Wrapping(T{0}, a, [](auto x, auto y) { return x - y; });
  }
  return static_cast<T>(a / b);
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ARITHMETIC_H_
