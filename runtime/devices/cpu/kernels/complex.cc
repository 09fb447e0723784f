// Elementwise ops of complex numbers: those that have real kernels too, and Complex, Real, Imag, Conj and their kin.
#include "cpu/kernels/complex.h"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/broadcast.h"
#include "cpu/kernels/complex_math.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kComplexGrain = 8192;
constexpr int64_t kComplexMathGrain = 1024;

using Made = absl::StatusOr<std::unique_ptr<Kernel>>;

// y[i] = Op::Apply(x[i]); In and Out follow from the function.
template <typename Op, typename In>
std::unique_ptr<Kernel> UnaryKernel(const OpInstance& node) {
  const int64_t n = node.outputs[0].shape.num_elements();
  return MakeKernel([n](const KernelContext& context) {
    ParallelRange(context, n, kComplexMathGrain, [&](int64_t begin, int64_t end) {
      using Out = decltype(Op::Apply(In()));
      const In* x = context.input<In>(0);
      Out* y = context.output<Out>(0);
      for (int64_t i = begin; i < end; ++i) y[i] = Op::Apply(x[i]);
    });
    return absl::OkStatus();
  });
}

template <typename Op>
Made MakeUnary(const OpInstance& node) {
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    return UnaryKernel<Op, typename decltype(tag)::type>(node);
  });
}

// By loops over arrays, of complex64 and of complex128.
template <auto kOfFloat, auto kOfDouble>
Made MakeLoops(const OpInstance& node) {
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::type;
    const int64_t n = node.outputs[0].shape.num_elements();
    return MakeKernel([n](const KernelContext& context) {
      ParallelRange(context, n, kComplexMathGrain, [&](int64_t begin, int64_t end) {
        const C* x = context.input<C>(0) + begin;
        C* y = context.output<C>(0) + begin;
        if constexpr (std::is_same_v<C, std::complex<float>>) {
          kOfFloat(x, y, end - begin);
        } else {
          kOfDouble(x, y, end - begin);
        }
      });
      return absl::OkStatus();
    });
  });
}

// Products by the operations of Times, a vector of them at a time, parts side by side.
template <typename T>
void MultiplyVectors(const std::complex<T>* a, int64_t a_step, const std::complex<T>* b, int64_t b_step, std::complex<T>* out, int64_t n) {
  using V = GemmVector<T>;
  using Lanes = GemmVector<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  constexpr int kLanes = kGemmLanes<T>;
  Lanes real = {}, imaginary = {}, swapped = {};
  V signs = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    real[lane] = lane & ~1;
    imaginary[lane] = lane | 1;
    swapped[lane] = lane ^ 1;
    signs[lane] = lane % 2 == 0 ? T(-1) : T(1);
  }
  const auto load = [](const std::complex<T>* from, int64_t step, V& vector) {
    std::complex<T> numbers[kLanes / 2];
    for (int64_t k = 0; step == 0 && k < kLanes / 2; ++k) numbers[k] = *from;
    std::memcpy(&vector, step == 0 ? numbers : from, sizeof(vector));
  };
  int64_t i = 0;
  for (; i + kLanes / 2 <= n; i += kLanes / 2) {
    V x, y;
    load(a + i * a_step, a_step, x);
    load(b + i * b_step, b_step, y);
    const V crossed = __builtin_shuffle(x, imaginary) * __builtin_shuffle(y, swapped);
    const V products = __builtin_shuffle(x, real) * y + crossed * signs;
    std::memcpy(static_cast<void*>(out + i), &products, sizeof(products));
  }
  for (; i < n; ++i) out[i] = Times(a[i * a_step], b[i * b_step]);
}

struct Div;
struct Mul;
// out[i] = Op::Apply(a[i * a_step], b[i * b_step])
template <typename Op, typename In, typename Out>
void RunPairs(const In* a, int64_t a_step, const In* b, int64_t b_step, Out* out, int64_t n) {
  if constexpr (std::is_same_v<Op, Div>) {
    ComplexDivide(a, a_step, b, b_step, out, n);
  } else if constexpr (std::is_same_v<Op, Mul>) {
    MultiplyVectors(a, a_step, b, b_step, out, n);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i * a_step], b[i * b_step]);
  }
}

