// Activations without transcendentals, Elu and Selu, and the gradients of unary ops.
#include <cmath>
#include <type_traits>
#include <utility>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// A NaN stays.
struct Relu {
  template <typename T>
  static T Apply(T x) {
    return x > T{0} || x != x ? x : T{0};
  }
};
struct Relu6 {
  template <typename T>
  static T Apply(T x) {
    return x <= T{0} ? T{0} : x >= T{6} ? T{6} : x;
  }
};
struct Softsign {
  template <typename T>
  static T Apply(T x) {
    return x / (std::fabs(x) + T{1});
  }
};
// exp(x) - 1 for x < 0, where nothing cancels: of float from t = tanh(x / 2) as 2t / (1 - t), of double near 0 by a fit of Moshier's Cephes library.
template <typename P>
P NegativeExpm1(const P& x) {
  if constexpr (std::is_same_v<typename ei::unpacket_traits<P>::type, double>) {
    const auto all = [](double value) { return ei::pset1<P>(value); };
    const P z = ei::pmul(x, x);
    const P odd = ei::pmul(x, ei::pmadd(ei::pmadd(all(1.2617719307481059087798e-4), z, all(3.0299440770744196129956e-2)), z, all(9.9999999999999999991025e-1)));
    P even = ei::pmadd(all(3.0019850513866445504159e-6), z, all(2.5244834034968410419224e-3));
    even = ei::pmadd(ei::pmadd(even, z, all(2.2726554820815502876593e-1)), z, all(2.0000000000000000000897));
    const P near = ei::pdiv(ei::padd(odd, odd), ei::psub(even, odd));
    return ei::pselect(ei::pcmp_lt(all(-0.5), x), near, ei::psub(ei::pexp(x), all(1)));
  } else {
    const P t = ei::ptanh(ei::pmul(x, ei::pset1<P>(0.5f)));
    return ei::pdiv(ei::padd(t, t), ei::psub(ei::pset1<P>(1.0f), t));
  }
}
struct Elu {
  template <typename P>
  static P Apply(const P& x) {
    return ei::pselect(ei::pcmp_lt(x, ei::pzero(x)), NegativeExpm1(x), x);
  }
};
struct Selu {
  template <typename P>
  static P Apply(const P& x) {
    using T = typename ei::unpacket_traits<P>::type;
    const P negative = ei::pmul(ei::pset1<P>(static_cast<T>(kSeluScaleAlpha)), NegativeExpm1(x));
    const P positive = ei::pmul(ei::pset1<P>(static_cast<T>(kSeluScale)), x);
    return ei::pselect(ei::pcmp_lt(x, ei::pzero(x)), negative, positive);
  }
};
template <typename Op>
UnaryLoops Packets() {
  return {.on_float = &PacketLoop<Op, float>, .on_double = &PacketLoop<Op, double>};
}

// Gradients: (gradient, features) for these ...
struct ReluGrad {
  template <typename T>
  static T Apply(T g, T x) {
    return g * static_cast<T>(x > T{0});
  }
};
struct Relu6Grad {
  template <typename T>
  static T Apply(T g, T x) {
    return g * static_cast<T>((x > T{0}) & (x < T{6}));
  }
};
struct SoftsignGrad {
  template <typename T>
  static T Apply(T g, T x) {
    const T d = std::fabs(x) + T{1};
    return g / (d * d);
  }
};
struct SoftplusGrad {
  template <typename P>
  static P Apply(const P& g, const P& x) {
    return ei::pdiv(g, ei::padd(ei::pexp(ei::pnegate(x)), ei::pset1<P>(1)));
  }
};
// ... (gradient, outputs) for these ...
struct EluGrad {
  template <typename T>
  static T Apply(T g, T y) {
    return y < T{0} ? (y + T{1}) * g : g;
  }
};
struct SeluGrad {
  template <typename T>
  static T Apply(T g, T y) {
    return y < T{0} ? g * (y + static_cast<T>(kSeluScaleAlpha)) : g * static_cast<T>(kSeluScale);
  }
};
// ... and (y, dy) for these, of which the last three are 0 wherever dy is.
struct TanhGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    return dy * (T{1} - y * y);
  }
};
struct SigmoidGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    return dy * y * (T{1} - y);
  }
};
struct ReciprocalGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    return dy == T{0} ? T{0} : -dy * y * y;
  }
};
struct SqrtGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    return dy == T{0} ? T{0} : dy * T(0.5) / y;
  }
};
struct RsqrtGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    return dy == T{0} ? T{0} : T(-0.5) * dy * (y * y) * y;
  }
};

