#include "passes/access/does_not_fit.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "millrace/options.h"

namespace millrace {
namespace {

constexpr char kPayload[] = "millrace/needed_bytes";
constexpr char kOfHostMemory[] = "millrace/of_host_memory";

}  // namespace

std::string BudgetWords(int64_t needed_bytes, int64_t budget_bytes) {
  return absl::StrCat("the budget is ", budget_bytes, " (", FormatBytes(budget_bytes), "), short by ", needed_bytes - budget_bytes);
}

absl::Status DoesNotFitError(int64_t needed_bytes, std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(absl::string_view(message.data(), message.size()));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(needed_bytes)));
  return status;
}

int64_t NeededBytes(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int64_t bytes = 0;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &bytes) ? bytes : 0;
}

absl::Status OfHostMemory(absl::Status status) {
  if (absl::IsResourceExhausted(status)) status.SetPayload(kOfHostMemory, absl::Cord());
  return status;
}

bool IsOfHostMemory(const absl::Status& status) { return status.GetPayload(kOfHostMemory).has_value(); }

}  // namespace millrace
