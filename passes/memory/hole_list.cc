#include "passes/memory/hole_list.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr size_t kLongestRun = 64;

}  // namespace

size_t HoleList::RunOf(const Hole& hole) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), hole,
                                      [](const Hole& h, const Run& run) { return h < run.holes.front(); });
  return after == runs_.begin() ? 0 : static_cast<size_t>(after - runs_.begin()) - 1;
}

size_t HoleList::LowerBound(const Run& run, const Hole& hole) {
  return static_cast<size_t>(std::lower_bound(run.holes.begin(), run.holes.end(), hole) - run.holes.begin());
}

void HoleList::FindLargest(Run& run) {
  run.largest = 0;
  for (const Hole& hole : run.holes) run.largest = std::max(run.largest, hole.second_key);
}

void HoleList::Insert(const Hole& hole) {
  if (runs_.empty()) runs_.emplace_back();
  size_t r = runs_.size() == 1 ? 0 : RunOf(hole);
  if (runs_[r].holes.size() == kLongestRun) {
    Run upper;
    upper.holes.reserve(kLongestRun);
    std::vector<Hole>& lower = runs_[r].holes;
    upper.holes.assign(lower.begin() + kLongestRun / 2, lower.end());
    lower.resize(kLongestRun / 2);
    FindLargest(runs_[r]);
    FindLargest(upper);
    const bool above = !(hole < upper.holes.front());
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(r) + 1, std::move(upper));
    if (above) ++r;
  }
  Run& run = runs_[r];
  if (run.holes.empty()) run.holes.reserve(kLongestRun);
  run.holes.insert(run.holes.begin() + static_cast<std::ptrdiff_t>(LowerBound(run, hole)), hole);
  run.largest = std::max(run.largest, hole.second_key);
}

void HoleList::Erase(const Hole& hole) {
  const size_t r = RunOf(hole);
  Run& run = runs_[r];
  run.holes.erase(run.holes.begin() + static_cast<std::ptrdiff_t>(LowerBound(run, hole)));
  if (run.holes.empty()) {
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(r));
  } else if (hole.second_key == run.largest) {
    FindLargest(run);
  }
}

const HoleList::Hole* HoleList::First(int64_t first_key, int64_t second_key) const {
  for (const Run& run : runs_) {
    if (run.holes.front().first_key > first_key) break;
    if (run.largest < second_key) continue;
    for (const Hole& hole : run.holes) {
      if (hole.second_key >= second_key) return hole.first_key <= first_key ? &hole : nullptr;
    }
  }
  return nullptr;
}

const HoleList::Hole* HoleList::Last(int64_t first_key, int64_t second_key) const {
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    if (run->largest < second_key) continue;
    for (auto hole = run->holes.rbegin(); hole != run->holes.rend(); ++hole) {
      if (hole->second_key >= second_key && hole->first_key <= first_key) return &*hole;
    }
  }
  return nullptr;
}

}  // namespace millrace
