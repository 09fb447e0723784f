// What the passes ask of the CPU device.
#ifndef MILLRACE_SRC_SESSION_CPU_ORACLE_H_
#define MILLRACE_SRC_SESSION_CPU_ORACLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"
#include "millrace/op.h"
#include "millrace/profile.h"
#include "passes/kernel_oracle.h"
#include "plan/measured_times.h"
#include "runtime/kernel_cache.h"

namespace millrace {

// With `estimate_scratch` (planning for another machine) the cost rules say how much scratch there is. What it is made
// from outlives it.
class CpuOracle final : public KernelOracle {
 public:
  // `times` may be null, `cancelled` empty; planning ends with Cancelled soon after it says so.
  CpuOracle(const OpRegistry& ops, const KernelRegistry& registry, KernelCache& cache, bool estimate_scratch,
            const Profile* times, std::function<bool()> cancelled);

  absl::StatusOr<int64_t> ScratchBytes(const OpInstance& instance) override;
  absl::Status MayGoOn() override;
  std::optional<double> MeasuredSeconds(const OpInstance& instance) override;
  bool GoesByName() const override { return times_.has_value(); }
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def, const OpInstance& instance,
                                               std::vector<Tensor> inputs) override;

 private:
  const OpRegistry& ops_;
  const KernelRegistry& registry_;
  KernelCache& cache_;
  const bool estimate_scratch_;
  std::optional<NodeTimes> times_;
  const std::function<bool()> cancelled_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_CPU_ORACLE_H_
