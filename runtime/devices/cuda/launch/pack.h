// Elements that are moved together. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACK_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACK_H_

#include "cuda/launch/portable.h"

namespace millrace::cuda {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T of[kCount];
};
template <int kCount, typename T>
MR_DEVICE Pack<T, kCount> Load(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <int kCount, typename T>
MR_DEVICE void Store(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACK_H_
