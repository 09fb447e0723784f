#include "report/html_page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "plan/plan_text.h"
#include "plan/step_order.h"
#include "report/html_template.h"
#include "report/json.h"
#include "report/memory_series.h"
#include "report/summary.h"
#include "report/text_table.h"

namespace millrace {
namespace {

// Stays shown one by one; what is left is too small or too short to find with a pointer.
constexpr size_t kMostStays = 6000;
constexpr size_t kMostPoints = 4000;
// A lane of more steps shows the longest of them one by one, half as many; a browser opens no page of a million. Others are drawn together
// where they lie in the same column, of which there are half as many, too.
constexpr size_t kMostEvents = 20'000;

// Strings by number, each once.
class Names {
 public:
  int64_t Of(const std::string& name) {
    const auto [it, inserted] = numbers_.emplace(name, static_cast<int64_t>(numbers_.size()));
    if (inserted) absl::StrAppend(&list_, list_.empty() ? "" : ",", JsonString(name));
    return it->second;
  }
  std::string Finish() const { return absl::StrCat("[", list_, "]"); }

 private:
  std::map<std::string, int64_t> numbers_;
  std::string list_;
};

// Microseconds of the page's clock.
std::string Micros(double seconds) { return absl::StrFormat("%.2f", seconds * 1e6); }

// A staircase of at most about kMostPoints points: the most of each column.
std::string SeriesJson(const std::vector<MemoryPoint>& points, double end_seconds) {
  std::string text = "[";
  const double column = std::max(end_seconds, 1e-12) / kMostPoints;
  for (size_t i = 0; i < points.size();) {
    int64_t most = points[i].bytes;
    size_t next = i + 1;
    for (; next < points.size() && points[next].seconds < points[i].seconds + column; ++next) {
      most = std::max(most, points[next].bytes);
    }
    absl::StrAppend(&text, i == 0 ? "" : ",", "[", Micros(points[i].seconds), ",", most, "]");
    i = next;
  }
  return text + "]";
}

class View {
 public:
  View(const RunReport& run, int32_t device, const RunReport* unswapped)
      : run_(run), plan_(*run.plan), device_(device), unswapped_(unswapped),
        measured_(!run.trace.empty()), trace_(measured_ ? run.trace : run.simulated_trace) {
    for (const Lane& lane : plan_.lanes) {
      if (lane.num_steps() > 0) positions_ = std::max(positions_, PositionOf(lane, lane.num_steps() - 1) + 1);
    }
    start_.assign(positions_, 0);
    end_.assign(positions_, 0);
    for (const TraceEvent& event : trace_) {
      const int64_t position = PositionOf(plan_.lanes[event.lane], event.step);
      start_[position] = event.start_seconds;
      end_[position] = event.end_seconds;
    }
  }

  std::string Json() {
    const PlanDevice& device = plan_.devices[device_];
    const std::string lanes = LanesJson();
    const std::string stays = StaysJson();
    const std::string uses = UsesJson();
    std::string text = absl::StrCat(
        "{\"title\":", JsonString(absl::StrCat(run_.strategy, " on ", device.name)), ",\"clock\":",
        JsonString(measured_ ? "measured" : "predicted"), ",\"end\":", Micros(std::max(TraceEnd(run_.trace), TraceEnd(run_.simulated_trace))),
        ",\"budget\":", device.budget_bytes, ",\"arena\":", device.arena_bytes, ",\"stall\":", Micros(run_.stall_seconds),
        ",\"left\":", left_out_, ",\"together\":", drawn_together_, ",\"curves\":[", CurvesJson(), "],\"partitions\":", PartitionsJson(), ",\"lanes\":[", lanes,
        "],\"stays\":[", stays, "],\"uses\":{", uses, "},\"names\":", names_.Finish(), "}");
    return text;
  }

 private:
  std::string CurvesJson() const {
    std::string text;
    const auto add = [&](const char* label, const RunReport& run, const std::vector<TraceEvent>& trace) {
      if (trace.empty() || run.plan == nullptr || device_ >= static_cast<int32_t>(run.plan->devices.size())) return;
      absl::StrAppend(&text, text.empty() ? "" : ",", "{\"label\":", JsonString(label), ",\"points\":",
                      SeriesJson(MemoryOverTime(*run.plan, trace, device_), TraceEnd(trace)), "}");
    };
    add("measured", run_, run_.trace);
    add("predicted", run_, run_.simulated_trace);
    const std::vector<MemoryPoint> host = HostMemoryOverTime(plan_, trace_);
    if (!host.empty()) {
      absl::StrAppend(&text, ",{\"label\":\"host memory\",\"points\":", SeriesJson(host, TraceEnd(trace_)), "}");
    }
    if (unswapped_ != nullptr && unswapped_ != &run_) add("without swapping, predicted", *unswapped_, unswapped_->simulated_trace);
    return text;
  }

