// The tier below host memory: one file in a folder, unlinked as soon as it is open, so that nothing is left of it
// however the process ends. Holds the homes of variables and the tensors that leave the host pool.
//
// Transfers go past the page cache where the file system lets them (O_DIRECT), through io_uring with the pool as
// fixed buffers where the kernel and the build have it, else through pread and pwrite.
#ifndef MILLRACE_RUNTIME_DISK_TIER_H_
#define MILLRACE_RUNTIME_DISK_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "runtime/host_memory.h"

namespace millrace {

// One lane's way to the file; one thread at a time. Offsets and addresses are multiples of kDiskPageBytes; whole pages
// are transferred, so both sides have room for the last one. ResourceExhausted when the disk is full, DataLoss when it
// fails: what the file holds there is undefined then.
class DiskChannel {
 public:
  virtual ~DiskChannel() = default;
  virtual absl::Status Read(int64_t offset, void* to, int64_t bytes) = 0;
  virtual absl::Status Write(int64_t offset, const void* from, int64_t bytes) = 0;
};

struct DiskTierOptions {
  std::string folder;
  bool use_uring = true;
  bool direct = true;
  // The kernel takes no larger ones; the pool is cut into such. Tests have smaller ones.
  int64_t fixed_buffer_bytes = int64_t{1} << 30;
  // Tests: the errno that the transfer of these bytes ends with, 0 for none. Called from any thread.
  std::function<int(bool write, int64_t offset, int64_t bytes)> fault;
  // Tests: the errno that handing requests to io_uring ends with, 0 for none.
  std::function<int()> submit_fault;
};

class DiskTier {
 public:
  // Makes the file and the buffer that values pass through (kDiskBounceBytes of `memory`, which outlives the tier).
  // FailedPrecondition names the folder and why nothing can be written there.
  static absl::StatusOr<std::unique_ptr<DiskTier>> Create(const DiskTierOptions& options, HostMemory* memory);
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  // Room of its own for `bytes`, taken from the file system now, so that a full disk is found before a step:
  // ResourceExhausted names `what`, the folder and the bytes. One thread at a time.
  absl::StatusOr<int64_t> Reserve(int64_t bytes, const std::string& what);

  // Makes the room of swapped tensors at least that large. Plans use it in turn, as nothing in it outlives a step; it may
  // move when it grows, not during one. After an error it is as before.
  absl::Status ReserveScratch(int64_t bytes);
  int64_t scratch_offset() const { return scratch_offset_; }

  // `pool` (may be null) is memory that most transfers go to and from. The channel may keep its pages from being given back, so
  // it goes before the pool does.
  std::unique_ptr<DiskChannel> MakeChannel(void* pool, int64_t pool_bytes) const;

  // Values from and to memory of any kind, piece by piece: `piece` is a part of the value that begins `at` bytes into it.
  // Not while another transfer through the tier itself runs.
  absl::Status ReadPieces(int64_t offset, int64_t bytes,
                          absl::FunctionRef<absl::Status(const void* piece, int64_t at, int64_t size)> take);
  absl::Status WritePieces(int64_t offset, int64_t bytes,
                           absl::FunctionRef<absl::Status(void* piece, int64_t at, int64_t size)> fill);

  bool direct() const { return direct_; }
  // Of the file system's room.
  int64_t reserved_bytes() const { return end_ - hole_bytes_; }

 private:
  DiskTier(const DiskTierOptions& options, int descriptor, bool direct)
      : options_(options), descriptor_(descriptor), direct_(direct) {}

  const DiskTierOptions options_;
  const int descriptor_;
  const bool direct_;
  int64_t end_ = 0;
  int64_t hole_bytes_ = 0;  // given back, below end_
  int64_t scratch_offset_ = 0;
  int64_t scratch_bytes_ = 0;
  char* bounce_ = nullptr;
  std::unique_ptr<DiskChannel> channel_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DISK_TIER_H_
