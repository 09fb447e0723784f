#include "graph/string_pieces.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

std::string_view WithoutSpaceInFront(std::string_view text) {
  const auto first = std::find_if_not(text.begin(), text.end(), IsSpace);
  return text.substr(first - text.begin());
}

std::vector<std::string_view> CutAtSpace(std::string_view text, int64_t most) {
  std::vector<std::string_view> pieces;
  for (text = WithoutSpaceInFront(text); !text.empty();) {
    const size_t length = std::find_if(text.begin(), text.end(), IsSpace) - text.begin();
    pieces.push_back(text.substr(0, length));
    text = WithoutSpaceInFront(text.substr(length));
    if (most > 0 && static_cast<int64_t>(pieces.size()) == most) {
      pieces.push_back(text);  // the rest, even of nothing
      break;
    }
  }
  return pieces;
}

}  // namespace

std::vector<std::string_view> CutAtText(std::string_view text, std::string_view separator, int64_t most) {
  if (most == 0) return {text};
  if (separator.empty()) return CutAtSpace(text, most);
  std::vector<std::string_view> pieces;
  for (size_t at = text.find(separator); at != std::string_view::npos && (most < 0 || static_cast<int64_t>(pieces.size()) < most);
       at = text.find(separator)) {
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  pieces.push_back(text);
  return pieces;
}

std::vector<std::string_view> CutAtBytes(std::string_view text, std::string_view separators, bool skip_empty) {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  if (separators.empty()) {
    for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
    return pieces;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin || !skip_empty) pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

absl::StatusOr<std::vector<std::vector<std::string_view>>> PiecesOf(std::string_view op, const AttrMap& attrs, const Tensor& strings,
                                                                    const Tensor& separator) {
  if (strings.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("input must be a vector, got shape: ", strings.shape().ToString()));
  }
  if (separator.shape().rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the separator must be a scalar, got shape: ", separator.shape().ToString()));
  }
  const bool second = op == "StringSplitV2";
  const int64_t most = attrs.GetOr<int64_t>("maxsplit", -1);
  const bool skip_empty = attrs.GetOr<bool>("skip_empty", true);
  std::vector<std::vector<std::string_view>> rows;
  for (const std::string& text : strings.strings()) {
    rows.push_back(second ? CutAtText(text, separator.strings()[0], most) : CutAtBytes(text, separator.strings()[0], skip_empty));
  }
  return rows;
}

int64_t CountPieces(const std::vector<std::vector<std::string_view>>& rows) {
  int64_t count = 0;
  for (const auto& row : rows) count += static_cast<int64_t>(row.size());
  return count;
}

void WritePlaces(const std::vector<std::vector<std::string_view>>& rows, int64_t* places, int64_t* shape) {
  shape[0] = static_cast<int64_t>(rows.size());
  shape[1] = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    shape[1] = std::max(shape[1], static_cast<int64_t>(rows[r].size()));
    for (size_t k = 0; k < rows[r].size(); ++k) {
      *places++ = static_cast<int64_t>(r);
      *places++ = static_cast<int64_t>(k);
    }
  }
}

}  // namespace millrace
