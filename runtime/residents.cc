#include "runtime/residents.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "runtime/runtime_device.h"
#include "runtime/variable_store.h"

namespace millrace {
namespace {

const void* ValueOf(const Resident& resident) {
  return resident.variable != nullptr ? static_cast<const void*>(resident.variable) : resident.constant.data();
}

}  // namespace

void LostValues::Add(StoredVariable& variable, const absl::Status& error) {
  error_ = error;
  variable.initialized = false;  // the home is older than the last step, or half written
  names_.insert(variable.name);
}

absl::Status LostValues::status() const {
  if (names_.empty()) return absl::OkStatus();
  return WithMessage(error_, absl::StrCat(error_.message(), "; the last values of variables that lived outside of "
                                          "their homes are lost: ", absl::StrJoin(names_, ", ")));
}

absl::StatusOr<char*> Residents::ReserveArena(RuntimeDevice& device, int64_t bytes) {
  OnDevice& on = devices_[&device];
  if (bytes > on.arena_bytes) {
    LostValues lost;
    RemoveAll(on, lost);
    MR_RETURN_IF_ERROR(lost.status());
    ForgetArena(on);  // a device that cannot have the larger one has no longer the former, either
  }
  MR_ASSIGN_OR_RETURN(void* const arena, device.ReserveArena(bytes));
  CHECK(on.by_place.empty() || arena == on.arena) << "the arena of " << device.name() << " has moved";
  on.arena = static_cast<char*>(arena);
  on.arena_bytes = std::max(on.arena_bytes, bytes);
  return on.arena;
}

int64_t Residents::arena_bytes(const RuntimeDevice& device) const {
  const auto on = devices_.find(&device);
  return on == devices_.end() ? 0 : on->second.arena_bytes;
}

Resident* Residents::Find(const Resident& wanted, const char* place) {
  Resident* found = nullptr;
  const auto [begin, end] = by_value_.equal_range(ValueOf(wanted));
  for (auto it = begin; it != end; ++it) {
    if (!it->second->SameAs(wanted)) continue;
    if (it->second->place == place) return it->second;
    if (found == nullptr) found = it->second;
  }
  return found;
}

std::vector<Resident*> Residents::Within(const RuntimeDevice& device, const char* begin, const char* end) {
  std::vector<Resident*> found;
  std::map<const char*, Resident>& by_place = devices_[&device].by_place;
  auto it = by_place.upper_bound(begin);
  if (it != by_place.begin() && std::prev(it)->first + std::prev(it)->second.bytes > begin) --it;
  for (; it != by_place.end() && it->first < end; ++it) found.push_back(&it->second);
  return found;
}

absl::StatusOr<Resident*> Residents::Load(const Resident& wanted) {
  const auto copy = [&](const void* piece, int64_t at, int64_t size) { return wanted.device->CopyToDevice(wanted.place + at, piece, size); };
  if (wanted.variable == nullptr) {
    MR_RETURN_IF_ERROR(copy(wanted.constant.data(), 0, wanted.bytes));
  } else if (wanted.variable->initialized) {
    MR_RETURN_IF_ERROR(store_.ReadPart(*wanted.variable, wanted.home_offset, wanted.bytes, copy));
  }
  const auto [it, made] = devices_[wanted.device].by_place.emplace(wanted.place, wanted);
  CHECK(made) << "two values stay at one place";
  ++changes_;
  by_value_.emplace(ValueOf(wanted), &it->second);
  return &it->second;
}

void Residents::GoHome(Resident& resident, LostValues& lost) {
  if (!std::exchange(resident.newer, false)) return;
  const absl::Status copied = store_.WritePart(*resident.variable, resident.home_offset, resident.bytes, [&](void* piece, int64_t at, int64_t size) {
    return resident.device->CopyToHost(piece, resident.place + at, size);
  });
  if (!copied.ok()) lost.Add(*resident.variable, copied);
}

void Residents::Remove(Resident* resident, LostValues& lost) {
  GoHome(*resident, lost);
  Forget(resident);
}

void Residents::Forget(Resident* resident) {
  ++changes_;
  const auto [begin, end] = by_value_.equal_range(ValueOf(*resident));
  by_value_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == resident; }));
  devices_[resident->device].by_place.erase(resident->place);
}

void Residents::Flush(const StoredVariable* variable, LostValues& lost) {
  const auto [begin, end] = variable != nullptr ? by_value_.equal_range(variable) : std::pair(by_value_.begin(), by_value_.end());
  for (auto it = begin; it != end; ++it) GoHome(*it->second, lost);
}

void Residents::RemoveAllOf(const StoredVariable& variable, absl::FunctionRef<bool(const Resident&)> keep, LostValues& lost) {
  const auto [begin, end] = by_value_.equal_range(&variable);
  std::vector<Resident*> gone;
  for (auto it = begin; it != end; ++it) {
    if (!keep(*it->second)) gone.push_back(it->second);
  }
  for (Resident* resident : gone) Remove(resident, lost);
}

void Residents::RemoveAll(OnDevice& device, LostValues& lost) {
  while (!device.by_place.empty()) Remove(&device.by_place.begin()->second, lost);
}

void Residents::ForgetArena(OnDevice& device) {
  device.arena = nullptr;
  device.arena_bytes = 0;
  ++arena_moves_;
  ++changes_;
}

absl::Status Residents::RemoveAll() {
  LostValues lost;
  for (auto& [device, on] : devices_) {
    RemoveAll(on, lost);
    ForgetArena(on);
  }
  return lost.status();
}

}  // namespace millrace
