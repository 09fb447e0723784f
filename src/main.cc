// The program. All gflags of the project are here; commands get them as plain data (src/cli/options.h).
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/outputs.h"
#include "millrace/import.h"
#include "millrace/onnx.h"
#include "millrace/plan_file.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "session/cpu_check.h"

// Input.
DEFINE_string(graph, "", "GraphDef or MetaGraphDef file, binary or text");
DEFINE_string(saved_model, "", "folder of a TensorFlow SavedModel; its variables are restored from its checkpoint");
DEFINE_string(signature, "", "signature of the SavedModel; feeds and fetches are its inputs and outputs by key. Not given: the only one, or serving_default");
DEFINE_string(checkpoint_in, "",
              "start from the variables and mutable tables of this checkpoint: PREFIX of PREFIX.index, or a file of TensorFlow's format V1. "
              "Names are those that --checkpoint_out writes");
DEFINE_string(onnx, "", "ONNX model; feeds and fetches are its inputs and tensors by name (all outputs without --fetches)");
DEFINE_bool(train, false, "ONNX: add a loss, gradients and an optimizer, and run them every step");
DEFINE_string(loss, "", "ONNX: what --train minimises: a scalar output, mean:NAME, cross_entropy:LOGITS:LABELS[:AXIS], "
                        "mse:NAME:TARGET, sum:NAME, weighted_sum:NAME:WEIGHTS, or several, separated by commas. Not given: the first fetch");
DEFINE_string(feeds, "", ".npz file with an array per placeholder, named without :0; every step gets the same. Numbers are converted to the placeholder's "
                         "type, except for ONNX inputs that sizes depend on. Strings have dtype S, or, except for ONNX inputs, are given as their bytes "
                         "(uint8) with an array NAME/row_splits");
DEFINE_bool(synthetic_feeds, false, "fill the placeholders that --feeds does not give with values from --seed; their shapes must be known");
DEFINE_string(feed_shapes, "", "shapes for --synthetic_feeds: images:8x224x224x3,labels:8");
DEFINE_string(fetches, "", "tensors to fetch every step: loss:0,logits:0. The first scalar one is the loss");
DEFINE_string(targets, "", "nodes to run every step for their effect: train");
DEFINE_string(init_targets, "", "nodes to run once before the first step: init. The values of a SavedModel or checkpoint are restored after them");
DEFINE_int64(steps, 1, "training steps");
DEFINE_uint64(seed, 0, "seed of synthetic feeds and of random operations without a seed of their own; model: of its initial values and random operations");
// Engine.
DEFINE_string(device, "cpu", "cpu; cuda; null: plans and simulates only, by cost rules; cuda_emulated: for tests. Commands that only plan use the workspace "
                             "sizes of the CPU kernels, unless this is another device or a --machine is given");
DEFINE_string(devices, "", "devices of the graph: cpu:0,cpu:1, or their number. Not given: one. model: how many devices it is spread over");
DEFINE_string(device_memory, "", "hard budget of each device: 12GiB, or 50% of the peak predicted for baseline, or one size per device: 12GiB,8GiB. "
                                 "Not given: the --machine's. none: no limit");
DEFINE_string(host_memory, "", "hard budget of host memory for variables, constants and swapped tensors. Not given: the --machine's. none: no limit");
DEFINE_string(machine, "", "machine to plan for: its rates, and its memory as the budget where no flag gives one. A file, or the name of one of "
                           "configs/machines: titanx");
DEFINE_double(link_gbps, 0, "cpu: slow copies to this many GB/s in each direction. 0: as fast as memory copies");
DEFINE_string(cuda_graph, "auto", "cuda: replay steps as a CUDA graph: auto, on (an error where that is not possible), off");
DEFINE_bool(tf32, false, "cuda: round the inputs of float32 matrix multiplications and convolutions to TF32");
DEFINE_bool(measure_convolutions, false, "cuda: choose cuDNN's engines for convolutions by measuring them when planning");
DEFINE_double(device_timeout, millrace::SessionOptions().device_timeout_seconds,
              "cuda: seconds after which a device that has not finished its work counts as lost, which is an error. 0: no limit");
