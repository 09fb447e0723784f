// Tables that steps change: they grow, keep what failing steps would have changed, and are the same under every plan.
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

// Counts how often keys were seen: finds, adds one, inserts.
constexpr char kCounts[] = R"(
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
zero = Const() {dtype=float, value=float[]{0}}
one = Const() {dtype=float, value=float[]{1}}
x = Placeholder() {dtype=int64, shape=shape[?]}
seen = LookupTableFindV2(table, x, zero) {Tin=int64, Tout=float}
more = AddV2(seen, one) {T=float}
insert = LookupTableInsertV2(table, x, more) {Tin=int64, Tout=float}
again = Identity(x) ^insert {T=int64}
found = LookupTableFindV2(table, again, zero) {Tin=int64, Tout=float}
size = LookupTableSizeV2(table) ^insert
remove = LookupTableRemoveV2(table, x) {Tin=int64}
left = LookupTableSizeV2(table) ^remove
export = LookupTableExportV2(table) ^insert {Tkeys=int64, Tvalues=float}
axis = Const() {dtype=int32, value=int32[]{0}}
total = Sum(export:1, axis) {T=float, Tidx=int32}
bare = LookupTableSizeV2(table)
)";

TEST(Tables, StepsCountWhatTheySee) {
  const auto session = SessionOf(kCounts);
  std::vector<Tensor> out;
  for (int step = 1; step <= 3; ++step) {
    const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({5, -7})}}, {"seen", "found", "size", "total"}, {"insert"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(step - 1, step - 1));
    EXPECT_THAT(Numbers(out[1]), ElementsAre(step, step));
    EXPECT_THAT(Numbers(out[2]), ElementsAre(2));
    EXPECT_THAT(Numbers(out[3]), ElementsAre(2 * step));
  }
  ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>({5, 8})}}, {"left"}, {"remove"}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1));
}

// The same of words.
std::string CountsOfWords() {
  return absl::StrReplaceAll(kCounts, {{"key_dtype=int64", "key_dtype=string"},
                                       {"x = Placeholder() {dtype=int64", "x = Placeholder() {dtype=string"},
                                       {"Tin=int64", "Tin=string"},
                                       {"again = Identity(x) ^insert {T=int64}", "again = Identity(x) ^insert {T=string}"},
                                       {"Tkeys=int64", "Tkeys=string"}});
}

Tensor FedWords(const std::vector<std::string>& words) {
  Tensor tensor(DataType::kString, Shape({static_cast<int64_t>(words.size())}));
  tensor.mutable_strings() = words;
  return tensor;
}

TEST(Tables, StepsCountTheWordsThatAreFed) {
  const auto session = SessionOf(CountsOfWords());
  std::vector<Tensor> out;
  const std::vector<std::vector<std::string>> steps = {{"oak", "fig"}, {"fig", ""}, {"oak", "fig"}};
  const std::vector<std::vector<double>> counts = {{1, 1}, {2, 1}, {2, 3}};
  for (size_t step = 0; step < steps.size(); ++step) {
    const absl::Status status = session->Run({{"x", FedWords(steps[step])}}, {"found", "size"}, {"insert"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(counts[step][0], counts[step][1]));
    EXPECT_THAT(Numbers(out[1]), ElementsAre(step == 0 ? 2 : 3));
  }
  ASSERT_TRUE(session->Run({{"x", FedWords({"fig", "elm"})}}, {"left"}, {"remove"}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2));
  ASSERT_TRUE(session->Run({{"x", FedWords({"fig", "oak"})}}, {"seen"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 2));
}

TEST(Tables, ManyWordsAreToldApart) {
  const auto session = SessionOf(CountsOfWords());
  std::vector<Tensor> out;
  for (int step = 0; step < 2; ++step) {
    std::vector<std::string> words;
    for (int i = 0; i < 500; ++i) words.push_back(absl::StrCat("word", step * 500 + i));
    const absl::Status status = session->Run({{"x", FedWords(words)}}, {"size"}, {"insert"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre((step + 1) * 500));
  }
}

// The texts of integers are known without planning for them.
TEST(Tables, WordsMayBeTheTextsOfNumbers) {
  const auto session = SessionOf(absl::StrReplaceAll(
      CountsOfWords(), {{"x = Placeholder() {dtype=string, shape=shape[?]}", "n = Placeholder() {dtype=int64, shape=shape[2]}\nx = AsString(n) {T=int64}"}}));
  std::vector<Tensor> out;
  for (int64_t step = 0; step < 4; ++step) {
    const absl::Status status = session->Run({{"n", Tensor::Vector<int64_t>({7, step})}}, {"seen", "size"}, {"insert"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(step, 0));
    EXPECT_THAT(Numbers(out[1]), ElementsAre(step + 2));
  }
}

TEST(Tables, WordsAreNotToBeHadFromATableThatStepsChange) {
  const auto session = SessionOf(CountsOfWords());
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"x", FedWords({"oak", "fig"})}}, {"total"}, {"insert"}, &out).ToString(),
              AllOf(HasSubstr("'export'"), HasSubstr("knows its words by their hashes only")));
}

