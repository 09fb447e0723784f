// Sliding windows: the attributes that convolutions and pools share, and the size of what they give.
#ifndef MILLRACE_SRC_OPS_WINDOWS_H_
#define MILLRACE_SRC_OPS_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

enum class WindowPadding { kSame, kValid, kExplicit };

// strides, dilations, padding, explicit_paddings, data_format and (pools) ksize of a node. Spatial values are
// in order of the spatial dimensions, whatever the data format.
struct WindowAttrs {
  int channel_dim = 0;
  bool channels_first = false;
  WindowPadding padding = WindowPadding::kValid;
  std::vector<int64_t> window;  // empty when the op has no ksize
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pad_before, pad_after;  // of kExplicit, else 0
  int spatial_dim(int i) const { return channels_first ? i + 2 : i + 1; }
};

// Of a node whose input has `rank` dimensions. Errors name the attribute and what was expected.
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const InferenceContext& context, int rank, bool has_window);

// Size of spatial dimension `i` of the output for an input of `size` and a window of `window`; -1 when either is
// unknown. An error when the window does not fit.
absl::StatusOr<int64_t> WindowOutputSize(const InferenceContext& context, const WindowAttrs& attrs, int i,
                                         int64_t size, int64_t window);

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_WINDOWS_H_
