#include "passes/memory/hole_list.h"

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

using Keys = std::pair<int64_t, int64_t>;

// The list and a set of the same holes.
struct Both {
  HoleList list;
  std::set<Keys> set;

  void Insert(Keys keys) {
    if (set.insert(keys).second) list.Insert({keys.first, keys.second, static_cast<int32_t>(keys.first)});
  }
  void Erase(Keys keys) {
    if (set.erase(keys) > 0) list.Erase({keys.first, keys.second, 0});
  }
};

Both RandomHoles(std::mt19937& random, int changes) {
  Both both;
  for (int k = 0; k < changes; ++k) {
    const Keys keys{random() % 300, random() % 20};
    // Grows, shrinks to nearly nothing, grows again: runs split and go.
    if (random() % 100 < (k / 400 % 2 == 0 ? 80u : 15u)) both.Insert(keys);
    else both.Erase(both.set.empty() ? keys : *both.set.lower_bound(std::min(keys, *both.set.rbegin())));
  }
  return both;
}

TEST(HoleListTest, VisitsInOrderFromAnyHoleOn) {
  std::mt19937 random(1);
  for (int changes : {0, 1, 50, 300, 700, 1100}) {
    const Both both = RandomHoles(random, changes);
    for (int64_t from = -1; from < 310; from += 7) {
      const std::vector<Keys> expected(both.set.lower_bound({from, 0}), both.set.end());
      std::vector<Keys> visited;
      both.list.VisitFrom({from, 0, 0}, [&](const HoleList::Hole& hole) {
        visited.emplace_back(hole.first_key, hole.second_key);
        EXPECT_EQ(hole.below, hole.first_key);
        return true;
      });
      EXPECT_EQ(visited, expected);
    }
    std::vector<Keys> all;
    both.list.VisitAll([&](const HoleList::Hole& hole) {
      all.emplace_back(hole.first_key, hole.second_key);
      return true;
    });
    EXPECT_EQ(all, std::vector<Keys>(both.set.begin(), both.set.end()));
  }
}

TEST(HoleListTest, FindsTheFirstAndTheLastThatAreLargeEnough) {
  std::mt19937 random(2);
  for (int changes : {0, 1, 50, 300, 700, 1100}) {
    const Both both = RandomHoles(random, changes);
    for (int64_t first = 0; first < 310; first += 9) {
      for (int64_t second = 0; second <= 20; ++second) {
        const Keys *lowest = nullptr, *highest = nullptr;
        for (const Keys& keys : both.set) {
          if (keys.first > first || keys.second < second) continue;
          if (lowest == nullptr) lowest = &keys;
          highest = &keys;
        }
        const auto same = [](const HoleList::Hole* found, const Keys* expected) {
          return expected == nullptr ? found == nullptr
                                     : found != nullptr && Keys(found->first_key, found->second_key) == *expected;
        };
        EXPECT_TRUE(same(both.list.First(first, second), lowest)) << first << " " << second;
        EXPECT_TRUE(same(both.list.Last(first, second), highest)) << first << " " << second;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
