// A conformance case as the data files hold it: one node, its inputs, and what TensorFlow made of them.
#ifndef MILLRACE_TESTS_CONFORMANCE_CASE_H_
#define MILLRACE_TESTS_CONFORMANCE_CASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace::conformance {

struct Expected {
  TensorType type;
  int64_t stride = 1;  // `values` holds every stride-th element
  Tensor values;
};

struct Case {
  std::string family, name, op;
  AttrMap attrs;
  std::vector<Tensor> inputs;  // of a variable: its value before
  std::vector<bool> is_variable;
  std::map<int, Expected> outputs;    // by output; one that is not here is not compared
  std::map<int, Expected> variables;  // values after, by input
  double rtol = 0, atol = 0;
  int64_t runs = 1;
  std::optional<std::string> error;  // the case must fail, with this text in the message
};

// The families' files in `folder`, FAMILY.pb.gz, by name.
std::vector<std::string> CaseFiles(const std::string& folder);
// FAMILY of such a path.
std::string FamilyOf(const std::string& path);
// The cases of such a file, in its order.
absl::StatusOr<std::vector<Case>> LoadCases(const std::string& path);
// Those of all files in `folder`.
absl::StatusOr<std::vector<Case>> LoadAllCases(const std::string& folder);

// OK, or what differs first: shape, type, or element with both values.
absl::Status CompareTensors(const Tensor& found, const Expected& expected, double rtol, double atol);

}  // namespace millrace::conformance

#endif  // MILLRACE_TESTS_CONFORMANCE_CASE_H_
