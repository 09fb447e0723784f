// Host memory that is page-locked for CUDA, whichever device of the process asked for it.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_PAGE_LOCKED_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_PAGE_LOCKED_H_

#include <cstdint>

namespace millrace::cuda {

// Any thread.
void AddPageLocked(const void* memory, int64_t bytes);
void RemovePageLocked(const void* memory);
// All of [at, at + bytes) lies in one such range.
bool IsPageLocked(const void* at, int64_t bytes);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_PAGE_LOCKED_H_
