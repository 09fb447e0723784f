#include "graph/near_names.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(NearNames, CountsLettersPutInLeftOutChangedAndExchanged) {
  EXPECT_EQ(DifferingLetters("loss", "loss", 3), 0u);
  EXPECT_EQ(DifferingLetters("loss", "los", 3), 1u);
  EXPECT_EQ(DifferingLetters("loss", "lossy", 3), 1u);
  EXPECT_EQ(DifferingLetters("loss", "lass", 3), 1u);
  EXPECT_EQ(DifferingLetters("loss", "lsos", 3), 1u);
  EXPECT_EQ(DifferingLetters("block_1/conv", "block_2/convs", 3), 2u);
  EXPECT_EQ(DifferingLetters("", "abc", 3), 3u);
}

TEST(NearNames, EndsBeyondTheMost) {
  EXPECT_EQ(DifferingLetters("logits", "images", 2), 3u);
  EXPECT_EQ(DifferingLetters("a", "a_long_name", 4), 5u);
  EXPECT_EQ(DifferingLetters("loss", "lass", 0), 1u);
  EXPECT_EQ(DifferingLetters("loss", "loss", 0), 0u);
}

// The whole table, as the definition has it.
size_t ByDefinition(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& here = table[i][j];
      here = std::max(i, j);
      if (i > 0) here = std::min(here, table[i - 1][j] + 1);
      if (j > 0) here = std::min(here, table[i][j - 1] + 1);
      if (i > 0 && j > 0) here = std::min(here, table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) here = std::min(here, table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

TEST(NearNames, BoundedDistancesAreThoseOfTheWholeTable) {
  std::mt19937 random(1);
  const auto name = [&] {
    std::string text(random() % 7, ' ');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string a = name(), b = name();
    const size_t distance = ByDefinition(a, b);
    for (size_t most = 0; most < 6; ++most) {
      ASSERT_EQ(DifferingLetters(a, b, most), std::min(distance, most + 1)) << a << " " << b << " " << most;
    }
  }
}

}  // namespace
}  // namespace millrace
