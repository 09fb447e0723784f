// Strings have no memory on a device: what is made of known ones, of fed ones and of numbers, and what is refused by name.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::Ints;
using testing::SessionOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Words(const std::vector<std::string>& words) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(words.size())}));
  tensor.mutable_strings() = words;
  return tensor;
}

// TensorFlow's: tf.strings.to_hash_bucket_fast(["0", "12", "-7"], 1000) and to_hash_bucket_strong(…, 1000, [3, 4]).
constexpr char kHashes[] = R"(
x = Placeholder() {dtype=int32, shape=shape[3]}
text = AsString(x) {T=int32}
fast = StringToHashBucketFast(text) {num_buckets=1000}
strong = StringToHashBucketStrong(text) {num_buckets=1000, key=[3, 4]}
words = Placeholder() {dtype=string, shape=shape[3]}
of_words = StringToHashBucketFast(words) {num_buckets=1000}
)";

TEST(Strings, HashesOfNumbersAreThoseOfTheirTexts) {
  const auto session = SessionOf(kHashes);
  std::vector<Tensor> hashed, of_words;
  for (const std::vector<int32_t>& numbers : {std::vector<int32_t>{0, 12, -7}, std::vector<int32_t>{-7, 0, 0}}) {
    ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int32_t>(numbers)}}, {"fast", "strong"}, {}, &hashed).ok());
    std::vector<std::string> texts;
    for (int32_t number : numbers) texts.push_back(absl::StrCat(number));
    const absl::Status status = session->Run({{"words", Words(texts)}}, {"of_words"}, {}, &of_words);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Ints(hashed[0]), Ints(of_words[0]));
    EXPECT_NE(Ints(hashed[0]), Ints(hashed[1]));
  }
}

// Names come before the ops of a run that does not initialise the table.
constexpr char kLookup[] = R"(
keys = Const() {dtype=int64, value=int64[3]{10, 20, 30}}
values = Const() {dtype=int64, value=int64[3]{1, 2, 3}}
other = Const() {dtype=int64, value=int64[]{-1}}
table = HashTableV2() {key_dtype=int64, value_dtype=int64, shared_name="t"}
fill = LookupTableImportV2(table, keys, values) {Tin=int64, Tout=int64}
again = HashTableV2() {key_dtype=int64, value_dtype=int64, shared_name="t"}
handle = Identity(again) {T=resource}
x = Placeholder() {dtype=int64, shape=shape[4]}
found = LookupTableFindV2(handle, x, other) {Tin=int64, Tout=int64}
size = LookupTableSizeV2(handle)
)";

