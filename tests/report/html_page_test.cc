// The page as text: its data is JSON with the figures of the run, and it needs nothing from outside. What a person does
// with it is tried in a browser by check_html.sh.
#include "report/html_page.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "example_plan.h"

namespace millrace {
namespace {

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

TEST(HtmlPageTest, NeedsNothingFromOutside) {
  Report report;
  report.runs = {ExampleRun()};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("}) EXPECT_THAT(*page, Not(HasSubstr(outside)));
}

TEST(HtmlPageTest, NamesCannotEndTheScript) {
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  plan->residences[0].tensor = "</script><b>";
  run.plan = plan;
  Report report;
  report.runs = {run};
  const auto page = HtmlPage(report, nullptr);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(*page, Not(HasSubstr("</script><b>")));
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

TEST(HtmlPageTest, SaysThatThereIsNothingToShow) {
  EXPECT_FALSE(HtmlPage(Report(), nullptr).ok());
}

}  // namespace
}  // namespace millrace
