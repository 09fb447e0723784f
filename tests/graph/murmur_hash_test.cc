// MurmurHash64A: which bytes count. Its values against TensorFlow's are conformance cases (StringToHashBucket).
#include "graph/murmur_hash.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(MurmurHash, IsEveryBytesAndTheSeeds) {
  std::set<uint64_t> seen = {MurmurHash(1, "")};
  std::string bytes;
  for (int i = 0; i < 40; ++i) {
    bytes.push_back(static_cast<char>(200 + i));
    EXPECT_TRUE(seen.insert(MurmurHash(0, bytes)).second) << bytes.size();
    EXPECT_TRUE(seen.insert(MurmurHash(1, bytes)).second) << bytes.size();
    for (size_t k = 0; k < bytes.size(); ++k) {
      std::string other = bytes;
      other[k] ^= 1;
      EXPECT_NE(MurmurHash(0, other), MurmurHash(0, bytes)) << k << " of " << bytes.size();
    }
  }
}

}  // namespace
}  // namespace millrace
