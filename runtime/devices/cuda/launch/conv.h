// Convolutions written out: for those that no library has a deterministic algorithm for, and depthwise ones, where a
// product of matrices has nothing to gain.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CONV_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CONV_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// Input and output with channels first or last; the filter is [spatial ...][in_channels / groups][out_channels].
struct DirectConv {
  bool channels_first = false;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};  // before the input
};

void LaunchConvForward(const Queue& queue, Type type, const DirectConv& shape, const void* input, const void* filter,
                       void* output);
void LaunchConvInput(const Queue& queue, Type type, const DirectConv& shape, const void* filter, const void* output,
                     void* input);
int64_t ConvFilterScratchBytes(const DirectConv& shape);
void LaunchConvFilter(const Queue& queue, Type type, const DirectConv& shape, const void* input, const void* output,
                      void* filter, void* scratch);

// Of windows that do not overlap along rows, `taps` wide, what an input gradient has for one row of their taps.
struct RowSpread {
  bool channels_first = false;
  int64_t batch = 0, channels = 0, taps = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
};
// The rows of `input` that tap (z, y) is over, floats: element x of a row is that of output pixel x / stride and tap x % stride,
// or zero where there is no such pixel or tap. `products` are [batch][taps][channels][out ...], or [batch][out ...][taps]
// [channels] with channels last.
void LaunchSpreadRows(const Queue& queue, const RowSpread& shape, int64_t z, int64_t y, const void* products, void* input);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CONV_H_
