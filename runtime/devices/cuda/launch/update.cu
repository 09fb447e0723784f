// The rules, each as TensorFlow computes it, in float32 or float64; half precision is widened.
#include "cuda/launch/update.h"

#include "cuda/launch/pack.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/sort.h"

namespace millrace::cuda {
namespace {

template <typename W>
MR_DEVICE W SignOf(W x) {
  return x != x ? x : static_cast<W>((x > W(0)) - (x < W(0)));
}
template <typename W>
MR_DEVICE W PositivePart(W x) {
  return x < W(0) ? W(0) : x;
}
// The proximal step from `at` with rate `lr`.
template <typename W>
MR_DEVICE W Proximal(W at, W lr, W l1, W l2) {
  const W shrunk = l1 > W(0) ? SignOf(at) * PositivePart<W>(fabs(at) - lr * l1) : at;
  return shrunk / (W(1) + l2 * lr);
}

// What is the same for all elements of an update.
template <typename W>
struct Scalars {
  W c[kMaxScalars];
  W alpha;  // the rate of Adam's rules
};

// The variable s[0] and its slots, updated by the gradient g; c: the scalars.
template <typename W>
MR_DEVICE void MomentumRule(UpdateRule rule, const W* c, W g, W* s) {
  const bool nesterov = rule == UpdateRule::kNesterovMomentum || rule == UpdateRule::kKerasNesterovMomentum;
  const W lr = c[0], momentum = c[1];
  if (rule == UpdateRule::kMomentum || rule == UpdateRule::kNesterovMomentum) {
    s[1] = s[1] * momentum + g;
    s[0] = s[0] - (nesterov ? g * lr + s[1] * momentum * lr : s[1] * lr);
  } else {
    s[1] = s[1] * momentum - g * lr;
    s[0] = s[0] + (nesterov ? s[1] * momentum - g * lr : s[1]);
  }
}
template <typename W>
MR_DEVICE W AdamRate(const W* c) {
  return c[2] * sqrt(W(1) - c[1]) / (W(1) - c[0]);
}
template <typename W>
MR_DEVICE void AdamRule(UpdateRule rule, const W* c, W alpha, W g, W* s) {
  const W beta1 = c[3], beta2 = c[4], epsilon = c[5];
  s[1] = s[1] + (g - s[1]) * (W(1) - beta1);
  s[2] = s[2] + (g * g - s[2]) * (W(1) - beta2);
  if (rule == UpdateRule::kAmsgradAdam) {
    s[3] = s[3] < s[2] ? s[2] : s[3];
    s[0] = s[0] - (s[1] * alpha) / (sqrt(s[3]) + epsilon);
    return;
  }
  const W step = rule == UpdateRule::kNesterovAdam ? (g * (W(1) - beta1) + beta1 * s[1]) * alpha : s[1] * alpha;
  s[0] = s[0] - step / (sqrt(s[2]) + epsilon);
}
template <typename W>
MR_DEVICE void AdagradRule(UpdateRule rule, const W* c, W g, W* s) {
  if (rule != UpdateRule::kFrozenAdagrad && rule != UpdateRule::kFrozenAdagradV2) s[1] = s[1] + g * g;
  if (rule == UpdateRule::kAdagrad || rule == UpdateRule::kFrozenAdagrad) {
    s[0] = s[0] - g * c[0] * (W(1) / sqrt(s[1]));
  } else {
    s[0] = s[0] - g * c[0] / (sqrt(s[1]) + c[1]);
  }
}
template <typename W>
MR_DEVICE void AdagradDaRule(const W* c, W g, W* s) {
  const W lr = c[0], l1_steps = c[3] * c[1], l2_steps = c[2] * c[3] * c[0];
  s[1] = s[1] + g;
  s[2] = s[2] + g * g;
  const W shrunk = l1_steps > W(0) ? SignOf(s[1]) * PositivePart<W>(fabs(s[1]) - l1_steps) : s[1];
  s[0] = (W(-1) * lr * shrunk) / (l2_steps + sqrt(s[2]));
}
template <typename W>
MR_DEVICE void FtrlRule(UpdateRule rule, const W* c, W g, W* s) {
  const bool shrinks = rule == UpdateRule::kFtrlV2 || rule == UpdateRule::kScaledFtrlV2;
  const bool scaled = rule == UpdateRule::kScaledFtrl || rule == UpdateRule::kScaledFtrlV2;
  const W lr = c[0], l1 = c[1], l2 = c[2], power = -(shrinks ? c[4] : c[3]);
  const W shrunk = shrinks ? g + W(2) * c[3] * s[0] : g;
  const W accum = s[1] + g * g;
  const bool root = power == W(0.5);
  const W new_power = root ? sqrt(accum) : pow(accum, power);
  const W growth = new_power - (root ? sqrt(s[1]) : pow(s[1], power));
  const W threshold = scaled ? l1 * lr : l1;
  s[2] = s[2] + (scaled ? shrunk * lr - growth * s[0] : shrunk - growth / lr * s[0]);
  const W divisor = scaled ? new_power + W(2) * l2 * lr : new_power / lr + W(2) * l2;
  s[0] = fabs(s[2]) > threshold ? (threshold * SignOf(s[2]) - s[2]) / divisor : W(0);
  s[1] = accum;
}
template <typename W>
MR_DEVICE void RmsPropRule(UpdateRule rule, const W* c, W g, W* s) {
  const W lr = c[0], rho = c[1], momentum = c[2], epsilon = c[3];
  if (rule == UpdateRule::kRmsProp) {
    s[1] = s[1] + (g * g - s[1]) * (W(1) - rho);
    s[2] = s[2] * momentum + g * lr / sqrt(s[1] + epsilon);
    s[0] = s[0] - s[2];
    return;
  }
  s[2] = s[2] + (g * g - s[2]) * (W(1) - rho);
  s[1] = s[1] + (g - s[1]) * (W(1) - rho);
  s[3] = s[3] * momentum + g * lr / sqrt(s[2] - s[1] * s[1] + epsilon);
  s[0] = s[0] - s[3];
}
template <typename W>
MR_DEVICE void SignRule(UpdateRule rule, const W* c, W g, W* s) {
  s[1] = s[1] * c[3] + g * (W(1) - c[3]);
  const W agreement = SignOf(g) * SignOf(s[1]);
  if (rule == UpdateRule::kAddSign) {
    s[0] = s[0] - c[0] * (c[1] + c[2] * agreement) * g;
    return;
  }
  const W exponent = c[1] * c[2];
  const W scale = agreement > W(0) ? exp(exponent) : agreement < W(0) ? exp(-exponent) : W(1) + agreement;  // 1, or NaN
  s[0] = s[0] - c[0] * scale * g;
}

template <typename W>
MR_DEVICE void ApplyRule(UpdateRule rule, const Scalars<W>& scalars, W g, W* s) {
  const W* const c = scalars.c;
  switch (rule) {
    case UpdateRule::kAssign: s[0] = g; return;
    case UpdateRule::kAssignAdd: s[0] = s[0] + g; return;
    case UpdateRule::kAssignSub: s[0] = s[0] - g; return;
    case UpdateRule::kMovingAverage: s[0] = s[0] - (s[0] - g) * c[0]; return;
    case UpdateRule::kGradientDescent: s[0] = s[0] - c[0] * g; return;
    case UpdateRule::kAdam:
    case UpdateRule::kNesterovAdam:
    case UpdateRule::kAmsgradAdam: return AdamRule(rule, c, scalars.alpha, g, s);
    case UpdateRule::kAdaMax: {
      s[1] = s[1] + (g - s[1]) * (W(1) - c[2]);
      const W decayed = c[3] * s[2], size = fabs(g);
      s[2] = decayed < size ? size : decayed;
      s[0] = s[0] - c[1] / (W(1) - c[0]) * (s[1] / (s[2] + c[4]));
      return;
    }
    case UpdateRule::kAdagrad:
    case UpdateRule::kFrozenAdagrad:
    case UpdateRule::kAdagradV2:
    case UpdateRule::kFrozenAdagradV2: return AdagradRule(rule, c, g, s);
    case UpdateRule::kAdagradDA: return AdagradDaRule(c, g, s);
    case UpdateRule::kProximalGradientDescent: s[0] = Proximal(s[0] - g * c[0], c[0], c[1], c[2]); return;
    case UpdateRule::kProximalAdagrad: {
      s[1] = s[1] + g * g;
      const W rate = c[0] * (W(1) / sqrt(s[1]));
      s[0] = Proximal(s[0] - g * rate, rate, c[1], c[2]);
      return;
    }
    case UpdateRule::kAdadelta: {
      s[1] = s[1] * c[1] + g * g * (W(1) - c[1]);
      const W update = sqrt(s[2] + c[2]) * (W(1) / sqrt(s[1] + c[2])) * g;
      s[0] = s[0] - update * c[0];
      s[2] = s[2] * c[1] + update * update * (W(1) - c[1]);
      return;
    }
    case UpdateRule::kFtrl:
    case UpdateRule::kScaledFtrl:
    case UpdateRule::kFtrlV2:
    case UpdateRule::kScaledFtrlV2: return FtrlRule(rule, c, g, s);
    case UpdateRule::kRmsProp:
    case UpdateRule::kCenteredRmsProp: return RmsPropRule(rule, c, g, s);
    case UpdateRule::kAddSign:
    case UpdateRule::kPowerSign: return SignRule(rule, c, g, s);
    default: return MomentumRule(rule, c, g, s);
  }
}

template <typename W>
MR_DEVICE W ScalarAt(const void* at, Type type) {
  switch (type) {
    case Type::kDouble: return static_cast<W>(*static_cast<const double*>(at));
    case Type::kHalf: return static_cast<W>(Widen(*static_cast<const Half*>(at)));
    case Type::kBfloat16: return static_cast<W>(Widen(*static_cast<const Bfloat16*>(at)));
    case Type::kInt32: return static_cast<W>(*static_cast<const int32_t*>(at));
    case Type::kInt64: return static_cast<W>(*static_cast<const int64_t*>(at));
    default: return static_cast<W>(*static_cast<const float*>(at));
  }
}

template <typename W>
MR_DEVICE Scalars<W> ScalarsOf(UpdateRule rule, const UpdateArguments& u) {
  Scalars<W> scalars = {};
  for (int k = 0; k < kMaxScalars; ++k) {
    scalars.c[k] = u.scalars[k] == nullptr ? static_cast<W>(u.values[k]) : ScalarAt<W>(u.scalars[k], u.scalar_types[k]);
  }
  const bool adam = rule == UpdateRule::kAdam || rule == UpdateRule::kNesterovAdam || rule == UpdateRule::kAmsgradAdam;
  if (adam) scalars.alpha = AdamRate(scalars.c);
  return scalars;
}

// A rule that is known when compiling, as those are that most variables are updated by, takes 16 bytes of each tensor at once.
template <UpdateRule kRule, int kSlots>
struct KnownRule {
  static constexpr int kBytes = 16;
  MR_DEVICE static constexpr UpdateRule rule() { return kRule; }
  MR_DEVICE static constexpr int slots() { return kSlots; }
};
struct AnyRule {
  static constexpr int kBytes = 1;  // an element
  UpdateRule named;
  int used;
  MR_DEVICE UpdateRule rule() const { return named; }
  MR_DEVICE int slots() const { return used; }
};
template <typename Fn>
void ForRule(UpdateRule rule, int slots, const Fn& fn) {
  if (rule == UpdateRule::kAdam && slots == 3) return fn(KnownRule<UpdateRule::kAdam, 3>());
  if (rule == UpdateRule::kMomentum && slots == 2) return fn(KnownRule<UpdateRule::kMomentum, 2>());
  if (rule == UpdateRule::kGradientDescent && slots == 1) return fn(KnownRule<UpdateRule::kGradientDescent, 1>());
  if (rule == UpdateRule::kAssign && slots == 1) return fn(KnownRule<UpdateRule::kAssign, 1>());
  if (rule == UpdateRule::kAssignAdd && slots == 1) return fn(KnownRule<UpdateRule::kAssignAdd, 1>());
  if (rule == UpdateRule::kAssignSub && slots == 1) return fn(KnownRule<UpdateRule::kAssignSub, 1>());
  if (rule == UpdateRule::kMovingAverage && slots == 1) return fn(KnownRule<UpdateRule::kMovingAverage, 1>());
  fn(AnyRule{rule, slots});
}

// Elements [at, at + kCount) of the slots, by those of the gradient that begin at `from`.
template <int kCount, typename T, typename Rule>
MR_DEVICE void UpdateAt(const Rule& rule, const UpdateArguments& u, const Scalars<typename Wide<T>::type>& scalars, int64_t at,
                        int64_t from) {
  using W = typename Wide<T>::type;
  using Elements = Pack<T, kCount>;
  Elements slots[kMaxSlots] = {};
  for (int k = 0; k < kMaxSlots; ++k) {
    if (k < rule.slots()) slots[k] = Load<kCount>(static_cast<const T*>(u.slots[k]) + at);
  }
  const Elements gradient = Load<kCount>(static_cast<const T*>(u.gradient) + from);
  for (int j = 0; j < kCount; ++j) {
    W s[kMaxSlots];
    for (int k = 0; k < kMaxSlots; ++k) s[k] = Widen(slots[k].of[j]);
    ApplyRule<W>(rule.rule(), scalars, Widen(gradient.of[j]), s);
    for (int k = 0; k < kMaxSlots; ++k) slots[k].of[j] = Wide<T>::Narrow(s[k]);
  }
  for (int k = 0; k < kMaxSlots; ++k) {
    if (k < rule.slots()) Store(static_cast<T*>(u.slots[k]) + at, slots[k]);
  }
}

// Whether all tensors of an update begin where `bytes` may be moved together.
MR_DEVICE inline bool Aligned(const UpdateArguments& u, int slots, int bytes) {
  uintptr_t low = reinterpret_cast<uintptr_t>(u.gradient);
  for (int k = 0; k < kMaxSlots; ++k) low |= k < slots ? reinterpret_cast<uintptr_t>(u.slots[k]) : 0;
  return low % bytes == 0;
}

// Several updates, cut into chunks: chunks [first[k], first[k + 1]) are of update k.
inline constexpr int64_t kUpdateChunk = 4096;
struct Together {
  int count = 0;
  int64_t first[kMaxUpdatesTogether + 1] = {};
  UpdateArguments updates[kMaxUpdatesTogether];
};

// What one of `threads` does of a chunk.
template <typename T, typename Rule>
MR_DEVICE void UpdateChunk(const Rule& rule, const UpdateArguments& update, const Scalars<typename Wide<T>::type>& scalars,
                           int64_t chunk, int thread, int threads) {
  constexpr int kCount = Rule::kBytes > sizeof(T) ? Rule::kBytes / sizeof(T) : 1;
  int64_t begin = chunk * kUpdateChunk;
  const int64_t end = begin + kUpdateChunk < update.elements ? begin + kUpdateChunk : update.elements;
  if constexpr (kCount > 1) {
    if (Aligned(update, rule.slots(), Rule::kBytes)) {
      const int64_t whole = end - end % kCount;
      for (int64_t i = begin + thread * kCount; i < whole; i += threads * kCount) UpdateAt<kCount, T>(rule, update, scalars, i, i);
      begin = whole;
    }
  }
  for (int64_t i = begin + thread; i < end; i += threads) UpdateAt<1, T>(rule, update, scalars, i, i);
}

#if defined(__CUDACC__)

static_assert(sizeof(Together) < 32000, "the arguments of a kernel");

template <typename T, typename Rule>
__global__ void __launch_bounds__(kThreads) TogetherKernel(Rule rule, const __grid_constant__ Together all, const Fault* fault) {
  if (HasFault(fault)) return;
  int read = -1;  // the update whose scalars are at hand
  Scalars<typename Wide<T>::type> scalars;
  for (int64_t chunk = blockIdx.x; chunk < all.first[all.count]; chunk += gridDim.x) {
    int low = 0, high = all.count;  // update `low` begins at or before the chunk, `high` behind it
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (all.first[middle] <= chunk ? low : high) = middle;
    }
    const UpdateArguments& update = all.updates[low];
    if (read != low) scalars = ScalarsOf<typename Wide<T>::type>(rule.rule(), update);
    read = low;
    UpdateChunk<T>(rule, update, scalars, chunk - all.first[low], static_cast<int>(threadIdx.x), kThreads);
  }
}

template <typename T, typename Rule>
void RunTogether(const Queue& queue, const Rule& rule, const Together& all) {
  const int64_t chunks = all.first[all.count], blocks = chunks < kMaxBlocks ? chunks : kMaxBlocks;
  if (blocks == 0 || !MayLaunch(queue)) return;
  TogetherKernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(rule, all, queue.fault);
}

#else

template <typename T, typename Rule>
void RunTogether(const Queue& queue, const Rule& rule, const Together& all) {
  ForEach(queue, all.first[all.count], [&](int64_t chunk) {
    int k = 0;
    while (all.first[k + 1] <= chunk) ++k;
    const auto scalars = ScalarsOf<typename Wide<T>::type>(rule.rule(), all.updates[k]);
    UpdateChunk<T>(rule, all.updates[k], scalars, chunk - all.first[k], /*thread=*/0, /*threads=*/1);
  });
}

#endif

// The first index of a row in the sorted order takes the row's updates one after another.
template <typename T>
struct SparseBody {
  AnyRule rule;
  UpdateArguments update;
  int64_t n;
  Divider inner;
  SortedRows sorted;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t first = inner(i), column = i - first * inner.by;
    const int32_t row = sorted.rows[first];
    if (row == sorted.skipped || (first > 0 && sorted.rows[first - 1] == row)) return;
    const auto scalars = ScalarsOf<typename Wide<T>::type>(rule.rule(), update);
    for (int64_t k = first; k < n && sorted.rows[k] == row; ++k) {
      UpdateAt<1, T>(rule, update, scalars, row * inner.by + column, sorted.items[k] * inner.by + column);
    }
  }
};

}  // namespace

