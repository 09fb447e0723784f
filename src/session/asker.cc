#include "session/asker.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/access/does_not_fit.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/unroll/questions.h"

namespace millrace {
namespace {

// Turns that do not come are run in vain: at most as many as came, or these.
constexpr int64_t kMostGuesses = 64;
// Of loops with more, what was found is told.
constexpr int64_t kMostTurnsUntold = 1024;
// Where guesses make run after run fail, so many runs go without.
constexpr int64_t kMostWithoutGuesses = 16;
// Runs in a row that find no more than one before them did: a few where guesses are wrong, or where other questions take the place of
// those before; more where answers contradict each other.
constexpr int64_t kMostInVain = 64;

bool IsYes(const Tensor& answer) { return answer.dtype() == DataType::kBool && answer.num_elements() == 1 && answer.as<bool>()[0]; }

void AddAnswers(const std::string& fetch, Tensor fetched, Asked& asked) {
  std::vector<std::string> questions = QuestionsOf(fetch);
  const bool several = questions.size() > 1 && fetched.type() == TensorType{DataType::kBool, Shape({static_cast<int64_t>(questions.size())})};
  if (!several) {  // one, whose name may have several lines
    asked.questions.push_back(fetch);
    asked.answers.push_back(std::move(fetched));
    return;
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    asked.questions.push_back(std::move(questions[i]));
    asked.answers.push_back(Tensor::Scalar<bool>(fetched.as<bool>()[i]));
  }
}

// Answers that say nothing but that turns of a loop came, and perhaps that it ended.
struct TurnsAlone {
  int64_t came = 0;
  int64_t ended = 0;
};

std::optional<TurnsAlone> TurnsIn(const Answers& answers) {
  TurnsAlone turns;
  for (const auto& [name, answer] : answers) {
    if (answer.type() != TensorType{DataType::kBool, Shape({})} || name == kAsksForSizes || absl::StartsWith(name, kAsksForSide)) return std::nullopt;
    ++(IsYes(answer) ? turns.came : turns.ended);
  }
  return turns;
}

// What a run is told, and how many more questions are guessed.
struct Told {
  Answers answers;
  int64_t guesses = 0;
  bool turns_alone = false;
};

// That turns come is what is guessed anyway. Told nothing, a graph of a power of two of them does for all steps and is there already: it
// has at most as many turns in vain as come. Of a loop that took none, that is told: its one turn would be in vain in step after step.
Told WhatToTell(const Answers& answers, int64_t guesses, bool may_have_ended, int64_t too_many) {
  const std::optional<TurnsAlone> turns = guesses > 0 ? TurnsIn(answers) : std::nullopt;
  if (!turns || turns->ended > (may_have_ended ? 1 : 0) || turns->came >= kMostTurnsUntold) return {answers, guesses};
  if (turns->ended > 0 && turns->came == 0) return {answers, guesses};
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(turns->ended > 0 ? turns->came : turns->came + 1)));
  if (power >= too_many) return {answers, guesses};
  return {{}, power, true};
}

bool SameAnswers(const Answers& a, const Answers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.BitEqual(y.second); });
}

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

absl::Status ContradictsItself(const Asked& asked, const Checked& checked) {
  const std::string name = checked.certain == 0 ? "" : asked.questions[checked.certain - 1];
  return absl::InternalError(absl::StrCat("question '", name, "': its answer is another one whenever it is told (", kMostInVain,
                                          " runs), expected the same in all runs of a step"));
}

}  // namespace

