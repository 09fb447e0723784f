#include "cli/workload.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/exit_status.h"
#include "cli/feed_types.h"
#include "cli/feeds.h"
#include "cli/initial_values.h"
#include "cli/restored_tensors.h"
#include "cli/reuse_memory.h"
#include "cli/vocabularies.h"
#include "files/model_files.h"
#include "glog/logging.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "graph/with_message.h"
#include "millrace/optimizers.h"
#include "millrace/status.h"
#include "ops/rules.h"
#include "passes/rewrite/known_words.h"
#include "passes/unroll/questions.h"

namespace millrace::cli {

namespace {

// Flags of --train: none without it, and rates that are some.
absl::Status CheckTraining(const InputOptions& options) {
  constexpr double kNotGiven = -1;
  if (!options.train) {
    const bool given = !options.loss.empty() || !options.optimizer.empty() || options.learning_rate != 0 || options.weight_decay != kNotGiven;
    return given ? UsageError("--loss, --optimizer, --learning_rate and --weight_decay are for --train, which is not given") : absl::OkStatus();
  }
  if (!options.optimizer.empty()) {
    const absl::Status known = MakeOptimizer(options.optimizer, 0).status();
    if (!known.ok()) return UsageError(absl::StrCat("--optimizer=", options.optimizer, ": ", std::string(known.message())));
  }
  if (!std::isfinite(options.learning_rate) || options.learning_rate < 0) {
    return UsageError(absl::StrCat("--learning_rate is ", options.learning_rate, ", expected a number from 0 on"));
  }
  if (!std::isfinite(options.weight_decay) || (options.weight_decay < 0 && options.weight_decay != kNotGiven)) {
    return UsageError(absl::StrCat("--weight_decay is ", options.weight_decay, ", expected a number from 0 on"));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const InputOptions& options) {
  if (const int given = !options.graph.empty() + !options.saved_model.empty() + !options.onnx.empty(); given != 1) {
    return UsageError(absl::StrCat("which graph: give ", given > 1 ? "one of " : "", "--graph=FILE.pb or .pbtxt, --saved_model=FOLDER, or --onnx=FILE.onnx",
                                   given > 1 ? ", not several" : ""));
  }
  if (options.train && options.onnx.empty()) {
    return UsageError("--train is for --onnx models; other graphs hold their training step (--targets)");
  }
  if (options.train && options.loss.empty() && options.fetches.empty()) {
    return UsageError("--train needs a loss: --loss=cross_entropy:LOGITS:LABELS, mse:NAME:TARGET, mean:NAME or a scalar output");
  }
  MR_RETURN_IF_ERROR(CheckTraining(options));
  if (!options.signature.empty() && options.saved_model.empty()) {
    return UsageError("--signature is one of a --saved_model, which is not given");
  }
  if (!options.graph.empty() && options.fetches.empty() && options.targets.empty()) {
    return UsageError("nothing to run: give --fetches=NAME:0,... or --targets=NAME,...");
  }
  if (options.steps < 0) return UsageError("--steps: expected 0 or more");
  if (!options.feed_shapes.empty() && !options.synthetic_feeds) {
    return UsageError("--feed_shapes gives shapes to --synthetic_feeds, which is not given");
  }
  return absl::OkStatus();
}

// "serve, train_step".
template <typename Map>
std::string Keys(const Map& map) {
  return absl::StrJoin(map, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); });
}

absl::StatusOr<const SavedSignature*> FindSignature(const SavedModel& model, const std::string& name) {
  const auto found = model.signatures.find(name.empty() ? "serving_default" : name);
  if (found != model.signatures.end()) return &found->second;
  const auto unread = model.unread_signatures.find(name.empty() ? "serving_default" : name);
  if (unread != model.unread_signatures.end()) {
    return WithPrefix(unread->second, absl::StrCat("signature '", unread->first, "'"));
  }
  std::map<std::string, const SavedSignature*> given;
  for (const auto& [key, signature] : model.signatures) {
    if (!IsLoadersOwn(key)) given[key] = &signature;
  }
  if (name.empty() && given.size() == 1) return given.begin()->second;
  if (name.empty() && given.empty() && !model.unread_signatures.empty()) {
    const auto& [key, why] = *model.unread_signatures.begin();
    return WithPrefix(why, absl::StrCat("signature '", key, "'"));
  }
  const std::string none = absl::StrCat("the model has no signature", name.empty() ? "" : absl::StrCat(" '", name, "'"));
  if (given.empty() && model.unread_signatures.empty()) {
    return absl::NotFoundError(absl::StrCat(none, name.empty() ? "" : ", nor another",
                                            ", so nothing in it can be run; save it with some (tf.saved_model.save(..., signatures=...))"));
  }
  if (name.empty()) return UsageError(absl::StrCat("give --signature: the model has ", Keys(given)));
  return absl::NotFoundError(absl::StrCat(none, given.empty() ? "" : absl::StrCat(", expected one of ", Keys(given)),
                                          model.unread_signatures.empty() ? "" : absl::StrCat("; cannot be read: ", Keys(model.unread_signatures))));
}

// Fetches and targets of the signature; keys of `fetches` become its tensors. All outputs when none is asked for.
absl::Status UseSignature(const SavedSignature& signature, const InputOptions& options, Workload& workload) {
  workload.targets.insert(workload.targets.end(), signature.targets.begin(), signature.targets.end());
  std::vector<std::string> keys = options.fetches;
  if (keys.empty()) {
    for (const auto& [key, info] : signature.outputs) keys.push_back(key);
    for (const auto& [key, why] : signature.unread_outputs) LOG(WARNING) << "output " << why.message() << ", and is left out";
  }
  workload.fetches.clear();
  for (const std::string& key : keys) {
    const auto output = signature.outputs.find(key);
    if (output == signature.outputs.end()) {
      const auto unread = signature.unread_outputs.find(key);
      if (unread != signature.unread_outputs.end()) return WithPrefix(unread->second, "fetch");
      return absl::NotFoundError(
          absl::StrCat("fetch ", key, ": the signature has no such output, expected ", Keys(signature.outputs)));
    }
    workload.fetches.push_back(output->second.tensor);
  }
  workload.fetch_names = std::move(keys);
  return absl::OkStatus();
}

// Feeds by input key -> by tensor.
absl::StatusOr<Session::Feeds> FeedsByTensor(const SavedSignature& signature, const Graph& graph, const Session::Feeds& by_key) {
  Session::Feeds feeds;
  for (const auto& [key, tensor] : by_key) {
    const auto input = signature.inputs.find(key);
    if (input == signature.inputs.end()) {
      const auto unread = signature.unread_inputs.find(key);
      if (unread != signature.unread_inputs.end()) return WithPrefix(unread->second, "feed");
      return absl::NotFoundError(
          absl::StrCat("feed ", key, ": the signature has no such input, expected ", Keys(signature.inputs)));
    }
    if (const absl::StatusOr<OutputRef> ref = graph.FindTensor(input->second.tensor); ref.ok()) {
      const TensorType declared = DeclaredFeedType(graph, *ref);
      if (!MayBeEqual(tensor.shape(), declared.shape)) {
        return absl::InvalidArgumentError(absl::StrCat("feed ", key, " is ", tensor.type().ToString(), ", expected ", declared.ToString()));
      }
    }
    feeds.emplace(input->second.tensor, tensor);
  }
  return feeds;
}

// What the step needs is fed. Of a signature or an ONNX model that are its inputs: nothing else can be.
absl::Status CheckInputsFed(const Workload& workload) {
  const absl::StatusOr<Session::FeedTypes> unfed = UnfedInputs(*workload.graph, workload.fetches, workload.targets, workload.feed_types);
  const auto is_known = [&](const auto& feed) { return workload.graph->FindTensor(feed.first).ok(); };
  // Planning says why, and what a name that is misspelt is like.
  if (!unfed.ok() || !std::all_of(workload.feed_types.begin(), workload.feed_types.end(), is_known)) return absl::OkStatus();
  std::vector<std::string> inputs;
  for (const auto& [name, type] : *unfed) {
    const auto key = workload.input_keys.find(name);
    if (key == workload.input_keys.end() && !workload.input_keys.empty()) continue;
    inputs.push_back(absl::StrCat(key == workload.input_keys.end() ? name : key->second, " ", type.ToString()));
  }
  if (inputs.empty()) return absl::OkStatus();
  return UsageError(absl::StrCat("not fed, but needed by the fetches and targets: ", absl::StrJoin(inputs, ", "),
                                 "; the file of --feeds gives inputs under these names, --synthetic_feeds makes them"));
}

// "name" of "name:0".
std::string WithoutIndex(const std::string& name) { return std::string(absl::StripSuffix(name, ":0")); }

// Of an ONNX model's names: as it is, or with or without ":0".
std::map<std::string, std::string>::const_iterator FindByName(const std::map<std::string, std::string>& names, const std::string& name) {
  for (const std::string& form : {name, WithoutIndex(name), name + ":0"}) {
    if (const auto found = names.find(form); found != names.end()) return found;
  }
  return names.end();
}

OnnxOptions MakeOnnxOptions(const InputOptions& options, const std::map<std::string, Shape>& shapes,
                            const Session::Feeds& feeds) {
  OnnxOptions onnx;
  // A model from TensorFlow may call its inputs NAME:0 itself.
  for (const std::string suffix : {"", ":0"}) {
    for (const auto& [name, shape] : shapes) onnx.input_shapes[WithoutIndex(name) + suffix] = shape;
    for (const auto& [name, value] : feeds) onnx.input_values[WithoutIndex(name) + suffix] = value;
  }
  if (!options.train) return onnx;
  OnnxTraining& training = onnx.training.emplace();
  training.loss = options.loss.empty() ? WithoutIndex(options.fetches[0]) : options.loss;
  if (!options.optimizer.empty()) training.optimizer = options.optimizer;
  if (options.learning_rate != 0) training.learning_rate = options.learning_rate;
  if (options.weight_decay >= 0) training.weight_decay = options.weight_decay;
  return onnx;
}

// The model's graph; feeds and fetches by its names. Fetches: all outputs when none is asked for, the loss of --train.
absl::Status LoadOnnxModel(const InputOptions& options, const std::map<std::string, Shape>& shapes,
                           const Environment& environment, Workload& workload) {
  MR_ASSIGN_OR_RETURN(OnnxModel model,
                      ReadFrom(options.onnx, environment.load_onnx(options.onnx, MakeOnnxOptions(options, shapes, workload.feeds))));
  std::vector<std::string> fetches = options.fetches;
  if (fetches.empty() && options.train) {  // what is minimised, though the model may have a tensor of that name
    workload.fetches = workload.fetch_names = {"loss:0"};
  } else if (fetches.empty() && options.targets.empty()) {
    fetches = model.outputs;
  }
  for (const std::string& fetch : fetches) {
    const auto tensor = FindByName(model.tensors, fetch);
    workload.fetches.push_back(tensor == model.tensors.end() ? fetch : tensor->second);
    workload.fetch_names.push_back(absl::EndsWith(fetch, ":0") ? fetch : fetch + ":0");
  }
  // An input may have become a constant.
  const auto is_input = [&](const std::string& name) {
    return FindByName(model.inputs, name) != model.inputs.end() || FindByName(model.tensors, name) != model.tensors.end();
  };
  for (const auto& [name, shape] : shapes) {
    if (!is_input(name)) return absl::NotFoundError(absl::StrCat("--feed_shapes: the model has no input ", name, ", expected ", Keys(model.inputs)));
  }
  Session::Feeds feeds;
  for (auto& [name, value] : workload.feeds) {
    if (!is_input(name)) return absl::NotFoundError(absl::StrCat("feed ", name, ": the model has no such input, expected ", Keys(model.inputs)));
    const auto input = FindByName(model.inputs, name);
    if (input != model.inputs.end()) feeds.emplace(input->second, value);
  }
  workload.feeds = std::move(feeds);
  for (const auto& [name, tensor] : model.inputs) workload.input_keys[WithoutIndex(tensor)] = name;
  workload.graph = std::make_shared<const Graph>(std::move(model.graph));
  workload.values_from = options.onnx;
  for (auto& [name, value] : model.variables) {
    workload.initial_values[name] = [value = std::move(value)] { return value; };
  }
  workload.init.targets.insert(workload.init.targets.begin(), model.init_targets.begin(), model.init_targets.end());
  if (options.train) workload.targets.push_back("train");
  return absl::OkStatus();
}

// 0: no such file, which its reader reports.
int64_t GraphFileBytes(const InputOptions& options) {
  const std::string path = !options.graph.empty()         ? options.graph
                           : !options.saved_model.empty() ? SavedModelFile(options.saved_model)
                                                          : options.onnx;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

// What any plan takes; those that swap much take twice as much.
constexpr int64_t kBytesPerNode = 1000;
// Graph, plan and what planning needs in passing take some 16 bytes for each of a GraphDef's, where nine sizes of
// partitions are planned 33; untouched addresses cost nothing.
constexpr int64_t kBytesPerByteOfGraph = 40;

// The signature's step of a SavedModel, with the model's values.
absl::Status LoadModel(const InputOptions& options, std::map<std::string, Shape>& shapes, const Environment& environment, Workload& workload) {
  MR_ASSIGN_OR_RETURN(SavedModel model, ReadFrom(SavedModelFile(options.saved_model), environment.load_saved_model(options.saved_model)));
  MR_ASSIGN_OR_RETURN(const SavedSignature* signature, FindSignature(model, options.signature));
  MR_RETURN_IF_ERROR(UseSignature(*signature, options, workload));
  const auto type_of_key = [&](const std::string& key) {
    const auto input = signature->inputs.find(key);
    const absl::StatusOr<OutputRef> ref = model.graph.FindTensor(input == signature->inputs.end() ? "" : input->second.tensor);
    return ref.ok() ? DeclaredFeedType(model.graph, *ref) : TensorType();
  };
  MR_RETURN_IF_ERROR(JoinByteStrings(type_of_key, workload.feeds));
  MR_ASSIGN_OR_RETURN(workload.feeds, FeedsByTensor(*signature, model.graph, workload.feeds));
  for (const auto& [key, info] : signature->inputs) {
    workload.input_keys[WithoutIndex(info.tensor)] = key;
    auto shape = shapes.extract(key);
    if (shape.empty()) continue;
    shape.key() = WithoutIndex(info.tensor);
    shapes.insert(std::move(shape));
  }
  if (model.checkpoint == nullptr && !model.bound.objects.empty() && !options.checkpoint_in.empty()) {
    MR_ASSIGN_OR_RETURN(const std::shared_ptr<TensorReader> reader, OpenCheckpoint(options.checkpoint_in, environment));
    MR_RETURN_IF_ERROR(environment.add_bound_keys(options.checkpoint_in, *reader, &model));
  }
  TakeValuesOf(model, workload);
  if (model.checkpoint == nullptr && !model.checkpoint_keys.empty() && options.checkpoint_in.empty()) {
    LOG(WARNING) << options.saved_model << ": no checkpoint at variables/variables.index, so its variables have no values; --checkpoint_in gives some";
  }
  workload.model_init.targets = model.init_targets;
  workload.values_after_model_init = !options.checkpoint_in.empty();
  MR_RETURN_IF_ERROR(ReadVocabularies(model.graph));
  workload.graph = std::make_shared<const Graph>(std::move(model.graph));
  workload.values_from = options.saved_model;
  return absl::OkStatus();
}

// Graph, fetches, targets and feeds from a file of arrays.
// Shapes by input key become shapes by placeholder.
absl::Status LoadGraphAndFeeds(const InputOptions& options, std::map<std::string, Shape>& shapes,
                               const Environment& environment, Workload& workload) {
  if (!options.feeds.empty()) {
    MR_ASSIGN_OR_RETURN(workload.feeds, ReadFrom(options.feeds, environment.load_arrays(options.feeds)));
  }
  workload.targets = options.targets;
  if (!options.onnx.empty()) return LoadOnnxModel(options, shapes, environment, workload);
  if (options.saved_model.empty()) {
    MR_ASSIGN_OR_RETURN(MetaGraph loaded, ReadFrom(options.graph, environment.load_graph(options.graph)));
    MR_RETURN_IF_ERROR(ReadVocabularies(loaded.graph));
    NameForCheckpoints(loaded.graph, loaded.names, workload);
    workload.graph = std::make_shared<const Graph>(std::move(loaded.graph));
    workload.fetches = options.fetches;
    for (const std::string& fetch : options.fetches) {
      workload.fetch_names.push_back(fetch.find(':') == std::string::npos ? fetch + ":0" : fetch);
    }
    return absl::OkStatus();
  }
  return LoadModel(options, shapes, environment, workload);
}

absl::StatusOr<std::shared_ptr<const ExecutionPlan>> ReadPlan(const std::string& path, const Environment& environment) {
  absl::StatusOr<ExecutionPlan> plan = ReadFrom(path, environment.load_plan(path));
  if (plan.ok()) return std::make_shared<const ExecutionPlan>(*std::move(plan));
  const bool can_be_read = absl::EndsWith(path, ".pb") || absl::EndsWith(path, ".pbtxt");
  if (can_be_read || !absl::IsInvalidArgument(plan.status())) return plan.status();
  return WithMessage(plan.status(), absl::StrCat(absl::StripSuffix(plan.status().message(), "."), "; --plan_in reads what --plan_out=F.pb or F.pbtxt wrote"));
}

// Of variables whose types the graph tells.
std::map<std::string, TensorType> DeclaredTypes(const Graph& graph) {
  std::map<std::string, TensorType> types;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsVariable(node)) continue;
    TensorType type{node.attrs.GetOr("dtype", DataType::kInvalid), node.attrs.GetOr("shape", Shape::UnknownRank())};
    if (type.shape.fully_known()) types.emplace(VariableName(node), std::move(type));
  }
  return types;
}

