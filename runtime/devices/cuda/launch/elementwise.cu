// The op is chosen inside the kernel, the same for all threads: one kernel per element type. Ops that graphs are full of
// have one each.
#include "cuda/launch/elementwise.h"

#include <type_traits>

#include "cuda/launch/broadcast_index.h"
#include "cuda/launch/elementwise_math.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// kOp: the op, where it is one of those that graphs are full of and so has a kernel of its own; else kAnyOp.
inline constexpr int kAnyOp = -1;

template <typename T, bool kFloating, int kOp = kAnyOp>
struct UnaryBody {
  UnaryOp op;
  const T* x;
  double alpha;
  MR_DEVICE T operator()(int64_t i) const {
    const UnaryOp which = kOp == kAnyOp ? op : static_cast<UnaryOp>(kOp);
    if constexpr (kFloating) {
      return UnaryOne(which, x[i], alpha);
    } else {
      return SimpleUnary<T>(which, x[i]);
    }
  }
};

template <typename T, bool kFloating, int kOp = kAnyOp>
struct BinaryBody {
  BinaryOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  double alpha;
  MR_DEVICE T operator()(int64_t i) const {
    const BinaryOp which = kOp == kAnyOp ? op : static_cast<BinaryOp>(kOp);
    int64_t at[3];
    index.Offsets(i, at);
    if constexpr (kFloating) {
      return BinaryOne(which, a[at[0]], b[at[1]], alpha);
    } else {
      return SimpleBinary<T>(which, a[at[0]], b[at[1]]);
    }
  }
};

template <typename T>
struct CompareBody {
  CompareOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE bool operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return CompareOne(op, a[at[0]], b[at[1]]);
  }
};

struct LogicalBody {
  LogicalOp op;
  StridedIndex<3> index;
  const bool* a;
  const bool* b;
  MR_DEVICE bool operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return LogicalOne(op, a[at[0]], b[at[1]]);
  }
};

template <typename T>
struct SelectBody {
  StridedIndex<3> index;
  const bool* condition;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return condition[at[0]] ? a[at[1]] : b[at[2]];
  }
};

template <typename From, typename To>
struct CastBody {
  const From* x;
  MR_DEVICE To operator()(int64_t i) const {
    return CastOne<To>(x[i]);
  }
};

// Inputs of one launch.
inline constexpr int kMaxAddends = 256;

// kOut: the output, or the type that sums are made in.
template <typename T, typename Out>
struct AddNBody {
  using W = typename Wide<T>::type;
  const T* inputs[kMaxAddends];
  int count;
  const W* before;  // of former launches, if any
  MR_DEVICE Out operator()(int64_t i) const {
    W sum = before != nullptr ? before[i] : W(Widen(inputs[0][i]));
    for (int k = before != nullptr ? 0 : 1; k < count; ++k) sum = static_cast<W>(sum + Widen(inputs[k][i]));
    return Wide<Out>::Narrow(sum);
  }
};

template <typename T>
void CastFrom(const Queue& queue, Type to, const T* x, void* y, int64_t n) {
  const auto launch = [&](auto tag) {
    using To = typename decltype(tag)::type;
    Map(queue, n, static_cast<To*>(y), CastBody<T, To>{x});
  };
  if (to <= Type::kBfloat16) return ForFloating(to, launch);
  if (to == Type::kBool) return launch(Tag<bool>());
  ForInteger(to, launch);
}

template <UnaryOp kOp>
void HotUnary(const Queue& queue, const void* x, void* y, int64_t n, double alpha) {
  Map(queue, n, static_cast<float*>(y), UnaryBody<float, true, static_cast<int>(kOp)>{kOp, static_cast<const float*>(x), alpha});
}

// Whether the op was one with a kernel of its own.
bool LaunchHotUnary(const Queue& queue, UnaryOp op, const void* x, void* y, int64_t n, double alpha) {
  switch (op) {
    case UnaryOp::kRelu: HotUnary<UnaryOp::kRelu>(queue, x, y, n, alpha); return true;
    case UnaryOp::kTanh: HotUnary<UnaryOp::kTanh>(queue, x, y, n, alpha); return true;
    case UnaryOp::kSigmoid: HotUnary<UnaryOp::kSigmoid>(queue, x, y, n, alpha); return true;
    case UnaryOp::kSquare: HotUnary<UnaryOp::kSquare>(queue, x, y, n, alpha); return true;
    case UnaryOp::kRsqrt: HotUnary<UnaryOp::kRsqrt>(queue, x, y, n, alpha); return true;
    default: return false;
  }
}

