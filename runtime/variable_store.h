// Variables of a session: their homes in host memory by name, and the state blocks of nodes (the stream position of
// a random op). They persist from step to step and from plan to plan.
//
// What stays on devices (residents.h) may be newer than the homes, and so may what the executor whose turn it is holds in the host pool;
// the store brings it home before anyone else reads or writes. One thread at a time; not during a step.
#ifndef MILLRACE_RUNTIME_VARIABLE_STORE_H_
#define MILLRACE_RUNTIME_VARIABLE_STORE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "millrace/tensor.h"
#include "runtime/host_memory.h"
#include "runtime/residents.h"

namespace millrace {

struct StoredVariable {
  std::string name;
  TensorType type;
  void* home = nullptr;      // room_bytes, fixed for the store's life; nullptr when it is on disk
  int64_t room_bytes = 0;    // of its home, or of each place on disk: type.size_bytes(), or more when the type was another
  bool initialized = false;  // home (or where it stays) holds a value
  bool declared = false;     // a program uses it
  // A home on disk has two places: a value is written to the one that is not `disk_place` and counts from when it is
  // whole, so a write that fails leaves the former value.
  int64_t disk_offsets[2] = {0, 0};
  int disk_place = 0;
};

class DiskTier;

// Whose turn it is: who may hold newer values in the host pool than the homes do.
class PoolOwner {
 public:
  virtual ~PoolOwner() = default;
  // Copies what is newer in the pool to the homes. An error names the variables whose values are lost; they count as
  // not initialised then.
  virtual absl::Status Flush() = 0;
  // After that, when the owner is one no more.
  virtual void Deactivate() {}
};

class VariableStore {
 public:
  // `memory` outlives the store.
  explicit VariableStore(HostMemory* memory) : memory_(memory) {}
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  // Homes of variables are on this disk from now on; before the first is declared. `disk` outlives the store.
  void UseDisk(DiskTier* disk) { disk_ = disk; }

  // The bytes of a variable's home, piece by piece: `piece` is a part of the value that begins `at` bytes into it. Its
  // whole where the home is in memory.
  absl::Status ReadHome(const StoredVariable& variable,
                        absl::FunctionRef<absl::Status(const void* piece, int64_t at, int64_t size)> take);
  // Gives the home a new value; after an error a home on disk has the former one.
  absl::Status WriteHome(StoredVariable& variable, absl::FunctionRef<absl::Status(void* piece, int64_t at, int64_t size)> fill);
  // The same of `bytes` of it from `offset` on: all of them, unless the home is in memory.
  absl::Status ReadPart(const StoredVariable& variable, int64_t offset, int64_t bytes,
                        absl::FunctionRef<absl::Status(const void* piece, int64_t at, int64_t size)> take);
  absl::Status WritePart(StoredVariable& variable, int64_t offset, int64_t bytes,
                         absl::FunctionRef<absl::Status(void* piece, int64_t at, int64_t size)> fill);

  // The variable of that name for a program, made when it is new. InvalidArgument when it exists with another type.
  absl::StatusOr<StoredVariable*> Declare(const std::string& name, const TensorType& type);
  // nullptr when unknown. Its home may be older than its value.
  const StoredVariable* Find(const std::string& name) const;

  // Zeroed memory that belongs to the node `node`, the same on every call.
  absl::StatusOr<void*> StateBlock(const std::string& node, int64_t bytes);
  // Copies of all state blocks by node, uint8[bytes].
  std::map<std::string, Tensor> ReadStates() const;
  // Fills the node's block, made when it is new. InvalidArgument for another type, or for another size than a plan has asked for.
  absl::Status SetState(const std::string& node, const Tensor& state);

  // Types of all initialised variables, by name.
  std::map<std::string, TensorType> Types() const;
  // Copies of all initialised variables, by name.
  absl::StatusOr<std::map<std::string, Tensor>> Read();
  // The same one by one, in name order: there is one copy at a time.
  absl::Status ReadEach(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take);
  // A copy of that one. FailedPrecondition where it has no value.
  absl::StatusOr<Tensor> Read(const std::string& name);
  // Sets a variable, made when it is new. InvalidArgument when the types differ and a program uses it.
  absl::Status Set(const std::string& name, const Tensor& value);
  // The same, of any type, whoever uses it: a variable that had another has no value of it from now on, and no executor may use it as such. Its
  // home stays where the value has room in it; else it gets another one, and the memory of the former, but not its place on disk, is given back.
  absl::Status Replace(const std::string& name, const Tensor& value);
  // The variable of that name has no value from now on; it need not have had one, or be declared.
  absl::Status Clear(const std::string& name);

  // Makes `owner` (may be null) the one executor that may hold newer values in the pool; the former one is flushed and
  // deactivated. The error is its flush's. With null the homes are the newest values then: what stays on devices is brought home, too.
  absl::Status Acquire(PoolOwner* owner);
  // Flushes, deactivates and forgets the present one, if any, also when the flush fails.
  absl::Status Release();
  const PoolOwner* owner() const { return owner_; }
  Residents& residents() { return residents_; }
  // All homes are the newest values, and nothing stays on a device.
  absl::Status LeaveDevices();

 private:
  absl::StatusOr<StoredVariable*> Make(const std::string& name, const TensorType& type);
  absl::Status FindHome(StoredVariable& variable, int64_t bytes);
  // The home becomes as new as the value, and nothing else holds it then.
  absl::Status BringHome(const StoredVariable& variable);
  // Homes become as new as what stays on devices: of the variable, or of all for nullptr.
  absl::Status FlushDevices(const StoredVariable* variable);
  // Of a home that is as new as the value.
  absl::StatusOr<Tensor> CopyOf(const StoredVariable& variable);

  HostMemory* const memory_;
  DiskTier* disk_ = nullptr;
  std::map<std::string, std::unique_ptr<StoredVariable>> variables_;
  struct State {
    void* data = nullptr;
    int64_t bytes = 0;
    bool asked_for = false;  // by StateBlock
  };
  absl::StatusOr<State*> StateOf(const std::string& node, int64_t bytes);
  std::map<std::string, State> states_;
  PoolOwner* owner_ = nullptr;
  Residents residents_{*this};
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_VARIABLE_STORE_H_
