// Host memory of a session under one hard limit: the homes of variables, the pool of swapped tensors, and the
// constants that the plan keeps. Nothing is resident before it is written.
//
// One thread at a time may call; steps that are running use only memory that is there already.
#ifndef MILLRACE_RUNTIME_HOST_MEMORY_H_
#define MILLRACE_RUNTIME_HOST_MEMORY_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

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
  // Of as many bytes as it was asked for with; nobody uses it any more. Others get what small ones leave, which counts as in use for as long as a
  // listener has it page-locked.
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
  struct Block {
    MappedRegion region;
    int64_t touched_bytes = 0;  // from its beginning: beyond them no home has been
  };
  using Blocks = std::map<char*, Block>;  // by where they begin

  absl::Status CheckLimit(int64_t wanted_bytes, const std::string& what) const;
  // Small homes that are gone: bytes that a listener has page-locked still.
  int64_t left_bytes() const { return listener_ != nullptr ? touched_bytes_ - home_bytes_ : 0; }

  absl::StatusOr<char*> MapBlock(int64_t bytes, const std::string& what);
  void Unmap(Blocks::iterator block);
  Blocks::iterator BlockOf(char* home) { return std::prev(blocks_.upper_bound(home)); }
  // Bytes from `home` on that no home has had.
  int64_t UntouchedBytes(char* home, int64_t bytes);
  void* Take(char* home, int64_t bytes);
  absl::Status StartBlock(const std::string& what);
  using Free = std::map<char*, int64_t>;  // bytes, by where they begin
  Free::iterator AddFree(char* begin, int64_t bytes);
  void RemoveFree(Free::iterator range);
  // Unmaps the block if that is all of it.
  bool UnmapIfWhole(Free::iterator range);

  void Announce(const MappedRegion& region) const;
  void Withdraw(MappedRegion& region) const;

  const int64_t limit_bytes_;
  HostMemoryListener* listener_ = nullptr;
  int64_t home_bytes_ = 0;
  int64_t pool_bytes_ = 0;
  int64_t pool_mappings_ = 0;
  int64_t constant_bytes_ = 0;
  MappedRegion pool_;
  Blocks blocks_;               // of homes
  int64_t touched_bytes_ = 0;   // of all of them
  char* free_begin_ = nullptr;  // rest of the shared block that is being filled
  char* free_end_ = nullptr;
  Free free_;                   // what else is free in shared blocks, all of it zero; neighbours in a block are one
  std::set<std::pair<int64_t, char*>> free_by_size_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_HOST_MEMORY_H_
