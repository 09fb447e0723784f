#include "session/replanner.h"

#include <glog/logging.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kMostRounds = 2;
constexpr int kLowestPriority = 19;
// Steps of one plan differ by so much, of a step, even where each is the fastest of several.
constexpr double kNoise = 0.005;

// Another order or other copies cannot make a plan faster that has neither copies to hide nor nodes to save.
bool CanGain(const ExecutionPlan& plan) {
  return plan.counts.swap_ins + plan.counts.swap_outs + plan.counts.recomputed_nodes > 0;
}

}  // namespace

Replanner::Replanner(Settings settings, std::shared_ptr<const ExecutionPlan> plan, GraphSummary summary)
    : settings_(std::move(settings)), plan_(std::move(plan)), summary_(std::move(summary)) {}

Replanner::~Replanner() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

bool Replanner::WantsTimes() const {
  const ReplanOptions& options = settings_.options;
  // A step that could be replayed may be followed by some that cannot.
  const bool timed = replays_ == 0 || replays_ >= options.replayed_steps || recorded_ > 0 ||
                     steps_ >= options.skipped_steps + 2 * options.replayed_steps;
  return options.mode != ReplanOptions::Mode::kOff && steps_ >= options.skipped_steps && timed && recorded_ < options.measured_steps &&
         !thread_.joinable();
}

void Replanner::AddStep(const StepStats& stats, double seconds, const CompileFunction& compile) {
  const bool wanted = WantsTimes();
  ++steps_;
  if (stats.replayed && ++replays_ <= settings_.options.replayed_steps) replay_seconds_ = std::min(replay_seconds_, seconds);
  if (!wanted) return;
  ++recorded_;
  if (!stats.replayed) step_seconds_ = std::min(step_seconds_, seconds);
  if (recorder_ == nullptr) recorder_ = std::make_unique<TimeRecorder>(*plan_);
  recorder_->AddStep(stats.trace, seconds);
  if (WantsTimes() || recorder_->steps() == 0) return;
  times_ = recorder_->Times();
  times_->link_gbps = settings_.link_gbps;
  times_->threads = settings_.threads;
  recorder_.reset();
  const absl::Status shortened =
      ShortenToStep(replay_seconds_, WithMeasuredLinks(settings_.machine, *times_, settings_.link_gbps), *plan_, &*times_);
  LOG_IF(WARNING, !shortened.ok()) << "times of nodes stay as they are with events around each: " << shortened;
  ++rounds_;
  if (FormerWasFaster()) {
    found_ = Replanned{true, former_->plan, former_->summary, 0, nullptr};
    rounds_ = kMostRounds;
    done_ = true;
    return;
  }
  former_.reset();
  if (settings_.options.mode == ReplanOptions::Mode::kWait) {
    Plan(compile);
    return;
  }
  try {
    thread_ = std::thread([this, compile] {
      pthread_setname_np(pthread_self(), "planner");
      // Steps that run meanwhile come first.
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
      Plan(compile);
    });
  } catch (const std::system_error& error) {
    found_ = absl::ResourceExhaustedError(absl::StrCat("no thread: ", error.what()));
    done_ = true;
  }
}

double Replanner::Seconds() const { return replay_seconds_ < std::numeric_limits<double>::infinity() ? replay_seconds_ : step_seconds_; }

bool Replanner::FormerWasFaster() const {
  if (!former_) return false;
  return 1 - Seconds() / former_->seconds < std::min(settings_.options.least_gain, 0.0) - kNoise;
}

void Replanner::Plan(const CompileFunction& compile) {
  // Rules of the embedding program's ops run here, too, and nobody above this thread would catch what they throw.
  found_ = WithoutExceptions([&]() -> absl::StatusOr<Replanned> {
    const auto start = std::chrono::steady_clock::now();
    const Machine machine = WithMeasuredLinks(settings_.machine, *times_, settings_.link_gbps);
    Replanned found;
    ExecutionPlan present = *plan_;
    MR_RETURN_IF_ERROR(PredictWithMeasuredTimes(*times_, machine, &present));
    if (CanGain(present) && rounds_ <= kMostRounds) {
      MR_ASSIGN_OR_RETURN(Compiled other, compile(*times_, machine, stop_));
      MR_RETURN_IF_ERROR(PredictWithMeasuredTimes(*times_, machine, &other.plan));
      found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      found.switched =
          1 - other.plan.predicted_step_seconds / present.predicted_step_seconds >= settings_.options.least_gain;
      // The bound of the cost rules says nothing of this machine.
      present.lower_bound_seconds = other.plan.lower_bound_seconds;
      if (found.switched) {
        found.former = std::make_shared<const ExecutionPlan>(std::move(present));
        present = std::move(other.plan);
      }
      found.summary = std::move(other.summary);
    }
    found.plan = std::make_shared<const ExecutionPlan>(std::move(present));
    return found;
  });
  done_ = true;
}

std::optional<Replanner::Replanned> Replanner::Take() {
  if (!done_) return std::nullopt;
  if (thread_.joinable()) thread_.join();
  done_ = false;
  if (!found_.ok()) {
    LOG(WARNING) << "planning with measured times: " << found_.status() << "; the present plan stays";
    return std::nullopt;
  }
  return *std::move(found_);
}

void Replanner::Use(const Replanned& found) {
  plan_ = found.plan;
  if (!found.switched) return;
  former_.reset();
  if (found.former != nullptr) former_ = Ran{found.former, std::move(summary_), Seconds()};
  summary_ = found.summary;
  // A plan that takes over is measured in its turn.
  steps_ = recorded_ = replays_ = 0;
  replay_seconds_ = step_seconds_ = std::numeric_limits<double>::infinity();
}

}  // namespace millrace
