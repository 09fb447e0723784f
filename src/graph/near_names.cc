#include "graph/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace millrace {
namespace {

void DropCommonEnds(std::string_view& a, std::string_view& b) {
  const auto [begin_a, begin_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto begin = static_cast<size_t>(begin_a - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
}

}  // namespace

size_t DifferingLetters(std::string_view a, std::string_view b, size_t most) {
  DropCommonEnds(a, b);
  if (a.size() < b.size()) std::swap(a, b);
  if (a.size() - b.size() > most) return most + 1;
  // Row i: distances from the first i letters of a to those of b; the two rows before it are kept.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row.assign(b.size() + 1, most + 1);
    if (i <= most) row[0] = i;
    // Farther from the diagonal lie more than `most` letters put in or left out.
    for (size_t j = i > most ? i - most : 1; j <= std::min(b.size(), i + most); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1, most + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    if (*std::min_element(row.begin(), row.end()) > most) return most + 1;
  }
  return std::min(row.back(), most + 1);
}

}  // namespace millrace
