// Regular expressions of TensorFlow's string ops, which are RE2's; regex.cc alone includes it.
#ifndef MILLRACE_SRC_GRAPH_REGEX_H_
#define MILLRACE_SRC_GRAPH_REGEX_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace re2 {
class RE2;
}

namespace millrace {

class Regex {
 public:
  // InvalidArgument says what is wrong with the pattern.
  static absl::StatusOr<Regex> Create(const std::string& pattern);
  // By the op: attribute `pattern` of Static*, else input 1.
  static absl::StatusOr<Regex> OfOp(const std::string& op, const AttrMap& attrs, const Tensor* pattern);

  bool MatchesAll(const std::string& text) const;
  // `text` with what matches replaced, everywhere or where it comes first; \1 in `rewrite` is what the first group matched.
  std::string Replaced(std::string text, const std::string& rewrite, bool everywhere) const;

 private:
  std::shared_ptr<const re2::RE2> regex_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_REGEX_H_