// Whether the graph has it as a variable of strings.
bool IsDeclared(const Graph& graph, const std::string& name) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && IsVariableOfWords(graph.node(NodeId{i})) && VariableName(graph.node(NodeId{i})) == name) return true;
  }
  return false;
}

absl::Status InterruptedBeforeSteps() { return absl::CancelledError("interrupted before the first step"); }

absl::Status SetInitialValues(const Workload& workload, Session& session, const std::function<bool()>& interrupted, bool again) {
  const std::map<std::string, TensorType> declared = DeclaredTypes(*workload.graph);
  for (const auto& [name, read] : workload.initial_values) {
    if (interrupted()) return InterruptedBeforeSteps();
    MR_ASSIGN_OR_RETURN(const Tensor value, read());
    const auto type = declared.find(name);
    if (type != declared.end() && value.type() != type->second) {
      return absl::InvalidArgumentError(absl::StrCat(workload.values_from, ": variable '", name, "' is ", value.type().ToString(),
                                                     ", the graph declares ", type->second.ToString()));
    }
    if (value.dtype() == DataType::kString) {
      LOG_IF(WARNING, !again && !IsDeclared(*workload.graph, name))
          << workload.values_from << ": '" << name << "' holds strings, which no variable does here; only --checkpoint_out keeps it";
      continue;
    }
    const absl::Status set = session.SetVariable(name, value);
    if (!set.ok()) return WithPrefix(set, workload.values_from);
  }
  return absl::OkStatus();
}

