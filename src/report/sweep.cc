#include "report/sweep.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "report/axes.h"
#include "report/json.h"
#include "report/summary.h"
#include "report/svg.h"

namespace millrace {
namespace {

constexpr double kPanelWidth = 480;
constexpr double kHeight = 360;
constexpr double kLeftMargin = 72;
constexpr double kTopMargin = 34;
constexpr double kPlotHeight = 270;
constexpr double kLegendLine = 18;

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

bool Ran(const SweepPoint& point) { return point.run.status.ok(); }

std::string SizeLabel(const SweepPoint& point) {
  return point.partition_size == 0 ? "chosen" : absl::StrCat(point.partition_size);
}

// One line of the picture: points of equal name, in order, each over a category of the x axis.
struct Series {
  std::string name;
  std::vector<std::pair<size_t, const RunReport*>> points;
};

struct SweepAxes {
  std::string x_title;
  std::vector<std::string> categories;
  std::vector<Series> series;
};

SweepAxes MakeAxes(const std::vector<SweepPoint>& points) {
  std::set<int64_t> sizes;
  std::set<std::string> budgets;
  for (const SweepPoint& point : points) {
    sizes.insert(point.partition_size);
    budgets.insert(point.budget);
  }
  const bool over_sizes = sizes.size() > 1 || budgets.size() <= 1;
  SweepAxes axes;
  axes.x_title = over_sizes ? "partition size (nodes)" : "device memory budget";
  for (const SweepPoint& point : points) {
    const std::string category = over_sizes ? SizeLabel(point) : point.budget;
    auto x = std::find(axes.categories.begin(), axes.categories.end(), category);
    if (x == axes.categories.end()) x = axes.categories.insert(x, category);
    if (!Ran(point)) continue;
    const size_t index = static_cast<size_t>(x - axes.categories.begin());
    const std::string name =
        over_sizes && budgets.size() > 1 ? absl::StrCat(point.strategy, ", budget ", point.budget) : point.strategy;
    auto series = std::find_if(axes.series.begin(), axes.series.end(), [&](const Series& s) { return s.name == name; });
    if (series == axes.series.end()) series = axes.series.insert(series, Series{name, {}});
    series->points.push_back({index, &point.run});
  }
  return axes;
}

struct Look {
  const char* color;
  const char* dash;
};
constexpr std::array<Look, 7> kLooks = {{{colors::kBlack, ""},
                                         {colors::kBlue, "7 3"},
                                         {colors::kVermillion, ""},
                                         {colors::kGreen, "3 3"},
                                         {colors::kOrange, "9 3 2 3"},
                                         {colors::kPurple, "5 2"},
                                         {colors::kSky, ""}}};

template <typename Value>
void DrawPanel(Svg& svg, const SweepAxes& axes, double left, const std::string& title, bool bytes, Value value) {
  double most = 0;
  for (const Series& series : axes.series) {
    for (const auto& [category, run] : series.points) most = std::max(most, value(*run));
  }
  const double right = left + kPanelWidth - kLeftMargin - 20;
  const double bottom = kTopMargin + kPlotHeight;
  const Scale y{std::max(most * 1.08, 1e-9), bottom, kTopMargin};
  const auto x_of = [&](size_t category) {
    return left + (right - left) * (static_cast<double>(category) + 0.5) / static_cast<double>(axes.categories.size());
  };
  svg.Label({left, kTopMargin - 12}, title, Anchor::kStart, 14, colors::kBlack);
  DrawYAxis(svg, y, bytes ? ByteTicks(y.most) : SecondTicks(y.most), left, right);
  svg.Line({left, bottom}, {right, bottom}, {});
  for (size_t i = 0; i < axes.categories.size(); ++i) {
    svg.Text({x_of(i), bottom + 17}, axes.categories[i], Anchor::kMiddle, 11);
  }
  svg.Text({(left + right) / 2, bottom + 36}, axes.x_title, Anchor::kMiddle, 12);
  for (size_t s = 0; s < axes.series.size(); ++s) {
    const Look& look = kLooks[s % kLooks.size()];
    std::vector<Svg::Point> line;
    for (const auto& [category, run] : axes.series[s].points) line.push_back({x_of(category), y.At(value(*run))});
    svg.Polyline(line, {.color = look.color, .width = 1.6, .dash = look.dash});
    for (const Svg::Point& point : line) svg.Marker(point, static_cast<int>(s), look.color);
  }
}

double PeakBytes(const RunReport& run) {
  return static_cast<double>(run.step_seconds.empty() ? run.predicted_peak_device_bytes : run.peak_device_bytes);
}

// As readers of CSV take it: JSON's words for what is no number, without its quotes.
std::string CsvNumber(double value) { return absl::StrReplaceAll(JsonNumber(value), {{"\"", ""}}); }

}  // namespace

std::string SweepCsv(const std::vector<SweepPoint>& points) {
  std::string csv =
      "strategy,budget,partition_size,status,device_memory_budget_bytes,partitions,swap_outs,swap_ins,"
      "predicted_peak_device_bytes,peak_device_bytes,peak_host_bytes,bytes_to_host,bytes_to_device,"
      "predicted_step_seconds,step_seconds,compute_seconds,stall_seconds,lower_bound_seconds,plan_seconds,loss,"
      "variables_digest\n";
  for (const SweepPoint& point : points) {
    const RunReport& run = point.run;
    std::vector<std::string> fields = {point.strategy, point.budget, absl::StrCat(point.partition_size),
                                       absl::StatusCodeToString(run.status.code()),
                                       absl::StrCat(run.device_memory_budget_bytes)};
    if (Ran(point)) {
      const bool measured = !run.step_seconds.empty();
      const auto when_measured = [&](std::string text) { return measured ? text : ""; };
      for (const int64_t count : {run.partitions, run.swap_outs, run.swap_ins, run.predicted_peak_device_bytes}) {
        fields.push_back(absl::StrCat(count));
      }
      fields.push_back(when_measured(absl::StrCat(run.peak_device_bytes)));
      for (const int64_t bytes : {run.peak_host_bytes, run.bytes_to_host, run.bytes_to_device}) {
        fields.push_back(absl::StrCat(bytes));
      }
      fields.push_back(CsvNumber(run.predicted_step_seconds));
      fields.push_back(when_measured(CsvNumber(TypicalStepSeconds(run))));
      fields.push_back(when_measured(CsvNumber(run.compute_seconds)));
      fields.push_back(when_measured(CsvNumber(run.stall_seconds)));
      fields.push_back(CsvNumber(run.lower_bound_seconds));
      fields.push_back(CsvNumber(run.plan_seconds));
      fields.push_back(run.losses.empty() ? "" : CsvNumber(run.losses.back()));
      fields.push_back(run.variables_digest);
    }
    fields.resize(static_cast<size_t>(std::count(csv.begin(), csv.begin() + static_cast<int64_t>(csv.find('\n')), ',')) + 1);
    for (std::string& field : fields) field = CsvField(field);
    absl::StrAppend(&csv, absl::StrJoin(fields, ","), "\n");
  }
  return csv;
}

absl::StatusOr<std::string> SweepPlot(const std::vector<SweepPoint>& points) {
  const SweepAxes axes = MakeAxes(points);
  if (axes.series.empty()) return absl::FailedPreconditionError("nothing to plot: no point of the sweep ran");
  Svg svg(2 * kPanelWidth, kHeight + kLegendLine * static_cast<double>(axes.series.size()));
  DrawPanel(svg, axes, kLeftMargin, "step time", false, TypicalStepSeconds);
  DrawPanel(svg, axes, kPanelWidth + kLeftMargin, "peak device memory", true, PeakBytes);
  for (size_t s = 0; s < axes.series.size(); ++s) {
    const Look& look = kLooks[s % kLooks.size()];
    const double y = kHeight + kLegendLine * static_cast<double>(s);
    svg.Line({kLeftMargin, y}, {kLeftMargin + 34, y}, {.color = look.color, .width = 1.6, .dash = look.dash});
    svg.Marker({kLeftMargin + 17, y}, static_cast<int>(s), look.color);
    svg.Text({kLeftMargin + 42, y + 4}, axes.series[s].name, Anchor::kStart, 12);
  }
  return svg.Finish();
}

}  // namespace millrace
