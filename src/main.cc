// The program. All gflags of the project are here; commands get them as plain data (src/cli/options.h).
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"
#include "cli/outputs.h"
#include "millrace/import.h"
#include "millrace/onnx.h"
#include "millrace/plan_file.h"
#include "millrace/session.h"
#include "millrace/status.h"

// Input.
DEFINE_string(graph, "", "GraphDef or MetaGraphDef, binary or text");
DEFINE_string(saved_model, "", "folder of a TensorFlow SavedModel, its variables restored from its checkpoint");
DEFINE_string(signature, "", "of the SavedModel; feeds and fetches are its inputs and outputs by key");
DEFINE_string(checkpoint_in, "",
              "start from the variables and mutable tables of this checkpoint, PREFIX of PREFIX.index, by the names that --checkpoint_out gives them");
DEFINE_string(onnx, "", "ONNX model; feeds and fetches are its inputs and tensors by name (all outputs without --fetches)");
DEFINE_bool(train, false, "ONNX: add a loss, gradients and an optimizer, and run them every step");
DEFINE_string(loss, "", "ONNX: what --train minimises: a scalar output, mean:NAME, cross_entropy:LOGITS:LABELS[:AXIS], "
                        "mse:NAME:TARGET, sum:NAME, weighted_sum:NAME:WEIGHTS, or several, separated by commas; not given: the first fetch");
DEFINE_string(feeds, "", ".npz with an array per placeholder, named without :0; numbers of other types are converted, but for ONNX inputs that "
                         "sizes follow from; strings are of type S, or, but for ONNX inputs, their bytes (uint8) beside NAME/row_splits; "
                         "every step gets the same");
DEFINE_bool(synthetic_feeds, false, "fill placeholders of a known shape from --seed (those not in --feeds)");
DEFINE_string(feed_shapes, "", "shapes for --synthetic_feeds: images:8x224x224x3,labels:8");
DEFINE_string(fetches, "", "tensors to fetch every step: loss:0,logits:0; the first scalar one is the loss");
DEFINE_string(targets, "", "nodes to run every step for their effect: train");
DEFINE_string(init_targets, "", "nodes to run once before the first step: init; a SavedModel gets its values afterwards");
DEFINE_int64(steps, 1, "training steps");
DEFINE_uint64(seed, 0, "of synthetic feeds and of random operations without seeds of their own; model: of its initial values and random operations");
// Engine.
DEFINE_string(device, "cpu", "cpu; cuda; null: plans and simulates only, by cost rules; cuda_emulated: for tests. Commands that only plan take scratch from the CPU's kernels, unless this is another device or a --machine is given");
DEFINE_string(devices, "", "devices of the graph: cpu:0,cpu:1, or how many of --device; not given: one. model: how many it is spread over");
DEFINE_string(device_memory, "", "hard budget of each device: 12GiB, or 50% of baseline's predicted peak, or 12GiB,8GiB one by one; not given: the --machine's; none: no limit");
DEFINE_string(host_memory, "", "hard budget of host memory for variables, constants and swapped tensors; not given: the --machine's; none: no limit");
DEFINE_string(machine, "", "rates to plan for, and memory, the budget where no flag says it: configs/machines/NAME.pbtxt");
DEFINE_double(link_gbps, 0, "cpu: slow copies to this many GB/s each way; 0: as fast as memory copies");
DEFINE_string(cuda_graph, "auto", "cuda: replay steps as a graph: auto, on (an error where it cannot), off");
DEFINE_bool(tf32, false, "cuda: round inputs of float32 products and convolutions to TF32");
DEFINE_bool(measure_convolutions, false, "cuda: choose cuDNN's engines for convolutions by measuring them when planning");
DEFINE_double(device_timeout, millrace::SessionOptions().device_timeout_seconds,
              "cuda: seconds after which a device that has not finished what it was given counts as lost, an error; 0: no limit");
