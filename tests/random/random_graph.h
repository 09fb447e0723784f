// Small random training graphs out of conformance cases. See README.md.
#ifndef MILLRACE_TESTS_RANDOM_RANDOM_GRAPH_H_
#define MILLRACE_TESTS_RANDOM_RANDOM_GRAPH_H_

#include <random>
#include <string>
#include <vector>

#include "conformance/case.h"
#include "millrace/graph.h"

namespace millrace {

// A graph with a node `init` (to be run once) and a node `train` (every step).
struct TrainingGraph {
  Graph graph;
  std::vector<std::string> fetches;
  std::string made_of;  // what it is made of, for messages
  bool in_low_precision = false;  // some of it
};

// Cases of the files in `folder` that a random graph can be made of: no expected errors, no strings, small.
std::vector<conformance::Case> UsableCases(const std::string& folder);

// Memory of this type and shape with the bytes of `given`, over and over.
Tensor Filled(const Tensor& given, DataType type, const Shape& shape);

// `ops` cases, the same for the same state of `random`.
TrainingGraph MakeGraphOfCases(const std::vector<conformance::Case>& cases, int ops, std::mt19937_64& random);

// Draws cases by their names (the highest hash of name and draw): one more case takes the place of others in few draws, and all other
// seeds stay what they were.
class CasePicker {
 public:
  explicit CasePicker(const std::vector<conformance::Case>& cases);  // some, which outlive it
  const conformance::Case& Pick(std::mt19937_64& random) const;

 private:
  const std::vector<conformance::Case>& cases_;
  std::vector<uint64_t> hashes_;  // of names
};

// The case with one to three things wrong or merely different: shapes, types, values and number of its inputs, its
// attributes.
conformance::Case EditCase(conformance::Case one, std::mt19937_64& random);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RANDOM_RANDOM_GRAPH_H_
