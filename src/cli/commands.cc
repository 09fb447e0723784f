#include "cli/commands.h"

namespace millrace::cli {
namespace {

using Flags = std::vector<const char*>;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Flags& EngineFlags() {
  static const auto* const flags = new Flags{
      "device", "devices", "device_memory", "host_memory", "machine", "link_gbps", "disk", "disk_gbps",
      "threads", "replan", "profile_in", "cuda_graph", "tf32",
      "measure_convolutions", "device_timeout"};
  return *flags;
}

// What is planned for, where nothing runs.
const Flags& MachineFlags() {
  static const auto* const flags = new Flags{"device", "devices", "device_memory", "host_memory", "machine", "link_gbps", "disk", "disk_gbps", "profile_in"};
  return *flags;
}

// Of strategies, but for the partition size, which a sweep varies.
const Flags& PolicyFlags() {
  static const auto* const flags = new Flags{
      "swap_distance", "parts", "early_start", "min_swap_bytes", "recompute", "plan_seconds", "share_recv", "fuse", "channels_first",
      "pack_rows", "accumulate_products", "update_parts", "max_unrolled_nodes",
      "occupancy_threshold", "swapout_threshold", "swapin_ahead", "swapin_groupby",
      "sync_mode", "serialization", "serialization_by_size", "memory_ratio",
      "exclude_outputs", "exclude_inputs", "include_outputs", "include_inputs",
      "tflms_debug"};
  return *flags;
}

const Flags& PartFlags() {
  static const auto* const flags = new Flags(Flags{"partition_size"} + PolicyFlags());
  return *flags;
}

// What says which step of which graph.
const Flags& StepFlags() {
  static const auto* const flags = new Flags{
      "graph", "saved_model", "signature", "checkpoint_in", "onnx", "train", "loss", "optimizer", "learning_rate", "weight_decay",
      "feeds", "synthetic_feeds", "feed_shapes", "fetches", "targets", "init_targets"};
  return *flags;
}

const std::vector<Command>& Table() {
  static const Flags pictures = {"report_out", "trace_out", "plot_out", "html_out"};
  static const auto* const table = new std::vector<Command>{
      {"run", "", "trains or runs a graph for --steps and prints what it took", RunCommand,
       InputFlags() + Flags{"steps", "strategy"} + PartFlags() + EngineFlags() + Flags{"plan_in", "plan_out"} + pictures +
           Flags{"variables_out", "fetches_out", "checkpoint_out", "profile_out"},
       "millrace run --graph=F.pb --fetches=loss:0 --targets=train --init_targets=init --synthetic_feeds --steps=10 "
       "--strategy=tensorflowmem --device_memory=50%"},
      {"compare", "", "the same graph and feeds under several strategies: one table, results compared bit by bit",
       CompareCommand, InputFlags() + Flags{"steps", "strategies"} + PartFlags() + EngineFlags() + pictures,
       "millrace compare --strategies=baseline,tensorflowmem,lru --graph=F.pb --fetches=loss:0 --targets=train "
       "--init_targets=init --synthetic_feeds --steps=3 --device_memory=50%"},
      {"sweep", "", "partition sizes x budgets x strategies, as CSV and picture; --device=null plans only", SweepCommand,
       InputFlags() + Flags{"steps", "strategies", "partition_sizes", "budgets", "csv_out"} + PolicyFlags() +
           Flags{"device", "devices", "host_memory", "machine", "link_gbps", "disk", "disk_gbps", "threads", "replan",
                 "profile_in", "report_out", "plot_out"},
       "millrace sweep --strategies=tensorflowmem --partition_sizes=5,20,100 --budgets=40%,60% --graph=F.pb "
       "--fetches=loss:0 --targets=train --init_targets=init --synthetic_feeds --csv_out=sweep.csv --plot_out=sweep.svg",
       "Exit status: 0 also where some rows do not fit their budget (their status is RESOURCE_EXHAUSTED), 3 where none fits."},
      {"plan", "", "plans and simulates, for this CPU or any --machine, and runs nothing", PlanCommand,
       InputFlags() + Flags{"strategy"} + PartFlags() + MachineFlags() + pictures + Flags{"plan_out"},
       "millrace plan --machine=configs/machines/titanx.pbtxt --graph=F.pb --fetches=loss:0 --targets=train "
       "--synthetic_feeds"},
      {"inspect", "", "what a graph holds: nodes, edges, parameters, operations, unsupported ones", InspectCommand,
       StepFlags() + Flags{"devices", "ops", "report_out"},
       "millrace inspect --graph=F.pb"},
      {"export", "", "the graph as the passes rewrote it, for reading, not for running, to --out=F.pb, .pbtxt or .dot", ExportCommand,
       StepFlags() + Flags{"strategy"} + PartFlags() + MachineFlags() + Flags{"out", "report_out"},
       "millrace export --out=rewritten.pbtxt --graph=F.pb --fetches=loss:0 --targets=train --synthetic_feeds "
       "--device_memory=50%"},
      {"explain", "TENSOR", "why a tensor or node is kept, swapped, recomputed or cut where it is", ExplainCommand,
       InputFlags() + Flags{"strategy"} + PartFlags() + MachineFlags() + Flags{"report_out"},
       "millrace explain stage1_block1/conv1/Conv2D:0 --graph=resnet50.pb --fetches=loss:0 --targets=train --synthetic_feeds "
       "--device_memory=50%"},
      {"fit", "[MODEL]", "the largest --vary=batch, depth, image_size, steps_unrolled or layers at a budget, or the smallest --vary=budget",
       FitCommand, Flags{"vary"} + InputFlags() + Flags{"strategy"} + PartFlags() +
           Flags{"device", "device_memory", "host_memory", "machine", "link_gbps", "disk", "disk_gbps", "profile_in", "report_out"} + SizeFlags(),
       "millrace fit resnet --depth=50 --vary=batch --device_memory=12GiB --machine=configs/machines/titanx.pbtxt"},
      {"machine", "", "rates that plans are made for: of a --machine file, or --measure to find this machine's", MachineCommand,
       Flags{"measure", "machine", "device", "link_gbps", "threads", "out", "report_out"}, "millrace machine --measure --out=here.pbtxt"},
      {"model", "NAME", "writes a generated training graph to --out=F.pb, .pbtxt or .dot", ModelCommand,
       Flags{"out"} + SizeFlags() + Flags{"seed", "report_out"},
       "millrace model resnet --depth=50 --batch=8 --image_size=224 --out=resnet50.pb"},
  };
  return *table;
}

}  // namespace

const std::vector<const char*>& InputFlags() {
  static const auto* const flags = new Flags(StepFlags() + Flags{"seed"});
  return *flags;
}

const std::vector<const char*>& SizeFlags() {
  static const auto* const flags = new Flags{
      "batch", "depth", "image_size", "classes", "layers", "hidden", "heads", "steps_unrolled", "vocab",
      "experts", "devices", "channels", "levels", "variant", "precision", "dropout", "optimizer", "learning_rate", "weight_decay"};
  return *flags;
}

const std::vector<const char*>& PlanningFlags() {
  static const auto* const flags = new Flags(Flags{"strategy", "replan", "profile_in"} + PartFlags());
  return *flags;
}

absl::Span<const Command> Commands() { return Table(); }

const Command* FindCommand(std::string_view name) {
  for (const Command& command : Table()) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

}  // namespace millrace::cli