template <typename Op, typename In>
std::unique_ptr<Kernel> BinaryKernel(const OpInstance& node) {
  const Shape shapes[] = {node.inputs[0].shape, node.inputs[1].shape};
  const BroadcastLayout layout = MakeBroadcastLayout(node.outputs[0].shape, shapes);
  return MakeKernel([layout](const KernelContext& context) {
    ParallelRange(context, layout.num_elements, kComplexGrain, [&](int64_t begin, int64_t end) {
      using Out = decltype(Op::Apply(In(), In()));
      if (HasShortRuns(layout)) {
        const char* const inputs[] = {context.input<char>(0), context.input<char>(1)};
        ForEachWideBlock(layout, inputs, sizeof(In), begin, end, [&](const char* const* operands, int64_t at, int64_t n) {
          const In *a = reinterpret_cast<const In*>(operands[0]), *b = reinterpret_cast<const In*>(operands[1]);
          RunPairs<Op>(a, 1, b, 1, context.output<Out>(0) + at, n);
        });
        return;
      }
      const int64_t a_step = layout.repeats(0) ? 0 : 1, b_step = layout.repeats(1) ? 0 : 1;
      ForEachRun(layout, begin, end, [&](const auto& offsets, int64_t at, int64_t n) {
        const In *a = context.input<In>(0) + offsets[0], *b = context.input<In>(1) + offsets[1];
        RunPairs<Op>(a, a_step, b, b_step, context.output<Out>(0) + at, n);
      });
    });
    return absl::OkStatus();
  });
}

template <typename Op>
Made MakeBinary(const OpInstance& node) {
  if (node.inputs[0].dtype != node.inputs[1].dtype) return UnsupportedType(node, node.inputs[1].dtype);
  return DispatchComplex(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    return BinaryKernel<Op, typename decltype(tag)::type>(node);
  });
}

// The differences that cancel near 0 are taken of real numbers, by what does not.
template <typename T>
std::complex<T> ExpLessOne(std::complex<T> x) {
  const T power = std::exp(x.real()), half = std::sin(x.imag() / 2);
  return {std::expm1(x.real()) - 2 * power * half * half, power * std::sin(x.imag())};
}
template <typename T>
std::complex<T> LogOfOneAnd(std::complex<T> x) {
  const T a = x.real(), b = x.imag();
  if (!(std::abs(a) < T(0.5) && std::abs(b) < T(0.5))) return std::log(T(1) + x);
  return {std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a)};
}

#define MILLRACE_COMPLEX_UNARY(Name, expression) \
  struct Name {                                  \
    template <typename C>                        \
    static auto Apply(C x) {                     \
      return expression;                         \
    }                                            \
  }
#define MILLRACE_COMPLEX_BINARY(Name, expression) \
  struct Name {                                   \
    template <typename C>                         \
    static auto Apply(C a, C b) {                 \
      return expression;                          \
    }                                             \
  }

MILLRACE_COMPLEX_UNARY(Negative, -x);
MILLRACE_COMPLEX_UNARY(Square, Times(x, x));
MILLRACE_COMPLEX_UNARY(Sin, std::sin(x));
MILLRACE_COMPLEX_UNARY(Cos, std::cos(x));
MILLRACE_COMPLEX_UNARY(Tan, std::tan(x));
MILLRACE_COMPLEX_UNARY(Sinh, std::sinh(x));
MILLRACE_COMPLEX_UNARY(Cosh, std::cosh(x));
MILLRACE_COMPLEX_UNARY(Tanh, std::tanh(x));
MILLRACE_COMPLEX_UNARY(Asin, std::asin(x));
MILLRACE_COMPLEX_UNARY(Acos, std::acos(x));
MILLRACE_COMPLEX_UNARY(Atan, std::atan(x));
MILLRACE_COMPLEX_UNARY(Asinh, std::asinh(x));
MILLRACE_COMPLEX_UNARY(Acosh, std::acosh(x));
MILLRACE_COMPLEX_UNARY(Atanh, std::atanh(x));
MILLRACE_COMPLEX_UNARY(Expm1, ExpLessOne(x));
MILLRACE_COMPLEX_UNARY(Log1p, LogOfOneAnd(x));
MILLRACE_COMPLEX_UNARY(Sigmoid, C(1) / (C(1) + std::exp(-x)));
MILLRACE_COMPLEX_UNARY(Sign, x == C(0) ? C(0) : x / std::abs(x));
MILLRACE_COMPLEX_UNARY(One, (static_cast<void>(x), C(1)));
MILLRACE_COMPLEX_UNARY(Real, x.real());
MILLRACE_COMPLEX_UNARY(Imag, x.imag());
MILLRACE_COMPLEX_UNARY(Magnitude, std::abs(x));
MILLRACE_COMPLEX_UNARY(Angle, std::arg(x));
MILLRACE_COMPLEX_UNARY(Conjugate, std::conj(x));

