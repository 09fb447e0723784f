#include "passes/emit/tier_host_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "passes/access/access_graph.h"
#include "passes/access/does_not_fit.h"
#include "passes/access/schedule.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/planned.h"
#include "passes/swaps/choose_swaps.h"
#include "plan/byte_range_map.h"
#include "plan/disk_layout.h"
#include "plan/simulator.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

// Per lane, how many of its steps must be complete.
using Counts = std::vector<int64_t>;

void RaiseTo(Counts& into, const Counts& from) {
  for (size_t l = 0; l < from.size(); ++l) into[l] = std::max(into[l], from[l]);
}

// Bytes of the budget that no plan can place elsewhere.
int64_t FixedBytes(const ExecutionPlan& plan, int64_t other_state_bytes) {
  int64_t states = 0;
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) states += step.state_bytes > 0 ? AlignUp(step.state_bytes) : 0;
  }
  int64_t bytes = kDiskBounceBytes + std::max({kStateReserveBytes, 2 * states, states + other_state_bytes});
  std::set<std::string> constants;  // several devices may take the same one
  for (const PlanConstant& constant : plan.constants) {
    if (constants.insert(constant.name).second) bytes += AlignUp(constant.value.size_bytes());
  }
  return bytes;
}

class Tierer {
 public:
  Tierer(const Machine& machine, int64_t budget_bytes, int64_t other_state_bytes, ExecutionPlan& plan)
      : machine_(machine),
        budget_(budget_bytes),
        other_state_bytes_(other_state_bytes),
        plan_(plan),
        order_(StepsInOrder(plan)),
        to_disk_(static_cast<int32_t>(plan.lanes.size())),
        from_disk_(to_disk_ + 1) {}

  absl::Status Run() {
    MR_RETURN_IF_ERROR(ListAccesses());
    const int64_t fixed = FixedBytes(plan_, other_state_bytes_);
    const int64_t pool_budget = (budget_ - fixed) / kDiskPageBytes * kDiskPageBytes;
    MR_RETURN_IF_ERROR(CheckRoom(pool_budget, fixed));
    MR_RETURN_IF_ERROR(OfHostMemory(Decide(pool_budget)));
    plan_.lanes.resize(from_disk_ + 1);
    plan_.lanes[to_disk_].kind = LaneKind::kToDisk;
    plan_.lanes[from_disk_].kind = LaneKind::kFromDisk;
    ListBoundaries();
    Emit();
    MovePositions();
    plan_.tiered = true;
    plan_.host_budget_bytes = budget_;
    plan_.host_pool_bytes = memory_.arena_bytes;
    plan_.host_bytes = memory_.arena_bytes + fixed;
    return absl::OkStatus();
  }

 private:
  struct Progress {
    Counts touched, read;  // read: since the last write
    Wait written{-1, 0};
  };

  int32_t NewStorage(const std::string& name, StorageKind kind, int32_t variable, int64_t bytes) {
    graph_.names.push_back(name);
    graph_.storages.push_back({.kind = kind, .size_bytes = AlignUp(bytes, kDiskPageBytes)});
    variable_of_.push_back(variable);
    bytes_of_.push_back(bytes);
    return static_cast<int32_t>(graph_.storages.size()) - 1;
  }