// What a checkpoint would restore is not there otherwise.
TEST(Tables, OfWordsThatACheckpointRestoresAreRefused) {
  const auto session = SessionOf(absl::StrCat(CountsOfWords(), R"(
path = Const() {dtype=string, value=string[]{"p"}}
names = Const() {dtype=string, value=string[2]{"keys", "values"}}
slices = Const() {dtype=string, value=string[2]{"", ""}}
saved = RestoreV2(path, names, slices) {dtypes=[string, float]}
restore = LookupTableImportV2(table, saved, saved:1) {Tin=string, Tout=float}
)"));
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"x", FedWords({"oak", "fig"})}}, {"seen"}, {}, &out).ToString(),
              AllOf(HasSubstr("'seen'"), HasSubstr("restored from a checkpoint by 'restore'")));
  const absl::Status restored = session->Run({{"saved:0", FedWords({"oak"})}, {"saved:1", Tensor::Vector<float>({1})}}, {}, {"restore"}, nullptr);
  EXPECT_TRUE(restored.ok()) << restored << ": nothing looks in it";
}

TEST(Tables, GrowBeforeTheyAreFull) {
  const auto session = SessionOf(kCounts);
  std::vector<Tensor> out;
  constexpr int64_t kStep = 700;
  for (int64_t step = 0; step < 5; ++step) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < kStep; ++i) keys.push_back((step * kStep + i) * 3);
    const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>(keys)}}, {"size", "total"}, {"insert"}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre((step + 1) * kStep));
    EXPECT_THAT(Numbers(out[1]), ElementsAre((step + 1) * kStep));
  }
  const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({0, 3 * (5 * kStep - 1), 1})}}, {"seen"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 1, 0));
}

// Keys come and go: the table does not grow with all that ever were in it.
TEST(Tables, RemovedKeysAreRoomAgain) {
  const auto session = SessionOf(kCounts);
  std::vector<Tensor> out;
  for (int64_t step = 0; step < 40; ++step) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 300; ++i) keys.push_back(step * 300 + i);
    ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>(keys)}}, {"size"}, {"insert"}, &out).ok());
    EXPECT_THAT(Numbers(out[0]), ElementsAre(300));
    ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>(keys)}}, {"left"}, {"remove"}, &out).ok());
    EXPECT_THAT(Numbers(out[0]), ElementsAre(0));
  }
  const auto variables = session->Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_EQ(variables->at("counts/table").size_bytes(), 1024 * 13);
}