void LaunchUpdate(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments& arguments) {
  LaunchUpdates(queue, rule, type, slots, &arguments, 1);
}

void LaunchUpdates(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments* updates, int count) {
  while (count > 0) {
    Together all;
    while (all.count < kMaxUpdatesTogether && count > 0) {
      all.updates[all.count] = *updates++;
      all.first[all.count + 1] = all.first[all.count] + CeilDiv(all.updates[all.count].elements, kUpdateChunk);
      ++all.count;
      --count;
    }
    ForFloating(type, [&](auto tag) {
      ForRule(rule, slots, [&](auto known) { RunTogether<typename decltype(tag)::type>(queue, known, all); });
    });
  }
}

void LaunchSparseUpdate(const Queue& queue, UpdateRule rule, Type type, int slots, const UpdateArguments& arguments,
                        const RowIndex& index, int64_t rows, int64_t inner, const void* indices, void* scratch) {
  const int64_t n = index.count;
  if (n == 0 || inner == 0 || rows == 0) return;
  const SortedRows sorted = SortRows(queue, index, rows, indices, scratch);
  ForFloating(type, [&](auto tag) {
    ForEach(queue, n * inner, SparseBody<typename decltype(tag)::type>{{rule, slots}, arguments, n, DivideBy(inner, n * inner),
                                                                       sorted});
  });
}

}  // namespace millrace::cuda
