#include "runtime/device_places.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "millrace/status.h"
#include "runtime/runtime_device.h"

namespace millrace {
namespace {

// `variables`: that the step writes.
using SeeAccess = absl::FunctionRef<void(int64_t begin, int64_t bytes, bool writes, const RareIndices& variables)>;

void ForEachAccess(const ExecutionPlan& plan, const ComputeStep& step, SeeAccess see) {
  const OpInstance& instance = plan.instances[step.instance];
  const auto writes = [&](size_t input) {
    if (step.input_variables.empty() || step.input_variables[input] < 0) return false;
    return std::find(step.writes_variables.begin(), step.writes_variables.end(), step.input_variables[input]) != step.writes_variables.end();
  };
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] != kNoAddress) see(step.inputs[i], instance.inputs[i].size_bytes(), writes(i), step.writes_variables);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] != kNoAddress) see(step.outputs[i], instance.outputs[i].size_bytes(), !step.is_view, step.writes_variables);
  }
  if (step.scratch_bytes > 0) see(step.scratch_offset, step.scratch_bytes, true, {});
}

void ForEachAccess(const ExecutionPlan& plan, int32_t device, SeeAccess see) {
  for (const Lane& lane : plan.lanes) {
    if (lane.device != device) continue;
    for (const ComputeStep& step : lane.compute) ForEachAccess(plan, step, see);
    if (lane.kind != LaneKind::kToDevice && lane.kind != LaneKind::kToHost) continue;
    for (const CopyStep& step : lane.copies) see(step.device_offset, step.bytes, lane.kind == LaneKind::kToDevice, {});
  }
}

}  // namespace

char* ArenaMap::At(int64_t offset) const {
  auto it = std::upper_bound(moved_.begin(), moved_.end(), offset, [](int64_t at, const Moved& m) { return at < m.begin; });
  if (it != moved_.begin() && offset < (--it)->end) return it->place + (offset - it->begin);
  return base_ + offset;
}

DevicePlaces::DevicePlaces(const ExecutionPlan& plan, int32_t device, RuntimeDevice* memory, const std::vector<StoredVariable*>& variables)
    : device_(device), memory_(memory), plan_bytes_(plan.devices[device].arena_bytes), stay_of_variable_(plan.variables.size(), -1) {
  if (!memory->has_data()) return;
  AddStays(plan, variables);
  FindWrites(plan);
}

void DevicePlaces::AddStays(const ExecutionPlan& plan, const std::vector<StoredVariable*>& variables) {
  const auto add = [&](int32_t variable, int64_t offset, Resident wanted) {
    if (offset == kNoAddress || wanted.bytes == 0) return;
    wanted.device = memory_;
    stays_.push_back({.variable = variable, .wanted = std::move(wanted), .offset = offset});
  };
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const PlanVariable& v = plan.variables[i];
    if (v.device != device_) continue;
    add(static_cast<int32_t>(i), v.resident_offset, {.variable = variables[i], .home_offset = v.home_offset, .bytes = v.type.size_bytes()});
  }
  for (const PlanConstant& c : plan.constants) {
    if (c.device == device_) add(-1, c.resident_offset, {.constant = c.value, .bytes = c.value.size_bytes()});
  }
  std::sort(stays_.begin(), stays_.end(), [](const Stay& a, const Stay& b) { return a.offset < b.offset; });
  for (size_t s = 0; s < stays_.size(); ++s) {
    const int32_t variable = stays_[s].variable;
    if (variable >= 0) stay_of_variable_[variable] = static_cast<int32_t>(s);
    has_constants_ = has_constants_ || variable < 0;
  }
}

void DevicePlaces::FindWrites(const ExecutionPlan& plan) {
  ForEachAccess(plan, device_, [&](int64_t begin, int64_t bytes, bool writes, const RareIndices& variables) {
    const auto [first, last] = StaysIn({begin, begin + bytes});
    for (size_t s = first; s < last; ++s) {
      Stay& stay = stays_[s];
      const bool within = stay.offset <= begin && begin + bytes <= stay.end();
      const bool own = !writes || std::find(variables.begin(), variables.end(), stay.variable) != variables.end();
      stay.alone = stay.alone && within && own;
    }
  });
  ForEachAccess(plan, device_, [&](int64_t begin, int64_t bytes, bool writes, const RareIndices&) {
    if (!writes || bytes == 0) return;
    const auto [first, last] = StaysIn({begin, begin + bytes});
    if (last == first + 1 && stays_[first].alone) return;
    if (!written_.empty() && written_.back().begin == begin && written_.back().end == begin + bytes) return;
    written_.push_back({begin, begin + bytes});
  });
  std::sort(written_.begin(), written_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : written_) {
    if (joined.empty() || range.begin > joined.back().end) {
      joined.push_back(range);
    } else {
      joined.back().end = std::max(joined.back().end, range.end);
    }
  }
  written_ = std::move(joined);
}

std::pair<size_t, size_t> DevicePlaces::StaysIn(const Range& range) const {
  const auto first = std::partition_point(stays_.begin(), stays_.end(), [&](const Stay& s) { return s.end() <= range.begin; });
  auto last = first;
  while (last != stays_.end() && last->offset < range.end) ++last;
  return {first - stays_.begin(), last - stays_.begin()};
}

