// A plan made ready to run: kernels, contexts and addresses resolved, waits reduced to what must be checked.
// Built once; a step reads it and writes nothing of it.
#ifndef MILLRACE_RUNTIME_PROGRAM_H_
#define MILLRACE_RUNTIME_PROGRAM_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"
#include "millrace/plan.h"
#include "runtime/device_places.h"
#include "runtime/dynamic_op.h"
#include "runtime/kernel_cache.h"
#include "runtime/runtime_device.h"

namespace millrace {

// Where this plan's variables stand in the step that runs; indexed as plan.variables.
struct VariableState {
  // Holds a value for the nodes that come next: set by the compute steps that write it.
  std::unique_ptr<bool[]> initialized;
  // The value that outlives the step has been changed: by the copy home, or by the node when it is resident.
  std::unique_ptr<bool[]> changed;
  // Of a changed one: perhaps it has not, as all that wrote it is a node that has not finished.
  std::unique_ptr<bool[]> perhaps;
  // Of a resident one: its home has that value, too. One that leaves within the step is nowhere else then.
  std::unique_ptr<bool[]> at_home;
};

struct WaitRange {
  int64_t first = 0;  // into ProgramLane::waits
  int32_t count = 0;
};

struct StoredVariable;

struct ComputeOp {
  const Kernel* kernel = nullptr;
  DynamicOp* dynamic = nullptr;  // then there is no kernel yet: shapes say which
  KernelContext context;
  WaitRange waits;
  int64_t high_water = 0;      // highest end of an address that it is handed
  int32_t first_write = 0;     // into ProgramLane::writes
  int32_t num_writes = 0;
  int32_t batch = -1;          // into ProgramLane::batches when a batch begins here
};

// Consecutive independent compute ops that may run at once: chunks [chunk_begin[i], chunk_begin[i+1]) of the lane,
// each run by one thread in order. Its waits are those of all its ops.
struct ComputeBatch {
  WaitRange waits;
  std::vector<int64_t> chunk_begin;
};

struct CopyOp {
  const CopyStep* step = nullptr;
  void* device_address = nullptr;
  void* host_address = nullptr;  // of feeds and fetches: nullptr, see StepBindings
  WaitRange waits;
  int64_t high_water = 0;
  int64_t pool_high_water = 0;
  // Carries a resident variable home as it was before the step: no node has written it yet.
  bool carries_former_value = false;
};

struct VariableWrite {
  int32_t variable = 0;  // into plan.variables
  bool resident = false;  // where the variable stays over the step's end
};

struct ProgramLane {
  const Lane* lane = nullptr;
  RuntimeDevice* device = nullptr;
  int64_t num_steps = 0;
  std::vector<ComputeOp> compute;
  std::vector<CopyOp> copies;
  std::vector<ComputeBatch> batches;
  std::vector<Wait> waits;
  std::vector<VariableWrite> writes;
};

// Of a step of the lane: what its thread or stream waits for, in ProgramLane::waits.
inline absl::Span<const Wait> WaitsOf(const ProgramLane& lane, int64_t step) {
  const WaitRange& range = lane.lane->kind == LaneKind::kCompute ? lane.compute[step].waits : lane.copies[step].waits;
  return absl::MakeConstSpan(lane.waits).subspan(range.first, range.count);
}

// Host memory that differs from step to step.
struct StepBindings {
  absl::Span<const void* const> feeds;  // in plan.feeds order
  absl::Span<void* const> fetches;      // in plan.fetches order; nullptr where no copy comes
  bool record = false;                  // fill StepStats::trace
};

struct ProgramOptions {
  uint64_t seed = 0;
  ParallelRunner* parallel = nullptr;
  ShapeFunction infer_shapes;  // needed by plans with dynamic tensors
  // Ops that are this short run together in one chunk of a batch, and a batch shorter than two runs serially.
  double batch_grain_seconds = 5e-6;
  bool batches = true;  // false: every op on its own, in lane order
};

class VariableStore;
class HostMemory;

class Program {
 public:
  // Makes the kernels (from `kernels`, shared over equal nodes) and declares the plan's variables and node states
  // in `variables`. Errors name the node. All arguments outlive the program.
  static absl::StatusOr<std::unique_ptr<Program>> Create(std::shared_ptr<const ExecutionPlan> plan,
                                                         absl::Span<RuntimeDevice* const> devices,
                                                         KernelCache& kernels, VariableStore& variables,
                                                         const ProgramOptions& options);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Resolves addresses, with one map per plan device. Not during a step.
  void Bind(absl::Span<const ArenaMap> maps, void* pool);
  // How often Bind has been called: an engine that keeps addresses must take new ones when this has changed.
  int64_t binding() const { return binding_; }

