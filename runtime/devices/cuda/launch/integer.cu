#include "cuda/launch/integer.h"

#include <type_traits>

#include "cuda/launch/broadcast_index.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// Towards zero. -1 is apart because the least integer has no opposite.
template <typename T>
MR_DEVICE T Quotient(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (b == T(-1)) return static_cast<T>(U(0) - static_cast<U>(a));
  }
  return static_cast<T>(a / b);
}
template <typename T>
MR_DEVICE T Remainder(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return T(0);
  }
  return static_cast<T>(a % b);
}
template <typename T>
MR_DEVICE bool Negative(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return false;
  } else {
    return x < T(0);
  }
}

template <typename T>
MR_DEVICE T DivideIntegers(DivisionOp op, T a, T b) {
  const T remainder = Remainder(a, b);
  switch (op) {
    case DivisionOp::kTruncate: return Quotient(a, b);
    case DivisionOp::kFloor: return static_cast<T>(Quotient(a, b) - (Negative(a) != Negative(b) && remainder != 0 ? 1 : 0));
    case DivisionOp::kRemainder: return remainder;
    case DivisionOp::kFloorRemainder: break;
  }
  return remainder != 0 && Negative(remainder) != Negative(b) ? static_cast<T>(remainder + b) : remainder;
}
// A quotient is rounded to T before it is made whole.
template <typename T, typename W>
MR_DEVICE W DivideFloats(DivisionOp op, W a, W b) {
  switch (op) {
    case DivisionOp::kTruncate: return trunc(Widen(Wide<T>::Narrow(a / b)));
    case DivisionOp::kFloor: return floor(Widen(Wide<T>::Narrow(a / b)));
    case DivisionOp::kRemainder: return fmod(a, b);
    case DivisionOp::kFloorRemainder: break;
  }
  const W remainder = fmod(a, b);
  return remainder != W(0) && (remainder < W(0)) != (b < W(0)) ? remainder + b : remainder;
}

template <typename T>
struct IntegerDivisionBody {
  Queue queue;
  DivisionOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    const T divisor = b[at[1]];
    if (divisor == 0) {
      Report(queue, FaultCode::kDivisionByZero, 1, 0, 0);
      return 0;
    }
    return DivideIntegers(op, a[at[0]], divisor);
  }
};
template <typename T>
struct FloatDivisionBody {
  DivisionOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return Wide<T>::Narrow(DivideFloats<T>(op, Widen(a[at[0]]), Widen(b[at[1]])));
  }
};

template <typename T>
struct BitsBody {
  BitOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    const T p = a[at[0]], q = b[at[1]];
    switch (op) {
      case BitOp::kAnd: return static_cast<T>(p & q);
      case BitOp::kOr: return static_cast<T>(p | q);
      case BitOp::kXor: return static_cast<T>(p ^ q);
      case BitOp::kInvert: break;
    }
    return static_cast<T>(~p);
  }
};

template <typename T>
struct FloatTestBody {
  FloatTest test;
  const T* x;
  MR_DEVICE bool operator()(int64_t i) const {
    const auto value = Widen(x[i]);
    const bool nan = value != value, infinite = !nan && (value - value) != (value - value);
    switch (test) {
      case FloatTest::kIsNan: return nan;
      case FloatTest::kIsInf: return infinite;
      case FloatTest::kIsFinite: break;
    }
    return !nan && !infinite;
  }
};

template <typename T>
struct RangeBody {
  T start, delta;
  MR_DEVICE T operator()(int64_t i) const { return static_cast<T>(start + static_cast<T>(i) * delta); }
};

template <typename T>
struct IntsBody {
  int64_t values[kMaxInts];
  MR_DEVICE T operator()(int64_t i) const { return static_cast<T>(values[i]); }
};

}  // namespace

void LaunchDivision(const Queue& queue, DivisionOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                    void* y) {
  const StridedIndex<3> index = IndexOf(shape);
  if (type <= Type::kBfloat16) {
    return ForFloating(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      Map(queue, shape.elements, static_cast<T*>(y),
          FloatDivisionBody<T>{op, index, static_cast<const T*>(a), static_cast<const T*>(b)});
    });
  }
  ForInteger(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        IntegerDivisionBody<T>{queue, op, index, static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

void LaunchBits(const Queue& queue, BitOp op, int bytes, const Broadcast& shape, const void* a, const void* b, void* y) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        BitsBody<T>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

void LaunchFloatTest(const Queue& queue, FloatTest test, Type type, const void* x, bool* y, int64_t n) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, y, FloatTestBody<T>{test, static_cast<const T*>(x)});
  });
}

void LaunchRange(const Queue& queue, Type type, const void* start, const void* delta, void* y, int64_t n) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    RangeBody<T> body;
    memcpy(&body.start, start, sizeof(T));
    memcpy(&body.delta, delta, sizeof(T));
    Map(queue, n, static_cast<T*>(y), body);
  };
  if (type == Type::kFloat) return launch(Tag<float>());
  if (type == Type::kDouble) return launch(Tag<double>());
  ForInteger(type, launch);
}

void LaunchInts(const Queue& queue, bool wide, const int64_t* values, int count, void* y) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    IntsBody<T> body = {};
    for (int i = 0; i < count; ++i) body.values[i] = values[i];
    Map(queue, count, static_cast<T*>(y), body);
  };
  wide ? launch(Tag<int64_t>()) : launch(Tag<int32_t>());
}

}  // namespace millrace::cuda
