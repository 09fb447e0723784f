// TensorMaps: what is under which key is known when planning, so that steps have tensors in their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A map of two keys; what is fed under the second.
constexpr char kMap[] = R"(
empty = EmptyTensorMap()
three = Const() {dtype=int32, value=int32[]{3}}
seven = Const() {dtype=int32, value=int32[]{7}}
five = Const() {dtype=int32, value=int32[]{5}}
a = Const() {dtype=float, value=float[2]{1, 2}}
x = Placeholder() {dtype=float, shape=shape[2]}
one = TensorMapInsert(empty, three, a) {key_dtype=int32, value_dtype=float}
map = TensorMapInsert(one, seven, x) {key_dtype=int32, value_dtype=float}
)";

TEST(Maps, GiveWhatWasPutUnderAKey) {
  const auto session = SessionOf(absl::StrCat(kMap, R"(
again = TensorMapInsert(map, three, x) {key_dtype=int32, value_dtype=float}
first = TensorMapLookup(map, three) {key_dtype=int32, value_dtype=float}
second = TensorMapLookup(map, seven) {key_dtype=int32, value_dtype=float}
newer = TensorMapLookup(again, three) {key_dtype=int32, value_dtype=float}
size = TensorMapSize(map)
size_again = TensorMapSize(again)
has = TensorMapHasKey(map, seven) {key_dtype=int32}
has_not = TensorMapHasKey(map, five) {key_dtype=int32}
keys = TensorMapStackKeys(map) {key_dtype=int32}
less = TensorMapErase(map, three) {key_dtype=int32, value_dtype=float}
left = TensorMapStackKeys(less) {key_dtype=int32}
zeros = ZerosLike(map) {T=variant}
zero = TensorMapLookup(zeros, seven) {key_dtype=int32, value_dtype=float}
sum = AddN(less, map) {N=2, T=variant}
twice = TensorMapLookup(sum, seven) {key_dtype=int32, value_dtype=float}
once = TensorMapLookup(sum, three) {key_dtype=int32, value_dtype=float}
)"));
  std::vector<Tensor> out;
  const std::vector<std::pair<std::string, std::vector<double>>> expected = {
      {"first", {1, 2}}, {"second", {8, 9}}, {"newer", {8, 9}}, {"size", {2}}, {"size_again", {2}}, {"has", {1}}, {"has_not", {0}},
      {"keys", {3, 7}}, {"left", {7}}, {"zero", {0, 0}}, {"twice", {16, 18}}, {"once", {1, 2}}};
  std::vector<std::string> fetches;
  for (const auto& [fetch, values] : expected) fetches.push_back(fetch);
  const absl::Status status = session->Run({{"x", Tensor::Vector<float>({8, 9})}}, fetches, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Numbers(out[i]), expected[i].second) << expected[i].first;
}

TEST(Maps, KeysMayBeFed) {
  const auto session = SessionOf(absl::StrCat(kMap, R"(
k = Placeholder() {dtype=int32, shape=shape[]}
found = TensorMapLookup(map, k) {key_dtype=int32, value_dtype=float}
)"));
  std::vector<Tensor> out;
  const auto look = [&](int32_t key) {
    return session->Run({{"x", Tensor::Vector<float>({8, 9})}, {"k", Tensor::Scalar<int32_t>(key)}}, {"found"}, {}, &out);
  };
  ASSERT_TRUE(look(7).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(8, 9));
  ASSERT_TRUE(look(3).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 2));
  EXPECT_THAT(look(5).ToString(), AllOf(HasSubstr("'found'"), HasSubstr("Trying to lookup non-existent key.")));
}

TEST(Maps, AreNoListsToJoin) {
  const auto session = SessionOf(absl::StrCat(kMap, R"(
shape = Const() {dtype=int32, value=int32[]{2}}
most = Const() {dtype=int32, value=int32[]{-1}}
list = EmptyTensorList(shape, most) {element_dtype=float, shape_type=int32}
joined = TensorListConcatLists(list, map) {element_dtype=float}
length = TensorListLength(joined)
)"));
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"x", Tensor::Vector<float>({8, 9})}}, {"length"}, {}, &out).ToString(),
              AllOf(HasSubstr("'joined'"), HasSubstr("takes no two lists")));
}

TEST(Maps, KeysMayBeWords) {
  const std::string words = absl::StrReplaceAll(kMap, {{"dtype=int32, value=int32[]{3}", "dtype=string, value=string[]{\"fig\"}"},
                                                       {"dtype=int32, value=int32[]{7}", "dtype=string, value=string[]{\"oak\"}"},
                                                       {"key_dtype=int32", "key_dtype=string"}});
  const auto session = SessionOf(absl::StrCat(words, "found = TensorMapLookup(map, three) {key_dtype=string, value_dtype=float}\nsize = TensorMapSize(map)\n"));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Vector<float>({8, 9})}}, {"found", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(2));
}

// One branch puts something else under a key; another puts a key more.
TEST(Maps, ComeOutOfBranches) {
  const auto session = SessionOf(absl::StrCat(kMap, R"(
p = Placeholder() {dtype=bool, shape=shape[]}
sides = Switch(map, p) {T=variant}
x_sides = Switch(x, p) {T=float}
put = TensorMapInsert(sides:1, three, x_sides:1) {key_dtype=int32, value_dtype=float}
either = Merge(sides, put) {T=variant, N=2}
found = TensorMapLookup(either, three) {key_dtype=int32, value_dtype=float}
more = TensorMapInsert(sides:1, five, x_sides:1) {key_dtype=int32, value_dtype=float}
larger = Merge(sides, more) {T=variant, N=2}
size = TensorMapSize(larger)
)"));
  for (const bool p : {false, true}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Tensor::Vector<float>({8, 9})}, {"p", Tensor::Scalar<bool>(p)}}, {"found", "size"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), p ? ElementsAre(8, 9) : ElementsAre(1, 2));
    EXPECT_THAT(Numbers(out[1]), ElementsAre(p ? 3 : 2));
  }
}

// The key is the turn's number.
TEST(Maps, AreFilledByLoops) {
  const auto session = SessionOf(R"(
function cond
  i = _Arg() {T=int32, index=0}
  m = _Arg() {T=variant, index=1}
  x = _Arg() {T=float, index=2}
  n = Const() {dtype=int32, value=int32[]{4}}
  go = Less(i, n) {T=int32}
  r = _Retval(go) {T=bool, index=0}
end
function body
  i = _Arg() {T=int32, index=0}
  m = _Arg() {T=variant, index=1}
  x = _Arg() {T=float, index=2}
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) {T=int32}
  twice = AddV2(x, x) {T=float}
  put = TensorMapInsert(m, i, x) {key_dtype=int32, value_dtype=float}
  r = _Retval(next) {T=int32, index=0}
  s = _Retval(put) {T=variant, index=1}
  t = _Retval(twice) {T=float, index=2}
end
zero = Const() {dtype=int32, value=int32[]{0}}
two = Const() {dtype=int32, value=int32[]{2}}
empty = EmptyTensorMap()
x = Placeholder() {dtype=float, shape=shape[]}
loop = While(zero, empty, x) {T=[int32, variant, float], cond=&cond, body=&body}
size = TensorMapSize(loop:1)
found = TensorMapLookup(loop:1, two) {key_dtype=int32, value_dtype=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Scalar<float>(3)}}, {"found", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(12));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(4));
}

}  // namespace
}  // namespace millrace
