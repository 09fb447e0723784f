// What whole updates take where only those of their parts were measured (passes/rewrite/slice_updates.h), so that a graph can be
// planned both ways with measured times.
#ifndef MILLRACE_PASSES_REWRITE_WHOLE_UPDATE_TIMES_H_
#define MILLRACE_PASSES_REWRITE_WHOLE_UPDATE_TIMES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// Another oracle, and of whole updates the sum of their parts' seconds.
class WholeUpdateTimes final : public KernelOracle {
 public:
  // `graph`: with updates in parts. `oracle` must outlive this.
  WholeUpdateTimes(const Graph& graph, const OpRegistry& ops, KernelOracle& oracle);

  absl::StatusOr<int64_t> ScratchBytes(const OpInstance& instance) override { return oracle_.ScratchBytes(instance); }
  std::optional<double> MeasuredSeconds(const OpInstance& instance) override;
  absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def, const OpInstance& instance, std::vector<Tensor> inputs) override;
  absl::Status MayGoOn() override { return oracle_.MayGoOn(); }
  bool Supports(const std::string& op, int32_t device) override { return oracle_.Supports(op, device); }

 private:
  KernelOracle& oracle_;
  std::map<std::string, double> seconds_;  // by name; without those of which a part was not measured
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_WHOLE_UPDATE_TIMES_H_
