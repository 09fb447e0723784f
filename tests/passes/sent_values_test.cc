// Copies in of what another device sends.
#include "passes/access/sent_values.h"

#include "gtest/gtest.h"
#include "testlib/small_access_graph.h"

namespace millrace {
namespace {

// An order is one of copies at the same anchor: at its new one a copy has none.
TEST(DelayArrivalsTest, WhatIsAskedForLaterHasNoOrderOfItsFormerAnchor) {
  SmallAccessGraph graph;
  const int32_t sent = graph.AddStorage(StorageKind::kFeed), soon = graph.AddStorage(StorageKind::kFeed);
  graph.access().storages[sent].available_from = 3;
  graph.access().storages[soon].available_from = 1;
  for (int i = 0; i < 6; ++i) graph.AddOperation({});
  graph.AddOperation({Reads(sent), Reads(soon)});
  SwapChoice choice;
  choice.decisions = {{.storage = sent, .after = SwapDecision::kFromHost, .before = 6, .anchor = 0, .copy_in = true, .order = 2},
                      {.storage = soon, .after = SwapDecision::kFromHost, .before = 6, .anchor = 4, .copy_in = true, .order = 1}};
  EXPECT_TRUE(DelayArrivals(graph.access(), UnitLink(), choice));
  EXPECT_EQ(choice.decisions[0].anchor, 4);
  EXPECT_EQ(choice.decisions[0].order, 0);
  EXPECT_EQ(choice.decisions[1].anchor, 4);
  EXPECT_EQ(choice.decisions[1].order, 1);
}

}  // namespace
}  // namespace millrace
