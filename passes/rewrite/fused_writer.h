// Writes down a group of elementwise ops as the attributes and inputs of one `_Fused` node.
//
// Attributes of `_Fused`, N inputs, K ops:
//   ops, types     the ops with their attributes, and the types of their results
//   operands       for each op how many, then input i or -1 - k for the result of op k
//   shape, row     of every op's result; the length of what is read or written by rows, 0 for none
//   spreads        (where an input repeats in other ways) per input three numbers (graph/spread.h), zeros: it does not
//   pitches, offsets  (where an input is read by rows) per input, elements: row r begins at offset + r * pitch; -1: whole,
//                  one element, or one row that repeats
//   results, output_shapes  (unless the last op's result is the only one) op, output, pitch, offset for each result, pitch
//                  -1: the whole output
// With reductions the node is another one (graph/fused_reduce.h).
#ifndef MILLRACE_PASSES_REWRITE_FUSED_WRITER_H_
#define MILLRACE_PASSES_REWRITE_FUSED_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// How an operand goes with a shape.
enum class Operand { kFull, kOne, kRow, kSpread, kOther };

// `row`: of a kRow its length. One element and rows are told from other spreads.
Operand OperandOf(const Shape& operand, const Shape& shape, int64_t* row);

// A copy whose readers go to what it copies from, and the addition of a bias that is repeated for what they read.
struct Cut {
  NodeId copy, bias;
  std::vector<int32_t> outputs;  // those that are read
};

// What becomes one node. It runs where the root was; what is computed earlier in creation order waits until then.
struct Draft {
  NodeId root;                  // an op of the group, or the ConcatV2 that it writes
  bool concat = false;
  Shape shape;                  // of every op
  std::vector<NodeId> members;  // ops; in creation order once complete
  std::vector<Cut> cuts;
  std::vector<NodeId> reductions;  // of members' results, or of what they take, over these dimensions
  std::vector<bool> reduced;
  std::vector<NodeId> results;  // that are there once complete: the root's first, unless reductions are all that takes it
};

// An input of a fused node: as it is; (pitch >= 0) read by rows that are `pitch` apart, from `offset` on; or spread, for ops
// that take nothing but whole tensors.
struct FusedInput {
  OutputRef ref;
  int64_t pitch = -1, offset = 0;
  bool spread = false;
  friend bool operator==(const FusedInput& a, const FusedInput& b) {
    return a.ref == b.ref && a.pitch == b.pitch && a.offset == b.offset && a.spread == b.spread;
  }
};

// What a group reads for a tensor from outside: of a BroadcastTo, or a Tile of dimensions of 1, the operand, spread.
FusedInput ReadFor(const Graph& graph, OutputRef ref);

class FusedWriter {
 public:
  // Both must outlive the writer.
  FusedWriter(const Graph& graph, const Draft& group);

  // The tensor, a result of the group, is written to the output; whole where `pitch` is -1.
  void AddResult(OutputRef ref, int64_t output, int64_t pitch, int64_t offset);
  // The tensor, a result of the group or a whole input of its shape, is reduced to the output.
  void AddReduction(OutputRef ref, const std::string& op, int64_t output);
  void set_row(int64_t row) { row_ = row; }
  const std::vector<FusedInput>& inputs() const { return inputs_; }
  AttrMap Attributes(std::vector<Shape> output_shapes) const;

 private:
  std::vector<int64_t> Spreads() const;
  int64_t WriteOp(const Node& node, const std::vector<int64_t>& operands);
  int64_t Input(const FusedInput& input);
  int64_t OperandOfRef(OutputRef ref);
  void WriteCut(const Cut& cut, OutputRef ref);

  const Graph& graph_;
  const Draft& group_;
  std::vector<FusedInput> inputs_;
  std::map<OutputRef, int64_t> operand_of_;  // what stands for the tensor
  std::vector<FunctionRef> ops_;
  std::vector<int64_t> operands_, results_, reduced_;
  std::vector<std::string> reductions_;
  std::vector<DataType> types_;
  int64_t row_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSED_WRITER_H_
