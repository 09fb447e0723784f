#include "plan/check_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "plan/disk_layout.h"
#include "plan/machine_limits.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

// The end is not reckoned with: what a file says may be near the largest integer.
bool LiesWithin(int64_t offset, int64_t bytes, int64_t limit) {
  return offset >= 0 && bytes >= 0 && offset <= limit && bytes <= limit - offset;
}

// Places of variables and constants lie where they may, budgets are kept.
absl::Status CheckPlaces(const ExecutionPlan& plan) {
  const auto resident = [&](const std::string& name, int32_t device, int64_t offset, int64_t bytes) {
    if (device >= 0 && device < static_cast<int32_t>(plan.devices.size()) &&
        (offset == kNoAddress ||
         (offset % kTensorAlignment == 0 && LiesWithin(offset, bytes, plan.devices[device].arena_bytes)))) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("plan: '", name, "' lives at ", offset, "+", bytes, " of device ", device,
                                            ", outside of an arena or not aligned"));
  };
  for (const PlanDevice& device : plan.devices) {
    if (device.peak_live_bytes > device.arena_bytes ||
        (device.budget_bytes > 0 && device.arena_bytes > device.budget_bytes)) {
      return absl::InternalError(absl::StrCat("plan: device ", device.name, " has ", device.peak_live_bytes,
                                              " bytes live at once in an arena of ", device.arena_bytes,
                                              " under a budget of ", device.budget_bytes));
    }
  }
  if (!plan.tiered && plan.disk_scratch_bytes != 0) {
    return absl::InternalError(absl::StrCat("plan: ", plan.disk_scratch_bytes, " bytes of disk, and nothing is there"));
  }
  if (plan.tiered && plan.host_bytes > plan.host_budget_bytes) {
    return absl::InternalError(absl::StrCat("plan: ", plan.host_bytes, " bytes of host memory under a budget of ",
                                            plan.host_budget_bytes));
  }
  for (const PlanVariable& v : plan.variables) {
    MR_RETURN_IF_ERROR(resident(v.name, v.device, v.resident_offset, v.type.size_bytes()));
    if (v.whole.empty() && v.home_offset != 0) return absl::InternalError(absl::StrCat("plan: '", v.name, "' is at ", v.home_offset, " of no variable"));
    if (!v.whole.empty() && (plan.tiered || v.type.dtype != v.whole_type.dtype ||
                             !LiesWithin(v.home_offset, v.type.size_bytes(), v.whole_type.size_bytes()))) {
      return absl::InternalError(absl::StrCat("plan: '", v.name, "' is not a part of '", v.whole, "', ",
                                              v.whole_type.ToString(), ", or that is on disk"));
    }
    if (v.host_offset == kNoAddress) continue;
    if (plan.tiered && v.resident_offset == kNoAddress && v.host_offset % kDiskPageBytes == 0 &&
        LiesWithin(v.host_offset, v.type.size_bytes(), plan.host_pool_bytes)) {
      continue;
    }
    return absl::InternalError(absl::StrCat("plan: '", v.name, "' lives at ", v.host_offset, "+", v.type.size_bytes(),
                                            " of the host pool, outside of it, not aligned, or also on a device"));
  }
  for (const PlanConstant& c : plan.constants) {
    MR_RETURN_IF_ERROR(resident(c.name, c.device, c.resident_offset, c.value.size_bytes()));
  }
  return absl::OkStatus();
}

