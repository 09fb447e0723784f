// Runs a graph node by node in creation order on host tensors: no passes, no plan, no memory reuse. The oracle of
// tests that check what a graph computes.
#ifndef MILLRACE_TESTS_TESTLIB_GRAPH_INTERPRETER_H_
#define MILLRACE_TESTS_TESTLIB_GRAPH_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/kernel.h"
#include "millrace/op.h"

namespace millrace::testing {

// All CPU kernels, built once.
const KernelRegistry& CpuKernels();

class GraphInterpreter {
 public:
  // `graph` must outlive the interpreter.
  explicit GraphInterpreter(const Graph& graph, const OpRegistry& ops = OpRegistry::Builtin(),
                            const KernelRegistry& kernels = CpuKernels())
      : graph_(graph), ops_(ops), kernels_(kernels) {}

  // As Session::Run: feeds by placeholder name, fetches as "node:0", targets as "node". Errors name the node.
  absl::StatusOr<std::vector<Tensor>> Run(const std::map<std::string, Tensor>& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets = {});

  // Initialised variables by name, kept from run to run.
  std::map<std::string, Tensor>& variables() { return variables_; }

 private:
  using Values = std::map<OutputRef, Tensor>;

  absl::Status RunNode(NodeId id, Values& values);
  absl::Status GatherInputs(const Node& node, const OpDef& def, const Values& values, std::vector<Tensor>& inputs,
                            std::vector<bool>& is_variable);
  // The variable that the output is, "" when it is none.
  std::string VariableName(OutputRef ref) const;

  const Graph& graph_;
  const OpRegistry& ops_;
  const KernelRegistry& kernels_;
  std::map<std::string, Tensor> variables_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_GRAPH_INTERPRETER_H_
