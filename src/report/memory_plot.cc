#include "report/memory_plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "report/axes.h"
#include "report/memory_series.h"
#include "report/summary.h"
#include "report/svg.h"
#include "report/text_table.h"

namespace millrace {
namespace {

constexpr double kWidth = 1000;
constexpr double kLeft = 92;
constexpr double kRight = 980;
constexpr double kTop = 12;
constexpr double kTitleHeight = 46;   // title and legend
constexpr double kMemoryHeight = 240;
constexpr double kLaneHeight = 16;
constexpr double kLaneGap = 5;
constexpr int kLaneRows = 5, kDiskRows = 2;
constexpr double kAxisHeight = 40;
// Partition boundaries closer than this in the mean would hide the curves: then only their row shows them.
constexpr double kBoundaryPixels = 12;

using Ranges = std::vector<std::pair<double, double>>;

struct Curve {
  std::string label;
  Stroke stroke;
  std::vector<MemoryPoint> points;
  double end_seconds = 0;
};

struct Panel {
  const RunReport* run = nullptr;
  int32_t device = 0;
  std::vector<Curve> curves;  // back to front

  int rows() const { return kLaneRows + (run->plan->tiered ? kDiskRows : 0); }
  double lanes_height() const { return rows() * (kLaneHeight + kLaneGap); }
  double height() const { return kTitleHeight + kMemoryHeight + 10 + lanes_height() + kAxisHeight; }
};

// The disk is one for all devices.
bool IsOfDisk(LaneKind kind) { return kind == LaneKind::kToDisk || kind == LaneKind::kFromDisk; }

// A staircase, thinned to what a quarter of a pixel shows: first, least, most and last of each column.
std::vector<Svg::Point> Staircase(const Curve& curve, const Scale& x, const Scale& y) {
  constexpr double kColumnsPerPixel = 4;
  std::vector<Svg::Point> out;
  const auto& points = curve.points;
  double level = y.At(0);
  for (size_t i = 0; i < points.size();) {
    const auto column = [&](size_t k) { return std::floor(x.At(points[k].seconds) * kColumnsPerPixel); };
    const double at = x.At(points[i].seconds);
    int64_t least = points[i].bytes, most = points[i].bytes;
    size_t next = i + 1;
    for (; next < points.size() && column(next) == column(i); ++next) {
      least = std::min(least, points[next].bytes);
      most = std::max(most, points[next].bytes);
    }
    out.push_back({at, level});
    if (next - i > 1) {
      out.push_back({at, y.At(static_cast<double>(most))});
      out.push_back({at, y.At(static_cast<double>(least))});
    }
    level = y.At(static_cast<double>(points[next - 1].bytes));
    out.push_back({at, level});
    i = next;
  }
  out.push_back({x.At(curve.end_seconds), level});
  return out;
}

// Intervals as pixel ranges, neighbours closer than a third of a pixel joined, none thinner than that.
Ranges PixelRanges(std::vector<Interval> intervals, const Scale& x) {
  constexpr double kJoin = 0.34;
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start_seconds < b.start_seconds; });
  Ranges ranges;
  for (const Interval& interval : intervals) {
    const double from = x.At(interval.start_seconds);
    const double to = std::max(x.At(interval.end_seconds), from + kJoin);
    if (!ranges.empty() && from <= ranges.back().second + kJoin) {
      ranges.back().second = std::max(ranges.back().second, to);
    } else {
      ranges.push_back({from, to});
    }
  }
  return ranges;
}

const std::vector<TraceEvent>& BestTrace(const RunReport& run) {
  return run.trace.empty() ? run.simulated_trace : run.trace;
}

Curve MakeCurve(std::string label, const Stroke& stroke, const ExecutionPlan& plan, const std::vector<TraceEvent>& trace,
                int32_t device) {
  return {std::move(label), stroke, MemoryOverTime(plan, trace, device), TraceEnd(trace)};
}

