#include "report/text_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/unicode.h"

namespace millrace {
namespace {

constexpr size_t kGap = 2;

size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string Line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t column = 0; column < cells.size(); ++column) {
    const std::string padding(widths[column] - Width(cells[column]), ' ');
    const bool left = column == 0 || column + 1 == widths.size();
    absl::StrAppend(&line, column == 0 ? "" : std::string(kGap, ' '), left ? "" : padding, cells[column],
                    left ? padding : "");
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string TextTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& name : header) widths.push_back(Width(name));
  for (const auto& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], Width(row[column]));
    }
  }
  std::vector<std::string> rule;
  for (const size_t width : widths) rule.push_back(std::string(width, '-'));
  std::string text = Line(header, widths) + Line(rule, widths);
  for (const auto& row : rows) text += Line(row, widths);
  return text;
}

std::string FormatSeconds(double seconds) {
  const double magnitude = std::abs(seconds);
  if (magnitude == 0) return "0 s";
  if (magnitude < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (magnitude < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.3f s", seconds);
}

std::string FormatCount(int64_t count) {
  const std::string digits = absl::StrCat(count);
  const size_t sign = count < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace millrace
