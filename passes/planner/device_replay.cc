#include "passes/planner/device_replay.h"

#include "millrace/types.h"

namespace millrace {

DeviceReplay::DeviceReplay(const AccessGraph& graph, const CopyRates& rates, const Schedule& schedule,
                           const std::vector<SwapDecision>& decisions, Addresses addresses, OutWaits out_waits)
    : graph_(graph),
      rates_(rates),
      schedule_(schedule),
      decisions_(decisions),
      addresses_(addresses),
      out_waits_(out_waits),
      done_(schedule.residences.size() + graph.num_operations(), 0),
      arrived_(schedule.residences.size(), 0),
      read_(schedule.residences.size(), 0),
      written_(out_waits == OutWaits::kWriters ? schedule.residences.size() : 0, 0),
      claimed_(schedule.residences.size(), false),
      fetches_(graph.num_operations(), false),
      on_host_(graph.storages.size(), 0) {
  for (int32_t fetch : graph.fetches) fetches_[fetch] = true;
  for (size_t r = 0; r < schedule.residences.size(); ++r) {
    if (schedule.residences[r].resident) Claim(static_cast<int32_t>(r));
  }
}

DeviceReplay::Times DeviceReplay::Take(const ScheduleItem& item, double ready) {
  switch (item.kind) {
    case ScheduleItem::Kind::kOperation: return fetches_[item.index] ? Fetch(item.index, ready) : RunOperation(item.index, ready);
    case ScheduleItem::Kind::kCopyOut: return CopyOut(item, ready);
    case ScheduleItem::Kind::kCopyIn: break;
  }
  return CopyIn(item, ready);
}

// When the bytes are free.
double DeviceReplay::ClaimBytes(int32_t owner, int64_t offset, int64_t bytes) {
  double free = 0;
  for (int32_t former : owners_.Claim(offset, bytes).ids) free = std::max(free, done_[former]);
  owners_.Release(offset, bytes, Owners{{owner}});
  return free;
}

double DeviceReplay::Claim(int32_t r) {
  if (claimed_[r]) return 0;
  claimed_[r] = true;
  return ClaimBytes(r, addresses_.of_residences[r], graph_.aligned_bytes(schedule_.residences[r].storage));
}

DeviceReplay::Times DeviceReplay::RunOperation(int32_t i, double ready) {
  for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
    const int32_t r = schedule_.residence_of[k];
    ready = std::max({ready, Claim(r), arrived_[r], graph_.accesses[k].writes ? read_[r] : 0.0});
  }
  const auto scratch = static_cast<int32_t>(schedule_.residences.size()) + i;
  if (graph_.scratch_bytes[i] > 0) {
    ready = std::max(ready, ClaimBytes(scratch, addresses_.of_scratch[i], graph_.aligned_scratch(i)));
  }
  const double begin = std::max(compute_free_, ready);
  compute_free_ = begin + graph_.seconds[i];
  for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
    const int32_t r = schedule_.residence_of[k];
    Touch(r, compute_free_);
    if (out_waits_ == OutWaits::kWriters && graph_.accesses[k].writes) written_[r] = compute_free_;
  }
  done_[scratch] = compute_free_;
  return {ready, begin, compute_free_};
}

DeviceReplay::Times DeviceReplay::Fetch(int32_t i, double ready) {
  Times times{ready, std::max(ready, out_free_), std::max(ready, out_free_)};
  for (int64_t k = graph_.first_access[i]; k < graph_.first_access[i + 1]; ++k) {
    const int32_t r = schedule_.residence_of[k];
    times.ready = std::max({times.ready, Written(r), arrived_[r]});
    times.begin = std::max(out_free_, times.ready);
    out_free_ = times.begin + rates_.latency + Bytes(graph_.accesses[k].storage) * rates_.seconds_per_byte_out;
    times.end = out_free_;
    read_[r] = std::max(read_[r], out_free_);
    Touch(r, out_free_);
  }
  return times;
}

DeviceReplay::Times DeviceReplay::CopyOut(const ScheduleItem& item, double ready) {
  const int32_t storage = decisions_[item.index].storage;
  ready = std::max(ready, Written(item.residence));
  const double begin = std::max(out_free_, ready);
  out_free_ = begin + rates_.latency + Bytes(storage) * rates_.seconds_per_byte_out;
  on_host_[storage] = out_free_;
  if (item.residence >= 0) {
    read_[item.residence] = std::max(read_[item.residence], out_free_);
    Touch(item.residence, out_free_);
  }
  return {ready, begin, out_free_};
}

DeviceReplay::Times DeviceReplay::CopyIn(const ScheduleItem& item, double ready) {
  const int32_t storage = decisions_[item.index].storage, r = item.residence;
  ready = std::max({ready, on_host_[storage], Claim(r)});
  const double begin = std::max(in_free_, ready);
  in_free_ = begin + rates_.latency + Bytes(storage) * rates_.seconds_per_byte_in;
  arrived_[r] = in_free_;
  Touch(r, in_free_);
  return {ready, begin, in_free_};
}

// When residence r (-1: of the last step) may be copied out. Its last write lies before the copy: the lane of operations has passed it.
double DeviceReplay::Written(int32_t r) const {
  if (out_waits_ == OutWaits::kOperations) return compute_free_;
  return r < 0 ? 0 : written_[r];
}

}  // namespace millrace