  // The access graph: an operation per copy that uses the host pool or a variable's home, at the time when it starts.
  absl::Status ListAccesses() {
    MR_ASSIGN_OR_RETURN(const Simulation simulation, SimulatePlan(plan_, machine_));
    std::vector<int64_t> first_event{0};
    for (const Lane& lane : plan_.lanes) first_event.push_back(first_event.back() + lane.num_steps());
    std::vector<int32_t> storage_of_variable(plan_.variables.size(), -1);
    std::map<int64_t, int32_t> storage_at;  // of the pool, by offset
    std::vector<double> starts;
    for (const StepRef& ref : order_) {
      const Lane& lane = plan_.lanes[ref.lane];
      if (lane.kind == LaneKind::kCompute) continue;
      const CopyStep& copy = lane.copies[ref.index];
      const bool writes = lane.kind == LaneKind::kToHost;
      int32_t storage = -1;
      if (copy.host.kind == HostRef::Kind::kVariable) {
        int32_t& known = storage_of_variable[copy.host.index];
        if (known < 0) known = NewStorage(copy.tensor, StorageKind::kVariable, copy.host.index, copy.bytes);
        storage = known;
      } else if (copy.host.kind == HostRef::Kind::kPool) {
        if (writes) storage_at[copy.host.offset_bytes] = NewStorage(copy.tensor, StorageKind::kActivation, -1, copy.bytes);
        storage = storage_at[copy.host.offset_bytes];
      } else {
        continue;
      }
      graph_.first_access.push_back(static_cast<int64_t>(graph_.accesses.size()));
      graph_.accesses.push_back({storage, !writes, writes});
      graph_.scratch_bytes.push_back(0);
      graph_.partition.push_back(0);
      steps_.push_back(ref);
      starts.push_back(simulation.events[first_event[ref.lane] + ref.index].start_seconds);
    }
    graph_.first_access.push_back(static_cast<int64_t>(graph_.accesses.size()));
    starts.push_back(simulation.step_seconds);
    for (size_t k = 0; k + 1 < starts.size(); ++k) graph_.seconds.push_back(std::max(0.0, starts[k + 1] - starts[k]));
    return absl::OkStatus();
  }

  // Marked as OfHostMemory, with the bytes that it needs, where another plan may do, of which smaller tensors leave the devices.
  absl::Status CheckRoom(int64_t pool_budget, int64_t fixed) const {
    int64_t largest = 0;
    std::string name;
    for (size_t s = 0; s < graph_.storages.size(); ++s) {
      if (graph_.storages[s].size_bytes <= largest) continue;
      largest = graph_.storages[s].size_bytes;
      name = absl::StrCat("'", graph_.names[s], "'");
    }
    if (fixed <= budget_ && largest <= pool_budget) return absl::OkStatus();
    const std::string way = largest > 0 ? absl::StrCat(", and ", name, " alone needs ", largest, " bytes on its way to or from disk") : "";
    const std::string missing = absl::StrCat(
        "does not fit: the host budget is ", budget_, " bytes (", FormatBytes(budget_), "), constants, states and the ",
        "buffer of the disk take ", fixed, " of it", way, "; short by ", fixed + largest - budget_);
    return fixed <= budget_ ? OfHostMemory(DoesNotFitError(fixed + largest, missing)) : absl::ResourceExhaustedError(missing);
  }

  absl::Status Decide(int64_t pool_budget) {
    if (graph_.num_operations() == 0) return absl::OkStatus();
    Machine disk = machine_;
    disk.to_host_bytes_per_second = disk.to_device_bytes_per_second = machine_.disk_bytes_per_second;
    disk.copy_latency_seconds = machine_.disk_latency_seconds;
    // What stays in host memory over the step's end stays all through it: the executor knows no other.
    PlanLimits limits;
    limits.residents_leave = false;
    MR_ASSIGN_OR_RETURN(choice_, SwapPlanned(graph_, disk, pool_budget, limits));
    MR_RETURN_IF_ERROR(VerifySwaps(graph_, choice_));
    schedule_ = BuildSchedule(graph_, choice_);
    auto memory = AssignMemory(graph_, schedule_, choice_, pool_budget,
                               [&](int32_t copy) { return NameOf(plan_, steps_[copy].lane, steps_[copy].index); });
    if (!memory.ok()) return WithPrefix(memory.status(), "host memory");
    memory_ = *std::move(memory);
    return VerifyMemory(graph_, schedule_, memory_);
  }

  void ListBoundaries() {
    begins_.resize(schedule_.items.size());
    ends_.resize(schedule_.items.size());
    const Counts none(plan_.lanes.size(), 0);
    progress_.assign(schedule_.residences.size(), {none, none, {-1, 0}});
    disk_read_.assign(graph_.storages.size(), 0);
    disk_written_.assign(graph_.storages.size(), 0);
    scratch_.assign(graph_.storages.size(), -1);
    leaves_.assign(graph_.storages.size(), false);
    for (size_t r = 0; r < schedule_.residences.size(); ++r) {
      const Stay& stay = schedule_.residences[r];
      ends_[stay.last].push_back(static_cast<int32_t>(r));
      const int32_t variable = variable_of_[stay.storage];
      if (stay.resident) {
        plan_.variables[variable].host_offset = memory_.residence_offsets[r];
      } else {
        begins_[stay.first].push_back(static_cast<int32_t>(r));
        leaves_[stay.storage] = variable >= 0;
      }
    }
  }

