#include "cuda/launch/check.h"

#include "cuda/launch/layout.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// Of NotFinite (graph/value_errors.h).
constexpr int32_t kNan = 1, kNegativeInf = 2, kPositiveInf = 4;

template <typename T>
struct CheckBody {
  const T* x;
  int32_t* found;
  MR_DEVICE T operator()(int64_t i) const {
    const T element = x[i];
    const auto value = Widen(element);
    if (value - value == 0) return element;
    const int32_t kind = value != value ? kNan : value < 0 ? kNegativeInf : kPositiveInf;
#if defined(__CUDA_ARCH__)
    if ((*static_cast<const volatile int32_t*>(found) & kind) == 0) atomicOr(found, kind);  // one of a whole tensor of them is enough
#else
    *found |= kind;
#endif
    return element;
  }
};

struct ReportBody {
  Queue queue;
  const int32_t* found;
  MR_DEVICE void operator()(int64_t) const {
    if (*found != 0) Report(queue, FaultCode::kNotFinite, *found, 0, 0);
  }
};

struct AssertBody {
  Queue queue;
  const bool* condition;
  int count;
  ShownElement shown[kMostInTuple];
  MR_DEVICE void operator()(int64_t) const {
    if (*condition || !Report(queue, FaultCode::kAssertion, count, 0, 0)) return;
    for (int k = 0; k < count; ++k) {
      char* const to = reinterpret_cast<char*>(&queue.fault->tuple[k]);
      for (int b = 0; b < shown[k].bytes; ++b) to[b] = static_cast<const char*>(shown[k].at)[b];
    }
  }
};

}  // namespace

void LaunchCheckNumerics(const Queue& queue, Type type, const void* x, void* y, int64_t n, void* scratch) {
  auto* const found = static_cast<int32_t*>(scratch);
  LaunchZero(queue, found, sizeof(*found));
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(y), CheckBody<T>{static_cast<const T*>(x), found});
  });
  ForEach(queue, 1, ReportBody{queue, found});
}

void LaunchAssert(const Queue& queue, const bool* condition, const ShownElement* shown, int count) {
  AssertBody body = {queue, condition, count, {}};
  for (int k = 0; k < count; ++k) body.shown[k] = shown[k];
  ForEach(queue, 1, body);
}

}  // namespace millrace::cuda
