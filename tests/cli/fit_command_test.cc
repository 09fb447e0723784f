// fit on real sessions of the null device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "graph/text.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

class FitCommandTest : public testing::Test {
 protected:
  FitCommandTest() {
    environment_.out = &out_;
    environment_.err = &out_;
    environment_.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions options) {
      return Session::Create(std::move(graph), std::move(options));
    };
    options_.input.graph = "graph.pb";
    options_.input.synthetic_feeds = true;
    options_.engine.device = "null";
    options_.strategy.strategy = "baseline";
  }

  // What was found; -1: nothing.
  int64_t Found() const {
    const std::string words = "with baseline: ", text = out_.str();
    const size_t begin = text.find(words) + words.size();
    int64_t number = -1;
    return absl::SimpleAtoi(text.substr(begin, text.find_first_not_of("0123456789", begin) - begin), &number) ? number : -1;
  }

  std::ostringstream out_;
  Environment environment_;
  Options options_;
};

// Which are all but the multiples of four.
TEST_F(FitCommandTest, GoesOverBatchesThatAGraphDoesNotTake) {
  environment_.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[?,8]}
axis = Const() {dtype=int32, value=int32[]{0}}
parts = Split(axis, x) {num_split=4, T=float}
sum = AddN(parts, parts:1, parts:2, parts:3) {N=4, T=float}
)");
  };
  options_.input.fetches = {"sum:0"};
  options_.input.targets = {};
  options_.input.feed_shapes = "x:12x8";
  options_.vary = "batch";
  options_.engine.device_memory = "32KiB";
  const absl::Status status = FitCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  const int64_t largest = Found();
  EXPECT_GT(largest, 12);
  EXPECT_EQ(largest % 4, 0) << largest;
  const auto plan = [&](int64_t batch) {
    options_.input.feed_shapes = absl::StrCat("x:", batch, "x8");
    return PlanCommand(options_, environment_);
  };
  EXPECT_TRUE(plan(largest).ok());
  EXPECT_EQ(ExitStatus(plan(largest + 4)), kExitDoesNotFit);
  // The batch that was given must be one.
  options_.input.feed_shapes = "x:13x8";
  EXPECT_THAT(std::string(FitCommand(options_, environment_).message()), HasSubstr("split"));
}

// The positions are of 20 at most; the other feed is of no batch, and larger.
TEST_F(FitCommandTest, FindsTheLargestBatchThatAGraphTakes) {
  environment_.load_graph = [](const std::string&) {
    return ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[?,8]}
w = Placeholder() {dtype=float, shape=shape[1001]}
positions = Placeholder() {dtype=float, shape=shape[20,8]}
begin = Const() {dtype=int32, value=int32[2]{0, 0}}
size = Shape(x) {T=float, out_type=int32}
part = Slice(positions, begin, size) {T=float, Index=int32}
y = AddV2(x, part) {T=float}
z = Neg(w) {T=float}
)");
  };
  options_.input.fetches = {"y:0", "z:0"};
  options_.input.targets = {};
  options_.vary = "batch";
  options_.engine.device_memory = "1MiB";
  for (const int batch : {12, 19, 20, 1}) {
    out_.str("");
    options_.input.feed_shapes = absl::StrCat("x:", batch, "x8");
    const absl::Status status = FitCommand(options_, environment_);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Found(), 20) << out_.str();
  }
  options_.input.feed_shapes = "x:21x8";
  EXPECT_TRUE(absl::IsInvalidArgument(FitCommand(options_, environment_)));
}

// Sizes of each device have no effect on the search for one.
TEST_F(FitCommandTest, TheSearchForABudgetForgetsThoseThatWereGiven) {
  options_.engine.devices = "2";
  options_.argument = "moe_transformer";
  options_.input.graph.clear();
  options_.model.layers = 2;
  options_.vary = "budget";
  options_.engine.device_memory = "1KiB,1KiB";
  const absl::Status status = FitCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GT(Found(), 1024);
}

TEST_F(FitCommandTest, TellsWhatPassesTookOfWhatItFoundAlone) {
  options_.argument = "mlp";
  options_.input.graph.clear();
  options_.vary = "budget";
  FLAGS_v = 1;
  Logged told(google::GLOG_INFO);
  const absl::Status status = FitCommand(options_, environment_);
  FLAGS_v = 0;
  ASSERT_TRUE(status.ok()) << status;
  std::map<std::string, int> times;  // by pass
  for (const std::string& line : told.lines) {
    if (const size_t took = line.find(" took "); absl::StartsWith(line, "planning: ") && took != std::string::npos) ++times[line.substr(0, took)];
  }
  EXPECT_FALSE(times.empty());
  for (const auto& [pass, logged] : times) EXPECT_EQ(logged, 1) << pass;
}

}  // namespace
}  // namespace millrace::cli
