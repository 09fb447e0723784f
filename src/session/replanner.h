// Planning again with measured times, for one signature of a session.
//
//   step        1    2    3    4 ... 8    9 ...
//   recorded                   x ... x
//   planned                             on a thread of its own (ReplanOptions::kAuto)
//   switched                                    at the first step that starts after the plan is there
//
// Where steps are graphs of the device, recorded ones are not: the first few that are come before them, and times are shortened to the
// fastest of those.
//
// The new plan takes over when it is predicted to be faster, both plans simulated with the measured times. It is
// measured in its turn, and planned once more at most; where its fastest step is longer than the former plan's was, that one
// comes back and stays. A plan changes no result, so neither does any of this.
#ifndef MILLRACE_SRC_SESSION_REPLANNER_H_
#define MILLRACE_SRC_SESSION_REPLANNER_H_

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/profile.h"
#include "passes/pipeline.h"
#include "plan/measured_times.h"
#include "runtime/step_stats.h"

namespace millrace {

class Replanner {
 public:
  // Plans with these node times and this machine; gives up soon after `stop` is set. Runs beside steps.
  using CompileFunction =
      std::function<absl::StatusOr<Compiled>(const Profile&, const Machine&, const std::atomic<bool>& stop)>;

  struct Settings {
    ReplanOptions options;
    Machine machine;
    double link_gbps = 0;
    int32_t threads = 0;
  };
  // A plan from measured times.
  struct Replanned {
    bool switched = false;  // `plan` is another one; else the present one with new predictions
    std::shared_ptr<const ExecutionPlan> plan;
    GraphSummary summary;   // when switched
    double seconds = 0;     // that planning took; 0: nothing was planned
    std::shared_ptr<const ExecutionPlan> former;  // when planned and switched: the present plan with new predictions
  };

  // `summary`: of the graph that `plan` runs.
  Replanner(Settings settings, std::shared_ptr<const ExecutionPlan> plan, GraphSummary summary = {});
  // Stops planning and waits for its end.
  ~Replanner();
  Replanner(const Replanner&) = delete;
  Replanner& operator=(const Replanner&) = delete;

  // Whether the next step is to be recorded.
  bool WantsTimes() const;
  // After every step that succeeded. When the last one wanted is there, planning starts with `compile`.
  void AddStep(const StepStats& stats, double seconds, const CompileFunction& compile);
  // Between steps: what planning found, once. The former plan stays in force until Use is told otherwise.
  std::optional<Replanned> Take();
  // Steps run `found.plan` from now on.
  void Use(const Replanned& found);
  // Of all steps recorded so far; nullptr before enough of them.
  const Profile* times() const { return times_ ? &*times_ : nullptr; }

 private:
  // A plan that ran, and the least that one of its steps took.
  struct Ran {
    std::shared_ptr<const ExecutionPlan> plan;
    GraphSummary summary;
    double seconds = 0;
  };

  void Plan(const CompileFunction& compile);
  // The least of a step: of those that were graphs of the device where there are any, and else of those after the first ones.
  double Seconds() const;
  bool FormerWasFaster() const;

  const Settings settings_;
  std::shared_ptr<const ExecutionPlan> plan_;
  GraphSummary summary_;
  std::optional<Ran> former_;  // before the present plan took over
  std::unique_ptr<TimeRecorder> recorder_;
  int64_t steps_ = 0, recorded_ = 0, replays_ = 0;  // of the present plan
  int rounds_ = 0;     // of planning
  // The least of a step of the present plan: as a graph, and otherwise.
  double replay_seconds_ = std::numeric_limits<double>::infinity(), step_seconds_ = std::numeric_limits<double>::infinity();
  std::optional<Profile> times_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};  // `found_` is there and the thread at its end
  absl::StatusOr<Replanned> found_ = absl::UnavailableError("not planned yet");
};

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_REPLANNER_H_
