// Windows that slide over the spatial dimensions of a tensor (pooling, convolution), as TensorFlow defines them.
//
// Shape rules and kernels must agree on these. Pure functions of their arguments; errors are InvalidArgument
// without a node's name, callers add it.
#ifndef MILLRACE_SRC_GRAPH_WINDOW_H_
#define MILLRACE_SRC_GRAPH_WINDOW_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/types.h"

namespace millrace {

// Where the dimensions of a data_format ("NHWC", "NCHW", "NDHWC", "NCDHW") lie. Batch is dimension 0.
struct DataLayout {
  int rank = 4;
  bool channels_first = false;
  int num_spatial() const { return rank - 2; }
  int channel() const { return channels_first ? 1 : rank - 1; }
  int spatial(int i) const { return (channels_first ? 2 : 1) + i; }
};
absl::StatusOr<DataLayout> ParseDataFormat(std::string_view data_format);

// One spatial dimension: window j covers input elements j * stride - pad_before + k * dilation, k in [0, window).
struct WindowDim {
  int64_t input = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
  int64_t output = 1;  // -1 when the input is

  // First input element of window `j`; negative where it begins in the padding.
  int64_t Start(int64_t j) const { return j * stride - pad_before; }
};

// `padding` is "SAME", "VALID" or "EXPLICIT"; before and after count for the last only. input -1: unknown.
absl::StatusOr<WindowDim> MakeWindowDim(int64_t input, int64_t window, int64_t stride, int64_t dilation,
                                        std::string_view padding, int64_t before = 0, int64_t after = 0);

// The same for dimension `dim` of a tensor from attributes that have one entry per dimension (pads: two). Empty
// dilations and pads stand for 1 and 0. Requires as many sizes and strides as dimensions.
struct WindowSpec {
  absl::Span<const int64_t> sizes;
  absl::Span<const int64_t> strides;
  absl::Span<const int64_t> dilations;
  absl::Span<const int64_t> pads;
  std::string_view padding;
};
absl::StatusOr<WindowDim> MakeWindowDim(int64_t input, const WindowSpec& spec, int dim);

// The same for the spatial dimensions of a convolution, from its attributes; strides and dilations that it does not have stand for 1.
// Requires as many entries as dimensions where it has them: its shape rule has looked.
absl::StatusOr<std::vector<WindowDim>> ConvWindows(const AttrMap& attrs, const DataLayout& layout, const Shape& input, const Shape& filter);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_WINDOW_H_
