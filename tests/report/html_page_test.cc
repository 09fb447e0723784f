// The page as text: its data is JSON with the figures of the run, and it needs nothing from outside. What a person does
// with it is tried in a browser by check_html.sh.
#include "report/html_page.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "example_plan.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The data that the page's script reads.
google::protobuf::Struct Views(const std::string& page) {
  const std::string begin = "const views = [\n";
  const size_t at = page.find(begin), end = page.find("];\n", at);
  EXPECT_NE(at, std::string::npos);
  const std::string json = absl::StrCat("{\"views\": [", page.substr(at + begin.size(), end - at - begin.size()), "]}");
  google::protobuf::Struct views;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &views).ok()) << json;
  return views;
}

TEST(HtmlPageTest, HoldsEveryStayAndCopyWithItsReason) {
  Report report;
  report.runs = {ExampleRun()};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok()) << page.status();
  const auto views = Views(*page);
  ASSERT_EQ(views.fields().at("views").list_value().values_size(), 1);
  const auto& view = views.fields().at("views").list_value().values(0).struct_value().fields();
  EXPECT_EQ(view.at("title").string_value(), "tensorflowmem on cpu:0");
  EXPECT_EQ(view.at("budget").number_value(), 48);
  EXPECT_EQ(view.at("stays").list_value().values_size(), 3);
  EXPECT_EQ(view.at("lanes").list_value().values_size(), 3);
  EXPECT_EQ(view.at("partitions").list_value().values_size(), 3);
  EXPECT_THAT(*page, HasSubstr("h is 3 partitions away"));
}

TEST(HtmlPageTest, EveryKindOfLaneHasAColour) {
  Report report;
  report.runs = {TieredRun()};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok()) << page.status();
  for (const LaneKind kind : {LaneKind::kCompute, LaneKind::kToHost, LaneKind::kToDevice, LaneKind::kToDisk, LaneKind::kFromDisk}) {
    const std::string name(LaneKindName(kind));
    EXPECT_THAT(*page, AllOf(HasSubstr("{\"kind\":\"" + name + "\",\"events\":[["), HasSubstr("'" + name + "': '#")));
  }
}

TEST(HtmlPageTest, NeedsNothingFromOutside) {
  Report report;
  report.runs = {ExampleRun()};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("}) EXPECT_THAT(*page, Not(HasSubstr(outside)));
}

TEST(HtmlPageTest, NamesAreNoMarkup) {
  const char* const names[] = {"</script><b>", "a\"<!--<script>alert(1)</script>", "\\<"};
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  for (int i = 0; i < 3; ++i) plan->residences[i].tensor = names[i];
  run.plan = plan;
  Report report;
  report.runs = {run};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  const size_t begin = page->find("const views = ");
  EXPECT_THAT(page->substr(begin, page->find("];\n", begin) - begin), Not(HasSubstr("<")));
  EXPECT_THAT(*page, AllOf(Not(HasSubstr("<!--")), Not(HasSubstr("</script><b>"))));
  const auto view = Views(*page).fields().at("views").list_value().values(0).struct_value().fields();
  std::vector<std::string> read;
  for (const auto& name : view.at("names").list_value().values()) read.push_back(name.string_value());
  for (const char* name : names) EXPECT_THAT(read, testing::Contains(name));
}

TEST(HtmlPageTest, ManySmallTensorsAreLeftOutAndCounted) {
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  for (int i = 0; i < 20000; ++i) plan->residences.push_back({.tensor = absl::StrCat("small", i), .bytes = 1, .first = 0, .last = 1});
  run.plan = plan;
  Report report;
  report.runs = {run};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  EXPECT_LT(page->size(), 1 << 20);
  const auto view = Views(*page).fields().at("views").list_value().values(0).struct_value().fields();
  EXPECT_EQ(view.at("stays").list_value().values_size() + view.at("left").number_value(), 20003);
}

// What a step list of a view shows: events by themselves, and how many are in blocks.
struct ShownEvents {
  int64_t alone = 0, in_blocks = 0, blocks = 0;
};

ShownEvents CountEvents(const google::protobuf::Value& view, int lane) {
  const auto& fields = view.struct_value().fields();
  const auto& names = fields.at("names").list_value();
  ShownEvents shown;
  for (const auto& event : fields.at("lanes").list_value().values(lane).struct_value().fields().at("events").list_value().values()) {
    const std::string& name = names.values(static_cast<int>(event.list_value().values(2).number_value())).string_value();
    int64_t together = 0;
    if (name.ends_with(" short steps") && absl::SimpleAtoi(name.substr(0, name.find(' ')), &together)) {
      ++shown.blocks;
      shown.in_blocks += together;
    } else {
      ++shown.alone;
    }
  }
  return shown;
}

// The example's compute lane with `count` steps of a microsecond, but for every thousandth, which takes a millisecond.
RunReport RunOfManySteps(int64_t count) {
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  Lane& compute = plan->lanes[0];
  const int32_t instance = static_cast<int32_t>(plan->instances.size());
  plan->instances.push_back(ExampleInstance("many", "Relu"));
  double now = 5;
  for (int64_t i = 0; i < count; ++i) {
    const double seconds = i % 1000 == 0 ? 1e-3 : 1e-6;
    run.simulated_trace.push_back({.lane = 0, .step = compute.num_steps(), .start_seconds = now, .end_seconds = now + seconds});
    compute.compute.push_back(ExampleCompute(instance, 2, 5 + i));
    now += seconds;
  }
  run.trace.clear();
  run.plan = plan;
  return run;
}

TEST(HtmlPageTest, ManyShortStepsAreDrawnTogetherAndLongOnesAlone) {
  constexpr int64_t kSteps = 200'000;
  Report report;
  report.runs = {RunOfManySteps(kSteps)};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  EXPECT_LT(page->size(), 3 << 20);  // 16 MB of one by one
  const auto view = Views(*page).fields().at("views").list_value().values(0);
  const ShownEvents shown = CountEvents(view, 0);
  EXPECT_EQ(shown.alone + shown.in_blocks, kSteps + 3);
  EXPECT_GE(shown.alone, kSteps / 1000);
  EXPECT_LE(shown.alone + shown.blocks, 30'000);
  EXPECT_EQ(view.struct_value().fields().at("together").number_value(), static_cast<double>(shown.in_blocks));
}

TEST(HtmlPageTest, SomeThousandStepsAreAllDrawnAlone) {
  constexpr int64_t kSteps = 15'000;
  Report report;
  report.runs = {RunOfManySteps(kSteps)};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  const auto view = Views(*page).fields().at("views").list_value().values(0);
  const ShownEvents shown = CountEvents(view, 0);
  EXPECT_EQ(shown.alone, kSteps + 3);
  EXPECT_EQ(shown.blocks, 0);
}

TEST(HtmlPageTest, SaysThatThereIsNothingToShow) {
  EXPECT_FALSE(HtmlPage(Report(), nullptr).ok());
}

}  // namespace
}  // namespace millrace
