#include "graph/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr char kEllipsis = '.';

absl::Status Error(const std::string& equation, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("equation '", equation, "': ", message));
}

// Letters, with one kEllipsis for "...".
absl::StatusOr<std::string> ParseTerm(const std::string& equation, const std::string& term) {
  std::string labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels += term[i];
    } else if (term.compare(i, 3, "...") == 0 && labels.find(kEllipsis) == std::string::npos) {
      labels += kEllipsis;
      i += 2;
    } else {
      return Error(equation, absl::StrCat("'", term, "' is not letters with at most one '...'"));
    }
  }
  return labels;
}

class Labeller {
 public:
  explicit Labeller(const std::string& equation) : equation_(equation) {}

  absl::Status AddInput(const std::string& term, const Shape& shape) {
    const bool ellipsis = term.find(kEllipsis) != std::string::npos;
    const int named = static_cast<int>(term.size()) - (ellipsis ? 1 : 0), rank = shape.rank();
    if (ellipsis ? rank < named : rank != named) {
      return Error(equation_, absl::StrCat("'", term, "' is for rank ", named, ellipsis ? " or more" : "", ", but the input is ",
                                           shape.ToString()));
    }
    std::vector<int> labels;
    for (char c : term) {
      if (c != kEllipsis) {
        MR_RETURN_IF_ERROR(AddNamed(c, shape, labels));
        continue;
      }
      for (int left = rank - named; left > 0; --left) MR_RETURN_IF_ERROR(AddBroadcast(left, shape, labels));
    }
    result_.inputs.push_back(std::move(labels));
    return absl::OkStatus();
  }

  absl::StatusOr<EinsumLabels> Finish(const std::string& output) {
    if (!broadcast_.empty() && output.find(kEllipsis) == std::string::npos) {
      return Error(equation_, "the inputs have dimensions under '...', but the output has no '...'");
    }
    for (char c : output) {
      if (c == kEllipsis) {
        for (auto it = broadcast_.rbegin(); it != broadcast_.rend(); ++it) result_.output.push_back(it->second);
      } else if (const auto found = named_.find(c); found != named_.end()) {
        result_.output.push_back(found->second);
      } else {
        return Error(equation_, absl::StrCat("output label '", std::string(1, c), "' is in no input"));
      }
    }
    return std::move(result_);
  }

 private:
  int NewLabel() {
    result_.sizes.push_back(-1);
    return static_cast<int>(result_.sizes.size()) - 1;
  }

  absl::Status AddNamed(char c, const Shape& shape, std::vector<int>& labels) {
    const auto [entry, added] = named_.try_emplace(c, 0);
    if (added) entry->second = NewLabel();
    int64_t& size = result_.sizes[entry->second];
    const int64_t dim = shape.dim(static_cast<int>(labels.size()));
    if (size >= 0 && dim >= 0 && size != dim) {
      return Error(equation_, absl::StrCat("label '", std::string(1, c), "' is ", size, " and, in an input of shape ",
                                           shape.ToString(), ", ", dim));
    }
    size = std::max(size, dim);
    labels.push_back(entry->second);
    return absl::OkStatus();
  }

  // The dimension that has `left` dimensions of the ellipsis from it on.
  absl::Status AddBroadcast(int left, const Shape& shape, std::vector<int>& labels) {
    const auto [entry, added] = broadcast_.try_emplace(left, 0);
    if (added) entry->second = NewLabel();
    int64_t& size = result_.sizes[entry->second];
    const int64_t dim = shape.dim(static_cast<int>(labels.size()));
    if (size > 1 && dim > 1 && size != dim) {
      return Error(equation_, absl::StrCat("the dimensions ", size, " and ", dim, " under '...' do not broadcast"));
    }
    if (size == 0 || dim == 0) {
      size = 0;
    } else if (size < 0 || dim < 0) {
      // An unknown dimension may be 1: known only when another is larger.
      size = added ? dim : std::max(size, dim) > 1 ? std::max(size, dim) : -1;
    } else {
      size = std::max(size, dim);
    }
    labels.push_back(entry->second);
    return absl::OkStatus();
  }

  const std::string& equation_;
  std::map<char, int> named_;
  std::map<int, int> broadcast_;
  EinsumLabels result_;
};

}  // namespace

absl::StatusOr<EinsumLabels> ParseEinsum(const std::string& equation, absl::Span<const TensorType> inputs) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) return Error(equation, "expected exactly one '->'");
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (terms.size() != inputs.size()) {
    return Error(equation, absl::StrCat("is for ", terms.size(), " inputs, the node has ", inputs.size()));
  }
  if (terms.size() > 2) return Error(equation, absl::StrCat("is for ", terms.size(), " inputs, expected 1 or 2"));
  Labeller labeller(equation);
  for (size_t i = 0; i < terms.size(); ++i) {
    MR_ASSIGN_OR_RETURN(const std::string term, ParseTerm(equation, terms[i]));
    MR_RETURN_IF_ERROR(labeller.AddInput(term, inputs[i].shape));
  }
  MR_ASSIGN_OR_RETURN(const std::string output, ParseTerm(equation, sides[1]));
  return labeller.Finish(output);
}

}  // namespace millrace
