// Ops that fail for some values of an input: what stands there instead where the node is in a branch that is not taken.
//
// Both sides of a conditional run, and TensorFlow's programs ask exactly so that the other side does not: whether there is
// anything to gather, whether a divisor is zero. What such a node computes where its branch is not taken is selected by
// nobody, so any value will do that it accepts.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_HARMLESS_INPUTS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_HARMLESS_INPUTS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// kIdentity: matrices, the last two dimensions square. kPositions: 0, 1, 2, ... of a vector.
enum class HarmlessValue { kZeros, kOnes, kIdentity, kPositions };

struct HarmlessInput {
  int input = 0;
  DataType type = DataType::kFloat;
  HarmlessValue value = HarmlessValue::kZeros;
};

// The inputs whose values can make the node fail; none for most ops. Assert, whose way is another one, is not among them.
std::vector<HarmlessInput> HarmlessInputsOf(const Node& node);

// The inputs whose values the op's kernel checks where nothing can be said in general of values that it accepts: such a node
// must not run where its branch is not taken (guard_failures.h).
std::vector<size_t> CheckedInputsOf(const Node& node);

// Tells values that planning will know, which must stay as they are: shape rules may ask for them.
class KnownWhenPlanned {
 public:
  KnownWhenPlanned(const Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops) {}
  // Whether the value follows from constants and shapes alone. Nodes added to the graph later may be asked about, too.
  bool Holds(OutputRef ref);

 private:
  const Graph& graph_;
  const OpRegistry& ops_;
  std::unordered_map<int32_t, bool> known_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_HARMLESS_INPUTS_H_
