// Where a plan's addresses on one device are while its executor has its turn. What stays over the step's end is left where another
// executor has put it, if no step of this plan writes there; the plan as a whole lies where it hurts least:
//
//   arena   | a  b  c  d  ...  ...  ...  ... |   a to d stay, planned at 0; their steps use what follows
//   this    | .  .  .  .             | a' c' x y z |   planned at 0, too: lies at the arena's end, finds a and c at their places
//
// Only what comes to lie under something is brought home and loaded again.
#ifndef MILLRACE_RUNTIME_DEVICE_PLACES_H_
#define MILLRACE_RUNTIME_DEVICE_PLACES_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "runtime/residents.h"

namespace millrace {

// From addresses of a plan to the device's memory.
class ArenaMap {
 public:
  // [begin, end) of the plan lies at `place`, not where the rest of it says.
  struct Moved {
    int64_t begin = 0, end = 0;
    char* place = nullptr;
    bool operator==(const Moved&) const = default;
  };

  ArenaMap() = default;
  // `base`: nullptr where the device has no data. `moved`: by address, none over another.
  explicit ArenaMap(char* base, std::vector<Moved> moved = {}) : base_(base), moved_(std::move(moved)) {}

  char* base() const { return base_; }
  char* At(int64_t offset) const;
  bool operator==(const ArenaMap&) const = default;

 private:
  char* base_ = nullptr;
  std::vector<Moved> moved_;
};

class DevicePlaces {
 public:
  // `variables`: as plan.variables.
  DevicePlaces(const ExecutionPlan& plan, int32_t device, RuntimeDevice* memory, const std::vector<StoredVariable*>& variables);

  // When its turn comes: where the plan lies, and what of what is to stay it finds, which `shared` gets.
  void Choose(Residents& residents, char* arena, int64_t arena_bytes, std::set<const Resident*>& shared);
  // Then: brings home what is in the way, but for `shared`.
  void MakeRoom(Residents& residents, const std::set<const Resident*>& shared, LostValues& lost);
  // Then: loads what was not found. Other values of these variables are gone.
  absl::Status Load(Residents& residents);
  // After Load, until it is another's turn.
  const ArenaMap& map() const { return map_; }
  // Of plan variable `i`; nullptr where it does not stay on this device, or has no bytes.
  Resident* resident(size_t i) const;
  // Before the plan goes, which has their bytes; nobody has the turn.
  bool has_constants() const { return has_constants_; }
  void ForgetConstants(Residents& residents);
  // A step failed: of what may be elsewhere within it, and is at home, its place may hold anything. Whether there is any: it must be
  // loaded again.
  bool ForgetWhatLeaves(Residents& residents);

 private:
  // Of addresses of the plan.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  struct Stay {
    int32_t variable = -1;  // of the plan, or a constant
    Resident wanted;
    int64_t offset = 0;
    bool alone = true;      // nothing else is ever at its address: it may as well be elsewhere
    Resident* found = nullptr;
    int64_t end() const { return offset + wanted.bytes; }
  };

  void AddStays(const ExecutionPlan& plan, const std::vector<StoredVariable*>& variables);
  void FindWrites(const ExecutionPlan& plan);
  // The stays that have bytes in the range.
  std::pair<size_t, size_t> StaysIn(const Range& range) const;
  bool IsWritten(const Range& range) const;
  bool IsAtOwnPlace(const Resident& resident, const char* base) const;
  int64_t BytesInTheWay(Residents& residents, const char* base) const;
  char* ChooseBase(Residents& residents, char* arena, int64_t arena_bytes) const;
  void FindShared(Residents& residents);

  const int32_t device_;
  RuntimeDevice* const memory_;
  const int64_t plan_bytes_;
  std::vector<Stay> stays_;  // by offset, none over another
  std::vector<int32_t> stay_of_variable_;  // of the plan's variables, into stays_; -1: none
  bool has_constants_ = false;
  std::vector<Range> written_;  // by steps, beside what stays alone: by address, apart from each other
  char* base_ = nullptr;
  ArenaMap map_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DEVICE_PLACES_H_
