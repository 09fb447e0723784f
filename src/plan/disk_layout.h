// What passes and runtime agree on about the tier below host memory.
#ifndef MILLRACE_SRC_PLAN_DISK_LAYOUT_H_
#define MILLRACE_SRC_PLAN_DISK_LAYOUT_H_

#include <cstdint>

namespace millrace {

// Unit of offsets and sizes in the host pool of a tiered plan and on disk: what transfers past the page cache need.
inline constexpr int64_t kDiskPageBytes = 4096;
// Host memory that values pass through on their way between disk and elsewhere than the pool.
inline constexpr int64_t kDiskBounceBytes = int64_t{1} << 20;
// Host memory set aside for the states of nodes (streams of random ops) of all plans of a session.
inline constexpr int64_t kStateReserveBytes = int64_t{64} << 10;

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_DISK_LAYOUT_H_
