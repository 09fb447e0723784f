#include "stream/launch_group.h"

#include <algorithm>
#include <iterator>

namespace millrace {

bool MemoryRanges::Overlaps(const void* begin, int64_t bytes) const {
  const char *from = static_cast<const char*>(begin), *to = from + bytes;
  const auto next = ranges_.lower_bound(from);
  return (next != ranges_.end() && next->first < to) || (next != ranges_.begin() && std::prev(next)->second > from);
}

void MemoryRanges::Add(const void* begin, int64_t bytes) {
  const char *from = static_cast<const char*>(begin), *to = from + bytes;
  if (bytes == 0) return;
  auto range = ranges_.lower_bound(from);
  if (range != ranges_.begin() && std::prev(range)->second >= from) --range;
  while (range != ranges_.end() && range->first <= to) {
    from = std::min(from, range->first);
    to = std::max(to, range->second);
    range = ranges_.erase(range);
  }
  ranges_.emplace(from, to);
}

void LaunchGroup::Clear() {
  members_.clear();
  read_.Clear();
  written_.Clear();
}

bool LaunchGroup::Add(const GroupedKernel& kernel, const KernelContext& context) {
  if (!members_.empty() && members_[0].kernel->group() != kernel.group()) return false;
  const std::vector<TensorType>& inputs = context.instance->inputs;
  const auto writes = static_cast<size_t>(kernel.written_inputs());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = inputs[i].size_bytes();
    if (written_.Overlaps(context.inputs[i], bytes) || (i < writes && read_.Overlaps(context.inputs[i], bytes))) return false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) (i < writes ? written_ : read_).Add(context.inputs[i], inputs[i].size_bytes());
  members_.push_back({&kernel, context});
  return true;
}

}  // namespace millrace