absl::Status SetFeeds(const std::shared_ptr<const Graph>& graph, const Environment& environment, Initialiser& init) {
  init.feeds = [graph, targets = init.targets, environment] { return RestoredTensors(*graph, targets, environment); };
  MR_ASSIGN_OR_RETURN(const Session::Feeds restored, init.feeds());
  init.feed_types = TypesOf(restored);
  return absl::OkStatus();
}

absl::Status RunInitialiser(const Initialiser& init, Session& session) {
  if (init.targets.empty()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Session::Feeds feeds, init.feeds());
  return session.Run(feeds, {}, init.targets, nullptr);
}

}  // namespace

absl::Status CheckKindOfGraph(const InputOptions& options) {
  std::error_code error;
  if (!options.saved_model.empty() && std::filesystem::is_regular_file(options.saved_model, error)) {
    return UsageError(absl::StrCat("--saved_model=", options.saved_model, ": a file, expected the folder that holds saved_model.pb"));
  }
  if (!options.graph.empty() && std::filesystem::is_regular_file(SavedModelFile(options.graph), error)) {
    return UsageError(absl::StrCat("--graph=", options.graph, ": the folder of a SavedModel, which --saved_model takes"));
  }
  return absl::OkStatus();
}

bool IsLoadersOwn(std::string_view signature) { return signature == "__saved_model_init_op" || signature == "__saved_model_train_op"; }