TEST(Tables, EveryPlanGivesTheSameBits) {
  std::vector<Tensor> first;
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "planned"}) {
    SessionOptions options;
    options.planning.strategy = strategy;
    options.planning.device_memory_bytes = std::string(strategy) == "baseline" ? 0 : 64 << 10;
    const auto session = SessionOf(kCounts, options);
    std::vector<Tensor> out;
    for (int64_t step = 0; step < 4; ++step) {
      std::vector<int64_t> keys;
      for (int64_t i = 0; i < 60; ++i) keys.push_back(i * i % (step + 50));
      const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>(keys)}}, {"found", "total"}, {"insert"}, &out);
      ASSERT_TRUE(status.ok()) << strategy << ": " << status;
    }
    const auto variables = session->Variables();
    ASSERT_TRUE(variables.ok()) << variables.status();
    out.push_back(variables->at("counts/table"));
    if (first.empty()) first = out;
    for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out[i].BitEqual(first[i])) << strategy << " " << i;
  }
}

// A session that goes on where another ended, whatever it has planned before it is told so, and in however many buckets.
TEST(Tables, AreTakenOverInTheSizeThatTheyHad) {
  const auto keys = [](int64_t step) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 7; ++i) keys.push_back(1000 * step + i);
    return Tensor::Vector<int64_t>(keys);
  };
  const std::vector<std::string> fetches = {"size", "export:0", "export:1"};
  const auto whole = SessionOf(kCounts), later = SessionOf(kCounts);
  const Session::FeedTypes types = {{"x", keys(0).type()}};
  ASSERT_TRUE(later->Plan(types, fetches, {"insert"}).ok());
  ASSERT_TRUE(later->Plan({}, {"bare"}, {}).ok());
  std::vector<Tensor> expected, out;
  for (int64_t step = 0; step < 100; ++step) ASSERT_TRUE(whole->Run({{"x", keys(step)}}, fetches, {"insert"}, nullptr).ok());
  const auto variables = whole->Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_EQ(variables->at("counts/table").size_bytes(), 1024 * 13);
  ASSERT_TRUE(later->SetVariable("counts/table", variables->at("counts/table")).ok());
  const absl::Status asked = later->Run({}, {"bare"}, {}, &out);
  ASSERT_TRUE(asked.ok()) << asked;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(700));
  for (int64_t step = 100; step < 150; ++step) {
    ASSERT_TRUE(whole->Run({{"x", keys(step)}}, fetches, {"insert"}, &expected).ok());
    const absl::Status ran = later->Run({{"x", keys(step)}}, fetches, {"insert"}, &out);
    ASSERT_TRUE(ran.ok()) << ran;
    for (size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(out[i].BitEqual(expected[i])) << "step " << step << ", fetch " << i;
  }
}

TEST(Tables, APlanOfOneThatHadGrownIsRefusedByItsSize) {
  const auto grown = SessionOf(kCounts), fresh = SessionOf(kCounts);
  const Tensor x = Tensor::Vector<int64_t>(std::vector<int64_t>(300, 1));
  ASSERT_TRUE(grown->Run({{"x", x}}, {"size"}, {"insert"}, nullptr).ok());
  const auto plan = std::make_shared<const ExecutionPlan>(*grown->last_run().plan);
  const absl::Status refused = fresh->UsePlan(plan, {{"x", x.type()}}, {"size"}, {"insert"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("'counts/table' is uint8[6656] in the plan"), HasSubstr("uint8[3328] here; plan again")));
}

constexpr char kDense[] = R"(
empty = Const() {dtype=int64, value=int64[]{-1}}
deleted = Const() {dtype=int64, value=int64[]{-2}}
table = MutableDenseHashTableV2(empty, deleted) {key_dtype=int64, value_dtype=float, value_shape=shape[2], initial_num_buckets=64}
zero = Const() {dtype=float, value=float[2]{0, 0}}
x = Placeholder() {dtype=int64, shape=shape[2]}
rows = Placeholder() {dtype=float, shape=shape[2,2]}
insert = LookupTableInsertV2(table, x, rows) {Tin=int64, Tout=float}
found = LookupTableFindV2(table, x, zero) ^insert {Tin=int64, Tout=float}
size = LookupTableSizeV2(table)
export = LookupTableExportV2(table) {Tkeys=int64, Tvalues=float}
)";

