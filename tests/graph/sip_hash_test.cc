// SipHash-2-4 gives the reference implementation's values: key 00 01 … 0f, and the first n of the bytes 00 01 02 …
#include "graph/sip_hash.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(SipHash, GivesTheReferenceVectors) {
  const std::array<uint64_t, 2> key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes.push_back(static_cast<char>(i));
  for (const auto& [length, wanted] : {std::pair<size_t, uint64_t>{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {7, 0xab0200f58b01d137},
                                       {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}}) {
    EXPECT_EQ(SipHash(key, bytes.substr(0, length)), wanted) << length << " bytes";
  }
}

TEST(SipHash, DependsOnTheWholeKey) {
  const uint64_t hash = SipHash({1, 2}, "text");
  EXPECT_NE(SipHash({1, 3}, "text"), hash);
  EXPECT_NE(SipHash({0, 2}, "text"), hash);
}

}  // namespace
}  // namespace millrace