  // All steps in their former order, the disk's between them.
  void Emit() {
    size_t item = 0, operation = 0;
    for (const StepRef& ref : order_) {
      if (operation < steps_.size() && ref.position == steps_[operation].position) {
        while (schedule_.items[item].kind != ScheduleItem::Kind::kOperation) EmitDisk(item++);
        EmitOperation(item++, static_cast<int32_t>(operation++));
        while (item < schedule_.items.size() && schedule_.items[item].kind == ScheduleItem::Kind::kCopyOut) {
          EmitDisk(item++);
        }
        continue;
      }
      Lane& lane = plan_.lanes[ref.lane];
      Place(ref.position, lane.kind == LaneKind::kCompute ? lane.compute[ref.index].position
                                                          : lane.copies[ref.index].position);
    }
  }

  // The step that was at `former` gets the next position.
  void Place(int64_t former, int64_t& position) {
    new_position_.resize(std::max<size_t>(new_position_.size(), former + 1), next_position_);
    new_position_[former] = next_position_;
    position = next_position_++;
  }

  Counts ClaimRoom(size_t item) {
    Counts needed(plan_.lanes.size(), 0);
    for (int32_t r : begins_[item]) {
      const int64_t begin = memory_.residence_offsets[r];
      owners_.ForEach(begin, begin + SizeOf(r), [&](int64_t, int64_t, const Counts& touched) { RaiseTo(needed, touched); });
    }
    return needed;
  }

  void ReleaseRoom(size_t item) {
    for (int32_t r : ends_[item]) {
      const int64_t begin = memory_.residence_offsets[r];
      owners_.Assign(begin, begin + SizeOf(r), progress_[r].touched);
    }
  }

  int64_t SizeOf(int32_t residence) const {
    return graph_.storages[schedule_.residences[residence].storage].size_bytes;
  }

  void Touch(int32_t residence, int32_t lane, int64_t count, bool writes, Counts& needed) {
    Progress& progress = progress_[residence];
    if (progress.written.lane >= 0) {
      needed[progress.written.lane] = std::max(needed[progress.written.lane], progress.written.count);
    }
    if (writes) {
      RaiseTo(needed, progress.read);
      progress.read.assign(plan_.lanes.size(), 0);
      progress.written = {lane, count};
    } else {
      progress.read[lane] = count;
    }
    progress.touched[lane] = count;
  }

