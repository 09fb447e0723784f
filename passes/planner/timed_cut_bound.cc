#include "passes/planner/timed_cut_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace millrace {
namespace {

// Cuts looked at: those of most bytes in so many parts of the step; fewer for large graphs.
constexpr int kCuts = 12, kFewCuts = 3;
constexpr int32_t kManyOperations = 100'000;
// Times at which bytes may leave are told apart to this part of the step.
constexpr int kSlots = 128;
// Storages by what a byte of theirs takes, latency included, in steps of 2^(1/kPerOctave) of the link's own.
constexpr int kClasses = 64, kPerOctave = 8;
// The shortest way to divide is found to (2/3)^40 of what is divided, well within what is taken off for rounding.
constexpr int kThirds = 40;
constexpr double kRounding = 1e-6;
constexpr double kNever = std::numeric_limits<double>::infinity();

// A storage's bytes and the seconds that a copy of it takes.
struct Load {
  int64_t bytes = 0;
  double seconds = 0;
};

int ClassOf(const Load& load, double seconds_per_byte) {
  if (load.bytes == 0) return 0;
  const double times = load.seconds / (static_cast<double>(load.bytes) * seconds_per_byte);
  // Of a small storage over a slow link it may be more than an int holds.
  return times <= 1 ? 0 : static_cast<int>(std::min<double>(kClasses - 1, kPerOctave * std::log2(times)));
}

// One lane: of loads that may start from their release on, how long until so many bytes have been copied.
class Lane {
 public:
  explicit Lane(double step_seconds) : step_seconds_(step_seconds) { least_.fill(kNever); }

  void Clear() {
    for (Slot& slot : slots_) slot = {};
    bytes_ = 0;
  }

  void Add(double release, int load_class, const Load& load) {
    Slot& slot = slots_[std::clamp(static_cast<int>(kSlots * release / step_seconds_), 0, kSlots - 1)];
    slot.release = std::min(slot.release, release);
    slot.bytes[load_class] += static_cast<double>(load.bytes);
    least_[load_class] = std::min(least_[load_class], load.seconds / static_cast<double>(load.bytes));
    bytes_ += static_cast<double>(load.bytes);
    classes_ = std::max(classes_, load_class + 1);
  }

  // Each slot with all that is released later.
  void Sum() {
    for (int s = kSlots - 2; s >= 0; --s) {
      slots_[s].release = std::min(slots_[s].release, slots_[s + 1].release);
      for (int c = 0; c < classes_; ++c) slots_[s].bytes[c] += slots_[s + 1].bytes[c];
    }
    for (Slot& slot : slots_) {
      slot.all = 0;
      for (double bytes : slot.bytes) slot.all += bytes;
    }
  }

  double bytes() const { return bytes_; }

  // Requires Sum(). At least: what is released before a slot is copied first, the rest not before it is released.
  double SecondsFor(double bytes) const {
    double seconds = 0;
    for (const Slot& slot : slots_) {
      const double rest = bytes - (bytes_ - slot.all);
      if (rest <= 0) break;
      if (slot.release < kNever) seconds = std::max(seconds, slot.release + Cheapest(slot, rest));
    }
    return seconds;
  }

 private:
  struct Slot {
    double release = kNever;
    std::array<double, kClasses> bytes{};
    double all = 0;
  };

  double Cheapest(const Slot& slot, double bytes) const {
    double seconds = 0;
    for (int c = 0; c < classes_ && bytes > 0; ++c) {
      if (slot.bytes[c] <= 0) continue;
      const double taken = std::min(bytes, slot.bytes[c]);
      seconds += taken * least_[c];
      bytes -= taken;
    }
    return seconds;
  }

  const double step_seconds_;
  std::array<Slot, kSlots> slots_{};
  std::array<double, kClasses> least_{};  // seconds for a byte
  double bytes_ = 0;
  int classes_ = 0;  // that occur
};

class Cuts {
 public:
  Cuts(const GapGraph& gaps, int64_t budget_bytes)
      : gaps_(gaps),
        n_(gaps.num_operations()),
        budget_(budget_bytes),
        out_(gaps.compute_seconds()),
        in_(gaps.compute_seconds()) {
    loads_.reserve(gaps.gaps.size());
    for (const Gap& gap : gaps.gaps) {
      const auto bytes = static_cast<double>(gaps.graph->storages[gap.storage].size_bytes);
      Loads loads;
      loads.out = {gap.bytes, gaps.copy_latency + bytes * gaps.seconds_per_byte_out};
      loads.in = {gap.bytes, gaps.copy_latency + bytes * gaps.seconds_per_byte_in};
      loads.out_class = ClassOf(loads.out, gaps.seconds_per_byte_out);
      loads.in_class = ClassOf(loads.in, gaps.seconds_per_byte_in);
      loads_.push_back(loads);
    }
  }

