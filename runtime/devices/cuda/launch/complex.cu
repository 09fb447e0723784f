#include "cuda/launch/complex.h"

#include "cuda/launch/broadcast_index.h"
#include "cuda/launch/complex_math.h"
#include "cuda/launch/elementwise_math.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/reduce_index.h"

namespace millrace::cuda {
namespace {

// The product with a real number as C++ has it: of a complex one whose imaginary part is 0.
template <typename T>
MR_DEVICE Complex<T> TimesReal(Complex<T> x, T real) {
  const Complex<T> product = x * Complex<T>{real, T(0)};
  const bool lost = IsNan(product.re) && IsNan(product.im) && (IsInfinite(x.re) || IsInfinite(x.im));
  return lost ? Scaled(x, real) : product;
}

template <typename T>
struct UnaryBody {
  using C = Complex<T>;
  ComplexUnary op;
  const C* x;
  MR_DEVICE C operator()(int64_t i) const {
    const C value = x[i];
    switch (op) {
      case ComplexUnary::kNeg: return -value;
      case ComplexUnary::kSquare: return value * value;
      case ComplexUnary::kReciprocal: return C{T(1), T(0)} / value;
      case ComplexUnary::kConj: return Conjugate(value);
      case ComplexUnary::kSign: break;
    }
    const T size = hypot(value.re, value.im);
    return IsZero(value) ? C{T(0), T(0)} : C{value.re / size, value.im / size};
  }
};

template <typename T>
struct PartBody {
  ComplexPart part;
  const Complex<T>* x;
  MR_DEVICE T operator()(int64_t i) const {
    const Complex<T> value = x[i];
    switch (part) {
      case ComplexPart::kReal: return value.re;
      case ComplexPart::kImag: return value.im;
      case ComplexPart::kAbs: return hypot(value.re, value.im);
      case ComplexPart::kAngle: break;
    }
    return atan2(value.im, value.re);
  }
};

// Of gradients, `a` is the op's result, `b` the incoming gradient; TanhGrad and SigmoidGrad are given `a` conjugated already.
template <typename T>
MR_DEVICE Complex<T> BinaryOf(ComplexBinary op, Complex<T> a, Complex<T> b) {
  using C = Complex<T>;
  const C zero = {T(0), T(0)}, one = {T(1), T(0)}, conjugate = Conjugate(a);
  switch (op) {
    case ComplexBinary::kAdd: return a + b;
    case ComplexBinary::kSub: return a - b;
    case ComplexBinary::kMul: return a * b;
    case ComplexBinary::kDiv: return a / b;
    case ComplexBinary::kDivNoNan: return IsZero(b) ? zero : a / b;
    case ComplexBinary::kMulNoNan: return IsZero(b) ? zero : a * b;
    case ComplexBinary::kSquaredDifference: return (a - b) * Conjugate(a - b);
    case ComplexBinary::kReciprocalGrad: return IsZero(b) ? zero : -((conjugate * b) * conjugate);
    case ComplexBinary::kSqrtGrad: return IsZero(b) ? zero : TimesReal(b, T(0.5)) / conjugate;
    case ComplexBinary::kRsqrtGrad: return IsZero(b) ? zero : TimesReal(b, T(-0.5)) * ((conjugate * conjugate) * conjugate);
    case ComplexBinary::kTanhGrad: return b * (one - a * a);
    case ComplexBinary::kSigmoidGrad: return (b * a) * (one - a);
  }
  return zero;
}

template <typename T>
struct BinaryBody {
  ComplexBinary op;
  StridedIndex<3> index;
  const Complex<T>* a;
  const Complex<T>* b;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return BinaryOf(op, a[at[0]], b[at[1]]);
  }
};

template <typename T>
struct EqualBody {
  bool negated;
  StridedIndex<3> index;
  const Complex<T>* a;
  const Complex<T>* b;
  MR_DEVICE bool operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return (a[at[0]] == b[at[1]]) != negated;
  }
};

template <typename T>
struct JoinBody {
  StridedIndex<3> index;
  const T* re;
  const T* im;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return {re[at[0]], im[at[1]]};
  }
};

template <typename From, typename T>
struct WholeBody {
  const From* x;
  MR_DEVICE Complex<T> operator()(int64_t i) const { return {CastOne<T>(x[i]), T(0)}; }
};

template <typename T, typename To>
struct RealBody {
  const Complex<T>* x;
  MR_DEVICE To operator()(int64_t i) const { return CastOne<To>(x[i].re); }
};

template <typename From, typename To>
struct ResizeBody {
  const Complex<From>* x;
  MR_DEVICE Complex<To> operator()(int64_t i) const { return {static_cast<To>(x[i].re), static_cast<To>(x[i].im)}; }
};

