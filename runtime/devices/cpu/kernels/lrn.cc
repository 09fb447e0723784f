// Local response normalisation across channels and its gradient.
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_math.h"

namespace millrace::cpu {
namespace {

struct LrnAttrs {
  float bias, alpha, beta;
};

// A position costs about as much as moving this many of its elements.
constexpr int64_t kLrnWeight = 8;

// sums[c] = padded[c] + … + padded[c + 2 * radius]: the window around element c of a row padded by `radius` zeros.
void SumWindows(const float* __restrict__ padded, int64_t channels, int64_t radius, float* __restrict__ sums) {
  std::copy(padded, padded + channels, sums);
  for (int64_t k = 1; k <= 2 * radius; ++k) {
    for (int64_t c = 0; c < channels; ++c) sums[c] += padded[c + k];
  }
}

// powers = norms ^ -beta.
void NegativePower(const float* norms, float beta, int64_t n, float* powers) {
  const ConstRowMap<float> in(norms, n);
  RowMap<float> out(powers, n);
  if (beta == 1.0f) {
    out = in.inverse();
  } else if (beta == 0.5f) {
    out = in.sqrt().inverse();
  } else if (beta == 0.75f) {
    out = (in * in.sqrt()).sqrt().inverse();
  } else {
    out = (in.log() * -beta).exp();
  }
}

// Positions of few channels are worked on several at a time, a `step` apart, with zeros between them: so loops are long, and no window
// reaches another position's channels. They fill whole vectors, so that a position's bits do not depend on where in the block it is.
struct LrnBlock {
  int64_t channels, radius, positions, step, length;

  LrnBlock(int64_t channels, int64_t radius) : channels(channels), radius(radius) {
    constexpr int64_t kManyChannels = 64, kElements = 256, kLanes = 16;
    const bool many = channels >= kManyChannels;
    step = many ? channels : channels + 2 * radius;
    positions = many ? 1 : std::max<int64_t>(kElements / step, 1);
    length = many ? channels : (positions * step + kLanes - 1) / kLanes * kLanes;
  }
  int64_t buffer() const { return AlignUp((length + 2 * radius) * 4) / 4; }
  int64_t scratch_bytes() const { return 5 * buffer() * 4; }
};

// Buffers of one shard's scratch. `padded` has `radius` zeros before the first element.
struct LrnRows {
  float *padded, *x, *norms, *powers, *sums;

  LrnRows(void* scratch, int64_t shard, const LrnBlock& block) {
    float* base = static_cast<float*>(scratch) + shard * 5 * block.buffer();
    padded = base;
    x = base + block.buffer();
    norms = base + 2 * block.buffer();
    powers = base + 3 * block.buffer();
    sums = base + 4 * block.buffer();
    std::fill_n(base, 2 * block.buffer(), 0.0f);
  }
};

// Calls fn(element of a tensor, element of a buffer) for the channels of `positions` positions.
template <typename Fn>
void ForChannels(const LrnBlock& block, int64_t positions, Fn&& fn) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < block.channels; ++c) fn(p * block.channels + c, p * block.step + c);
  }
}

// norms = bias + alpha * sum of squares in the window, powers = norms ^ -beta, of the block in `rows.x`.
void Normalizers(const LrnAttrs& attrs, const LrnBlock& block, LrnRows& rows) {
  float* middle = rows.padded + block.radius;
  for (int64_t i = 0; i < block.length; ++i) middle[i] = rows.x[i] * rows.x[i];
  SumWindows(rows.padded, block.length, block.radius, rows.sums);
  for (int64_t i = 0; i < block.length; ++i) rows.norms[i] = attrs.bias + attrs.alpha * rows.sums[i];
  NegativePower(rows.norms, attrs.beta, block.length, rows.powers);
}

template <typename T>
void Forward(const LrnAttrs& attrs, const LrnBlock& block, int64_t positions, const T* x, LrnRows& rows, T* y) {
  ForChannels(block, positions, [&](int64_t e, int64_t i) { rows.x[i] = static_cast<float>(x[e]); });
  Normalizers(attrs, block, rows);
  ForChannels(block, positions, [&](int64_t e, int64_t i) { y[e] = static_cast<T>(rows.x[i] * rows.powers[i]); });
}

template <typename T>
void Backward(const LrnAttrs& attrs, const LrnBlock& block, int64_t positions, const T* dy, const T* x, const T* y, LrnRows& rows, T* dx) {
  ForChannels(block, positions, [&](int64_t e, int64_t i) { rows.x[i] = static_cast<float>(x[e]); });
  Normalizers(attrs, block, rows);
  float* middle = rows.padded + block.radius;  // still zeros between positions
  ForChannels(block, positions, [&](int64_t e, int64_t i) { middle[i] = static_cast<float>(dy[e]) * static_cast<float>(y[e]) / rows.norms[i]; });
  SumWindows(rows.padded, block.length, block.radius, rows.sums);
  const float factor = 2.0f * attrs.alpha * attrs.beta;
  ForChannels(block, positions, [&](int64_t e, int64_t i) {
    dx[e] = static_cast<T>(static_cast<float>(dy[e]) * rows.powers[i] - factor * rows.x[i] * rows.sums[i]);
  });
}

template <typename T, bool kGradient>
std::unique_ptr<Kernel> MakeTyped(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t channels = shape.dim(3);
  if (shape.num_elements() == 0) return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
  LrnAttrs attrs;
  const LrnBlock block(channels, std::min<int64_t>(node.attrs.GetOr<int64_t>("depth_radius", 5), channels));
  attrs.bias = node.attrs.GetOr<float>("bias", 1.0f);
  attrs.alpha = node.attrs.GetOr<float>("alpha", 1.0f);
  attrs.beta = node.attrs.GetOr<float>("beta", 0.5f);
  const int64_t positions = shape.num_elements() / channels;
  const int64_t shards = NumShards(positions, std::max<int64_t>(kElementGrain / kLrnWeight / channels, 1));
  return MakeKernel(
      [=](const KernelContext& context) {
        context.parallel->For(shards, [&](int64_t s) {
          LrnRows rows(context.scratch, s, block);
          const int64_t end = positions * (s + 1) / shards;
          for (int64_t p = positions * s / shards; p < end; p += block.positions) {
            const int64_t at = p * channels, count = std::min(block.positions, end - p);
            if constexpr (kGradient) {
              Backward(attrs, block, count, context.input<T>(0) + at, context.input<T>(1) + at, context.input<T>(2) + at, rows,
                       context.output<T>(0) + at);
            } else {
              Forward(attrs, block, count, context.input<T>(0) + at, rows, context.output<T>(0) + at);
            }
          }
        });
        return absl::OkStatus();
      },
      shards * block.scratch_bytes());
}

template <bool kGradient>
absl::StatusOr<std::unique_ptr<Kernel>> MakeLrn(const OpInstance& node) {
  switch (node.inputs[0].dtype) {
    case DataType::kFloat: return MakeTyped<float, kGradient>(node);
    case DataType::kHalf: return MakeTyped<Eigen::half, kGradient>(node);
    case DataType::kBfloat16: return MakeTyped<Eigen::bfloat16, kGradient>(node);
    default: return UnsupportedType(node, node.inputs[0].dtype);
  }
}

}  // namespace

void RegisterLrnKernels(KernelRegistry& registry) {
  AddKernel(registry, "LRN", MakeLrn<false>);
  AddKernel(registry, "LRNGrad", MakeLrn<true>);
}

}  // namespace millrace::cpu
