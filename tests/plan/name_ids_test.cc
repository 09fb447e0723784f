#include "plan/name_ids.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(NameIdsTest, NamesHaveTheirNumbersInTheOrderInWhichTheyCame) {
  std::vector<std::string> names;
  for (int k = 0; k < 3000; ++k) names.push_back("tensor_" + std::to_string(k) + ":0");
  for (size_t expected : {0, 1, 100, 5000}) {
    NameIds ids(expected);
    for (size_t k = 0; k < names.size(); ++k) {
      EXPECT_FALSE(ids.Has(names[k]));
      EXPECT_EQ(ids.Add(names[k]), static_cast<int32_t>(k));
      EXPECT_EQ(ids.Add(names[k / 2]), static_cast<int32_t>(k / 2));
    }
    for (size_t k = 0; k < names.size(); ++k) {
      EXPECT_TRUE(ids.Has(names[k]));
      EXPECT_EQ(ids.name(static_cast<int32_t>(k)), names[k]);
    }
    EXPECT_FALSE(ids.Has(""));
  }
}

}  // namespace
}  // namespace millrace