std::vector<Panel> MakePanels(const Report& report, const RunReport* unswapped) {
  std::vector<Panel> panels;
  for (const RunReport& run : report.runs) {
    if (run.plan == nullptr || BestTrace(run).empty()) continue;
    for (int32_t device = 0; device < static_cast<int32_t>(run.plan->devices.size()); ++device) {
      Panel panel{&run, device, {}};
      if (unswapped != nullptr && unswapped->plan != nullptr && unswapped != &run && !BestTrace(*unswapped).empty() &&
          device < static_cast<int32_t>(unswapped->plan->devices.size())) {
        panel.curves.push_back(MakeCurve(absl::StrCat("without swapping (", unswapped->strategy, ", ",
                                                      unswapped->trace.empty() ? "predicted)" : "measured)"),
                                         {.color = colors::kOrange, .width = 1.5}, *unswapped->plan,
                                         BestTrace(*unswapped), device));
      }
      if (!run.trace.empty()) {
        panel.curves.push_back(MakeCurve("measured", {.color = colors::kBlue, .width = 1.8}, *run.plan, run.trace, device));
      }
      if (!run.simulated_trace.empty()) {
        panel.curves.push_back(MakeCurve("predicted", {.color = colors::kBlack, .width = 1.2, .dash = "5 3"}, *run.plan,
                                         run.simulated_trace, device));
      }
      std::vector<MemoryPoint> host = HostMemoryOverTime(*run.plan, BestTrace(run));
      if (!host.empty()) {
        panel.curves.push_back({run.trace.empty() ? "host memory (predicted)" : "host memory",
                                {.color = colors::kGreen, .width = 1.4, .dash = "1 2"}, std::move(host), TraceEnd(BestTrace(run))});
      }
      panels.push_back(std::move(panel));
    }
  }
  return panels;
}

void DrawTitleAndLegend(Svg& svg, const Panel& panel, double top) {
  const RunReport& run = *panel.run;
  int64_t to_host = 0, to_device = 0;
  for (const Lane& lane : run.plan->lanes) {
    if (lane.device != panel.device) continue;
    for (const CopyStep& copy : lane.copies) {
      if (lane.kind == LaneKind::kToHost) to_host += copy.bytes;
      if (lane.kind == LaneKind::kToDevice) to_device += copy.bytes;
    }
  }
  if (run.plan->devices.size() == 1) std::tie(to_host, to_device) = std::tie(run.bytes_to_host, run.bytes_to_device);
  std::string title = absl::StrCat(run.strategy, " on ", run.plan->devices[panel.device].name, ": median step ",
                                   FormatSeconds(TypicalStepSeconds(run)), ", ", FormatCount(run.partitions),
                                   run.partitions == 1 ? " partition, per step " : " partitions, per step ",
                                   FormatBytes(to_host), " to host and ", FormatBytes(to_device),
                                   " to device");
  // A bold letter is about 0.62 of its size wide.
  const double fitting = (kRight - kLeft) / (0.62 * static_cast<double>(title.size()));
  svg.Label({kLeft, top + 14}, title, Anchor::kStart, std::min(14.0, fitting), colors::kBlack);
  double x = kLeft;
  const auto legend = [&](const std::string& label, const Stroke& stroke) {
    svg.Line({x, top + 31}, {x + 26, top + 31}, stroke);
    svg.Text({x + 32, top + 35}, label, Anchor::kStart, 12);
    x += 52 + 6.6 * static_cast<double>(label.size());
  };
  for (const Curve& curve : panel.curves) legend(curve.label, curve.stroke);
}

void DrawMemory(Svg& svg, const Panel& panel, const Scale& x, const Scale& y) {
  DrawYAxis(svg, y, ByteTicks(y.most), kLeft, kRight);
  for (const Curve& curve : panel.curves) {
    std::vector<Svg::Point> line = Staircase(curve, x, y);
    if (curve.stroke.color == std::string_view(colors::kOrange)) {
      std::vector<Svg::Point> area = line;
      area.push_back({area.back().first, y.At(0)});
      area.push_back({area.front().first, y.At(0)});
      svg.Area(area, colors::kOrange, 0.18);
    }
    svg.Polyline(line, curve.stroke);
  }
  const int64_t budget = panel.run->plan->devices[panel.device].budget_bytes;
  if (budget == 0) return;
  const bool above = static_cast<double>(budget) > y.most;
  const double at = above ? y.end + 14 : y.At(static_cast<double>(budget));
  if (!above) svg.Line({kLeft, at}, {kRight, at}, {.color = colors::kVermillion, .width = 1.6, .dash = "9 3 2 3"});
  svg.Label({kRight, at - 4}, absl::StrCat("budget ", FormatBytes(budget), above ? ", above this picture" : ""),
            Anchor::kEnd, 12, colors::kVermillion);
}

// One row below the memory: its name and what happened when.
void DrawRow(Svg& svg, int row, double top, const char* name, const Ranges& ranges, const char* color) {
  const double y = top + row * (kLaneHeight + kLaneGap);
  svg.Text({kLeft - 6, y + 12}, name, Anchor::kEnd, 11);
  svg.Rect(kLeft, y, kRight - kLeft, kLaneHeight, "#F4F4F4");
  svg.Rects(ranges, y, kLaneHeight, color);
}

