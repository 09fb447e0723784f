// ResizeArea: every output pixel is the mean of the input's area that it covers.
#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "graph/resampling.h"

namespace millrace::cpu {
namespace {

// How much of which input pixels an output pixel covers along one axis.
struct Cover {
  std::vector<float> parts;
  std::vector<int64_t> at;  // where: positions outside are the nearest ones inside
};

std::vector<Cover> Covers(int64_t in, int64_t out, float scale) {
  std::vector<Cover> covers;
  for (int64_t i = 0; i < out; ++i) {
    const AreaCover area = AreaCoverOf(i, scale);
    Cover cover;
    for (int64_t k = 0; k < area.count; ++k) {
      cover.parts.push_back(area.Part(k));
      cover.at.push_back(std::min(std::max<int64_t>(area.first + k, 0), in - 1));
    }
    covers.push_back(std::move(cover));
  }
  return covers;
}

constexpr int64_t kPixelChannels = 16;

// One output pixel's `channels` channels, at most kPixelChannels; kChannels of them unless it is 0.
template <int kChannels, typename T>
void AddArea(const T* image, int64_t row_step, int64_t pixel_step, int64_t channels, const Cover& y, const Cover& x, float share,
             float* to) {
  constexpr int64_t kRoom = kChannels > 0 ? kChannels : kPixelChannels;
  const int64_t n = kChannels > 0 ? kChannels : channels;
  float sums[kRoom] = {};
  for (size_t j = 0; j < y.parts.size(); ++j) {
    const T* row = image + y.at[j] * row_step;
    float of_row[kRoom] = {};
    for (size_t i = 0; i < x.parts.size(); ++i) {
      const T* pixel = row + x.at[i] * pixel_step;
      for (int64_t c = 0; c < n; ++c) of_row[c] += static_cast<float>(pixel[c]) * y.parts[j] * x.parts[i];
    }
    for (int64_t c = 0; c < n; ++c) sums[c] += of_row[c];
  }
  for (int64_t c = 0; c < n; ++c) to[c] = sums[c] * share;
}

template <typename T>
absl::Status Resize(const KernelContext& context) {
  const Shape &in = context.input_type(0).shape, &out = context.output_type(0).shape;
  const bool align_corners = context.instance->attrs.GetOr<bool>("align_corners", false);
  const int64_t rows = in.dim(1), columns = in.dim(2), channels = in.dim(3);
  const float row_scale = AreaScale(rows, out.dim(1), align_corners), column_scale = AreaScale(columns, out.dim(2), align_corners);
  const std::vector<Cover> down = Covers(rows, out.dim(1), row_scale), across = Covers(columns, out.dim(2), column_scale);
  const float share = 1 / (row_scale * column_scale);
  const int64_t rows_of_shard = std::max<int64_t>(kElementGrain / std::max<int64_t>(columns * channels, 1), 1);
  ParallelRange(context, in.dim(0) * out.dim(1), rows_of_shard, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t b = line / out.dim(1);
      const Cover& y = down[line % out.dim(1)];
      const T* image = context.input<T>(0) + b * rows * columns * channels;
      for (int64_t o = 0; o < out.dim(2); ++o) {
        const Cover& x = across[o];
        float* to = context.output<float>(0) + (line * out.dim(2) + o) * channels;
        for (int64_t c = 0; c < channels; c += kPixelChannels) {
          const int64_t n = std::min(kPixelChannels, channels - c);
          const auto add = n == 1   ? &AddArea<1, T>
                           : n == 2 ? &AddArea<2, T>
                           : n == 3 ? &AddArea<3, T>
                           : n == 4 ? &AddArea<4, T>
                                    : &AddArea<0, T>;
          add(image + c, columns * channels, channels, n, y, x, share, to + c);
        }
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeResizeArea(const OpInstance& node) {
  return DispatchNumeric(node, node.inputs[0].dtype, [](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([](const KernelContext& context) { return Resize<T>(context); });
  });
}

}  // namespace

void RegisterResizeAreaKernels(KernelRegistry& registry) { AddKernel(registry, "ResizeArea", MakeResizeArea); }

}  // namespace millrace::cpu
