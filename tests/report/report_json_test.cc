
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "millrace/proto/report.pb.h"
#include "millrace/report.h"
#include "report/json.h"

namespace millrace {
namespace {

Report FullReport() {
  Report report;
  report.graph = {.nodes = 7016, .edges = 9000, .parameter_bytes = 102228128, .largest_node = "conv\"1\"",
                  .largest_node_bytes = 9007199254740993};
  report.machine.name = "titanx";
  RunReport run;
  run.strategy = "tensorflowmem";
  run.partition_size = 20;
  run.partitions = 55;
  run.plan_seconds = 0.125;
  run.passes = {{"storage", 0.0625, 3}};
  run.device_memory_budget_bytes = int64_t{1} << 30;
  run.step_seconds = {0.1, 0.2};
  run.losses = {2.497148036956787, std::numeric_limits<double>::quiet_NaN()};
  run.variables_digest = "00ff";
  run.device_context_bytes = 300;
  run.devices = {{.name = "cuda:0", .context_bytes = 300}};
  report.runs.push_back(run);
  RunReport refused;
  refused.strategy = "baseline";
  refused.status = absl::ResourceExhaustedError("node f3_grad alone needs 48 B");
  refused.changed_variables = {"a", "b"};
  report.runs.push_back(refused);
  return report;
}

TEST(ReportJsonTest, ProtobufReadsItBack) {
  proto::Report message;
  const auto parsed = google::protobuf::util::JsonStringToMessage(ReportToJson(FullReport()), &message);
  ASSERT_TRUE(parsed.ok()) << parsed.ToString();
  EXPECT_EQ(message.graph().largest_node(), "conv\"1\"");
  EXPECT_EQ(message.graph().parameter_bytes(), 102228128);
  EXPECT_EQ(message.machine().name(), "titanx");
  ASSERT_EQ(message.runs_size(), 2);
  const proto::ReportRun& run = message.runs(0);
  EXPECT_EQ(run.status(), "OK");
  EXPECT_EQ(run.error(), "");
  EXPECT_EQ(run.partitions(), 55);
  ASSERT_EQ(run.passes_size(), 1);
  EXPECT_EQ(run.passes(0).name(), "storage");
  EXPECT_EQ(run.passes(0).seconds(), 0.0625);
  EXPECT_EQ(run.passes(0).runs(), 3);
  EXPECT_EQ(run.device_memory_budget_bytes(), int64_t{1} << 30);
  ASSERT_EQ(run.step_seconds_size(), 2);
  EXPECT_EQ(run.step_seconds(0), 0.1);
  EXPECT_EQ(run.losses(0), 2.497148036956787);
  EXPECT_TRUE(std::isnan(run.losses(1)));
  EXPECT_EQ(run.variables_digest(), "00ff");
  EXPECT_EQ(run.device_context_bytes(), 300);
  EXPECT_EQ(run.devices(0).context_bytes(), 300);
  EXPECT_EQ(run.changed_variables_size(), 0);
  ASSERT_EQ(message.runs(1).changed_variables_size(), 2);
  EXPECT_EQ(message.runs(1).changed_variables(1), "b");
  EXPECT_EQ(message.runs(1).status(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(message.runs(1).error(), "node f3_grad alone needs 48 B");
}

TEST(ReportJsonTest, IntegersAreExactNumbersAndAbsentFiguresArePresent) {
  const std::string json = ReportToJson(FullReport());
  EXPECT_NE(json.find("\"largest_node_bytes\": 9007199254740993"), std::string::npos) << json;
  EXPECT_NE(json.find("\"losses\": [2.497148036956787, \"NaN\"]"), std::string::npos) << json;
  EXPECT_NE(json.find("\"swap_outs\": 0"), std::string::npos) << json;
  EXPECT_NE(json.find("\"losses\": []"), std::string::npos) << json;
}

TEST(JsonTest, EscapesWhatJsonForbidsAndReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"");
  EXPECT_EQ(JsonString("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(JsonString("a\xff\xc3"), "\"a\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonString("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
}

TEST(JsonTest, NumbersReadBackExactly) {
  for (double value : {0.1, 1e300, -2.5e-7, 3.0, 1.0 / 3}) {
    EXPECT_EQ(std::stod(JsonNumber(value)), value);
  }
  EXPECT_EQ(JsonNumber(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

}  // namespace
}  // namespace millrace