void DrawPartitions(Svg& svg, const std::vector<PartitionSpan>& spans, const Scale& x, double memory_top, double top) {
  std::vector<Interval> odd;
  const bool boundaries =
      !spans.empty() && x.At(spans.back().when.end_seconds) - kLeft > kBoundaryPixels * static_cast<double>(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i % 2 == 1) odd.push_back(spans[i].when);
    if (boundaries && i > 0) {
      const double at = x.At(spans[i].when.start_seconds);
      svg.Line({at, memory_top}, {at, memory_top + kMemoryHeight}, {.color = colors::kPale, .dash = "2 3"});
    }
  }
  DrawRow(svg, 0, top, "partitions", PixelRanges(odd, x), colors::kGrey);
}

void DrawLanes(Svg& svg, const Panel& panel, const Scale& x, double top) {
  const RunReport& run = *panel.run;
  const std::vector<TraceEvent>& trace = BestTrace(run);
  std::map<LaneKind, std::vector<Interval>> by_kind;
  for (const TraceEvent& event : trace) {
    const Lane& lane = run.plan->lanes[event.lane];
    if (lane.device != panel.device && !IsOfDisk(lane.kind)) continue;
    by_kind[lane.kind].push_back({event.start_seconds, event.end_seconds});
  }
  const auto ranges = [&](LaneKind kind) { return PixelRanges(by_kind[kind], x); };
  DrawRow(svg, 1, top, "compute", ranges(LaneKind::kCompute), colors::kSky);
  // Waits thinner than a tenth of a pixel would add up to a solid bar that is not there.
  std::vector<Interval> stalls = StallsOf(*run.plan, trace, panel.device);
  const double shortest = 0.1 * x.most / (x.end - x.begin);
  std::erase_if(stalls, [&](const Interval& stall) { return stall.end_seconds - stall.start_seconds < shortest; });
  DrawRow(svg, 2, top, "stalls", PixelRanges(stalls, x), colors::kVermillion);
  DrawRow(svg, 3, top, "to host", ranges(LaneKind::kToHost), colors::kGreen);
  DrawRow(svg, 4, top, "to device", ranges(LaneKind::kToDevice), colors::kPurple);
  if (!run.plan->tiered) return;
  DrawRow(svg, 5, top, "to disk", ranges(LaneKind::kToDisk), colors::kBlue);
  DrawRow(svg, 6, top, "from disk", ranges(LaneKind::kFromDisk), colors::kOrange);
}

}  // namespace

absl::StatusOr<std::string> MemoryPlot(const Report& report, const RunReport* unswapped) {
  const std::vector<Panel> panels = MakePanels(report, unswapped);
  if (panels.empty()) return absl::FailedPreconditionError("nothing to plot: no run got as far as a plan with a trace");
  double height = kTop;
  for (const Panel& panel : panels) height += panel.height();
  Svg svg(kWidth, height);
  double end_seconds = 0, most_bytes = 0;
  for (const Panel& panel : panels) {
    for (const Curve& curve : panel.curves) {
      end_seconds = std::max(end_seconds, curve.end_seconds);
      for (const MemoryPoint& point : curve.points) most_bytes = std::max(most_bytes, static_cast<double>(point.bytes));
    }
  }
  // A budget far above all curves would flatten them.
  for (const Panel& panel : panels) {
    const auto budget = static_cast<double>(panel.run->plan->devices[panel.device].budget_bytes);
    if (budget <= 2 * most_bytes) most_bytes = std::max(most_bytes, budget);
  }
  double top = kTop;
  const Scale x{std::max(end_seconds, 1e-9), kLeft, kRight};
  for (const Panel& panel : panels) {
    const double memory_top = top + kTitleHeight;
    const double lanes_top = memory_top + kMemoryHeight + 10;
    const double bottom = lanes_top + panel.lanes_height();
    DrawTitleAndLegend(svg, panel, top);
    DrawPartitions(svg, PartitionSpans(*panel.run->plan, BestTrace(*panel.run), panel.device), x, memory_top, lanes_top);
    DrawMemory(svg, panel, x, {std::max(most_bytes * 1.06, 1.0), memory_top + kMemoryHeight, memory_top});
    DrawLanes(svg, panel, x, lanes_top);
    DrawXAxis(svg, x, SecondTicks(x.most), bottom);
    top += panel.height();
  }
  return svg.Finish();
}

}  // namespace millrace
