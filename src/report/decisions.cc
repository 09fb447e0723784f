#include "report/decisions.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "report/text_table.h"

namespace millrace {
namespace {

void AddCopies(const ExecutionPlan& plan, const Lane& lane, std::vector<Decision>& decisions) {
  for (const CopyStep& copy : lane.copies) {
    const bool of_caller = copy.host.kind == HostRef::Kind::kFeed || copy.host.kind == HostRef::Kind::kFetch;
    if (of_caller) continue;
    decisions.push_back({std::string(LaneKindName(lane.kind)), copy.name, copy.tensor.str(), plan.devices[lane.device].name, copy.partition,
                         copy.reason.str()});
  }
}

// Whether a tensor is made by what is computed again: "NODE/recompute:0", "NODE/recompute_2:0".
bool IsOfACopy(std::string_view tensor) {
  std::string_view node = tensor.substr(0, tensor.rfind(':'));
  const size_t last = node.find_last_not_of("0123456789");
  if (last != std::string_view::npos && last + 1 < node.size() && node[last] == '_') node = node.substr(0, last);
  return node.ends_with("/recompute");
}

void AddStays(const ExecutionPlan& plan, std::vector<Decision>& decisions) {
  for (const Residence& stay : plan.residences) {
    const bool again = stay.kind == Residence::Kind::kActivation && IsOfACopy(stay.tensor.str());
    const char* const kind = stay.kind == Residence::Kind::kVariable   ? "variable"
                             : stay.kind == Residence::Kind::kConstant ? "constant"
                             : again                                   ? "computed again"
                                                                       : nullptr;
    if (kind == nullptr) continue;
    decisions.push_back({.kind = kind, .tensor = stay.tensor.str(), .device = plan.devices[stay.device].name, .reason = stay.reason.str()});
  }
}

void AddCuts(const ExecutionPlan& plan, const Lane& lane, const CutReasons& reasons, std::vector<Decision>& decisions) {
  for (int64_t i = 1; i < static_cast<int64_t>(lane.compute.size()); ++i) {
    if (!BeginsPartition(lane, i)) continue;
    decisions.push_back({"cut", plan.instances[lane.compute[i].instance].name, "", plan.devices[lane.device].name, lane.compute[i].partition,
                         reasons.Why(lane, i)});
  }
}

}  // namespace

bool BeginsPartition(const Lane& lane, int64_t index) {
  return index == 0 || lane.compute[index - 1].partition != lane.compute[index].partition;
}

CutReasons::CutReasons(const ExecutionPlan& plan) : plan_(plan) {
  int64_t positions = 0;
  for (const Lane& lane : plan.lanes) positions += lane.num_steps();
  constexpr int32_t kNone = -1;
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::kCompute) continue;
    std::vector<int32_t> partition_at(positions, kNone);
    for (const ComputeStep& step : lane.compute) {
      Weight& weight = weights_[{lane.device, step.partition}];
      ++weight.operations;
      weight.seconds += step.predicted_seconds;
      if (step.position >= 0 && step.position < positions) partition_at[step.position] = step.partition;
    }
    for (const Residence& stay : plan.residences) {
      if (stay.device != lane.device || stay.first < 0 || stay.first >= positions || partition_at[stay.first] == kNone) continue;
      weights_[{lane.device, partition_at[stay.first]}].bytes += stay.bytes;
    }
  }
}

std::string CutReasons::Why(const Lane& lane, int64_t index) const {
  if (plan_.partition_size > 0) return absl::StrCat("a partition ends when a device holds ", plan_.partition_size, " nodes of it");
  if (plan_.strategy == "tflms") return "a level of the graph is a partition";
  if (index == 0 || !BeginsPartition(lane, index)) return WeightWords(lane, index);
  return absl::StrCat(WeightWords(lane, index - 1), ", and what comes here would make it too heavy");
}

std::string CutReasons::WeightWords(const Lane& lane, int64_t index) const {
  const int32_t partition = lane.compute[index].partition;
  const Weight& weight = weights_.at({lane.device, partition});
  return absl::StrCat("partition ", partition, " makes ", FormatBytes(weight.bytes), " in ", weight.operations, " operations of ",
                      FormatSeconds(weight.seconds));
}

std::vector<Decision> DecisionsOf(const ExecutionPlan& plan) {
  std::vector<Decision> decisions;
  const CutReasons reasons(plan);
  for (const Lane& lane : plan.lanes) AddCopies(plan, lane, decisions);
  AddStays(plan, decisions);
  for (const Lane& lane : plan.lanes) AddCuts(plan, lane, reasons, decisions);
  return decisions;
}

}  // namespace millrace
