// Numbers that graphs count with: divisions, ranges, shapes as tensors, tests of floating numbers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_INTEGER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_INTEGER_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

enum class DivisionOp { kTruncate, kFloor, kRemainder, kFloorRemainder };
// All numeric types. Dividing an integer by zero is a fault.
void LaunchDivision(const Queue& queue, DivisionOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                    void* y);

enum class BitOp { kAnd, kOr, kXor, kInvert };
// Integers of `bytes` bytes.
void LaunchBits(const Queue& queue, BitOp op, int bytes, const Broadcast& shape, const void* a, const void* b, void* y);

enum class FloatTest { kIsNan, kIsInf, kIsFinite };
void LaunchFloatTest(const Queue& queue, FloatTest test, Type type, const void* x, bool* y, int64_t n);

// y[i] = start + i * delta in the type's own arithmetic; start and delta are in host memory.
void LaunchRange(const Queue& queue, Type type, const void* start, const void* delta, void* y, int64_t n);

// `count` numbers, at most kMaxInts, as int64 or int32.
inline constexpr int kMaxInts = 16;
void LaunchInts(const Queue& queue, bool wide, const int64_t* values, int count, void* y);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_INTEGER_H_
