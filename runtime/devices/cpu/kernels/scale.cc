// ScaleAndTranslate: images resampled by a filter that widens when shrinking (antialiasing); and its gradient.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Filter {
  float radius;
  float (*at)(float x);  // x >= 0
};

template <int kRadius>
float Lanczos(float x) {
  if (x > kRadius) return 0;
  if (x < 1e-3f) return 1;
  const float pi = static_cast<float>(M_PI);
  return kRadius * std::sin(pi * x) * std::sin(pi * x / kRadius) / (pi * pi * x * x);
}
// A standard deviation of half a pixel, cut at three of them.
float Gaussian(float x) { return x >= 1.5f ? 0 : std::exp(-x * x / 0.5f); }
float Box(float x) { return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0; }
float Triangle(float x) { return x < 1 ? 1 - x : 0; }
float KeysCubic(float x) {
  if (x >= 2) return 0;
  return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}
float MitchellCubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
  return (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
}

absl::StatusOr<Filter> FilterOf(const OpInstance& node) {
  const std::string name = node.attrs.GetOr<std::string>("kernel_type", "lanczos3");
  if (name == "lanczos1") return Filter{1, Lanczos<1>};
  if (name == "lanczos3") return Filter{3, Lanczos<3>};
  if (name == "lanczos5") return Filter{5, Lanczos<5>};
  if (name == "gaussian") return Filter{1.5f, Gaussian};
  if (name == "box") return Filter{1, Box};
  if (name == "triangle") return Filter{1, Triangle};
  if (name == "keyscubic") return Filter{2, KeysCubic};
  if (name == "mitchellcubic") return Filter{2, MitchellCubic};
  return absl::InvalidArgumentError(absl::StrCat("Unrecognized kernel type: ", name, " (node '", node.name, "')"));
}

// For every output pixel of an axis the run of input pixels that it is made of, with their weights.
struct Spans {
  std::vector<int64_t> start, first;  // first weight; one more than there are pixels
  std::vector<float> weights;
};

Spans SpansOf(const Filter& filter, bool antialias, int64_t input, int64_t output, float scale, float shift) {
  const float inverse = 1.0f / scale, inverse_shift = -inverse * shift;
  const float widening = antialias ? std::max(inverse, 1.0f) : 1.0f, reach = filter.radius * widening;
  Spans spans;
  for (int64_t x = 0; x < output; ++x) {
    const float centre = (static_cast<float>(x) + 0.5f) * inverse + inverse_shift;
    spans.first.push_back(static_cast<int64_t>(spans.weights.size()));
    spans.start.push_back(0);
    if (!(centre >= 0 && centre <= static_cast<float>(input))) continue;
    const int64_t start = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(centre - reach - 0.5f)), 0, input - 1);
    const int64_t end = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre + reach - 0.5f)), 0, input - 1) + 1;
    spans.start.back() = start;
    float sum = 0;
    for (int64_t i = start; i < end; ++i) {
      const float weight = filter.at(std::abs((static_cast<float>(i) + 0.5f - centre) / widening));
      spans.weights.push_back(weight);
      sum += weight;
    }
    if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) continue;
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

absl::StatusOr<Axes> AxesOf(const KernelContext& context, const Filter& filter, const Geometry& g, int scale_input) {
  const bool antialias = context.instance->attrs.GetOr("antialias", true);
  const float *scale = context.input<float>(scale_input), *shift = context.input<float>(scale_input + 1);
  for (int d : {0, 1}) {
    if (!(scale[d] > 0)) return absl::InvalidArgumentError(absl::StrCat("Scale should be greater than zero, got ", scale[d]));
  }
  return Axes{SpansOf(filter, antialias, g.rows, g.out_rows, scale[0], shift[0]),
              SpansOf(filter, antialias, g.columns, g.out_columns, scale[1], shift[1])};
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
  MR_ASSIGN_OR_RETURN(const Filter filter, FilterOf(node));
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
  MR_ASSIGN_OR_RETURN(const Filter filter, FilterOf(node));
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
