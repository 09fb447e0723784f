#include "graph/window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {

absl::StatusOr<DataLayout> ParseDataFormat(std::string_view data_format) {
  if (data_format == "NHWC") return DataLayout{4, false};
  if (data_format == "NCHW") return DataLayout{4, true};
  if (data_format == "NDHWC") return DataLayout{5, false};
  if (data_format == "NCDHW") return DataLayout{5, true};
  return absl::InvalidArgumentError(absl::StrCat("data_format is '", std::string(data_format),
                                                 "', expected NHWC, NCHW, NDHWC or NCDHW"));
}

absl::StatusOr<WindowDim> MakeWindowDim(int64_t input, int64_t window, int64_t stride, int64_t dilation,
                                        std::string_view padding, int64_t before, int64_t after) {
  if (window < 1 || stride < 1 || dilation < 1) {
    return absl::InvalidArgumentError(absl::StrCat("window ", window, ", stride ", stride, " and dilation ", dilation,
                                                   " must each be at least 1"));
  }
  constexpr int64_t kLargestExtent = int64_t{1} << 24;  // beyond it, 32-bit sizes of padded images end
  if (window > kLargestExtent || dilation > kLargestExtent || (window - 1) * dilation >= kLargestExtent) {
    return absl::InvalidArgumentError(absl::StrCat("a window of ", window, " elements, dilated by ", dilation, ", reaches over more than ",
                                                   kLargestExtent, " elements"));
  }
  WindowDim dim{.input = input, .window = window, .stride = stride, .dilation = dilation};
  const int64_t extent = (window - 1) * dilation + 1;
  if (padding == "SAME") {
    dim.output = input < 0 ? -1 : (input + stride - 1) / stride;
    if (input >= 0) {
      const int64_t pad = std::max<int64_t>((dim.output - 1) * stride + extent - input, 0);
      dim.pad_before = pad / 2;
      dim.pad_after = pad - dim.pad_before;
    }
    return dim;
  }
  if (padding == "EXPLICIT") {
    if (before < 0 || after < 0) {
      return absl::InvalidArgumentError(absl::StrCat("explicit padding ", before, " and ", after, " must not be negative"));
    }
    dim.pad_before = before;
    dim.pad_after = after;
  } else if (padding != "VALID") {
    return absl::InvalidArgumentError(
        absl::StrCat("padding is '", std::string(padding), "', expected SAME, VALID or EXPLICIT"));
  }
  if (input < 0) {
    dim.output = -1;
    return dim;
  }
  const int64_t room = input + dim.pad_before + dim.pad_after - extent;
  if (room + stride < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a window of ", extent, " does not fit in ", input,
                                                   " elements padded by ", dim.pad_before, " and ", dim.pad_after));
  }
  dim.output = (room + stride) / stride;
  return dim;
}

absl::StatusOr<WindowDim> MakeWindowDim(int64_t input, const WindowSpec& spec, int dim) {
  const bool padded = spec.padding == "EXPLICIT";
  if (padded && spec.pads.size() != 2 * spec.sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("explicit_paddings has ", spec.pads.size(), " entries, expected ",
                                                   2 * spec.sizes.size()));
  }
  return MakeWindowDim(input, spec.sizes[dim], spec.strides[dim], spec.dilations.empty() ? 1 : spec.dilations[dim],
                       spec.padding, padded ? spec.pads[2 * dim] : 0, padded ? spec.pads[2 * dim + 1] : 0);
}

absl::StatusOr<std::vector<WindowDim>> ConvWindows(const AttrMap& attrs, const DataLayout& layout, const Shape& input, const Shape& filter) {
  using Ints = std::vector<int64_t>;
  const Ints ones(layout.rank, 1), strides = attrs.GetOr("strides", ones), dilations = attrs.GetOr("dilations", ones);
  Ints pads = attrs.GetOr("explicit_paddings", Ints());
  pads.resize(2 * layout.rank, 0);
  const std::string padding = attrs.GetOr<std::string>("padding", "");
  std::vector<WindowDim> windows(layout.num_spatial());
  for (int i = 0; i < layout.num_spatial(); ++i) {
    const int dim = layout.spatial(i);
    MR_ASSIGN_OR_RETURN(windows[i], MakeWindowDim(input.dim(dim), filter.dim(i), strides[dim], dilations[dim], padding, pads[2 * dim],
                                                  pads[2 * dim + 1]));
  }
  return windows;
}

}  // namespace millrace