Tensor Rows(float first) {
  Tensor rows(DataType::kFloat, Shape({2, 2}));
  for (int i = 0; i < 4; ++i) rows.mutable_as<float>()[i] = first + i;
  return rows;
}

TEST(Tables, DenseOnesAreExportedInTensorFlowsBuckets) {
  const auto session = SessionOf(kDense);
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>({3, 67})}, {"rows", Rows(1)}}, {"found"}, {"insert"}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(session->Run({}, {"export:0", "export:1", "size"}, {}, &out).ok());
  ASSERT_EQ(out[0].shape(), Shape({64, 1}));
  ASSERT_EQ(out[1].shape(), Shape({64, 2}));
  // 67 meets 3 in its bucket and takes the next.
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out[0].IntAt(i), i == 3 ? 3 : i == 4 ? 67 : -1) << i;
  EXPECT_EQ(out[1].DoubleAt(9), 4);
  EXPECT_THAT(Numbers(out[2]), ElementsAre(2));
}

TEST(Tables, DenseOnesOfWordsKnowTheirMarks) {
  const auto session = SessionOf(absl::StrReplaceAll(
      kDense, {{"dtype=int64, value=int64[]{-1}", "dtype=string, value=string[]{\"<e>\"}"},
               {"dtype=int64, value=int64[]{-2}", "dtype=string, value=string[]{\"<d>\"}"},
               {"key_dtype=int64", "key_dtype=string"},
               {"x = Placeholder() {dtype=int64", "x = Placeholder() {dtype=string"},
               {"Tin=int64", "Tin=string"}}));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", FedWords({"fig", "oak"})}, {"rows", Rows(1)}}, {"found"}, {"insert"}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(session->Run({}, {"size"}, {}, &out).ok());
  EXPECT_THAT(Numbers(out[0]), ElementsAre(2));
  for (const char* mark : {"<e>", "<d>"}) {
    EXPECT_THAT(session->Run({{"x", FedWords({"elm", mark})}, {"rows", Rows(5)}}, {}, {"insert"}, nullptr).ToString(), HasSubstr("is not allowed"));
  }
}

// Rows of one number where a key or a value is a scalar.
TEST(Tables, DenseOnesOfScalarsAreExportedInRowsToo) {
  const auto session = SessionOf(absl::StrReplaceAll(
      kDense, {{"value_shape=shape[2]", "value_shape=shape[]"}, {"float[2]{0, 0}", "float[]{0}"}, {"shape=shape[2,2]", "shape=shape[2]"}}));
  std::vector<Tensor> out;
  ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>({3, 67})}, {"rows", Tensor::Vector<float>({5, 6})}}, {}, {"insert"}, nullptr).ok());
  const absl::Status status = session->Run({}, {"export:0", "export:1"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].shape(), Shape({64, 1}));
  ASSERT_EQ(out[1].shape(), Shape({64, 1}));
  EXPECT_EQ(out[1].DoubleAt(4), 6);
}

// TensorFlow's, which grows as soon as more than 0.8 of its buckets would have keys.
TEST(Tables, DenseOnesHaveAsFewBucketsAsTheyAskFor) {
  const auto session = SessionOf(absl::StrReplaceAll(kDense, {{"initial_num_buckets=64", "initial_num_buckets=4"}}));
  std::vector<Tensor> out;
  for (const auto& [key, buckets] : std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {2, 8}, {4, 8}, {6, 16}}) {
    const std::map<std::string, Tensor> feeds = {{"x", Tensor::Vector<int64_t>({key, key + 1})}, {"rows", Rows(1)}};
    const absl::Status inserted = session->Run(feeds, {}, {"insert"}, nullptr);
    ASSERT_TRUE(inserted.ok()) << inserted;
    ASSERT_TRUE(session->Run({}, {"export:0", "size"}, {}, &out).ok());
    EXPECT_EQ(out[0].shape(), Shape({buckets, 1})) << key;
    EXPECT_THAT(Numbers(out[1]), ElementsAre(key + 2));
  }
}

