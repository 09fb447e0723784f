// Updates of variables by the optimizers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_

#include "cuda/launch/scatter.h"

namespace millrace::cuda {

// Scalars in the order of TensorFlow's ops, the gradient left out.
enum class UpdateRule {
  kAssign, kAssignAdd, kAssignSub,  // none; what would be the gradient is taken, added or subtracted
  kMovingAverage,  // rate; towards what would be the gradient
  kGradientDescent,  // alpha
  kMomentum, kNesterovMomentum, kKerasMomentum, kKerasNesterovMomentum,  // lr, momentum
  kAdam, kNesterovAdam, kAmsgradAdam,  // beta1_power, beta2_power, lr, beta1, beta2, epsilon
  kAdaMax,  // beta1_power, lr, beta1, beta2, epsilon
  kAdagrad, kFrozenAdagrad,  // lr
  kAdagradV2, kFrozenAdagradV2,  // lr, epsilon
  kAdagradDA,  // lr, l1, l2, step
  kProximalGradientDescent, kProximalAdagrad,  // lr, l1, l2
  kAdadelta,  // lr, rho, epsilon
  kFtrl, kScaledFtrl,  // lr, l1, l2, lr_power
  kFtrlV2, kScaledFtrlV2,  // lr, l1, l2, l2_shrinkage, lr_power
  kRmsProp, kCenteredRmsProp,  // lr, rho, momentum, epsilon
  kAddSign, kPowerSign,  // lr, alpha or logbase, sign_decay, beta
};

inline constexpr int kMaxSlots = 4, kMaxScalars = 6;
struct UpdateArguments {
  void* slots[kMaxSlots] = {};            // the variable and its slots
  const void* scalars[kMaxScalars] = {};  // in memory that the kernels reach; nullptr: `values` has it
  double values[kMaxScalars] = {};
  Type scalar_types[kMaxScalars] = {};  // floating, int32 or int64
  const void* gradient = nullptr;
  int64_t elements = 0;
};
void LaunchUpdate(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments& arguments);

// As many updates in as few launches as may be, each with the bits that LaunchUpdate gives; none reads or writes what another writes.
inline constexpr int kMaxUpdatesTogether = 32;
void LaunchUpdates(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments* updates, int count);

// Of the rows that the indices name, `inner` elements each, for equal rows in the order of the indices. Scratch as for
// LaunchScatterRows.
void LaunchSparseUpdate(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments& arguments,
                        const RowIndex& index, int64_t rows, int64_t inner, const void* indices, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_UPDATE_H_
