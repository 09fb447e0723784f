// Special functions.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// Of one number: the logarithm of the gamma function's magnitude and its derivative; the inverses of erf and of the normal distribution
// function; Bessel functions, of which an e says that they are scaled; integrals.
enum class SpecialOp {
  kLgamma, kDigamma, kErfinv, kNdtri, kBesselI0, kBesselI0e, kBesselI1, kBesselI1e, kBesselK0, kBesselK0e, kBesselK1, kBesselK1e,
  kBesselJ0, kBesselJ1, kBesselY0, kBesselY1, kDawsn, kExpint, kFresnelCos, kFresnelSin, kSpence
};
// y = f(x), n floating numbers, computed in double.
void LaunchSpecial(const Queue& queue, SpecialOp op, Type type, const void* x, void* y, int64_t n);

enum class SpecialPairOp { kIgamma, kIgammac, kIgammaGradA, kRandomGammaGrad, kZeta, kPolygamma };
// y = f(a, b), computed in double.
void LaunchSpecialPairs(const Queue& queue, SpecialPairOp op, Type type, const Broadcast& shape, const void* a, const void* b, void* y);

// y[i] = the regularized incomplete beta function of a, b and x, n of float or double; a step of 0: one is for all.
struct BetaSteps {
  int64_t a = 1, b = 1, x = 1;
};
void LaunchIncompleteBeta(const Queue& queue, Type type, const BetaSteps& steps, const void* a, const void* b, const void* x, void* y, int64_t n);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_H_