DEFINE_string(disk, "", "folder for what --host_memory has no room for; beside it updates are whole and variables that stay on a device do not leave it in mid-step, so steps are "
                        "shorter without it where host memory is enough; not given: no disk tier");
DEFINE_double(disk_gbps, 0, "slow the disk to this many GB/s each way; 0: as fast as it is");
DEFINE_string(replan, "auto", "plan again with measured times after some steps: auto (beside the steps), wait (between two), off");
DEFINE_string(profile_in, "", "plan with the times that an earlier run wrote with --profile_out");
DEFINE_int32(threads, 0, "threads of the kernels; 0: one per core");
// Strategy and its parts.
DEFINE_string(strategy, "", "how to fit the budget");
DEFINE_string(strategies, "", "what to compare or sweep, separated by commas, out of");
DEFINE_int64(partition_size, 0, "nodes per device and partition: tensorflowmem cuts its depth-first order so, planned the order that it finds; 0: the "
             "strategy's choice");
DEFINE_int64(swap_distance, 2, "tensorflowmem: swap tensors whose producer and consumer are more than this many partitions apart");
DEFINE_string(min_swap_bytes, "0", "tensorflowmem: keep smaller tensors on the device");
DEFINE_string(recompute, "auto", "planned: compute swapped values again instead: off, on, or auto (where the step gets shorter)");
DEFINE_double(plan_seconds, 0, "seconds that planning may take, the passes before the search, writing the plan down and verifying it included: the search ends early enough, as far as the passes before it tell; the first plan is always finished, at least about 8 us a node, 8 s for a million; where --host_memory holds no plan found within it, others are made without this limit; 0: no limit, the same plan everywhere");
DEFINE_bool(share_recv, false, "what several nodes of a device use is received from another device once, not once per use (planned always does)");
DEFINE_bool(accumulate_products, true, "add up sums of matrix products (gradients of a weight used in every time step) as the "
            "products are made, instead of keeping them for the sum, and reduce what sums of reductions take at once; results "
            "differ from the separate sums in rounding");
DEFINE_string(update_parts, "auto", "planned: optimizers (Apply*, or elementwise ops one by one) update large variables part by part, each with a part of the slots: off, "
                                   "parts of about a size (256 of a variable at most), or auto (where slots fill much of the budget); whole with --disk or without a --device_memory; results have the same bits either way");
DEFINE_int64(max_unrolled_nodes, 1'000'000, "loops are planned as their turns; refuse a graph that has more nodes or turns then");
DEFINE_string(fuse, "auto", "run groups of elementwise ops with reductions of what they compute, products with their bias, convolutions with their padding and bias, and "
                            "batch norms with their Relu, as one node: off, on, auto (on CUDA devices); results have the same bits either way, but for convolutions, whose sums "
                            "may be cut otherwise without a Pad, and those products and convolutions on CUDA devices, which round a bias "
                            "with the sum");
DEFINE_string(channels_first, "auto", "turn regions of float32 convolutions and what lies between them around to channels first where that saves "
                                      "copies: off, on, auto (on CUDA devices without --tf32); results differ in the rounding of sums over space");
DEFINE_string(pack_rows, "auto", "products of few rows with the same weight, in every time step, and what follows them row by row, run as nodes "
                                 "over the rows of many steps: off, on, auto (on CUDA devices); results differ in the rounding of products");
