#include "passes/access/run_cost.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "graph/with_message.h"
#include "millrace/status.h"

namespace millrace {

absl::StatusOr<Cost> RuleCost(const OpDef& def, const OpInstance& instance) {
  const std::string rule = absl::StrCat("node '", instance.name, "' (", instance.op, "): the cost rule");
  const absl::StatusOr<Cost> cost = WithoutExceptions([&]() -> absl::StatusOr<Cost> { return def.cost(instance); });
  if (!cost.ok()) return WithMessage(cost.status(), absl::StrCat(rule, absl::IsInternal(cost.status()) ? " " : ": ", cost.status().message()));
  for (const double work : {cost->flops, cost->bytes}) {
    if (std::isfinite(work) && work >= 0) continue;
    return absl::InternalError(absl::StrCat(rule, " says ", cost->flops, " flops and ", cost->bytes, " bytes, expected numbers from 0 on"));
  }
  if (cost->scratch_bytes < 0) return absl::InternalError(absl::StrCat(rule, " says scratch memory of ", cost->scratch_bytes, " bytes, expected 0 or more"));
  return cost;
}

absl::StatusOr<double> PredictSeconds(const OpDef& def, const OpInstance& instance, const Machine& machine) {
  Cost cost;
  if (def.cost) {
    MR_ASSIGN_OR_RETURN(cost, RuleCost(def, instance));
  } else {
    for (const TensorType& type : instance.inputs) cost.bytes += static_cast<double>(type.size_bytes());
    for (const TensorType& type : instance.outputs) {
      cost.bytes += static_cast<double>(type.size_bytes());
      cost.flops += static_cast<double>(type.shape.num_elements());
    }
  }
  const bool own_rate = cost.convolution && machine.convolution_flops_per_second > 0;
  const double flops_per_second = own_rate ? machine.convolution_flops_per_second : machine.flops_per_second;
  return std::max(cost.flops / flops_per_second, cost.bytes / machine.memory_bytes_per_second) +
         machine.launch_seconds;
}

}  // namespace millrace
