// Parameters of tflms: the decisions that a set of them gives, the bytes it would need, and the search for a set that
// fits.
#ifndef MILLRACE_PASSES_SWAPS_TFLMS_TUNER_H_
#define MILLRACE_PASSES_SWAPS_TFLMS_TUNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/options.h"
#include "passes/swaps/tflms_values.h"

namespace millrace {

struct TflmsParameters {
  int64_t threshold = 1;
  int64_t ahead = 1;
  int64_t groupby = 0;
  int32_t sync_mode = 0;

  bool waits_for_swap_out() const { return (sync_mode & 1) != 0; }
  bool waits_for_swap_in() const { return (sync_mode & 2) != 0; }
  std::string ToString() const;
};

// Calls `decide` for every swap that the parameters make, by storage, then by time.
void ForEachTflmsSwap(const TflmsGraph& graph, const TflmsParameters& parameters,
                      const std::function<void(const SwapDecision&)>& decide);

// Most bytes on the device beside the resident ones. Room that a copy out leaves counts one level later, unless compute
// waits for it: the simulation knows no times.
struct TflmsPeakAt {
  int64_t bytes = 0;
  int32_t operation = 0;
};
TflmsPeakAt TflmsPeak(const TflmsGraph& graph, const TflmsParameters& parameters);

struct TflmsTuning {
  bool found = false;
  TflmsParameters parameters;  // of the last try when none was found
  std::vector<std::string> notes;
};

// Fills what `options` leaves open (-1), and raises sync_mode where nothing else fits, so that TflmsPeak is at most `available_bytes`.
TflmsTuning TuneTflms(const TflmsGraph& graph, const TflmsOptions& options, int64_t available_bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SWAPS_TFLMS_TUNER_H_
