// Finds the answers to what planning must know of the step's own results (passes/unroll/questions.h), by running what
// answers. Answers of the step before are guesses for the next one: where they hold, one run tells so.
//
//   17 turns in every step    told the 17, a graph of their own      one run
//   17, then 12, 23, ...      told nothing, graphs of 16, 32, ...    one run, or another one of more turns; few graphs for all steps;
//                                                                    where a run ends with the loop (end_of_turns.h), the largest
#ifndef MILLRACE_SESSION_ASKER_H_
#define MILLRACE_SESSION_ASKER_H_

#include <cstdint>
#include <limits>
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
#include "session/end_of_turns.h"
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

// Whether these, which are right, are all that a plan needs: nothing has to be run to find that there is no more to ask. `ended`: they
// are turns of a loop, and the last one did not come.
using EnoughFunction = absl::FunctionRef<bool(const Answers& certain, bool ended)>;

// Turns `answers`, which may be those of another step or none, into those of this one. A run answers all that it is asked; what
// follows from a wrong guess is asked again, and the answer to what does not stays. The error is that of a run in which nothing was
// guessed, or Internal where run after run without guesses contradicts the one before. `likely`: they are those of several steps.
// `too_many`: so many turns, told nothing, are known to fail.
absl::Status FindAnswers(AskFunction ask, EnoughFunction enough, bool likely, int64_t too_many, Answers& answers);

// What is known of a signature's questions from the steps before.
struct LastAnswers {
  bool found = false;         // in the last step
  Answers answers;            // of the last step
  int64_t steps_alike = 0;    // that had them after another one
  bool more_follows = false;  // that a loop has ended was not all there was to ask
  int64_t too_many = std::numeric_limits<int64_t>::max();  // turns for which, told nothing, no graph could be made
  int64_t most_watched = 0;   // turns of a graph whose runs end with the loop: of more than there are none is run in vain

  // What a step found.
  void Update(const absl::Status& status, const Answers& of_step);
  // No graph could be made for so many turns. It is not tried again where the reason lies in the graph and the budget.
  void NotMade(int64_t turns, const absl::Status& status);
};

// Asks, told nothing, of as many turns as were ever watched, where that program is there (`is_made`), which it may not be for the step's feeds:
// those behind the loop's end are not run, and one run finds it. Where that fails, of no more than these.
absl::StatusOr<Asked> AskOfMost(AskFunction ask, absl::FunctionRef<bool(int64_t guesses)> is_made, LastAnswers& last, const Answers& so_far,
                                int64_t guesses);

// What to say of a step that has no plan, since it lacks an answer and that was not found. Before variables have values none is, and
// what planning lacks says more than that.
absl::Status NotAnswered(const absl::Status& planned, const absl::Status& answered);

// What answers: a plan whose fetches are called as the questions are.
struct AskingProgram {
  std::shared_ptr<const ExecutionPlan> plan;
  std::unique_ptr<Executor> executor;  // of steps that are undone
  bool stopped = false;
  std::shared_ptr<const HiddenStateUses> hidden = {};  // the plan's
  int64_t last_use = 0;
  std::unique_ptr<EndOfTurns> end = {};  // where only turns that come are guessed, in memory that can be watched; called while the executor runs
};

// Runs it; `feeds` by tensor name. Variables and random numbers are afterwards as they were. FailedPrecondition where a feed
// or variable has no value.
absl::StatusOr<Asked> RunAsking(const AskingProgram& program, const std::map<std::string, Tensor>& feeds,
                                VariableStore& variables);

}  // namespace millrace

#endif  // MILLRACE_SESSION_ASKER_H_