// What of a reduction is not about loading.
template <typename T>
struct ReduceRule {
  ReduceOp op;
  double terms;
  Complex<T>* y;
  MR_DEVICE Complex<double> Identity() const { return {op == ReduceOp::kProd ? 1.0 : 0.0, 0.0}; }
  MR_DEVICE Complex<double> Combine(Complex<double> a, Complex<double> b) const { return op == ReduceOp::kProd ? a * b : a + b; }
  MR_DEVICE void Store(int64_t row, Complex<double> sum) const {
    if (op == ReduceOp::kMean && terms > 0) sum = {sum.re / terms, sum.im / terms};
    y[row] = {static_cast<T>(sum.re), static_cast<T>(sum.im)};
  }
};

template <typename T>
struct ReduceBody {
  ReduceRule<T> rule;
  StridedIndex<1> row_index, term_index;
  const Complex<T>* x;

  struct RowTerms {
    static constexpr int kAtOnce = 4;
    const StridedIndex<1>& index;
    const Complex<T>* x;
    MR_DEVICE Complex<T> Fetch(int64_t k) const { return x[index.Offset(k)]; }
    MR_DEVICE Complex<double> Value(Complex<T> term) const { return {term.re, term.im}; }
  };
  MR_DEVICE RowTerms Row(int64_t row) const { return {term_index, x + row_index.Offset(row)}; }
  MR_DEVICE Complex<double> Identity() const { return rule.Identity(); }
  MR_DEVICE Complex<double> Combine(Complex<double> a, Complex<double> b) const { return rule.Combine(a, b); }
  MR_DEVICE void Store(int64_t row, Complex<double> sum) const { rule.Store(row, sum); }
};

template <typename Fn>
void ForReal(Type type, const Fn& fn) {
  type == Type::kBool ? fn(Tag<bool>()) : ForNumeric(type, fn);
}

}  // namespace

void LaunchComplexUnary(const Queue& queue, ComplexUnary op, Type type, const void* x, void* y, int64_t n) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    Map(queue, n, static_cast<Complex<T>*>(y), UnaryBody<T>{op, static_cast<const Complex<T>*>(x)});
  });
}

void LaunchComplexPart(const Queue& queue, ComplexPart part, Type type, const void* x, void* y, int64_t n) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    Map(queue, n, static_cast<T*>(y), PartBody<T>{part, static_cast<const Complex<T>*>(x)});
  });
}

void LaunchComplexBinary(const Queue& queue, ComplexBinary op, Type type, const Broadcast& shape, const void* a, const void* b, void* y) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    Map(queue, shape.elements, static_cast<C*>(y), BinaryBody<T>{op, IndexOf(shape), static_cast<const C*>(a), static_cast<const C*>(b)});
  });
}

void LaunchComplexEqual(const Queue& queue, bool negated, Type type, const Broadcast& shape, const void* a, const void* b, bool* y) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    Map(queue, shape.elements, y, EqualBody<T>{negated, IndexOf(shape), static_cast<const C*>(a), static_cast<const C*>(b)});
  });
}

void LaunchComplexJoin(const Queue& queue, Type type, const Broadcast& shape, const void* re, const void* im, void* y) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    Map(queue, shape.elements, static_cast<Complex<T>*>(y), JoinBody<T>{IndexOf(shape), static_cast<const T*>(re), static_cast<const T*>(im)});
  });
}

void LaunchRealToComplex(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n) {
  ForParts(to, [&]<typename T>(Tag<T>) {
    ForReal(from, [&]<typename From>(Tag<From>) {
      Map(queue, n, static_cast<Complex<T>*>(y), WholeBody<From, T>{static_cast<const From*>(x)});
    });
  });
}

void LaunchComplexToReal(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n) {
  ForParts(from, [&]<typename T>(Tag<T>) {
    ForReal(to, [&]<typename To>(Tag<To>) {
      Map(queue, n, static_cast<To*>(y), RealBody<T, To>{static_cast<const Complex<T>*>(x)});
    });
  });
}

void LaunchComplexToComplex(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n) {
  ForParts(from, [&]<typename From>(Tag<From>) {
    ForParts(to, [&]<typename To>(Tag<To>) {
      Map(queue, n, static_cast<Complex<To>*>(y), ResizeBody<From, To>{static_cast<const Complex<From>*>(x)});
    });
  });
}

int64_t ComplexReduceScratchBytes(const ReduceShape& shape) {
  const int64_t chunks = SumChunks(shape.rows, shape.terms, shape.columns);
  return chunks > 1 ? shape.rows * chunks * static_cast<int64_t>(sizeof(Complex<double>)) : 0;
}

void LaunchComplexReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y, void* partial) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    const ReduceBody<T> body = {{op, static_cast<double>(shape.terms), static_cast<Complex<T>*>(y)},
                                RowIndexOf(shape), TermIndexOf(shape), static_cast<const Complex<T>*>(x)};
    SumRows<Complex<double>>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  });
}

}  // namespace millrace::cuda
