// Runs of neighbouring words, as TensorFlow's StringNGrams makes them: the shape rule counts those that the evaluator of strings makes.
#ifndef MILLRACE_SRC_GRAPH_NGRAMS_H_
#define MILLRACE_SRC_GRAPH_NGRAMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

struct NGrams {
  std::vector<std::string> texts;
  std::vector<int64_t> splits;  // where each row begins in `texts`, and the end
};

// Of the rows that `splits` makes of `words`, by the op's attributes. InvalidArgument unless splits begin at 0, never fall and end at
// the number of words.
absl::StatusOr<NGrams> NGramsOf(const AttrMap& attrs, const Tensor& words, const Tensor& splits);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_NGRAMS_H_
