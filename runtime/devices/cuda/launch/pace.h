// Who sees to it that not too much is launched ahead of the device: asked before every launch of a kernel that a thread runs.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACE_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

class LaunchPace {
 public:
  virtual ~LaunchPace() = default;
  // False where nothing more may be given to the stream: the device does not answer.
  virtual bool MayLaunch(void* stream) = 0;
};

// Of this thread; null: nobody asks.
inline thread_local LaunchPace* launch_pace = nullptr;

inline bool MayLaunch(const Queue& queue) { return launch_pace == nullptr || launch_pace->MayLaunch(queue.stream); }

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PACE_H_