// What stays on a device between steps has a place of its own.
absl::Status CheckStays(const ExecutionPlan& plan) {
  using Stay = std::tuple<int32_t, int64_t, int64_t, std::string>;  // device, begin, end, name
  std::vector<Stay> stays;
  const auto add = [&](const std::string& name, int32_t device, int64_t offset, int64_t bytes) {
    if (offset != kNoAddress && bytes > 0) stays.emplace_back(device, offset, offset + bytes, name);
  };
  for (const PlanVariable& v : plan.variables) add(v.name, v.device, v.resident_offset, v.type.size_bytes());
  for (const PlanConstant& c : plan.constants) add(c.name, c.device, c.resident_offset, c.value.size_bytes());
  std::sort(stays.begin(), stays.end());
  for (size_t i = 1; i < stays.size(); ++i) {
    const auto& [device, begin, end, name] = stays[i - 1];
    const auto& [next_device, next_begin, next_end, next_name] = stays[i];
    if (device != next_device || end <= next_begin) continue;
    return absl::InternalError(absl::StrCat("plan: '", name, "' at ", begin, " and '", next_name, "' at ", next_begin, " of device ", device,
                                            " stay in one place"));
  }
  return absl::OkStatus();
}

// Parts of a variable are the whole of it, one after another.
absl::Status CheckParts(const ExecutionPlan& plan) {
  std::map<std::pair<std::string, int64_t>, const PlanVariable*> parts;
  for (const PlanVariable& v : plan.variables) {
    if (v.whole.empty() || parts.emplace(std::pair(v.whole, v.home_offset), &v).second) continue;
    return absl::InternalError(absl::StrCat("plan: '", v.name, "' is a part of '", v.whole, "' that is there twice"));
  }
  for (auto it = parts.begin(); it != parts.end();) {
    const PlanVariable& first = *it->second;
    int64_t end = 0;
    for (; it != parts.end() && it->second->whole == first.whole; ++it) {
      if (it->second->home_offset != end || !(it->second->whole_type == first.whole_type)) break;
      end += it->second->type.size_bytes();
    }
    if (end == first.whole_type.size_bytes() && (it == parts.end() || it->second->whole != first.whole)) continue;
    return absl::InternalError(absl::StrCat("plan: the parts of '", first.whole, "', ", first.whole_type.ToString(), ", are not the whole of it"));
  }
  return absl::OkStatus();
}

// What must hold before a step can be printed at all.
absl::Status CheckLanes(const ExecutionPlan& plan) {
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    const std::string where = absl::StrCat("plan: lane ", l);
    if (lane.device < 0 || lane.device >= static_cast<int32_t>(plan.devices.size())) {
      return absl::InternalError(absl::StrCat(where, " is of device ", lane.device, ", which is not there"));
    }
    if (!(lane.kind == LaneKind::kCompute ? lane.copies.empty() : lane.compute.empty())) {
      return absl::InternalError(absl::StrCat(where, " has steps of another kind"));
    }
    for (int64_t i = 0; i < lane.num_steps(); ++i) {
      const double seconds = SecondsOf(lane, i);
      if (seconds >= 0 && seconds <= kMostStepSeconds) continue;
      return absl::InternalError(absl::StrCat(where, " has a step ", i, " of ", seconds, " seconds, expected a time"));
    }
    for (const ComputeStep& step : lane.compute) {
      if (step.partition < 0) return absl::InternalError(absl::StrCat(where, " has a step in partition ", step.partition));
      if (step.instance < 0 || step.instance >= static_cast<int32_t>(plan.instances.size())) {
        return absl::InternalError(absl::StrCat(where, " names instance ", step.instance, ", which is not there"));
      }
    }
  }
  return absl::OkStatus();
}

// Sizes follow from types, and are added up.
absl::Status CheckTypes(const ExecutionPlan& plan) {
  constexpr int64_t kMostBytes = int64_t{1} << 56;
  const auto check = [kMostBytes](const std::string& what, const TensorType& type) {
    if (type.shape.fully_known() && type.size_bytes() <= kMostBytes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("plan: '", what, "' has a type ", type.ToString(), ", expected a known shape of at most ", kMostBytes, " bytes"));
  };
  for (const OpInstance& instance : plan.instances) {
    for (const auto* types : {&instance.inputs, &instance.outputs}) {
      for (const TensorType& type : *types) MR_RETURN_IF_ERROR(check(instance.name, type));
    }
  }
  for (const PlanVariable& variable : plan.variables) {
    MR_RETURN_IF_ERROR(check(variable.name, variable.type));
    if (!variable.whole.empty()) MR_RETURN_IF_ERROR(check(variable.whole, variable.whole_type));
  }
  for (const PlanFeed& feed : plan.feeds) MR_RETURN_IF_ERROR(check(feed.name, feed.type));
  for (const PlanFetch& fetch : plan.fetches) {
    MR_RETURN_IF_ERROR(check(fetch.name, fetch.type));
    if (fetch.value.empty() || fetch.value.type() == fetch.type) continue;
    return absl::InternalError(
        absl::StrCat("plan: fetch '", fetch.name, "' is ", fetch.type.ToString(), ", its known value is ", fetch.value.type().ToString()));
  }
  return absl::OkStatus();
}

