// How AsString writes a number, for what computes strings and for what hashes them without having them.
#ifndef MILLRACE_SRC_GRAPH_NUMBER_TEXT_H_
#define MILLRACE_SRC_GRAPH_NUMBER_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

class NumberText {
 public:
  // From AsString's attributes; InvalidArgument says which is wrong, Unimplemented for what is no number.
  static absl::StatusOr<NumberText> Create(const AttrMap& attrs, DataType dtype);
  // Element i of a tensor of that type.
  std::string Of(const Tensor& numbers, int64_t i) const;

 private:
  DataType dtype_ = DataType::kInvalid;
  std::string format_;  // printf's
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_NUMBER_TEXT_H_
