// What broadcasting takes from an operand, as three numbers, is what indices say.
#include <gtest/gtest.h>

#include "graph/spread.h"

namespace millrace {
namespace {

// The operand's element for element i of the tensor, dimension by dimension.
int64_t ElementOf(const Shape& operand, const Shape& shape, int64_t i) {
  int64_t element = 0, step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const int own = d - (shape.rank() - operand.rank());
    const int64_t at = i % shape.dim(d);
    i /= shape.dim(d);
    if (own < 0) continue;
    if (operand.dim(own) > 1) element += at * step;
    step *= operand.dim(own);
  }
  return element;
}

void ExpectSpread(const Shape& operand, const Shape& shape) {
  SCOPED_TRACE(operand.ToString() + " over " + shape.ToString());
  const std::optional<Spread> spread = SpreadOver(operand, shape);
  ASSERT_TRUE(spread.has_value());
  EXPECT_TRUE(SpreadFits(*spread, operand.num_elements(), shape.num_elements()));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    ASSERT_EQ(i / spread->each % spread->count * spread->width + i % spread->width, ElementOf(operand, shape, i)) << i;
  }
}

TEST(Spread, SaysWhatBroadcastingTakes) {
  for (const Shape& operand : {Shape({4, 1}), Shape({1, 5}), Shape({5}), Shape({4, 5})}) ExpectSpread(operand, Shape({4, 5}));
  for (const Shape& operand : {Shape({2, 1, 1, 1, 5}), Shape({1, 1, 1, 1, 5}), Shape({2, 3, 4, 2, 1}), Shape({1, 3, 1, 1, 1}), Shape({3, 1, 1, 1}),
                               Shape({1, 3, 4, 1, 1}), Shape({2, 3, 1, 1, 5}), Shape({1, 3, 1, 2, 5})}) {
    ExpectSpread(operand, Shape({2, 3, 4, 2, 5}));
  }
  ExpectSpread(Shape({3, 1}), Shape({1, 3, 7}));
  for (const Shape& operand : {Shape(), Shape({1, 1}), Shape({1})}) ExpectSpread(operand, Shape({4, 5}));
  EXPECT_EQ(*SpreadOver(Shape({3, 1, 1}), Shape({2, 3, 4, 5})), (Spread{20, 3, 1}));
}

TEST(Spread, IsNoneWhereItRepeatsInMorePlacesOrDoesNotBroadcast) {
  EXPECT_EQ(SpreadOver(Shape({2, 1, 4, 1}), Shape({2, 3, 4, 5})), std::nullopt);
  EXPECT_EQ(SpreadOver(Shape({2, 1, 4, 1, 6}), Shape({2, 3, 4, 5, 6})), std::nullopt);
  EXPECT_EQ(SpreadOver(Shape({3}), Shape({3, 4})), std::nullopt);
  EXPECT_EQ(SpreadOver(Shape({1, 4}), Shape({4})), std::nullopt);
}

TEST(Spread, FitsElementsOfTheRightNumbers) {
  EXPECT_TRUE(SpreadFits({20, 3, 1}, 3, 120));
  EXPECT_FALSE(SpreadFits({20, 3, 1}, 4, 120));
  EXPECT_FALSE(SpreadFits({20, 3, 1}, 3, 110));
  EXPECT_FALSE(SpreadFits({5, 2, 2}, 4, 20));
  EXPECT_FALSE(SpreadFits({0, 3, 1}, 3, 120));
  EXPECT_FALSE(SpreadFits({}, 0, 0));
}

}  // namespace
}  // namespace millrace
