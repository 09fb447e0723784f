// The execution plan: what the passes decided, as plain data. It is all that crosses from the passes to the
// runtime; the same graph, machine and options give the same bytes.
//
// Form: a few in-order lanes per device. A step starts when the steps before it on its lane are done and the
// counters it names have been reached; every byte it touches has an address already.
//
//   compute    | f1 | f2 | f3 |loss|f3' |    |f2' |
//   to-host    |    | a> |    |    |    |    |           a> waits for compute >= 1
//   to-device  |    |    |    |    |    | a< |           a< waits for compute >= 5 (room) and to-host >= 1 (data)
//
// All steps lie in one total order (`position`) and every wait points to an earlier position,
// so a plan cannot deadlock. An address is reused only after a wait for the end of its previous owner.
#ifndef MILLRACE_PLAN_H_
#define MILLRACE_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "millrace/copy_on_write.h"
#include "millrace/op.h"
#include "millrace/tensor.h"
#include "millrace/types.h"

namespace millrace {

// The last two lie below host memory, in plans with a disk tier (ExecutionPlan::tiered); all devices share them.
enum class LaneKind { kCompute, kToHost, kToDevice, kToDisk, kFromDisk };
std::string_view LaneKindName(LaneKind kind);

// "lane `lane` has completed at least `count` steps of this training step".
struct Wait {
  int32_t lane = 0;
  int64_t count = 0;
};

// Plans have millions of steps: what most of them hold of these lies in the step itself.
using StepWaits = absl::InlinedVector<Wait, 1>;
using StepOffsets = absl::InlinedVector<int64_t, 2>;
using StepIndices = absl::InlinedVector<int32_t, 4>;
using RareIndices = SharedVector<int32_t>;  // of few steps: a pointer in the others

// Where the host side of a copy is.
struct HostRef {
  enum class Kind { kPool, kVariable, kConstant, kFeed, kFetch };
  Kind kind = Kind::kPool;
  int32_t index = 0;         // into plan.variables / constants / feeds / fetches
  // kPool: offset in the host pool of swapped tensors. kVariable in a tiered plan: where its value is in that pool.
  int64_t offset_bytes = 0;
};

// Where the disk side of a copy is: a variable's home, or scratch room of the plan.
struct DiskRef {
  int32_t variable = -1;     // into plan.variables
  int64_t offset_bytes = 0;  // of scratch, when there is no variable
};

// One kernel run.
struct ComputeStep {
  int32_t instance = 0;  // into plan.instances
  int32_t partition = 0;
  int32_t group = 0;     // consecutive steps of equal group are independent and may run at once
  // The variables it writes are written whole, without reading what they held (VariableAccess::kWrite).
  bool overwrites_variables = false;
  bool is_view = false;  // of dynamic shapes: computes the shape of its output and nothing else, the memory is the input's
  int64_t position = 0;
  // Offsets in the device arena; kNoAddress for empty tensors and for inputs that the kernel knows by value.
  StepOffsets inputs;
  StepOffsets outputs;
  // Whose memory each of them is, into plan.tensors; -1 without an address. Empty: unknown, which the verifier then
  // cannot check. Views and in-place outputs have the owner of the memory they share; a variable's owner is itself.
  StepIndices input_owners;
  StepIndices output_owners;
  int64_t scratch_offset = 0;
  int64_t scratch_bytes = 0;
  StepWaits waits;
  // Variables that this step writes, and those among its inputs (index or -1 per input), into plan.variables.
  RareIndices writes_variables;
  RareIndices input_variables;
  int64_t state_bytes = 0;  // OpDef::state_bytes
  double predicted_seconds = 0;
  // Of a node whose shapes are known only when it runs; all empty or zero for others. Per input and output: its
  // entry in plan.dynamic_tensors, or -1 for one that has the planned shape. The types of the instance are bounds.
  RareIndices input_shapes;
  RareIndices output_shapes;
  uint64_t run_time_values = 0;  // bit i: input i is read when the step runs, and given to shape rule and kernel
  bool is_dynamic() const { return !input_shapes.empty() || !output_shapes.empty(); }
};
inline constexpr int64_t kNoAddress = -1;

// One copy between host and device memory, or between host memory and disk.
struct CopyStep {
  std::string name;    // of the SwapOut, SwapIn, Send, Recv, _Feed or _Fetch node; to and from disk: TENSOR/to_disk, TENSOR/from_disk
  SharedText tensor;   // what is moved, "name:0": the owner's name in plan.tensors
  SharedText reason;
  int64_t bytes = 0;
  int64_t device_offset = 0;  // not of disk lanes
  HostRef host;
  DiskRef disk;               // of disk lanes
  int32_t partition = 0;
  int64_t position = 0;
  StepWaits waits;
  int32_t writes_variable = -1;  // the copy after which the variable's home (or its place for good) is newer
  double predicted_seconds = 0;
};

struct Lane {
  LaneKind kind = LaneKind::kCompute;
  int32_t device = 0;
  std::vector<ComputeStep> compute;  // of a compute lane
  std::vector<CopyStep> copies;      // of the others
  int64_t num_steps() const {
    return static_cast<int64_t>(kind == LaneKind::kCompute ? compute.size() : copies.size());
  }
};

// One stay of a tensor in device memory: [first, last] positions it is live over, and its address.
struct Residence {
  enum class Kind { kActivation, kVariable, kConstant, kFeed, kScratch };
  SharedText tensor;
  Kind kind = Kind::kActivation;
  int32_t device = 0;
  int64_t bytes = 0;
  int64_t offset = 0;
  int64_t first = 0;
  int64_t last = 0;
  SharedText reason;  // why it stays, leaves or comes back
};

struct PlanVariable {
  std::string name;        // shared_name, or else the node's; "container:" comes before it
  TensorType type;
  int32_t device = 0;
  int64_t resident_offset = kNoAddress;  // address in the arena when it lives on the device
  int64_t host_offset = kNoAddress;      // address in the host pool when it lives there (tiered plans)
  bool read_before_write = false;        // needs a value when the step starts
  bool written = false;
  std::string first_reader;              // node named when it has none; empty: it may have none, nobody takes it then
  // Of a part of a variable: its name and type, and where in its home the part begins, in bytes. `whole` is empty otherwise.
  std::string whole;
  TensorType whole_type;
  int64_t home_offset = 0;
  const std::string& home_name() const { return whole.empty() ? name : whole; }
  const TensorType& home_type() const { return whole.empty() ? type : whole_type; }
};

struct PlanConstant {
  std::string name;
  Tensor value;
  int32_t device = 0;
  int64_t resident_offset = kNoAddress;
};

struct PlanFeed {
  std::string name;
  TensorType type;
};

struct PlanFetch {
  std::string name;  // "loss:0"
  TensorType type;
  // Known when planning (a folded constant): no copy runs.
  Tensor value;
  // Into plan.dynamic_tensors when the type is a bound, else -1.
  int32_t shape = -1;
};

struct PlanDevice {
  std::string name;  // "cpu:0"
  int64_t budget_bytes = 0;      // 0: none given
  int64_t arena_bytes = 0;       // addresses run over [0, arena_bytes)
  int64_t peak_live_bytes = 0;   // most bytes live at one position (<= arena_bytes: what packing costs)
  int32_t num_partitions = 0;
};

struct PlanCounts {
  int64_t swap_outs = 0;
  int64_t swap_ins = 0;
  int64_t recomputed_nodes = 0;
  int64_t sends = 0;  // copies to the host for another device
  int64_t recvs = 0;  // copies of what another device sent; what leaves and comes back counts as a swap
  int64_t nodes = 0;  // of the pruned graph
};

struct ExecutionPlan {
  std::string strategy;
  uint64_t graph_fingerprint = 0;    // of the graph that it is of; 0: not known (files of before)
  std::vector<std::string> targets;  // that it runs beside what is fetched, as asked for
  // The values that it is for, and no others: of feeds by tensor name, and of what the step itself computes by the name of the
  // question (iterations of loops, sizes, sides of conditionals). Empty: it is for all.
  std::map<std::string, Tensor> feed_values;
  std::map<std::string, Tensor> answers;
  int64_t partition_size = 0;  // 0: not cut by count
  std::vector<PlanDevice> devices;
  std::vector<OpInstance> instances;
  // Owners of device memory: names of tensors ("node:0") and variables, as in CopyStep and Residence.
  std::vector<SharedText> tensors;
  // Names of the tensors whose shape is known only when running, "node:0".
  std::vector<std::string> dynamic_tensors;
  std::vector<Lane> lanes;
  std::vector<PlanVariable> variables;
  std::vector<PlanConstant> constants;
  std::vector<PlanFeed> feeds;
  std::vector<PlanFetch> fetches;
  std::vector<Residence> residences;  // by device and first position
  int64_t host_pool_bytes = 0;        // of swapped tensors; in tiered plans, of variables in host memory, too
  int64_t host_bytes = 0;             // pool, variables and constants; in tiered plans pool and constants
  // Homes of variables are on disk. What the host pool holds is planned as the devices' arenas are.
  bool tiered = false;
  int64_t host_budget_bytes = 0;      // 0: none given
  int64_t disk_scratch_bytes = 0;     // of swapped tensors that leave host memory
  int64_t bytes_to_disk = 0;          // per step
  int64_t bytes_from_disk = 0;
  PlanCounts counts;
  std::vector<std::string> notes;     // what the strategy tells of its decisions, a line each

  // What the simulator predicts of one training step.
  double predicted_step_seconds = 0;
  double predicted_compute_seconds = 0;
  double lower_bound_seconds = 0;
  int64_t bytes_to_host = 0;
  int64_t bytes_to_device = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PLAN_H_
