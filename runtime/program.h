// A plan made ready to run: kernels, contexts and addresses resolved, waits reduced to what must be checked.
// Built once; a step reads it and writes nothing of it.
#ifndef MILLRACE_RUNTIME_PROGRAM_H_
#define MILLRACE_RUNTIME_PROGRAM_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"
#include "millrace/plan.h"
#include "runtime/kernel_cache.h"
#include "runtime/runtime_device.h"

namespace millrace {

// Where this plan's variables stand in the step that runs; indexed as plan.variables.
struct VariableState {
  // Holds a value for the nodes that come next: set by the compute steps that write it.
  std::unique_ptr<bool[]> initialized;
  // The value that outlives the step has been changed: by the copy home, or by the node when it is resident.
  std::unique_ptr<bool[]> changed;
};

struct WaitRange {
  int64_t first = 0;  // into ProgramLane::waits
  int32_t count = 0;
};

struct Variable;

struct ComputeOp {
  const Kernel* kernel = nullptr;
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
};

struct ProgramLane {
  const Lane* lane = nullptr;
  RuntimeDevice* device = nullptr;
  int64_t num_steps = 0;
  std::vector<ComputeOp> compute;
  std::vector<CopyOp> copies;
  std::vector<ComputeBatch> batches;
  std::vector<Wait> waits;
  std::vector<int32_t> writes;  // plan.variables that ops write
};

// Host memory that differs from step to step.
struct StepBindings {
  absl::Span<const void* const> feeds;  // in plan.feeds order
  absl::Span<void* const> fetches;      // in plan.fetches order; nullptr where no copy comes
  bool record = false;                  // fill StepStats::trace
};

struct ProgramOptions {
  uint64_t seed = 0;
  ParallelRunner* parallel = nullptr;
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

  // Resolves addresses against these bases (one arena per plan device). Not during a step.
  void Bind(absl::Span<void* const> arenas, void* pool);
  // How often Bind has been called: an engine that keeps addresses must take new ones when this has changed.
  int64_t binding() const { return binding_; }

  const ExecutionPlan& plan() const { return *plan_; }
  const std::vector<ProgramLane>& lanes() const { return lanes_; }
  VariableState& variable_state() const { return variable_state_; }
  Variable& variable(int32_t index) const { return *variables_[index]; }
  // Base of the host pool that addresses were resolved against.
  void* pool() const { return pool_; }
  // Shape that the last step gave fetch i: smaller than its type where an op's output is only bounded.
  const Shape& fetch_shape(int32_t fetch) const;
  // Before a step.
  void ResetFetchShapes();

 private:
  Program() = default;
  absl::Status AddComputeLane(int32_t lane, KernelCache& kernels, VariableStore& variables,
                              const ProgramOptions& options);
  absl::Status AddComputeOp(ProgramLane& out, const ComputeStep& step, KernelCache& kernels,
                            VariableStore& variables, const ProgramOptions& options);
  absl::Status AddCopyLane(int32_t lane);
  void FindFetchShapes();
  static std::pair<int64_t, int32_t> LastWriter(const Lane& lane, int64_t position, int64_t offset);
  void BindCompute(ProgramLane& lane, char* arena);

  std::shared_ptr<const ExecutionPlan> plan_;
  std::vector<ProgramLane> lanes_;
  int64_t binding_ = 0;
  mutable VariableState variable_state_;
  std::vector<Variable*> variables_;                    // as plan.variables
  void* pool_ = nullptr;
  std::vector<std::shared_ptr<const Kernel>> kernels_;  // keeps them alive
  // Pointer arrays that contexts refer to: inputs then outputs of op after op, per lane.
  std::vector<std::vector<void*>> pointers_;
  std::vector<std::vector<const bool*>> flags_;
  struct OutputShapes {
    const OpInstance* instance = nullptr;
    std::vector<Shape> shapes;
  };
  std::vector<OutputShapes> output_shapes_;  // of the steps that make fetched tensors
  struct FetchShape {
    const Shape* measured = nullptr;  // in output_shapes_
    const Shape* planned = nullptr;
  };
  std::vector<FetchShape> fetch_shapes_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_PROGRAM_H_