absl::Status FindAnswers(AskFunction ask, EnoughFunction enough, bool likely, int64_t too_many, Answers& answers) {
  Answers certain;
  int64_t failures = 0, without_guesses = 0, in_vain = 0;  // in a row; runs to come; in a row
  size_t most = 0;  // certain answers, in any run
  bool first = true;
  for (int64_t guesses = 1;;) {
    const Told told = WhatToTell(answers, guesses, first && !likely, too_many);
    const bool of_another_step = std::exchange(first, false) && !answers.empty();
    const absl::StatusOr<Asked> asked = ask(told.answers, told.guesses);
    if (absl::IsCancelled(asked.status())) return asked.status();
    if (!asked.ok()) {
      // What follows from a wrong guess may fail, or make the graph too large.
      if (guesses == 0 && answers.size() == certain.size()) return asked.status();
      if (told.turns_alone) too_many = told.guesses;
      if (of_another_step && told.turns_alone) continue;  // as many as came then may not
      answers = certain;
      if (told.turns_alone && told.guesses > 1) {  // fewer may not
        guesses = 1;
        continue;
      }
      without_guesses = std::min(kMostWithoutGuesses, int64_t{1} << std::min<int64_t>(failures++, 10));
      guesses = 0;
      continue;
    }
    const Checked checked = Check(*asked, told.answers);
    const bool nothing_new = checked.certain <= certain.size();
    in_vain = checked.certain <= most ? in_vain + 1 : 0;
    most = std::max(most, checked.certain);
    certain.clear();
    for (size_t i = 0; i < asked->questions.size(); ++i) {
      answers[asked->questions[i]] = asked->answers[i];
      if (i < checked.certain) certain[asked->questions[i]] = asked->answers[i];
    }
    const bool goes_on = checked.certain == 0 || IsYes(asked->answers[checked.certain - 1]);
    if ((checked.all_hold && !asked->stopped) || (!goes_on && enough(certain, TurnsIn(certain).has_value()))) {
      answers = std::move(certain);
      return absl::OkStatus();
    }
    if (in_vain == kMostInVain) return ContradictsItself(*asked, checked);
    if (told.turns_alone) answers = certain;  // the turns behind the last one are no guesses for anything
    if (guesses > 0) failures = 0;
    const int64_t found = static_cast<int64_t>(certain.size());
    if (nothing_new || --without_guesses > 0) {
      guesses = 0;
    } else if (told.turns_alone) {
      guesses = goes_on ? found : 1;
    } else {
      guesses = checked.told_hold ? std::min(2 * guesses + 1, std::max(kMostGuesses, found)) : 1;
    }
  }
}

void LastAnswers::Update(const absl::Status& status, const Answers& of_step) {
  found = status.ok();
  steps_alike = found && SameAnswers(of_step, answers) ? steps_alike + 1 : 0;
  answers = found ? of_step : Answers();
}

void LastAnswers::NotMade(int64_t turns, const absl::Status& status) {
  // Not every such message has a payload.
  const auto says = [&](absl::string_view words) { return absl::StrContains(status.message(), words); };
  const bool for_good = absl::IsResourceExhausted(status) ? NeededBytes(status) > 0 || says("does not fit") || says("of this machine's memory")
                                                          : absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsOutOfRange(status);
  if (for_good) too_many = std::min(too_many, turns);
}

absl::StatusOr<Asked> AskOfMost(AskFunction ask, absl::FunctionRef<bool(int64_t guesses)> is_made, LastAnswers& last, const Answers& so_far,
                                int64_t guesses) {
  if (so_far.empty() && guesses > 1 && guesses < last.most_watched && is_made(last.most_watched)) {
    absl::StatusOr<Asked> asked = ask(so_far, last.most_watched);
    if (asked.ok() || absl::IsCancelled(asked.status())) return asked;
    last.most_watched = 0;
  }
  return ask(so_far, guesses);
}

absl::Status NotAnswered(const absl::Status& planned, const absl::Status& answered) {
  if (!absl::IsFailedPrecondition(answered)) return answered;
  absl::Status status(planned.code(), absl::StrCat(planned.message(), ". A run of the step finds what decides this, but ", answered.message()));
  status.SetPayload(kNeededAnswer, *planned.GetPayload(kNeededAnswer));
  return status;
}

absl::StatusOr<Asked> RunAsking(const AskingProgram& program, const std::map<std::string, Tensor>& feeds,
                                VariableStore& variables) {
  const ExecutionPlan& plan = *program.plan;
  Asked asked;
  asked.stopped = program.stopped;
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
  std::vector<Tensor> fetched;
  if (program.end != nullptr) program.end->BeginRun();
  const absl::Status ran = program.executor->RunStep(ordered, &fetched, nullptr);
  for (const auto& [name, value] : before) {
    MR_RETURN_IF_ERROR(value ? variables.Set(name, *value) : variables.Clear(name));
  }
  for (const auto& [node, state] : variables.ReadStates()) {
    const auto was = states.find(node);
    MR_RETURN_IF_ERROR(variables.SetState(node, was != states.end() ? was->second : Tensor(state.dtype(), state.shape())));
  }
  if (absl::IsCancelled(ran) && program.end != nullptr) {
    asked.questions = program.end->Asked();
    asked.answers.assign(asked.questions.size(), Tensor::Scalar<bool>(true));
    if (!asked.answers.empty()) asked.answers.back() = Tensor::Scalar<bool>(false);
    asked.stopped = true;
    if (!asked.answers.empty()) return asked;
  }
  MR_RETURN_IF_ERROR(ran);
  for (size_t f = 0; f < fetched.size(); ++f) AddAnswers(plan.fetches[f].name, std::move(fetched[f]), asked);
  return asked;
}

}  // namespace millrace
