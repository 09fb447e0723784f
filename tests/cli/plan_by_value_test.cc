// Plans that are for the values of feeds, which --plan_in does not take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/train.h"
#include "graph/text.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kReshaped[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
dims = Placeholder() {dtype=int32, shape=shape[2]}
y = Reshape(x, dims) {T=float, Tshape=int32}
z = Relu(x) {T=float}
)";

// As many turns as the variable says.
constexpr char kLoop[] = R"(
function more
  n = _Arg() {T=int32, index=0}
  zero = Const() {dtype=int32, value=int32[]{0}}
  left = Greater(n, zero) {T=int32}
  r = _Retval(left) {T=bool, index=0}
end
function turn
  n = _Arg() {T=int32, index=0}
  one = Const() {dtype=int32, value=int32[]{1}}
  less = Sub(n, one) {T=int32}
  r = _Retval(less) {T=int32, index=0}
end
turns = VarHandleOp() {dtype=int32, shape=shape[], shared_name="turns"}
read = ReadVariableOp(turns) {dtype=int32}
y = While(read) {T=[int32], cond=&more, body=&turn}
)";

std::vector<std::string> Warnings(const std::string& plan_out, const std::string& fetch) {
  std::ostringstream out;
  Environment environment;
  environment.out = environment.err = &out;
  environment.load_graph = [](const std::string&) { return ParseGraphText(kReshaped); };
  environment.load_arrays = [](const std::string&) {
    return Arrays{{"x", Tensor(DataType::kFloat, Shape({6}))}, {"dims", Tensor::Vector<int32_t>({2, 3})}};
  };
  environment.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions session) {
    EXPECT_TRUE(session.cancelled) << "planning that cannot be interrupted";
    return Session::Create(std::move(graph), std::move(session));
  };
  environment.save_plan = [](const ExecutionPlan&, const std::string&) { return absl::OkStatus(); };
  Options options;
  options.input.graph = "graph.pb";
  options.input.feeds = "feeds.npz";
  options.input.fetches = {fetch};
  options.engine.device = "null";
  options.strategy.strategy = "baseline";
  const fs::path folder = fs::path(testing::TempDir()) / absl::StrCat("plan_by_value_", getpid());
  fs::create_directories(folder);
  options.plan_out = (folder / plan_out).string();
  Logged told(google::GLOG_WARNING);
  const absl::Status status = PlanCommand(options, environment);
  EXPECT_TRUE(status.ok()) << status;
  fs::remove_all(folder);
  return told.lines;
}

TEST(PlanByValue, IsWarnedOfWhenItIsWrittenToBeReadAgain) {
  EXPECT_THAT(Warnings("plan.pb", "y:0"), testing::ElementsAre(testing::AllOf(
                                              testing::HasSubstr("plan.pb: --plan_in will not take this plan, which is for these values of the feeds dims:0"),
                                              testing::HasSubstr("'y' (Reshape)"))));
  EXPECT_THAT(Warnings("plan.txt", "y:0"), testing::IsEmpty());
  EXPECT_THAT(Warnings("plan.pb", "z:0"), testing::IsEmpty());
}

TEST(PlanByValue, OfWhatTheStepComputesIsWarnedOf) {
  Environment environment;
  environment.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions session) { return Session::Create(std::move(graph), std::move(session)); };
  absl::StatusOr<Graph> graph = ParseGraphText(kLoop);
  ASSERT_TRUE(graph.ok()) << graph.status();
  Workload workload;
  workload.graph = std::make_shared<const Graph>(*std::move(graph));
  workload.fetches = {"y:0"};
  Logged told(google::GLOG_WARNING);
  WarnOfPlanByValue("plan.pb", workload, SessionOptions(), environment);
  EXPECT_THAT(told.lines, testing::ElementsAre(testing::HasSubstr("plan.pb: --plan_in will not take this plan, which is for what this step computes (")));
}

}  // namespace
}  // namespace millrace::cli
