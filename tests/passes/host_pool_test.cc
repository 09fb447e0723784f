// Slots of the host pool share bytes where neither the order of steps nor the clock forbids it.
#include "passes/emit/host_pool.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr int kLanes = 6;

TEST(HostPool, SlotsThatDoNotMeetShareBytes) {
  HostPool pool;
  const int32_t a = pool.AddSlot(100, 0), b = pool.AddSlot(100, 2), c = pool.AddSlot(100, 6);
  pool.ExtendSlot(a, 5);
  EXPECT_EQ(pool.AssignAddresses(kLanes), 256);
  EXPECT_NE(pool.offset(a), pool.offset(b));
  EXPECT_TRUE(pool.offset(c) == pool.offset(a) || pool.offset(c) == pool.offset(b));
}

// Another device, which is behind, reads a at 10 seconds; b is written after that in the order of steps, but at 2 seconds.
TEST(HostPool, ADeviceThatIsAheadDoesNotWaitForASlot) {
  HostPool pool;
  const int32_t a = pool.AddSlot(100, 0, {0, 1});
  pool.ExtendSlot(a, 1, {9, 10});
  const int32_t b = pool.AddSlot(100, 2, {2, 3}), c = pool.AddSlot(100, 4, {12, 13});
  pool.ExtendSlot(b, 3, {4, 5});
  EXPECT_EQ(pool.AssignAddresses(kLanes), 256);
  EXPECT_NE(pool.offset(a), pool.offset(b));
  EXPECT_TRUE(pool.offset(c) == pool.offset(a) || pool.offset(c) == pool.offset(b));
}

}  // namespace
}  // namespace millrace