TEST(Tables, AStepThatFailsLeavesThemAsTheyWere) {
  const auto session = SessionOf(kDense);
  ASSERT_TRUE(session->Run({{"x", Tensor::Vector<int64_t>({3, 67})}, {"rows", Rows(1)}}, {}, {"insert"}, nullptr).ok());
  const auto before = session->Variables();
  const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({4, -1})}, {"rows", Rows(9)}}, {}, {"insert"}, nullptr);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'insert'"), HasSubstr("Using the empty_key as a table key is not allowed")));
  const auto after = session->Variables();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_TRUE(after->at("table/table").BitEqual(before->at("table/table")));
}

TEST(Tables, MarksOfBucketsAreNotTheSame) {
  const auto session = SessionOf(absl::StrReplaceAll(kDense, {{"int64[]{-2}", "int64[]{-1}"}}));
  EXPECT_THAT(session->Run({}, {}, {"size"}, nullptr).ToString(), AllOf(HasSubstr("'table'"), HasSubstr("Empty and deleted keys cannot be equal")));
}

// Filled once, with constants, as far as the graph itself says.
constexpr char kOfWords[] = R"(
function insert ^more
  h = _Arg() {T=resource, index=0}
  key = Const() {dtype=string, value=string[1]{"fig"}}
  seven = Const() {dtype=int64, value=int64[1]{7}}
  more = LookupTableInsertV2(h, key, seven) {Tin=string, Tout=int64}
  one = Const() {dtype=int32, value=int32[]{1}}
  r = _Retval(one) {T=int32, index=0}
end
function leave
  h = _Arg() {T=resource, index=0}
  two = Const() {dtype=int32, value=int32[]{2}}
  r = _Retval(two) {T=int32, index=0}
end
table = MutableHashTableV2() {key_dtype=string, value_dtype=int64, shared_name="t"}
keys = Const() {dtype=string, value=string[2]{"fig", "oak"}}
values = Const() {dtype=int64, value=int64[2]{1, 2}}
fill = LookupTableInsertV2(table, keys, values) {Tin=string, Tout=int64}
zero = Const() {dtype=int64, value=int64[]{0}}
found = LookupTableFindV2(table, keys, zero) {Tin=string, Tout=int64}
x = Placeholder() {dtype=float, shape=shape[]}
half = Const() {dtype=float, value=float[]{0.5}}
larger = Greater(x, half) {T=float}
chosen = If(larger, table) {Tcond=bool, Tin=[resource], Tout=[int32], then_branch=&insert, else_branch=&leave}
)";

TEST(Tables, WhatABranchInsertsIsThereInLaterSteps) {
  const auto session = SessionOf(kOfWords);
  const absl::Status filled = session->Run({}, {}, {"fill"}, nullptr);
  ASSERT_TRUE(filled.ok()) << filled;
  for (const auto& [x, expected] : std::vector<std::pair<float, double>>{{0, 1}, {1, 7}}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Tensor::Scalar(x)}}, {"chosen"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(session->Run({}, {"found"}, {}, &out).ok());
    EXPECT_THAT(Numbers(out[0]), ElementsAre(expected, 2));
  }
}

// Steps that look words up have them as constants.
TEST(Tables, OfWordsThatAreFilledOnceAreNoVariables) {
  const auto session = SessionOf(absl::StrReplaceAll(kOfWords, {{"then_branch=&insert", "then_branch=&leave"}}));
  ASSERT_TRUE(session->Run({}, {}, {"fill"}, nullptr).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"found"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1, 2));
  const auto variables = session->Variables();
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_TRUE(variables->empty());
}

