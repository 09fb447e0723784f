#include "graph/value_text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/float8.h"

namespace millrace {
namespace {

// The fewest of two numbers of digits that tell the number from all others of its type.
std::string NumberOf(double value, bool is_double) {
  char text[40];
  std::snprintf(text, sizeof(text), is_double ? "%.15g" : "%.6g", value);
  const bool same = is_double ? std::strtod(text, nullptr) == value : std::strtof(text, nullptr) == static_cast<float>(value);
  if (!same && value == value) std::snprintf(text, sizeof(text), is_double ? "%.17g" : "%.9g", value);
  return text;
}

std::string ElementText(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DataType::kString: return tensor.strings()[i];
    case DataType::kBool: return tensor.IntAt(i) != 0 ? "1" : "0";
    case DataType::kUint64: return absl::StrCat(static_cast<uint64_t>(tensor.IntAt(i)));
    default: break;
  }
  if (IsInteger(tensor.dtype())) return absl::StrCat(tensor.IntAt(i));
  if (!IsFloating(tensor.dtype()) && !IsFloat8(tensor.dtype())) return "?";
  return NumberOf(tensor.DoubleAt(i), tensor.dtype() == DataType::kDouble);
}

// Until `most` elements are written.
void AppendRows(const Tensor& tensor, int dim, int64_t most, int64_t& next, std::string& text) {
  const Shape& shape = tensor.shape();
  if (dim >= shape.rank()) {
    if (next < most) text += ElementText(tensor, next++);
    return;
  }
  const bool innermost = dim + 1 == shape.rank();
  for (int64_t i = 0; i < shape.dim(dim); ++i) {
    if (next >= most) {
      if (innermost && dim > 0) text += "...";
      return;
    }
    if (innermost) {
      if (i > 0) text += ' ';
      text += ElementText(tensor, next++);
    } else {
      text += '[';
      AppendRows(tensor, dim + 1, most, next, text);
      text += ']';
    }
  }
}

// Elements of the innermost dimension are parted by blanks, rows by lines, blocks of rows by empty lines.
void AppendGap(int dim, int rank, std::string& text) {
  if (dim + 1 == rank) {
    text += ' ';
    return;
  }
  text.append(rank - 1 - dim, '\n');
  text.append(dim + 1, ' ');
}

// The part from element `first` on that the dimensions from `dim` on span.
void AppendEnds(const Tensor& tensor, int dim, int64_t ends, int64_t first, std::string& text) {
  const Shape& shape = tensor.shape();
  if (dim == shape.rank()) {
    text += tensor.dtype() == DataType::kString ? absl::StrCat("\"", absl::CEscape(tensor.strings()[first]), "\"") : ElementText(tensor, first);
    return;
  }
  int64_t stride = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) stride *= shape.dim(d);
  const int64_t size = shape.dim(dim), last = std::max(ends, size - ends);
  text += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i >= ends && i < last) continue;
    if (i > 0 && i == last && size > 2 * ends) {
      AppendGap(dim, shape.rank(), text);
      text += "...";
    }
    if (i > 0) AppendGap(dim, shape.rank(), text);
    AppendEnds(tensor, dim + 1, ends, first + i * stride, text);
  }
  if (ends == 0 && size > 0) {
    AppendGap(dim, shape.rank(), text);
    text += "...";
  }
  text += ']';
}

}  // namespace

std::string FirstValuesText(const Tensor& tensor, int64_t most) {
  const int64_t elements = tensor.num_elements();
  if (most < 0) most = elements;
  std::string text;
  int64_t next = 0;
  AppendRows(tensor, 0, std::min(most, elements), next, text);
  if (most < elements) text += "...";
  return text;
}

std::string EndValuesText(const Tensor& tensor, int64_t most) {
  const int64_t elements = tensor.num_elements();
  std::string text;
  AppendEnds(tensor, 0, most < 0 ? elements : std::min(most, elements), 0, text);
  return text;
}

ValueTemplate::ValueTemplate(const AttrMap& attrs)
    : template_(attrs.GetOr<std::string>("template", "%s")),
      placeholder_(attrs.GetOr<std::string>("placeholder", "%s")),
      most_(attrs.GetOr<int64_t>("summarize", 3)) {}

size_t ValueTemplate::NextPlaceholder(size_t from) const {
  if (!placeholder_.empty()) return template_.find(placeholder_, from);
  return from + 1 < template_.size() ? from + 1 : std::string::npos;
}

int64_t ValueTemplate::placeholders() const {
  if (placeholder_.empty()) return std::max<int64_t>(static_cast<int64_t>(template_.size()), 1) - 1;
  int64_t count = 0;
  for (size_t at = template_.find(placeholder_); at != std::string::npos; at = template_.find(placeholder_, at + placeholder_.size())) ++count;
  return count;
}

std::string ValueTemplate::Filled(const std::vector<std::string>& values) const {
  std::string text;
  size_t from = 0;
  for (const std::string& value : values) {
    const size_t at = NextPlaceholder(from);
    if (at == std::string::npos) break;
    absl::StrAppend(&text, template_.substr(from, at - from), value);
    from = at + placeholder_.size();
  }
  return absl::StrCat(text, template_.substr(from));
}

}  // namespace millrace