MILLRACE_COMPLEX_BINARY(Add, a + b);
MILLRACE_COMPLEX_BINARY(Sub, a - b);
MILLRACE_COMPLEX_BINARY(Mul, Times(a, b));
MILLRACE_COMPLEX_BINARY(Div, a / b);
MILLRACE_COMPLEX_BINARY(DivNoNan, b == C(0) ? C(0) : a / b);
MILLRACE_COMPLEX_BINARY(MulNoNan, b == C(0) ? C(0) : Times(a, b));
MILLRACE_COMPLEX_BINARY(Xdivy, a == C(0) ? C(0) : a / b);
MILLRACE_COMPLEX_BINARY(Xlogy, a == C(0) ? C(0) : Times(a, std::log(b)));
MILLRACE_COMPLEX_BINARY(Xlog1py, a == C(0) ? C(0) : Times(a, LogOfOneAnd(b)));
MILLRACE_COMPLEX_BINARY(SquaredDifference, Times(a - b, std::conj(a - b)));
MILLRACE_COMPLEX_BINARY(Pow, std::pow(a, b));
MILLRACE_COMPLEX_BINARY(Equal, a == b);
MILLRACE_COMPLEX_BINARY(NotEqual, a != b);
// (y, dy): derivatives are conjugated, as gradients of real functions of complex numbers are, and 0 wherever dy is.
MILLRACE_COMPLEX_BINARY(InverseGrad, b == C(0) ? C(0) : -Times(Times(std::conj(a), b), std::conj(a)));
MILLRACE_COMPLEX_BINARY(SqrtGrad, b == C(0) ? C(0) : b * C(0.5) / std::conj(a));
MILLRACE_COMPLEX_BINARY(RsqrtGrad, b == C(0) ? C(0) : Times(C(-0.5) * b, Times(Times(std::conj(a), std::conj(a)), std::conj(a))));
// These are given y conjugated.
MILLRACE_COMPLEX_BINARY(TanhGrad, Times(b, C(1) - Times(a, a)));
MILLRACE_COMPLEX_BINARY(SigmoidGrad, Times(Times(b, a), C(1) - a));

void DoubleExp(const std::complex<double>* x, std::complex<double>* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}
template <typename T>
void Inverse(const std::complex<T>* x, std::complex<T>* y, int64_t n) {
  const std::complex<T> one(1);
  ComplexDivide(&one, 0, x, 1, y, n);
}
template <typename T>
void DivLoop(BinaryMode mode, const void* a, const void* b, void* out, int64_t n) {
  using C = std::complex<T>;
  ComplexDivide(static_cast<const C*>(a), mode == BinaryMode::kScalarVector ? 0 : 1, static_cast<const C*>(b),
                mode == BinaryMode::kVectorScalar ? 0 : 1, static_cast<C*>(out), n);
}

template <typename T>
void MulLoop(BinaryMode mode, const void* a, const void* b, void* out, int64_t n) {
  using C = std::complex<T>;
  MultiplyVectors(static_cast<const C*>(a), mode == BinaryMode::kScalarVector ? 0 : 1, static_cast<const C*>(b),
                  mode == BinaryMode::kVectorScalar ? 0 : 1, static_cast<C*>(out), n);
}

struct Join {
  template <typename T>
  static std::complex<T> Apply(T real, T imag) {
    return {real, imag};
  }
};

Made MakeJoin(const OpInstance& node) {
  if (node.outputs[0].dtype == DataType::kComplex64 && node.inputs[0].dtype == DataType::kFloat) {
    return BinaryKernel<Join, float>(node);
  }
  if (node.outputs[0].dtype == DataType::kComplex128 && node.inputs[0].dtype == DataType::kDouble) {
    return BinaryKernel<Join, double>(node);
  }
  return UnsupportedType(node, node.inputs[0].dtype);
}

