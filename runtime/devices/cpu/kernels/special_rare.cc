// Rarer special functions. Bessel functions and the incomplete beta function are Eigen's; integrals are graph/special_integrals.h's.
#include <unsupported/Eigen/SpecialFunctions>

#include "cpu/kernels/rare.h"
#include "cpu/kernels/unary.h"
#include "cpu/kernels/wrap_function.h"
#include "graph/special_integrals.h"

namespace millrace::cpu {
namespace {

namespace numext = Eigen::numext;

MILLRACE_UNARY(BesselJ0, numext::bessel_j0);
MILLRACE_UNARY(BesselJ1, numext::bessel_j1);
MILLRACE_UNARY(BesselK0, numext::bessel_k0);
MILLRACE_UNARY(BesselK0e, numext::bessel_k0e);
MILLRACE_UNARY(BesselK1, numext::bessel_k1);
MILLRACE_UNARY(BesselK1e, numext::bessel_k1e);
MILLRACE_UNARY(BesselY0, numext::bessel_y0);
MILLRACE_UNARY(BesselY1, numext::bessel_y1);

#define MILLRACE_IN_DOUBLE(Name, expression)                      \
  struct Name {                                                   \
    template <typename T>                                         \
    static T Apply(T v) {                                         \
      const double x = static_cast<double>(v);                    \
      return static_cast<T>(expression);                          \
    }                                                             \
  }
MILLRACE_IN_DOUBLE(Dawsn, DawsonIntegral(x));
MILLRACE_IN_DOUBLE(Expint, ExponentialIntegral(x));
MILLRACE_IN_DOUBLE(FresnelCos, FresnelIntegrals(x).real);
MILLRACE_IN_DOUBLE(FresnelSin, FresnelIntegrals(x).imag);
MILLRACE_IN_DOUBLE(Spence, Dilogarithm(x));
#undef MILLRACE_IN_DOUBLE

// (a, b, x): scalars are taken for every element.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBetainc(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements();
  const auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([count](const KernelContext& context) {
      int64_t stride[3];
      for (int i = 0; i < 3; ++i) stride[i] = context.input_type(i).shape.rank() == 0 ? 0 : 1;
      ParallelRange(context, count, kSpecialGrain, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          context.output<T>(0)[k] = numext::betainc(context.input<T>(0)[k * stride[0]], context.input<T>(1)[k * stride[1]],
                                                    context.input<T>(2)[k * stride[2]]);
        }
      });
      return absl::OkStatus();
    });
  };
  if (node.inputs[0].dtype == DataType::kFloat) return make(TypeTag<float>());
  if (node.inputs[0].dtype == DataType::kDouble) return make(TypeTag<double>());
  return UnsupportedType(node, node.inputs[0].dtype);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePopulationCount(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements();
  return DispatchInteger(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([count](const KernelContext& context) {
      for (int64_t i = 0; i < count; ++i) {
        const auto bits = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(context.input<T>(0)[i]));
        context.output<uint8_t>(0)[i] = static_cast<uint8_t>(__builtin_popcountll(bits));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterSpecialRareKernels(KernelRegistry& registry) {
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "BesselJ0", FloatingUnary<BesselJ0>(), slow);
  RegisterUnary(registry, "BesselJ1", FloatingUnary<BesselJ1>(), slow);
  RegisterUnary(registry, "BesselK0", FloatingUnary<BesselK0>(), slow);
  RegisterUnary(registry, "BesselK0e", FloatingUnary<BesselK0e>(), slow);
  RegisterUnary(registry, "BesselK1", FloatingUnary<BesselK1>(), slow);
  RegisterUnary(registry, "BesselK1e", FloatingUnary<BesselK1e>(), slow);
  RegisterUnary(registry, "BesselY0", FloatingUnary<BesselY0>(), slow);
  RegisterUnary(registry, "BesselY1", FloatingUnary<BesselY1>(), slow);
  RegisterUnary(registry, "Dawsn", FloatingUnary<Dawsn>(), slow);
  RegisterUnary(registry, "Expint", FloatingUnary<Expint>(), slow);
  RegisterUnary(registry, "FresnelCos", FloatingUnary<FresnelCos>(), slow);
  RegisterUnary(registry, "FresnelSin", FloatingUnary<FresnelSin>(), slow);
  RegisterUnary(registry, "Spence", FloatingUnary<Spence>(), slow);
  AddKernel(registry, "Betainc", MakeBetainc);
  AddKernel(registry, "PopulationCount", MakePopulationCount);
}

}  // namespace millrace::cpu
