#include "cli/checkpoint_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/variable_files.h"
#include "cli/workload.h"
#include "fake_session.h"
#include "graph/text.h"

namespace millrace::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

constexpr char kTables[] = R"(
hash = MutableHashTableV2() {key_dtype=int64, value_dtype=float, shared_name="counts"}
empty = Const() {dtype=int64, value=int64[]{-1}}
deleted = Const() {dtype=int64, value=int64[]{-2}}
dense = MutableDenseHashTableV2(empty, deleted) {key_dtype=int64, value_dtype=float, value_shape=shape[2]}
words = MutableHashTableV2() {key_dtype=string, value_dtype=int64}
)";

std::map<std::string, CheckpointTable> Tables() { return CheckpointTables(*ParseGraphText(kTables), {{"counts", {"k", "v"}}}, true); }

std::vector<int64_t> Elements(const Tensor& tensor) { return {tensor.as<int64_t>().begin(), tensor.as<int64_t>().end()}; }

TEST(CheckpointTables, GoByTheSaversNamesElseByTheirOwn) {
  const std::map<std::string, CheckpointTable> tables = Tables();
  ASSERT_THAT(tables, ElementsAre(Key("counts/table"), Key("dense/table")));
  EXPECT_EQ(tables.at("counts/table").saved.keys, "k");
  EXPECT_EQ(tables.at("dense/table").saved.values, "dense-values");
  EXPECT_THAT(CheckpointTables(*ParseGraphText(kTables), {{"counts", {"k", "v"}}}, false), ElementsAre(Key("counts/table")));
}

TEST(CheckpointTables, WhatIsReadIsWrittenAgain) {
  const CheckpointTable table = Tables().at("counts/table");
  const Tensor keys = Tensor::Vector<int64_t>({1, 2}), values = Tensor::Vector<float>({10, 20});
  const absl::StatusOr<Tensor> bytes = TableFrom(table, keys, values);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto exported = KeysAndValues(table, *bytes);
  ASSERT_TRUE(exported.ok()) << exported.status();
  ASSERT_THAT(Elements(exported->first), testing::UnorderedElementsAre(1, 2));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(exported->second.DoubleAt(i), 10 * exported->first.DoubleAt(i));
  EXPECT_EQ(KeysAndValues(table, EmptyTable(table))->first.type().ToString(), "int64[0]");
  EXPECT_EQ(std::string(TableFrom(table, Tensor::Vector<int64_t>({1}), values).status().message()),
            "table 'counts': keys are int64[1] and values float[2], expected int64[1] and float[1]");
  EXPECT_THAT(std::string(KeysAndValues(table, keys).status().message()), HasSubstr("expected the bytes of a table"));
}

// TensorFlow exports all their buckets, as matrices.
TEST(CheckpointTables, DenseOnesKeepTheirBuckets) {
  const CheckpointTable table = Tables().at("dense/table");
  const Tensor keys = Tensor::Vector<int64_t>({-1, 9, -2, -1, -1, 5, -1, -1}).Reshaped(Shape({8, 1}));
  const Tensor values = Tensor::Vector<float>({0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0}).Reshaped(Shape({8, 2}));
  const absl::StatusOr<Tensor> bytes = TableFrom(table, keys, values);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto exported = KeysAndValues(table, *bytes);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(Elements(exported->first), ElementsAre(-1, 9, -1, -1, -1, 5, -1, -1));
  EXPECT_EQ(exported->first.shape(), keys.shape());
  EXPECT_EQ(exported->second.DoubleAt(3), 2);
  EXPECT_EQ(exported->second.DoubleAt(11), 4);
}

TEST(CheckpointTables, CheckpointsHoldWhatTensorFlowRestores) {
  FakeWorld world;
  world.environment.load_graph = [](const std::string&) { return ParseGraphText(kTables); };
  const Tensor keys = Tensor::Vector<int64_t>({7}), values = Tensor::Vector<float>({70});
  world.saved["in"] = {{"hash-keys", keys}, {"hash-values", values}};
  const InputOptions input{.graph = "graph.pb", .checkpoint_in = "in", .targets = {"train"}};
  const absl::StatusOr<Workload> workload = LoadWorkload(input, FeedValues::kTypesOnly, world.environment);
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_THAT(workload->initial_values, ElementsAre(Key("counts/table")));
  const absl::StatusOr<Tensor> bytes = workload->initial_values.at("counts/table")();
  ASSERT_TRUE(bytes.ok()) << bytes.status();

  const OutputOptions output{.checkpoint_out = testing::TempDir() + "/tables_out"};
  VariableFiles files(output, *workload, world.environment);
  files.Add("counts/table", *bytes);
  ASSERT_TRUE(files.Finish({}).ok());
  const Arrays& saved = world.saved[output.checkpoint_out];
  EXPECT_THAT(saved, ElementsAre(Key("counts/table"), Key("dense-keys"), Key("dense-values"), Key("hash-keys"), Key("hash-values")));
  EXPECT_TRUE(saved.at("hash-keys").BitEqual(keys));
  EXPECT_TRUE(saved.at("hash-values").BitEqual(values));
}

}  // namespace
}  // namespace millrace::cli
