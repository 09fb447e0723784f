// Options of a Session: strategy and its parts, budgets, device, machine. Each field says what it means, its
// default, and when to touch it. Most flags of the command line have the same names.
#ifndef MILLRACE_OPTIONS_H_
#define MILLRACE_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/types.h"

namespace millrace {

class OpRegistry;
class KernelRegistry;
struct Profile;

// Rates and memory of a machine, for planning; configs/machines/*.pbtxt in memory.
struct Machine {
  std::string name = "cpu";
  int64_t device_memory_bytes = 0;      // of each device: the budget where PlanningOptions name none; 0: unlimited
  int64_t host_memory_bytes = 0;        // the same of host memory
  int64_t tensor_alignment_bytes = kTensorAlignment;  // of addresses on the device; a CUDA device that is there sets it
  double flops_per_second = 100e9;      // float32 multiply-adds count two
  double convolution_flops_per_second = 0;  // the same of convolutions (not of depthwise ones); 0: flops_per_second
  double memory_bytes_per_second = 10e9;
  double to_host_bytes_per_second = 5e9;
  double to_device_bytes_per_second = 5e9;
  double copy_latency_seconds = 2e-6;   // per copy
  double launch_seconds = 0.3e-6;       // per kernel
  double copy_launch_seconds = 0;       // per copy, of the compute lane: nodes and copies await each other; variables: simulator.h
  double disk_bytes_per_second = 1e9;   // each way, of the tier below host memory
  double disk_latency_seconds = 100e-6; // per transfer
};

// Planning again with measured times. The first steps run on cost rules; results do not depend on it.
struct ReplanOptions {
  enum class Mode {
    kOff,
    kAuto,  // planned beside the steps, on a thread of low priority
    kWait,  // planned between two steps: which step is the first of the new plan does not depend on timing
  };
  Mode mode = Mode::kAuto;
  int64_t skipped_steps = 3;    // of a signature, not measured: caches fill, memory is touched for the first time
  // On a device that replays steps as graphs these come before the recorded ones, which it cannot replay: the fastest tells how long a step
  // takes. The first is captured.
  int64_t replayed_steps = 4;
  int64_t measured_steps = 5;   // then recorded; medians of them are what the planner gets
  // The new plan must be this part faster, both simulated with measured times; negative: it may be so much slower.
  double least_gain = 0.005;
  // Steps of a plan after which its times are known; `replays`: by a device that replays them, from the second on.
  int64_t steps_to_measure(bool replays) const {
    return std::max(skipped_steps, replays ? 1 + replayed_steps : 0) + measured_steps;
  }
};

// Parts of strategy `tflms`, after TensorFlow Large Model Support v2 (Le et al., ISMM 2019). Distances are in levels:
// a node's level is the longest path to it. -1: tuned.
struct TflmsOptions {
  // A tensor is swapped for its consumers more than this many levels below its producer. Not 0.
  int64_t swapout_threshold = -1;
  // A copy back may begin once the operations more than this many levels above its first consumer are done. Not 0.
  int64_t swapin_ahead = -1;
  // Consumers of one tensor whose levels are at most this far apart share a copy back; 0: none share.
  int64_t swapin_groupby = -1;
  // 0: copies run beside compute; 1: compute waits for copies out; 2: copies in begin when everything else that
  // their consumer waits for is there; 3: both.
  int32_t sync_mode = 0;
  // Levels whose operations run one after another, each in a level of its own: "7", "3:5", ":3", "100:", "-4:".
  std::vector<std::string> serialization;
  // Levels whose operations together hold more than this are serialised as well; 0: none.
  int64_t serialization_by_size_bytes = 0;
  // Part of the device memory left by variables that the tuner fills.
  double memory_ratio = 0.9;
  // What the notes tell in addition: operations and bytes of every level.
  bool debug = false;
  // Tensors by the operation that makes (output) or takes (input) them: name prefixes and op types. When any include is
  // given, only what it names is swapped.
  struct Filter {
    std::vector<std::string> scopes;
    std::vector<std::string> types;
    bool empty() const { return scopes.empty() && types.empty(); }
  };
  Filter exclude_outputs, exclude_inputs, include_outputs, include_inputs;
};

// Whether swapped values may be computed again instead.
enum class Recompute { kOff, kOn, kAuto };  // auto: where the simulated step is shorter; on: a round of it in any case

// What PlanningOptions::strategy may be; README.md says what each does.
std::vector<std::string> StrategyNames();

struct PlanningOptions {
  // One of StrategyNames(). The other fields override its parts.
  std::string strategy = "planned";
  // Nodes per device and partition; 0: the strategy's default (for tensorflowmem the size that fits the budget
  // with the shortest predicted step).
  int64_t partition_size = 0;
  // Tensors whose producer and consumer are more than this many partitions apart are swapped.
  int64_t swap_distance = 2;
  // Groups of elementwise ops with the reductions of what they compute, products with their bias, convolutions with their padding and
  // bias, and batch norms with their Relu run as one node. The bits are the same but for sums of convolutions without a Pad, and for a
  // bias, which CUDA devices round with the sum. Off: nodes as the graph has them.
  bool fuse = false;
  // Regions of float32 convolutions hold their tensors with the channels first where that saves a device's library copies
  // (passes/rewrite/channels_first.h). Off: layouts as the graph has them.
  bool channels_first = false;
  // Products of few rows with one weight, and what follows them row by row, are nodes over the rows of many
  // (passes/rewrite/pack_rows.h). Off: nodes as the graph has them.
  bool pack_rows = false;
  // Sums of matrix products are added up as the products are made, in creation order: less memory, and the same bits
  // under every strategy. Off: nodes as the graph has them.
  bool accumulate_products = true;
  // Loops are unrolled; a graph with more nodes than this after unrolling is refused.
  int64_t max_unrolled_nodes = 1'000'000;
  // Tensors smaller than this stay on the device; raise it when thousands of tiny copies cost more than they save.
  int64_t min_swap_bytes = 0;
  // Parts of tensorflowmem beside the partitions: variables and constants live in host memory; activations are swapped.
  bool place_variables_on_host = true;
  bool swap_activations = true;
  // And: compute of partition p + 1 may start while copies of partition p still run. Off: it waits for those of its own device.
  bool early_start = true;
  // reactive: part of the device memory above which the oldest saved activations leave.
  double occupancy_threshold = 0.7;
  TflmsOptions tflms;
  // planned: results are the same bits either way.
  Recompute recompute = Recompute::kAuto;
  // planned, with a device budget, no disk tier: optimizers update large variables part by part, each with a part of the slots, of
  // about so many bytes. 0: whole; kAutoBytes: a part of the budget, where slots fill much of it.
  static constexpr int64_t kAutoBytes = -1;
  int64_t update_part_bytes = kAutoBytes;
  // planned: seconds for all of planning, as near as can be told; where host_memory_bytes holds no plan found within it, others are made
  // without this limit. 0: no limit, and the same plan on every machine.
  double plan_seconds = 0;
  // Of the budgets below: no limit, whatever the machine has.
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // Most bytes the device may hold at any instant, scratch included; 0: what SessionOptions::machine has, which by default is no limit.
  int64_t device_memory_bytes = 0;
  // Most bytes of host memory for variables, constants and swapped tensors; 0: the machine's, too.
  int64_t host_memory_bytes = 0;
  // Names of the devices that the graph is placed on, "cpu:0"; empty: one, named after the machine.
  std::vector<std::string> devices;
  // Budget of each device, in their order; empty: device_memory_bytes for every one of them.
  std::vector<int64_t> device_memory_bytes_of;
  // A tensor that several nodes of another device use is received there once; otherwise once per use. `planned` has it received once.
  bool share_recv = false;