DEFINE_string(disk, "", "folder for tensors that exceed --host_memory. Turns off --update_parts and swapping of resident variables within a step, so leave it "
                        "out if host memory is enough. Not given: no disk tier");
DEFINE_double(disk_gbps, 0, "slow the disk to this many GB/s in each direction. 0: as fast as it is");
DEFINE_string(replan, "auto", "plan again with measured times after some steps: auto (while steps run), wait (between two steps), off");
DEFINE_string(profile_in, "", "plan with the times that an earlier run wrote with --profile_out");
DEFINE_int32(threads, 0, "threads of the kernels. 0: one per core");
// Strategy and its parts.
DEFINE_string(strategy, "", "how to fit the budget");
DEFINE_string(strategies, "", "strategies to compare or sweep, separated by commas, out of");
DEFINE_int64(partition_size, 0, "nodes per partition on each device, for tensorflowmem (its depth-first order) and planned (the order it chose). 0: chosen by "
                                "the strategy");
DEFINE_int64(swap_distance, 2, "tensorflowmem: swap tensors whose producer and consumer are more than this many partitions apart");
DEFINE_string(min_swap_bytes, "0", "tensorflowmem: keep smaller tensors on the device");
DEFINE_string(recompute, "auto", "planned: recompute tensors instead of swapping them: off, on, or auto (where it makes the step shorter)");
DEFINE_double(plan_seconds, 0, "time limit for all of planning, in seconds (approximate; the first plan is always finished, at least about 8 us per node). "
                               "If no plan fits --host_memory by then, the search goes on without a limit. 0: no limit, and the same plan on every machine");
DEFINE_bool(share_recv, false, "receive a tensor from another device once per device instead of once per use (planned always does)");
DEFINE_bool(accumulate_products, true, "accumulate sums of matrix multiplications (gradients of a weight used in every time step) in place instead of "
                                       "keeping every term; likewise merge sums of equal reductions into one reduction. Results differ in rounding");
DEFINE_string(update_parts, "auto", "planned: let optimizers update large variables part by part, each with its part of the slots: off, the size of a part "
                                    "(at most 256 parts per variable), or auto (where slots fill much of the budget). Whole updates with --disk or without "
                                    "--device_memory. Same bits either way");
DEFINE_int64(max_unrolled_nodes, 1'000'000, "loops are unrolled; refuse a graph with more nodes or iterations than this after unrolling");
DEFINE_string(fuse, "auto", "fuse groups of elementwise ops and reductions, matrix multiplications with their bias, convolutions with padding and bias, and "
                            "batch norms with Relu: off, on, auto (on CUDA devices). Same bits either way, except for convolutions without a Pad, whose sums "
                            "may be split differently, and on CUDA devices for a bias, which is rounded together with the sum");
DEFINE_string(channels_first, "auto", "convert groups of neighbouring float32 convolutions to NCHW layout where that saves layout copies: off, on, auto (on "
                                      "CUDA devices without --tf32). Sums over space differ in rounding");
DEFINE_string(pack_rows, "auto", "batch small matrix multiplications by the same weight over many time steps into one, together with the row-wise operations "
                                 "after them: off, on, auto (on CUDA devices). Results differ in rounding");
DEFINE_string(parts, "placement,swap", "tensorflowmem: what it does besides partitioning: placement (of variables and constants in host memory), swap (of "
                                       "activations), both, or none");
