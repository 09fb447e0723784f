// Device lanes: the steps of one device and what they wait for, item by item of its schedule (a part of build_plan).
#ifndef MILLRACE_PASSES_EMIT_DEVICE_LANES_H_
#define MILLRACE_PASSES_EMIT_DEVICE_LANES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/plan.h"
#include "passes/emit/build_plan.h"
#include "passes/emit/host_pool.h"
#include "passes/memory/owner_map.h"

namespace millrace {

// What the lanes of all devices share while the plan is made.
struct PlanUnderWay {
  ExecutionPlan plan;
  std::map<std::string, int32_t> feed_index;
  std::map<std::string, int32_t> variable_index;
  std::vector<int32_t> variable_of_node;  // that declares it; -1
  HostPool pool;
  std::map<int32_t, int32_t> slot_of_send;  // by Send node
  int64_t next_position = 0;
  bool has_parts = false;      // some variables are parts of others (parts.h)
  bool has_instances = false;  // the plan's are those of its only device, all of them
  // Per device and operation that has been emitted: compute steps of its lane when it is done.
  std::vector<std::vector<int64_t>> compute_count;
};

class DeviceLanes {
 public:
  // All arguments outlive it.
  DeviceLanes(const PlanInputs& inputs, int32_t device, PlanUnderWay& shared);

  // Constants of this device, addresses of what is resident.
  void ListResidents();
  // Slots of the host pool for what this device sends and swaps; `position` of each item in the order of all.
  void AddSlots(const std::vector<int64_t>& position);
  // … and until when it needs those of other devices' Sends. After AddSlots of all devices.
  void ExtendSentSlots(const std::vector<int64_t>& position);
  // The next item of the schedule, at `position` in the order of all items.
  void Emit(int64_t position);
  // After the last item: gives back what only emitting took, the device graph's operations among it …
  void ForgetEmitted();
  // … which is room for these.
  void ListResidences();

  int32_t variable_of(int32_t storage) const { return variable_of_storage_[storage]; }
  std::vector<int32_t>& owner_of_storage() { return owner_of_storage_; }

 private:
  // What happened to a residence so far.
  struct Progress {
    LaneCounts touched{};  // last step of each lane that touched its bytes
    LaneCounts read{};     // … that read them since the last write
    int32_t written_lane = -1;
    int32_t written_count = 0;
  };

  StorageKind KindOf(int32_t storage) const { return access_.storages[storage].kind; }
  const Node& RootOf(int32_t storage) const { return in_.graph.node(my_.device.root[storage].node); }
  const SharedText& NameOf(int32_t storage) const { return shared_.plan.tensors[owner_of_storage_[storage]]; }
  bool IsReceived(int32_t storage) const;
  CopyTimes TimesOf(int64_t item) const { return in_.item_times.empty() ? CopyTimes{} : in_.item_times[device_][item]; }
  Lane& LaneOf(int kind) { return shared_.plan.lanes[first_lane_ + kind]; }
  // needed[lane] as of this device's lanes.
  void Need(int kind, int64_t count);
  void Need(const LaneCounts& counts);

  void ListBoundaries();
  // The next operation node's instance, in the plan.
  int32_t NextInstance();
  void ClaimRoom(int64_t item);
  void ReleaseRoom(int64_t item);
  void Touch(int32_t residence, int kind, int64_t count, bool reads, bool writes);
  StepWaits WaitsFor(int kind);

  void EmitOperation(int32_t i, int64_t position);
  void AddComputeStep(int32_t i, OperationNode& operation, int64_t scratch_offset, StepWaits waits);
  // Of the operation under way.
  int64_t AddressOf(int32_t operation, int32_t storage) const;
  void FillAddresses(int32_t i, const OperationNode& operation, const OpDef& def, ComputeStep& step) const;
  void FillVariables(NodeId id, const OpDef& def, ComputeStep& step) const;
  int32_t VariableIndex(OutputRef ref) const;
  void EmitFetch(int32_t i);
  void EmitSend(int32_t i, int64_t position);
  void AddCopy(int kind, int32_t residence, CopyStep step);
  CopyStep SwapStep(NodeId id, const SwapDecision& d) const;
  HostRef HostSide(int32_t decision, const SwapDecision& d) const;
  void EmitCopyOut(int64_t position, const ScheduleItem& item);
  void EmitCopyIn(int64_t position, const ScheduleItem& item);

  const PlanInputs& in_;
  DevicePlan& my_;
  const AccessGraph& access_;
  PlanUnderWay& shared_;
  const int32_t device_;
  const int32_t first_lane_;
  std::vector<int32_t> variable_of_storage_, constant_of_storage_;
  std::vector<int32_t> owner_of_storage_;    // into plan.tensors
  std::vector<int64_t> last_access_;         // per storage, of the operations emitted so far; -1
  std::vector<int32_t> slot_;                // per decision, in the host pool; -1 for none
  std::map<int32_t, int64_t> home_written_;  // per variable: to-host steps that wrote its home
  std::map<int32_t, LaneCounts> home_read_;
  std::vector<int64_t> bytes_;  // per residence
  // Residences by the item they begin and end with: indices[begin[item] .. begin[item + 1]).
  struct ByItem {
    std::vector<int32_t> begin, indices;
    absl::Span<const int32_t> of(int64_t item) const {
      return absl::MakeConstSpan(indices).subspan(begin[item], begin[item + 1] - begin[item]);
    }
  };
  ByItem begins_, ends_;
  int64_t next_item_ = 0;
  size_t next_instance_ = 0;
  std::vector<int64_t> first_position_, last_position_;  // of the plan, per item of the schedule
  std::vector<Progress> progress_;
  OwnerMap<LaneCounts> owners_;
  std::vector<int64_t> needed_;                   // per lane of all devices: what the item under way waits for
  std::array<std::vector<int64_t>, kNumLanes> reached_;  // per lane of this device: waits it has made
  LaneCounts compute_waits_{};  // what every compute step from here on waits for
  int32_t partition_ = -1;      // of the last operation
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_DEVICE_LANES_H_
