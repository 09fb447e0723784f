// cuDNN's convolutions by their definition. Of its algorithms number 0 is not deterministic, number 1 is; filters of three
// dimensions with the channels last it does not take, so that the other layout is tried.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/fake/numbers.h"

namespace {

using millrace::cuda::fake::Get;
using millrace::cuda::fake::Number;
using millrace::cuda::fake::Set;

constexpr size_t kScratch = 2048;
constexpr int kDims = 5;

struct Tensor {
  Number type = Number::kFloat;
  int rank = 0;
  int64_t dims[kDims] = {1, 1, 1, 1, 1}, strides[kDims] = {};
};
struct Filter {
  Tensor tensor;  // output channels, input channels of a group, space
};
struct Settings {
  int spatial = 0;
  int64_t pad[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, groups = 1;
  bool wide = false;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
Tensor* Of(cudnnTensorDescriptor_t d) { return reinterpret_cast<Tensor*>(d); }
Filter* Of(cudnnFilterDescriptor_t d) { return reinterpret_cast<Filter*>(d); }
Settings* Of(cudnnConvolutionDescriptor_t d) { return reinterpret_cast<Settings*>(d); }

bool NumberOf(cudnnDataType_t type, Number* number) {
  switch (type) {
    case CUDNN_DATA_FLOAT: *number = Number::kFloat; return true;
    case CUDNN_DATA_DOUBLE: *number = Number::kDouble; return true;
    case CUDNN_DATA_HALF: *number = Number::kHalf; return true;
    case CUDNN_DATA_BFLOAT16: *number = Number::kBfloat16; return true;
    default: return false;
  }
}

// The sizes are those of a convolution.
bool Agree(const Tensor& x, const Filter& w, const Settings& c, const Tensor& y) {
  const Tensor& f = w.tensor;
  if (x.rank != c.spatial + 2 || f.rank != x.rank || y.rank != x.rank || x.dims[0] != y.dims[0]) return false;
  if (x.dims[1] != f.dims[1] * c.groups || y.dims[1] != f.dims[0]) return false;
  if (x.type == Number::kFloat && c.math != CUDNN_FMA_MATH) return false;  // it would round to TF32
  for (int d = 0; d < c.spatial; ++d) {
    const int64_t reach = (f.dims[d + 2] - 1) * c.dilation[d] + 1;
    if (y.dims[d + 2] != (x.dims[d + 2] + 2 * c.pad[d] - reach) / c.stride[d] + 1) return false;
  }
  return true;
}

// visit(offset in x, offset in w, offset in y) for every product of the convolution.
template <typename Visit>
void ForEachProduct(const Tensor& x, const Filter& filter, const Settings& c, const Tensor& y, const Visit& visit) {
  const Tensor& w = filter.tensor;
  const int64_t outputs_each = y.dims[1] / c.groups;
  const int64_t pixels = y.dims[2] * y.dims[3] * y.dims[4], taps = w.dims[2] * w.dims[3] * w.dims[4];
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t p = pixel, t = tap, in_x = 0, in_w = 0, in_y = 0;
      bool inside = true;
      for (int d = 2; d >= 0; --d) {
        const int64_t out = p % y.dims[d + 2], at = t % w.dims[d + 2];
        const int64_t from = out * c.stride[d] - c.pad[d] + at * c.dilation[d];
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
          for (int64_t i = 0; i < w.dims[1]; ++i) {
            visit(in_x + n * x.strides[0] + (k / outputs_each * w.dims[1] + i) * x.strides[1],
                  in_w + k * w.strides[0] + i * w.strides[1], in_y + n * y.strides[0] + k * y.strides[1]);
          }
        }
      }
    }
  }
}

int64_t Elements(const Tensor& tensor) {
  int64_t elements = 1;
  for (const int64_t dim : tensor.dims) elements *= dim;
  return elements;
}

// Which of x (0), w (1) and y (2) is computed from the other two.
cudnnStatus_t Compute(int which, const void* alpha, const Tensor& x, void* x_data, const Filter& w, void* w_data,
                      const Settings& c, int algorithm, void* scratch, size_t scratch_bytes, const void* beta, const Tensor& y,
                      void* y_data) {
  const Number scale = c.wide ? Number::kDouble : Number::kFloat;
  if (!Agree(x, w, c, y) || algorithm != 1 || Get(scale, alpha, 0) != 1 || Get(scale, beta, 0) != 0 ||
      !millrace::cuda::fake::SpoilScratch(scratch, scratch_bytes, kScratch)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Tensor& result = which == 0 ? x : which == 1 ? w.tensor : y;
  std::vector<double> sums(Elements(result));
  ForEachProduct(x, w, c, y, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    if (which == 0) sums[at_x] += Get(w.tensor.type, w_data, at_w) * Get(y.type, y_data, at_y);
    if (which == 1) sums[at_w] += Get(x.type, x_data, at_x) * Get(y.type, y_data, at_y);
    if (which == 2) sums[at_y] += Get(x.type, x_data, at_x) * Get(w.tensor.type, w_data, at_w);
  });
  void* const out = which == 0 ? x_data : which == 1 ? w_data : y_data;
  for (size_t i = 0; i < sums.size(); ++i) Set(result.type, out, static_cast<int64_t>(i), sums[i]);
  return CUDNN_STATUS_SUCCESS;
}