  int32_t num_devices() const { return devices.empty() ? 1 : static_cast<int32_t>(devices.size()); }
  // What is given of it; 0: nothing, or that there is no limit.
  int64_t BudgetOf(int32_t device) const {
    const int64_t bytes = device_memory_bytes_of.empty() ? device_memory_bytes : device_memory_bytes_of[device];
    return bytes == kNoLimit ? 0 : bytes;
  }
};

struct SessionOptions {
  PlanningOptions planning;
  Machine machine;
  std::string device = "cpu";  // cpu, cuda, null (plans and simulates only), cuda_emulated (tests)
  // cuda: steps captured as a graph and replayed. "auto": where nothing in a step depends on the host; "on": an error
  // where that is not possible; "off".
  std::string cuda_graph = "auto";
  bool on_cuda() const { return device == "cuda" || device == "cuda_emulated"; }
  bool replays_steps() const { return on_cuda() && cuda_graph != "off"; }
  // cuda: convolutions try their deterministic algorithms when they are planned and keep the fastest, which the plan
  // records; two runs that measure apart may choose, and round, differently. Else cuDNN's own ranking decides.
  bool measure_convolutions = false;
  // cuda: a device that does not finish what it was given within so long counts as lost (Unavailable); 0: no limit.
  // Lower it where the longest step is known and somebody waits for the error.
  double device_timeout_seconds = 1800;
  bool tf32 = false;           // cuda: products and convolutions of float32 may round their inputs to TF32
  // Of kernels; 0: one per core. Sessions of one process share its workers, of which there are as many as cores: more where a session asks
  // for more threads than that, and then as many as the smallest of such numbers. Results do not depend on it.
  int threads = 0;
  uint64_t seed = 0;           // for random ops that have none of their own
  double link_gbps = 0;        // cpu: slows copies to this many GB/s each way; 0: as fast as memory copies
  bool trace = false;          // record when every step ran (report.h)
  ReplanOptions replan;
  std::shared_ptr<const Profile> profile;  // measured times of an earlier run to plan with (profile.h)
  // Folder for what the budget of host memory (planning's, else the machine's) has no room for, an error without one; empty: there is no disk tier.
  std::string disk;
  double disk_gbps = 0;        // slows the disk to this many GB/s each way; 0: as fast as it is
  // Called on the planning thread whenever a pass begins, with its name: planning large graphs takes seconds. What this
  // or `cancelled` throws ends planning with Internal; nothing has run then.
  std::function<void(const std::string& pass)> planning_progress;
  // Asked now and then by any thread that plans: true ends planning with Cancelled. A step that has begun is not cancelled.
  std::function<bool()> cancelled;
  // nullptr: the built-in ops and kernels. Ops of one's own are added to a copy of OpRegistry::Builtin(), whose ops plans are made of.
  std::shared_ptr<const OpRegistry> ops;
  std::shared_ptr<const KernelRegistry> kernels;
};

// Reads configs/machines/*.pbtxt. Errors name the file and the line or field.
absl::StatusOr<Machine> LoadMachine(const std::string& path);

// "12GiB", "512MB", "1000000" -> bytes. InvalidArgument for negative, absurd (over 2^60) or malformed sizes.
absl::StatusOr<int64_t> ParseSize(const std::string& text);
// "1.50 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace millrace

#endif  // MILLRACE_OPTIONS_H_