// Numbers become their real parts; of complex ones an element type without imaginary parts keeps the real parts.
template <typename From, typename To>
std::unique_ptr<Kernel> ComplexCast(int64_t n) {
  return MakeKernel([n](const KernelContext& context) {
    for (int64_t i = 0; i < n; ++i) context.output<To>(0)[i] = static_cast<To>(context.input<From>(0)[i]);
    return absl::OkStatus();
  });
}

// complex128 to complex64, part by part.
std::unique_ptr<Kernel> MakeTruncation(int64_t n) {
  return MakeKernel([n, conversion = TruncatingConversionOf(DataType::kDouble, DataType::kFloat)](const KernelContext& context) {
    conversion.first(context.input<char>(0), context.output<char>(0), 2 * n);
    return absl::OkStatus();
  });
}

Made MakeCastFrom(const OpInstance& node, DataType part, const Conversion& conversion, bool to_complex) {
  const int64_t n = node.outputs[0].shape.num_elements(), part_bytes = DataTypeSize(part);
  const int64_t from_bytes = DataTypeSize(node.inputs[0].dtype), to_bytes = DataTypeSize(node.outputs[0].dtype);
  return MakeKernel([=](const KernelContext& context) {
    for (int64_t i = 0; i < n; i += kBlockElements) {
      const int64_t count = std::min(kBlockElements, n - i);
      Block parts;
      const char* from = context.input<char>(0) + i * from_bytes;
      char* to = context.output<char>(0) + i * to_bytes;
      if (to_complex) {
        conversion.RunBlock(from, parts.bytes, count);
        std::fill(to, to + count * to_bytes, char{0});
        for (int64_t k = 0; k < count; ++k) std::copy_n(parts.bytes + k * part_bytes, part_bytes, to + k * to_bytes);
      } else {
        for (int64_t k = 0; k < count; ++k) std::copy_n(from + k * from_bytes, part_bytes, parts.bytes + k * part_bytes);
        conversion.RunBlock(parts.bytes, to, count);
      }
    }
    return absl::OkStatus();
  });
}

Made MakeCast(const OpInstance& node) {
  const DataType from = node.inputs[0].dtype, to = node.outputs[0].dtype;
  const int64_t n = node.outputs[0].shape.num_elements();
  const bool truncates = node.attrs.GetOr<bool>("Truncate", false);
  if (IsComplex(from) && IsComplex(to)) {
    if (truncates && to == DataType::kComplex64 && from != to) return MakeTruncation(n);
    return DispatchComplex(node, from, [&](auto from_tag) {
      return DispatchComplex(node, to, [&](auto to_tag) -> std::unique_ptr<Kernel> {
        return ComplexCast<typename decltype(from_tag)::type, typename decltype(to_tag)::type>(n);
      });
    });
  }
  const DataType whole = IsComplex(to) ? to : from;
  const DataType part = whole == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  const auto conversion_of = truncates && to != DataType::kBfloat16 ? TruncatingConversionOf : ConversionOf;
  const Conversion conversion = IsComplex(to) ? conversion_of(from, part) : conversion_of(part, to);
  if (!conversion.covered()) return UnsupportedType(node, IsComplex(to) ? from : to);
  return MakeCastFrom(node, part, conversion, IsComplex(to));
}

struct Entry {
  const char* op;
  Made (*make)(const OpInstance&);
};

