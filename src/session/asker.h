// Finds the answers to what planning must know of the step's own results (passes/unroll/questions.h), by running what
// answers. Answers of the step before are guesses for the next one: where they hold, one run tells so.
#ifndef MILLRACE_SESSION_ASKER_H_
#define MILLRACE_SESSION_ASKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "millrace/plan.h"
#include "millrace/tensor.h"
#include "runtime/executor.h"
#include "runtime/variable_store.h"
#include "session/hidden_states.h"

namespace millrace {

using Answers = std::map<std::string, Tensor>;

// What one run was asked, in the order in which the questions come up, and what it found.
struct Asked {
  std::vector<std::string> questions;
  std::vector<Tensor> answers;
  bool stopped = false;  // there may be more to ask
};

// Runs a graph made for these answers, with so many questions beyond them guessed: turns of loops, sizes.
using AskFunction = absl::FunctionRef<absl::StatusOr<Asked>(const Answers& answers, int64_t guesses)>;

// Turns `answers`, which may be those of another step or none, into those of this one. A run answers all that it is asked; what
// follows from a wrong guess is asked again, and the answer to what does not stays. The error is that of a run in which nothing was
// guessed.
absl::Status FindAnswers(AskFunction ask, Answers& answers);

// What answers: a plan whose fetches are called as the questions are.
struct AskingProgram {
  std::shared_ptr<const ExecutionPlan> plan;
  std::unique_ptr<Executor> executor;  // of steps that are undone
  bool stopped = false;
  std::shared_ptr<const HiddenStateUses> hidden = {};  // the plan's
};

// Runs it; `feeds` by tensor name. Variables and random numbers are afterwards as they were. FailedPrecondition where a feed
// or variable has no value.
absl::StatusOr<Asked> RunAsking(const AskingProgram& program, const std::map<std::string, Tensor>& feeds,
                                VariableStore& variables);

}  // namespace millrace

#endif  // MILLRACE_SESSION_ASKER_H_
