#ifndef MILLRACE_RUNTIME_DEVICES_CPU_COPY_PAST_CACHES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_COPY_PAST_CACHES_H_

#include <cstdint>

namespace millrace::cpu {

// memcpy that leaves the caches to the kernels that run meanwhile: what is swapped is not needed soon. With ordinary stores where
// the processor has no others. What is written is seen by whoever is told of it afterwards.
void CopyPastCaches(void* destination, const void* source, int64_t bytes);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_COPY_PAST_CACHES_H_
