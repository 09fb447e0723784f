// The rules, each as TensorFlow computes it, in float32 or float64; half precision is widened.
#include "cuda/launch/update.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

template <typename T>
struct UpdateBody {
  using W = typename Wide<T>::type;
  UpdateRule rule;
  T* slots[kMaxSlots];
  const T* scalars[kMaxScalars];
  const T* gradient;

  MR_DEVICE W Scalar(int i) const { return Widen(*scalars[i]); }
  MR_DEVICE W Get(int slot, int64_t i) const { return Widen(slots[slot][i]); }
  MR_DEVICE void Put(int slot, int64_t i, W value) const { slots[slot][i] = Wide<T>::Narrow(value); }

  MR_DEVICE void Momentum(int64_t i, W g) const {
    const bool nesterov = rule == UpdateRule::kNesterovMomentum || rule == UpdateRule::kKerasNesterovMomentum;
    const W lr = Scalar(0), momentum = Scalar(1);
    if (rule == UpdateRule::kMomentum || rule == UpdateRule::kNesterovMomentum) {
      const W accum = Get(1, i) * momentum + g;
      Put(1, i, accum);
      Put(0, i, Get(0, i) - (nesterov ? g * lr + accum * momentum * lr : accum * lr));
    } else {
      const W accum = Get(1, i) * momentum - g * lr;
      Put(1, i, accum);
      Put(0, i, Get(0, i) + (nesterov ? accum * momentum - g * lr : accum));
    }
  }
  MR_DEVICE void Adam(int64_t i, W g) const {
    const W beta1 = Scalar(3), beta2 = Scalar(4), epsilon = Scalar(5);
    const W alpha = Scalar(2) * sqrt(W(1) - Scalar(1)) / (W(1) - Scalar(0));
    const W m = Get(1, i) + (g - Get(1, i)) * (W(1) - beta1);
    const W v = Get(2, i) + (g * g - Get(2, i)) * (W(1) - beta2);
    Put(1, i, m);
    Put(2, i, v);
    const W step = rule == UpdateRule::kNesterovAdam ? (g * (W(1) - beta1) + beta1 * m) * alpha : m * alpha;
    Put(0, i, Get(0, i) - step / (sqrt(v) + epsilon));
  }
  MR_DEVICE void operator()(int64_t i) const {
    const W g = Widen(gradient[i]);
    switch (rule) {
      case UpdateRule::kGradientDescent: return Put(0, i, Get(0, i) - Scalar(0) * g);
      case UpdateRule::kAdam:
      case UpdateRule::kNesterovAdam: return Adam(i, g);
      case UpdateRule::kAdagrad: {
        const W accum = Get(1, i) + g * g;
        Put(1, i, accum);
        return Put(0, i, Get(0, i) - g * Scalar(0) * (W(1) / sqrt(accum)));
      }
      case UpdateRule::kRmsProp: {
        const W ms = Get(1, i) + (g * g - Get(1, i)) * (W(1) - Scalar(1));
        const W mom = Get(2, i) * Scalar(2) + g * Scalar(0) / sqrt(ms + Scalar(3));
        Put(1, i, ms);
        Put(2, i, mom);
        return Put(0, i, Get(0, i) - mom);
      }
      default: return Momentum(i, g);
    }
  }
};

}  // namespace

void LaunchUpdate(const Queue& queue, UpdateRule rule, Type type, const UpdateArguments& arguments) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UpdateBody<T> body = {};
    body.rule = rule;
    for (int i = 0; i < kMaxSlots; ++i) body.slots[i] = static_cast<T*>(arguments.slots[i]);
    for (int i = 0; i < kMaxScalars; ++i) body.scalars[i] = static_cast<const T*>(arguments.scalars[i]);
    body.gradient = static_cast<const T*>(arguments.gradient);
    ForEach(queue, arguments.elements, body);
  });
}

}  // namespace millrace::cuda
