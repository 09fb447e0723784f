// Where a reader starts: load or build a graph, make a Session, Run it.
//
//   millrace::SessionOptions options;
//   options.planning.device_memory_bytes = 2LL << 30;
//   auto session = millrace::Session::Create(std::move(graph), options);
//   std::vector<millrace::Tensor> out;
//   absl::Status s = (*session)->Run({}, {}, {"init"}, nullptr);
//   s = (*session)->Run({{"images", batch}}, {"loss:0"}, {"train"}, &out);
//
// A Session plans on the first Run of each signature (feed names and types, fetches, targets) and keeps the plan.
// Variables persist from Run to Run. One thread at a time may call a Session: a call while another one is in progress, from another thread or
// from a callback of the options, is FailedPrecondition and does nothing (PlanWithFeeds logs it). It may come from another thread than the
// call before.
//
// Plans that a session made are kept, so that what comes again need not be planned again:
//   - the 64 used last, on the CPU with a sleeping thread for every lane but one where a step moves more than small tensors;
//   - of one signature that has a plan for each of several values of feeds, or of what the step computes, the plans of the 8 values used last,
//     or of as many as have 32,768 nodes together. 8 of them keep their threads.
// What comes again after so many others is planned again, with the same results.
#ifndef MILLRACE_SESSION_H_
#define MILLRACE_SESSION_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/import.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "millrace/profile.h"
#include "millrace/report.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

class Session {
 public:
  using Feeds = std::map<std::string, Tensor>;  // by placeholder name, "x" or "x:0"
  using FeedTypes = std::map<std::string, TensorType>;

  // InvalidArgument names an option that is out of its range, SessionOptions::ops among them when the built-in ops are not in it, or an
  // attribute of a node that is not of the kind that TensorFlow's definition of the op says. Fails on a device that is not there, and,
  // FailedPrecondition, on a CPU that lacks instructions which the kernels were compiled for. What else a graph holds is looked at when it
  // is needed: an op that is not known is the error of the first Run or Plan of a signature with it.
  static absl::StatusOr<std::unique_ptr<Session>> Create(Graph graph, SessionOptions options);
  // The same for a graph that others use, too.
  static absl::StatusOr<std::unique_ptr<Session>> Create(std::shared_ptr<const Graph> graph, SessionOptions options);
  virtual ~Session() = default;

  // Runs the part of the graph that fetches and targets need, once. `outputs` (may be null) gets one tensor per fetch, and is empty after any
  // error. ResourceExhausted when no plan fits the budget: nothing has run then. Memory that runs out within a step is ResourceExhausted,
  // too; after this and any other error of a step that had begun the message says which variables it had already changed. Fed may be
  // any tensor but the handle of a variable (SetVariable sets that), a reference that the step writes, and what a node without outputs
  // does not have.
  virtual absl::Status Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                           const std::vector<std::string>& targets, std::vector<Tensor>* outputs) = 0;

  // Plans without running: what Run would do. Needs no values of the feeds, and works on the device "null".
  virtual absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Plan(
      const FeedTypes& feeds, const std::vector<std::string>& fetches,
      const std::vector<std::string>& targets) = 0;
  // Values for Plan and RewrittenGraph where the number of a loop's iterations, or a size, depends on feeds; Run takes those that it is given.
  // Each such value has its own plan.
  virtual void PlanWithFeeds(const Feeds& values) { static_cast<void>(values); }
  // Uses this plan (from a file, say) instead of making one when Run is called so.
  //   InvalidArgument: it is of another graph, or for other feeds, fetches, targets or devices (their number and order). Kernels here need
  //     more scratch than it has, or variables that exist already have other types.
  //   ResourceExhausted: it needs more memory than the session's budgets.
  // A plan that is for values of feeds, or for what a step computes, holds these. Another step of this signature is FailedPrecondition
  // then, unless a plan for it was given, too.
  virtual absl::Status UsePlan(std::shared_ptr<const ExecutionPlan> plan, const FeedTypes& feeds,
                               const std::vector<std::string>& fetches, const std::vector<std::string>& targets) = 0;
  // The graph as the passes rewrote it for that plan: partitions, SwapOut and SwapIn nodes, reasons.
  virtual absl::StatusOr<Graph> RewrittenGraph(const FeedTypes& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets) = 0;

  // Figures of the last Run (or Plan) and of its plan; step_seconds and losses are the last step's alone. The references that this and the
  // other two return are valid, and what they refer to is unchanged, until the next Run, Plan, UsePlan or RewrittenGraph: copy what is to be
  // kept. They are not to be asked for while a call is in progress.
  virtual const RunReport& last_run() const = 0;
  // Times of nodes and links as measured in the steps of all signatures so far, medians. FailedPrecondition before
  // enough steps have been measured (ReplanOptions).
  virtual absl::StatusOr<Profile> MeasuredTimes() const {
    return absl::UnimplementedError("this session does not measure");
  }
  // The pruned graph of the last Run or Plan.
  virtual const GraphSummary& graph_summary() const = 0;
  // What is planned for: SessionOptions::machine, or with --device=cuda and none given, what the driver says of the device.
  virtual const Machine& machine() const = 0;

  // Initialised variables by name; their bytes are copies.
  virtual absl::StatusOr<std::map<std::string, Tensor>> Variables() = 0;
  // The same one by one, in name order, as all of them may be more than memory holds: the next copy is made when `take`
  // returns. Ends with its first error. `take` may not call the session.
  virtual absl::Status ReadVariables(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take) = 0;
  // Sets a variable of that name; its type must agree with that of the graph's variable. Which variables there are is known once a
  // step that uses them has run. Until then a value of any type is taken and may be set anew. A name that none of them has is kept with
  // the others.
  virtual absl::Status SetVariable(const std::string& name, const Tensor& value) = 0;

  // What nodes keep from step to step besides variables (how far a random op's stream has come), by node name: bytes,
  // uint8[n]. Together with the variables it is all that a later session needs to go on with the same bits.
  virtual absl::StatusOr<std::map<std::string, Tensor>> NodeStates() { return std::map<std::string, Tensor>(); }
  // Sets the state of that node, of the size that it keeps, before the first Run of a program that holds it or between two. NotFound when
  // neither the graph nor a function or loop of it can have a node of that name.
  virtual absl::Status SetNodeState(const std::string& node, const Tensor& state) {
    return absl::UnimplementedError("this session keeps no states of nodes, node '" + node + "' has one of " +
                                    state.type().ToString());
  }
};

}  // namespace millrace

#endif  // MILLRACE_SESSION_H_
