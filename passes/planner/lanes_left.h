// What decisions leave to the lanes, and how long a step takes at least for that: no trial, packing or placement of these
// decisions is faster.
#ifndef MILLRACE_PASSES_PLANNER_LANES_LEFT_H_
#define MILLRACE_PASSES_PLANNER_LANES_LEFT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/planner/gaps.h"

namespace millrace {

struct LanesLeft {
  double out = 0, in = 0;      // seconds of copies that have not begun: of all
  struct In {
    double seconds = 0;
    int32_t copies = 0;
  };
  std::vector<In> in_for;    // of those in, by the operation that needs them
  std::vector<double> rest;  // from the beginning of an operation to the end of the step, at least

  LanesLeft(const GapGraph& gaps, const std::vector<SwapDecision>& decisions) {
    const int32_t n = gaps.num_operations();
    in_for.resize(n);
    rest.assign(n + 1, 0);
    std::vector<double> out_after(n + 1, 0);
    for (const SwapDecision& d : decisions) {
      if (d.copy_out) out_after[d.out_after + 1] += gaps.out_seconds(d.storage);
      if (d.copy_in && d.before != SwapDecision::kToHost) AddIn(d.before, gaps.in_seconds(d.storage));
    }
    for (int32_t fetch : gaps.graph->fetches) {
      for (const Access& access : gaps.graph->of(fetch)) out_after[fetch + 1] += gaps.out_seconds(access.storage);
    }
    for (int32_t i = n - 1; i >= 0; --i) {
      out += out_after[i + 1];
      rest[i] = gaps.graph->seconds[i] + std::max(rest[i + 1], out);
    }
    out += out_after[0];
  }

  void AddIn(int32_t before, double seconds) {
    in += seconds;
    in_for[before].seconds += seconds;
    ++in_for[before].copies;
  }
  void BeginIn(int32_t before, double seconds) {
    in -= seconds;
    in_for[before].seconds -= seconds;
    --in_for[before].copies;
  }

  // Units of WorkBudget for making it and asking it once.
  static int64_t Work(const GapGraph& gaps, size_t decisions) {
    constexpr int64_t kLookWork = 6;
    return kLookWork * (gaps.num_operations() + static_cast<int64_t>(decisions));
  }

  // Of the whole step.
  double LeastSeconds() const { return std::max({rest[0], out, LeastSecondsFrom(0, 0)}); }

  // Of the step, where the lane of copies in is free from `in_seconds` on: what has still to come in for an operation, and for those before it,
  // comes before it, and what that one and the later ones make goes out after it.
  double LeastSecondsFrom(int32_t next_operation, double in_seconds) const {
    double least = 0;
    for (size_t i = next_operation; i < in_for.size(); ++i) {
      if (in_for[i].copies == 0) continue;
      in_seconds += in_for[i].seconds;
      least = std::max(least, in_seconds + rest[i]);
    }
    return least;
  }
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_LANES_LEFT_H_