float AlphaOf(const OpInstance& instance) { return instance.attrs.GetOr<float>("alpha", 0.2f); }

// out[i] = g[i] where x[i] is positive, else g[i] * slope. The product is made everywhere: a choice between two values
// vectorises.
template <typename T>
void SlopeLoop(const T* g, const T* x, T slope, T* out, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T value = g[i], below = value * slope;
    out[i] = x[i] > T{0} ? value : below;
  }
}

// LeakyRelu is its own gradient at x, of x.
template <typename T>
std::unique_ptr<Kernel> MakeLeakyRelu(const OpInstance& instance, int features) {
  const T slope = static_cast<T>(AlphaOf(instance));
  return MakeKernel([n = instance.inputs[0].shape.num_elements(), slope, features](const KernelContext& c) {
    ParallelRange(c, n, kElementGrain, [&](int64_t begin, int64_t end) {
      SlopeLoop(c.input<T>(0) + begin, c.input<T>(features) + begin, slope, c.output<T>(0) + begin, end - begin);
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterActivationKernels(KernelRegistry& registry) {
  RegisterUnary(registry, "Relu", NumericUnary<Relu>());
  RegisterUnary(registry, "Relu6", NumericUnary<Relu6>());
  RegisterUnary(registry, "Softsign", FloatingUnary<Softsign>());
  RegisterUnary(registry, "Elu", Packets<Elu>(), {.grain = kMathGrain});
  RegisterUnary(registry, "Selu", Packets<Selu>(), {.grain = kMathGrain});
  RegisterBinary(registry, "ReluGrad", NumericPairs<ReluGrad>());
  RegisterBinary(registry, "Relu6Grad", NumericPairs<Relu6Grad>());
  RegisterBinary(registry, "SoftsignGrad", FloatingPairs<SoftsignGrad>());
  RegisterBinary(registry, "SoftplusGrad",
                 {.on_float = &PacketPairLoop<SoftplusGrad, float>, .on_double = &PacketPairLoop<SoftplusGrad, double>},
                 {.grain = kMathGrain});
  RegisterBinary(registry, "EluGrad", FloatingPairs<EluGrad>());
  RegisterBinary(registry, "SeluGrad", FloatingPairs<SeluGrad>());
  RegisterBinary(registry, "TanhGrad", FloatingPairs<TanhGrad>());
  RegisterBinary(registry, "SigmoidGrad", FloatingPairs<SigmoidGrad>());
  for (const char* op : {"ReciprocalGrad", "InvGrad"}) RegisterBinary(registry, op, FloatingPairs<ReciprocalGrad>());
  RegisterBinary(registry, "SqrtGrad", FloatingPairs<SqrtGrad>());
  RegisterBinary(registry, "RsqrtGrad", FloatingPairs<RsqrtGrad>());
  for (const auto& [op, features] : {std::pair("LeakyRelu", 0), std::pair("LeakyReluGrad", 1)}) {
    AddKernel(registry, op, [features = features](const OpInstance& instance) {
      return DispatchFloating(instance, instance.inputs[0].dtype,
                              [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                                return MakeLeakyRelu<typename decltype(tag)::type>(instance, features);
                              });
    });
  }
}

}  // namespace millrace::cpu
