// Who touched which bytes last: the waits that the next owner of an address must make.
#ifndef MILLRACE_PASSES_OWNER_MAP_H_
#define MILLRACE_PASSES_OWNER_MAP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>

#include "absl/container/inlined_vector.h"

namespace millrace {

// The lanes of one device.
inline constexpr int kComputeLane = 0, kToHostLane = 1, kToDeviceLane = 2, kNumLanes = 3;

// Per lane of one device, the number of steps that must be complete.
using LaneCounts = std::array<int64_t, kNumLanes>;
// Per lane of all devices (kNumLanes each, in their order); lanes beyond its end: none.
using AllLaneCounts = absl::InlinedVector<int64_t, kNumLanes>;

// into[i] = max(into[i], from[i]).
inline void Raise(LaneCounts& into, const LaneCounts& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}
inline void Raise(AllLaneCounts& into, const AllLaneCounts& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// `Counts` is LaneCounts for device memory and AllLaneCounts for the host pool, which all devices use.
template <typename Counts>
class OwnerMap {
 public:
  // What the new owner of [offset, offset + bytes) must wait for: every step that touched any of these bytes.
  Counts Claim(int64_t offset, int64_t bytes) const {
    Counts needed{};
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin() && std::prev(it)->second.end > offset) --it;
    for (; it != ranges_.end() && it->first < offset + bytes; ++it) Raise(needed, it->second.touched);
    return needed;
  }

  // The owner of these bytes has been touched by these steps and is gone.
  void Release(int64_t offset, int64_t bytes, const Counts& touched) {
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

 private:
  struct Range {
    int64_t end = 0;
    Counts touched{};
  };
  std::map<int64_t, Range> ranges_;  // by offset, disjoint
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_OWNER_MAP_H_