  double Run() {
    double bound = gaps_.compute_seconds();
    const int cuts = n_ > kManyOperations ? kFewCuts : kCuts;
    int32_t most = -1;
    int part = 0;
    for (int32_t i = 0; i < n_; ++i) {
      const int part_of_i = std::min(cuts - 1, static_cast<int>(cuts * gaps_.start[i] / gaps_.compute_seconds()));
      if (part_of_i != part && most >= 0) {
        bound = std::max(bound, At(most));
        most = -1;
      }
      part = part_of_i;
      if (gaps_.full[i] > budget_ && (most < 0 || gaps_.full[i] > gaps_.full[most])) most = i;
    }
    return most < 0 ? bound : std::max(bound, At(most));
  }

 private:
  struct Loads {
    Load out, in;
    int out_class = 0, in_class = 0;
  };

  // What crosses operation p, apart from the two lanes.
  struct Crossing {
    double free = 0;      // need neither copy
    double clean = 0;     // need only the copy in
    double finished = 0;  // need only the copy out
  };

  Crossing CrossingOf(int32_t p) {
    Crossing crossing;
    out_.Clear();
    in_.Clear();
    for (size_t k = 0; k < gaps_.gaps.size(); ++k) {
      const Gap& gap = gaps_.gaps[k];
      const bool head = gap.home && p < gap.before, tail = gap.home && p > gap.after;
      if (gap.feed || gap.bytes == 0 || !(gap.home ? head || tail : gap.after < p && p < gap.before)) continue;
      const bool variable = gaps_.graph->storages[gap.storage].kind == StorageKind::kVariable;
      const bool goes = gap.last_write >= 0 && !head && (tail ? variable : !gap.overwritten);
      const bool comes = !tail && !gap.overwritten;
      const auto bytes = static_cast<double>(gap.bytes);
      if (!goes && !comes) crossing.free += bytes;
      if (comes && !goes) crossing.clean += bytes;
      if (goes && !comes) crossing.finished += bytes;
      if (goes) out_.Add(gaps_.start[gap.last_write + 1], loads_[k].out_class, loads_[k].out);
      if (comes) in_.Add(gaps_.compute_seconds() - gaps_.start[gap.before], loads_[k].in_class, loads_[k].in);
    }
    out_.Sum();
    in_.Sum();
    return crossing;
  }

  double At(int32_t p) {
    const Crossing crossing = CrossingOf(p);
    const double excess = static_cast<double>(gaps_.full[p] - budget_) - crossing.free;
    if (excess <= 0) return 0;
    // With so many bytes that have left by a copy; the others, and of those what may not be finished, come back.
    const auto step = [&](double leave) {
      const double before = std::max(gaps_.start[p], out_.SecondsFor(leave));
      const double back = std::max({0.0, excess - leave, excess - crossing.finished});
      return before + std::max(gaps_.compute_seconds() - gaps_.start[p], in_.SecondsFor(back));
    };
    double least = std::max(0.0, excess - crossing.clean), most = std::max(least, std::min(excess, out_.bytes()));
    for (int k = 0; k < kThirds && least < most; ++k) {
      const double third = (most - least) / 3;
      if (step(least + third) <= step(most - third)) most -= third;
      else least += third;
    }
    return (1 - kRounding) * step((least + most) / 2);
  }

  const GapGraph& gaps_;
  const int32_t n_;
  const int64_t budget_;
  Lane out_, in_;
  std::vector<Loads> loads_;  // per gap
};

}  // namespace

double TimedCutBound(const GapGraph& gaps, int64_t budget_bytes) {
  if (gaps.num_operations() == 0 || gaps.compute_seconds() <= 0) return 0;
  return Cuts(gaps, budget_bytes).Run();
}

}  // namespace millrace
