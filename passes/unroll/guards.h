// Which predicates hold where a node of the graph that unroll_loops makes is to have an effect: what lower_switches finds out for
// all nodes later, for the few that are asked about here.
#ifndef MILLRACE_PASSES_UNROLL_GUARDS_H_
#define MILLRACE_PASSES_UNROLL_GUARDS_H_

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/types/span.h"
#include "millrace/graph.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/unroll/straight_graph.h"
#include "passes/unroll/value.h"

namespace millrace {

class Guards {
 public:
  explicit Guards(const StraightGraph& graph) : graph_(graph) {}

  // The predicate behind what passes it on or turns it over: one and the same wherever it is asked.
  Literal Source(OutputRef ref, bool value = true);
  // Of a value: of the tensor that it is, and of what it waits for.
  Guard Of(const Value& value);
  Guard Of(const Waits& waits);
  // Of a node that takes these and waits for those.
  Guard Of(absl::Span<const Value> inputs, const Waits& waits);
  // The predicate that is true for the second of two and false for the first, turned over if need be.
  static std::optional<Literal> Between(const Guard& first, const Guard& second);
  // What holds for the one and for the other.
  static Guard OfBoth(const Guard& first, const Guard& second);

 private:
  const Guard& Of(NodeId id);
  const Guard& OfBoth(const std::shared_ptr<Either>& either);
  Guard Made(NodeId id);
  OutputRef PassedOn(OutputRef ref) const;

  const StraightGraph& graph_;
  std::unordered_map<int32_t, Guard> known_;
  std::unordered_map<std::shared_ptr<Either>, Guard> of_both_;
  std::map<std::pair<OutputRef, int64_t>, OutputRef> asked_;  // by index and number: the first node that compares them
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_GUARDS_H_
