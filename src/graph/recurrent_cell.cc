#include "graph/recurrent_cell.h"

#include <string>

#include "millrace/op.h"

namespace millrace {

LstmCell LstmCellOf(const OpInstance& node, const Shape& x, const Shape& w) {
  LstmCell lstm;
  lstm.batch = x.dim(x.rank() - 2);
  lstm.inputs = x.dim(x.rank() - 1);
  lstm.cells = w.dim(1) / 4;
  const bool second = node.op.find("V2") != std::string::npos;
  lstm.forget_bias = second ? 0.0f : node.attrs.GetOr("forget_bias", 1.0f);
  lstm.clip = node.attrs.GetOr("cell_clip", second ? 0.0f : 3.0f);
  lstm.peephole = node.attrs.GetOr("use_peephole", false);
  lstm.ci_at = (second ? 2 : 1) * lstm.cells;
  lstm.f_at = (second ? 1 : 2) * lstm.cells;
  lstm.o_at = 3 * lstm.cells;
  return lstm;
}

}  // namespace millrace
