// Who touched which bytes last: the waits that the next owner of an address must make.
#ifndef MILLRACE_PASSES_OWNER_MAP_H_
#define MILLRACE_PASSES_OWNER_MAP_H_

#include <array>
#include <cstdint>
#include <map>

namespace millrace {

// Per lane, the number of steps that must be complete.
using LaneCounts = std::array<int64_t, 3>;
// into[i] = max(into[i], from[i]).
void Raise(LaneCounts& into, const LaneCounts& from);

class OwnerMap {
 public:
  // What the new owner of [offset, offset + bytes) must wait for: every step that touched any of these bytes.
  LaneCounts Claim(int64_t offset, int64_t bytes) const;
  // The owner of these bytes has been touched by these steps and is gone.
  void Release(int64_t offset, int64_t bytes, const LaneCounts& touched);

 private:
  struct Range {
    int64_t end = 0;
    LaneCounts touched{};
  };
  std::map<int64_t, Range> ranges_;  // by offset, disjoint
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_OWNER_MAP_H_
