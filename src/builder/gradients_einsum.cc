// Gradients of Einsum: again Einsums. An ellipsis is first written out as labels.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool has_ellipsis = false;
};

// "..." -> one label per dimension that it stands for, aligned to the right over the operands. Labels of the
// equation are ASCII letters; those of an ellipsis are taken from the letters that are left.
std::optional<Equation> Parse(const Context& c) {
  std::string text = c.attrs().GetOr<std::string>("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  Equation equation{absl::StrSplit(text.substr(0, arrow), ','), text.substr(arrow + 2), text.find("...") != std::string::npos};
  if (static_cast<int>(equation.inputs.size()) != c.num_inputs()) return std::nullopt;

  std::string spare;
  for (char label = 'a'; label <= 'z'; ++label) {
    if (text.find(label) == std::string::npos) spare.push_back(label);
  }
  for (char label = 'A'; label <= 'Z'; ++label) {
    if (text.find(label) == std::string::npos) spare.push_back(label);
  }
  size_t longest = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    std::string& labels = equation.inputs[i];
    const size_t dots = labels.find("...");
    if (dots == std::string::npos) continue;
    const size_t count = c.input(i).rank() - (labels.size() - 3);
    if (count > spare.size()) return std::nullopt;
    longest = std::max(longest, count);
  }
  const auto expand = [&](std::string& labels, size_t count) {
    const size_t dots = labels.find("...");
    if (dots != std::string::npos) labels.replace(dots, 3, spare.substr(longest - count, count));
  };
  for (int i = 0; i < c.num_inputs(); ++i) {
    const size_t named = equation.inputs[i].find("...") == std::string::npos ? 0 : equation.inputs[i].size() - 3;
    expand(equation.inputs[i], c.input(i).rank() - named);
  }
  expand(equation.output, longest);
  return equation;
}

bool Repeats(const std::string& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels.find(labels[i], i + 1) != std::string::npos) return true;
  }
  return false;
}

// `x` without the dimensions of size 1 whose label has another size elsewhere (broadcast through an ellipsis).
struct Operand {
  Output tensor;
  std::string labels;
};
Operand WithoutBroadcast(const Output& x, const std::string& labels, const std::map<char, int64_t>& sizes) {
  Operand result{x, ""};
  std::vector<int64_t> dims;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (x.dim(static_cast<int>(i)) == 1 && sizes.at(labels[i]) != 1) continue;
    result.labels.push_back(labels[i]);
    dims.push_back(x.dim(static_cast<int>(i)));
  }
  if (result.labels.size() != labels.size()) result.tensor = ops::Reshape(x, dims);
  return result;
}

// The gradient of operand `index`, given the output's and the other operand (none for a unary Einsum).
Output OperandGradient(const Output& g, const Equation& equation, int index, const Output& x,
                       const std::optional<Operand>& other, const std::map<char, int64_t>& sizes) {
  const std::string& labels = equation.inputs[index];
  // Labels that only this operand has were summed over: their gradient is broadcast.
  std::string present;
  std::vector<int64_t> kept_dims;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t dim = x.dim(static_cast<int>(i));
    const bool elsewhere = equation.output.find(labels[i]) != std::string::npos ||
                           (other && other->labels.find(labels[i]) != std::string::npos);
    if (elsewhere && !(dim == 1 && sizes.at(labels[i]) != 1)) present.push_back(labels[i]);
    kept_dims.push_back(elsewhere ? dim : 1);
  }
  std::vector<Output> operands = {g};
  std::string left = equation.output;
  if (other) {
    operands.push_back(other->tensor);
    absl::StrAppend(&left, ",", other->labels);
  }
  Output result = ops::Einsum(operands, absl::StrCat(left, "->", present));
  if (!HasKnownShape(x)) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (present.find(labels[i]) == std::string::npos) result = ops::ExpandDims(result, static_cast<int64_t>(i));
    }
    // What an ellipsis stands for may be 1 here and more in the other operand.
    if (equation.has_ellipsis && other && present.size() == labels.size()) return SumAs(result, x);
    return BroadcastAs(result, x);
  }
  if (Dims(result) != kept_dims) result = ops::Reshape(result, kept_dims);
  return result.shape() == x.shape() ? result : ops::BroadcastTo(result, Dims(x));
}

absl::Status EinsumGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const std::optional<Equation> equation = Parse(c);
  if (!equation || c.num_inputs() > 2) {
    return c.Error(absl::StrCat("the equation '", c.attrs().GetOr<std::string>("equation", ""),
                                "' has no gradient here, expected one or two operands and '->'"));
  }
  std::map<char, int64_t> sizes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (Repeats(equation->inputs[i])) {
      return c.Error(absl::StrCat("operand ", i, " repeats a label, which has no gradient here"));
    }
    for (size_t k = 0; k < equation->inputs[i].size(); ++k) {
      int64_t& size = sizes.try_emplace(equation->inputs[i][k], 1).first->second;
      const int64_t dim = c.input(i).dim(static_cast<int>(k));
      if (dim > size || (dim < 0 && size == 1)) size = dim;
    }
  }
  const Output g = c.gradient();
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.wants(i)) continue;
    std::optional<Operand> other;
    if (c.num_inputs() == 2) other = WithoutBroadcast(Conj(c.input(1 - i)), equation->inputs[1 - i], sizes);
    c.Set(i, OperandGradient(g, *equation, i, c.input(i), other, sizes));
  }
  return absl::OkStatus();
}

}  // namespace

void AddEinsumGradients(GradientTable& table) { table.Add("Einsum", EinsumGradient); }

}  // namespace millrace
