#include "session/asker.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Turns that do not come are run in vain: at most as many as came, or these.
constexpr int64_t kMostGuesses = 64;

}  // namespace

absl::Status FindAnswers(AskFunction ask, Answers& answers) {
  Answers certain;
  for (int64_t guesses = 1;;) {
    const absl::StatusOr<Asked> asked = ask(answers, guesses);
    if (absl::IsCancelled(asked.status())) return asked.status();
    if (!asked.ok()) {
      // A turn that does not come may fail, or make the graph too large.
      if (guesses == 0 && answers.size() == certain.size()) return asked.status();
      answers = certain;
      guesses = 0;
      continue;
    }
    certain.clear();
    bool held = true;
    for (size_t i = 0; i < asked->questions.size() && held; ++i) {
      const auto expected = answers.find(asked->questions[i]);
      const bool last = i + 1 == asked->questions.size() && asked->stopped;
      const Tensor guess = expected != answers.end() ? expected->second : Tensor::Scalar<bool>(true);
      held = guess.BitEqual(asked->answers[i]) || (last && expected == answers.end());
      certain[asked->questions[i]] = asked->answers[i];
    }
    if (held && !asked->stopped) {
      answers = std::move(certain);
      return absl::OkStatus();
    }
    for (const auto& [question, answer] : certain) answers[question] = answer;
    guesses = held ? std::min(2 * guesses + 1, std::max(kMostGuesses, static_cast<int64_t>(certain.size()))) : 1;
  }
}

absl::StatusOr<Asked> RunAsking(const AskingProgram& program, const std::map<std::string, Tensor>& feeds,
                                VariableStore& variables) {
  const ExecutionPlan& plan = *program.plan;
  Asked asked;
  asked.stopped = program.stopped;
  for (const PlanFetch& fetch : plan.fetches) asked.questions.push_back(fetch.name);
  std::vector<Tensor> ordered;
  for (const PlanFeed& feed : plan.feeds) {
    const auto value = feeds.find(feed.name);
    if (value == feeds.end()) {
      return absl::FailedPreconditionError(absl::StrCat("feed '", feed.name, "' has no value, and turns of loops follow from it"));
    }
    ordered.push_back(value->second);
  }
  std::map<std::string, std::optional<Tensor>> before;  // of what is written; nothing where there was no value
  for (const PlanVariable& variable : plan.variables) {
    if (!variable.written || before.count(variable.home_name()) > 0) continue;
    std::optional<Tensor>& value = before[variable.home_name()];
    const StoredVariable* const home = variables.Find(variable.home_name());
    if (home == nullptr || !home->initialized) continue;
    MR_ASSIGN_OR_RETURN(value, variables.Read(variable.home_name()));
  }
  const std::map<std::string, Tensor> states = variables.ReadStates();
  const absl::Status ran = program.executor->RunStep(ordered, &asked.answers, nullptr);
  for (const auto& [name, value] : before) {
    MR_RETURN_IF_ERROR(value ? variables.Set(name, *value) : variables.Clear(name));
  }
  for (const auto& [node, state] : variables.ReadStates()) {
    const auto was = states.find(node);
    MR_RETURN_IF_ERROR(variables.SetState(node, was != states.end() ? was->second : Tensor(state.dtype(), state.shape())));
  }
  MR_RETURN_IF_ERROR(ran);
  return asked;
}

}  // namespace millrace
