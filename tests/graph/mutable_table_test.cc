// Tables in blocks of bytes: what was inserted is found, what was removed is not, and the bytes follow from that alone.
#include "graph/mutable_table.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

namespace millrace {
namespace {

const uint8_t* Bytes(const void* value) { return static_cast<const uint8_t*>(value); }

Tensor Block(const TableLayout& layout, int64_t buckets) {
  Tensor block(DataType::kUint8, Shape({buckets * layout.bucket_bytes()}));
  std::memset(block.mutable_data(), 0, block.size_bytes());
  return block;
}

MutableTable TableIn(const TableLayout& layout, Tensor& block) { return MutableTable(layout, block.mutable_data(), block.size_bytes()); }

TEST(MutableTable, HoldsWhatAMapHolds) {
  for (const bool tensorflow_places : {false, true}) {
    TableLayout layout;
    layout.value_dtype = DataType::kInt32;
    layout.tensorflow_places = tensorflow_places;
    Tensor block = Block(layout, 64);
    MutableTable table = TableIn(layout, block);
    std::map<int64_t, int32_t> map;
    uint64_t random = 1;
    for (int32_t i = 0; i < 2000; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const int64_t key = static_cast<int64_t>(random >> 58) * 1024 - 7;  // 64 keys
      if (random & 1) {
        ASSERT_TRUE(table.Insert(Bytes(&key), Bytes(&i)));
        map[key] = i;
      } else {
        table.Remove(Bytes(&key));
        map.erase(key);
      }
      ASSERT_EQ(table.size(), static_cast<int64_t>(map.size()));
    }
    for (int64_t k = 0; k < 64; ++k) {
      const int64_t key = k * 1024 - 7, at = table.Find(Bytes(&key));
      ASSERT_EQ(at >= 0, map.count(key) > 0) << key;
      if (at >= 0) {
        EXPECT_EQ(std::memcmp(table.value(at), &map[key], sizeof(int32_t)), 0);
      }
    }
    const auto moved = WithBuckets(layout, block, 256);
    ASSERT_TRUE(moved.ok()) << moved.status();
    Tensor larger = *moved;
    EXPECT_EQ(TableIn(layout, larger).size(), table.size());
    EXPECT_EQ(TableIn(layout, larger).occupied(), table.size());
  }
}

TEST(MutableTable, AFullOneTakesNoOtherKey) {
  TableLayout layout;
  layout.key_dtype = DataType::kInt32;
  Tensor block = Block(layout, 64);
  MutableTable table = TableIn(layout, block);
  const float value = 1;
  for (int32_t key = 0; key < 64; ++key) EXPECT_TRUE(table.Insert(Bytes(&key), Bytes(&value)));
  const int32_t other = 64, known = 3;
  EXPECT_FALSE(table.Insert(Bytes(&other), Bytes(&value)));
  EXPECT_TRUE(table.Insert(Bytes(&known), Bytes(&value)));
  EXPECT_EQ(table.Find(Bytes(&other)), -1);
  table.Clear();
  EXPECT_TRUE(block.BitEqual(Block(layout, 64)));
}

TEST(MutableTable, WhatWasRemovedLeavesNoBytes) {
  TableLayout layout;
  layout.key_shape = Shape({2});
  layout.value_shape = Shape({3});
  Tensor block = Block(layout, 64);
  MutableTable table = TableIn(layout, block);
  const int64_t key[2] = {5, 6};
  const float value[3] = {1, 2, 3};
  table.Insert(Bytes(key), Bytes(value));
  const int64_t at = table.Find(Bytes(key));
  table.Remove(Bytes(key));
  EXPECT_TRUE(table.removed(at));
  const float nothing[3] = {};
  EXPECT_EQ(std::memcmp(table.value(at), nothing, sizeof(nothing)), 0);
}

TEST(MutableTable, RoomIsWhereTheLoadFactorIsKept) {
  TableLayout layout;
  EXPECT_EQ(layout.BucketsFor(0, 0), 64);
  EXPECT_EQ(layout.BucketsFor(51, 64), 64);
  EXPECT_EQ(layout.BucketsFor(52, 64), 128);
  layout.max_load_factor = 0.5f;
  EXPECT_EQ(layout.BucketsFor(1000, 64), 2048);
  layout.tensorflow_places = true;
  EXPECT_EQ(layout.BucketsFor(0, 0), 4);
  EXPECT_TRUE(layout.is_size(4 * layout.bucket_bytes()));
  EXPECT_FALSE(layout.is_size(2 * layout.bucket_bytes()));
}

TEST(MutableTable, OfOtherTypesThereIsNone) {
  AttrMap attrs{{"key_dtype", DataType::kString}, {"value_dtype", DataType::kFloat}};
  EXPECT_FALSE(TableLayout::Of(attrs).ok());
  attrs.Set("key_dtype", DataType::kInt64);
  EXPECT_TRUE(TableLayout::Of(attrs).ok());
  attrs.Set("value_shape", Shape({-1}));
  EXPECT_FALSE(TableLayout::Of(attrs).ok());
}

}  // namespace
}  // namespace millrace
