// For graphs whose sizes follow from the step's own values and have no bound that does: those sizes are questions
// (unroll/questions.h), and the graph is planned for the answers, exactly.
//
//   n = Sum(Cast(x > 0))   Fill([n], 0)        n is asked for, and a constant where Fill takes it
//   rows = Where(x > 0)    Gather(y, rows)     the shape of rows is asked for; Gather takes Reshape(rows, [3, 1])
//   word = Gather(words, n)  StringLength(word)  n is asked for, and the word made of the answer: strings must be known
//   mixed = RandomShuffle(words)                becomes Gather(words, RandomShuffle([0, 1, 2])), which is such a word
//
// The two sides of a conditional may differ in size, and what a side that is not taken makes of sizes, forward or in gradients,
// may be impossible or was never written. So before a Merge of sides of no one type, or of strings, and before any question in a branch, it is
// asked which side is taken; with the answer the other one is left out:
//
//   y = Merge(x[1:], x)    p is asked for; where it is false y is x[1:], and its gradient has that side alone
//
// Sizes without an answer are guessed to be 1, as a size of 1 goes with any other one where tensors meet, and takes least.
#ifndef MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_
#define MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/unroll/guards.h"
#include "passes/unroll/lists.h"
#include "passes/unroll/straight_graph.h"
#include "passes/unroll/value.h"

namespace millrace {

// The question before the first of sizes, whose answer is true: what has it is planned so from then on.
inline constexpr char kAsksForSizes[] = "sizes";
// The beginning of questions whether a predicate holds; it does not where nobody takes the branch that it is in.
inline constexpr char kAsksForSide[] = "side by ";

// That of a predicate that follows from no other one (Guards::Source). Lists of different lengths ask it, too.
std::string SideQuestion(const StraightGraph& out, OutputRef predicate);

// Whether the predicate of a Switch holds; nullopt where that was not asked for. exact_sizes: a plan that uses it is one of sizes.
absl::StatusOr<std::optional<bool>> AnsweredSide(StraightGraph& out, Guards& guards, OutputRef predicate, bool exact_sizes);

// Asks which side of a Merge is taken, unless both have one type that is not strings.
absl::Status AskForSide(StraightGraph& out, Guards& guards, const NodeCall& merge);

// `wrong` of a node that may not run: before that counts, it is asked whether it does.
absl::Status AskIfWrong(StraightGraph& out, Guards& guards, const NodeCall& call, absl::Status wrong);

// Whether what planning failed for may follow from a guess, so that the questions before it are asked first.
bool StopsAsking(StraightGraph& out, const absl::Status& failure);

// Makes a shuffle of strings one of the numbers of their rows, and returns the strings; invalid, and nothing done, for other nodes.
absl::StatusOr<OutputRef> ShuffleNumbersInstead(StraightGraph& out, Node& node);
// The strings by these numbers.
absl::StatusOr<OutputRef> StringsByNumbers(StraightGraph& out, const NodeCall& call, OutputRef strings, OutputRef numbers);

// Adds the node as StraightGraph does. Values that its shape rule asked for in vain are constants, and it waits for what
// made them.
absl::StatusOr<NodeId> AddWithKnownSizes(StraightGraph& out, Guards& guards, const NodeCall& call, Node node);

// Outputs of `made` whose shapes are known only when running become tensors of the shapes that were found. Where answers may be
// guesses still, a tensor of another size is cut, or filled up with zeros, so that other questions are answered all the same.
absl::Status SettleShapes(StraightGraph& out, Guards& guards, const NodeCall& call, NodeId made, absl::Span<Value> outputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_EXACT_SIZES_H_
