#include "passes/planner/improve_plan.h"

#include <algorithm>
#include <iterator>

#include "passes/planner/vary_weights.h"

namespace millrace {
namespace {

// Shares of the work in the order of Move::Kind, as long as nothing is known of what they gain, and how many times as much the
// kind gets that gained most for its work of late. Spreading homes is few moves and comes first: what it finds, others improve.
constexpr double kShares[] = {4, 2, 16, 4, 1};
constexpr double kReward = 3;
// What was spent and gained counts so much less with every move of the kind.
constexpr double kForget = 0.97;
// The search ends when so many moves at random in a row were of no use.
constexpr int kPatience = 500;
constexpr size_t kNeighbourTargets = 8;
constexpr size_t kHomeTargets[] = {0, 1, 2, 7, 8, 9};
constexpr size_t kCarriedTargets = 4;
constexpr size_t kSpreadSettings = std::size(kHomeTargets) * std::size(kWindows);
constexpr size_t kCarriedSettings = (std::size(kCarried) - 1) * std::size(kWindows);  // for a target
constexpr size_t kPlanned = 10;  // of a batch
// Variables of at least this part of the budget are exchanged, for one of so many targets.
constexpr int64_t kExchangedParts = 2000;
constexpr size_t kExchangeTargets[] = {0, 7, 8, 9, 10, 1};

}  // namespace

Improver::Improver(const GapGraph& gaps, int64_t budget_bytes, const Options& options) : gaps_(gaps), budget_(budget_bytes) {
  const bool there[] = {true, options.reprices, options.homes_matter, options.homes_matter && options.reprices, options.may_carry};
  for (int k = 0; k < Move::kKinds; ++k) kinds_[k].exists = kinds_[k].may = there[k];
  const auto add = [&](Part part, size_t count) {
    for (size_t k = 0; k < count; ++k) neighbours_.emplace_back(part, k);
  };
  add(Part::kTarget, kNeighbourTargets);
  if (options.places) add(Part::kPolicy, std::size(kLongLived));
  add(Part::kSlack, std::size(kAnchorSlack));
  add(Part::kWindow, std::size(kWindows));
  if (options.may_carry) add(Part::kCarried, std::size(kCarried));
}

std::optional<Move> Improver::Next(const TrialSettings& best, const std::vector<SwapDecision>& decisions) {
  while (true) {
    Kind* next = nullptr;
    for (Kind& kind : kinds_) {
      if (kind.may && (next == nullptr || kind.turn < next->turn)) next = &kind;
    }
    if (next == nullptr) return std::nullopt;
    const auto kind = static_cast<Move::Kind>(next - kinds_.data());
    if (std::optional<Move> move = Make(kind, best, decisions)) return move;
    next->may = false;
  }
}

void Improver::Told(const Move& move, int64_t work, double gained, double trial_seconds) {
  const Move::Kind kind = move.kind;
  if (move.look && trial_seconds > 0) batches_[kind].looked.emplace_back(trial_seconds, move.settings);
  double most = 0;
  Kind& told = kinds_[kind];
  told.work = kForget * told.work + static_cast<double>(work);
  told.gained = kForget * told.gained + gained;
  for (const Kind& k : kinds_) most = std::max(most, k.work > 0 ? k.gained / k.work : 0);
  const double reward = most > 0 && told.work > 0 ? kReward * told.gained / told.work / most : 0;
  told.turn += static_cast<double>(std::max<int64_t>(work, 1)) / ((1 + reward) * kShares[kind]);
  if (gained <= 0) {
    in_vain_ += kind == Move::kReprice || kind == Move::kExchangeHomes ? 1 : 0;
    return;
  }
  in_vain_ = 0;
  neighbours_in_vain_ = 0;
  batches_[kind].gained = true;
  // Other settings have other neighbours.
  for (const Move::Kind again : {Move::kNeighbour, Move::kReprice, Move::kExchangeHomes}) {
    Kind& other = kinds_[again];
    if (other.exists && !other.may) other.turn = std::max(other.turn, told.turn);
    other.may = other.exists;
  }
}

std::optional<Move> Improver::Make(Move::Kind kind, const TrialSettings& best, const std::vector<SwapDecision>& decisions) {
  Move move{kind, best};
  switch (kind) {
    case Move::kNeighbour: {
      std::optional<TrialSettings> settings = Neighbour(best);
      if (!settings) return std::nullopt;
      move.settings = *std::move(settings);
      return move;
    }
    case Move::kSpreadHomes:
    case Move::kCarry:
      return OfBatch(kind, best);
    case Move::kReprice:
      if (in_vain_ >= kPatience) return std::nullopt;
      move.settings.weights = Reprice(gaps_, std::move(move.settings.weights), random_);
      return move;
    case Move::kExchangeHomes:
      if (in_vain_ >= kPatience) return std::nullopt;
      move.settings.weights = ExchangeHomes(gaps_, budget_ / kExchangedParts, decisions, std::move(move.settings.weights), random_);
      if (random_() % 3 == 0) move.settings.target = kExchangeTargets[random_() % std::size(kExchangeTargets)];
      return move;
  }
  return std::nullopt;
}

// One setting of the best plan changed, in turn, until all were in vain.
std::optional<TrialSettings> Improver::Neighbour(const TrialSettings& best) {
  for (; neighbours_in_vain_ < neighbours_.size(); ++neighbours_in_vain_) {
    const auto [part, k] = neighbours_[next_neighbour_];
    next_neighbour_ = (next_neighbour_ + 1) % neighbours_.size();
    TrialSettings settings = best;
    bool other = false;
    const auto set = [&](auto& setting, auto value) {
      other = setting != value;
      setting = value;
    };
    switch (part) {
      case Part::kTarget: set(settings.target, k); break;
      case Part::kPolicy: set(settings.policy, k); break;
      case Part::kSlack: set(settings.slack, k); break;
      case Part::kWindow: set(settings.window, kWindows[k]); break;
      case Part::kCarried: set(settings.carried, best.carried > 0 ? k : best.carried); break;
    }
    if (!other) continue;
    ++neighbours_in_vain_;
    return settings;
  }
  return std::nullopt;
}

TrialSettings Improver::Spread(const TrialSettings& best, size_t k) {
  TrialSettings settings = best;
  settings.weights.spread_homes = true;
  settings.target = kHomeTargets[k / std::size(kWindows)];
  settings.window = kWindows[k % std::size(kWindows)];
  return settings;
}

TrialSettings Improver::Carry(const TrialSettings& best, size_t k) {
  TrialSettings settings = best;
  settings.target = k / kCarriedSettings;
  settings.carried = 1 + k % kCarriedSettings / std::size(kWindows);
  settings.window = kWindows[k % std::size(kWindows)];
  return settings;
}

// Looks at a batch of settings, then plans the best of them, then goes on with the next batch if that was of use.
std::optional<Move> Improver::OfBatch(Move::Kind kind, const TrialSettings& best) {
  Batch& batch = batches_[kind];
  const bool spread = kind == Move::kSpreadHomes;
  const size_t batch_size = spread ? kSpreadSettings : kCarriedSettings;
  const size_t settings = spread ? kSpreadSettings : kCarriedTargets * kCarriedSettings;
  if (batch.sorted && batch.planned >= std::min(kPlanned, batch.looked.size())) {
    if (!batch.gained || batch.next >= settings) return std::nullopt;
    batch = {.next = batch.next};
  }
  if (!batch.sorted) {
    if (batch.next < settings && (batch.next == 0 || batch.next % batch_size != 0 || batch.looked.empty())) {
      const size_t k = batch.next++;
      return Move{kind, spread ? Spread(best, k) : Carry(best, k), true};
    }
    if (batch.looked.empty()) return std::nullopt;
    batch.sorted = true;
    std::stable_sort(batch.looked.begin(), batch.looked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return Move{kind, batch.looked[batch.planned++].second};
}

}  // namespace millrace
