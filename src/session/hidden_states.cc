#include "session/hidden_states.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/hidden_state.h"
#include "millrace/status.h"

namespace millrace {
namespace {

Tensor Zeros(int64_t bytes) {
  Tensor zeros(DataType::kUint8, Shape({bytes}));
  std::memset(zeros.mutable_data(), 0, zeros.size_bytes());
  return zeros;
}

// Whether the variable holds a table of these keys and values, in whatever size.
bool HoldsTable(const StoredVariable& variable, const HiddenStateUse& use) {
  return use.is_table && variable.type.dtype == DataType::kUint8 && variable.type.shape.rank() == 1 && use.layout.is_size(variable.type.size_bytes());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const HiddenStateUses>> FindHiddenStateUses(const ExecutionPlan& plan) {
  HiddenStateUses uses;
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      const OpInstance& instance = plan.instances[step.instance];
      if (step.input_variables.empty() || step.input_variables[0] < 0 || !instance.attrs.GetOr<bool>(kStartsEmpty, false)) continue;
      const PlanVariable& variable = plan.variables[step.input_variables[0]];
      HiddenStateUse& use = uses[variable.home_name()];
      use.type = variable.home_type();
      if (!absl::StartsWith(instance.op, "_Table")) continue;
      MR_ASSIGN_OR_RETURN(use.layout, TableLayout::Of(instance.attrs));
      use.is_table = true;
      if (instance.op == "_TableInsert") use.inserts += instance.inputs[1].size_bytes() / use.layout.key_bytes();
    }
  }
  return std::make_shared<const HiddenStateUses>(std::move(uses));
}

absl::Status CheckSameSizes(const ExecutionPlan& given, const ExecutionPlan& made) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const HiddenStateUses> uses, FindHiddenStateUses(given));
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const HiddenStateUses> here, FindHiddenStateUses(made));
  for (const auto& [name, use] : *uses) {
    const auto found = here->find(name);
    if (!use.is_table || found == here->end() || found->second.type == use.type) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is ", use.type.ToString(), " in the plan that was given, as it was when that was made, and ",
                                                   found->second.type.ToString(), " here; plan again"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> HiddenStates::Roomier(const std::string& name, const HiddenStateUse& use) {
  const int64_t buckets = use.type.size_bytes() / use.layout.bucket_bytes();
  const auto known = keys_.find(name);
  if (known != keys_.end() && use.layout.BucketsFor(known->second + use.inserts, buckets) == buckets) return Tensor();
  MR_ASSIGN_OR_RETURN(Tensor bytes, store_.Read(name));
  const MutableTable table(use.layout, bytes.mutable_data(), bytes.size_bytes());
  // TensorFlow's dense tables grow by their keys alone; in others what was removed is in the way until they are made anew.
  const int64_t keys = table.size(), in_use = use.layout.tensorflow_places ? keys : table.occupied();
  keys_[name] = in_use;
  if (use.layout.BucketsFor(in_use + use.inserts, buckets) == buckets) return Tensor();
  keys_[name] = keys;
  const int64_t wanted = keys + use.inserts;
  return WithBuckets(use.layout, std::move(bytes), use.layout.BucketsFor(in_use > keys ? 2 * wanted : wanted, buckets));
}

absl::StatusOr<bool> HiddenStates::MakeReady(const HiddenStateUses& uses,
                                             absl::FunctionRef<absl::Status(const std::string& name)> abandon) {
  bool abandoned = false;
  for (const auto& [name, use] : uses) {
    const StoredVariable* const variable = store_.Find(name);
    Tensor value;
    if (variable == nullptr || !variable->initialized) {
      const int64_t bytes = use.type.size_bytes();
      keys_[name] = 0;
      const int64_t bucket = use.is_table ? use.layout.bucket_bytes() : 1;
      value = Zeros(use.is_table ? use.layout.BucketsFor(use.inserts, bytes / bucket) * bucket : bytes);
    } else if (variable->type != use.type && HoldsTable(*variable, use)) {
      MR_RETURN_IF_ERROR(abandon(name));
      abandoned = true;
      continue;
    } else if (use.inserts > 0 && variable->type == use.type) {
      MR_ASSIGN_OR_RETURN(value, Roomier(name, use));
    }
    if (value.empty()) continue;
    const bool of_another_type = variable != nullptr && variable->type != value.type();  // which other plans may have
    if (value.type() != use.type || of_another_type) {
      MR_RETURN_IF_ERROR(abandon(name));
      abandoned = true;
    }
    MR_RETURN_IF_ERROR(store_.Replace(name, value));
  }
  for (const auto& [name, use] : uses) {
    if (!abandoned && use.inserts > 0) keys_[name] += use.inserts;  // of what is only looked at they may be unknown
  }
  return abandoned;
}

}  // namespace millrace
