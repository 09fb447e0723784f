#include "passes/urgent_copies.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "millrace/types.h"
#include "passes/devices/add_send_recv.h"
#include "passes/emit/merge_schedules.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/device_replay.h"
#include "passes/swaps/choose_swaps.h"

namespace millrace {
namespace {

using Times = DeviceReplay::Times;

// What a replay of all devices shows of one.
struct Replayed {
  struct Copy {
    ScheduleItem item;
    Times times;
  };
  std::vector<Times> operations;
  std::vector<Copy> outs, ins;  // its lanes
};

// The Send whose bytes the storage has; invalid for those of this device.
NodeId SendOf(const Graph& graph, const DevicePlan& plan, int32_t storage) {
  const Node& root = graph.node(plan.device.root[storage].node);
  return root.op == kRecvOp ? root.inputs[0].node : NodeId();
}

bool IsSend(const Graph& graph, const DevicePlan& plan, int32_t operation) {
  const DeviceOperation& what = plan.device.operations[operation];
  return what.is_fetch && graph.node(what.node()).op == kSendOp;
}

class DevicesReplay {
 public:
  DevicesReplay(const Graph& graph, const Machine& machine, const std::vector<DevicePlan>& plans)
      : graph_(graph), plans_(plans), sent_(graph.num_ids(), 0), replayed_(plans.size()) {
    const CopyRates rates{machine.copy_latency_seconds, 1 / machine.to_host_bytes_per_second, 1 / machine.to_device_bytes_per_second};
    devices_.reserve(plans.size());
    for (const DevicePlan& plan : plans) {
      devices_.emplace_back(plan.device.access, rates, plan.schedule, plan.choice.decisions,
                            DeviceReplay::Addresses{plan.memory.residence_offsets, plan.memory.scratch_offsets},
                            DeviceReplay::OutWaits::kWriters);
    }
  }

  double Run(const std::vector<NodeId>& order) {
    items_.resize(plans_.size());
    for (const int32_t d : MergeSchedules(graph_, order, plans_)) {
      const Times times = Take(d, plans_[d].schedule.items[items_[d].size()]);
      items_[d].push_back({times.begin, times.end});
    }
    for (const DeviceReplay& device : devices_) seconds_ = std::max(seconds_, device.end());
    return seconds_;
  }

  double seconds() const { return seconds_; }  // of the step
  std::vector<std::vector<CopyTimes>> TakeItems() { return std::move(items_); }

  const std::vector<Replayed>& replayed() const { return replayed_; }
  // When the Send's bytes are in host memory.
  double sent(NodeId send) const { return sent_[send.value]; }

 private:
  Times Take(int32_t d, const ScheduleItem& item) {
    const DevicePlan& plan = plans_[d];
    switch (item.kind) {
      case ScheduleItem::Kind::kOperation: return TakeOperation(d, item);
      case ScheduleItem::Kind::kCopyOut: replayed_[d].outs.push_back({item, devices_[d].Take(item)}); return replayed_[d].outs.back().times;
      case ScheduleItem::Kind::kCopyIn: break;
    }
    const SwapDecision& decision = plan.choice.decisions[item.index];
    const NodeId send = SendOf(graph_, plan, decision.storage);
    const double begun = decision.anchor > 0 ? devices_[d].compute_end() : 0;
    replayed_[d].ins.push_back({item, devices_[d].Take(item, std::max(begun, send.valid() ? sent_[send.value] : 0))});
    return replayed_[d].ins.back().times;
  }

  Times TakeOperation(int32_t d, const ScheduleItem& item) {
    const DevicePlan& plan = plans_[d];
    double ready = 0;
    for (const RemoteWait& wait : plan.remote_waits.of(item.index)) ready = std::max(ready, replayed_[wait.device].operations[wait.operation].end);
    const Times times = devices_[d].Take(item, ready);
    replayed_[d].operations.push_back(times);
    if (!plan.device.operations[item.index].is_fetch) return times;
    replayed_[d].outs.push_back({item, times});
    if (!IsSend(graph_, plan, item.index)) return times;
    sent_[plan.device.operations[item.index].node().value] = times.end;
    for (const Access& access : plan.device.access.of(item.index)) devices_[d].SetOnHost(access.storage, times.end);
    return times;
  }

