// Updates of variables by the optimizers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

enum class UpdateRule {
  kGradientDescent,  // alpha
  kMomentum, kNesterovMomentum, kKerasMomentum, kKerasNesterovMomentum,  // lr, momentum
  kAdam, kNesterovAdam,  // beta1_power, beta2_power, lr, beta1, beta2, epsilon
  kAdagrad,  // lr
  kRmsProp,  // lr, rho, momentum, epsilon
};

inline constexpr int kMaxSlots = 3, kMaxScalars = 6;
struct UpdateArguments {
  void* slots[kMaxSlots] = {};              // the variable and its slots
  const void* scalars[kMaxScalars] = {};    // of the variable's type, on the device
  const void* gradient = nullptr;
  int64_t elements = 0;
};
void LaunchUpdate(const Queue& queue, UpdateRule rule, Type type, const UpdateArguments& arguments);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_
