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
  ASSERT_EQ(out[0].num_elements(), 64);
  // 67 meets 3 in its bucket and takes the next.
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out[0].IntAt(i), i == 3 ? 3 : i == 4 ? 67 : -1) << i;
  EXPECT_EQ(out[1].DoubleAt(9), 4);
  EXPECT_THAT(Numbers(out[2]), ElementsAre(2));
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

TEST(Tables, WhatCannotBeTheirsIsRefusedByName) {
  const auto run = [](const std::string& from, const std::string& to) {
    const auto session = SessionOf(absl::StrReplaceAll(kDense, {{from, to}}));
    return session->Run({{"x", Tensor::Vector<int64_t>({3, 67})}, {"rows", Rows(1)}}, {}, {"insert"}, nullptr).ToString();
  };
  EXPECT_THAT(run("initial_num_buckets=64", "initial_num_buckets=65"), AllOf(HasSubstr("'table'"), HasSubstr("must be a power of 2, got: 65")));
  EXPECT_THAT(run("initial_num_buckets=64", "initial_num_buckets=4611686018427387904"), HasSubstr("expected at most 4294967296"));
  EXPECT_THAT(run("value_shape=shape[2]", "value_shape=shape[3]"), AllOf(HasSubstr("'insert'"), HasSubstr("Expected shape [2,3] for value, got [2,2]")));
  EXPECT_THAT(run("value_shape=shape[2]", "value_shape=shape[?]"), HasSubstr("'table'"));
  EXPECT_THAT(run("empty = Const() {dtype=int64, value=int64[]{-1}}", "empty = Placeholder() {dtype=int64, shape=shape[]}"), HasSubstr("empty"));
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

}  // namespace
}  // namespace millrace