  const Graph& graph_;
  const std::vector<DevicePlan>& plans_;
  std::vector<double> sent_;  // per Send
  std::vector<DeviceReplay> devices_;
  std::vector<Replayed> replayed_;
  std::vector<std::vector<CopyTimes>> items_;
  double seconds_ = 0;
};

// What changes places.
struct Moves {
  bool sends = false, receives_come = false, receives_wait = false;
  bool under_way = false;  // what would be under way waits, too
};

// Copies of one device that change places.
class Passing {
 public:
  // `slack`: per Send, how much later it could end without anybody's waiting for it.
  Passing(const Graph& graph, const Replayed& replayed, const std::vector<double>& slack, DevicePlan& plan)
      : graph_(graph), replayed_(replayed), slack_(slack), plan_(plan) {}

  // Whether any did.
  bool Run(const Moves& moves) {
    if (moves.sends) SendsPass(moves);
    if (moves.receives_come || moves.receives_wait) ReceivesChangePlaces(moves);
    return changed_;
  }

 private:
  SwapDecision& DecisionOf(const ScheduleItem& item) { return plan_.choice.decisions[item.index]; }
  bool IsReceive(const SwapDecision& d) const {
    return d.after == SwapDecision::kFromHost && SendOf(graph_, plan_, d.storage).valid();
  }
  // How much later the copy in could end.
  double SlackOf(const Replayed::Copy& in) { return replayed_.operations[DecisionOf(in.item).before].begin - in.times.end; }

  // Copies out that had not begun when a Send's bytes were there go after it.
  void SendsPass(const Moves& moves) {
    const std::vector<Replayed::Copy>& outs = replayed_.outs;
    for (size_t p = 0; p < outs.size(); ++p) {
      const auto& [item, times] = outs[p];
      if (item.kind != ScheduleItem::Kind::kOperation || !IsSend(graph_, plan_, item.index)) continue;
      const double queued = times.begin - times.ready;
      if (queued <= 0 || slack_[plan_.device.operations[item.index].node().value] >= queued) continue;
      for (size_t q = p; q-- > 0 && (moves.under_way ? outs[q].times.end > times.ready : outs[q].times.begin >= times.ready);) {
        if (outs[q].item.kind == ScheduleItem::Kind::kCopyOut) GoOutAfter(outs[q].item, item.index);
      }
    }
  }

  void GoOutAfter(const ScheduleItem& item, int32_t operation) {
    SwapDecision& d = DecisionOf(item);
    const bool comes_back = d.before != SwapDecision::kToHost && d.copy_in;
    if (d.wait_out || d.out_after < 0 || d.out_after >= operation || (comes_back ? d.anchor : d.before) <= operation || item.residence < 0) return;
    if (plan_.schedule.residences[item.residence].last < plan_.schedule.position_of_operation[operation] &&
        !RoomUntil(item.residence, plan_.schedule.position_of_operation[operation])) {
      return;
    }
    d.out_after = operation;
    changed_ = true;
  }

  // Whether nobody takes the stay's bytes from its end to `position`.
  bool RoomUntil(int32_t residence, int64_t position) {
    const Stay& stay = plan_.schedule.residences[residence];
    const int64_t offset = plan_.memory.residence_offsets[residence], bytes = plan_.device.access.aligned_bytes(stay.storage);
    const auto meets = [&](int64_t from, int64_t size) { return from < offset + bytes && offset < from + size; };
    if (by_first_.empty()) {
      for (size_t r = 0; r < plan_.schedule.residences.size(); ++r) by_first_.push_back({plan_.schedule.residences[r].first, static_cast<int32_t>(r)});
      std::sort(by_first_.begin(), by_first_.end());
    }
    for (auto it = std::upper_bound(by_first_.begin(), by_first_.end(), std::pair(stay.last, INT32_MAX));
         it != by_first_.end() && it->first <= position; ++it) {
      const Stay& other = plan_.schedule.residences[it->second];
      if (meets(plan_.memory.residence_offsets[it->second], plan_.device.access.aligned_bytes(other.storage))) return false;
    }
    const std::vector<int64_t>& at = plan_.schedule.position_of_operation;
    for (auto it = std::upper_bound(at.begin(), at.end(), stay.last); it != at.end() && *it <= position; ++it) {
      const auto i = static_cast<int32_t>(it - at.begin());
      const int64_t scratch = plan_.device.access.aligned_scratch(i);
      if (scratch > 0 && meets(plan_.memory.scratch_offsets[i], scratch)) return false;
    }
    return true;
  }

