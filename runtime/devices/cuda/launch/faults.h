// Faults of one device that stop another one.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FAULTS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FAULTS_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// Where `published`, in host memory that the device reaches, is a fault, the queue's is kElsewhere from here on; the first one stands.
void TakeOverFault(const Queue& queue, const Fault* published);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FAULTS_H_