constexpr Entry kWithReal[] = {
    {"Neg", MakeUnary<Negative>},
    {"Square", MakeUnary<Square>},
    {"Reciprocal", MakeLoops<Inverse<float>, Inverse<double>>},
    {"Inv", MakeLoops<Inverse<float>, Inverse<double>>},
    {"Sqrt", MakeLoops<ComplexSqrt<float>, ComplexSqrt<double>>},
    {"Rsqrt", MakeLoops<ComplexRsqrt<float>, ComplexRsqrt<double>>},
    {"Exp", MakeLoops<ComplexExp, DoubleExp>},
    {"Log", MakeLoops<ComplexLog<float>, ComplexLog<double>>},
    {"Sin", MakeUnary<Sin>},
    {"Cos", MakeUnary<Cos>},
    {"Tan", MakeUnary<Tan>},
    {"Sinh", MakeUnary<Sinh>},
    {"Cosh", MakeUnary<Cosh>},
    {"Tanh", MakeUnary<Tanh>},
    {"Asin", MakeUnary<Asin>},
    {"Acos", MakeUnary<Acos>},
    {"Atan", MakeUnary<Atan>},
    {"Asinh", MakeUnary<Asinh>},
    {"Acosh", MakeUnary<Acosh>},
    {"Atanh", MakeUnary<Atanh>},
    {"Expm1", MakeUnary<Expm1>},
    {"Log1p", MakeUnary<Log1p>},
    {"Sigmoid", MakeUnary<Sigmoid>},
    {"Sign", MakeUnary<Sign>},
    {"OnesLike", MakeUnary<One>},
    {"Cast", MakeCast},
    {"Add", MakeBinary<Add>},
    {"AddV2", MakeBinary<Add>},
    {"Sub", MakeBinary<Sub>},
    {"Mul", MakeBinary<Mul>},
    {"RealDiv", MakeBinary<Div>},
    {"Div", MakeBinary<Div>},
    {"DivNoNan", MakeBinary<DivNoNan>},
    {"MulNoNan", MakeBinary<MulNoNan>},
    {"Xdivy", MakeBinary<Xdivy>},
    {"Xlogy", MakeBinary<Xlogy>},
    {"Xlog1py", MakeBinary<Xlog1py>},
    {"SquaredDifference", MakeBinary<SquaredDifference>},
    {"Pow", MakeBinary<Pow>},
    {"Equal", MakeBinary<Equal>},
    {"NotEqual", MakeBinary<NotEqual>},
    {"ReciprocalGrad", MakeBinary<InverseGrad>},
    {"InvGrad", MakeBinary<InverseGrad>},
    {"SqrtGrad", MakeBinary<SqrtGrad>},
    {"RsqrtGrad", MakeBinary<RsqrtGrad>},
    {"TanhGrad", MakeBinary<TanhGrad>},
    {"SigmoidGrad", MakeBinary<SigmoidGrad>},
};

bool AnyComplex(const OpInstance& node) {
  for (const auto* types : {&node.inputs, &node.outputs}) {
    for (const TensorType& type : *types) {
      if (IsComplex(type.dtype)) return true;
    }
  }
  return false;
}

}  // namespace

std::complex<float> Product(std::complex<float> a, std::complex<float> b) { return Times(a, b); }
std::complex<double> Product(std::complex<double> a, std::complex<double> b) { return Times(a, b); }

OpInstance InParts(OpInstance node) {
  for (auto* types : {&node.inputs, &node.outputs}) {
    for (TensorType& type : *types) {
      if (!IsComplex(type.dtype)) continue;
      type.dtype = PartOf(type.dtype);
      type.shape.AddDim(2);
    }
  }
  return node;
}

KernelFactory WithComplex(std::string_view op, KernelFactory real) {
  KernelFactory complex = ComplexSums(op);
  for (const Entry& entry : kWithReal) {
    if (entry.op == op) complex = entry.make;
  }
  if (complex == nullptr) return real;
  return [real = std::move(real), complex](const OpInstance& node) { return AnyComplex(node) ? complex(node) : real(node); };
}

BinaryLoop ComplexLoop(std::string_view op, DataType dtype) {
  const auto of = [&](auto apply) -> BinaryLoop {
    using Op = decltype(apply);
    if (dtype == DataType::kComplex64) return &LoopOver<Op, std::complex<float>>;
    if (dtype == DataType::kComplex128) return &LoopOver<Op, std::complex<double>>;
    return nullptr;
  };
  if (op == "Add") return of(Add());
  if (op == "Sub") return of(Sub());
  if (op == "Mul") return dtype == DataType::kComplex64 ? &MulLoop<float> : dtype == DataType::kComplex128 ? &MulLoop<double> : nullptr;
  if (op == "Div") return dtype == DataType::kComplex64 ? &DivLoop<float> : dtype == DataType::kComplex128 ? &DivLoop<double> : nullptr;
  return nullptr;
}

void RegisterComplexKernels(KernelRegistry& registry) {
  AddKernel(registry, "Complex", MakeJoin);
  AddKernel(registry, "Real", MakeUnary<Real>);
  AddKernel(registry, "Imag", MakeUnary<Imag>);
  AddKernel(registry, "Conj", MakeUnary<Conjugate>);
  AddKernel(registry, "ComplexAbs", MakeUnary<Magnitude>);
  AddKernel(registry, "Angle", MakeUnary<Angle>);
}

}  // namespace millrace::cpu
