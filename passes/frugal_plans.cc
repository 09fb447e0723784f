#include "passes/frugal_plans.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "passes/access/does_not_fit.h"
#include "passes/access/work_budget.h"
#include "passes/pass_clock.h"

namespace millrace {
namespace {

constexpr char kNote[] = "host memory holds no plan that the search found: ";

struct Frugal {
  const char* made;
  Wanted wanted = Wanted::kFastest;
  double copy_price = 1;
  const char* strategy = "planned";
};

constexpr Frugal kWithoutLimit = {"what it finds without a limit of time"};

// What needs least host memory: the dearest copies, and what is made without a search.
constexpr Frugal kMostFrugal = {"what is fastest where copies take 200 times as long", Wanted::kFastest, 200};
constexpr Frugal kFirstPlan = {"the first plan that fits", Wanted::kFirst};
constexpr Frugal kLru = {"what lru plans", Wanted::kFastest, 1, "lru"};

// Many plans, of all partition sizes, so not for large graphs. Where it does not fit either, nothing is looked for any more.
constexpr Frugal kLastResort = {"what tensorflowmem plans", Wanted::kFastest, 1, "tensorflowmem"};

// Faster where they fit, in the order of what is kept: the first that fits is taken. Not for large graphs either, which take long to prepare.
constexpr Frugal kLessFrugal[] = {
    {"what is fastest where copies take 3 times as long", Wanted::kFastest, 3},
    {"what is fastest where copies take 12 times as long", Wanted::kFastest, 12},
    {"what is fastest where copies take 50 times as long", Wanted::kFastest, 50},
};

// Beside a disk, in this order, as long as the step gets so much shorter; each for a part of the work. Nothing is left to gain near the bound.
constexpr double kPricesBesideDisk[] = {2, 4, 8};
constexpr double kWorkBesideDisk = 0.25, kLeastGain = 0.99, kNearBound = 1.02;

// The bound has the disk's own time in it, which other plans may not have.
bool WaitsForDisk(const ExecutionPlan& plan, const Machine& machine) {
  const double of_disk = static_cast<double>(std::max(plan.bytes_to_disk, plan.bytes_from_disk)) / machine.disk_bytes_per_second;
  return of_disk > 0 && (of_disk >= plan.lower_bound_seconds || plan.predicted_step_seconds > kNearBound * plan.lower_bound_seconds);
}

// Makes such plans, and knows what the one lacked that needed least.
class Maker {
 public:
  Maker(const CompileRequest& request, const absl::Status& missing, const CompileFunction& compile)
      : request_(request), compile_(compile), missing_(missing) {}

  // The first of them that fits; else what is missing.
  absl::StatusOr<Compiled> FirstThatFits(absl::Span<const Frugal> plans) {
    for (const Frugal& frugal : plans) {
      absl::StatusOr<Compiled> compiled = Make(frugal);
      if (compiled.ok() || absl::IsCancelled(compiled.status())) return compiled;
      if (NeedsLess(compiled.status())) missing_ = compiled.status();
      if (!absl::IsResourceExhausted(compiled.status())) break;
    }
    return missing_;
  }

 private:
  absl::StatusOr<Compiled> Make(const Frugal& frugal) const {
    CompileRequest request = request_;
    request.options.strategy = frugal.strategy;
    request.options.plan_seconds = 0;
    request.copy_price = frugal.copy_price;
    absl::StatusOr<Compiled> compiled = compile_(std::move(request), frugal.wanted);
    if (!compiled.ok()) return compiled;
    ExecutionPlan& plan = compiled->plan;
    plan.strategy = request_.options.strategy;
    plan.notes.push_back(absl::StrCat(kNote, frugal.made));
    const bool in_parts = request_.options.update_part_bytes > 0;
    if (in_parts && frugal.strategy != plan.strategy) plan.notes.push_back(absl::StrCat("update parts: updates stay whole with ", frugal.strategy));
    return compiled;
  }

  // Of host memory; other refusals are of what another strategy needs of a device.
  bool NeedsLess(const absl::Status& refused) const {
    const int64_t needed = IsOfHostMemory(refused) ? NeededBytes(refused) : 0, least = NeededBytes(missing_);
    return needed > 0 && (least == 0 || needed < least);
  }

  const CompileRequest& request_;
  const CompileFunction& compile_;
  absl::Status missing_;
};

}  // namespace

absl::StatusOr<Compiled> FindFrugalPlan(const CompileRequest& request, int32_t prepared_nodes, const absl::Status& missing,
                                        const CompileFunction& compile) {
  const bool large = prepared_nodes > kLargeGraphNodes;
  Maker maker(request, missing, compile);
  std::vector<Frugal> others = {kFirstPlan, kLru};
  if (request.options.plan_seconds > 0) others.insert(others.end(), {kWithoutLimit, kMostFrugal});
  if (!large) others.push_back(kLastResort);
  if (request.options.plan_seconds > 0) return maker.FirstThatFits(others);
  absl::StatusOr<Compiled> best = maker.FirstThatFits({kMostFrugal});
  if (absl::IsResourceExhausted(best.status())) return maker.FirstThatFits(others);
  if (!best.ok() || large) return best;
  absl::StatusOr<Compiled> other = maker.FirstThatFits(kLessFrugal);
  if (absl::IsCancelled(other.status())) return other;
  const bool faster = other.ok() && other->plan.predicted_step_seconds < best->plan.predicted_step_seconds;
  return faster ? std::move(other) : std::move(best);
}

absl::StatusOr<Compiled> FindPlanBesideDisk(const CompileRequest& request, int32_t prepared_nodes, Compiled best, const CompileFunction& compile) {
  if (!request.disk_tier || prepared_nodes > kLargeGraphNodes || request.work < 1 || request.options.plan_seconds > 0) return best;
  const PassClock::Run run(request.clock, "dearer copies");
  for (const double price : kPricesBesideDisk) {
    if (!WaitsForDisk(best.plan, request.machine)) break;
    CompileRequest dearer = request;
    dearer.copy_price = price;
    dearer.work = kWorkBesideDisk;
    dearer.clock = nullptr;
    absl::StatusOr<Compiled> other = compile(std::move(dearer), Wanted::kFastest);
    const bool found_none = absl::IsResourceExhausted(other.status()) || absl::IsAborted(other.status());
    if (!other.ok() && !found_none) return other;
    if (!other.ok()) continue;
    if (other->plan.predicted_step_seconds > kLeastGain * best.plan.predicted_step_seconds) break;
    best = *std::move(other);
    best.plan.notes.push_back(absl::StrCat("beside the disk this is faster: what is fastest where copies take ", price, " times as long"));
  }
  return best;
}

bool IsFrugal(const ExecutionPlan& plan) {
  return std::any_of(plan.notes.begin(), plan.notes.end(), [](const std::string& note) { return absl::StartsWith(note, kNote); });
}

}  // namespace millrace
