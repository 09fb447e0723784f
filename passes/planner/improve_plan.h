// Improve: which neighbour of the best plan's settings is worth the next trial.
//
// A *move* is the best plan's settings with one thing changed; there are five *kinds*. Each kind has a share of the work, which
// grows with what its moves gained for theirs. The next move is of the kind that is furthest behind its share. What was spent
// and gained is all that this depends on, not how much work is left: with more work a search goes on where it ended with less,
// so its plan is never longer.
#ifndef MILLRACE_PASSES_PLANNER_IMPROVE_PLAN_H_
#define MILLRACE_PASSES_PLANNER_IMPROVE_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "passes/access/access_graph.h"
#include "passes/planner/gaps.h"
#include "passes/planner/trial_settings.h"

namespace millrace {

struct Move {
  enum Kind {
    kNeighbour,      // another target, window, slack, policy
    kReprice,        // other prices of transfers in a part of the step
    kSpreadHomes,    // home gaps that are swapped are spread over the step
    kExchangeHomes,  // another variable stays
    kCarry,          // variables that stay over the step's end, but not all through the step
  };
  static constexpr int kKinds = 5;
  Kind kind = kNeighbour;
  TrialSettings settings;
  bool look = false;  // a trial alone, to tell which of many are worth more
};

class Improver {
 public:
  // Which kinds of moves there are, and whether policies of placing matter.
  struct Options {
    bool places = false, reprices = false, homes_matter = false, may_carry = false;
  };
  Improver(const GapGraph& gaps, int64_t budget_bytes, const Options& options);

  // A neighbour of the settings with which the best plan was made; `decisions` are its own. Nothing when all have been tried, or
  // many in vain.
  std::optional<Move> Next(const TrialSettings& best, const std::vector<SwapDecision>& decisions);

  // Units of WorkBudget that the move took, which part of the step it gained, and the step that the trial had; 0: none of use was made.
  void Told(const Move& move, int64_t work, double gained, double trial_seconds);

 private:
  struct Kind {
    bool exists = false, may = false;  // whether there are such moves; whether any is left
    double turn = 0;              // work done in units of its share: the least is next
    double work = 0, gained = 0;  // of late
  };
  // Settings that are looked at together before the best of them are planned.
  struct Batch {
    size_t next = 0;                                       // of the list of settings
    std::vector<std::pair<double, TrialSettings>> looked;  // step of the trial
    bool sorted = false;
    size_t planned = 0;
    bool gained = false;
  };
  enum class Part { kTarget, kPolicy, kSlack, kWindow, kCarried };

  std::optional<Move> Make(Move::Kind kind, const TrialSettings& best, const std::vector<SwapDecision>& decisions);
  std::optional<TrialSettings> Neighbour(const TrialSettings& best);
  std::optional<Move> OfBatch(Move::Kind kind, const TrialSettings& best);
  static TrialSettings Spread(const TrialSettings& best, size_t k);
  static TrialSettings Carry(const TrialSettings& best, size_t k);

  const GapGraph& gaps_;
  const int64_t budget_;
  std::array<Kind, Move::kKinds> kinds_;
  std::vector<std::pair<Part, size_t>> neighbours_;
  size_t next_neighbour_ = 0, neighbours_in_vain_ = 0;
  std::array<Batch, Move::kKinds> batches_;
  int in_vain_ = 0;  // moves at random
  std::mt19937 random_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_IMPROVE_PLAN_H_
