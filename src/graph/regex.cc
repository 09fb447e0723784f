#include "graph/regex.h"

#include <re2/re2.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<Regex> Regex::Create(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  Regex regex;
  regex.regex_ = std::make_shared<const re2::RE2>(pattern, options);
  if (regex.regex_->ok()) return regex;
  return absl::InvalidArgumentError(absl::StrCat("Invalid pattern: ", pattern, ", error: ", regex.regex_->error()));
}

absl::StatusOr<Regex> Regex::OfOp(const std::string& op, const AttrMap& attrs, const Tensor* pattern) {
  if (absl::StartsWith(op, "Static")) return Create(attrs.GetOr<std::string>("pattern", ""));
  if (pattern == nullptr || pattern->shape().rank() != 0) return absl::InvalidArgumentError("Pattern must be scalar, and known when the graph is planned");
  return Create(pattern->strings()[0]);
}

bool Regex::MatchesAll(const std::string& text) const { return re2::RE2::FullMatch(text, *regex_); }

std::string Regex::Replaced(std::string text, const std::string& rewrite, bool everywhere) const {
  if (everywhere) {
    re2::RE2::GlobalReplace(&text, *regex_, rewrite);
  } else {
    re2::RE2::Replace(&text, *regex_, rewrite);
  }
  return text;
}

}  // namespace millrace