absl::StatusOr<Workload> LoadWorkload(const InputOptions& options, FeedValues values, const Environment& environment) {
  MR_RETURN_IF_ERROR(CheckKindOfGraph(options));
  MR_RETURN_IF_ERROR(CheckInput(options));
  MR_ASSIGN_OR_RETURN(auto shapes, ParseFeedShapes(options.feed_shapes));

  const bool only_planned = values == FeedValues::kTypesOnly;
  if (only_planned) {
    ReuseFreedMemory();
    UseHugePages(kBytesPerByteOfGraph * GraphFileBytes(options));
  }
  Workload workload;
  workload.init.targets = options.init_targets;
  MR_RETURN_IF_ERROR(LoadGraphAndFeeds(options, shapes, environment, workload));
  MR_RETURN_IF_ERROR(JoinByteStrings(*workload.graph, workload.feeds));
  MR_RETURN_IF_ERROR(ConvertFeeds(*workload.graph, workload.feeds));
  if (only_planned) ExpectToAllocate(kBytesPerNode * workload.graph->num_nodes());
  if (!options.onnx.empty()) shapes.clear();  // the import has used them
  workload.steps = options.steps;
  MR_RETURN_IF_ERROR(SetFeeds(workload.graph, environment, workload.init));
  if (const absl::Status own = SetFeeds(workload.graph, environment, workload.model_init); !own.ok()) {
    LOG(WARNING) << "the model's own initialisation is left out: " << own.message();
    workload.model_init = {};
  }
  if (!options.checkpoint_in.empty()) {
    MR_RETURN_IF_ERROR(ReadCheckpoint(options.checkpoint_in, !options.saved_model.empty(), environment, workload));
  }
  if (!options.plan_in.empty()) {
    MR_ASSIGN_OR_RETURN(workload.plan, ReadPlan(options.plan_in, environment));
  }
  workload.feed_types = TypesOf(workload.feeds);
  if (options.synthetic_feeds) {
    MR_ASSIGN_OR_RETURN(Session::FeedTypes types, SyntheticFeedTypes(*workload.graph, workload.fetches, workload.targets,
                                                                     shapes, workload.feed_types, workload.input_keys));
    if (values == FeedValues::kMade) {
      MR_ASSIGN_OR_RETURN(Session::Feeds feeds, SyntheticFeeds(types, options.seed));
      workload.feeds.merge(feeds);
    }
    workload.feed_types.merge(types);
  }
  MR_RETURN_IF_ERROR(CheckInputsFed(workload));
  MR_RETURN_IF_ERROR(DeclareShapes(workload));
  MR_RETURN_IF_ERROR(DeclareWords(workload));
  return workload;
}

