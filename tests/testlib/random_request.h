// What tests ask of a random graph: its first node is fed, its targets run, its last node is fetched.
#ifndef MILLRACE_TESTS_TESTLIB_RANDOM_REQUEST_H_
#define MILLRACE_TESTS_TESTLIB_RANDOM_REQUEST_H_

#include "absl/strings/str_cat.h"
#include "passes/prepare.h"
#include "testlib/random_graph.h"
#include "testlib/test_ops.h"

namespace millrace {

// On the unit machine; the request refers to the graph. `devices`: gpu:0 and its neighbours, 0 names none.
inline CompileRequest RequestOf(RandomGraph& random, const OpRegistry& ops, KernelOracle& oracle, int devices = 0) {
  const Graph& graph = random.graph();
  CompileRequest request{graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.feeds["n0:0"] = {DataType::kFloat, graph.node(NodeId{0}).attrs.GetOr<Shape>("shape", {})};
  request.signature.targets = random.targets();
  request.signature.fetches = {absl::StrCat("n", graph.num_ids() - 1, ":0")};
  request.verify_phases = true;
  for (int d = 0; d < devices; ++d) request.options.devices.push_back(absl::StrCat("gpu:", d));
  return request;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_RANDOM_REQUEST_H_
