// Which runs find the answers to what planning must know of a step's own results, and how many.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "passes/access/does_not_fit.h"
#include "session/asker.h"

namespace millrace {
namespace {

constexpr int64_t kNoneTooMany = std::numeric_limits<int64_t>::max();
constexpr auto kNeverEnough = [](const Answers&, bool) { return false; };

// A loop of so many turns; one that is run beyond its end fails where `fails` is set.
class FakeLoop {
 public:
  explicit FakeLoop(int turns, bool fails = false) : turns_(turns), fails_(fails) {}

  absl::Status Find(Answers& answers, bool likely = true) {
    runs = 0;
    return FindAnswers([this](const Answers& so_far, int64_t guesses) { return Ask(so_far, guesses); }, kNeverEnough, likely, kNoneTooMany, answers);
  }
  // Where that the loop has ended is all there is to know.
  absl::Status FindTurns(Answers& answers, int64_t too_many = kNoneTooMany) {
    runs = 0;
    const auto enough = [](const Answers&, bool ended) { return ended; };
    return FindAnswers([this](const Answers& so_far, int64_t guesses) { return Ask(so_far, guesses); }, enough, /*likely=*/false, too_many,
                       answers);
  }

  int runs = 0;
  std::set<std::pair<size_t, int64_t>> told;  // how many answers, and how many guesses

 private:
  absl::StatusOr<Asked> Ask(const Answers& so_far, int64_t guesses) {
    ++runs;
    told.emplace(so_far.size(), guesses);
    Asked asked;
    for (int turn = 0;; ++turn) {
      const std::string name = absl::StrCat("turn_", turn);
      asked.questions.push_back(name);
      asked.answers.push_back(Tensor::Scalar<bool>(turn < turns_));
      if (fails_ && turn > turns_) return absl::InvalidArgumentError("there is no such turn");
      const auto answer = so_far.find(name);
      if (answer == so_far.end() && guesses-- <= 0) {
        asked.stopped = true;
        return asked;
      }
      if (answer != so_far.end() && answer->second.IntAt(0) == 0) return asked;
    }
  }

  const int turns_;
  const bool fails_;
};

TEST(FindAnswers, AsksUntilTheLoopEnds) {
  for (bool fails : {false, true}) {
    for (int turns : {0, 1, 2, 5, 40}) {
      Answers answers;
      FakeLoop loop(turns, fails);
      ASSERT_TRUE(loop.Find(answers).ok());
      EXPECT_EQ(answers.size(), turns + 1);
      EXPECT_EQ(answers[absl::StrCat("turn_", turns)].IntAt(0), 0);
      ASSERT_TRUE(loop.Find(answers).ok());
      EXPECT_EQ(loop.runs, 1) << "the answers of the step before hold";
    }
  }
}

TEST(FindAnswers, RunsGrowWithTheLoop) {
  Answers answers;
  FakeLoop loop(3000, false);
  ASSERT_TRUE(loop.Find(answers).ok());
  EXPECT_EQ(answers.size(), 3001);
  EXPECT_LE(loop.runs, 14);
}

// A step that asks for sizes, one behind the other in its graph. What is guessed is one; `follow`: each size is that before it
// and 10 more, and where what it follows from is wrong a run may fail.
class FakeSizes {
 public:
  FakeSizes(int sizes, int first, bool follow, bool fails) : sizes_(sizes), first_(first), follow_(follow), fails_(fails) {}

  int64_t Right(int i) const { return first_ + 10 * i; }

  absl::Status Find(Answers& answers) {
    runs = 0;
    return FindAnswers([this](const Answers& told, int64_t guesses) { return Ask(told, guesses); }, kNeverEnough, /*likely=*/false, kNoneTooMany, answers);
  }

  int runs = 0;

 private:
  absl::StatusOr<Asked> Ask(const Answers& told, int64_t guesses) {
    ++runs;
    Asked asked;
    int64_t before = first_ - 10;  // as taken, right or wrong
    for (int i = 0; i < sizes_; ++i) {
      const std::string name = absl::StrCat("size_", i);
      const auto answer = told.find(name);
      const int64_t found = follow_ ? before + 10 : Right(i);
      if (fails_ && found != Right(i)) return absl::OutOfRangeError("rows that are not there");
      asked.questions.push_back(name);
      asked.answers.push_back(Tensor::Scalar<int64_t>(found));
      if (answer == told.end() && guesses-- <= 0) {
        asked.stopped = true;
        return asked;
      }
      before = answer == told.end() ? 1 : answer->second.IntAt(0);
    }
    return asked;
  }

