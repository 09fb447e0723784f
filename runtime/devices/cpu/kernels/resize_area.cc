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

// The channels of a pixel: three and four beside each other in a register.
template <int kChannels>
struct ChannelSums {
  float lanes[kChannels == 0 ? kPixelChannels : kChannels] = {};

  template <typename T>
  void AddProducts(const T* pixel, float y, float x, int64_t n) {
    for (int64_t c = 0; c < n; ++c) lanes[c] += static_cast<float>(pixel[c]) * y * x;
  }
  void Add(const ChannelSums& other, int64_t n) {
    for (int64_t c = 0; c < n; ++c) lanes[c] += other.lanes[c];
  }
};
template <int kChannels>
  requires(kChannels == 3 || kChannels == 4)
struct ChannelSums<kChannels> {
  typedef float Lanes __attribute__((vector_size(16)));
  Lanes lanes = {};

  template <typename T>
  void AddProducts(const T* pixel, float y, float x, int64_t) {
    float values[4] = {};
    for (int c = 0; c < kChannels; ++c) values[c] = static_cast<float>(pixel[c]);
    lanes += Lanes{values[0], values[1], values[2], values[3]} * y * x;
  }
  void Add(const ChannelSums& other, int64_t) { lanes += other.lanes; }
};

// Of a row of output pixels that cover `y` some channels, at most kPixelChannels: kChannels of them unless it is 0.
template <int kChannels, typename T>
void AddAreas(const T* image, int64_t columns, int64_t pixel_step, int64_t channels, const Cover& y, const std::vector<Cover>& across, float share,
              float* to) {
  const int64_t n = kChannels > 0 ? kChannels : channels;
  for (const Cover& x : across) {
    const float* const x_parts = x.parts.data();
    const int64_t *const x_at = x.at.data(), x_count = static_cast<int64_t>(x.parts.size());
    ChannelSums<kChannels> sums;
    for (size_t j = 0; j < y.parts.size(); ++j) {
      const T* row = image + y.at[j] * columns * pixel_step;
      ChannelSums<kChannels> of_row;
      for (int64_t i = 0; i < x_count; ++i) of_row.AddProducts(row + x_at[i] * pixel_step, y.parts[j], x_parts[i], n);
      sums.Add(of_row, n);
    }
    for (int64_t c = 0; c < n; ++c) to[c] = sums.lanes[c] * share;
    to += pixel_step;
  }
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
      float* to = context.output<float>(0) + line * out.dim(2) * channels;
      for (int64_t c = 0; c < channels; c += kPixelChannels) {
        const int64_t n = std::min(kPixelChannels, channels - c);
        const auto add = n == 1   ? &AddAreas<1, T>
                         : n == 2 ? &AddAreas<2, T>
                         : n == 3 ? &AddAreas<3, T>
                         : n == 4 ? &AddAreas<4, T>
                         : n == kPixelChannels ? &AddAreas<kPixelChannels, T>
                                               : &AddAreas<0, T>;
        add(image + c, columns, channels, n, y, across, share, to + c);
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
