// Plans that are for the values of feeds: written with them, and run again for them alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "graph/text.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kReshaped[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
dims = Placeholder() {dtype=int32, shape=shape[2]}
y = Reshape(x, dims) {T=float, Tshape=int32}
)";

struct Files {
  std::vector<int32_t> dims;  // in the file of feeds
  ExecutionPlan plan;         // in that of the plan
};

Environment EnvironmentOf(Files& files, std::ostringstream& out) {
  Environment environment;
  environment.out = environment.err = &out;
  environment.load_graph = [](const std::string&) { return ParseGraphText(kReshaped); };
  environment.load_arrays = [&files](const std::string&) {
    return Arrays{{"x", Tensor(DataType::kFloat, Shape({6}))}, {"dims", Tensor::Vector<int32_t>(files.dims)}};
  };
  environment.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions session) { return Session::Create(std::move(graph), std::move(session)); };
  environment.load_plan = [&files](const std::string&) { return files.plan; };
  environment.save_plan = [&files](const ExecutionPlan& plan, const std::string&) {
    files.plan = plan;
    return absl::OkStatus();
  };
  return environment;
}

TEST(PlanByValue, IsWrittenWithItsValuesAndRunForThem) {
  Files files{.dims = {2, 3}};
  std::ostringstream out;
  const Environment environment = EnvironmentOf(files, out);
  Options options;
  options.input.graph = "graph.pb";
  options.input.feeds = "feeds.npz";
  options.input.fetches = {"y:0"};
  options.strategy.strategy = "baseline";
  const fs::path folder = fs::path(testing::TempDir()) / absl::StrCat("plan_by_value_", getpid());
  fs::create_directories(folder);
  options.plan_out = (folder / "plan.pb").string();
  Logged logged(google::GLOG_INFO);
  const absl::Status planned = PlanCommand(options, environment);
  fs::remove_all(folder);
  ASSERT_TRUE(planned.ok()) << planned;
  const char* const told = "/plan.pb is for these values of the feeds dims:0, which it holds: a run ends at the first step that has others";
  EXPECT_THAT(logged.lines, Contains(EndsWith(told)));

  options.input.plan_in = "plan.pb";
  options.plan_out.clear();
  const absl::Status ran = RunCommand(options, environment);
  EXPECT_TRUE(ran.ok()) << ran;
  files.dims = {3, 2};
  EXPECT_THAT(std::string(RunCommand(options, environment).message()),
              HasSubstr("for another step: feed 'dims:0': element 0 is 2 in it, here 3"));
}

TEST(PlanByValue, IsToldOfWhereItIsReadBack) {
  Files files;
  std::ostringstream out;
  const Environment environment = EnvironmentOf(files, out);
  const std::string folder = testing::TempDir();
  const auto told = [&](const ExecutionPlan& plan, const std::string& name) {
    Logged logged(google::GLOG_INFO);
    const std::string path = (fs::path(folder) / absl::StrCat("told_", getpid(), name)).string();
    const absl::Status written = WritePlan(plan, path, environment);
    EXPECT_TRUE(written.ok()) << written;
    fs::remove(path);
    return logged.lines;
  };
  ExecutionPlan plan;
  EXPECT_THAT(told(plan, ".pb"), IsEmpty());
  plan.answers["loop turn 1"] = Tensor::Scalar<bool>(true);
  EXPECT_THAT(told(plan, ".pbtxt"), Contains(HasSubstr(" is for what this step computes, which it holds")));
  EXPECT_THAT(told(plan, ".txt"), IsEmpty());
  plan.feed_values["a:0"] = plan.feed_values["b:0"] = Tensor::Scalar<int32_t>(1);
  EXPECT_THAT(told(plan, ".pb"), Contains(HasSubstr(" is for these values of the feeds a:0, b:0 and what this step computes, which it holds")));
}

}  // namespace
}  // namespace millrace::cli