  std::string PartitionsJson() const {
    std::string text = "[";
    for (const PartitionSpan& span : PartitionSpans(plan_, trace_, device_)) {
      absl::StrAppend(&text, text.size() == 1 ? "" : ",", "[", Micros(span.when.start_seconds), ",", Micros(span.when.end_seconds),
                      ",", span.partition, "]");
    }
    return text + "]";
  }

  // Per lane its kind and [start, end, name, detail, partition] per event, or of events that are drawn together.
  std::string LanesJson() {
    std::vector<std::vector<const TraceEvent*>> of_lane(plan_.lanes.size());
    for (const TraceEvent& event : trace_) of_lane[event.lane].push_back(&event);
    std::string text;
    for (int32_t l = 0; l < static_cast<int32_t>(plan_.lanes.size()); ++l) {
      const Lane& lane = plan_.lanes[l];
      const bool disk = lane.kind == LaneKind::kToDisk || lane.kind == LaneKind::kFromDisk;  // one for all devices
      if ((lane.device != device_ && !disk) || lane.num_steps() == 0) continue;
      const std::vector<const TraceEvent*>& events = of_lane[l];
      const double least_alone = LeastShownAlone(events);
      std::string shown;
      for (size_t first = 0, end = 0; first < events.size(); first = end) {
        end = EndOfBlock(events, first, least_alone);
        absl::StrAppend(&shown, shown.empty() ? "" : ",", end == first + 1 ? EventJson(lane, *events[first])
                                                                           : TogetherJson(lane, events, first, end));
      }
      absl::StrAppend(&text, text.empty() ? "" : ",", "{\"kind\":", JsonString(LaneKindName(lane.kind)), ",\"events\":[", shown, "]}");
    }
    return text;
  }

  static int32_t PartitionOf(const Lane& lane, const TraceEvent& event) {
    return lane.kind == LaneKind::kCompute ? lane.compute[event.step].partition : lane.copies[event.step].partition;
  }

  std::string EventJson(const Lane& lane, const TraceEvent& event) {
    const std::string detail =
        lane.kind == LaneKind::kCompute ? plan_.instances[lane.compute[event.step].instance].op
                                        : absl::StrCat(lane.copies[event.step].tensor.str(), ", ", FormatBytes(lane.copies[event.step].bytes), ": ",
                                                       lane.copies[event.step].reason.str());
    return absl::StrCat("[", Micros(event.start_seconds), ",", Micros(event.end_seconds), ",",
                        names_.Of(NameOf(plan_, event.lane, event.step)), ",", names_.Of(detail), ",", PartitionOf(lane, event), "]");
  }

  std::string TogetherJson(const Lane& lane, const std::vector<const TraceEvent*>& events, size_t first, size_t end) {
    const TraceEvent &from = *events[first], &to = *events[end - 1];
    drawn_together_ += static_cast<int64_t>(end - first);
    double last = 0;
    for (size_t i = first; i < end; ++i) last = std::max(last, events[i]->end_seconds);
    return absl::StrCat("[", Micros(from.start_seconds), ",", Micros(last), ",",
                        names_.Of(absl::StrCat(end - first, " short steps")), ",",
                        names_.Of(absl::StrCat(NameOf(plan_, from.lane, from.step), " to ", NameOf(plan_, to.lane, to.step))), ",",
                        PartitionOf(lane, from), "]");
  }

  // Seconds that an event takes at least to be shown by itself.
  static double LeastShownAlone(const std::vector<const TraceEvent*>& events) {
    if (events.size() <= kMostEvents) return 0;
    std::vector<double> seconds;
    seconds.reserve(events.size());
    for (const TraceEvent* event : events) seconds.push_back(event->end_seconds - event->start_seconds);
    const auto nth = seconds.begin() + kMostEvents / 2;
    std::nth_element(seconds.begin(), nth, seconds.end(), std::greater<>());
    return std::nextafter(*nth, std::numeric_limits<double>::infinity());  // of equally long ones none
  }

