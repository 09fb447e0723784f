// A convolution's sizes, read from a node, and its fixed cuts into pieces that can run side by side.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_GEOMETRY_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_GEOMETRY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace::cpu {

// What a node computes of the layer output = input * filter: the output, or the gradient of one of the others.
enum class ConvKind { kForward, kInput, kFilter };

// Spatial arrays use their first `spatial` entries; the outermost dimension comes first.
struct ConvGeometry {
  using Sizes = std::array<int64_t, 3>;

  int spatial = 2;
  bool channels_first = false;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Sizes pad_before{0, 0, 0}, pad_after{0, 0, 0};

  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }  // of one image
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t input_elements() const { return batch * in_channels * in_pixels(); }
  int64_t output_elements() const { return batch * out_channels * out_pixels(); }
  int64_t filter_elements() const { return taps() * (in_channels / groups) * out_channels; }
  // More scratch than this would decide how little memory a graph runs in.
  int64_t scratch_limit() const {
    constexpr int64_t kAlways = int64_t{4} << 20;
    return std::max(kAlways, 2 * static_cast<int64_t>(sizeof(float)) * (input_elements() + output_elements() + filter_elements()));
  }
  double flops() const { return 2.0 * taps() * (in_channels / groups) * output_elements(); }
};

// Requires inferred outputs and known shapes. A depthwise filter [h, w, channels, multiplier] gives groups ==
// channels.
absl::StatusOr<ConvGeometry> ReadConvGeometry(const OpInstance& instance, ConvKind kind, int spatial, bool depthwise);

// Part of a convolution: a smaller one on elements of the tensors from these offsets on.
struct ConvPiece {
  ConvGeometry geometry;
  int64_t input_offset = 0;
  int64_t output_offset = 0;
};

// Cuts into pieces with distinct outputs (kForward, kFilter) or distinct inputs (kInput): first into equal groups
// of images, then, where images are fewer than pieces wanted, along the outermost spatial dimension. Depends on
// the geometry alone. One piece when more would not pay; not many more than `most`.
inline constexpr int64_t kMaxConvPieces = 16;
std::vector<ConvPiece> CutConv(const ConvGeometry& geometry, ConvKind kind, int64_t most = kMaxConvPieces);

// Cuts one image along the outermost spatial dimension alone, at multiples of `aligned`: up to `parts` pieces, or one where a piece would
// not be a layer of its own.
std::vector<ConvPiece> CutRows(const ConvGeometry& image, ConvKind kind, int64_t parts, int64_t aligned = 1);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CONV_GEOMETRY_H_
