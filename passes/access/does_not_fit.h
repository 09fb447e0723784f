// The error of a budget that is too small for a strategy. It carries how many bytes would do, for whoever looks for a
// budget that is enough: a working set, which no plan can go below, or what the best plan found would take.
#ifndef MILLRACE_PASSES_ACCESS_DOES_NOT_FIT_H_
#define MILLRACE_PASSES_ACCESS_DOES_NOT_FIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/plan.h"

namespace millrace {

// Names operation i of an access graph, for messages.
using OperationName = absl::FunctionRef<std::string(int32_t operation)>;

// "the budget is 100 (100 B), short by 28", for such an error's message.
std::string BudgetWords(int64_t needed_bytes, int64_t budget_bytes);

// "w 2.00 MiB, b 1.00 KiB": the largest few of [bytes, name].
std::string LargestWords(std::vector<std::pair<int64_t, std::string>> holders);

// "; largest variables and constants: w 2.00 MiB"; empty where the plan has none.
std::string LargestOnHostWords(const ExecutionPlan& plan);

// ResourceExhausted.
absl::Status DoesNotFitError(int64_t needed_bytes, std::string_view message);

// What `status` says is needed; 0 where it says nothing.
int64_t NeededBytes(const absl::Status& status);

// The same status, marked if it is ResourceExhausted: what is missing is host memory, of which another plan may need less. Whether one is.
absl::Status OfHostMemory(absl::Status status);
bool IsOfHostMemory(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_DOES_NOT_FIT_H_
