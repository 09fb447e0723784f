// Event simulation of in-order lanes: when every step of a plan starts and ends if each takes its predicted time.
//
// The core works on a light form (lane, seconds, waits) so that planners can call it on trials; it is one pass over
// the steps, since every wait points to an earlier position. The executor on the null device gives the same events.
//
// Words: a lane is *busy* while a step of it runs; the compute lane *stalls* for the rest of the training step,
// the wait for the last copies included; *lower bound*: no schedule of the same work over the same links is shorter.
#ifndef MILLRACE_SRC_PLAN_SIMULATOR_H_
#define MILLRACE_SRC_PLAN_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/report.h"

namespace millrace {

// Steps in position order; the steps of one lane are numbered 0, 1, … in this order.
struct LaneSchedule {
  int32_t num_lanes = 0;
  double wake_seconds = 0;  // see SimulationModel
  std::vector<int32_t> lane;
  std::vector<double> seconds;
  std::vector<int64_t> first_wait = {0};  // waits of step i: waits[first_wait[i] .. first_wait[i+1])
  std::vector<Wait> waits;

  int64_t num_steps() const { return static_cast<int64_t>(lane.size()); }
  void Clear(int32_t lanes);
  void Add(int32_t lane, double seconds, absl::Span<const Wait> waits);
};

// What a copy costs compute, in Machine::copy_launch_seconds. A variable that moves is updated by a launch of its own, and not together
// with others.
inline double CopyLaunches(bool of_variable) { return of_variable ? 5 : 1; }

struct LaneTimes {
  std::vector<double> start, end;  // as LaneSchedule's steps
  std::vector<double> busy;        // per lane
  double seconds = 0;              // end of the last step

 private:
  friend absl::Status SimulateLanes(const LaneSchedule&, LaneTimes*);
  std::vector<std::vector<double>> ends_by_lane_;
};

// Linear in steps and waits; reuses the memory of `times`. InvalidArgument names a step that waits for one that is not
// before it.
absl::Status SimulateLanes(const LaneSchedule& schedule, LaneTimes* times);

struct MemoryPoint {
  double seconds = 0;
  int64_t bytes = 0;  // live from here to the next point
};

struct Simulation {
  double step_seconds = 0;
  double compute_seconds = 0;  // of the busiest compute lane
  double stall_seconds = 0;    // step_seconds - compute_seconds
  double lower_bound_seconds = 0;
  int64_t bytes_to_host = 0;
  int64_t bytes_to_device = 0;
  std::vector<double> busy_seconds;              // per lane
  std::vector<TraceEvent> events;                // by lane, then step
  std::vector<std::vector<MemoryPoint>> memory;  // per device, from the plan's residences
};

// What an executor costs beyond its steps; nothing by default, as on the null device.
struct SimulationModel {
  double wake_seconds = 0;           // a lane that had to wait goes on this much later
  double step_overhead_seconds = 0;  // of the training step before its first and after its last step
};

absl::StatusOr<Simulation> SimulatePlan(const ExecutionPlan& plan, const Machine& machine,
                                        const SimulationModel& model = {});

// Sets the plan's predictions (predicted_*, lower_bound_seconds, bytes_to_*) to what SimulatePlan finds.
absl::Status FillPredictions(const Machine& machine, ExecutionPlan* plan, const SimulationModel& model = {});

// The longest of: a device's compute, and its bytes over its link each way.
double LowerBoundSeconds(double compute_seconds, int64_t bytes_to_host, int64_t bytes_to_device, const Machine& machine);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_SIMULATOR_H_
