// What taking loops apart must know and only a run can tell: whether a loop that ends by its own results goes on, how long a
// list becomes. Such a step is planned twice: first for the questions alone, asked of the same variables and feeds without any
// lasting effect, then with the answers, as if they had been constants. Between steps answers are guesses for the next:
//
//   asked   loop/turn_0 ? yes   loop/turn_1 ? yes   loop/turn_2 ? no      one run, when all three were guessed right
//
// A question has the name of its loop and turn, so it is the same one as long as what came before had the same answers.
// What is asked for behind a wrong guess counts for nothing where it follows from the guess, and is right where it does not:
// many sizes that have nothing to do with each other are found by one run, which the next one confirms.
#ifndef MILLRACE_PASSES_UNROLL_QUESTIONS_H_
#define MILLRACE_PASSES_UNROLL_QUESTIONS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_split.h"
#include "millrace/graph.h"
#include "millrace/tensor.h"

namespace millrace {

// Payload of a status: the name of the first question that has no answer.
inline constexpr char kNeededAnswer[] = "millrace/needed_answer";

// Whether planning failed for want of an answer: a run of the step finds it, once variables have values.
inline bool NeedsAnswer(const absl::Status& status) { return status.GetPayload(kNeededAnswer).has_value(); }

// Whose answers a fetch of a graph that asks is: a bool for each of several questions, whose names are lines, or that of one, whose
// name may have any.
inline constexpr char kBetweenQuestions[] = "\n";
// How the node that gathers such bools is called, before the name of the first question. Nodes of graphs are not called so.
inline constexpr char kGathersAnswers[] = "_answers/";
inline std::vector<std::string> QuestionsOf(const std::string& fetch) { return absl::StrSplit(fetch, kBetweenQuestions); }

struct QuestionOptions {
  std::map<std::string, Tensor> answers;  // by the name of the question
  bool ask = false;     // make a graph that answers: of every question that came up, and nothing else
  int64_t guesses = 0;  // asking: so many questions without an answer are guessed, and asked at once
};

class Questions {
 public:
  explicit Questions(const QuestionOptions& options) : options_(options), guesses_(options.guesses) {}

  // The value of `ref`, which is not known. `guess`: what it is likely to be, or an empty tensor. Without answer `refusal`
  // with the payload, or, when asking, Cancelled.
  absl::StatusOr<Tensor> Answer(const std::string& name, OutputRef ref, const Tensor& guess, absl::Status refusal) {
    const auto found = options_.answers.find(name);
    if (options_.ask) asked_.emplace_back(name, ref);
    if (found != options_.answers.end()) return found->second;
    if (!options_.ask) {
      refusal.SetPayload(kNeededAnswer, absl::Cord(name));
      return refusal;
    }
    if (!guess.empty() && guesses_-- > 0) return guess;
    stopped_ = true;
    return absl::CancelledError("to be asked first");
  }

  // The answer, where there is one: asked for once, however often it is taken. nullptr: none, and nothing is asked.
  const Tensor* Answered(const std::string& name, OutputRef ref) {
    const auto found = options_.answers.find(name);
    if (found == options_.answers.end()) return nullptr;
    if (options_.ask && !CameUp(name)) asked_.emplace_back(name, ref);
    return &found->second;
  }

  // Whether `name` would be guessed now.
  bool MayGuess(const std::string& name) const { return options_.ask && guesses_ > 0 && options_.answers.count(name) == 0; }

  // What came up before is asked first, unless nothing was guessed.
  bool StopIfGuessing() {
    stopped_ = stopped_ || (options_.ask && options_.guesses > 0 && !asked_.empty());
    return stopped_;
  }

  bool ask() const { return options_.ask; }
  // Whether Answer has nothing but the refusal.
  bool Refuses(const std::string& name) const { return !options_.ask && options_.answers.count(name) == 0; }
  // Of what questions follow from: each passes all that comes before.
  void CountSearch() { ++searches_; }
  int64_t searches() const { return searches_; }
  bool CameUp(const std::string& name) const {
    return std::any_of(asked_.begin(), asked_.end(), [&](const auto& asked) { return asked.first == name; });
  }
  // Whether there may be more to ask when these are answered.
  bool stopped() const { return stopped_; }
  const std::vector<std::pair<std::string, OutputRef>>& asked() const { return asked_; }

 private:
  const QuestionOptions& options_;
  int64_t guesses_;
  bool stopped_ = false;
  int64_t searches_ = 0;
  std::vector<std::pair<std::string, OutputRef>> asked_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_QUESTIONS_H_
