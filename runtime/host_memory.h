// Host memory of a session under one hard limit: the homes of variables, the pool of swapped tensors, and the
// constants that the plan keeps. Nothing is resident before it is written.
//
// One thread at a time may call; steps that are running use only memory that is there already.
#ifndef MILLRACE_RUNTIME_HOST_MEMORY_H_
#define MILLRACE_RUNTIME_HOST_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/mapped_region.h"

namespace millrace {

// Told of host memory while it is mapped. A device page-locks it so that copies need no detour.
class HostMemoryListener {
 public:
  virtual ~HostMemoryListener() = default;
  // [data, data + bytes) is there until Unmapped(data). Memory that cannot be page-locked is used as it is.
  virtual void Mapped(void* data, int64_t bytes) = 0;
  // False: it must stay mapped until the process ends.
  virtual bool Unmapped(void* data) = 0;
};

class HostMemory {
 public:
  // limit_bytes <= 0: no limit.
  explicit HostMemory(int64_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  // Told of the memory that is there and of all that comes, and of its end. Outlives this object, or is replaced by
  // nullptr before it dies.
  void set_listener(HostMemoryListener* listener);

  // Zeroed memory for a variable's home or a node's state, aligned to kTensorAlignment, until this object dies or it is given back.
  // ResourceExhausted names `what`, the bytes asked for, what is in use, and the limit.
  absl::StatusOr<void*> AllocateHome(int64_t bytes, const std::string& what);
  // Of as many bytes as it was asked for with; nobody uses it any more. Small ones wait for others of their size, and count as in use.
  void FreeHome(void* home, int64_t bytes);

  // The pool that all executors of a session share, one active at a time: at least `bytes`. It may move when it
  // grows, and what it held is lost then. `constant_bytes` counts the constants of the plan about to run.
  absl::StatusOr<void*> ReservePool(int64_t bytes, int64_t constant_bytes);

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t home_bytes() const { return home_bytes_; }
  int64_t pool_bytes() const { return pool_bytes_; }
  // How often a pool was mapped: it may be another one at the same address.
  int64_t pool_mappings() const { return pool_mappings_; }

 private:
  absl::Status CheckLimit(int64_t wanted_bytes, const std::string& what) const;

  void Announce(const MappedRegion& region) const;
  void Withdraw(MappedRegion& region) const;

  const int64_t limit_bytes_;
  HostMemoryListener* listener_ = nullptr;
  int64_t home_bytes_ = 0;
  int64_t pool_bytes_ = 0;
  int64_t pool_mappings_ = 0;
  int64_t constant_bytes_ = 0;
  MappedRegion pool_;
  std::vector<MappedRegion> blocks_;  // of homes
  char* free_begin_ = nullptr;        // rest of the last shared block
  char* free_end_ = nullptr;
  std::multimap<int64_t, char*> given_back_;  // by bytes: homes in shared blocks
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_HOST_MEMORY_H_
