// Random training-like graphs over the test ops: chains with long gaps, variables that are read and updated; over several
// devices also nodes that ask for one, control edges and Identity. With a backward pass, most tensors of a chain wait for
// the node that takes them in reverse order, as activations do: small working sets, a high peak.
#ifndef MILLRACE_TESTS_TESTLIB_RANDOM_GRAPH_H_
#define MILLRACE_TESTS_TESTLIB_RANDOM_GRAPH_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/graph.h"

namespace millrace {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed, int devices = 0, bool backward = false) : random_(seed), devices_(devices) {
    const int variables = Below(4), nodes = 5 + Below(40);
    tensors_.push_back({Add("Placeholder", {}), 0});
    graph_.mutable_node(tensors_[0].node).attrs.Set("dtype", DataType::kFloat);
    for (int v = 0; v < variables; ++v) variables_.push_back(Add("Var", {}));
    for (int i = 0; i < nodes; ++i) AddRandomNode();
    if (backward) AddBackward();
  }

  Graph& graph() { return graph_; }
  const std::vector<std::string>& targets() const { return targets_; }
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

 private:
  NodeId Add(const std::string& op, std::vector<OutputRef> inputs) {
    Node node;
    node.name = absl::StrCat("n", graph_.num_ids());
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs.Set("shape", Shape({2, 2 * (1 + Below(40))}));
    if (Below(5) == 0) node.attrs.Set("scratch", int64_t{64} * Below(30));
    if (devices_ > 0 && Below(3) > 0) node.requested_device = absl::StrCat("/gpu:", Below(devices_));
    if (devices_ > 0 && Below(6) == 0 && op != "Placeholder" && op != "Var") {
      node.control_inputs.push_back(NodeId{Below(graph_.num_ids())});
    }
    return graph_.AddNode(std::move(node)).value();
  }

  OutputRef Any() {
    // Mostly recent tensors, now and then an old one: long gaps.
    const int size = static_cast<int>(tensors_.size());
    return tensors_[Below(3) == 0 ? Below(size) : size - 1 - Below(std::min(size, 4))];
  }

  NodeId AnyVariable() { return variables_[Below(static_cast<int>(variables_.size()))]; }

  void AddRandomNode() {
    const int kind = Below(devices_ > 0 ? 11 : 10);
    if (kind == 0 && !variables_.empty()) {
      tensors_.push_back({Add("Read", {{AnyVariable(), 0}}), 0});
    } else if (kind == 1 && !variables_.empty()) {
      targets_.push_back(graph_.node(Add("Update", {{AnyVariable(), 0}, Any()})).name);
    } else if (kind == 10) {
      tensors_.push_back({Add("Identity", {Any()}), 0});
    } else if (kind == 2) {
      const NodeId node = Add("Two", {Any()});
      tensors_.push_back({node, 0});
      tensors_.push_back({node, 1});
    } else {
      const char* const ops[] = {"Op", "InPlace", "Small"};
      std::vector<OutputRef> inputs = {Any()};
      if (Below(2) == 0) inputs.push_back(Any());
      tensors_.push_back({Add(ops[Below(3)], inputs), 0});
      if (Below(8) == 0) targets_.push_back(graph_.node(tensors_.back().node).name);
    }
  }

  void AddBackward() {
    OutputRef gradient = tensors_.back();
    for (size_t k = tensors_.size(); k-- > 0;) {
      if (Below(8) == 0) continue;
      gradient = {Add(Below(2) == 0 ? "Op" : "InPlace", {gradient, tensors_[k]}), 0};
      if (!variables_.empty() && Below(6) == 0) {
        targets_.push_back(graph_.node(Add("Update", {{AnyVariable(), 0}, gradient})).name);
      }
    }
  }

  std::mt19937 random_;
  const int devices_;
  Graph graph_;
  std::vector<OutputRef> tensors_;
  std::vector<NodeId> variables_;
  std::vector<std::string> targets_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_RANDOM_GRAPH_H_
