// The geometry of a pooling op from its attributes; shape rules and kernels must agree on it.
#ifndef MILLRACE_SRC_GRAPH_POOL_GEOMETRY_H_
#define MILLRACE_SRC_GRAPH_POOL_GEOMETRY_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/window.h"
#include "millrace/attr.h"

namespace millrace {

// Every pool is brought to one form: windows over three dimensions of a tensor [batch, d0, d1, d2, channels] in
// memory order. Channels-first tensors fold the channels into the batch, pools across depth fold rows and columns
// into the batch and slide over what were the channels.
struct PoolGeometry {
  int64_t batch = 0;
  int64_t channels = 1;
  std::array<WindowDim, 3> dims;
  Shape output;  // in the op's own data format

  int64_t input_rows() const { return dims[0].input * dims[1].input; }    // of d2 * channels elements each
  int64_t output_rows() const { return dims[0].output * dims[1].output; }
  int64_t input_row_elements() const { return dims[2].input * channels; }
  int64_t output_row_elements() const { return dims[2].output * channels; }
  int64_t window_elements() const { return dims[0].window * dims[1].window * dims[2].window; }
};

// Attribute (bool) of MaxPool, MaxPool3D and their gradients that stand in for XLA's windows: NaN is the largest of a window, -inf may be, and
// the gradient goes to the first maximum in three dimensions, too.
inline constexpr char kPoolsAsXla[] = "_as_xla";

// Sizes and strides of the window from the attributes, or from these where the op takes them as inputs.
struct PoolWindow {
  std::vector<int64_t> ksize;
  std::vector<int64_t> strides;
};

// Of the op with these attributes on an input of this shape. With unknown dimensions only `output` is of use.
// The default data format is the one of `rank` dimensions (NHWC or NDHWC).
absl::StatusOr<PoolGeometry> MakePoolGeometry(const AttrMap& attrs, const Shape& input, int rank,
                                              const PoolWindow* window = nullptr);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_POOL_GEOMETRY_H_