  const ExecutionPlan& plan() const { return *plan_; }
  const std::vector<ProgramLane>& lanes() const { return lanes_; }
  // What its nodes keep from step to step: begin and bytes of each block.
  const std::map<char*, int64_t>& states() const { return states_; }
  VariableState& variable_state() const { return variable_state_; }
  // Notes what a step that has run did to variables; `finished`: the op has not failed, which may have written in part.
  void MarkWrites(const ProgramLane& lane, const ComputeOp& op, bool finished) const;
  // `carries_former_value`: what it has carried home is the value from before the step.
  void MarkCopy(const CopyOp& op, bool carries_former_value) const;
  // Whether some copy of the step is from or to the home of plan variable `index`.
  bool uses_home(size_t index) const { return uses_home_[index]; }
  // Whether some step gives it a value.
  bool writes(size_t index) const { return writes_[index]; }
  StoredVariable& variable(int32_t index) const { return *variables_[index]; }
  // Where plan variable `index` is in host memory: its home, or its part of one; not of variables on disk.
  void* home(int32_t index) const;
  // Base of the host pool that addresses were resolved against.
  void* pool() const { return pool_; }
  // Computes the op on this thread. `begun`: its kernel was called, and may have written whatever it returned.
  absl::Status RunOp(const ComputeOp& op, bool& begun) const {
    const auto run = [&](const Kernel& kernel, const KernelContext& context) {
      begun = true;
      return kernel.Run(context);
    };
    return op.dynamic == nullptr ? run(*op.kernel, op.context) : op.dynamic->Run(op.context, dynamic_shapes_, run);
  }
  // Of plan.dynamic_tensors in the step that runs; ops with dynamic shapes write them.
  std::vector<Shape>& dynamic_shapes() const { return dynamic_shapes_; }
  // Shape that the last step gave fetch i: its type's where that is not a bound.
  const Shape& fetch_shape(int32_t fetch) const;

 private:
  Program() = default;
  absl::Status AddComputeLane(int32_t lane, KernelCache& kernels, VariableStore& variables,
                              const ProgramOptions& options);
  absl::Status AddComputeOp(ProgramLane& out, const ComputeStep& step, KernelCache& kernels,
                            VariableStore& variables, const ProgramOptions& options);
  absl::Status AddCopyLane(int32_t lane);
  void FindFormerValues();
  void FindUsesOfVariables();
  void BindCompute(ProgramLane& lane, const ArenaMap& map);

  std::shared_ptr<const ExecutionPlan> plan_;
  std::vector<ProgramLane> lanes_;
  int64_t binding_ = 0;
  std::vector<bool> uses_home_, writes_;  // as plan.variables
  std::map<char*, int64_t> states_;
  mutable VariableState variable_state_;
  std::vector<StoredVariable*> variables_;              // as plan.variables
  void* pool_ = nullptr;
  std::vector<std::shared_ptr<const Kernel>> kernels_;  // keeps them alive
  // Pointer arrays that contexts refer to: inputs then outputs of op after op, per lane.
  std::vector<std::vector<void*>> pointers_;
  std::vector<std::vector<const bool*>> flags_;
  ShapeFunction infer_shapes_;
  std::vector<std::unique_ptr<DynamicOp>> dynamic_ops_;
  mutable std::vector<Shape> dynamic_shapes_;  // of plan.dynamic_tensors, as of the step that runs
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_PROGRAM_H_
