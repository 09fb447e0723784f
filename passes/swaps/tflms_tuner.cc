#include "passes/swaps/tflms_tuner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// How far above the asked level an operation that triggers a copy in is looked for.
constexpr int64_t kTriggerLevels = 10;

// First operation after which nothing above level `below` is left to run, or -1 without one in the window.
int32_t Trigger(const TflmsGraph& graph, int32_t source_level, int64_t below) {
  const int64_t lowest = std::max<int64_t>(below - kTriggerLevels, source_level + 1);
  if (below <= lowest || below > graph.levels()) return -1;
  const int32_t last = graph.first_operation[below] - 1;
  return last >= 0 && graph.level(last) >= lowest ? last : -1;
}

// The copies of one value.
class ValueSwapper {
 public:
  ValueSwapper(const TflmsGraph& graph, const TflmsParameters& parameters,
               const std::function<void(const SwapDecision&)>& decide)
      : graph_(graph), parameters_(parameters), decide_(decide) {}

  void Swap(const TflmsValue& value) {
    if (!value.may_swap) return;
    const int32_t source_level = graph_.level(value.made_at);
    size_t first = 0;
    for (size_t k = 0; k < value.uses.size(); ++k) {
      const TflmsUse& use = value.uses[k];
      if (!use.may_swap || graph_.level(use.operation) - source_level <= parameters_.threshold) first = k + 1;
    }
    int32_t previous = first == 0 ? value.made_at : value.uses[first - 1].operation;
    bool left = false;
    for (size_t k = first; k < value.uses.size(); ++k) {
      const int32_t operation = value.uses[k].operation;
      const bool joins = left && parameters_.groupby > 0 &&
                         graph_.level(operation) - graph_.level(previous) <= parameters_.groupby;
      if (!joins) Decide(value, source_level, previous, operation, !left);
      left = true;
      previous = operation;
    }
  }

 private:
  void Decide(const TflmsValue& value, int32_t source_level, int32_t after, int32_t before, bool copy_out) {
    SwapDecision d;
    d.storage = value.storage;
    d.after = after;
    d.before = before;
    d.copy_in = true;
    d.copy_out = copy_out;
    d.out_after = copy_out ? value.made_at : 0;
    d.wait_out = copy_out && parameters_.waits_for_swap_out();
    int32_t trigger = -1;
    if (!parameters_.waits_for_swap_in()) {
      trigger = Trigger(graph_, source_level, graph_.level(before) - parameters_.ahead);
      if (trigger < 0) trigger = Trigger(graph_, source_level, graph_.level(before) - 1);
    }
    d.anchor = trigger < 0 ? before : std::clamp(trigger + 1, after + 1, before);
    d.reason = absl::StrCat("used ", graph_.level(before) - source_level, " levels below its producer, more than ",
                            parameters_.threshold);
    decide_(d);
  }

  const TflmsGraph& graph_;
  const TflmsParameters& parameters_;
  const std::function<void(const SwapDecision&)>& decide_;
};

class Tuner {
 public:
  Tuner(const TflmsGraph& graph, const TflmsOptions& options, int64_t available_bytes)
      : graph_(graph), options_(options), available_(available_bytes) {}

  TflmsTuning Run() {
    TflmsParameters& p = result_.parameters;
    p = {.threshold = std::max<int64_t>(options_.swapout_threshold, 1),
         .ahead = std::max<int64_t>(options_.swapin_ahead, 1),
         .groupby = std::max<int64_t>(options_.swapin_groupby, 0),
         .sync_mode = options_.sync_mode};
    result_.found = Fits();
    if (options_.swapout_threshold < 0) {
      while (!result_.found && p.sync_mode < 3) {
        ++p.sync_mode;
        result_.found = Fits();
      }
      if (!result_.found) return std::move(result_);
      FindLargest(p.threshold, 1);
    }
    // Without room for copies that come early there is nothing to tune about when they come.
    if (!result_.found) p.sync_mode = 3;
    if (p.waits_for_swap_in()) {
      result_.found = result_.found || Fits();
      return std::move(result_);
    }
    if (options_.swapin_ahead < 0) FindLargest(p.ahead, 1);
    if (options_.swapin_groupby < 0) FindGroupby(p.groupby);
    return std::move(result_);
  }

 private:
  bool Fits() {
    if (TflmsPeak(graph_, result_.parameters).bytes > available_) return false;
    result_.notes.push_back(absl::StrCat("fits: ", result_.parameters.ToString()));
    return true;
  }

  // The largest value of `parameter` from `fitting` to the number of levels that fits.
  void FindLargest(int64_t& parameter, int64_t fitting) {
    int64_t low = fitting, high = graph_.levels();
    while (low <= high) {
      const int64_t middle = (low + high) / 2;
      const int64_t before = parameter;
      parameter = middle;
      if (Fits()) {
        low = middle + 1;
      } else {
        parameter = before;
        high = middle - 1;
      }
    }
  }

  // All consumers in one group if that fits, else the first bisection from above that does.
  void FindGroupby(int64_t& groupby) {
    groupby = graph_.levels();
    if (Fits()) return;
    for (int64_t high = graph_.levels(); high >= 0; high = groupby - 1) {
      groupby = high / 2;
      if (Fits()) return;
    }
    groupby = 0;
  }

  const TflmsGraph& graph_;
  const TflmsOptions& options_;
  const int64_t available_;
  TflmsTuning result_;
};

}  // namespace

std::string TflmsParameters::ToString() const {
  return absl::StrCat("swapout_threshold ", threshold, ", swapin_ahead ",
                      waits_for_swap_in() ? "without effect" : absl::StrCat(ahead), ", swapin_groupby ", groupby,
                      ", sync_mode ", sync_mode);
}

void ForEachTflmsSwap(const TflmsGraph& graph, const TflmsParameters& parameters,
                      const std::function<void(const SwapDecision&)>& decide) {
  ValueSwapper swapper(graph, parameters, decide);
  for (const TflmsValue& value : graph.values) swapper.Swap(value);
}

TflmsPeakAt TflmsPeak(const TflmsGraph& graph, const TflmsParameters& parameters) {
  const size_t n = graph.profile.size();
  std::vector<int64_t> change(n + 1, 0);
  ForEachTflmsSwap(graph, parameters, [&](const SwapDecision& d) {
    int32_t begin = d.after + 1;
    if (!parameters.waits_for_swap_out() && d.copy_out) {
      begin = graph.first_operation[std::min(graph.level(d.after) + 2, graph.levels())];
    }
    if (begin >= d.anchor) return;
    change[begin] -= graph.bytes(d.storage);
    change[d.anchor] += graph.bytes(d.storage);
  });
  int64_t gone = 0;
  TflmsPeakAt peak;
  for (size_t i = 0; i < n; ++i) {
    gone += change[i];
    if (graph.profile[i] + gone > peak.bytes) peak = {graph.profile[i] + gone, static_cast<int32_t>(i)};
  }
  return peak;
}

TflmsTuning TuneTflms(const TflmsGraph& graph, const TflmsOptions& options, int64_t available_bytes) {
  return Tuner(graph, options, available_bytes).Run();
}

}  // namespace millrace