  const int sizes_, first_;
  const bool follow_, fails_;
};

TEST(FindAnswers, SizesThatFollowFromNoOtherAreFoundTogether) {
  Answers answers;
  FakeSizes step(500, 3, false, false), next(500, 4, false, false);
  ASSERT_TRUE(step.Find(answers).ok());
  EXPECT_LE(step.runs, 12);
  ASSERT_TRUE(next.Find(answers).ok());
  EXPECT_EQ(next.runs, 2) << "one that finds them all, one that confirms them";
  ASSERT_EQ(answers.size(), 500);
  for (int i : {0, 1, 499}) EXPECT_EQ(answers[absl::StrCat("size_", i)].IntAt(0), next.Right(i));
}

TEST(FindAnswers, SizesThatFollowFromEachOtherAreFoundOneByOne) {
  for (bool fails : {false, true}) {
    Answers answers;
    for (int first : {3, 5}) {
      FakeSizes step(100, first, true, fails);
      ASSERT_TRUE(step.Find(answers).ok());
      EXPECT_LE(step.runs, fails ? 125 : 102) << first;
      ASSERT_EQ(answers.size(), 100);
      for (int i : {0, 1, 99}) EXPECT_EQ(answers[absl::StrCat("size_", i)].IntAt(0), step.Right(i));
    }
  }
}

// As where something that the answer follows from is left out of what asks.
TEST(FindAnswers, AnAnswerThatNeverHoldsIsAnError) {
  Answers answers;
  int runs = 0;
  const absl::Status status = FindAnswers([&](const Answers& so_far, int64_t) -> absl::StatusOr<Asked> {
    ++runs;
    const auto told = so_far.find("side");
    const bool was_no = told != so_far.end() && !told->second.as<bool>()[0];
    return Asked{{"sizes", "side"}, {Tensor::Scalar<bool>(true), Tensor::Scalar<bool>(was_no)}, false};
  }, kNeverEnough, /*likely=*/false, kNoneTooMany, answers);
  EXPECT_EQ(status.message(), "question 'side': its answer is another one whenever it is told (64 runs), expected the same in all runs of a step");
  EXPECT_LE(runs, 70);
}

// Of two that follow from each other, one run after another finds one or both to hold.
TEST(FindAnswers, AnswersThatContradictEachOtherAreAnError) {
  Answers answers;
  int runs = 0;
  const absl::Status status = FindAnswers([&](const Answers& so_far, int64_t) -> absl::StatusOr<Asked> {
    ++runs;
    const auto told = [&](const char* name) {
      const auto answer = so_far.find(name);
      return answer == so_far.end() || answer->second.as<bool>()[0];
    };
    const bool a = told("a"), b = told("b");
    return Asked{{"a", "b"}, {Tensor::Scalar<bool>(!a && !b), Tensor::Scalar<bool>(a && !b)}, false};
  }, kNeverEnough, /*likely=*/false, kNoneTooMany, answers);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_LE(runs, 100);
}

TEST(FindAnswers, AnInterruptEndsAsking) {
  Answers answers;
  int runs = 0;
  const absl::Status status = FindAnswers([&](const Answers&, int64_t) -> absl::StatusOr<Asked> {
    ++runs;
    return absl::CancelledError("planning was interrupted");
  }, kNeverEnough, /*likely=*/false, kNoneTooMany, answers);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(runs, 1);
}

TEST(FindAnswers, AnswersOfAnotherStepAreOnlyGuesses) {
  for (bool likely : {false, true}) {
    Answers answers;
    ASSERT_TRUE(FakeLoop(9).Find(answers).ok());
    for (int turns : {4, 12, 0}) {
      ASSERT_TRUE(FakeLoop(turns, true).Find(answers, likely).ok());
      EXPECT_EQ(answers.size(), turns + 1);
    }
  }
}

// Graphs that ask are made for what they are told: a step of other turns than those before needs none of its own.
TEST(FindAnswers, LoopsOfChangingTurnsAreAskedByFewGraphs) {
  Answers answers;
  std::set<std::pair<size_t, int64_t>> told;
  for (int turns : {20, 7, 31, 8, 30, 1, 0, 16, 25, 17, 2, 11, 29, 28, 3, 32}) {
    FakeLoop loop(turns);
    ASSERT_TRUE(loop.FindTurns(answers).ok());
    EXPECT_EQ(answers.size(), turns + 1);
    EXPECT_EQ(answers[absl::StrCat("turn_", turns)].IntAt(0), 0);
    EXPECT_LE(loop.runs, 6) << turns;
    told.insert(loop.told.begin(), loop.told.end());
  }
  EXPECT_LE(told.size(), 7) << "1, 2, 4, 8, 16 and 32 turns, and told that there is none";
}

TEST(FindAnswers, ALoopThatTakesNoTurnRunsNoneInVain) {
  Answers answers;
  ASSERT_TRUE(FakeLoop(0).FindTurns(answers).ok());
  for (bool fails : {false, true}) {
    FakeLoop none(0, fails);
    ASSERT_TRUE(none.FindTurns(answers).ok());
    EXPECT_EQ(none.runs, 1);
    EXPECT_EQ(none.told, (std::set<std::pair<size_t, int64_t>>{{1, 1}})) << "told that the first turn does not come";
  }
}

// As many turns as a power of two of them may be more than there are, and fail.
TEST(FindAnswers, LoopsThatFailBehindTheirEndAreToldTheirTurns) {
  Answers answers;
  ASSERT_TRUE(FakeLoop(21, true).FindTurns(answers).ok());
  FakeLoop again(21, true);
  ASSERT_TRUE(again.FindTurns(answers).ok());
  EXPECT_EQ(again.runs, 2) << "one that fails";
  EXPECT_EQ(answers.size(), 22);
  for (int turns : {100, 700, 1000}) {
    Answers found;
    FakeLoop first(turns, true);
    ASSERT_TRUE(first.FindTurns(found).ok());
    EXPECT_EQ(found.size(), turns + 1);
    EXPECT_LE(first.runs, 60) << turns;
  }
  for (int turns : {100, 65, 125, 70, 128, 127, 90, 64, 120}) {
    FakeLoop changed(turns, true);
    ASSERT_TRUE(changed.FindTurns(answers).ok());
    EXPECT_EQ(answers.size(), turns + 1);
    EXPECT_LE(changed.runs, 30) << turns;
  }
}

TEST(FindAnswers, WhatIsTooManyIsNotTriedAgain) {
  Answers answers;
  ASSERT_TRUE(FakeLoop(21, true).FindTurns(answers).ok());
  FakeLoop again(21, true);
  ASSERT_TRUE(again.FindTurns(answers, /*too_many=*/32).ok());
  EXPECT_EQ(again.runs, 1);
}

// What there was no memory, no thread or no time for just then may be there in the next step.
TEST(FindAnswers, WhatFailedForAPassingReasonIsTriedAgain) {
  LastAnswers last;
  for (const absl::Status& passing : {absl::ResourceExhaustedError("there is no memory for it"), absl::CancelledError("interrupted"),
                                      absl::FailedPreconditionError("variable 'w' has no value"), absl::UnavailableError("the device is lost")}) {
    last.NotMade(32, passing);
    EXPECT_EQ(last.too_many, kNoneTooMany) << passing;
  }
  last.NotMade(64, absl::InvalidArgumentError("index 21 is not in an array of 21"));
  EXPECT_EQ(last.too_many, 64);
  last.NotMade(32, DoesNotFitError(200, "does not fit"));
  last.NotMade(128, DoesNotFitError(200, "does not fit"));
  EXPECT_EQ(last.too_many, 32);
  last.NotMade(16, absl::ResourceExhaustedError("does not fit: variable 'w' is larger than any budget"));
  EXPECT_EQ(last.too_many, 16);
  last.NotMade(8, absl::ResourceExhaustedError("the plan needs 8.0 GiB of this machine's memory, which has 4.0 GiB"));
  EXPECT_EQ(last.too_many, 8);
}

// The program of most turns may be one for other feeds.
TEST(FindAnswers, AsManyTurnsAsWereWatchedAreAskedForWhereThatProgramIsThere) {
  LastAnswers last;
  last.most_watched = 64;
  std::vector<int64_t> asked;
  const auto ask = [&](const Answers&, int64_t guesses) -> absl::StatusOr<Asked> {
    asked.push_back(guesses);
    return Asked();
  };
  for (const bool is_made : {true, false}) {
    const auto made = [&](int64_t guesses) { return is_made && guesses == 64; };
    EXPECT_TRUE(AskOfMost(ask, made, last, {}, 8).ok());
  }
  EXPECT_EQ(asked, (std::vector<int64_t>{64, 8}));
}

TEST(FindAnswers, AStepThatFailsIsNotRunOnceMoreThanItTakesToKnow) {
  Answers answers;
  int runs = 0;
  const auto ask = [&](const Answers&, int64_t) -> absl::StatusOr<Asked> {
    ++runs;
    return absl::InvalidArgumentError("x is not a number");
  };
  EXPECT_FALSE(FindAnswers(ask, kNeverEnough, /*likely=*/false, kNoneTooMany, answers).ok());
  EXPECT_EQ(runs, 2) << "with a guess, and without";
}

}  // namespace
}  // namespace millrace