template <BinaryOp kOp>
void HotBinary(const Queue& queue, const Broadcast& shape, const void* a, const void* b, void* y, double alpha) {
  Map(queue, shape.elements, static_cast<float*>(y),
      BinaryBody<float, true, static_cast<int>(kOp)>{kOp, IndexOf(shape), static_cast<const float*>(a),
                                                     static_cast<const float*>(b), alpha});
}

bool LaunchHotBinary(const Queue& queue, BinaryOp op, const Broadcast& shape, const void* a, const void* b, void* y,
                     double alpha) {
  switch (op) {
    case BinaryOp::kAdd: HotBinary<BinaryOp::kAdd>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kSub: HotBinary<BinaryOp::kSub>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kMul: HotBinary<BinaryOp::kMul>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kReluGrad: HotBinary<BinaryOp::kReluGrad>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kTanhGrad: HotBinary<BinaryOp::kTanhGrad>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kSigmoidGrad: HotBinary<BinaryOp::kSigmoidGrad>(queue, shape, a, b, y, alpha); return true;
    default: return false;
  }
}

}  // namespace

void LaunchUnary(const Queue& queue, UnaryOp op, Type type, const void* x, void* y, int64_t n, double alpha) {
  if (type == Type::kFloat && LaunchHotUnary(queue, op, x, y, n, alpha)) return;
  const auto launch = [&](auto tag, auto floating) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(y), UnaryBody<T, decltype(floating)::value>{op, static_cast<const T*>(x), alpha});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, [&](auto tag) { launch(tag, std::true_type()); });
  ForInteger(type, [&](auto tag) { launch(tag, std::false_type()); });
}

void LaunchBinary(const Queue& queue, BinaryOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                  void* y, double alpha) {
  if (type == Type::kFloat && LaunchHotBinary(queue, op, shape, a, b, y, alpha)) return;
  const auto launch = [&](auto tag, auto floating) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        BinaryBody<T, decltype(floating)::value>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b), alpha});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, [&](auto tag) { launch(tag, std::true_type()); });
  ForInteger(type, [&](auto tag) { launch(tag, std::false_type()); });
}

void LaunchCompare(const Queue& queue, CompareOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                   bool* y) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, y, CompareBody<T>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

void LaunchLogical(const Queue& queue, LogicalOp op, const Broadcast& shape, const bool* a, const bool* b, bool* y) {
  Map(queue, shape.elements, y, LogicalBody{op, IndexOf(shape), a, b});
}

void LaunchSelect(const Queue& queue, int bytes, const Broadcast& shape, const bool* condition, const void* a,
                  const void* b, void* y) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        SelectBody<T>{IndexOf(shape), condition, static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

void LaunchCast(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n) {
  switch (from) {
    case Type::kFloat: return CastFrom(queue, to, static_cast<const float*>(x), y, n);
    case Type::kDouble: return CastFrom(queue, to, static_cast<const double*>(x), y, n);
    case Type::kHalf: return CastFrom(queue, to, static_cast<const Half*>(x), y, n);
    case Type::kBfloat16: return CastFrom(queue, to, static_cast<const Bfloat16*>(x), y, n);
    case Type::kInt32: return CastFrom(queue, to, static_cast<const int32_t*>(x), y, n);
    case Type::kInt64: return CastFrom(queue, to, static_cast<const int64_t*>(x), y, n);
    case Type::kUint8: return CastFrom(queue, to, static_cast<const uint8_t*>(x), y, n);
    case Type::kBool: return CastFrom(queue, to, static_cast<const bool*>(x), y, n);
    default: return;
  }
}

int64_t AddNScratchBytes(Type type, int count, int64_t n) {
  if (count <= kMaxAddends) return 0;
  return n * (type == Type::kDouble || type == Type::kInt64 ? 8 : 4);
}

void LaunchAddN(const Queue& queue, Type type, const void* const* inputs, int count, void* y, int64_t n, void* scratch) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = typename Wide<T>::type;
    const auto fill = [&](auto& body, int first, int end) {
      for (int k = first; k < end; ++k) body.inputs[k - first] = static_cast<const T*>(inputs[k]);
      body.count = end - first;
      body.before = first > 0 ? static_cast<const W*>(scratch) : nullptr;
    };
    int first = 0;
    for (; count - first > kMaxAddends; first += kMaxAddends) {
      AddNBody<T, W> body = {};
      fill(body, first, first + kMaxAddends);
      Map(queue, n, static_cast<W*>(scratch), body);
    }
    AddNBody<T, T> body = {};
    fill(body, first, count);
    Map(queue, n, static_cast<T*>(y), body);
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
