// Collects kernels that may be one launch: of one kind, and none writes what another one reads or writes.
#ifndef MILLRACE_RUNTIME_STREAM_LAUNCH_GROUP_H_
#define MILLRACE_RUNTIME_STREAM_LAUNCH_GROUP_H_

#include <map>
#include <vector>

#include "stream/grouped_kernel.h"

namespace millrace {

// Ranges of memory, joined where they overlap.
class MemoryRanges {
 public:
  void Clear() { ranges_.clear(); }
  void Add(const void* begin, int64_t bytes);
  bool Overlaps(const void* begin, int64_t bytes) const;

 private:
  std::map<const char*, const char*> ranges_;
};

class LaunchGroup {
 public:
  void Clear();
  // False, and nothing happens, where the kernel cannot be launched at once with those that are in.
  bool Add(const GroupedKernel& kernel, const KernelContext& context);
  const std::vector<GroupMember>& members() const { return members_; }

 private:
  std::vector<GroupMember> members_;
  MemoryRanges read_, written_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_LAUNCH_GROUP_H_
