#include "session/cpu_oracle.h"

#include <memory>
#include <utility>

#include "millrace/status.h"
#include "passes/access/run_cost.h"
#include "runtime/op_evaluator.h"

namespace millrace {

CpuOracle::CpuOracle(const OpRegistry& ops, const KernelRegistry& registry, KernelCache& cache, bool estimate_scratch,
                     const Profile* times, std::function<bool()> cancelled)
    : ops_(ops), registry_(registry), cache_(cache), estimate_scratch_(estimate_scratch), cancelled_(std::move(cancelled)) {
  if (times != nullptr) times_.emplace(*times);
}

absl::StatusOr<int64_t> CpuOracle::ScratchBytes(const OpInstance& instance) {
  MR_RETURN_IF_ERROR(MayGoOn());
  if (estimate_scratch_) {
    const OpDef* def = ops_.Find(instance.op);
    if (def == nullptr || !def->cost) return 0;
    MR_ASSIGN_OR_RETURN(const Cost cost, RuleCost(*def, instance));
    return cost.scratch_bytes;
  }
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const Kernel> kernel, cache_.Get(instance));
  return kernel->scratch_bytes();
}

absl::Status CpuOracle::MayGoOn() {
  return cancelled_ && cancelled_() ? absl::CancelledError("planning was interrupted") : absl::OkStatus();
}

std::optional<double> CpuOracle::MeasuredSeconds(const OpInstance& instance) {
  return times_ ? times_->Find(instance) : std::nullopt;
}

absl::StatusOr<std::vector<Tensor>> CpuOracle::Evaluate(const OpDef& def, const OpInstance& instance,
                                                        std::vector<Tensor> inputs) {
  return EvaluateOp(def, registry_, instance, std::move(inputs));
}

}  // namespace millrace
