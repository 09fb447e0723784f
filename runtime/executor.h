// Runs an ExecutionPlan: what Session calls.
//
//   HostMemory host(limit);                  // one of each per session
//   VariableStore variables(&host);
//   auto runner = MakeTbbTaskRunner(threads);
//   KernelCache kernels(device->kernels());
//   auto executor = Executor::Create(plan, {.devices = {device.get()}, .runner = runner.get(), .kernels = &kernels,
//                                           .host = &host, .variables = &variables}, options);
//   (*executor)->RunStep(feeds, &fetches, &stats);
//
// Everything is built in Create; a step allocates no device memory and no memory of the lanes. All executors of a
// session share its devices, host memory and variables; they may be used in turn, one thread at a time. Variables and constants
// that stay on a device are found there by the next one, where its plan leaves them room (device_places.h).
#ifndef MILLRACE_RUNTIME_EXECUTOR_H_
#define MILLRACE_RUNTIME_EXECUTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/plan.h"
#include "millrace/tensor.h"
#include "runtime/device_places.h"
#include "runtime/disk_tier.h"
#include "runtime/host_memory.h"
#include "runtime/kernel_cache.h"
#include "runtime/program.h"
#include "runtime/runtime_device.h"
#include "runtime/step_stats.h"
#include "runtime/task_runner.h"
#include "runtime/variable_store.h"

namespace millrace {

// What executors of a session share; all outlive them.
struct RuntimeContext {
  std::vector<RuntimeDevice*> devices;  // as plan.devices
  TaskRunner* runner = nullptr;
  KernelCache* kernels = nullptr;
  HostMemory* host = nullptr;
  VariableStore* variables = nullptr;
  DiskTier* disk = nullptr;  // of tiered plans
  ShapeFunction infer_shapes;  // for nodes whose shapes are known only when running
};

struct ExecutorOptions {
  uint64_t seed = 0;       // KernelContext::seed
  double link_gbps = 0;    // pace of every copy lane in 1e9 bytes/s; 0: none
  double disk_gbps = 0;    // pace of both disk lanes; 0: none
  bool trace = false;      // StepStats::trace; always filled on a device without data
  bool undone = false;     // whoever runs a step takes back what it changed, so that errors tell of nothing
  LaneObserver* observer = nullptr;
};

class Executor final : private PoolOwner {
 public:
  // Makes kernels and declares variables. The first error of the plan, a kernel that is missing or needs more
  // scratch than planned, a variable of another type, host memory over its limit: nothing has run.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(std::shared_ptr<const ExecutionPlan> plan,
                                                          const RuntimeContext& context,
                                                          const ExecutorOptions& options = {});
  // Variables that live on the device are copied home.
  ~Executor() override;

  // Runs one training step. `feeds` are in plan.feeds order; `fetches` (may be null) gets plan.fetches in order.
  // InvalidArgument for a feed of another type, FailedPrecondition for a variable that is read without a value (it
  // and its first reader are named): nothing has run then. The error of a failed node names the node and the first
  // few variables that hold new values already, `stats` has them all; all others are as before the step. `stats` may be null.
  absl::Status RunStep(absl::Span<const Tensor> feeds, std::vector<Tensor>* fetches, StepStats* stats);

  // Takes over arena, pool and variables from the executor that had them. RunStep does so, too; before it, this tells whether
  // there is room. After an error no executor has them, and whichever runs next takes them.
  absl::Status Activate();

  // Whether the steps that follow fill StepStats::trace though ExecutorOptions does not ask for it.
  void set_recording(bool recording) { recording_ = recording; }

  const ExecutionPlan& plan() const { return program_->plan(); }
  const Program& program() const { return *program_; }
  bool holds_threads() const { return engine_->holds_threads(); }

 private:
  Executor(const RuntimeContext& context, const ExecutorOptions& options) : context_(context), options_(options) {}
  absl::Status CheckFeeds(absl::Span<const Tensor> feeds) const;
  absl::Status CheckVariables() const;
  absl::Status TakeDevices();
  absl::Status LoadPool();
  absl::Status Flush() override;
  void Deactivate() override { engine_->LeavePool(); }
  bool stays_on_device(size_t i) const { return plan().variables[i].resident_offset != kNoAddress; }
  // What of plan variable i stays on its device; nullptr: nothing.
  Resident* resident(size_t i) const { return places_[plan().variables[i].device].resident(i); }
  char* in_pool(size_t i) const { return static_cast<char*>(pool_) + plan().variables[i].host_offset; }
  bool stays_in_pool(size_t i) const { return plan().variables[i].host_offset != kNoAddress; }
  // Before a step: what the variables hold.
  void BeginVariables();
  // After it: which values outlive it.
  void CommitVariables();
  // Whether the step copies the fetch's value to the host; a constant's bytes are those of the graph.
  bool copies(const PlanFetch& fetch) const { return fetch.value.empty() && context_.devices[0]->has_data(); }
  // Tensors of the planned shapes for what is fetched, and the same as large as it turned out.
  absl::StatusOr<std::vector<Tensor>> MakeFetches() const;
  void ShrinkFetches(std::vector<Tensor>& fetched) const;
  // Adds what variables and constants hold for good to the step's peaks, which are of this plan alone: beside it the arena may hold what others have
  // left there, as far as it goes.
  void AddResidents(StepStats& stats) const;
  // A step that fails leaves what nodes keep (how far random streams have come) as it was.
  absl::Status KeepStates();
  void RestoreStates();
  // By the step that failed; `perhaps` gets those that only a node writes which has not finished.
  std::vector<std::string> ChangedVariables(std::vector<std::string>* perhaps) const;
  static absl::Status DescribeFailure(const absl::Status& error, const std::vector<std::string>& changed, const std::vector<std::string>& perhaps);

  const RuntimeContext context_;
  const ExecutorOptions options_;
  bool recording_ = false;
  std::unique_ptr<Program> program_;
  std::unique_ptr<LaneEngine> engine_;
  std::vector<StoredVariable*> variables_;  // as plan.variables
  std::vector<bool> dirty_;                 // the host pool holds a newer value than the home
  bool places_are_stale_ = false;           // a step failed within which something that stays is elsewhere: its place may hold others
  std::vector<DevicePlaces> places_;        // as plan.devices
  std::vector<ArenaMap> maps_;              // that addresses were resolved against
  int64_t changes_ = -1;                    // of what stays on devices, when places were found
  void* pool_ = nullptr;
  int64_t memory_moves_ = -1;  // of pools and arenas, when addresses were resolved
  std::vector<char> states_before_;   // Program::states, one after another
  int64_t constant_bytes_ = 0;
  int64_t pool_end_ = 0;      // highest end of a place in the host pool that holds a variable for good
  std::vector<int64_t> resident_end_;  // per device: highest end of an address that holds a variable or constant for good
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_EXECUTOR_H_
