#include "passes/access/does_not_fit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/options.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr char kOfHostMemory[] = "millrace/of_host_memory";

}  // namespace

std::string BudgetWords(int64_t needed_bytes, int64_t budget_bytes) {
  return absl::StrCat("the budget is ", budget_bytes, " (", FormatBytes(budget_bytes), "), short by ", needed_bytes - budget_bytes);
}

std::string LargestWords(std::vector<std::pair<int64_t, std::string>> holders) {
  constexpr size_t kMost = 5;
  std::sort(holders.rbegin(), holders.rend());
  holders.resize(std::min(holders.size(), kMost));
  return absl::StrJoin(holders, ", ", [](std::string* out, const auto& holder) { absl::StrAppend(out, holder.second, " ", FormatBytes(holder.first)); });
}

std::string LargestOnHostWords(const ExecutionPlan& plan) {
  std::vector<std::pair<int64_t, std::string>> holders;
  for (const PlanVariable& variable : plan.variables) holders.emplace_back(variable.type.size_bytes(), variable.name);
  for (const PlanConstant& constant : plan.constants) holders.emplace_back(constant.value.size_bytes(), constant.name);
  return holders.empty() ? "" : absl::StrCat("; largest variables and constants: ", LargestWords(std::move(holders)));
}

absl::Status DoesNotFitError(int64_t needed_bytes, std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(absl::string_view(message.data(), message.size()));
  status.SetPayload(kNeededBytesPayload, absl::Cord(absl::StrCat(needed_bytes)));
  return status;
}

int64_t NeededBytes(const absl::Status& status) {
  const auto payload = status.GetPayload(kNeededBytesPayload);
  int64_t bytes = 0;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &bytes) ? bytes : 0;
}

absl::Status OfHostMemory(absl::Status status) {
  if (absl::IsResourceExhausted(status)) status.SetPayload(kOfHostMemory, absl::Cord());
  return status;
}

bool IsOfHostMemory(const absl::Status& status) { return status.GetPayload(kOfHostMemory).has_value(); }

}  // namespace millrace