DEFINE_string(parts, "placement,swap", "tensorflowmem: parts beside the partitions: placement (variables and constants in host memory), swap (of activations), both, or none");
DEFINE_bool(early_start, true, "tensorflowmem: compute of the next partition may start while copies of this one still run");
DEFINE_double(occupancy_threshold, 0.7, "reactive: part of the device memory above which the oldest saved activations leave");
DEFINE_int64(swapout_threshold, -1, "tflms: swap tensors for consumers more than this many levels below their producer; -1: tuned");
DEFINE_int64(swapin_ahead, -1, "tflms: levels above its consumer at which a copy back begins; -1: tuned");
DEFINE_int64(swapin_groupby, -1, "tflms: consumers at most this many levels apart share a copy back; -1: tuned");
DEFINE_int32(sync_mode, 0, "tflms: compute waits for 0 no copies, 1 copies out, 2 copies in, 3 both; the tuner takes a later one where nothing else fits");
DEFINE_string(serialization, "", "tflms: levels whose operations run one after another, as Python slices: 1,5,7:9,:3,100:");
DEFINE_string(serialization_by_size, "0", "tflms: serialise levels whose operations hold more than this");
DEFINE_double(memory_ratio, 0.9, "tflms: part of the device memory beside variables that the tuner fills");
DEFINE_string(exclude_outputs, "", "tflms: do not swap what these nodes make: name prefixes and type:OP, separated by commas");
DEFINE_string(exclude_inputs, "", "tflms: do not swap for these consumers");
DEFINE_string(include_outputs, "", "tflms: swap only what these nodes make");
DEFINE_string(include_inputs, "", "tflms: swap only for these consumers");
DEFINE_bool(tflms_debug, false, "tflms: tell the operations and bytes of every level");
// Output.
DEFINE_string(report_out, "", "figures as JSON");
DEFINE_string(trace_out, "", "Chrome trace of the last step (opens in Perfetto)");
DEFINE_string(plot_out, "", "picture, .svg or .png");
DEFINE_string(html_out, "", "page to look around in: timeline, memory map, the life of every tensor");
DEFINE_string(variables_out, "", ".npz of every variable after the last step");
DEFINE_string(fetches_out, "", ".npz of the last step's fetches");
DEFINE_string(checkpoint_out, "",
              "checkpoint of every variable and mutable table after the last step, for TensorFlow or --checkpoint_in, under the names that the saver "
              "of a SavedModel or MetaGraphDef has; it also holds how far random ops have come, which TensorFlow passes over");
DEFINE_string(profile_out, "", "measured times of nodes and links, as text, for --profile_in; it takes 8 steps or more, 10 where steps are replayed as a graph");
// Of single commands.
DEFINE_string(partition_sizes, "", "sweep: sizes, separated by commas");
DEFINE_string(budgets, "", "sweep: device memory budgets as --device_memory takes them, sizes or percentages, separated by commas: 40%,2GiB");
DEFINE_string(csv_out, "", "sweep: the table; stdout when not given");
DEFINE_string(plan_in, "", "run this plan, made by --plan_out=F.pb or .pbtxt, instead of making one; a step with other values than a plan depends on is refused");
DEFINE_string(plan_out, "", "the plan: .pb or .pbtxt for --plan_in (with the values of feeds and the results of the step that it depends on, if any), else text with a line per step");
DEFINE_string(vary, "batch", "fit: what to search: budget, batch, or of a model that has it, depth, image_size, steps_unrolled or layers (millrace model --help)");
DEFINE_bool(measure, false, "machine: measure kernels and copies of the device here");
DEFINE_bool(ops, false, "inspect: list the supported operations");
DEFINE_string(out, "", "export, machine, model: the file to write");
// Sizes of generated models; 0 and "" are the model's own.
DEFINE_int64(batch, 0, "model: examples a step");
DEFINE_int64(depth, 0, "model: layers with weights");
DEFINE_int64(image_size, 0, "model: height, width and depth of the input");
DEFINE_int64(classes, 0, "model: classes");
DEFINE_int64(layers, 0, "model: recurrent, transformer or dense layers");
DEFINE_int64(hidden, 0, "model: units of a layer");
DEFINE_int64(heads, 0, "model: attention heads");
DEFINE_int64(steps_unrolled, 0, "model: time steps, sequence length");
DEFINE_int64(vocab, 0, "model: words");
DEFINE_int64(experts, 0, "model: experts of a mixture");
DEFINE_double(dropout, -1, "model: rate of dropout");
DEFINE_int64(channels, 0, "model: channels of the first level");
DEFINE_int64(levels, 0, "model: levels of resolution");
DEFINE_string(variant, "", "model: form of the network");
DEFINE_string(precision, "", "model: float32, or bfloat16 or float16 for activations and products, with weights, statistics and losses in float32");
DEFINE_string(optimizer, "", "model, --train: sgd, momentum, adam, adamw, rmsprop or adagrad; not given: the model's, sgd of --train");
DEFINE_double(learning_rate, 0, "model, --train: of the optimizer; 0: the model's, 0.01 of --train");
DEFINE_double(weight_decay, -1, "model, --train: of the optimizer; -1: the model's, 0 of --train");

