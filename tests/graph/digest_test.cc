#include "graph/digest.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace millrace {
namespace {

using Named = std::map<std::string, Tensor>;
using Fetches = std::vector<Tensor>;

TEST(DigestTest, DependsOnNamesTypesAndEveryBit) {
  const Named none;
  const Tensor ones = Tensor::Vector<float>({1, 1});
  Tensor other = Tensor::Vector<float>({1, 1});
  EXPECT_EQ(TensorsDigest(Named{{"a", ones}}), TensorsDigest(Named{{"a", other}}));
  EXPECT_EQ(TensorsDigest(Named{{"a", ones}}).size(), 16);
  other.mutable_as<uint32_t>()[1] ^= 1;
  EXPECT_NE(TensorsDigest(Named{{"a", ones}}), TensorsDigest(Named{{"a", other}}));
  EXPECT_NE(TensorsDigest(Named{{"a", ones}}), TensorsDigest(Named{{"b", ones}}));
  EXPECT_NE(TensorsDigest(Named{{"a", ones}}), TensorsDigest(Named{{"a", ones.Reshaped(Shape({2, 1}))}}));
  EXPECT_NE(TensorsDigest(Named{{"a", ones}}), TensorsDigest(none));
}

TEST(DigestTest, OfTensorsOneByOneIsThatOfAllAtOnce) {
  const Tensor a = Tensor::Vector<float>({1, 2}), b = Tensor::Scalar<int64_t>(3);
  NamedTensorsDigest digest, another;
  EXPECT_EQ(digest.ToHex(), TensorsDigest(Named{}));
  digest.Add("a", a);
  digest.Add("b", b);
  EXPECT_EQ(digest.ToHex(), TensorsDigest(Named{{"a", a}, {"b", b}}));
  another.Add("a", a);
  EXPECT_NE(another.ToHex(), digest.ToHex());
}

TEST(DigestTest, OfFetchesDependsOnOrderTypesAndStrings) {
  const Tensor one = Tensor::Vector<float>({1}), two = Tensor::Vector<float>({2});
  EXPECT_EQ(TensorsDigest(Fetches{one, two}), TensorsDigest(Fetches{one, two}));
  EXPECT_NE(TensorsDigest(Fetches{one, two}), TensorsDigest(Fetches{two, one}));
  const auto text = [](std::vector<std::string> elements) {
    Tensor tensor(DataType::kString, Shape({2}));
    tensor.mutable_strings() = std::move(elements);
    return tensor;
  };
  EXPECT_NE(TensorsDigest(Fetches{text({"a", "bc"})}), TensorsDigest(Fetches{text({"ab", "c"})}));
  EXPECT_NE(TensorsDigest(Fetches{text({"a", "b"})}), TensorsDigest(Fetches{text({"a", "c"})}));
}

}  // namespace
}  // namespace millrace
