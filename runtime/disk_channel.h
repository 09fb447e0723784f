// Channels of a DiskTier over one open file.
#ifndef MILLRACE_RUNTIME_DISK_CHANNEL_H_
#define MILLRACE_RUNTIME_DISK_CHANNEL_H_

#include <cstdint>
#include <memory>

#include "runtime/disk_tier.h"

namespace millrace {

// Transfers are cut into pieces of this size; several are under way at once where the channel can.
inline constexpr int64_t kDiskPieceBytes = int64_t{1} << 20;

// `options` (for faults and the folder's name in errors) outlives the channel.
std::unique_ptr<DiskChannel> MakeSyncChannel(const DiskTierOptions& options, int descriptor);
// nullptr where the kernel or the build has no io_uring. [pool, pool + pool_bytes) becomes fixed buffers, whose
// pages stay as long as the channel does, when the system's limit of locked memory allows it.
std::unique_ptr<DiskChannel> MakeUringChannel(const DiskTierOptions& options, int descriptor, void* pool,
                                              int64_t pool_bytes);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DISK_CHANNEL_H_