DEFINE_bool(early_start, true, "tensorflowmem: computing of the next partition may start while copies of this one are still running");
DEFINE_double(occupancy_threshold, 0.7, "reactive: fraction of the device memory above which the oldest saved activations are swapped out");
DEFINE_int64(swapout_threshold, -1, "tflms: swap tensors for consumers more than this many levels below their producer. -1: tuned");
DEFINE_int64(swapin_ahead, -1, "tflms: start a swap-in this many levels above its consumer. -1: tuned");
DEFINE_int64(swapin_groupby, -1, "tflms: consumers at most this many levels apart share a swap-in. -1: tuned");
DEFINE_int32(sync_mode, 0, "tflms: computing waits for 0 no copies, 1 copies out, 2 copies in, 3 both. The tuner takes a higher one where nothing else fits");
DEFINE_string(serialization, "", "tflms: levels whose operations run one after another, as Python slices: 1,5,7:9,:3,100:");
DEFINE_string(serialization_by_size, "0", "tflms: serialise levels whose operations hold more than this");
DEFINE_double(memory_ratio, 0.9, "tflms: fraction of the device memory, without the variables, that the tuner may fill");
DEFINE_string(exclude_outputs, "", "tflms: do not swap outputs of these nodes: name prefixes and type:OP, separated by commas");
DEFINE_string(exclude_inputs, "", "tflms: do not swap inputs of these nodes");
DEFINE_string(include_outputs, "", "tflms: swap outputs of these nodes only");
DEFINE_string(include_inputs, "", "tflms: swap inputs of these nodes only");
DEFINE_bool(tflms_debug, false, "tflms: print the operations and bytes of every level");
// Output.
DEFINE_string(report_out, "", "figures as JSON");
DEFINE_string(trace_out, "", "Chrome trace of the last step (opens in Perfetto)");
DEFINE_string(plot_out, "", "picture, .svg or .png");
DEFINE_string(html_out, "", "interactive page of the run: timeline, memory map, the life of every tensor");
DEFINE_string(variables_out, "", ".npz of every variable after the last step");
DEFINE_string(fetches_out, "", ".npz of the last step's fetches");
DEFINE_string(checkpoint_out, "", "checkpoint of every variable and mutable table after the last step, for TensorFlow or --checkpoint_in, under the names "
                                  "that the saver of a SavedModel or MetaGraphDef uses. It also holds the states of random ops, which TensorFlow ignores");
DEFINE_string(profile_out, "", "measured times of nodes and links, as text, for --profile_in. Takes 8 steps or more, 10 where steps are replayed as a graph");
// Of single commands.
DEFINE_string(partition_sizes, "", "sweep: partition sizes, separated by commas");
DEFINE_string(budgets, "", "sweep: budgets of device memory, as for --device_memory, separated by commas: 40%,2GiB");
DEFINE_string(csv_out, "", "sweep: the table. Not given: stdout");
DEFINE_string(plan_in, "", "run this plan, made by --plan_out=F.pb or .pbtxt, instead of making one. A step with other values than the plan depends on is "
                           "refused");
DEFINE_string(plan_out, "", "the plan: .pb or .pbtxt for --plan_in (with the values of feeds and results of the step that it depends on, if any), otherwise "
                            "text with a line per step");
DEFINE_string(vary, "batch", "fit: what to search: budget, batch, or, of a model that has it, depth, image_size, steps_unrolled or layers (millrace model "
                             "--help)");
DEFINE_bool(measure, false, "machine: measure kernels and copies of the device here");
DEFINE_bool(ops, false, "inspect: list the supported operations");
DEFINE_string(out, "", "export, machine, model: the file to write");
// Sizes of generated models; 0 and "" are the model's own.
DEFINE_int64(batch, 0, "model: examples per step");
DEFINE_int64(depth, 0, "model: layers with weights");
DEFINE_int64(image_size, 0, "model: height, width and depth of the input");
DEFINE_int64(classes, 0, "model: classes");
DEFINE_int64(layers, 0, "model: recurrent, transformer or dense layers");
DEFINE_int64(hidden, 0, "model: units per layer");
DEFINE_int64(heads, 0, "model: attention heads");
DEFINE_int64(steps_unrolled, 0, "model: time steps, sequence length");
DEFINE_int64(vocab, 0, "model: words in the vocabulary");
DEFINE_int64(experts, 0, "model: experts per layer of a mixture of experts");
DEFINE_double(dropout, -1, "model: dropout rate");
DEFINE_int64(channels, 0, "model: channels of the first level");
DEFINE_int64(levels, 0, "model: levels of resolution");
DEFINE_string(variant, "", "model: form of the network");
DEFINE_string(precision, "", "model: float32, or bfloat16 or float16 for activations and matrix multiplications, with weights, statistics and losses in "
                             "float32");
DEFINE_string(optimizer, "", "model, --train: sgd, momentum, adam, adamw, rmsprop or adagrad. Not given: the model's own, sgd for --train");
DEFINE_double(learning_rate, 0, "model, --train: learning rate. 0: the model's own, 0.01 for --train");
DEFINE_double(weight_decay, -1, "model, --train: weight decay. -1: the model's own, 0 for --train");

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