absl::Status Initialise(const Workload& workload, Session& session, const std::function<bool()>& interrupted, bool own_is_left_out) {
  MR_RETURN_IF_ERROR(RunInitialiser(workload.init, session));
  MR_RETURN_IF_ERROR(SetInitialValues(workload, session, interrupted, /*again=*/false));
  if (!workload.model_init.targets.empty() && !own_is_left_out) {
    if (interrupted()) return InterruptedBeforeSteps();
    MR_RETURN_IF_ERROR(RunInitialiser(workload.model_init, session));
    if (workload.values_after_model_init) MR_RETURN_IF_ERROR(SetInitialValues(workload, session, interrupted, /*again=*/true));
  }
  for (const auto& [node, state] : workload.initial_states) {
    const absl::Status set = session.SetNodeState(node, state);
    // A checkpoint may be of a larger graph: that of the training whose result is evaluated.
    if (!set.ok() && !absl::IsNotFound(set)) return set;
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceBudgets> ResolveBudget(const Budget& budget, const Workload& workload, SessionOptions options,
                                            const Environment& environment) {
  const int32_t devices = options.planning.num_devices();
  if (!budget.given()) return DeviceBudgets{.bytes = options.machine.device_memory_bytes};
  MR_RETURN_IF_ERROR(CheckSizePerDevice(budget, devices));
  if (!budget.bytes_of.empty()) return DeviceBudgets{.of = budget.bytes_of};
  if (budget.percent == 0) return DeviceBudgets{.bytes = budget.bytes};
  options.planning = BaselineOf(options.planning);
  options.cancelled = environment.interrupted;
  options.disk.clear();
  // A budget in percent is the same bytes with measured times and without, and whichever convolution was the fastest today.
  options.profile = nullptr;
  options.measure_convolutions = false;
  MR_ASSIGN_OR_RETURN(const auto session, environment.create_session(workload.graph, options));
  session->PlanWithFeeds(workload.feeds);
  auto planned = session->Plan(workload.feed_types, workload.fetches, workload.targets);
  if (NeedsAnswer(planned.status()) && options.device != "null") {
    absl::Status own;
    if (!workload.model_init.targets.empty()) own = session->Plan(workload.model_init.feed_types, {}, workload.model_init.targets).status();
    const bool own_is_left_out = absl::IsUnimplemented(own) && !NeedsAnswer(own);
    MR_RETURN_IF_ERROR(Initialise(workload, *session, environment.interrupted, own_is_left_out));
    planned = session->Plan(workload.feed_types, workload.fetches, workload.targets);
  }
  MR_ASSIGN_OR_RETURN(const auto plan, std::move(planned));
  const auto part = [&](int64_t bytes) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bytes) * budget.percent / 100));
  };
  if (devices == 1) return DeviceBudgets{.bytes = part(session->last_run().predicted_peak_device_bytes)};
  // Each device gets its part of what it would need.
  DeviceBudgets budgets;
  for (const PlanDevice& device : plan->devices) budgets.of.push_back(part(device.arena_bytes));
  return budgets;
}

}  // namespace millrace::cli