  static void AddWaits(int32_t lane, const Counts& needed, StepWaits& waits) {
    for (int32_t other = 0; other < static_cast<int32_t>(needed.size()); ++other) {
      if (other == lane || needed[other] == 0) continue;
      const auto made = std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.lane == other; });
      if (made == waits.end()) {
        waits.push_back({other, needed[other]});
      } else {
        made->count = std::max(made->count, needed[other]);
      }
    }
  }

  HostRef PlaceOf(int32_t residence) const {
    const int32_t variable = variable_of_[schedule_.residences[residence].storage];
    const HostRef::Kind kind = variable >= 0 ? HostRef::Kind::kVariable : HostRef::Kind::kPool;
    return {kind, std::max(variable, 0), memory_.residence_offsets[residence]};
  }

  void EmitOperation(size_t item, int32_t operation) {
    const StepRef& ref = steps_[operation];
    CopyStep& copy = plan_.lanes[ref.lane].copies[ref.index];
    const Access& access = graph_.accesses[operation];
    const int32_t residence = schedule_.residence_of[operation];
    Counts needed = ClaimRoom(item);
    Touch(residence, ref.lane, ref.index + 1, access.writes, needed);
    copy.host = PlaceOf(residence);
    // A variable that leaves host memory is newer for good once it is on disk.
    if (leaves_[access.storage]) copy.writes_variable = -1;
    AddWaits(ref.lane, needed, copy.waits);
    partition_ = copy.partition;
    Place(ref.position, copy.position);
    ReleaseRoom(item);
  }

  void EmitDisk(size_t item) {
    const ScheduleItem& what = schedule_.items[item];
    const SwapDecision& decision = choice_.decisions[what.index];
    const bool out = what.kind == ScheduleItem::Kind::kCopyOut;
    const int32_t lane = out ? to_disk_ : from_disk_;
    std::vector<CopyStep>& copies = plan_.lanes[lane].copies;
    const int64_t count = static_cast<int64_t>(copies.size()) + 1;
    const int32_t storage = decision.storage, variable = variable_of_[storage];
    Counts needed = ClaimRoom(item);
    Touch(what.residence, lane, count, !out, needed);
    CopyStep step;
    step.tensor = graph_.names[storage];
    step.name = absl::StrCat(step.tensor.str(), out ? "/to_disk" : "/from_disk");
    step.reason = absl::StrCat("host memory: ", decision.reason.str());
    step.bytes = bytes_of_[storage];
    step.host = PlaceOf(what.residence);
    step.partition = partition_;
    step.disk = {variable, variable >= 0 ? 0 : ScratchOf(storage)};
    if (out) {
      if (variable >= 0) needed[from_disk_] = std::max(needed[from_disk_], disk_read_[storage]);
      if (leaves_[storage]) step.writes_variable = variable;
      disk_written_[storage] = count;
      plan_.bytes_to_disk += step.bytes;
    } else {
      needed[to_disk_] = std::max(needed[to_disk_], disk_written_[storage]);
      disk_read_[storage] = count;
      plan_.bytes_from_disk += step.bytes;
    }
    step.predicted_seconds =
        machine_.disk_latency_seconds + static_cast<double>(step.bytes) / machine_.disk_bytes_per_second;
    AddWaits(lane, needed, step.waits);
    step.position = next_position_++;
    copies.push_back(std::move(step));
    ReleaseRoom(item);
  }

  // A tensor has room of its own on disk, written at most once a step: nothing there waits for its former owner.
  int64_t ScratchOf(int32_t storage) {
    if (scratch_[storage] < 0) {
      scratch_[storage] = plan_.disk_scratch_bytes;
      plan_.disk_scratch_bytes += graph_.storages[storage].size_bytes;
    }
    return scratch_[storage];
  }

  void MovePositions() {
    const int64_t last = static_cast<int64_t>(new_position_.size()) - 1;
    for (Residence& residence : plan_.residences) {
      if (last < 0) break;
      residence.first = new_position_[std::min(residence.first, last)];
      residence.last = new_position_[std::min(residence.last, last)];
    }
  }

  const Machine& machine_;
  const int64_t budget_, other_state_bytes_;
  ExecutionPlan& plan_;
  const std::vector<StepRef> order_;
  const int32_t to_disk_, from_disk_;
  AccessGraph graph_;
  std::vector<StepRef> steps_;        // per operation
  std::vector<int32_t> variable_of_;  // per storage, -1 for swapped tensors
  std::vector<int64_t> bytes_of_;
  SwapChoice choice_;
  Schedule schedule_;
  MemoryAssignment memory_;
  std::vector<std::vector<int32_t>> begins_, ends_;  // residences, per item
  std::vector<Progress> progress_;                   // per residence
  ByteRangeMap<Counts> owners_;
  std::vector<int64_t> disk_read_, disk_written_;    // per storage: steps of the disk lanes that touched its room there
  std::vector<int64_t> scratch_;
  std::vector<bool> leaves_;                         // per storage: a variable that is not in host memory for good
  int32_t partition_ = 0;
  int64_t next_position_ = 0;
  std::vector<int64_t> new_position_;                // by former position
};

}  // namespace

absl::Status TierHostMemory(const Machine& machine, int64_t host_budget_bytes, int64_t other_state_bytes, ExecutionPlan* plan) {
  return Tierer(machine, host_budget_bytes, other_state_bytes, *plan).Run();
}

}  // namespace millrace
