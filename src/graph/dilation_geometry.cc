#include "graph/dilation_geometry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "millrace/op.h"

namespace millrace {

DilationGeometry DilationGeometryOf(const OpInstance& node, const Shape& out) {
  const Shape &in = node.inputs[0].shape, &filter = node.inputs[1].shape;
  const auto strides = node.attrs.GetOr<std::vector<int64_t>>("strides", {1, 1, 1, 1});
  const auto rates = node.attrs.GetOr<std::vector<int64_t>>("rates", {1, 1, 1, 1});
  DilationGeometry w = {in.dim(0), in.dim(1), in.dim(2), in.dim(3), out.dim(1), out.dim(2), filter.dim(0), filter.dim(1),
              strides[1], strides[2], rates[1], rates[2], 0, 0};
  if (node.attrs.GetOr<std::string>("padding", "") == "SAME") {
    const auto before = [](int64_t size, int64_t result, int64_t taps, int64_t stride, int64_t rate) {
      return std::max<int64_t>((result - 1) * stride + (taps - 1) * rate + 1 - size, 0) / 2;
    };
    w.pad_y = before(w.rows, w.out_rows, w.filter_rows, w.stride_y, w.rate_y);
    w.pad_x = before(w.columns, w.out_columns, w.filter_columns, w.stride_x, w.rate_x);
  }
  return w;
}

}  // namespace millrace