TEST(Strings, TablesGiveTheirValuesAndTheDefaultOfOtherKeys) {
  const auto session = SessionOf(kLookup);
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
  const absl::Status status =
      session->Run({{"x", Tensor::Vector<int64_t>(std::vector<int64_t>{30, 11, 10, 30})}}, {"found", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(3, -1, 1, 3));
  EXPECT_THAT(Ints(out[1]), ElementsAre(3));
}

// What fills the table comes after a variable is set: what variables there are is not asked then.
TEST(Strings, ATableIsFilledBesideVariables) {
  std::string text = kLookup;
  text.replace(text.find("fill = LookupTableImportV2(table, keys, values)"), 47, R"(variable = VarHandleOp() {dtype=int64, shape=shape[3], shared_name="v"}
set = AssignVariableOp(variable, values) {dtype=int64}
fill = LookupTableImportV2(table, keys, values) ^set)");
  const auto session = SessionOf(text);
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
  const Tensor x = Tensor::Vector<int64_t>(std::vector<int64_t>{30, 11, 10, 30});
  const absl::Status status = session->Run({{"x", x}}, {"found"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(3, -1, 1, 3));
}

// As an exported model has it: the initialiser's function reads a file, and what that says is in a node beside it.
TEST(Strings, ATableOfAFileThatWasReadHasItsWords) {
  const auto session = SessionOf(std::string(R"(
function read_file
  table = _Arg() {T=resource, index=0}
  file = _Arg() {T=string, index=1}
  init = InitializeTableFromTextFileV2(table, file) {key_index=-2, value_index=-1}
end
function initialize
  table = _Arg() {T=resource, index=0}
  file = _Arg() {T=string, index=1}
  call = StatefulPartitionedCall(table, file) {f=&read_file}
end
path = Const() {dtype=string, value=string[]{"words.txt"}}
file_table = HashTableV2() {key_dtype=int64, value_dtype=int64, shared_name="t"}
call = StatefulPartitionedCall(file_table, path) {f=&initialize}
)") + kLookup);
  std::vector<Tensor> out;
  const Tensor x = Tensor::Vector<int64_t>(std::vector<int64_t>{30, 11, 10, 30});
  const absl::Status status = session->Run({{"x", x}}, {"found"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(3, -1, 1, 3));
}

TEST(Strings, TablesOfWordsAreAskedForConstantAndFedOnes) {
  const auto session = SessionOf(R"(
keys = Const() {dtype=string, value=string[2]{"a", "b"}}
values = Const() {dtype=float, value=float[2]{0.5, 2}}
other = Const() {dtype=float, value=float[]{-1}}
table = HashTableV2() {key_dtype=string, value_dtype=float}
fill = LookupTableImportV2(table, keys, values) {Tin=string, Tout=float}
x = Placeholder() {dtype=string, shape=shape[2]}
lower = StringLower(x)
two = Const() {dtype=string, value=string[1]{"b"}}
zero = Const() {dtype=int32, value=int32[]{0}}
all = ConcatV2(lower, two, zero) {T=string, N=2, Tidx=int32}
found = LookupTableFindV2(table, all, other) {Tin=string, Tout=float}
same = Equal(all, two) {T=string}
kept = SelectV2(same, all, two) {T=string}
kept_found = LookupTableFindV2(table, kept, other) {Tin=string, Tout=float}
)");
  std::vector<Tensor> out;
  for (const auto& [words, want] : std::vector<std::pair<std::vector<std::string>, std::vector<double>>>{
           {{"A", "c"}, {0.5, -1, 2}}, {{"", "b"}, {-1, 2, 2}}}) {
    const absl::Status status = session->Run({{"x", Words(words)}}, {"found", "same", "kept_found"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(out[0].DoubleAt(i), want[i]) << i;
      EXPECT_EQ(out[1].IntAt(i), want[i] == 2) << i;
      EXPECT_EQ(out[2].DoubleAt(i), 2) << i;
    }
  }
}

// Ops that compare and move elements do so with words, too.
constexpr char kSets[] = R"(
a = Placeholder() {dtype=string, shape=shape[1,3]}
b = Const() {dtype=string, value=string[1,2]{"fig", "oak"}}
union = DenseToDenseSetOperation(a, b) {set_operation="union", T=string}
lengths = StringLength(union:1)
words = Placeholder() {dtype=string, shape=shape[2]}
two = Const() {dtype=int64, value=int64[2,2]{0, 0, 0, 1}}
shape_of_two = Const() {dtype=int64, value=int64[2]{1, 2}}
one = Const() {dtype=int64, value=int64[1,2]{0, 0}}
shape_of_one = Const() {dtype=int64, value=int64[2]{1, 1}}
fig = Const() {dtype=string, value=string[1]{"fig"}}
distance = EditDistance(two, words, shape_of_two, one, fig, shape_of_one) {T=string}
sizes = SetSize(two, words, shape_of_two) {T=string}
places = Const() {dtype=int32, value=int32[2,1]{2, 0}}
size = Const() {dtype=int32, value=int32[1]{3}}
scattered = ScatterNd(places, words, size) {T=string, Tindices=int32}
scattered_lengths = StringLength(scattered)
)";

TEST(Strings, SetsAndDistancesOfWordsAreThoseOfTheirNumbers) {
  const auto session = SessionOf(kSets);
  Tensor a(DataType::kString, Shape({1, 3}));
  a.mutable_strings() = {"oak", "", "ash tree"};
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"a", a}, {"words", Words({"oak", "fig"})}},
                                           {"lengths", "union:2", "distance", "sizes", "scattered_lengths"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(0, 8, 3, 3));
  EXPECT_THAT(Ints(out[1]), ElementsAre(1, 4));
  EXPECT_EQ(out[2].DoubleAt(0), 1);
  EXPECT_THAT(Ints(out[3]), ElementsAre(2));
  EXPECT_THAT(Ints(out[4]), ElementsAre(3, 0, 3));
}

// One of the nodes of kLookup is another.
absl::Status RunWith(const std::string& from, const std::string& to) {
  std::string text = kLookup;
  text.replace(text.find(from), from.size(), to);
  const auto session = SessionOf(text);
  std::vector<Tensor> out;
  return session->Run({{"x", Tensor(DataType::kInt64, Shape({4}))}}, {"found"}, {}, &out);
}

TEST(Strings, WhatIsNotKnownOfATableIsRefusedByName) {
  const absl::Status nothing = RunWith("fill = LookupTableImportV2(table, keys, values) {Tin=int64, Tout=int64}\n", "");
  EXPECT_EQ(nothing.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(nothing.message(), AllOf(HasSubstr("'found'"), HasSubstr("initialises table 't'")));
  const absl::Status unread = RunWith("fill = LookupTableImportV2(table, keys, values) {Tin=int64, Tout=int64}\n",
                                      "path = Const() {dtype=string, value=string[]{\"words.txt\"}}\n"
                                      "fill = InitializeTableFromTextFileV2(table, path) {_why_unread=\"words.txt: No such file or directory\"}\n");
  EXPECT_THAT(unread.message(), AllOf(HasSubstr("table 't'"), HasSubstr("'fill' cannot use: words.txt: No such file or directory")));
  const absl::Status changing = RunWith("again = HashTableV2()", "again = MutableDenseHashTableV2()");
  EXPECT_THAT(changing.message(), AllOf(HasSubstr("'again'"), HasSubstr("MutableDenseHashTableV2"), HasSubstr("empty buckets")));
  const absl::Status twice = RunWith("int64[3]{10, 20, 30}", "int64[3]{10, 10, 30}");
  EXPECT_THAT(twice.message(), AllOf(HasSubstr("'found'"), HasSubstr("key 10 has two values")));
  const absl::Status fed = RunWith("keys = Const() {dtype=int64, value=int64[3]{10, 20, 30}}", "keys = Placeholder() {dtype=int64, shape=shape[3]}");
  EXPECT_FALSE(fed.ok());
}

TEST(Strings, TheSizeOfATableCountsAKeyOnceAndRefusesOneWithTwoValues) {
  const std::string keys = "int64[3]{10, 20, 30}", twice = "int64[3]{10, 10, 30}";
  std::vector<Tensor> out;
  const absl::Status two_values = SessionOf(absl::StrReplaceAll(kLookup, {{keys, twice}}))->Run({}, {"size"}, {}, &out);
  EXPECT_EQ(two_values.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(two_values.message(), AllOf(HasSubstr("'size'"), HasSubstr("key 10 has two values")));
  const auto same_value = SessionOf(absl::StrReplaceAll(kLookup, {{keys, twice}, {"int64[3]{1, 2, 3}", "int64[3]{1, 1, 3}"}}));
  ASSERT_TRUE(same_value->Run({}, {"size"}, {}, &out).ok());
  EXPECT_THAT(Ints(out[0]), ElementsAre(2));
}

// As tf.lookup.experimental.MutableHashTable whose insert runs before the first step.
constexpr char kMutable[] = R"(
keys = Const() {dtype=int64, value=int64[2]{10, 20}}
values = Const() {dtype=float, value=float[2]{1, 2}}
other = Const() {dtype=float, value=float[]{-1}}
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float}
fill = LookupTableInsertV2(table, keys, values) {Tin=int64, Tout=float}
x = Placeholder() {dtype=int64, shape=shape[3]}
found = LookupTableFindV2(table, x, other) {Tin=int64, Tout=float}
)";

TEST(Strings, ATableThatIsFilledOnceBeforeTheStepsNeedNotBeStatic) {
  const auto session = SessionOf(kMutable);
  ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({20, 7, 10})}}, {"found"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(0), 2);
  EXPECT_EQ(out[0].DoubleAt(1), -1);
  EXPECT_EQ(out[0].DoubleAt(2), 1);
}

