#include "passes/memory/live_blocks.h"

#include <cmath>

namespace millrace {

LiveBlocks::LiveBlocks(const std::vector<LateBlock>& blocks, const std::vector<int64_t>& sizes, int64_t budget_bytes,
                       const HolePolicy& policy, int32_t slots)
    : budget_(budget_bytes),
      policy_(policy),
      slots_(slots),
      wall_(static_cast<int32_t>(blocks.size())),
      stays_(blocks.size() + 1),
      live_(blocks.size() + 1, false) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    Stay& stay = stays_[b];
    stay.bytes = sizes[b];
    stay.latest = blocks[b].latest;
    stay.leaves = blocks[b].leaves;
    stay.last = blocks[b].last;
  }
  stays_[wall_].below = stays_[wall_].above = wall_;
  stays_[wall_].last = slots_;
  AddHole(wall_);
}

int32_t LiveBlocks::Add(const LateBlock& block, int64_t bytes) {
  stays_.push_back({0, bytes, 0, 0, block.latest, block.leaves, block.last});
  live_.push_back(false);
  return static_cast<int32_t>(stays_.size()) - 1;
}

// How far apart in time block b and its neighbour leave.
double LiveBlocks::Apart(int32_t b, int32_t neighbour) const {
  return std::abs(static_cast<double>(stays_[neighbour].last) - stays_[b].last);
}

// Of holes that are the smallest, that whose neighbour leaves when b does. With room reserved all are looked at, since
// those that reach beyond the limit are smaller than they seem.
LiveBlocks::Place LiveBlocks::Smallest(int32_t b, int64_t limit) const {
  const int64_t wanted = stays_[b].bytes;
  Place best;
  int64_t smallest = kNoEnd, lowest = kNoEnd;
  double nearest = 0;
  holes_.VisitFrom(Hole{wanted, 0, 0}, [&](const Hole& hole) {
    if (limit == budget_ && hole.first_key > smallest) return false;
    const int64_t begin = hole.second_key, end = std::min(begin + hole.first_key, limit), room = end - begin;
    if (room < wanted || room > smallest) return true;
    const double low = Apart(b, hole.below);
    const double high = end < BeginAbove(hole.below) ? std::numeric_limits<double>::infinity()
                                                     : Apart(b, stays_[hole.below].above);
    const double apart = std::min(low, high);
    if (room == smallest && (apart > nearest || (apart == nearest && begin > lowest))) return true;
    best = {low <= high ? begin : end - wanted, hole.below};
    smallest = room;
    lowest = begin;
    nearest = apart;
    return true;
  });
  return best;
}

LiveBlocks::Place LiveBlocks::Lowest(int32_t b, int64_t limit) const {
  const Hole* hole = holes_.First(limit - stays_[b].bytes, stays_[b].bytes);
  return hole == nullptr ? Place{} : Place{hole->first_key, hole->below};
}

LiveBlocks::Place LiveBlocks::Highest(int32_t b, int64_t limit) const {
  const int64_t bytes = stays_[b].bytes;
  const Hole* hole = holes_.Last(limit - bytes, bytes);
  return hole == nullptr ? Place{} : Place{std::min(hole->first_key + hole->second_key, limit) - bytes, hole->below};
}

LiveBlocks::Place LiveBlocks::Find(int32_t b, int32_t now, int64_t limit) const {
  if (BySize()) return Smallest(b, limit);
  const bool lowest = policy_.kind == HolePolicy::Kind::kByLife
                          ? stays_[b].last - now >= policy_.threshold * slots_
                          : static_cast<double>(stays_[b].bytes) > policy_.threshold * static_cast<double>(budget_);
  return lowest ? Lowest(b, limit) : Highest(b, limit);
}

LiveBlocks::Place LiveBlocks::At(int64_t offset, int32_t b) const {
  Place place;
  holes_.VisitAll([&](const Hole& hole) {
    const int64_t begin = BeginOf(hole);
    if (begin <= offset && offset + stays_[b].bytes <= begin + BytesOf(hole)) place = {offset, hole.below};
    return place.offset < 0;
  });
  return place;
}

void LiveBlocks::Insert(int32_t b, const Place& place) {
  live_[b] = true;
  DropHole(place.below);
  Stay& stay = stays_[b];
  stay.offset = place.offset;
  stay.below = place.below;
  stay.above = stays_[place.below].above;
  stays_[stay.above].below = b;
  stays_[place.below].above = b;
  AddHole(place.below);
  AddHole(b);
}

void LiveBlocks::Remove(int32_t b) {
  live_[b] = false;
  const int32_t below = stays_[b].below, above = stays_[b].above;
  DropHole(below);
  DropHole(b);
  stays_[below].above = above;
  stays_[above].below = below;
  AddHole(below);
}

int64_t LiveBlocks::FreeBytes() const {
  int64_t bytes = 0;
  VisitHoles([&](int32_t, int64_t hole) { bytes += hole; });
  return bytes;
}

}  // namespace millrace
