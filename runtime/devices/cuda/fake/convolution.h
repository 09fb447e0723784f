// A convolution by its definition, as cuDNN is told of it: sizes are [outer, channels, space ...], strides say the layout.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_CONVOLUTION_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "cuda/fake/numbers.h"

namespace millrace::cuda::fake {

struct Tensor {
  Number type = Number::kFloat;
  int rank = 0;
  int64_t dims[5] = {1, 1, 1, 1, 1}, strides[5] = {};
  // From the first to behind the last.
  int64_t elements() const {
    int64_t last = 0;
    for (int i = 0; i < rank; ++i) last += (dims[i] - 1) * strides[i];
    return last + 1;
  }
};
struct Window {
  int spatial = 0;
  int64_t pad[3] = {}, pad_after[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
};
struct Convolution {
  Tensor x, w, y;
  Window window;
  bool bias = false, side = false, relu = false;  // behind it
  int64_t groups() const { return x.dims[1] / w.dims[1]; }
};

// The sizes are those of a convolution.
inline bool Agree(const Convolution& c) {
  const Tensor &x = c.x, &w = c.w, &y = c.y;
  const Window& window = c.window;
  if (x.rank != window.spatial + 2 || w.rank != x.rank || y.rank != x.rank || x.dims[0] != y.dims[0]) return false;
  if (x.type != w.type || x.type != y.type) return false;
  if (w.dims[1] == 0 || x.dims[1] % w.dims[1] != 0 || y.dims[1] != w.dims[0] || y.dims[1] % c.groups() != 0) return false;
  for (int d = 0; d < window.spatial; ++d) {
    const int64_t reach = (w.dims[d + 2] - 1) * window.dilation[d] + 1;
    if (y.dims[d + 2] != (x.dims[d + 2] + window.pad[d] + window.pad_after[d] - reach) / window.stride[d] + 1) return false;
  }
  return true;
}

// visit(offset in x, offset in w, offset in y) for every product of the convolution.
template <typename Visit>
void ForEachProduct(const Convolution& c, const Visit& visit) {
  const Tensor &x = c.x, &w = c.w, &y = c.y;
  const int64_t outputs_each = y.dims[1] / c.groups();
  const int64_t pixels = y.dims[2] * y.dims[3] * y.dims[4], taps = w.dims[2] * w.dims[3] * w.dims[4];
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t p = pixel, t = tap, in_x = 0, in_w = 0, in_y = 0;
      bool inside = true;
      for (int d = 2; d >= 0; --d) {
        const int64_t out = p % y.dims[d + 2], at = t % w.dims[d + 2];
        const int64_t from = out * c.window.stride[d] - c.window.pad[d] + at * c.window.dilation[d];
        p /= y.dims[d + 2];
        t /= w.dims[d + 2];
        inside = inside && from >= 0 && from < x.dims[d + 2];
        in_x += from * x.strides[d + 2];
        in_w += at * w.strides[d + 2];
        in_y += out * y.strides[d + 2];
      }
      if (!inside) continue;
      for (int64_t n = 0; n < x.dims[0]; ++n) {
        for (int64_t k = 0; k < y.dims[1]; ++k) {
          const int64_t first_x = in_x + n * x.strides[0] + k / outputs_each * w.dims[1] * x.strides[1], first_w = in_w + k * w.strides[0];
          const int64_t at_y = in_y + n * y.strides[0] + k * y.strides[1];
          for (int64_t i = 0; i < w.dims[1]; ++i) visit(first_x + i * x.strides[1], first_w + i * w.strides[1], at_y);
        }
      }
    }
  }
}

// All elements of a tensor, read once: there are many more products.
inline std::vector<double> Numbers(const Tensor& tensor, const void* data) {
  std::vector<double> numbers(tensor.elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = Get(tensor.type, data, static_cast<int64_t>(i));
  return numbers;
}

enum class Part { kX, kW, kY };

// The part from the other two, and what is behind it.
inline void Compute(const Convolution& c, Part part, void* x, void* w, void* y, const void* bias, const void* side) {
  const Tensor& result = part == Part::kX ? c.x : part == Part::kW ? c.w : c.y;
  int64_t elements = 1;
  for (const int64_t dim : result.dims) elements *= dim;
  std::vector<double> sums(elements);
  const std::vector<double> a = part == Part::kX ? Numbers(c.w, w) : Numbers(c.x, x), b = part == Part::kY ? Numbers(c.w, w) : Numbers(c.y, y);
  switch (part) {
    case Part::kX: ForEachProduct(c, [&](int64_t at_x, int64_t at_w, int64_t at_y) { sums[at_x] += a[at_w] * b[at_y]; }); break;
    case Part::kW: ForEachProduct(c, [&](int64_t at_x, int64_t at_w, int64_t at_y) { sums[at_w] += a[at_x] * b[at_y]; }); break;
    case Part::kY: ForEachProduct(c, [&](int64_t at_x, int64_t at_w, int64_t at_y) { sums[at_y] += a[at_x] * b[at_w]; }); break;
  }
  void* const out = part == Part::kX ? x : part == Part::kW ? w : y;
  for (int64_t i = 0; i < elements; ++i) {
    if (c.side) sums[i] += Get(result.type, side, i);
    if (c.bias) sums[i] += Get(result.type, bias, i / result.strides[1] % result.dims[1]);
    if (c.relu && sums[i] < 0) sums[i] = 0;
    Set(result.type, out, i, sums[i]);
  }
}

}  // namespace millrace::cuda::fake

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_CONVOLUTION_H_