TEST(Tables, WhatCannotBeTheirsIsRefusedByName) {
  const auto run = [](const std::string& from, const std::string& to) {
    const auto session = SessionOf(absl::StrReplaceAll(kDense, {{from, to}}));
    return session->Run({{"x", Tensor::Vector<int64_t>({3, 67})}, {"rows", Rows(1)}}, {}, {"insert"}, nullptr).ToString();
  };
  EXPECT_THAT(run("initial_num_buckets=64", "initial_num_buckets=65"), AllOf(HasSubstr("'table'"), HasSubstr("and a power of 2, got: 65")));
  EXPECT_THAT(run("initial_num_buckets=64", "initial_num_buckets=2"), HasSubstr("must be at least 4 and a power of 2, got: 2, expected"));
  EXPECT_THAT(run("initial_num_buckets=64", "initial_num_buckets=4611686018427387904"), HasSubstr("expected at most 4294967296"));
  EXPECT_THAT(run("value_shape=shape[2]", "value_shape=shape[3]"), AllOf(HasSubstr("'insert'"), HasSubstr("Expected shape [2,3] for value, got [2,2]")));
  EXPECT_THAT(run("value_shape=shape[2]", "value_shape=shape[?]"), HasSubstr("'table'"));
  EXPECT_THAT(run("empty = Const() {dtype=int64, value=int64[]{-1}}", "empty = Placeholder() {dtype=int64, shape=shape[]}"), HasSubstr("empty"));
}

// As a checkpoint might have it: buckets are 1 + 8 + 4 bytes, 64 of them at least.
TEST(Tables, BytesThatAreNoTableAreRefused) {
  for (const int64_t bytes : {1, 13, 64 * 13 + 1, 65 * 13}) {
    const auto session = SessionOf(kCounts);
    ASSERT_TRUE(session->SetVariable("counts/table", Tensor(DataType::kUint8, Shape({bytes}))).ok());
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({5})}}, {"seen"}, {}, &out);
    EXPECT_FALSE(status.ok()) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("uint8[", bytes, "]"))) << bytes;
  }
}

// Of TensorFlow 1: the counter alone waits for what the turns insert, and how far it counts is known without them.
constexpr char kInsertsInTurns[] = R"(
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
x = Placeholder() {dtype=int64, shape=shape[1]}
zero = Const() {dtype=int64, value=int64[1]{0}}
i_in = Enter(zero) {T=int64, frame_name="loop"}
x_in = Enter(x) {T=int64, frame_name="loop", is_constant=true}
t_in = Enter(table) {T=resource, frame_name="loop", is_constant=true}
i = Merge(i_in, i_again) {T=int64, N=2}
three = Const() ^i {dtype=int64, value=int64[1]{3}}
less = Less(i, three) {T=int64}
scalar = Const() ^i {dtype=int32, value=int32[0]{}}
one_less = Reshape(less, scalar) {T=bool, Tshape=int32}
goes_on = LoopCond(one_less)
i_switch = Switch(i, goes_on) {T=int64}
taken = Identity(i_switch:1) {T=int64}
one = Const() ^taken {dtype=int64, value=int64[1]{1}}
ones = Const() ^taken {dtype=float, value=float[1]{1}}
key = AddV2(taken, x_in) {T=int64}
insert = LookupTableInsertV2(t_in, key, ones) {Tin=int64, Tout=float}
next = AddV2(taken, one) ^insert {T=int64}
i_again = NextIteration(next) {T=int64}
i_out = Exit(i_switch) {T=int64}
size = LookupTableSizeV2(table) ^i_out
same = Size(i_out) {T=int64, out_type=int64}
all = AddV2(size, same) {T=int64}
)";

TEST(Tables, TurnsInsertThoughTheirCountIsKnown) {
  const auto session = SessionOf(kInsertsInTurns);
  std::vector<Tensor> out;
  for (int64_t step = 1; step <= 3; ++step) {
    const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({10 * step})}}, {"all"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Numbers(out[0]), ElementsAre(3 * step + 1));
  }
}

