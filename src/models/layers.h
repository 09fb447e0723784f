// Layers that several models are made of. Images are NHWC, volumes NDHWC; every layer is a scope of its name.
#ifndef MILLRACE_SRC_MODELS_LAYERS_H_
#define MILLRACE_SRC_MODELS_LAYERS_H_

#include <string_view>

#include "absl/status/status.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"

namespace millrace::layers {

// A trainable variable for a layer of x, as the layer takes it: kept in float32 where x is of 16 bits, and cast.
Output Weight(const Output& x, std::string_view name, const Shape& shape, const Initializer& initializer);
// x in float32 where it is of 16 bits: for statistics, routing and losses.
Output Wide(const Output& x);

struct ConvOptions {
  int64_t size = 3;  // of the window, in every spatial dimension
  int64_t stride = 1;
  int64_t dilation = 1;
  bool bias = false;
};
// 2-D or 3-D by the rank of x, SAME padding; He initialisation.
Output Conv(const Output& x, int64_t filters, const ConvOptions& options, std::string_view name);
// A strided convolution whose padding does not depend on the image's size: Pad, then VALID.
Output PaddedConv(const Output& x, int64_t filters, int64_t size, int64_t stride, std::string_view name);
// Depthwise convolution of square windows, SAME padding. Dilated ones go through SpaceToBatchND, as in TensorFlow.
Output DepthwiseConv(const Output& x, int64_t size, int64_t stride, int64_t dilation, std::string_view name);

// Batch normalisation in training mode; its moving averages are updated with the step.
Output BatchNorm(const Output& x, std::string_view name, double gamma = 1);
// x W + b on a matrix; Glorot initialisation unless one is given.
Output Dense(const Output& x, int64_t units, std::string_view name, const Initializer& initializer = {});

// Elements become 0 with probability `rate`, the others grow by 1 / (1 - rate). Rate 0: x itself.
Output Dropout(const Output& x, double rate);
// max(x, 0), at most `limit`.
Output ClippedRelu(const Output& x, double limit);
// Normalises the last dimension, with scale and offset.
Output LayerNorm(const Output& x, std::string_view name, double epsilon = 1e-5);
// Rows of a table [rows, width] for `ids`: ids' shape and one more dimension, of the table's type.
Output Embedding(const Variable& table, const Output& ids);

// Mean over rows of the softmax cross entropy, a scalar of float32 (float64 for such logits).
Output ClassificationLoss(const Output& logits, const Output& labels, std::string_view name);

// InvalidArgument "model NAME: OPTION is VALUE, expected at least LEAST".
absl::Status ExpectAtLeast(std::string_view model, std::string_view option, int64_t value, int64_t least);

}  // namespace millrace::layers

#endif  // MILLRACE_SRC_MODELS_LAYERS_H_
