// ScaleAndTranslate: images resampled by a filter that widens when shrinking (antialiasing); and its gradient.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "graph/resampling.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<ResampleFilter> FilterOf(const OpInstance& node) {
  const std::string name = node.attrs.GetOr<std::string>("kernel_type", "lanczos3");
  if (const std::optional<ResampleFilter> filter = ResampleFilterOf(name)) return *filter;
  return absl::InvalidArgumentError(absl::StrCat("Unrecognized kernel type: ", name, " (node '", node.name, "')"));
}

// For every output pixel of an axis the run of input pixels that it is made of, with their weights.
struct Spans {
  std::vector<int64_t> start, first;  // first weight; one more than there are pixels
  std::vector<float> weights;
};

Spans SpansOf(const ResampleAxis& axis, int64_t output) {
  Spans spans;
  for (int64_t x = 0; x < output; ++x) {
    const ResampleAxis::Span span = axis.SpanOf(x);
    spans.first.push_back(static_cast<int64_t>(spans.weights.size()));
    spans.start.push_back(span.start);
    float sum = 0;
    for (int64_t i = span.start; i < span.end; ++i) {
      spans.weights.push_back(axis.WeightAt(span, i));
      sum += spans.weights.back();
    }
    if (std::abs(sum) < kLeastWeights) continue;
    for (size_t k = spans.first.back(); k < spans.weights.size(); ++k) spans.weights[k] /= sum;
  }
  spans.first.push_back(static_cast<int64_t>(spans.weights.size()));
  return spans;
}

struct Geometry {
  int64_t batch, rows, columns, channels, out_rows, out_columns;
};

struct Axes {
  Spans rows, columns;
};

absl::StatusOr<Axes> AxesOf(const KernelContext& context, ResampleFilter filter, const Geometry& g, int scale_input) {
  const bool antialias = context.instance->attrs.GetOr("antialias", true);
  const float *scale = context.input<float>(scale_input), *shift = context.input<float>(scale_input + 1);
  for (int d : {0, 1}) {
    if (!(scale[d] > 0)) return absl::InvalidArgumentError(absl::StrCat("Scale should be greater than zero, got ", scale[d]));
  }
  return Axes{SpansOf(ResampleAxisOf(filter, antialias, g.rows, scale[0], shift[0]), g.out_rows),
              SpansOf(ResampleAxisOf(filter, antialias, g.columns, scale[1], shift[1]), g.out_columns)};
}

// Calls fn(input row, weight) for an output row.
template <typename Fn>
void ForEachTap(const Spans& spans, int64_t at, Fn&& fn) {
  for (int64_t k = spans.first[at]; k < spans.first[at + 1]; ++k) fn(spans.start[at] + k - spans.first[at], spans.weights[k]);
}

// (images, size, scale, translation)
absl::StatusOr<std::unique_ptr<Kernel>> MakeScale(const OpInstance& node) {
  const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
  const Geometry g = {in.dim(0), in.dim(1), in.dim(2), in.dim(3), out.dim(1), out.dim(2)};
  MR_ASSIGN_OR_RETURN(const ResampleFilter filter, FilterOf(node));
  const int64_t rows = g.batch * g.out_rows, width = g.columns * g.channels;
  const int64_t shards = NumShards(rows, std::max<int64_t>(4096 / std::max<int64_t>(width, 1), 1)), stride = AlignUp(width * 4);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel(
        [=](const KernelContext& context) -> absl::Status {
          MR_ASSIGN_OR_RETURN(const Axes axes, AxesOf(context, filter, g, 2));
          context.parallel->For(shards, [&](int64_t s) {
            float* line = reinterpret_cast<float*>(static_cast<char*>(context.scratch) + s * stride);
            for (int64_t row = rows * s / shards; row < rows * (s + 1) / shards; ++row) {
              const T* image = context.input<T>(0) + row / g.out_rows * g.rows * width;
              std::fill_n(line, width, 0.0f);
              ForEachTap(axes.rows, row % g.out_rows, [&](int64_t y, float weight) {
                for (int64_t i = 0; i < width; ++i) line[i] += weight * static_cast<float>(image[y * width + i]);
              });
              float* to = context.output<float>(0) + row * g.out_columns * g.channels;
              std::fill_n(to, g.out_columns * g.channels, 0.0f);
              for (int64_t x = 0; x < g.out_columns; ++x) {
                ForEachTap(axes.columns, x, [&](int64_t from, float weight) {
                  for (int64_t c = 0; c < g.channels; ++c) to[x * g.channels + c] += weight * line[from * g.channels + c];
                });
              }
            }
          });
          return absl::OkStatus();
        },
        shards * stride);
  });
}

// (grads, original_image, scale, translation): the transposed map, an image a shard.
absl::StatusOr<std::unique_ptr<Kernel>> MakeScaleGrad(const OpInstance& node) {
  if (node.outputs[0].dtype != DataType::kFloat) return UnsupportedType(node, node.outputs[0].dtype);
  const Shape &in = node.outputs[0].shape, &out = node.inputs[0].shape;
  const Geometry g = {in.dim(0), in.dim(1), in.dim(2), in.dim(3), out.dim(1), out.dim(2)};
  MR_ASSIGN_OR_RETURN(const ResampleFilter filter, FilterOf(node));
  const int64_t width = g.columns * g.channels, stride = AlignUp(width * 4);
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        MR_ASSIGN_OR_RETURN(const Axes axes, AxesOf(context, filter, g, 2));
        context.parallel->For(g.batch, [&](int64_t b) {
          float* line = reinterpret_cast<float*>(static_cast<char*>(context.scratch) + b * stride);
          float* image = context.output<float>(0) + b * g.rows * width;
          std::fill_n(image, g.rows * width, 0.0f);
          for (int64_t y = 0; y < g.out_rows; ++y) {
            const float* from = context.input<float>(0) + (b * g.out_rows + y) * g.out_columns * g.channels;
            std::fill_n(line, width, 0.0f);
            for (int64_t x = 0; x < g.out_columns; ++x) {
              ForEachTap(axes.columns, x, [&](int64_t to, float weight) {
                for (int64_t c = 0; c < g.channels; ++c) line[to * g.channels + c] += weight * from[x * g.channels + c];
              });
            }
            ForEachTap(axes.rows, y, [&](int64_t row, float weight) {
              for (int64_t i = 0; i < width; ++i) image[row * width + i] += weight * line[i];
            });
          }
        });
        return absl::OkStatus();
      },
      g.batch * stride);
}

}  // namespace

void RegisterScaleKernels(KernelRegistry& registry) {
  AddKernel(registry, "ScaleAndTranslate", MakeScale);
  AddKernel(registry, "ScaleAndTranslateGrad", MakeScaleGrad);
}

}  // namespace millrace::cpu