// Tables and queues that Millrace does not keep are none of a step that does nothing with them.
TEST(Tables, WhatALoopWithoutTurnsWouldUseIsNotNeeded) {
  const auto session = SessionOf(absl::StrReplaceAll(
      kInsertsInTurns, {{"MutableHashTableV2() {key_dtype=int64, value_dtype=float, ",
                         "MutableHashTableOfTensorsV2() {key_dtype=int64, value_dtype=float, value_shape=shape[2], "},
                        {"value=int64[1]{3}}", "value=int64[1]{0}}"},
                        {"LookupTableSizeV2(table) ^i_out", "Identity(i_out) {T=int64}"}}));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"x", Tensor::Vector<int64_t>({1})}}, {"all"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1));
}

// The loop that fills it is no part of the step, and no order of the graph's.
TEST(Tables, ATableThatALoopFillsCanBeAsked) {
  const auto session = SessionOf(absl::StrCat(kInsertsInTurns, R"(
none = Const() {dtype=float, value=float[]{-1}}
found = LookupTableFindV2(table, x, none) {Tin=int64, Tout=float}
)"));
  std::vector<Tensor> out;
  const Tensor x = Tensor::Vector<int64_t>({5});
  for (const auto& [target, value] : std::vector<std::pair<std::vector<std::string>, double>>{{{}, -1}, {{"all"}, -1}, {{}, 1}}) {
    const absl::Status status = target.empty() ? session->Run({{"x", x}}, {"found"}, {}, &out) : session->Run({{"x", x}}, {}, target, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    if (target.empty()) {
      EXPECT_THAT(Numbers(out[0]), ElementsAre(value));
    }
  }
}

// What is inserted in a branch is there only where the branch is taken.
TEST(Tables, BranchesThatAreNotTakenInsertNothing) {
  const auto session = SessionOf(R"(
table = MutableHashTableV2() {key_dtype=int64, value_dtype=float}
go = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=int64, shape=shape[1]}
one = Const() {dtype=float, value=float[1]{1}}
handle = Switch(table, go) {T=resource}
keys = Switch(x, go) {T=int64}
insert = LookupTableInsertV2(handle:1, keys:1, one) {Tin=int64, Tout=float}
all = NoOp() ^insert
after = LookupTableSizeV2(table)
)");
  std::vector<Tensor> out;
  for (const bool go : {false, true, false}) {
    const absl::Status status =
        session->Run({{"go", Tensor::Scalar<bool>(go)}, {"x", Tensor::Vector<int64_t>({go ? 1 : 2})}}, {}, {"all"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  const absl::Status status = session->Run({}, {"after"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(1));
}

// In the order in which they were put in: TensorFlow has them in that of its hash map.
TEST(Tables, OfWordsThatAreFilledOnceAreExported) {
  for (const std::string op : {"HashTableV2", "MutableHashTableV2"}) {
    const auto session = SessionOf(absl::StrReplaceAll(R"(
words = OP() {key_dtype=string, value_dtype=int64, shared_name="words"}
names = OP() {key_dtype=int64, value_dtype=string, shared_name="names"}
keys = Const() {dtype=string, value=string[4]{"a", "bb", "ccc", "a"}}
numbers = Const() {dtype=int64, value=int64[4]{1, 2, 3, 1}}
fill = LookupTableImportV2(words, keys, numbers) {Tin=string, Tout=int64}
fill_names = LookupTableImportV2(names, numbers, keys) {Tin=int64, Tout=string}
export = LookupTableExportV2(words) {Tkeys=string, Tvalues=int64}
export_names = LookupTableExportV2(names) {Tkeys=int64, Tvalues=string}
lengths = StringLength(export)
lengths_of_names = StringLength(export_names:1)
)", {{"OP", op}}));
    std::vector<Tensor> out;
    absl::Status status = session->Run({}, {}, {"fill", "fill_names"}, nullptr);
    ASSERT_TRUE(status.ok()) << op << ": " << status;
    status = session->Run({}, {"export:1", "lengths", "export_names", "lengths_of_names"}, {}, &out);
    ASSERT_TRUE(status.ok()) << op << ": " << status;
    for (const Tensor& tensor : out) EXPECT_THAT(Numbers(tensor), ::testing::UnorderedElementsAre(1, 2, 3)) << op;
  }
}

}  // namespace
}  // namespace millrace
