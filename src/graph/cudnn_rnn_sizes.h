// What recurrent layers as cuDNN has them (CudnnRNN and its gradient, src/ops/cudnn_rnn_ops.cc) are like, and where what they read and keep
// lies. Included by kernels of devices.
//
// What a training step keeps for its gradient: per layer its output, then per direction the gates (activated, [rows, gates * units]) and
// one more number of each unit: the cell of an LSTM, the state's product of a GRU; behind the layers what dropout scaled each input
// of the second layer on by. Rows are those of all steps, [steps, batch].
#ifndef MILLRACE_SRC_GRAPH_CUDNN_RNN_SIZES_H_
#define MILLRACE_SRC_GRAPH_CUDNN_RNN_SIZES_H_

#include <cstdint>
#include <string>

#include "millrace/op.h"

namespace millrace {

enum class CudnnRnnMode { kLstm, kGru, kRelu, kTanh };

inline CudnnRnnMode CudnnRnnModeOf(const AttrMap& attrs) {
  const auto name = attrs.GetOr<std::string>("rnn_mode", "lstm");
  if (name == "lstm") return CudnnRnnMode::kLstm;
  if (name == "gru") return CudnnRnnMode::kGru;
  return name == "rnn_relu" ? CudnnRnnMode::kRelu : CudnnRnnMode::kTanh;
}

inline int64_t CudnnRnnGates(CudnnRnnMode mode) { return mode == CudnnRnnMode::kLstm ? 4 : mode == CudnnRnnMode::kGru ? 3 : 1; }

inline int64_t CudnnRnnDirections(const AttrMap& attrs) {
  return attrs.GetOr<std::string>("direction", "unidirectional") == "bidirectional" ? 2 : 1;
}

struct CudnnRnnSizes {
  // Of a forward or a backward op.
  explicit CudnnRnnSizes(const OpInstance& node) {
    mode = CudnnRnnModeOf(node.attrs);
    gates = CudnnRnnGates(mode);
    directions = CudnnRnnDirections(node.attrs);
    time_major = node.attrs.GetOr("time_major", true);
    const Shape &input = node.inputs[0].shape, &state = node.inputs[1].shape;
    steps = input.dim(time_major ? 0 : 1);
    batch = input.dim(time_major ? 1 : 0);
    inputs = input.dim(2);
    units = state.dim(2);
    layers = state.dim(time_major ? 0 : 1) / directions;
    dropout = layers > 1 ? node.attrs.GetOr<float>("dropout", 0.0f) : 0.0f;
    has_lengths = node.op.ends_with("V3");
  }

  int64_t rows() const { return steps * batch; }
  int64_t wide() const { return directions * units; }
  int64_t width(int64_t layer) const { return layer == 0 ? inputs : wide(); }

  // Elements kept of a direction of a layer, of a layer, and at all.
  int64_t direction_kept() const { return rows() * units * (gates + 1); }
  int64_t layer_kept() const { return rows() * wide() + directions * direction_kept(); }
  int64_t kept() const { return layers * layer_kept() + (dropout > 0 ? dropped() : 0); }
  int64_t output_at(int64_t layer) const { return layer * layer_kept(); }
  int64_t gates_at(int64_t layer, int64_t direction) const { return output_at(layer) + rows() * wide() + direction * direction_kept(); }
  int64_t more_at(int64_t layer, int64_t direction) const { return gates_at(layer, direction) + rows() * units * gates; }
  // Elements that dropout scales, and where the scales of a layer's input are.
  int64_t dropped() const { return (layers - 1) * rows() * wide(); }
  int64_t dropped_at(int64_t layer) const { return layers * layer_kept() + (layer - 1) * rows() * wide(); }

  // Where the weights of a direction of a layer begin; those of its state come after those of its input.
  int64_t weights_at(int64_t layer, int64_t direction) const {
    int64_t at = 0;
    for (int64_t l = 0; l <= layer; ++l) at += (l < layer ? directions : direction) * direction_weights(l);
    return at;
  }
  int64_t direction_weights(int64_t layer) const { return gates * units * (width(layer) + units); }
  int64_t biases_at(int64_t layer, int64_t direction) const {
    return weights_at(layers, 0) + (layer * directions + direction) * 2 * gates * units;
  }
  // A row of the state of a direction of a layer.
  int64_t state_at(int64_t stacked, int64_t b) const { return (time_major ? stacked * batch + b : b * layers * directions + stacked) * units; }

  CudnnRnnMode mode;
  int64_t gates, directions, steps, batch, inputs, units, layers;
  bool time_major, has_lengths;
  float dropout;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_CUDNN_RNN_SIZES_H_
