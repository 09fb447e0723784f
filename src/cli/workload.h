// What is to be run: a graph, feeds, fetches and targets. The same for every strategy of a command.
#ifndef MILLRACE_SRC_CLI_WORKLOAD_H_
#define MILLRACE_SRC_CLI_WORKLOAD_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/checkpoint_tables.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/partitioned_variables.h"
#include "cli/settings.h"

namespace millrace::cli {

// What runs once before the first step, and what is fed then: what the graph restores itself (restored_tensors.h), read again each time.
struct Initialiser {
  std::vector<std::string> targets;
  Session::FeedTypes feed_types;
  std::function<absl::StatusOr<Session::Feeds>()> feeds = [] { return Session::Feeds(); };
};

struct Workload {
  std::shared_ptr<const Graph> graph = std::make_shared<const Graph>();
  Session::FeedTypes feed_types;
  Session::Feeds feeds;  // empty when only planning
  std::vector<std::string> fetches;
  std::vector<std::string> fetch_names;  // what results call them: "loss:0", or the signature's key
  std::vector<std::string> targets;
  Initialiser init;        // --init_targets, and what an ONNX model brings
  Initialiser model_init;  // what a SavedModel brings
  int64_t steps = 1;
  std::shared_ptr<const ExecutionPlan> plan;  // of the steps, when it comes from a file
  // Variables that get these values (a checkpoint's) before the first step, each read then.
  std::map<std::string, std::function<absl::StatusOr<Tensor>()>> initial_values;
  bool values_after_model_init = false;  // too
  std::string values_from;  // what errors call the checkpoint
  // States of nodes at the same moment, by node: streams of random ops go on where they were saved.
  Arrays initial_states;
  // How checkpoint_out names variables (the variable's own name where there is none), and what else it must hold.
  std::map<std::string, std::string> checkpoint_keys;
  Arrays checkpoint_extras;
  std::map<std::string, VariablePart> checkpoint_parts;  // variables that checkpoints have as slices of others
  std::map<std::string, CheckpointTable> checkpoint_tables;  // by the variables that they are here
  std::map<std::string, std::string> input_keys;  // by placeholder: what a SavedModel's signature or an ONNX model calls it
};

// Checkpoints hold the state of node N under this followed by N; TensorFlow reads the keys that it knows and no others.
inline constexpr char kNodeStatePrefix[] = "_millrace_state/";
// The same of the value of variable N where the saver has another one's under that name.
inline constexpr char kOwnNamePrefix[] = "_millrace_own_name/";

// Whether a SavedModel's signature of this name is for those who load it, of no use alone.
bool IsLoadersOwn(std::string_view signature);

// Wrong usage where a SavedModel's folder is given as a --graph, or a file as a --saved_model.
absl::Status CheckKindOfGraph(const InputOptions& options);

enum class FeedValues { kMade, kTypesOnly };

// Loads the graph, feeds and initial values. Requires --graph and --fetches or --targets, --saved_model, or --onnx; their absence
// is wrong usage.
absl::StatusOr<Workload> LoadWorkload(const InputOptions& options, FeedValues values, const Environment& environment);

// What comes before the first step: the init targets, then the values of the model or checkpoint, then a SavedModel's own initialisation,
// which those of --checkpoint_in come after once more, and states of nodes last. Cancelled when it is interrupted between two of these, or two values.
// `own_is_left_out`: planning has told that the SavedModel's own is not supported.
absl::Status Initialise(const Workload& workload, Session& session, const std::function<bool()>& interrupted, bool own_is_left_out);

// The budget in bytes (0: none): as given, or of the machine when none was given. A percentage is of the predicted
// peak of strategy `baseline` without a budget, which is planned for it.
absl::StatusOr<DeviceBudgets> ResolveBudget(const Budget& budget, const Workload& workload, SessionOptions options,
                                      const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_WORKLOAD_H_
