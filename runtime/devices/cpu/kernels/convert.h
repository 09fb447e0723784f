// Conversions between element types, and the wider type in which types without loops of their own are computed.
//
// half and bfloat16 are computed in float, 8- and 16-bit integers, uint32 and bool in int64: a loop converts a
// block, runs, and converts back. So an operation needs code for four or five types instead of thirteen.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONVERT_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONVERT_H_

#include <cstdint>

#include "millrace/types.h"

namespace millrace::cpu {

// Converts n elements; `from` and `to` may be the same address when the elements have the same size.
using ConvertFn = void (*)(const void* from, void* to, int64_t n);

// Elements of a block that is converted on the stack.
inline constexpr int64_t kBlockElements = 512;
// Room for a block of any type.
struct alignas(64) Block {
  char bytes[kBlockElements * 8];
};

// How a stored type is computed. load and store are null when the type is computed as it is stored.
struct Widening {
  DataType compute = DataType::kInvalid;
  ConvertFn load = nullptr;
  ConvertFn store = nullptr;
};

// kInvalid `compute` for types that are not numbers. uint64 is computed as it is.
Widening WideningOf(DataType dtype);

// TensorFlow's Cast from one type to another, in at most two hops over a block; a float that an integer type cannot
// hold gives what the processor gives. nullptr hops when the pair is not covered.
struct Conversion {
  ConvertFn first = nullptr;
  ConvertFn second = nullptr;  // null: `first` does it all
  bool covered() const { return first != nullptr; }
  // At most kBlockElements, of a pair that is covered.
  void RunBlock(const void* from, void* to, int64_t n) const {
    if (second == nullptr) return first(from, to, n);
    Block middle;
    first(from, middle.bytes, n);
    second(middle.bytes, to, n);
  }
};
Conversion ConversionOf(DataType from, DataType to);
// The same with Truncate: of float and double, the bits of the fraction that the narrower floating type has not are cleared first.
// TensorFlow rounds double and complex numbers to bfloat16 all the same; of double to complex64 it clears bits of the exponent, which is
// not done here.
Conversion TruncatingConversionOf(DataType from, DataType to);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONVERT_H_