template <typename Result, typename Algorithm>
cudnnStatus_t Rank(const Tensor& x, const Filter& w, const Settings& c, const Tensor& y, int wanted, int* count, Result* results) {
  if (!Agree(x, w, c, y)) return CUDNN_STATUS_BAD_PARAM;
  *count = std::min(wanted, 2);
  for (int i = 0; i < *count; ++i) {
    std::memset(&results[i], 0, sizeof results[i]);
    results[i].algo = static_cast<Algorithm>(i);
    results[i].status = CUDNN_STATUS_SUCCESS;
    results[i].memory = kScratch;
    results[i].determinism = i == 1 ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    results[i].mathType = c.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return *handle = reinterpret_cast<cudnnHandle_t>(new int), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete reinterpret_cast<int*>(handle), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  return stream != nullptr ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the fake"; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) {
  return *d = reinterpret_cast<cudnnTensorDescriptor_t>(new Tensor), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) { return delete Of(d), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int rank, const int* dims,
                                         const int* strides) {
  if (rank < 4 || rank > kDims || !NumberOf(type, &Of(d)->type)) return CUDNN_STATUS_BAD_PARAM;
  Of(d)->rank = rank;
  for (int i = 0; i < rank; ++i) {
    Of(d)->dims[i] = dims[i];
    Of(d)->strides[i] = strides[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) {
  return *d = reinterpret_cast<cudnnFilterDescriptor_t>(new Filter), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) { return delete Of(d), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format, int rank,
                                         const int* dims) {
  Tensor& w = Of(d)->tensor;
  const bool last = format == CUDNN_TENSOR_NHWC;
  if (rank < 4 || rank > kDims || (last && rank == 5) || !NumberOf(type, &w.type)) return CUDNN_STATUS_BAD_PARAM;
  w.rank = rank;
  int64_t step = last ? dims[1] : 1;
  for (int i = rank - 1; i >= 2; --i) {
    w.dims[i] = dims[i];
    w.strides[i] = step;
    step *= dims[i];
  }
  w.dims[0] = dims[0];
  w.dims[1] = dims[1];
  w.strides[1] = last ? 1 : step;
  w.strides[0] = last ? step : step * dims[1];
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) {
  return *d = reinterpret_cast<cudnnConvolutionDescriptor_t>(new Settings), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) { return delete Of(d), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int spatial, const int* pad, const int* stride,
                                              const int* dilation, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_BAD_PARAM;
  Of(d)->spatial = spatial;
  Of(d)->wide = compute == CUDNN_DATA_DOUBLE;
  for (int i = 0; i < spatial; ++i) {
    Of(d)->pad[i] = pad[i];
    Of(d)->stride[i] = stride[i];
    Of(d)->dilation[i] = dilation[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  return Of(d)->groups = groups, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  return Of(d)->math = math, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y, int wanted,
                                                     int* count, cudnnConvolutionFwdAlgoPerf_t* results) {
  return Rank<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(*Of(x), *Of(w), *Of(c), *Of(y), wanted, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t dx, int wanted,
                                                          int* count, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return Rank<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(*Of(dx), *Of(w), *Of(c), *Of(dy), wanted, count,
                                                                                results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t dw, int wanted,
                                                            int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return Rank<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(*Of(x), *Of(dw), *Of(c), *Of(dy), wanted,
                                                                                    count, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t, size_t* bytes) {
  return *bytes = kScratch, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
                                                           cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t, size_t* bytes) {
  return *bytes = kScratch, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
                                                             cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t, size_t* bytes) {
  return *bytes = kScratch, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                                      cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* scratch, size_t scratch_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_data) {
  return Compute(2, alpha, *Of(x), const_cast<void*>(x_data), *Of(w), const_cast<void*>(w_data), *Of(c), algorithm, scratch,
                 scratch_bytes, beta, *Of(y), y_data);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t w, const void* w_data,
                                           cudnnTensorDescriptor_t dy, const void* dy_data, cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* scratch, size_t scratch_bytes,
                                           const void* beta, cudnnTensorDescriptor_t dx, void* dx_data) {
  return Compute(0, alpha, *Of(dx), dx_data, *Of(w), const_cast<void*>(w_data), *Of(c), algorithm, scratch, scratch_bytes, beta,
                 *Of(dy), const_cast<void*>(dy_data));
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t dy, const void* dy_data, cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* scratch, size_t scratch_bytes,
                                             const void* beta, cudnnFilterDescriptor_t dw, void* dw_data) {
  return Compute(1, alpha, *Of(x), const_cast<void*>(x_data), *Of(dw), dw_data, *Of(c), algorithm, scratch, scratch_bytes, beta,
                 *Of(dy), const_cast<void*>(dy_data));
}

}  // extern "C"