TEST(Strings, TheLastValueOfAKeyCountsInAMutableTable) {
  const auto session = SessionOf(absl::StrCat(
      absl::StrReplaceAll(kMutable, {{"int64[2]{10, 20}", "int64[3]{10, 10, 20}"}, {"float[2]{1, 2}", "float[3]{1, 2, 3}"}}), "size = LookupTableSizeV2(table)\n"));
  std::vector<Tensor> out;
  const absl::Status status =
      session->Run({{"x", Tensor::Vector<int64_t>(std::vector<int64_t>{10, 20, 30})}}, {"found", "size"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(0), 2);
  EXPECT_EQ(out[0].DoubleAt(1), 3);
  EXPECT_EQ(out[0].DoubleAt(2), -1);
  EXPECT_EQ(out[1].IntAt(0), 2);
}

// Words have no memory on a device: only as keys, of which hashes do.
TEST(Strings, ATableToWordsThatAStepFillsIsRefusedByName) {
  const std::string words = absl::StrReplaceAll(kMutable, {{"{dtype=float, value=float[2]{1, 2}}", "{dtype=string, value=string[2]{\"a\", \"b\"}}"},
                                                           {"value_dtype=float", "value_dtype=string"},
                                                           {"{dtype=float, value=float[]{-1}}", "{dtype=string, value=string[]{\"\"}}"},
                                                           {"Tout=float", "Tout=string"}});
  const std::map<std::string, Tensor> x = {{"x", Tensor::Vector<int64_t>({10, 20, 30})}};
  std::vector<Tensor> out;
  EXPECT_THAT(SessionOf(words)->Run(x, {"found"}, {"fill"}, &out).message(), AllOf(HasSubstr("'found'"), HasSubstr("is filled by 'fill' in the same step")));
  const auto twice = SessionOf(absl::StrCat(words, "more = LookupTableInsertV2(table, keys, values) {Tin=int64, Tout=string}\n"));
  EXPECT_THAT(twice->Run(x, {"found"}, {}, &out).message(), AllOf(HasSubstr("'fill'"), HasSubstr("'more'"), HasSubstr("may change from step to step")));
}

// As tf.summary in a step: nothing is written, and the step is as without it.
TEST(Strings, SummariesAreWrittenToNoFile) {
  const std::string folder = ::testing::TempDir() + "/millrace_events";
  const auto session = SessionOf(absl::StrCat(R"(
writer = SummaryWriter() {shared_name="events"}
folder = Const() {dtype=string, value=string[]{")", folder, R"("}}
ten = Const() {dtype=int32, value=int32[]{10}}
suffix = Const() {dtype=string, value=string[]{".v2"}}
open = CreateSummaryFileWriter(writer, folder, ten, ten, suffix)
x = Placeholder() {dtype=float, shape=shape[]}
step = Const() {dtype=int64, value=int64[]{1}}
tag = Const() {dtype=string, value=string[]{"loss"}}
write = WriteScalarSummary(writer, step, tag, x) {T=float}
flush = FlushSummaryWriter(writer) ^write
twice = AddV2(x, x) ^flush {T=float}
)"));
  ASSERT_TRUE(session->Run({}, {}, {"open"}, nullptr).ok());
  std::vector<Tensor> out;
  Tensor x(DataType::kFloat, Shape());
  x.mutable_as<float>()[0] = 3;
  const absl::Status status = session->Run({{"x", x}}, {"twice"}, {"write"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].DoubleAt(0), 6);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// What a text becomes before it is looked up; how many pieces there are follows from what is fed.
// What tf.strings.format makes of the same values.
constexpr char kPrinted[] = R"(
x = Placeholder() {dtype=float32, shape=shape[2,2,8]}
n = Const() {dtype=bool, value=bool[2]{true, false}}
word = Const() {dtype=string, value=string[1]{"a"}}
text = StringFormat(x, n, word) {template="x {} n {} {} of 100", placeholder="{}", summarize=2}
same = Identity(text) {T=string}
show = PrintV2(same)
known = StringFormat(n, word) {template="known {} {}", placeholder="{}", summarize=3}
whole = Const() {dtype=int32, value=int32[2,2]{1, 2, 3, 4}}
all = StringFormat(whole) {template="all {}", placeholder="{}", summarize=-1}
show_known = PrintV2(known)
show_all = PrintV2(all)
)";

TEST(Strings, WhatIsPrintedHasTheValuesOfItsStep) {
  for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    const auto session = SessionOf(kPrinted, options);
    Tensor values(DataType::kFloat, Shape({2, 2, 8}));
    for (int i = 0; i < 32; ++i) values.mutable_as<float>()[i] = static_cast<float>(i) / 3;
    ::testing::internal::CaptureStderr();
    const absl::Status status = session->Run({{"x", values}}, {}, {"show", "show_known", "show_all"}, nullptr);
    const std::string printed = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(printed, HasSubstr("x [[[0 0.333333343 ... 2 2.33333325]\n  [2.66666675 3 ... 4.66666651 5]]\n\n [[5.33333349 5.66666651 ... 7.33333349 "
                                   "7.66666651]\n  [8 8.33333302 ... 10 10.333333]]] n [1 0] [\"a\"] of 100\n"));
    EXPECT_THAT(printed, AllOf(HasSubstr("known [1 0] [\"a\"]\n"), HasSubstr("all [[1 2]\n [3 4]]\n")));
  }
}

TEST(Strings, WhatIsPrintedGoesToItsStream) {
  const std::string path = ::testing::TempDir() + "/millrace_printed.txt";
  std::filesystem::remove(path);
  const auto printing = [](const std::string& stream) {
    return SessionOf(absl::StrCat("x = Placeholder() {dtype=float, shape=shape[]}\ntext = StringFormat(x) {template=\"x {}\", placeholder=\"{}\"}\n",
                                  "show = PrintV2(text) {output_stream=\"", stream, "\", end=\".\"}\n"))
        ->Run({{"x", Tensor::Scalar<float>(2)}}, {}, {"show"}, nullptr);
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(printing("file://" + path).ok());
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "x 2.x 2.");
  ::testing::internal::CaptureStdout();
  const absl::Status status = printing("stdout");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "x 2.");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(printing("file:///nowhere/at/all").ToString(), HasSubstr("cannot append to file:///nowhere/at/all"));
  EXPECT_THAT(printing("teletype").ToString(), HasSubstr("Unknown output stream: teletype"));
}

