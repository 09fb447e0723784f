#include "session/asker.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Turns that do not come are run in vain: at most as many as came, or these.
constexpr int64_t kMostGuesses = 64;
// Where guesses make run after run fail, so many runs go without.
constexpr int64_t kMostWithoutGuesses = 16;

struct Checked {
  size_t certain = 0;     // the first questions, whose answers follow from no wrong guess
  bool told_hold = true;  // so do the answers that were told, and turns that were taken to follow
  bool all_hold = true;
};

Checked Check(const Asked& asked, const Answers& told) {
  const Tensor yes = Tensor::Scalar<bool>(true);
  Checked checked;
  for (size_t i = 0; i < asked.questions.size(); ++i) {
    if (checked.all_hold) checked.certain = i + 1;
    const auto expected = told.find(asked.questions[i]);
    const bool last = i + 1 == asked.questions.size() && asked.stopped;
    if (expected == told.end() && last) continue;
    const Tensor& guess = expected != told.end() ? expected->second : yes;
    if (guess.BitEqual(asked.answers[i])) continue;
    checked.all_hold = false;
    checked.told_hold = checked.told_hold && expected == told.end() && guess.type() != asked.answers[i].type();
  }
  return checked;
}

}  // namespace

absl::Status FindAnswers(AskFunction ask, Answers& answers) {
  Answers certain;
  int64_t failures = 0, without_guesses = 0;  // in a row; runs to come
  for (int64_t guesses = 1;;) {
    const absl::StatusOr<Asked> asked = ask(answers, guesses);
    if (absl::IsCancelled(asked.status())) return asked.status();
    if (!asked.ok()) {
      // What follows from a wrong guess may fail, or make the graph too large.
      if (guesses == 0 && answers.size() == certain.size()) return asked.status();
      answers = certain;
      without_guesses = std::min(kMostWithoutGuesses, int64_t{1} << std::min<int64_t>(failures++, 10));
      guesses = 0;
      continue;
    }
    const Checked checked = Check(*asked, answers);
    const bool nothing_new = checked.certain <= certain.size();
    certain.clear();
    for (size_t i = 0; i < asked->questions.size(); ++i) {
      answers[asked->questions[i]] = asked->answers[i];
      if (i < checked.certain) certain[asked->questions[i]] = asked->answers[i];
    }
    if (checked.all_hold && !asked->stopped) {
      answers = std::move(certain);
      return absl::OkStatus();
    }
    if (guesses > 0) failures = 0;
    if (nothing_new || --without_guesses > 0) {
      guesses = 0;
    } else {
      const int64_t most = std::max(kMostGuesses, static_cast<int64_t>(certain.size()));
      guesses = checked.told_hold ? std::min(2 * guesses + 1, most) : 1;
    }
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
      return absl::FailedPreconditionError(absl::StrCat("feed '", feed.name, "' has no value, and sizes or turns of loops follow from it"));
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