  // The lane of copies in, in the order in which they shall come.
  void ReceivesChangePlaces(const Moves& moves) {
    const std::vector<Replayed::Copy>& ins = replayed_.ins;
    std::vector<size_t> lane;
    bool changed = false;
    for (size_t p = 0; p < ins.size(); ++p) {
      lane.push_back(p);
      if (!moves.receives_come || !IsReceive(DecisionOf(ins[p].item))) continue;
      changed = ComeFirst(moves, p, lane) || changed;
    }
    if (moves.receives_wait && ReceivesWait(lane)) changed = true;
    if (changed) SetPlaces(lane);
  }

  // A Recv that others kept from beginning goes before those that can wait longer.
  bool ComeFirst(const Moves& moves, size_t p, std::vector<size_t>& lane) {
    const Replayed::Copy& receive = replayed_.ins[p];
    const double queued = receive.times.begin - receive.times.ready, slack = SlackOf(receive);
    if (queued <= 0 || slack >= queued) return false;
    const int32_t before = DecisionOf(receive.item).before;
    size_t q = lane.size() - 1;
    for (; q > 0; --q) {
      const Replayed::Copy& other = replayed_.ins[lane[q - 1]];
      if (moves.under_way ? other.times.end <= receive.times.ready : other.times.begin < receive.times.ready) break;
      const SwapDecision& d = DecisionOf(other.item);
      if (d.before <= before || SlackOf(other) <= slack) break;
    }
    if (q + 1 == lane.size()) return false;
    std::rotate(lane.begin() + static_cast<std::ptrdiff_t>(q), lane.end() - 1, lane.end());
    return true;
  }

  // Copies that are over when a Recv can begin go before it.
  bool ReceivesWait(std::vector<size_t>& lane) {
    bool changed = false;
    for (size_t p = lane.size(); p-- > 0;) {
      const Replayed::Copy& receive = replayed_.ins[lane[p]];
      const SwapDecision& d = DecisionOf(receive.item);
      if (!IsReceive(d) || receive.times.begin > receive.times.ready) continue;
      double free = p > 0 ? replayed_.ins[lane[p - 1]].times.end : 0;
      size_t q = p;
      for (; q + 1 < lane.size(); ++q) {
        const Replayed::Copy& other = replayed_.ins[lane[q + 1]];
        const SwapDecision& o = DecisionOf(other.item);
        free = std::max(free, other.times.ready) + (other.times.end - other.times.begin);
        if (o.anchor > d.before || free > receive.times.ready) break;
      }
      if (q == p) continue;
      std::rotate(lane.begin() + static_cast<std::ptrdiff_t>(p), lane.begin() + static_cast<std::ptrdiff_t>(p) + 1,
                  lane.begin() + static_cast<std::ptrdiff_t>(q) + 1);
      changed = true;
    }
    return changed;
  }

  void SetPlaces(const std::vector<size_t>& lane) {
    int32_t anchor = 0, place = 0;
    for (const size_t p : lane) {
      SwapDecision& d = DecisionOf(replayed_.ins[p].item);
      place = d.anchor > anchor ? 0 : place + 1;
      anchor = std::max(anchor, d.anchor);
      d.anchor = anchor;
      d.order = place;
    }
    changed_ = true;
  }