TEST(Strings, FedTextsAreCutAndRewritten) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
none = Const() {dtype=string, value=string[]{""}}
lower = StringLower(texts)
plain = StaticRegexReplace(lower) {pattern="[!-/]", rewrite=""}
cut = StringSplitV2(plain, none)
length = StringLength(cut:1)
axis = Const() {dtype=int32, value=int32[]{0}}
longest = Max(length, axis) {T=int32, Tidx=int32}
all = StaticRegexFullMatch(cut:1) {pattern="[a-z]*"}
)");
  std::vector<Tensor> out;
  absl::Status status = session->Run({{"texts", Words({"Some, words!", "", "of it"})}}, {"cut", "cut:2", "length", "longest", "all"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(0, 0, 0, 1, 2, 0, 2, 1));
  EXPECT_THAT(Ints(out[1]), ElementsAre(3, 2));
  EXPECT_THAT(Ints(out[2]), ElementsAre(4, 5, 2, 2));
  EXPECT_THAT(Ints(out[3]), ElementsAre(5));
  status = session->Run({{"texts", Words({"a1"})}}, {"length", "all"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(2));
  EXPECT_THAT(Ints(out[1]), ElementsAre(0));
}

TEST(Strings, OfConditionalsAreThoseOfTheSideThatIsTaken) {
  const auto session = SessionOf(R"(
function short
  x = _Arg() {T=float, index=0}
  words = Const() {dtype=string, value=string[2]{"a", "bc"}}
  r = _Retval(words) {T=string, index=0}
end
function long
  x = _Arg() {T=float, index=0}
  words = Const() {dtype=string, value=string[2]{"defg", "hijkl"}}
  r = _Retval(words) {T=string, index=0}
end
x = Placeholder() {dtype=float, shape=shape[]}
zero = Const() {dtype=float, value=float[]{0}}
p = Greater(x, zero) {T=float}
chosen = StatelessIf(p, x) {Tcond=bool, then_branch=&short, else_branch=&long}
length = StringLength(chosen)
one = Const() {dtype=string, value=string[1]{"one"}}
other = Const() {dtype=string, value=string[1]{"other"}}
side = Switch(one, p) {T=string}
other_side = Switch(other, p) {T=string}
merged = Merge(other_side, side:1) {T=string, N=2}
merged_length = StringLength(merged)
)");
  std::vector<Tensor> out;
  for (const float x : {1.0f, -1.0f, 2.0f}) {
    const absl::Status status = session->Run({{"x", Tensor::Scalar(x)}}, {"length", "merged_length"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Ints(out[0]), x > 0 ? ElementsAre(1, 2) : ElementsAre(4, 5));
    EXPECT_THAT(Ints(out[1]), ElementsAre(x > 0 ? 3 : 5));
  }
}

// What words are made of is a variable's number, so a run is asked for it, and which side of a conditional is taken.
TEST(Strings, ThatFollowFromVariablesAreThoseOfTheStep) {
  const auto session = SessionOf(R"(
n = VarHandleOp() {dtype=int32, shape=shape[], shared_name="n"}
zero = Const() {dtype=int32, value=int32[]{0}}
init = AssignVariableOp(n, zero) {dtype=int32}
now = ReadVariableOp(n) {dtype=int32}
one = Const() {dtype=int32, value=int32[]{1}}
count = AssignAddVariableOp(n, one) ^now {dtype=int32}
words = Const() {dtype=string, value=string[3]{"a", "bc", "def"}}
axis = Const() {dtype=int32, value=int32[]{0}}
word = GatherV2(words, now, axis) {Tparams=string, Tindices=int32, Taxis=int32}
prefix = Const() {dtype=string, value=string[]{"xyz"}}
longer = AddV2(prefix, word) {T=string}
length = StringLength(longer)
text = AsString(now) {T=int32}
table = StringToNumber(text) {out_type=int64}
p = Greater(now, zero) {T=int32}
side = Switch(words, p) {T=string}
no = Identity(side) {T=string}
yes = StringJoin(side:1, side:1) {N=2, separator="-"}
merged = Merge(no, yes) {T=string, N=2}
merged_length = StringLength(merged)
)");
  ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
  std::vector<Tensor> out;
  for (int step = 0; step < 3; ++step) {
    const absl::Status status = session->Run({}, {"length", "table", "merged_length"}, {"count"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Ints(out[0]), ElementsAre(4 + step));
    EXPECT_THAT(Ints(out[1]), ElementsAre(step));
    EXPECT_THAT(Ints(out[2]), step == 0 ? ElementsAre(1, 2, 3) : ElementsAre(3, 5, 7));
  }
}

// In the order of numbers that are shuffled by the same seeds.
TEST(Strings, ShuffledAtRandomAreThoseOfTheStep) {
  const auto session = SessionOf(R"(
words = Const() {dtype=string, value=string[5]{"a", "bc", "def", "ghij", "klmno"}}
mixed = RandomShuffle(words) {T=string, seed=1, seed2=2}
lengths = StringLength(mixed)
numbers = Const() {dtype=int32, value=int32[5]{1, 2, 3, 4, 5}}
expected = RandomShuffle(numbers) {T=int32, seed=1, seed2=2}
)");
  std::vector<std::vector<int64_t>> orders;
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({}, {"lengths", "expected"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Ints(out[0]), Ints(out[1])) << "step " << step;
    orders.push_back(Ints(out[0]));
  }
  EXPECT_FALSE(orders[0] == orders[1] && orders[1] == orders[2]) << "the stream goes on";
}

// Rows of words made rectangular: ops that move strings as they move numbers.
TEST(Strings, WordsArePaddedSortedAndScattered) {
  const auto session = SessionOf(R"(
texts = Placeholder() {dtype=string, shape=shape[?]}
spaces = Const() {dtype=string, value=string[]{""}}
empty = Const() {dtype=string, value=string[]{""}}
unknown = Const() {dtype=string, value=string[]{"?"}}
cut = StringSplitV2(texts, spaces)
dense = SparseToDense(cut, cut:2, cut:1, empty) {T=string, Tindices=int64}
places = Const() {dtype=int32, value=int32[2,2]{0, 1, 1, 0}}
padded = Pad(dense, places) {T=string}
edges = PadV2(dense, places, unknown) {T=string}
filled = SparseFillEmptyRows(cut, cut:1, cut:2, unknown) {T=string}
sorted = SparseReorder(filled, filled:1, cut:2) {T=string}
left = ListDiff(filled:1, cut:1) {T=string}
counts = UniqueWithCounts(cut:1) {T=string}
splits = Const() {dtype=int64, value=int64[4]{0, 2, 2, 3}}
open = Const() {dtype=int64, value=int64[2]{-1, -1}}
rows = RaggedTensorToTensor(open, cut:1, unknown, splits) {T=string, Tindex=int64, Tshape=int64, num_row_partition_tensors=1, row_partition_types=["ROW_SPLITS"]}
mirrored = MirrorPad(dense, places) {T=string, mode="SYMMETRIC"}
first = Const() {dtype=int64, value=int64[2]{0, 0}}
column = Const() {dtype=int64, value=int64[2]{3, 1}}
slice = SparseSlice(cut, cut:1, cut:2, first, column) {T=string}
both = SparseConcat(slice, slice, slice:1, slice:1, slice:2, slice:2) {N=2, T=string, concat_dim=1}
nothing = ZerosLike(dense) {T=string}
of_dense = StringLength(dense)
of_padded = StringLength(padded)
of_edges = StringLength(edges)
of_sorted = StringLength(sorted:1)
of_left = StringLength(left)
of_rows = StringLength(rows)
of_mirrored = StringLength(mirrored)
of_both = StringLength(both:1)
of_nothing = StringLength(nothing)
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"texts", Words({"some words", "", "some"})}},
                                           {"of_dense", "of_padded", "of_edges", "of_sorted", "of_left", "counts:2", "of_rows", "of_mirrored", "of_both",
                                            "of_nothing"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(4, 5, 0, 0, 4, 0));
  EXPECT_THAT(Ints(out[1]), ElementsAre(0, 4, 5, 0, 0, 0, 0, 4, 0, 0, 0, 0));
  EXPECT_THAT(Ints(out[2]), ElementsAre(1, 4, 5, 1, 0, 0, 1, 4, 0, 1, 1, 1));
  EXPECT_THAT(Ints(out[3]), ElementsAre(4, 5, 1, 4));
  EXPECT_THAT(Ints(out[4]), ElementsAre(1));
  EXPECT_THAT(Ints(out[5]), ElementsAre(2, 1));
  EXPECT_THAT(Ints(out[6]), ElementsAre(4, 5, 1, 1, 4, 1));
  EXPECT_THAT(Ints(out[7]), ElementsAre(4, 4, 5, 0, 0, 0, 4, 4, 0, 4, 4, 0));
  EXPECT_THAT(Ints(out[8]), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(Ints(out[9]), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(Strings, WordsAreTakenFromRowsAndPutIntoThem) {
  const auto session = SessionOf(R"(
words = Placeholder() {dtype=string, shape=shape[4]}
splits = Const() {dtype=int64, value=int64[3]{0, 2, 4}}
rows = Const() {dtype=int32, value=int32[2]{1, 0}}
gathered = RaggedGather(splits, words, rows) {PARAMS_RAGGED_RANK=1, OUTPUT_RAGGED_RANK=1, Tvalues=string, Tindices=int32, Tsplits=int64}
sparse = RaggedTensorToSparse(splits, words) {RAGGED_RANK=1, T=string, Tsplits=int64}
axis = Const() {dtype=int64, value=int64[]{1}}
columns = SparseSplit(axis, sparse, sparse:1, sparse:2) {T=string, num_split=2}
place = Const() {dtype=int32, value=int32[1,1]{2}}
other = Const() {dtype=string, value=string[1]{"other"}}
replaced = TensorScatterUpdate(words, place, other) {T=string, Tindices=int32}
first = Const() {dtype=int64, value=int64[1]{0}}
unique = UniqueWithCountsV2(words, first) {T=string, Taxis=int64, out_idx=int32}
twice = Const() {dtype=int32, value=int32[4,1]{0, 1, 2, 1}}
size = Const() {dtype=int32, value=int32[1]{3}}
joined = ScatterNd(twice, words, size) {T=string, Tindices=int32}
of_gathered = StringLength(gathered:1)
of_sparse = StringLength(sparse:1)
of_column = StringLength(columns:3)
of_replaced = StringLength(replaced)
of_unique = StringLength(unique)
)");
  std::vector<Tensor> out;
  const std::map<std::string, Tensor> feeds = {{"words", Words({"a", "bb", "a", "dddd"})}};
  const absl::Status status = session->Run(feeds, {"of_gathered", "of_sparse", "of_column", "of_replaced", "of_unique", "unique:2"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Ints(out[0]), ElementsAre(1, 4, 1, 2));
  EXPECT_THAT(Ints(out[1]), ElementsAre(1, 2, 1, 4));
  EXPECT_THAT(Ints(out[2]), ElementsAre(2, 4));
  EXPECT_THAT(Ints(out[3]), ElementsAre(1, 2, 5, 4));
  EXPECT_THAT(Ints(out[4]), ElementsAre(1, 2, 4));
  EXPECT_THAT(Ints(out[5]), ElementsAre(2, 1, 1));
  ASSERT_TRUE(session->Run(feeds, {"joined"}, {}, &out).ok());
  EXPECT_THAT(out[0].strings(), ElementsAre("a", "bbdddd", "a"));
}

// TensorFlow's tf.raw_ops.StringFormat(inputs=[1, 2], template="abc", placeholder="").
TEST(Strings, AnEmptyPlaceholderIsBetweenAnyTwoCharacters) {
  const auto session = SessionOf(R"(
n = Placeholder() {dtype=int32, shape=shape[]}
two = Const() {dtype=int32, value=int32[]{2}}
text = StringFormat(n, two) {T=[int32, int32], template="abc", placeholder=""}
alone = StringFormat() {T=[], template="a", placeholder=""}
expected = Const() {dtype=string, value=string[2]{"a1b2c", "a"}}
both = Pack(text, alone) {N=2, T=string, axis=0}
hash = StringToHashBucketFast(both) {num_buckets=1000000}
expected_hash = StringToHashBucketFast(expected) {num_buckets=1000000}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"n", Tensor::Scalar<int32_t>(1)}}, {"hash", "expected_hash"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Ints(out[0]), Ints(out[1]));
}

TEST(Strings, NumbersOf8BitsAreWrittenAsTensorFlowDoes) {
  const auto session = SessionOf(R"(
x = Const() {dtype=float8_e5m2, value=float8_e5m2[4]{0.09375, -1.5258789e-05, inf, 448.0}}
text = StringFormat(x) {T=[float8_e5m2], template="{}", placeholder="{}", summarize=-1}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"text"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out[0].strings(), ElementsAre("[0.09375 -1.52587891e-05 inf 448]"));
}

}  // namespace
}  // namespace millrace