  // Events from `first` on that are drawn together: short ones that end within a column of where it starts.
  size_t EndOfBlock(const std::vector<const TraceEvent*>& events, size_t first, double least_alone) const {
    const double column = 2 * trace_end_ / kMostEvents, start = events[first]->start_seconds;
    const auto is_short = [&](const TraceEvent& event) {
      return event.end_seconds - event.start_seconds < least_alone && event.end_seconds - start < column;
    };
    size_t end = first;
    while (end < events.size() && is_short(*events[end])) ++end;
    return std::max(end, first + 1);
  }

  // [start, end, offset, bytes, tensor, kind, reason] of the stays that fill most of the map.
  std::string StaysJson() {
    std::vector<const Residence*> stays;
    for (const Residence& stay : plan_.residences) {
      if (stay.device == device_ && stay.last < positions_) stays.push_back(&stay);
    }
    const auto area = [&](const Residence* stay) {
      return static_cast<double>(stay->bytes) * (end_[stay->last] - start_[stay->first]);
    };
    std::stable_sort(stays.begin(), stays.end(), [&](auto* a, auto* b) { return area(a) > area(b); });
    left_out_ = stays.size() > kMostStays ? static_cast<int64_t>(stays.size() - kMostStays) : 0;
    stays.resize(std::min(stays.size(), kMostStays));
    std::string text;
    for (const Residence* stay : stays) {
      shown_[stay->tensor] = names_.Of(stay->tensor);
      absl::StrAppend(&text, text.empty() ? "" : ",", "[", Micros(start_[stay->first]), ",", Micros(end_[stay->last]), ",",
                      stay->offset, ",", stay->bytes, ",", names_.Of(stay->tensor), ",", static_cast<int>(stay->kind), ",",
                      names_.Of(stay->reason), "]");
    }
    return text;
  }

  // Per shown tensor, its users in order: [name of the node, time, 1 when it writes].
  std::string UsesJson() {
    std::map<int64_t, std::string> uses;
    for (const StepRef& ref : StepsInOrder(plan_)) {
      const Lane& lane = plan_.lanes[ref.lane];
      if (lane.kind != LaneKind::kCompute || lane.device != device_) continue;
      const ComputeStep& step = lane.compute[ref.index];
      std::map<int32_t, bool> owners;  // and whether it is written
      for (int32_t owner : step.input_owners) {
        if (owner >= 0) owners.emplace(owner, false);
      }
      for (int32_t owner : step.output_owners) {
        if (owner >= 0) owners[owner] = true;
      }
      for (const auto& [owner, writes] : owners) {
        const auto shown = shown_.find(plan_.tensors[owner]);
        if (shown == shown_.end()) continue;
        std::string& list = uses[shown->second];
        absl::StrAppend(&list, list.empty() ? "" : ",", "[", names_.Of(plan_.instances[step.instance].name), ",",
                        Micros(start_[ref.position]), ",", writes ? 1 : 0, "]");
      }
    }
    std::string text;
    for (const auto& [tensor, list] : uses) absl::StrAppend(&text, text.empty() ? "" : ",", "\"", tensor, "\":[", list, "]");
    return text;
  }

  const RunReport& run_;
  const ExecutionPlan& plan_;
  const int32_t device_;
  const RunReport* const unswapped_;
  const bool measured_;
  const std::vector<TraceEvent>& trace_;
  const double trace_end_ = TraceEnd(trace_);
  int64_t positions_ = 0;
  std::vector<double> start_, end_;  // by position
  Names names_;
  std::map<std::string, int64_t> shown_;
  int64_t left_out_ = 0, drawn_together_ = 0;
};

// "</" would end the script that the data is in, and "<!--<script" keep it from ending. JSON has "<" in strings only.
std::string ForScript(const std::string& json) { return absl::StrReplaceAll(json, {{"<", "\\u003c"}}); }

}  // namespace

absl::StatusOr<std::string> HtmlPage(const Report& report, const RunReport* unswapped) {
  std::string views;
  for (const RunReport& run : report.runs) {
    if (run.plan == nullptr || (run.trace.empty() && run.simulated_trace.empty())) continue;
    for (int32_t d = 0; d < static_cast<int32_t>(run.plan->devices.size()); ++d) {
      absl::StrAppend(&views, views.empty() ? "" : ",\n", View(run, d, unswapped).Json());
    }
  }
  if (views.empty()) return absl::FailedPreconditionError("nothing to show: no run got as far as a plan with a trace");
  return absl::StrCat(kHtmlHead, "<script>const summary = ", ForScript(JsonString(GraphLine(report.graph))), ";\nconst views = [\n",
                      ForScript(views), "];\n", kHtmlScript, "</script>\n</body>\n</html>\n");
}

}  // namespace millrace
