// Local response normalisation across channels and its gradient.
#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_math.h"

namespace millrace::cpu {
namespace {

struct LrnAttrs {
  int64_t radius;
  float bias, alpha, beta;
};

// A position costs about as much as moving this many of its elements.
constexpr int64_t kLrnWeight = 8;

// sums[c] = padded[c] + … + padded[c + 2 * radius]: the window around channel c of a row padded by `radius` zeros.
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

// Rows of one shard's scratch.
struct LrnRows {
  float *padded, *x, *norms, *powers, *sums;

  static int64_t Stride(int64_t channels, int64_t radius) { return AlignUp((channels + 2 * radius) * 4); }
  LrnRows(void* scratch, int64_t shard, int64_t channels, int64_t radius) {
    const int64_t stride = Stride(channels, radius) / 4;
    float* base = static_cast<float*>(scratch) + shard * 5 * stride;
    padded = base;
    x = base + stride;
    norms = base + 2 * stride;
    powers = base + 3 * stride;
    sums = base + 4 * stride;
    std::fill(padded, padded + channels + 2 * radius, 0.0f);
  }
};

// norms = bias + alpha * sum of squares in the window, powers = norms ^ -beta, of the row in `rows.x`.
void Normalizers(const LrnAttrs& attrs, int64_t channels, LrnRows& rows) {
  float* middle = rows.padded + attrs.radius;
  for (int64_t c = 0; c < channels; ++c) middle[c] = rows.x[c] * rows.x[c];
  SumWindows(rows.padded, channels, attrs.radius, rows.sums);
  for (int64_t c = 0; c < channels; ++c) rows.norms[c] = attrs.bias + attrs.alpha * rows.sums[c];
  NegativePower(rows.norms, attrs.beta, channels, rows.powers);
}

template <typename T>
void ForwardRow(const LrnAttrs& attrs, const T* x, int64_t channels, LrnRows& rows, T* y) {
  for (int64_t c = 0; c < channels; ++c) rows.x[c] = static_cast<float>(x[c]);
  Normalizers(attrs, channels, rows);
  for (int64_t c = 0; c < channels; ++c) y[c] = static_cast<T>(rows.x[c] * rows.powers[c]);
}

template <typename T>
void BackwardRow(const LrnAttrs& attrs, const T* dy, const T* x, const T* y, int64_t channels, LrnRows& rows, T* dx) {
  for (int64_t c = 0; c < channels; ++c) rows.x[c] = static_cast<float>(x[c]);
  Normalizers(attrs, channels, rows);
  float* middle = rows.padded + attrs.radius;
  for (int64_t c = 0; c < channels; ++c) {
    middle[c] = static_cast<float>(dy[c]) * static_cast<float>(y[c]) / rows.norms[c];
  }
  SumWindows(rows.padded, channels, attrs.radius, rows.sums);
  const float factor = 2.0f * attrs.alpha * attrs.beta;
  for (int64_t c = 0; c < channels; ++c) {
    dx[c] = static_cast<T>(static_cast<float>(dy[c]) * rows.powers[c] - factor * rows.x[c] * rows.sums[c]);
  }
}

template <typename T, bool kGradient>
std::unique_ptr<Kernel> MakeTyped(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t channels = shape.dim(3);
  if (shape.num_elements() == 0) return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
  LrnAttrs attrs;
  attrs.radius = std::min<int64_t>(node.attrs.GetOr<int64_t>("depth_radius", 5), channels);
  attrs.bias = node.attrs.GetOr<float>("bias", 1.0f);
  attrs.alpha = node.attrs.GetOr<float>("alpha", 1.0f);
  attrs.beta = node.attrs.GetOr<float>("beta", 0.5f);
  const int64_t positions = shape.num_elements() / channels;
  const int64_t shards = NumShards(positions, std::max<int64_t>(kElementGrain / kLrnWeight / channels, 1));
  return MakeKernel(
      [=](const KernelContext& context) {
        context.parallel->For(shards, [&](int64_t s) {
          LrnRows rows(context.scratch, s, channels, attrs.radius);
          for (int64_t p = positions * s / shards; p < positions * (s + 1) / shards; ++p) {
            const int64_t at = p * channels;
            if constexpr (kGradient) {
              BackwardRow(attrs, context.input<T>(0) + at, context.input<T>(1) + at, context.input<T>(2) + at, channels,
                          rows, context.output<T>(0) + at);
            } else {
              ForwardRow(attrs, context.input<T>(0) + at, channels, rows, context.output<T>(0) + at);
            }
          }
        });
        return absl::OkStatus();
      },
      shards * 5 * LrnRows::Stride(channels, attrs.radius));
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
