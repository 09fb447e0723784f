// Numbers of words that are fed: how they compare, and loops over what hashes and tables give for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Ints;
using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

Tensor Words(const std::vector<std::string>& words, Shape shape) {
  Tensor tensor(DataType::kString, std::move(shape));
  tensor.mutable_strings() = words;
  return tensor;
}

constexpr char kComparisons[] = R"(
words = Placeholder() {dtype=string, shape=shape[1,3]}
fig = Const() {dtype=string, value=string[]{"fig"}}
figs = Const() {dtype=string, value=string[1,1]{"fig"}}
row_shape = Const() {dtype=int32, value=int32[1]{3}}
one = Const() {dtype=int32, value=int32[1]{1}}
row = Reshape(words, row_shape) {T=string, Tshape=int32}
known = Reshape(figs, one) {T=string, Tshape=int32}
same = Equal(words, fig) {T=string}
other = NotEqual(fig, row) {T=string}
unique = Unique(row) {T=string, out_idx=int32}
counts = UniqueWithCounts(row) {T=string, out_idx=int64}
left = ListDiff(row, known) {T=string, out_idx=int32}
union = DenseToDenseSetOperation(words, figs) {set_operation="union", T=string}
places = Const() {dtype=int64, value=int64[3,2]{0, 0, 0, 1, 2, 0}}
sizes = Const() {dtype=int64, value=int64[2]{3, 2}}
filled = SparseFillEmptyRows(places, row, sizes, fig) {T=string}
)";

// Each alone: planning asks for the words whichever it is.
TEST(FedWords, AreComparedWhatTheStepGives) {
  const std::map<std::string, std::vector<int64_t>> first = {{"same", {0, 1, 0}}, {"other", {1, 0, 1}}, {"unique:1", {0, 1, 0}},
                                                             {"counts:2", {2, 1}}, {"left:1", {0, 2}}, {"union", {0, 0, 0, 1}},
                                                             {"filled:2", {0, 1, 0}}};
  const std::map<std::string, std::vector<int64_t>> second = {{"same", {0, 0, 0}}, {"other", {1, 1, 1}}, {"unique:1", {0, 1, 2}},
                                                              {"counts:2", {1, 1, 1}}, {"left:1", {0, 1, 2}}, {"union", {0, 0, 0, 1, 0, 2, 0, 3}},
                                                              {"filled:2", {0, 1, 0}}};
  for (const auto& [fetch, expected] : first) {
    const auto session = SessionOf(kComparisons);
    std::vector<Tensor> out;
    absl::Status status = session->Run({{"words", Words({"oak", "fig", "oak"}, Shape({1, 3}))}}, {fetch}, {}, &out);
    ASSERT_TRUE(status.ok()) << fetch << ": " << status;
    EXPECT_THAT(Ints(out[0]), ElementsAreArray(expected)) << fetch;
    status = session->Run({{"words", Words({"ash", "", "elm"}, Shape({1, 3}))}}, {fetch}, {}, &out);
    ASSERT_TRUE(status.ok()) << fetch << ": " << status;
    EXPECT_THAT(Ints(out[0]), ElementsAreArray(second.at(fetch))) << fetch;
  }
}

// Rows of a variable as items of a list, the last of which is taken.
constexpr char kLoops[] = R"(
start = Const() {dtype=float, value=float[4,1]{0, 10, 20, 30}}
v = VarHandleOp() {dtype=float, shape=shape[4,1], shared_name="v"}
assign = AssignVariableOp(v, start) {dtype=float}
item_shape = Const() {dtype=int32, value=int32[1]{1}}
last = Const() {dtype=int32, value=int32[]{1}}
order = Const() {dtype=int32, value=int32[2]{0, 1}}
words = Placeholder() {dtype=string, shape=shape[2]}
hash = StringToHashBucketFast(words) {num_buckets=4}
rows = ResourceGather(v, hash) {Tindices=int64, batch_dims=0, dtype=float}
turned = Transpose(rows, order) {T=float, Tperm=int32}
list = TensorListFromTensor(turned, item_shape) {element_dtype=float, shape_type=int32}
hashed = TensorListGetItem(list, last, item_shape) {element_dtype=float}
keys = Const() {dtype=string, value=string[2]{"oak", "fig"}}
values = Const() {dtype=int64, value=int64[2]{3, 2}}
none = Const() {dtype=int64, value=int64[]{0}}
table = HashTableV2() {key_dtype=string, value_dtype=int64, shared_name="t"}
fill = LookupTableImportV2(table, keys, values) {Tin=string, Tout=int64}
found = LookupTableFindV2(table, words, none) {Tin=string, Tout=int64}
found_rows = ResourceGather(v, found) {Tindices=int64, batch_dims=0, dtype=float}
found_list = TensorListFromTensor(found_rows, item_shape) {element_dtype=float, shape_type=int32}
looked_up = TensorListGetItem(found_list, last, item_shape) {element_dtype=float}
)";