  const Graph& graph_;
  const Replayed& replayed_;
  const std::vector<double>& slack_;
  DevicePlan& plan_;
  std::vector<std::pair<int64_t, int32_t>> by_first_;  // stays
  bool changed_ = false;
};

// Per Send: how much later it could end, by the operations that wait for the Recvs.
std::vector<double> SlackOfSends(const Graph& graph, const std::vector<DevicePlan>& plans, const DevicesReplay& replay) {
  std::vector<double> slack(graph.num_ids(), replay.seconds());
  for (size_t d = 0; d < plans.size(); ++d) {
    for (const Replayed::Copy& in : replay.replayed()[d].ins) {
      const SwapDecision& decision = plans[d].choice.decisions[in.item.index];
      const NodeId send = SendOf(graph, plans[d], decision.storage);
      if (!send.valid() || decision.after != SwapDecision::kFromHost) continue;
      const double of_use = replay.replayed()[d].operations[decision.before].begin - in.times.end;
      slack[send.value] = std::min(slack[send.value], of_use + in.times.begin - replay.sent(send));
    }
  }
  return slack;
}

// With the addresses that it has; whether they hold.
bool Reschedule(DevicePlan& plan) {
  const AccessGraph& access = plan.device.access;
  plan.schedule = BuildSchedule(access, plan.choice);
  if (plan.schedule.residences.size() != plan.memory.residence_offsets.size()) return false;
  const int64_t arena_bytes = plan.memory.arena_bytes;
  SwapChoice placed;
  placed.residence_offsets = plan.memory.residence_offsets;
  placed.scratch_offsets = plan.memory.scratch_offsets;
  plan.memory = PackMemory(access, plan.schedule, placed, 0);
  plan.memory.arena_bytes = std::max(plan.memory.arena_bytes, arena_bytes);
  return VerifyMemory(access, plan.schedule, plan.memory).ok();
}

// One round: moves from the same places, until some make the step shorter.
class Trial {
 public:
  Trial(const Graph& graph, const std::vector<NodeId>& order, const Machine& machine, std::vector<DevicePlan>& plans)
      : graph_(graph), order_(order), machine_(machine), plans_(plans) {
    DevicesReplay replay(graph, machine, plans);
    seconds_ = replay.Run(order);
    slack_ = SlackOfSends(graph, plans, replay);
    replayed_ = replay.replayed();
  }

  // The step's length then, as a part of that before; 1 or more: everything is as it was.
  double Run(const Moves& moves) {
    std::vector<Saved> saved;
    for (const DevicePlan& plan : plans_) saved.push_back({plan.choice.decisions, plan.schedule, plan.memory});
    bool changed = false, holds = true;
    for (size_t d = 0; d < plans_.size(); ++d) {
      if (!Passing(graph_, replayed_[d], slack_, plans_[d]).Run(moves)) continue;
      changed = true;
      holds = holds && VerifySwaps(plans_[d].device.access, plans_[d].choice).ok() && Reschedule(plans_[d]);
    }
    const double seconds = changed && holds ? DevicesReplay(graph_, machine_, plans_).Run(order_) : seconds_;
    if (seconds < seconds_) return seconds / seconds_;
    for (size_t d = 0; d < plans_.size(); ++d) {
      plans_[d].choice.decisions = std::move(saved[d].decisions);
      plans_[d].schedule = std::move(saved[d].schedule);
      plans_[d].memory = std::move(saved[d].memory);
    }
    return 1;
  }

 private:
  struct Saved {
    std::vector<SwapDecision> decisions;
    Schedule schedule;
    MemoryAssignment memory;
  };

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  const Machine& machine_;
  std::vector<DevicePlan>& plans_;
  double seconds_ = 0;
  std::vector<double> slack_;
  std::vector<Replayed> replayed_;
};

}  // namespace

DevicesTimes ReplayDevices(const Graph& graph, const std::vector<NodeId>& order, const Machine& machine, const std::vector<DevicePlan>& plans) {
  DevicesReplay replay(graph, machine, plans);
  DevicesTimes times;
  times.step_seconds = replay.Run(order);
  times.items = replay.TakeItems();
  return times;
}

bool LetUrgentCopiesPass(const Graph& graph, const std::vector<NodeId>& order, const Machine& machine, std::vector<DevicePlan>& plans) {
  constexpr int kMostTrials = 16;
  constexpr double kLeastGain = 0.9995;  // of the step, for another round
  constexpr Moves kMoves[] = {{true, true, true, false}, {true, true, true, true}, {true, false, false, true}, {false, true, true, true}};
  bool shorter = false;
  int trials = 0;
  for (bool again = true; again;) {
    again = false;
    Trial trial(graph, order, machine, plans);
    for (const Moves& moves : kMoves) {
      if (trials++ == kMostTrials) return shorter;
      const double gained = trial.Run(moves);
      if (gained >= 1) continue;
      shorter = true;
      again = gained < kLeastGain;
      break;
    }
  }
  return shorter;
}

}  // namespace millrace