bool DevicePlaces::IsWritten(const Range& range) const {
  const auto first = std::partition_point(written_.begin(), written_.end(), [&](const Range& w) { return w.end <= range.begin; });
  return first != written_.end() && first->begin < range.end;
}

bool DevicePlaces::IsAtOwnPlace(const Resident& resident, const char* base) const {
  const int64_t offset = resident.place - base;
  const auto stay = std::partition_point(stays_.begin(), stays_.end(), [&](const Stay& s) { return s.offset < offset; });
  return stay != stays_.end() && stay->offset == offset && stay->wanted.SameAs(resident);
}

int64_t DevicePlaces::BytesInTheWay(Residents& residents, const char* base) const {
  int64_t bytes = 0;
  for (const Range& range : written_) {
    for (const Resident* resident : residents.Within(*memory_, base + range.begin, base + range.end)) {
      if (!IsAtOwnPlace(*resident, base)) bytes += resident->bytes;
    }
  }
  return bytes;
}

// The last one as long as nothing is in its way: steps that the device has recorded have its addresses.
char* DevicePlaces::ChooseBase(Residents& residents, char* arena, int64_t arena_bytes) const {
  constexpr int64_t kAlignment = 4096;
  char* const at_end = arena + (arena_bytes - plan_bytes_) / kAlignment * kAlignment;
  char* best = base_ != nullptr && arena <= base_ && base_ <= at_end ? base_ : arena;
  int64_t least = BytesInTheWay(residents, best);
  for (char* const base : {arena, at_end}) {
    if (least == 0) break;
    const int64_t bytes = BytesInTheWay(residents, base);
    if (bytes < least) best = base;
    least = std::min(least, bytes);
  }
  return best;
}

void DevicePlaces::FindShared(Residents& residents) {
  for (Stay& stay : stays_) {
    stay.found = residents.Find(stay.wanted, base_ + stay.offset);
    if (stay.found == nullptr) continue;
    const int64_t at = stay.found->place - base_;
    if (at != stay.offset && (!stay.alone || IsWritten({at, at + stay.wanted.bytes}))) stay.found = nullptr;
  }
  // What is loaded takes its own place, and nothing that was found may lie there.
  for (bool changed = true; changed;) {
    changed = false;
    for (Stay& stay : stays_) {
      if (stay.found == nullptr) continue;
      const int64_t at = stay.found->place - base_;
      const auto [first, last] = StaysIn({at, at + stay.wanted.bytes});
      const bool is_taken = at != stay.offset && std::any_of(stays_.begin() + first, stays_.begin() + last, [](const Stay& s) { return s.found == nullptr; });
      if (!is_taken) continue;
      stay.found = nullptr;
      changed = true;
    }
  }
}

void DevicePlaces::Choose(Residents& residents, char* arena, int64_t arena_bytes, std::set<const Resident*>& shared) {
  if (arena == nullptr) return;
  base_ = ChooseBase(residents, arena, arena_bytes);
  FindShared(residents);
  for (const Stay& stay : stays_) {
    if (stay.found != nullptr) shared.insert(stay.found);
  }
}

void DevicePlaces::MakeRoom(Residents& residents, const std::set<const Resident*>& shared, LostValues& lost) {
  if (base_ == nullptr) return;
  std::vector<Range> taken = written_;
  for (const Stay& stay : stays_) {
    if (stay.found == nullptr) taken.push_back({stay.offset, stay.end()});
  }
  for (const Range& range : taken) {
    for (Resident* resident : residents.Within(*memory_, base_ + range.begin, base_ + range.end)) {
      if (shared.count(resident) == 0) residents.Remove(resident, lost);
    }
  }
}

absl::Status DevicePlaces::Load(Residents& residents) {
  if (base_ == nullptr) return absl::OkStatus();
  std::vector<ArenaMap::Moved> moved;
  for (Stay& stay : stays_) {
    if (stay.found == nullptr) {
      Resident wanted = stay.wanted;
      wanted.place = base_ + stay.offset;
      MR_ASSIGN_OR_RETURN(stay.found, residents.Load(wanted));
    }
    if (stay.found->place != base_ + stay.offset) moved.push_back({stay.offset, stay.end(), stay.found->place});
  }
  map_ = ArenaMap(base_, std::move(moved));
  return absl::OkStatus();
}

Resident* DevicePlaces::resident(size_t i) const {
  return stay_of_variable_[i] < 0 ? nullptr : stays_[stay_of_variable_[i]].found;
}

void DevicePlaces::ForgetConstants(Residents& residents) {
  for (const Stay& stay : stays_) {
    if (stay.variable >= 0) continue;
    while (Resident* const constant = residents.Find(stay.wanted)) residents.Forget(constant);
  }
}

bool DevicePlaces::ForgetWhatLeaves(Residents& residents) {
  std::set<Resident*> gone;
  for (const Stay& stay : stays_) {
    if (!stay.alone && stay.found != nullptr && !stay.found->newer) gone.insert(stay.found);
  }
  for (Resident* const resident : gone) residents.Forget(resident);
  return !gone.empty();
}

}  // namespace millrace
