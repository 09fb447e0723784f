// Around kernels that are written for one group of elementwise ops with reductions of what they compute, and compiled while a
// program runs. No standard headers but where the host's compiler reads it.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_REDUCE_BODY_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_REDUCE_BODY_H_

#include "cuda/launch/fused_body.h"
#include "cuda/launch/sum_kernels.h"

namespace millrace::cuda {

inline constexpr int kMaxFusedReductions = 4;

enum class FusedReduction : uint8_t { kSum, kMean, kMax, kMin };

// What of each reduction is known so far, as reduce.cu has it of one.
template <int kCount>
struct FusedSums {
  double of[kCount];
};

struct FusedReduceArguments {
  FusedArguments group;
  int64_t rows = 1, terms = 1, chunks = 1;
  bool columns = false;
  StridedIndex<1> row_index, term_index;  // element of the group's shape that a row begins with, and term k from there
  void* reduced[kMaxFusedReductions] = {};
  void* partial = nullptr;  // rows * chunks FusedSums, where there are several chunks
};

MR_DEVICE inline double ReductionIdentity(FusedReduction op) {
  const double infinity = FloatOf(0x7f800000u);
  return op == FusedReduction::kMax ? -infinity : op == FusedReduction::kMin ? infinity : 0.0;
}
MR_DEVICE inline double ReduceOne(FusedReduction op, double a, double b) {
  switch (op) {
    case FusedReduction::kMax: return a != a || a > b ? a : b;
    case FusedReduction::kMin: return a != a || a < b ? a : b;
    default: return a + b;
  }
}
template <typename T>
MR_DEVICE void StoreReduced(FusedReduction op, const FusedReduceArguments& r, int k, int64_t row, double sum) {
  if (op == FusedReduction::kMean) sum = sum / static_cast<double>(r.terms);
  static_cast<T*>(r.reduced[k])[row] = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(sum));
}

// kRank: of the terms: 1 (or 0), 2, or any other number as 0. kSmall: fewer than 2^31 terms.
template <int kRank, bool kSmall>
MR_DEVICE int64_t TermOffset(const FusedReduceArguments& r, int64_t k) {
  const StridedIndex<1>& index = r.term_index;
  if constexpr (kRank == 1) {
    return k * index.strides[0][0];
  } else if constexpr (kRank == 2) {
    const auto [outer, inner] = index.dims[1].template Split<kSmall>(k);
    return outer * index.strides[0][0] + inner * index.strides[0][1];
  } else {
    return index.Offset(k);
  }
}

}  // namespace millrace::cuda

// Body{FusedRule{arguments}}, whose sums are Body::Sums. Sums is one of SumBlocks, SumWarps and SumColumns; MR_FUSED_REST_KERNEL
// adds up what MR_FUSED_REDUCE_KERNEL makes of several chunks.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace millrace::cuda {

template <SumKind kKind, typename Sums, typename Body>
__device__ void SumFused(int64_t rows, int64_t terms, int64_t chunks, Sums* partial, const Body& body, const void* fault) {
  const Fault* const found = static_cast<const Fault*>(fault);
  if constexpr (kKind == SumKind::kWarps) {
    SumWarps<Sums>(rows, terms, body, found);
  } else if constexpr (kKind == SumKind::kColumns) {
    SumColumns<Sums>(rows, terms, chunks, partial, body, found);
  } else {
    SumBlocks<Sums>(rows, terms, chunks, partial, body, found);
  }
}

}  // namespace millrace::cuda

#define MR_FUSED_REDUCE_KERNEL(Body, kind)                                                                            \
  extern "C" __global__ void __launch_bounds__(millrace::cuda::kThreads)                                              \
      millrace_fused(const __grid_constant__ millrace::cuda::FusedReduceArguments r) {                                \
    using namespace millrace::cuda;                                                                                   \
    Body::Sums* const partial = r.chunks > 1 ? static_cast<Body::Sums*>(r.partial) : nullptr;                         \
    SumFused<kind>(r.rows, r.terms, r.chunks, partial, Body{{r}}, r.group.fault);                                     \
  }
#define MR_FUSED_REST_KERNEL(Body, kind)                                                                              \
  extern "C" __global__ void __launch_bounds__(millrace::cuda::kThreads)                                              \
      millrace_fused_rest(const __grid_constant__ millrace::cuda::FusedReduceArguments r) {                           \
    using namespace millrace::cuda;                                                                                   \
    const auto rest = PartialOf(static_cast<const Body::Sums*>(r.partial), r.chunks, Body{{r}});                      \
    SumFused<kind>(r.rows, r.chunks, 1, static_cast<Body::Sums*>(nullptr), rest, r.group.fault);                      \
  }

#else

#include "cuda/launch/portable.h"

#define MR_FUSED_REDUCE_KERNEL(Body, kind)                                                                            \
  extern "C" void millrace_fused(const millrace::cuda::FusedReduceArguments* r) {                                     \
    using namespace millrace::cuda;                                                                                   \
    Fault fault;                                                                                                      \
    SumRows<Body::Sums>({.fault = &fault}, r->rows, r->terms, r->columns, r->partial, Body{{*r}});                    \
  }
#define MR_FUSED_REST_KERNEL(Body, kind)

#endif

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_REDUCE_BODY_H_