namespace millrace::cli {
namespace {

// "a, b" is a and b: no name begins or ends with a space.
std::vector<std::string> List(const std::string& text) {
  std::vector<std::string> list = absl::StrSplit(text, ',', absl::SkipWhitespace());
  for (std::string& each : list) absl::StripAsciiWhitespace(&each);
  return list;
}

// gflags' own parser ends the process with status 1; the one of src/cli/command_line.h reports like everything else.
class Gflags final : public FlagRegistry {
 public:
  std::optional<Flag> Find(const std::string& name) const override {
    gflags::CommandLineFlagInfo info;
    // The library's own, which its parser would act on, would be taken without a word.
    const bool of_library = absl::StartsWith(name, "help") || name == "version" || name == "fromenv" || name == "tryfromenv" ||
                            name == "undefok" || absl::StartsWith(name, "tab_completion") || name == "flagfile";
    if (of_library || !gflags::GetCommandLineFlagInfo(name.c_str(), &info)) return std::nullopt;
    return Flag{info.type, info.default_value, info.description};
  }
  bool Set(const std::string& name, const std::string& value) override {
    return !gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty();
  }
  std::string Value(const std::string& name) const override {
    std::string value;
    gflags::GetCommandLineOption(name.c_str(), &value);
    return value;
  }
};

InputOptions InputFromFlags() {
  return {.graph = FLAGS_graph,
          .saved_model = FLAGS_saved_model,
          .signature = FLAGS_signature,
          .checkpoint_in = FLAGS_checkpoint_in,
          .onnx = FLAGS_onnx,
          .train = FLAGS_train,
          .loss = FLAGS_loss,
          .optimizer = FLAGS_optimizer,
          .learning_rate = FLAGS_learning_rate,
          .weight_decay = FLAGS_weight_decay,
          .feeds = FLAGS_feeds,
          .synthetic_feeds = FLAGS_synthetic_feeds,
          .feed_shapes = FLAGS_feed_shapes,
          .fetches = List(FLAGS_fetches),
          .targets = List(FLAGS_targets),
          .init_targets = List(FLAGS_init_targets),
          .steps = FLAGS_steps,
          .seed = FLAGS_seed,
          .plan_in = FLAGS_plan_in};
}

EngineOptions EngineFromFlags() {
  return {.device = FLAGS_device,
          .devices = FLAGS_devices,
          .machine = FLAGS_machine,
          .device_memory = FLAGS_device_memory,
          .host_memory = FLAGS_host_memory,
          .link_gbps = FLAGS_link_gbps,
          .disk = FLAGS_disk,
          .disk_gbps = FLAGS_disk_gbps,
          .threads = FLAGS_threads,
          .replan = FLAGS_replan,
          .profile_in = FLAGS_profile_in,
          .cuda_graph = FLAGS_cuda_graph,
          .tf32 = FLAGS_tf32,
          .measure_convolutions = FLAGS_measure_convolutions,
          .device_timeout = FLAGS_device_timeout};
}

StrategyOptions StrategyFromFlags() {
  return {.strategy = FLAGS_strategy,
          .strategies = List(FLAGS_strategies),
          .partition_size = FLAGS_partition_size,
          .swap_distance = FLAGS_swap_distance,
          .min_swap_bytes = FLAGS_min_swap_bytes,
          .recompute = FLAGS_recompute,
          .plan_seconds = FLAGS_plan_seconds,
          .share_recv = FLAGS_share_recv,
          .fuse = FLAGS_fuse,
          .channels_first = FLAGS_channels_first,
          .pack_rows = FLAGS_pack_rows,
          .accumulate_products = FLAGS_accumulate_products,
          .update_parts = FLAGS_update_parts,
          .max_unrolled_nodes = FLAGS_max_unrolled_nodes,
          .parts = List(FLAGS_parts),
          .early_start = FLAGS_early_start,
          .occupancy_threshold = FLAGS_occupancy_threshold,
          .tflms = {.swapout_threshold = FLAGS_swapout_threshold,
                    .swapin_ahead = FLAGS_swapin_ahead,
                    .swapin_groupby = FLAGS_swapin_groupby,
                    .sync_mode = FLAGS_sync_mode,
                    .serialization = List(FLAGS_serialization),
                    .memory_ratio = FLAGS_memory_ratio,
                    .debug = FLAGS_tflms_debug},
          .serialization_by_size = FLAGS_serialization_by_size,
          .filters = {.exclude_outputs = List(FLAGS_exclude_outputs),
                      .exclude_inputs = List(FLAGS_exclude_inputs),
                      .include_outputs = List(FLAGS_include_outputs),
                      .include_inputs = List(FLAGS_include_inputs)}};
}

OutputOptions OutputFromFlags() {
  return {.report_out = FLAGS_report_out,
          .trace_out = FLAGS_trace_out,
          .plot_out = FLAGS_plot_out,
          .html_out = FLAGS_html_out,
          .variables_out = FLAGS_variables_out,
          .fetches_out = FLAGS_fetches_out,
          .checkpoint_out = FLAGS_checkpoint_out,
          .profile_out = FLAGS_profile_out};
}

ModelOptions ModelFromFlags() {
  return {.batch = FLAGS_batch,
          .image_size = FLAGS_image_size,
          .classes = FLAGS_classes,
          .depth = FLAGS_depth,
          .layers = FLAGS_layers,
          .hidden = FLAGS_hidden,
          .heads = FLAGS_heads,
          .steps_unrolled = FLAGS_steps_unrolled,
          .vocab = FLAGS_vocab,
          .experts = FLAGS_experts,
          .channels = FLAGS_channels,
          .levels = FLAGS_levels,
          .dropout = FLAGS_dropout,
          .variant = FLAGS_variant,
          .precision = FLAGS_precision,
          .optimizer = FLAGS_optimizer,
          .learning_rate = FLAGS_learning_rate,
          .weight_decay = FLAGS_weight_decay,
          .seed = static_cast<int64_t>(FLAGS_seed)};
}

Options OptionsFromFlags(const std::vector<std::string>& words) {
  Options options;
  options.input = InputFromFlags();
  options.engine = EngineFromFlags();
  options.strategy = StrategyFromFlags();
  options.output = OutputFromFlags();
  options.sweep = {.partition_sizes = List(FLAGS_partition_sizes), .budgets = List(FLAGS_budgets), .csv_out = FLAGS_csv_out};
  options.argument = words.size() > 1 ? words[1] : "";
  options.model = ModelFromFlags();
  options.vary = FLAGS_vary;
  options.out = FLAGS_out;
  options.plan_out = FLAGS_plan_out;
  options.ops = FLAGS_ops;
  options.measure = FLAGS_measure;
  return options;
}

Environment RealEnvironment() {
  Environment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.err_is_terminal = isatty(STDERR_FILENO) != 0;
  environment.interrupted = Interrupted;
  environment.catch_interrupts = CatchInterrupts;
  environment.load_graph = LoadMetaGraph;
  environment.save_graph = SaveGraph;
  environment.load_plan = LoadPlan;
  environment.save_plan = SavePlan;
  environment.load_saved_model = [](const std::string& folder) { return LoadSavedModel(folder); };
  environment.add_bound_keys = AddBoundKeys;
  environment.open_checkpoint_reader = OpenCheckpointReader;
  environment.open_checkpoint = OpenCheckpoint;
  environment.load_arrays = LoadArrays;
  environment.open_arrays = OpenArrays;
  environment.create_session = [](std::shared_ptr<const Graph> graph, SessionOptions options) {
    return Session::Create(std::move(graph), std::move(options));
  };
  return environment;
}

// The strategies that plan for the command; none where it plans nothing, or takes a plan.
std::vector<std::string> ChosenStrategies(const Command& command) {
  const auto takes = [&](std::string_view flag) {
    return std::any_of(command.flags.begin(), command.flags.end(), [&](const char* each) { return flag == each; });
  };
  if (takes("strategies")) return List(FLAGS_strategies);
  if (!takes("strategy") || !FLAGS_plan_in.empty()) return {};
  return {FLAGS_strategy.empty() ? PlanningOptions().strategy : FLAGS_strategy};
}

absl::Status Main(const std::vector<std::string>& argv) {
  Gflags registry;
  MR_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argv, registry));
  const std::vector<std::string>& words = arguments.words;
  if (arguments.version) {
    std::cout << "millrace " << MILLRACE_VERSION << "\n";
    return absl::OkStatus();
  }
  if (words.empty()) {
    if (!arguments.help) return UsageError("no command: millrace --help lists them");
    std::cout << Usage();
    return absl::OkStatus();
  }
  const Command* command = FindCommand(words[0]);
  if (command == nullptr) {
    return UsageError(absl::StrCat("unknown command ", words[0], "; expected one of ",
                                   absl::StrJoin(Commands(), ", ", [](std::string* out, const Command& each) {
                                     out->append(each.name);
                                   }), "; millrace --help says what they do"));
  }
  if (arguments.help) {
    std::cout << CommandUsage(*command, registry);
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(CheckArguments(*command, arguments, registry));
  DropUnusedFlags(*command, arguments, registry);
  WarnOfUselessFlags(*command, arguments, ChosenStrategies(*command), registry);
  Options options = OptionsFromFlags(words);
  options.flag_files = arguments.flag_files;
  MR_RETURN_IF_ERROR(CheckOutputNames(options));
  Environment environment = RealEnvironment();
  // Which files belong to a model is known once it is read; nothing is written by then.
  environment.load_onnx = [&options](const std::string& path, const OnnxOptions& onnx) -> absl::StatusOr<OnnxModel> {
    MR_ASSIGN_OR_RETURN(OnnxModel model, LoadOnnx(path, onnx));
    MR_RETURN_IF_ERROR(CheckOutputNames(options, model.external_files));
    return model;
  };
  return command->run(options, environment);
}

// Files of ours must not take the places of standard streams that are closed, and a reader who left (millrace … | head)
// must not cost the files that are still to be written. Nor must a file that grows past the shell's limit (ulimit -f): the
// write fails then, and says so.
void PrepareStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened the wrong way round: what is written to a closed stream stays an error.
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

// What is thrown below us is mostly memory that the machine does not have: an error like others.
absl::Status MainWithoutExceptions(const std::vector<std::string>& argv) {
  try {
    return Main(argv);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("this machine has no more memory to give");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("an exception: ", error.what()));
  }
}

absl::Status FlushResults() {
  std::cout.flush();
  if (std::cout.good()) return absl::OkStatus();
  return absl::UnavailableError("cannot write the results to standard output: it is closed or full");
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  millrace::cli::PrepareStandardStreams();
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  absl::Status status = millrace::cli::MainWithoutExceptions(std::vector<std::string>(argv + 1, argv + argc));
  status.Update(millrace::cli::FlushResults());
  const int exit_status = millrace::cli::ExitStatus(status);
  if (exit_status == millrace::cli::kExitUsage) {
    std::cerr << "millrace: " << status.message() << "\n";
  } else if (!status.ok()) {
    std::cerr << "millrace: " << status.ToString(absl::StatusToStringMode::kWithNoExtraData) << "\n";
  }
  return exit_status;
}
