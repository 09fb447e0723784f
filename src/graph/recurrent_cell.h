// What LSTM and GRU cells of TensorFlow (LSTMBlockCell, BlockLSTM, GRUBlockCell and their gradients) are like. Included by kernels of devices.
#ifndef MILLRACE_SRC_GRAPH_RECURRENT_CELL_H_
#define MILLRACE_SRC_GRAPH_RECURRENT_CELL_H_

#include <cstdint>

namespace millrace {

struct OpInstance;
class Shape;

struct RecurrentCell {
  int64_t batch = 0, inputs = 0, cells = 0;
  int64_t width() const { return inputs + cells; }
};

struct LstmCell : RecurrentCell {
  float forget_bias = 0, clip = 0;  // no clipping unless above 0
  bool peephole = false;
  // Where gates i, ci, f and o lie in a row of 4 * cells.
  int64_t i_at = 0, ci_at = 0, f_at = 0, o_at = 0;
};

// x: [.., batch, inputs]; w: [inputs + cells, 4 * cells].
LstmCell LstmCellOf(const OpInstance& node, const Shape& x, const Shape& w);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_RECURRENT_CELL_H_
