// Where the windows of Dilation2D and its gradients lie. Included by kernels of devices.
#ifndef MILLRACE_SRC_GRAPH_DILATION_GEOMETRY_H_
#define MILLRACE_SRC_GRAPH_DILATION_GEOMETRY_H_

#include <cstdint>

namespace millrace {

struct OpInstance;
class Shape;

// Images are [batch, rows, columns, channels], filters [filter_rows, filter_columns, channels]; pads are before the image.
struct DilationGeometry {
  int64_t batch = 0, rows = 0, columns = 0, channels = 0, out_rows = 0, out_columns = 0, filter_rows = 0, filter_columns = 0;
  int64_t stride_y = 1, stride_x = 1, rate_y = 1, rate_x = 1, pad_y = 0, pad_x = 0;
};

// Of a node whose first inputs are image and filter; `out` is the shape of the largest sums.
DilationGeometry DilationGeometryOf(const OpInstance& node, const Shape& out);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_DILATION_GEOMETRY_H_