TEST(FedWords, LoopsGoOverRowsThatHashesAndTablesPick) {
  const auto session = SessionOf(kLoops);
  ASSERT_TRUE(session->Run({}, {}, {"assign", "fill"}, nullptr).ok());
  for (const auto& [word, row] : std::map<std::string, double>{{"fig", 20}, {"oak", 30}, {"elm", 0}}) {
    std::vector<Tensor> out;
    absl::Status status = session->Run({{"words", Words({"fig", word}, Shape({2}))}}, {"looked_up"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(row));
    status = session->Run({{"words", Words({"fig", word}, Shape({2}))}}, {"hashed", "hash"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(10.0 * static_cast<double>(out[1].IntAt(1))));
  }
}

// How many turns there are follows from the words, whatever their numbers.
TEST(FedWords, LoopsGoOverTheNumbersOfThoseThatTextsAreCutInto) {
  for (const char* table : {"HashTableV2() {key_dtype=string, value_dtype=int64}", "MutableHashTableV2() {key_dtype=string, value_dtype=int64}"}) {
    const auto session = SessionOf(absl::StrCat("table = ", table, R"(
keys = Const() {dtype=string, value=string[2]{"oak", "fig"}}
values = Const() {dtype=int64, value=int64[2]{3, 2}}
fill = LookupTableImportV2(table, keys, values) {Tin=string, Tout=int64}
none = Const() {dtype=int64, value=int64[]{7}}
blank = Const() {dtype=string, value=string[]{""}}
texts = Placeholder() {dtype=string, shape=shape[?]}
cut = StringSplitV2(texts, blank)
found = LookupTableFindV2(table, cut:1, none) {Tin=string, Tout=int64}
scalar = Const() {dtype=int32, value=int32[0]{}}
list = TensorListFromTensor(found, scalar) {element_dtype=int64, shape_type=int32}
count = TensorListLength(list)
one = Const() {dtype=int32, value=int32[]{1}}
last = Sub(count, one) {T=int32}
y = TensorListGetItem(list, last, scalar) {element_dtype=int64}
)"));
    ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
    const auto last_of = [&](const std::vector<std::string>& texts) {
      std::vector<Tensor> out;
      const absl::Status status = session->Run({{"texts", Words(texts, Shape({static_cast<int64_t>(texts.size())}))}}, {"count", "y"}, {}, &out);
      EXPECT_TRUE(status.ok()) << status;
      return status.ok() ? std::vector<int64_t>{out[0].IntAt(0), out[1].IntAt(0)} : std::vector<int64_t>();
    };
    EXPECT_THAT(last_of({"an oak", "a fig"}), ElementsAre(4, 2)) << table;
    EXPECT_THAT(last_of({"elm oak", "oak", ""}), ElementsAre(3, 3)) << table;
    EXPECT_THAT(last_of({"elm"}), ElementsAre(1, 7)) << table;
  }
}

TEST(FedWords, LoopsGoOverThoseThatTextsOfATableAreCutInto) {
  const auto session = SessionOf(R"(
table = HashTableV2() {key_dtype=int64, value_dtype=string}
keys = Const() {dtype=int64, value=int64[2]{1, 2}}
values = Const() {dtype=string, value=string[2]{"an oak", "a fig tree"}}
fill = LookupTableImportV2(table, keys, values) {Tin=int64, Tout=string}
blank = Const() {dtype=string, value=string[]{""}}
ids = Placeholder() {dtype=int64, shape=shape[?]}
found = LookupTableFindV2(table, ids, blank) {Tin=int64, Tout=string}
cut = StringSplitV2(found, blank)
length = StringLength(cut:1)
scalar = Const() {dtype=int32, value=int32[0]{}}
list = TensorListFromTensor(length, scalar) {element_dtype=int32, shape_type=int32}
count = TensorListLength(list)
)");
  ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
  for (const auto& [id, words] : std::map<int64_t, int64_t>{{1, 4}, {2, 5}, {3, 2}}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"ids", Tensor::Vector<int64_t>({1, id})}}, {"count"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0].IntAt(0), words);
  }
}

}  // namespace
}  // namespace millrace
