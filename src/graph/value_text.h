// Values of tensors as text for people, as TensorFlow's Assert, Print, tf.print and tf.strings.format write them.
#ifndef MILLRACE_SRC_GRAPH_VALUE_TEXT_H_
#define MILLRACE_SRC_GRAPH_VALUE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// The first `most` elements (all where it is negative), rows in brackets but the outermost: what Assert and Print write.
std::string FirstValuesText(const Tensor& tensor, int64_t most);

// `most` elements at either end of every dimension (all where it is negative), each dimension in brackets: what tf.print writes.
std::string EndValuesText(const Tensor& tensor, int64_t most);

// The template of a StringFormat with `attrs`, a value in place of each placeholder; an empty one is between any two characters.
class ValueTemplate {
 public:
  explicit ValueTemplate(const AttrMap& attrs);

  int64_t most() const { return most_; }  // elements at either end that a value shows
  int64_t placeholders() const;
  // What is behind the placeholder of the last value stays as it is; values that have none are left out.
  std::string Filled(const std::vector<std::string>& values) const;

 private:
  size_t NextPlaceholder(size_t from) const;  // npos: there is none

  std::string template_, placeholder_;
  int64_t most_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_VALUE_TEXT_H_