// What reports tell.
absl::Status CheckFigures(const ExecutionPlan& plan) {
  const auto check = [](const char* what, int64_t value) {
    return value >= 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("plan: ", what, " is ", value, ", expected 0 or more"));
  };
  for (const PlanDevice& device : plan.devices) {
    for (const int64_t bytes : {device.budget_bytes, device.arena_bytes, device.peak_live_bytes}) MR_RETURN_IF_ERROR(check("a number of bytes", bytes));
    MR_RETURN_IF_ERROR(check("the number of partitions", device.num_partitions));
  }
  MR_RETURN_IF_ERROR(check("partition_size", plan.partition_size));
  for (const int64_t bytes : {plan.host_budget_bytes, plan.host_pool_bytes, plan.host_bytes, plan.disk_scratch_bytes, plan.bytes_to_host,
                              plan.bytes_to_device, plan.bytes_to_disk, plan.bytes_from_disk}) {
    MR_RETURN_IF_ERROR(check("a number of bytes", bytes));
  }
  const PlanCounts& counts = plan.counts;
  for (const int64_t count : {counts.swap_outs, counts.swap_ins, counts.recomputed_nodes, counts.sends, counts.recvs, counts.nodes}) {
    MR_RETURN_IF_ERROR(check("a count", count));
  }
  for (const double seconds : {plan.predicted_step_seconds, plan.predicted_compute_seconds, plan.lower_bound_seconds}) {
    if (!std::isfinite(seconds) || seconds < 0) return absl::InternalError(absl::StrCat("plan: it takes ", seconds, " seconds, expected a time"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckResidences(const ExecutionPlan& plan) {
  int64_t positions = 0, most = std::numeric_limits<int64_t>::max();
  for (const Lane& lane : plan.lanes) {
    if (lane.num_steps() > 0) positions = std::max(positions, PositionOf(lane, lane.num_steps() - 1) + 1);
  }
  for (const Residence& stay : plan.residences) {
    const bool there = stay.device >= 0 && stay.device < static_cast<int32_t>(plan.devices.size());
    // One that no step is within stands before the next.
    const bool in_step = stay.first >= 0 && stay.first <= stay.last && stay.last <= positions;
    if (there && in_step && stay.bytes >= 0 && stay.bytes <= most &&
        (stay.bytes == 0 || LiesWithin(stay.offset, stay.bytes, plan.devices[stay.device].arena_bytes))) {
      most -= stay.bytes;  // all of them are added up
      continue;
    }
    return absl::InternalError(absl::StrCat("plan: '", stay.tensor.str(), "' stays at ", stay.offset, "+", stay.bytes, " of device ", stay.device,
                                            " over positions ", stay.first, " to ", stay.last, ", outside of its arena or of the step's ", positions));
  }
  return absl::OkStatus();
}

absl::Status CheckTables(const ExecutionPlan& plan) {
  MR_RETURN_IF_ERROR(CheckFigures(plan));
  MR_RETURN_IF_ERROR(CheckTypes(plan));
  MR_RETURN_IF_ERROR(CheckPlaces(plan));
  MR_RETURN_IF_ERROR(CheckStays(plan));
  MR_RETURN_IF_ERROR(CheckParts(plan));
  return CheckLanes(plan);
}

}  // namespace millrace
