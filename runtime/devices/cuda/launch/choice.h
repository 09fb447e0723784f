// Elements of rows that are chosen by their values, and their indices. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHOICE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHOICE_H_

#include "cuda/launch/portable.h"

namespace millrace::cuda {

// An element of a row that may be chosen; index -1 is none.
template <typename W>
struct Choice {
  W value;
  int64_t index;
};

// Whether a comes before b, by value and then by index.
template <typename W>
MR_DEVICE bool Before(const Choice<W>& a, const Choice<W>& b, bool smallest, bool nan_first = false) {
  if (b.index < 0) return a.index >= 0;
  if (a.index < 0) return false;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return nan_first ? a_nan : b_nan;
  if (!a_nan && a.value != b.value) return smallest ? a.value < b.value : a.value > b.value;
  return a.index < b.index;
}

MR_DEVICE inline void PutIndex(void* indices, bool wide, int64_t at, int64_t index) {
  if (wide) {
    static_cast<int64_t*>(indices)[at] = index;
  } else {
    static_cast<int32_t*>(indices)[at] = static_cast<int32_t>(index);
  }
}

// Numbers and truth values.
template <typename Fn>
void ForNumber(Type type, const Fn& fn) {
  type == Type::kBool ? fn(Tag<uint8_t>()) : ForNumeric(type, fn);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHOICE_H_
