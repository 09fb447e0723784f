#include "report/chrome_trace.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "plan/plan_text.h"
#include "plan/step_order.h"
#include "report/json.h"
#include "report/memory_series.h"

namespace millrace {
namespace {

constexpr double kMicroseconds = 1e6;

// The trace's events, one a line.
class TraceWriter {
 public:
  void Name(const char* what, int process, int thread, const std::string& name) {
    Event(absl::StrCat("\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", process, ",\"tid\":", thread,
                       ",\"args\":{\"name\":", JsonString(name), "}"));
  }
  void SortIndex(int process, int thread, int index) {
    Event(absl::StrCat("\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":", process, ",\"tid\":", thread,
                       ",\"args\":{\"sort_index\":", index, "}"));
  }
  void Span(int process, int thread, double start_seconds, double end_seconds, const std::string& name,
            const std::string& category, const std::string& args) {
    Event(absl::StrCat("\"ph\":\"X\",\"name\":", JsonString(name), ",\"cat\":", JsonString(category), ",\"pid\":", process,
                       ",\"tid\":", thread, ",\"ts\":", JsonNumber(start_seconds * kMicroseconds),
                       ",\"dur\":", JsonNumber((end_seconds - start_seconds) * kMicroseconds), ",\"args\":{", args, "}"));
  }
  void Counter(int process, double seconds, const std::string& name, int64_t bytes) {
    Event(absl::StrCat("\"ph\":\"C\",\"name\":", JsonString(name), ",\"pid\":", process,
                       ",\"ts\":", JsonNumber(seconds * kMicroseconds), ",\"args\":{\"bytes\":", bytes, "}"));
  }
  std::string Finish() const {
    return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", events_, "\n]}\n");
  }

 private:
  void Event(const std::string& fields) {
    absl::StrAppend(&events_, events_.empty() ? "" : ",\n", "{", fields, "}");
  }
  std::string events_;
};

std::string ComputeArgs(const ExecutionPlan& plan, const ComputeStep& step) {
  return absl::StrCat("\"op\":", JsonString(plan.instances[step.instance].op), ",\"partition\":", step.partition,
                      ",\"position\":", step.position, ",\"scratch_bytes\":", step.scratch_bytes,
                      ",\"predicted_us\":", JsonNumber(step.predicted_seconds * kMicroseconds));
}

std::string CopyArgs(const CopyStep& step) {
  return absl::StrCat("\"tensor\":", JsonString(step.tensor), ",\"bytes\":", step.bytes, ",\"partition\":", step.partition,
                      ",\"position\":", step.position, ",\"predicted_us\":",
                      JsonNumber(step.predicted_seconds * kMicroseconds), ",\"reason\":", JsonString(step.reason));
}

void WriteRun(const RunReport& run, const std::vector<TraceEvent>& trace, const char* kind, int process,
              TraceWriter& writer) {
  const ExecutionPlan& plan = *run.plan;
  const int num_lanes = static_cast<int>(plan.lanes.size());
  writer.Name("process_name", process, 0, absl::StrCat(run.strategy, " (", kind, ")"));
  for (int lane = 0; lane < num_lanes; ++lane) {
    writer.Name("thread_name", process, lane + 1, LaneName(plan, lane));
    writer.SortIndex(process, lane + 1, lane + 1);
  }
  for (const TraceEvent& event : trace) {
    const Lane& lane = plan.lanes[event.lane];
    const bool compute = lane.kind == LaneKind::kCompute;
    writer.Span(process, event.lane + 1, event.start_seconds, event.end_seconds, NameOf(plan, event.lane, event.step),
                std::string(LaneKindName(lane.kind)),
                compute ? ComputeArgs(plan, lane.compute[event.step]) : CopyArgs(lane.copies[event.step]));
  }
  for (int device = 0; device < static_cast<int>(plan.devices.size()); ++device) {
    const std::string& name = plan.devices[device].name;
    const int thread = num_lanes + 1 + device;
    writer.Name("thread_name", process, thread, absl::StrCat("partitions of ", name));
    writer.SortIndex(process, thread, -1 - device);
    for (const PartitionSpan& span : PartitionSpans(plan, trace, device)) {
      writer.Span(process, thread, span.when.start_seconds, span.when.end_seconds,
                  absl::StrCat("partition ", span.partition), "partition", "");
    }
    for (const MemoryPoint& point : MemoryOverTime(plan, trace, device)) {
      writer.Counter(process, point.seconds, absl::StrCat("memory of ", name), point.bytes);
    }
  }
}

}  // namespace

std::string ChromeTrace(const Report& report) {
  TraceWriter writer;
  int process = 0;
  for (const RunReport& run : report.runs) {
    if (run.plan == nullptr) continue;
    if (!run.trace.empty()) WriteRun(run, run.trace, "measured", ++process, writer);
    if (!run.simulated_trace.empty()) WriteRun(run, run.simulated_trace, "predicted", ++process, writer);
  }
  return writer.Finish();
}

}  // namespace millrace
