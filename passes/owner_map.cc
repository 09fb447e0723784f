#include "passes/owner_map.h"

#include <algorithm>
#include <iterator>

namespace millrace {

void Raise(LaneCounts& into, const LaneCounts& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

LaneCounts OwnerMap::Claim(int64_t offset, int64_t bytes) const {
  LaneCounts needed{};
  auto it = ranges_.upper_bound(offset);
  if (it != ranges_.begin() && std::prev(it)->second.end > offset) --it;
  for (; it != ranges_.end() && it->first < offset + bytes; ++it) Raise(needed, it->second.touched);
  return needed;
}

void OwnerMap::Release(int64_t offset, int64_t bytes, const LaneCounts& touched) {
  const int64_t end = offset + bytes;
  auto it = ranges_.upper_bound(offset);
  if (it != ranges_.begin() && std::prev(it)->second.end > offset) --it;
  while (it != ranges_.end() && it->first < end) {
    const int64_t old_begin = it->first;
    const Range old = it->second;
    it = ranges_.erase(it);
    if (old_begin < offset) ranges_.emplace(old_begin, Range{offset, old.touched});
    if (old.end > end) it = std::next(ranges_.emplace(end, Range{old.end, old.touched}).first);
  }
  ranges_.emplace(offset, Range{end, touched});
}

}  // namespace millrace
