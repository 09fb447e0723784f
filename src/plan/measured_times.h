// Times of nodes and links from what training steps recorded, and plans that are predicted with them.
//
// What a step of a lane took is told from the trace: a compute step that had to wait for another lane counts from its
// own start (what passed between the end of that wait and the start is the *wake* time, which the simulator adds to
// every wait), any other from the end of the step before it, so that dispatch is in it. Steps of one group ran at
// once: the time from the first start to the last end is shared out among them.
#ifndef MILLRACE_SRC_PLAN_MEASURED_TIMES_H_
#define MILLRACE_SRC_PLAN_MEASURED_TIMES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/profile.h"
#include "millrace/report.h"
#include "plan/simulator.h"

namespace millrace {

// Collects recorded steps of one plan. One thread at a time.
class TimeRecorder {
 public:
  // `plan` outlives the recorder.
  explicit TimeRecorder(const ExecutionPlan& plan) : plan_(&plan) {}

  // A step that took `step_seconds` as a whole; `events` by lane and step, one for each.
  void AddStep(absl::Span<const TraceEvent> events, double step_seconds);
  int64_t steps() const { return static_cast<int64_t>(step_overhead_.size()); }
  // Medians over the steps added. Nodes with equal names (in several partitions of a plan) share one time.
  Profile Times() const;

 private:
  struct CopyFigures {
    std::vector<double> rate, latency;  // per step that copied
  };
  void AddCompute(const Lane& lane, absl::Span<const TraceEvent> events, absl::Span<const double> ready,
                  std::vector<float>& seconds);
  void AddCopies(const Lane& lane, absl::Span<const TraceEvent> events, absl::Span<const double> ready);

  const ExecutionPlan* plan_;
  std::vector<std::vector<float>> node_seconds_;  // per step; compute steps of all lanes in order
  CopyFigures to_host_, to_device_;
  std::vector<double> wake_;        // mean of each step
  std::vector<double> step_wakes_;  // of the step that is being added
  std::vector<double> step_overhead_;
};

// Finds a node's measured time: by name, else (a node that a pass added) the mean over nodes of its op and types.
class NodeTimes {
 public:
  explicit NodeTimes(const Profile& profile);
  std::optional<double> Find(const OpInstance& instance) const;

 private:
  const std::map<std::string, NodeTime> nodes_;
  std::map<std::pair<std::string, std::string>, double> by_kind_;  // of op and types
};

// A part of an update that was cut is named by this and a number behind the update's name; its size follows the budget.
inline constexpr char kUpdatePartName[] = "/part_";

// InvalidArgument when the profile is not of this plan's graph: a node has another op or other types there. Nodes that
// it does not know are fine (those of initializers, of other fetches), and parts of other sizes, and nodes that are fused in
// one of the two.
absl::Status CheckProfile(const Profile& profile, const ExecutionPlan& plan);

// The machine with the link rates of the profile, where it has them and was measured with this link.
Machine WithMeasuredLinks(Machine machine, const Profile& profile, double link_gbps);

// Nodes that are launched one by one, with events around each, take longer by about as much each than in the graph that a step is
// otherwise: what the host takes to launch them. Shortens nodes and wakes by the least with which `plan` is predicted to take
// `seconds`, as such a step did; a node to a quarter at most. Where copies keep the step longer, by the least that they still show.
absl::Status ShortenToStep(double seconds, const Machine& machine, const ExecutionPlan& plan, Profile* profile);

// Sets the plan's times to the measured ones and its predictions to what the simulator then finds. The lower bound of a
// plan that swaps is its order's and stays.
absl::Status PredictWithMeasuredTimes(const Profile& profile, const Machine& machine, ExecutionPlan* plan);

// The step of a plan whose times and predictions are of this profile.
absl::StatusOr<Simulation> SimulateWithMeasuredTimes(const Profile& profile, const Machine& machine, double link_gbps, const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_MEASURED_TIMES_H_
