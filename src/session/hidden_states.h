// Hidden states of a session's graphs (graph/hidden_state.h) between steps: they get their zeros before the first step that uses
// them, and tables get room for the keys that the next step may insert.
#ifndef MILLRACE_SESSION_HIDDEN_STATES_H_
#define MILLRACE_SESSION_HIDDEN_STATES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "graph/mutable_table.h"
#include "millrace/plan.h"
#include "runtime/variable_store.h"

namespace millrace {

// What the steps of a plan do with a hidden state.
struct HiddenStateUse {
  TensorType type;
  bool is_table = false;
  TableLayout layout;
  int64_t inserts = 0;  // keys that a step inserts at most
};
// By the variable's name.
using HiddenStateUses = std::map<std::string, HiddenStateUse>;
// All of a plan: to be found once, not in every step.
absl::StatusOr<std::shared_ptr<const HiddenStateUses>> FindHiddenStateUses(const ExecutionPlan& plan);

// InvalidArgument where a plan that was given is of tables in other sizes than one that is made now: it came from a run in which they
// had grown. In other sizes their keys have other places, in which order they are exported.
absl::Status CheckSameSizes(const ExecutionPlan& given, const ExecutionPlan& made);

class HiddenStates {
 public:
  // `store` outlives this object.
  explicit HiddenStates(VariableStore* store) : store_(*store) {}

  // Before a step of a plan with these uses. `abandon(name)` ends all use of a variable that is about to get another size, or was set to a
  // table of one since it was planned, or refuses to. Returns whether one did: plans that use it are then of the past, this one included.
  absl::StatusOr<bool> MakeReady(const HiddenStateUses& uses, absl::FunctionRef<absl::Status(const std::string& name)> abandon);

  // The variable was set from outside.
  void WasSet(const std::string& name) { keys_.erase(name); }

 private:
  // The bytes of a table that has room for what the step inserts, or nothing where the table has it.
  absl::StatusOr<Tensor> Roomier(const std::string& name, const HiddenStateUse& use);

  VariableStore& store_;
  std::map<std::string, int64_t> keys_;  // by table: at most so many buckets are in use; unknown where there is none
};

}  // namespace millrace

#endif  // MILLRACE_SESSION_HIDDEN_STATES_H_
