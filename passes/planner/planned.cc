#include "passes/planner/planned.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "passes/access/schedule.h"
#include "passes/access/swap_choice.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/carry_homes.h"
#include "passes/planner/gaps.h"
#include "passes/planner/improve_plan.h"
#include "passes/planner/last_resort.h"
#include "passes/planner/lower_bound.h"
#include "passes/planner/pack_trial.h"
#include "passes/planner/place.h"
#include "passes/planner/replay_packed.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "passes/planner/trial_maker.h"
#include "passes/planner/trial_settings.h"
#include "passes/swaps/choose_swaps.h"

namespace millrace {
namespace {

constexpr double kCriticalWindows[] = {1, 0.5, 2};
constexpr int kCriticalRounds = 3;
constexpr double kNearBound = 1.01;       // step / cut bound, likewise
constexpr double kNearBoundOfFew = 1.003;  // the same for a graph of few operations, whose trials are cheap
// What so many copies cost compute is not worth a search, if it is no more than this part of it.
constexpr double kFewCopies = 32, kLaunchesHidden = 0.002;
constexpr double kLeastGain = 0.999;     // a round must gain this much to be followed by another
constexpr size_t kFewPolicies = 2;
// Of the step without stalls: copies of variables that take less are not worth it.
constexpr double kWorthCarrying = 0.02;
// Moves at random: trials that take so much longer than the best plan's are not placed, where placing has made that plan shorter than its
// trial; elsewhere it hardly ever does. Moves of variables are, under so many policies.
constexpr double kWorthMoving = 1.03;
constexpr uint32_t kHomePolicies = 2;
// A trial this much slower than the best plan is not placed: placing gains less.
constexpr double kWorthPlacing = 1.15;
// Trials that are placed, the best first.
constexpr size_t kPlacedTrials = 3;
// Quick plans of more operations are told apart by their trials alone; smaller ones are replayed, too, which may even be faster.
constexpr int32_t kPlacedOperations = 3'000;
// Graphs of more operations are placed in order of time only where no trial packs.
constexpr int32_t kReplayedOperations = 8'000;
// Rounds in which a trial that does not pack gives way. The first trial has more.
constexpr int kReliefRounds = 2;
constexpr int kFirstReliefRounds = 5;
// A packing may make the step so much longer before another way to pack is tried.
constexpr double kAsFast = 1.002;
constexpr double kPacksBadly = 1.05;  // the same, before blocks are placed by size
// A plan may take so much less than its fastest trial.
constexpr double kLeastTrial = 0.98;
// A large graph gets few trials, for these targets: with some room left copies in need not wait for copies out, and
// packing succeeds. The first that packs is improved; of graphs of so many operations it is taken.
constexpr int32_t kManyOperations = 200'000;
constexpr size_t kTargetsOfMany[] = {7, 1, 2, 3, 4};

// Parts of the budget that a quick plan of a small graph is made for where one for all of it is not wanted.
constexpr double kLessMemory[] = {0.97, 0.94};

// Targets of trials in which the homes that are swapped are spread over the step; a quick plan has the first.
constexpr size_t kSpreadTargets[] = {7, 9, 1};

// Trials of a quick plan of n operations, at most.
int QuickTrialsFor(int32_t operations) {
  return operations > kManyOperations ? 1 : std::clamp(8'000 / std::max(operations, 1), 2, 8);
}

// Parts of the work for a first plan: for trials, before the best are packed, and what packing leaves to others.
constexpr double kWorkForTrials = 0.4, kLeftByPacking = 0.2;
// Of what is left of it: for one packing that does not fit.
constexpr int64_t kPackingParts = 4;
// Of all work that a graph is worth, the same for a packing in a move.
constexpr int64_t kMovePackingParts = 12;

// Units of WorkBudget for the bound, of an operation or gap.
constexpr int64_t kBoundWork = 600;

// Sweeps over what was packed for the whole step in vain.
constexpr int kFewTries = 2;

class Portfolio {
 public:
  Portfolio(const GapGraph& gaps, int64_t budget_bytes, const PlanLimits& limits, WorkBudget& work)
      : gaps_(gaps),
        budget_(budget_bytes),
        effort_(limits.effort),
        deadline_(limits.deadline),
        bound_(CutBound(gaps, budget_bytes)),
        goal_(Goal()),
        known_(limits.known_seconds),
        may_carry_(limits.residents_leave),
        homes_matter_(HomesMatter(gaps, budget_bytes)),
        work_(work),
        end_(work.left() - static_cast<int64_t>(limits.work_part * static_cast<double>(work.left()))),
        packing_work_(SearchWork(gaps.num_operations()) / kMovePackingParts),
        maker_(gaps, budget_bytes, work) {}

  // The fastest of a few trials, as simulated, or placed where that is as good as free.
  Placement Quick() {
    if (homes_matter_ && gaps_.num_operations() <= kLargeGraph) TrySpreadHomes(1, kPlacedTrials);
    TryWhatWasWaitedFor(QuickTrialsFor(gaps_.num_operations()));
    if (gaps_.num_operations() <= kPlacedOperations && best_trial() > goal_) Place(trials_.front(), 0, best_trial());
    if (best_.ok() && best_->step_seconds < best_trial()) return *std::move(best_);
    return Unplaced();
  }

  // A first plan. Aborted when none is faster than what is known.
  absl::Status Begin() {
    reserve_ = Part(1 - kWorkForTrials);
    const int64_t left_by_packing = Part(kLeftByPacking);
    if (known_ <= kHidden * bound_) return absl::AbortedError("a plan is known that is hardly longer than this one's bound");
    if (gaps_.num_operations() > kLargeGraph && TryTargets()) {
      finished_ = gaps_.num_operations() > kManyOperations;
      if (finished_) return absl::OkStatus();
    } else {
      TryWindows();
      TryCriticalWeights();
      // Beside the others, which placing may make more of; a larger graph has the one that its quick plan began with.
      const bool small = gaps_.num_operations() <= kPlacedOperations;
      if (homes_matter_ && best_trial() > goal_) {
        if (!small || MayTry()) TrySpreadHomes(small ? std::size(kSpreadTargets) : 1, kPlacedTrials + (small ? 1 : 0));
      }
    }
    if (kLeastTrial * best_trial() >= known_) {
      if (gaps_.num_operations() <= kReplayedOperations) Place(trials_.front(), 0);
      if (!best_.ok()) return absl::AbortedError("a faster plan is known");
    }
    reserve_ = left_by_packing;
    PackTheBest();
    if (!Done() && (!best_.ok() || gaps_.num_operations() <= kReplayedOperations)) PlaceTheBest();
    return absl::OkStatus();
  }

  // Changes the best plan's settings for as long as there are so many units of work, and moves that are of use.
  void Improve(int64_t units) {
    if (finished()) return;
    if (!improver_) BeginToImprove();
    end_ = work_.left() - units;
    reserve_ = 0;
    while (!finished()) {
      if (!MayTry()) return;
      const std::vector<SwapDecision>& decisions = best_.ok() ? best_->choice.decisions : trials_.front().decisions;
      const std::optional<Move> move = improver_->Next(settings_, decisions);
      finished_ = !move;
      if (!move) return;
      const int64_t before = left();
      const double longer = placed_seconds();
      const double trial_seconds = Make(*move);
      improver_->Told(*move, before - left(), placed_seconds() < longer ? 1 - placed_seconds() / longer : 0, trial_seconds);
    }
  }

  bool finished() const { return finished_ || Done(); }
  int64_t left() const { return work_.left() - end_; }
  // Infinite when nothing has been placed.
  double step_seconds() const { return carried_ ? std::min(placed_seconds(), carried_->step_seconds) : placed_seconds(); }

  // ResourceExhausted when nothing could be placed, Aborted when nothing is faster than what is known.
  absl::StatusOr<Placement> Take() {
    if (!best_.ok() && known_ < kNotKnown) return absl::AbortedError("a faster plan is known");
    if (carried_ && carried_->step_seconds < best_->step_seconds) return *std::move(carried_);
    return std::move(best_);
  }

 private:
  static constexpr size_t kPacked = kPolicies;

  double placed_seconds() const { return best_.ok() ? best_->step_seconds : kNotKnown; }
  bool Late() const { return deadline_.passed(); }
  int64_t Part(double part) const { return static_cast<int64_t>(part * static_cast<double>(left())); }
  // Every phase leaves a part of the work to the next.
  bool MayTry() const { return left() > reserve_ && !Late(); }
  // What is not faster than this is of no use.
  double ToBeat() const { return (1 - 1e-4) * (best_.ok() ? std::min(best_->step_seconds, known_) : known_); }

  void Try(double window, const TransferWeights& weights) { Keep(maker_.Make({window, weights}), kPlacedTrials); }

  // Among the fastest, at most so many.
  void Keep(Trial trial, size_t most) {
    const auto slower = [&](const Trial& other) {
      return trial.result.step_seconds < other.result.step_seconds * (1 - 1e-4);
    };
    trials_.insert(std::find_if(trials_.begin(), trials_.end(), slower), std::move(trial));
    if (trials_.size() > most) trials_.pop_back();
  }

  double best_trial() const { return trials_.front().result.step_seconds; }

  void TryWindows() {
    for (double window : kWindows) {
      if (!trials_.empty() && (best_trial() <= goal_ || !MayTry())) return;
      Try(window, {});
    }
  }

  // Keeps the fastest for the first targets. Of homes that are about equally worth staying, those at one end of the step would leave else,
  // and all copies would want the link at once.
  void TrySpreadHomes(size_t targets, size_t most) {
    std::optional<Trial> best;
    for (size_t k = 0; k < targets && (!best || best->result.step_seconds > goal_); ++k) {
      TrialSettings settings;
      settings.weights.spread_homes = true;
      settings.target = kSpreadTargets[k];
      if (!maker_.HasRoom(settings)) continue;
      Trial trial = maker_.Make(settings);
      if (!best || trial.result.step_seconds < best->result.step_seconds) best = std::move(trial);
    }
    if (best) Keep(*std::move(best), most);
  }

  // False where none packs.
  bool TryTargets() {
    for (const size_t target : kTargetsOfMany) {
      TrialSettings settings;
      settings.target = target;
      if (!maker_.HasRoom(settings)) return false;
      const bool last = target == kTargetsOfMany[std::size(kTargetsOfMany) - 1];
      trials_.assign(1, maker_.Make(settings));
      if (PackOrRelieve(trials_.front(), last ? kReliefRounds : 0)) return true;
    }
    trials_.clear();
    return false;
  }

  // Says more of a large graph than other windows.
  void TryWhatWasWaitedFor(int trials) {
    Try(kWindows[0], {});
    for (int k = 1; k < trials && best_trial() > goal_ && !Late(); ++k) {
      const double before = best_trial();
      Try(kWindows[0], CriticalWeights(gaps_, trials_.front().result));
      if (best_trial() > kLeastGain * before) return;
    }
  }

  // Whether copies home of variables are worth thinking of.
  bool MayCarry() {
    if (!may_carry_) return false;
    int64_t home_bytes = 0;  // copied home by the best trial that carries nothing
    for (const SwapDecision& d : trials_.front().decisions) {
      if (d.copy_out && d.before == SwapDecision::kToHost) home_bytes += gaps_.graph->storages[d.storage].size_bytes;
    }
    maker_.set_home_bytes(home_bytes);
    return static_cast<double>(home_bytes) * gaps_.seconds_per_byte_out > kWorthCarrying * gaps_.compute_seconds();
  }

  void BeginToImprove() {
    Improver::Options options;
    options.places = gaps_.num_operations() <= kReplayedOperations;
    options.reprices = options.places;
    options.homes_matter = homes_matter_;
    options.may_carry = MayCarry();
    improver_.emplace(gaps_, budget_, options);
    if (Done()) return;
    // The bound of the plan, not of cuts alone: there the search may end.
    bound_ = std::max(bound_, LowerBound(gaps_, budget_, placed_seconds()));
    work_.Spend(kBoundWork * (gaps_.num_operations() + static_cast<int64_t>(gaps_.gaps.size())));
    goal_ = Goal();
  }

  double Goal() const {
    const double near = gaps_.num_operations() <= kReplayedOperations ? kNearBoundOfFew : kNearBound;
    const double launches = std::min(kFewCopies * gaps_.copy_launch, kLaunchesHidden * gaps_.compute_seconds());
    return std::max(kHidden * gaps_.compute_seconds(), near * bound_) + launches;
  }

  // A trial with other settings, packed or placed where it promises something. The trial's step; 0 where there is no room for one, or its
  // copies alone take too long.
  double Make(const Move& move) {
    if (!maker_.HasRoom(move.settings)) return 0;
    const Trial trial = maker_.Make(move.settings, {}, ToBeat());
    const double seconds = trial.result.step_seconds;
    if (seconds == kNotKnown) return 0;
    if (move.look) return seconds;
    const double worth_moving = best_.ok() && best_trial_seconds_ > best_->step_seconds ? kWorthMoving : 1;
    const bool places = !best_.ok() || gaps_.num_operations() <= kReplayedOperations;
    const auto place = [&](double worth, size_t begin, size_t end) {
      for (size_t p = begin; places && p < end && seconds < worth * std::max(ToBeat(), best_trial_seconds_); ++p) Place(trial, p);
    };
    const size_t policy = move.settings.policy;
    switch (move.kind) {
      case Move::kNeighbour:
        if (!PackOrRelieve(trial, kReliefRounds)) place(kWorthPlacing, policy, policy + 1);
        break;
      case Move::kReprice:
        if (trial.settings.carried > 0) PackOrRelieve(trial, 0);
        place(worth_moving, policy, policy + 1);
        break;
      case Move::kExchangeHomes:
        PackOrRelieve(trial, 0);
        place(worth_moving, 0, kHomePolicies);
        break;
      case Move::kSpreadHomes:
        PackOrRelieve(trial, kReliefRounds);
        place(kWorthPlacing, 0, kHomePolicies);
        break;
      case Move::kCarry:
        PackOrRelieve(trial, kReliefRounds);
        break;
    }
    return seconds;
  }

  void TryCriticalWeights() {
    for (int round = 0; round < kCriticalRounds && best_trial() > goal_; ++round) {
      const TransferWeights weights = CriticalWeights(gaps_, trials_.front().result);
      const double before = best_trial();
      for (double window : kCriticalWindows) {
        if (!MayTry()) return;
        Try(window, weights);
      }
      if (best_trial() > kLeastGain * before) return;
    }
  }

  bool IsBetter(const Trial& trial) const { return trial.result.step_seconds < ToBeat(); }

  // Trials of other settings are often the same. True the first time, for what is done with the trial.
  bool IsNew(const Trial& trial, size_t policy) { return seen_.emplace(HashOf(trial.decisions), policy).second; }

  int PackTries() const {
    return gaps_.num_operations() > kReplayedOperations ? 3 : 12;
  }

  // Of a move it does not depend on how much of a piece of work is left.
  int64_t MostPackingWork() const { return improver_ ? packing_work_ : left() / kPackingParts; }

  // In order of time, or for the whole step at once. Without rounds of relief it does not matter what fails.
  PackedTrial Pack(const Trial& trial, bool in_time, int rounds, SkylineKey& key) {
    if (in_time) return PackInTime(trial, rounds, gaps_.num_operations() > kLargeGraph);
    PackedTrial packed = PackTrial(gaps_, budget_, trial.decisions, trial.result, key);
    work_.Spend(packed.work);
    return packed;
  }

  PackedTrial PackInTime(const Trial& trial, int rounds, bool may_send_away) {
    const int tries = rounds == 0 ? 0 : trial.settings.carried > 0 ? kFewTries : PackTries();
    PackedTrial packed = PackTrialInTime(gaps_, budget_, trial.decisions, trial.result, tries, MostPackingWork(), may_send_away);
    work_.Spend(packed.work);
    return packed;
  }

  // One way, and, where that does not do in the first of several rounds, the other.
  PackedTrial PackEitherWay(const Trial& trial, int round, int rounds, SkylineKey& key) {
    const bool carried = trial.settings.carried > 0;
    PackedTrial packed = Pack(trial, !carried, rounds, key);
    const bool badly = !packed.fits || (!carried && packed.step_seconds > kAsFast * trial.result.step_seconds);
    if (round > 0 || rounds == 0 || !badly) return packed;
    PackedTrial other = Pack(trial, carried, rounds, key);
    return other.fits ? std::move(other) : std::move(packed);
  }

  // Packs the trial if it is faster than the best plan; what reaches beyond the budget makes it give way and try again. In large graphs, before
  // that costs much, what nothing uses for a while may leave where room is in pieces. True when it packed, and is the best so far.
  bool PackOrRelieve(Trial trial, int rounds) {
    std::vector<int64_t> set_aside(gaps_.num_operations(), 0);
    SkylineKey key = SkylineKey::kAny;
    if (!IsNew(trial, kPacked)) return false;
    const int32_t n = gaps_.num_operations();
    for (int round = 0; IsBetter(trial); ++round) {
      PackedTrial packed = PackEitherWay(trial, round, rounds, key);
      if (packed.fits) return AdoptPacked(trial, packed);
      if (round == rounds || ((Late() || (!improver_ && left() <= 0)) && (best_.ok() || round >= kReliefRounds))) return false;
      Trial relieved = maker_.Relieved(trial, packed.excess, set_aside);
      const bool dear = relieved.result.step_seconds > kDearRelief * trial.result.step_seconds;
      if (dear && n > kReplayedOperations && n <= kLargeGraph) {
        packed = PackInTime(trial, rounds, true);
        if (packed.fits && packed.step_seconds < relieved.result.step_seconds) return AdoptPacked(trial, packed);
      }
      trial = std::move(relieved);
    }
    return false;
  }

  bool AdoptPacked(const Trial& trial, PackedTrial& packed) {
    if (packed.step_seconds >= ToBeat()) return false;
    Adopt({std::move(packed.choice), packed.step_seconds, 0});
    settings_ = trial.settings;
    best_trial_seconds_ = trial.result.step_seconds;
    return true;
  }

  void PackTheBest() {
    const bool large = gaps_.num_operations() > kReplayedOperations;
    const int first = gaps_.num_operations() > kManyOperations ? 1 : kFirstReliefRounds;
    for (size_t t = 0; t < trials_.size() && !Done() && !(best_.ok() && (large || !MayTry())); ++t) {
      PackOrRelieve(trials_[t], t == 0 ? first : kReliefRounds);
    }
  }

  // Places the trial under policy p; true when that is the best so far, and takes less than `most_seconds`.
  bool Place(const Trial& trial, size_t p, double most_seconds = kNotKnown) {
    if (trial.settings.carried > 0 || !IsNew(trial, p)) return false;
    int64_t work = 0;
    absl::StatusOr<Placement> placed =
        PlaceDecisions(gaps_, budget_, trial.decisions, PolicyAt(p, gaps_.compute_seconds(), budget_), std::min(ToBeat(), most_seconds), work);
    work_.Spend(work);
    if (absl::IsAborted(placed.status())) return false;
    if (!placed.ok()) {
      if (!best_.ok()) best_ = placed.status();
      return false;
    }
    if (placed->step_seconds >= ToBeat()) return false;
    Adopt(*std::move(placed));
    settings_ = trial.settings;
    settings_.policy = p;
    best_trial_seconds_ = trial.result.step_seconds;
    return true;
  }

  // The best so far, and beside it the shortest of all that were, with what they can carry: the search goes on from the former.
  void Adopt(Placement placement) {
    best_ = std::move(placement);
    if (!may_carry_ || gaps_.num_operations() > kLargeGraph) return;
    std::optional<Placement> carried = CarryHomes(gaps_, *best_);
    if (carried && (!carried_ || carried->step_seconds < carried_->step_seconds)) carried_ = *std::move(carried);
  }

  // The best trial as it was simulated.
  Placement Unplaced() {
    Placement placement;
    placement.choice.decisions = std::move(trials_.front().decisions);
    placement.step_seconds = best_trial();
    return placement;
  }

  bool Done() const { return step_seconds() <= goal_; }

  // The first trial under all policies, the others under the best so far. Where nothing packs well, it is because large blocks find no
  // room in one piece: policies by size come first then, whatever the packings have left of the work.
  void PlaceTheBest() {
    if (!best_.ok() || best_->step_seconds > kPacksBadly * best_trial()) {
      for (size_t p = std::size(kLongLived); p < kPolicies; ++p) Place(trials_.front(), p);
      Place(trials_.front(), 0);
    }
    const size_t policies = gaps_.num_operations() > kReplayedOperations ? kFewPolicies : std::size(kLongLived);
    for (size_t t = 0; t < trials_.size(); ++t) {
      for (size_t p = 0; p < (t == 0 ? policies : 1); ++p) {
        if (Done() || (best_.ok() && !MayTry())) return;
        Place(trials_[t], t == 0 ? p : settings_.policy);
      }
      if (!MayTry()) break;
    }
    if (!best_.ok()) settings_ = trials_.front().settings;
  }

  const GapGraph& gaps_;
  const int64_t budget_;
  const PlanEffort effort_;
  const Deadline deadline_;
  double bound_;
  double goal_;
  const double known_;  // seconds
  const bool may_carry_;
  const bool homes_matter_;
  WorkBudget& work_;
  int64_t end_;          // of work_, when this plan's part of it is done
  int64_t reserve_ = 0;  // for later phases
  const int64_t packing_work_;  // of a move
  TrialMaker maker_;
  std::vector<Trial> trials_;  // the fastest first
  absl::StatusOr<Placement> best_ = absl::InternalError("nothing was placed");
  std::optional<Placement> carried_;
  TrialSettings settings_;          // of the best
  double best_trial_seconds_ = 0;   // with them, before it was placed
  std::set<std::pair<uint64_t, size_t>> seen_;  // decisions, and what was done with them
  std::optional<Improver> improver_;
  bool finished_ = false;
};

// Packs the choice, whose fetched values keep their places where there is room; true when it fits, and the addresses and its step are in it then.
bool Pack(const GapGraph& gaps, int64_t budget_bytes, SwapChoice& choice) {
  const Schedule schedule = BuildSchedule(*gaps.graph, choice);
  const auto fits = [&](const Schedule& packed) {
    MemoryAssignment memory = PackMemory(*gaps.graph, packed, choice, budget_bytes);
    if (memory.arena_bytes > budget_bytes) return false;
    choice.residence_offsets = std::move(memory.residence_offsets);
    choice.scratch_offsets = std::move(memory.scratch_offsets);
    choice.predicted_seconds = ReplayPacked(gaps, schedule, choice);
    return true;
  };
  if (!gaps.graph->fetches.empty()) {
    Schedule roomy = schedule;
    if (StayUntilFetched(gaps, roomy) && fits(roomy)) return true;
  }
  return fits(schedule);
}

void GiveReasons(const GapGraph& gaps, std::vector<SwapDecision>& decisions) {
  for (SwapDecision& d : decisions) {
    if (d.reason.empty()) d.reason = ReasonOf(gaps, d);
  }
}

}  // namespace

struct PlannedSearch::State {
  const GapGraph& gaps;
  const int64_t budget_bytes;
  const PlanLimits limits;
  WorkBudget own_work;
  absl::StatusOr<SwapChoice> everything = absl::NotFoundError("not everything stays");
  std::optional<Portfolio> portfolio;
};

PlannedSearch::PlannedSearch(GapGraph& gaps, int64_t budget_bytes, const PlanLimits& limits)
    : state_(new State{gaps, budget_bytes, limits, WorkBudget(SearchWork(gaps.num_operations()))}) {
  if (gaps.full.empty() || *std::max_element(gaps.full.begin(), gaps.full.end()) <= budget_bytes) {
    SwapChoice choice = KeepEverything(*gaps.graph);
    if (Pack(gaps, budget_bytes, choice)) {
      state_->everything = std::move(choice);
      return;
    }
  }
  if (gaps.makes_room.empty()) OrderGaps(gaps);
  state_->portfolio.emplace(gaps, budget_bytes, limits, limits.work != nullptr ? *limits.work : state_->own_work);
}

PlannedSearch::~PlannedSearch() = default;
PlannedSearch::PlannedSearch(PlannedSearch&&) noexcept = default;

absl::Status PlannedSearch::Begin() { return state_->portfolio ? state_->portfolio->Begin() : absl::OkStatus(); }

void PlannedSearch::Improve(int64_t units) {
  if (state_->portfolio) state_->portfolio->Improve(units);
}

bool PlannedSearch::finished() const { return !state_->portfolio || state_->portfolio->finished(); }

double PlannedSearch::step_seconds() const {
  return state_->portfolio ? state_->portfolio->step_seconds() : state_->everything->predicted_seconds;
}

int64_t PlannedSearch::left() const { return state_->portfolio ? state_->portfolio->left() : 0; }

SwapChoice PlannedSearch::TakeQuick() {
  if (!state_->portfolio) return *std::move(state_->everything);
  Placement placement = state_->portfolio->Quick();
  placement.choice.predicted_seconds = placement.step_seconds;
  return std::move(placement.choice);
}

absl::StatusOr<SwapChoice> PlannedSearch::Take() {
  if (!state_->portfolio) return std::move(state_->everything);
  absl::StatusOr<Placement> best = state_->portfolio->Take();
  if (absl::IsAborted(best.status())) return best.status();
  if (!best.ok()) return LastResort(state_->gaps, state_->budget_bytes);
  GiveReasons(state_->gaps, best->choice.decisions);
  best->choice.predicted_seconds = best->step_seconds;
  return std::move(best->choice);
}

namespace {

// A plan for less memory is one for more, and trials are so few that a quick plan for less may be the shorter one: so much less is tried before an
// order is turned down for what its quick plan takes.
absl::StatusOr<SwapChoice> PlanQuickly(GapGraph& gaps, int64_t budget_bytes, const PlanLimits& limits) {
  if (limits.known_seconds < kNotKnown && CutBound(gaps, budget_bytes) >= limits.known_seconds) return absl::AbortedError("a faster plan is known");
  SwapChoice best = PlannedSearch(gaps, budget_bytes, limits).TakeQuick();
  if (gaps.num_operations() > kPlacedOperations) return best;
  for (const double part : kLessMemory) {
    const auto less = static_cast<int64_t>(part * static_cast<double>(budget_bytes));
    if (best.predicted_seconds < limits.known_seconds || limits.deadline.passed()) break;
    if (less < gaps.largest_working_set() || CutBound(gaps, less) >= limits.known_seconds) break;
    SwapChoice other = PlannedSearch(gaps, less, limits).TakeQuick();
    if (other.predicted_seconds < best.predicted_seconds) best = std::move(other);
  }
  return best;
}

}  // namespace

absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes,
                                       const PlanLimits& limits, GapGraph* known) {
  if (budget_bytes == 0) return KeepEverything(graph);
  GapGraph found;
  GapGraph& gaps = known != nullptr ? *known : found;
  if (gaps.graph == nullptr) gaps = FindGaps(graph, machine);
  if (limits.effort == PlanEffort::kQuick) return PlanQuickly(gaps, budget_bytes, limits);
  PlannedSearch search(gaps, budget_bytes, limits);
  if (absl::Status begun = search.Begin(); !begun.ok()) return begun;
  search.Improve(search.left());
  return search.Take();
}

}  // namespace millrace
