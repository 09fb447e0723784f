// What stays on the devices of a session between steps: variables, parts of them and constants, by place. Executors take turns in
// the same memory; the next one finds there what it shares with those before it, as long as nothing of its own comes to lie over it.
//
// A variable's newest value is where it stays or in its home, never in two places that differ unnoticed: `newer` says which. One
// thread at a time; not during a step.
#ifndef MILLRACE_RUNTIME_RESIDENTS_H_
#define MILLRACE_RUNTIME_RESIDENTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

class RuntimeDevice;
class VariableStore;
struct StoredVariable;

struct Resident {
  StoredVariable* variable = nullptr;  // or a constant
  Tensor constant;
  int64_t home_offset = 0;  // of a part of the variable: where it begins in its home
  int64_t bytes = 0;        // never none
  RuntimeDevice* device = nullptr;
  char* place = nullptr;
  bool newer = false;  // than the home

  bool SameAs(const Resident& other) const {
    return variable == other.variable && constant.data() == other.constant.data() && home_offset == other.home_offset &&
           bytes == other.bytes && device == other.device;
  }
};

// Variables whose last values could not be brought home; they count as not initialised.
class LostValues {
 public:
  void Add(StoredVariable& variable, const absl::Status& error);
  // Names them all, with the last error; OK where there are none.
  absl::Status status() const;

 private:
  absl::Status error_;
  std::set<std::string> names_;
};

class Residents {
 public:
  // `store` outlives this object.
  explicit Residents(VariableStore& store) : store_(store) {}

  // The device's arena; what stays in it goes home before it moves.
  absl::StatusOr<char*> ReserveArena(RuntimeDevice& device, int64_t bytes);
  // No more than the arena has: as much as was asked for since it may have moved.
  int64_t arena_bytes(const RuntimeDevice& device) const;
  // How often an arena may have moved: it may be another one at the same address.
  int64_t arena_moves() const { return arena_moves_; }
  // How often something came to stay, or went, or an arena moved. While it is the same all is where it was.
  int64_t changes() const { return changes_; }

  // At `place` where it stays there, else wherever it stays on the device; nullptr where it does not. A constant may stay twice.
  Resident* Find(const Resident& wanted, const char* place = nullptr);
  // Those that have bytes in [begin, end), which is of the device's arena.
  std::vector<Resident*> Within(const RuntimeDevice& device, const char* begin, const char* end);
  // Copies the home's value, if there is one, to `wanted.place`, where nothing else stays.
  absl::StatusOr<Resident*> Load(const Resident& wanted);
  // The newer value goes home; what was there is forgotten.
  void Remove(Resident* resident, LostValues& lost);
  // What is there is not the value any more.
  void Forget(Resident* resident);

  // Homes get what is newer: of the variable, or of all for nullptr. What stays goes on staying.
  void Flush(const StoredVariable* variable, LostValues& lost);
  // Then nothing of it stays, but what `keep` says.
  void RemoveAllOf(const StoredVariable& variable, absl::FunctionRef<bool(const Resident&)> keep, LostValues& lost);
  // Nothing stays on any device, and arenas may move.
  absl::Status RemoveAll();

 private:
  struct OnDevice {
    char* arena = nullptr;
    int64_t arena_bytes = 0;
    std::map<const char*, Resident> by_place;
  };
  void GoHome(Resident& resident, LostValues& lost);
  void RemoveAll(OnDevice& device, LostValues& lost);
  // Nothing stays in it.
  void ForgetArena(OnDevice& device);

  VariableStore& store_;
  int64_t arena_moves_ = 0;
  int64_t changes_ = 0;
  std::map<const RuntimeDevice*, OnDevice> devices_;
  std::multimap<const void*, Resident*> by_value_;  // variables, and bytes of constants
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_RESIDENTS_H_