// Where the machines that come with the program are: of an installation, of a build in the source tree.
std::vector<std::string> MachineFolders() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  std::vector<std::string> folders;
  for (const char* const folder : {"../share/millrace/machines", "../../configs/machines"}) {
    folders.push_back((program.parent_path() / folder).lexically_normal());
  }
  return folders;
}

EngineOptions EngineFromFlags() {
  return {.device = FLAGS_device,
          .devices = FLAGS_devices,
          .machine = FLAGS_machine,
          .machine_folders = MachineFolders(),
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

// Whether standard error is a terminal that takes escape codes.
bool ErrIsTerminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

int ErrColumns() {
  constexpr int kUsual = 80;
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

Environment RealEnvironment() {
  Environment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.err_is_terminal = ErrIsTerminal();
  environment.err_columns = ErrColumns;
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

// What is logged goes to files in the folder of --log_dir, too.
absl::Status LogToFiles() {
  if (FLAGS_log_dir.empty()) return absl::OkStatus();
  if (FLAGS_logtostderr || FLAGS_logtostdout) {
    return UsageError(absl::StrCat("--log_dir=", FLAGS_log_dir, ": with ", FLAGS_logtostderr ? "--logtostderr" : "--logtostdout",
                                   " nothing is written to files, --alsologtostderr does both"));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(FLAGS_log_dir, error) || access(FLAGS_log_dir.c_str(), W_OK | X_OK) != 0) {
    return UsageError(absl::StrCat("--log_dir=", FLAGS_log_dir, ": expected a folder to write in"));
  }
  for (const google::LogSeverity severity : {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
    google::SetLogDestination(severity, absl::StrCat(FLAGS_log_dir, "/millrace.", google::GetLogSeverityName(severity), ".").c_str());
  }
  return absl::OkStatus();
}

absl::Status Main(const std::vector<std::string>& argv) {
  Gflags registry;
  MR_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argv, registry));
  MR_RETURN_IF_ERROR(LogToFiles());
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
  MR_ASSIGN_OR_RETURN(const Command* command, ExpectCommand(words[0]));
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

// Writes what is logged as a program's messages: without the time and the place in the source. The library writes with them what its own
// flags send to standard error, and a failed CHECK, which is our own bug.
class Messages final : public google::LogSink {
 public:
  Messages() {
    FLAGS_stderrthreshold = google::GLOG_FATAL;
    FLAGS_log_dir.clear();  // the environment's folder for temporary files, which may not be there
    for (const google::LogSeverity severity : {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
      google::SetLogDestination(severity, "");  // no files without --log_dir
    }
    google::AddLogSink(this);
  }
  ~Messages() override { google::RemoveLogSink(this); }
  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&, const char* message, size_t size) override {
    if (FLAGS_logtostderr || FLAGS_alsologtostderr || severity >= FLAGS_stderrthreshold) return;
    const char* const kind = severity == google::GLOG_INFO ? "" : severity == google::GLOG_WARNING ? "warning: " : "error: ";
    std::cerr << absl::StrCat("millrace: ", kind, absl::string_view(message, size), "\n");
  }
};

absl::Status FlushResults() {
  std::cout.flush();
  if (std::cout.good()) return absl::OkStatus();
  return absl::UnavailableError("cannot write the results to standard output: it is closed or full");
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  millrace::cli::PrepareStandardStreams();
  google::InitGoogleLogging(argv[0]);
  const millrace::cli::Messages messages;
  absl::Status status = millrace::CheckCpu();
  if (status.ok()) status = millrace::cli::MainWithoutExceptions(std::vector<std::string>(argv + 1, argv + argc));
  status.Update(millrace::cli::FlushResults());
  const int exit_status = millrace::cli::ExitStatus(status);
  if (exit_status == millrace::cli::kExitUsage) {
    std::cerr << "millrace: " << status.message() << "\n";
  } else if (!status.ok()) {
    std::cerr << "millrace: " << status.ToString(absl::StatusToStringMode::kWithNoExtraData) << "\n";
  }
  return exit_status;
}
