// What recurrent layers as cuDNN has them (CudnnRNN and its gradient) do between matrix products, in float. A launch is for all directions
// of a layer.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CUDNN_RNN_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CUDNN_RNN_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

enum class RnnCell { kLstm, kGru, kRelu, kTanh };

// A step of a layer. States are [directions, batch, units]; rows are those of all steps, [steps, batch].
struct RnnStep {
  RnnCell cell = RnnCell::kLstm;
  int64_t directions = 1, batch = 0, units = 0, steps = 0;
  int64_t step = 0;                  // of direction 0; direction 1 runs from the last step to the first
  const int32_t* lengths = nullptr;  // [batch], steps that count; none: all do
  int64_t kept_stride = 0;           // from the gates of a direction to those of the next one; so, too, what is kept beside them
};

// A length outside [0, steps] is a fault of input `input`.
void LaunchCheckLengths(const Queue& queue, int input, const int32_t* lengths, int64_t batch, int64_t steps);

// States and outputs where a step does not count are those before it, and zeros.
struct RnnForward {
  float *gates, *more;              // products with the input, [rows, gates * units], which become the gates; one more number of each unit
  bool keeps;                       // else gates and `more` are not written
  const float* products;            // with the state, [directions, batch, gates * units]
  const float* biases;              // of a direction: those of the input, those of the state
  const float *h_before, *c_before;  // c: of an LSTM
  float *h, *c;                     // may be those before
  float* output;                    // [rows, directions, units]
};
void LaunchRnnForward(const Queue& queue, const RnnStep& step, const RnnForward& forward);

struct RnnBackward {
  const float *gates, *more, *output;  // as they were kept
  const float *h_begin, *c_begin;      // what the layer began with
  const float* above;                  // gradient of the output
  const float *h_after, *c_after;      // gradients of the state after the step
  float *h, *c;                        // of the state before it, as far as no product is needed; may be those after it
  float *to_input, *to_state;          // gradients of the products, [directions, rows, gates * units]; of a GRU alone they differ
  float* of_step;                      // `to_state` of this step, [directions, batch, gates * units]
  float* before;                       // the state before the step, [directions, rows, units]
};
void LaunchRnnBackward(const Queue& queue, const RnnStep& step, const RnnBackward& backward);

// Of a direction: gradients of the biases of the input and of the state, sums of what is for the products over `rows` rows. Of `step`,
// what is the same in every step is read.
int64_t RnnBiasScratchBytes(const RnnStep& step, int64_t rows);
void LaunchRnnBiasGrads(const Queue& queue, const RnnStep& step, int64_t rows, const float* to_input, const float* to_state, float* biases,
                        void* scratch);

// What dropout scales by, in place of uniform numbers.
void LaunchDropoutScales(const Queue& queue, int64_t n, float rate, float* scales);
// y = x * by; `y` may be `x`.
void LaunchScale(const Queue& queue, int64_t n, const float* x, const float* by, float* y);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CUDNN_RNN_H_
