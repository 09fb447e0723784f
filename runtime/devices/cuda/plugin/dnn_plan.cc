#include "cuda/plugin/dnn_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cuda/plugin/dnn_graph.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

// More than any version has.
constexpr int64_t kMostConfigs = 100, kMostKnobs = 64, kMostNotes = 32;

struct Knob {
  cudnnBackendKnobType_t type;
  int64_t value;
};
struct Engine {
  int64_t version = 0, number = 0;
  std::vector<Knob> knobs;
};

// "91900/67:2=1,13=0"
std::string NameOf(const Engine& engine) {
  std::string name = absl::StrCat(engine.version, "/", engine.number);
  for (const Knob& knob : engine.knobs) {
    absl::StrAppend(&name, &knob == engine.knobs.data() ? ":" : ",", static_cast<int>(knob.type), "=", knob.value);
  }
  return name;
}

absl::StatusOr<Engine> EngineOf(const std::string& name) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat("a plan names '", name, "', which is no engine of cuDNN's"));
  Engine engine;
  const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
  const std::vector<std::string> numbers = absl::StrSplit(parts[0], '/');
  if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &engine.version) || !absl::SimpleAtoi(numbers[1], &engine.number)) {
    return wrong;
  }
  if (parts.size() == 1) return engine;
  for (const absl::string_view setting : absl::StrSplit(parts[1], ',')) {
    const std::vector<std::string> sides = absl::StrSplit(setting, '=');
    int type = 0;
    Knob knob;
    if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &type) || !absl::SimpleAtoi(sides[1], &knob.value)) return wrong;
    knob.type = static_cast<cudnnBackendKnobType_t>(type);
    engine.knobs.push_back(knob);
  }
  return engine;
}

// In which precision, and in what order of sums.
absl::StatusOr<bool> IsAllowed(const DnnDescriptor& engine, const ConvShape& shape, const DnnLimits& limits) {
  std::vector<cudnnBackendNumericalNote_t> numbers;
  MR_RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes, &numbers));
  for (const cudnnBackendNumericalNote_t note : numbers) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
      // For floats tensor cores mean TF32, which engines do not note as conversion.
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        if (shape.type == Type::kFloat && !limits.tf32) return false;
        break;
      default: break;
    }
  }
  std::vector<cudnnBackendBehaviorNote_t> behaviour;
  MR_RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, kMostNotes, &behaviour));
  // Compiled when it is planned: seconds for each, and bits that depend on which compiler is found.
  return std::find(behaviour.begin(), behaviour.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == behaviour.end();
}

absl::StatusOr<std::vector<DnnDescriptor>> Configs(const DnnDescriptor& graph, const DnnTarget& target,
                                                   cudnnBackendHeurMode_t mode) {
  DnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.handle == nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  MR_RETURN_IF_ERROR(heuristics.Finalize("ranking engines"));
  std::vector<DnnDescriptor> configs;
  MR_RETURN_IF_ERROR(heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostConfigs, &configs));
  return configs;
}

absl::StatusOr<DnnDescriptor> EngineIn(const DnnDescriptor& config) {
  std::vector<DnnDescriptor> engines;
  MR_RETURN_IF_ERROR(config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1, &engines));
  if (engines.empty()) return absl::InternalError("cuDNN: a configuration without an engine");
  return std::move(engines[0]);
}

absl::StatusOr<std::string> NameIn(const DnnDescriptor& config, const DnnDescriptor& engine) {
  Engine found;
  found.version = static_cast<int64_t>(cudnnGetVersion());
  MR_RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &found.number));
  std::vector<DnnDescriptor> choices;
  MR_RETURN_IF_ERROR(config.Get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMostKnobs, &choices));
  for (const DnnDescriptor& choice : choices) {
    std::vector<cudnnBackendKnobType_t> type;
    Knob knob;
    MR_RETURN_IF_ERROR(choice.Get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type));
    MR_RETURN_IF_ERROR(choice.Get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &knob.value));
    knob.type = type[0];
    found.knobs.push_back(knob);
  }
  return NameOf(found);
}

// Unimplemented where the device does not support it, or it needs more scratch than there may be.
absl::StatusOr<DnnPlan> MakePlan(DnnDescriptor config, std::string name, int64_t most_scratch) {
  DnnPlan made{std::move(name), 0, std::move(config), DnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
  made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, made.config);  // which knows handle or device
  MR_RETURN_IF_ERROR(made.plan.Finalize("a plan"));
  MR_RETURN_IF_ERROR(made.plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &made.scratch_bytes));
  if (made.scratch_bytes > most_scratch) {
    return absl::UnimplementedError(
        absl::StrCat("it needs ", made.scratch_bytes, " bytes of scratch, ", most_scratch, " are allowed"));
  }
  return made;
}

absl::StatusOr<DnnDescriptor> ConfigOf(const Engine& wanted, const ConvShape& shape, const DnnLimits& limits,
                                       const DnnTarget& target) {
  MR_ASSIGN_OR_RETURN(const DnnDescriptor graph, DnnGraph(shape, target.handle));
  DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, wanted.number);
  if (target.handle == nullptr) engine.Set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device);
  MR_RETURN_IF_ERROR(engine.Finalize("an engine"));
  MR_ASSIGN_OR_RETURN(const bool allowed, IsAllowed(engine, shape, limits));
  if (!allowed) return absl::UnimplementedError("it does not compute as the device is asked to (the same bits always, --tf32)");
  std::vector<DnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Knob& knob : wanted.knobs) {
    DnnDescriptor& choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob.type)
        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value);
    MR_RETURN_IF_ERROR(choice.Finalize("the setting of a knob"));
    raw.push_back(choice.get());
  }
  DnnDescriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.Set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty()) {
    config.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
  }
  MR_RETURN_IF_ERROR(config.Finalize("an engine's configuration"));
  return config;
}

// What cuDNN's ranking of engines for float32 without tensor cores gets wrong by most on an H200, by bench/results/cuda_h200.md ("Engines
// that cuDNN ranks first"). Engines and tiles have the numbers of cuDNN 9.19; of another version's, at worst slower ones go first.
void RankByMeasurements(const ConvShape& shape, std::vector<DnnPlan>* plans) {
  if (plans->empty()) return;
  const auto engine_of = [](const DnnPlan& plan) { return plan.name.substr(0, plan.name.find(':')); };
  const auto number_of = [&](const DnnPlan& plan) { return engine_of(plan).substr(plan.name.find('/') + 1); };
  const std::string first = engine_of(plans->front());
  const auto move_up = [&](const auto& wanted) {
    const auto found = std::find_if(plans->begin(), plans->end(), wanted);
    if (found != plans->end()) std::rotate(plans->begin(), found, found + 1);
  };
  // Of one engine's tiles, the largest.
  constexpr int64_t kFewestChannels = 64;
  if (shape.part == ConvPart::kForward && shape.out_channels >= kFewestChannels) {
    move_up([&](const DnnPlan& plan) { return engine_of(plan) == first && absl::StartsWith(plan.name, absl::StrCat(first, ":2=4,18=0")); });
  }
  // One with a block for each tile of the filter, which leaves most of the device idle where the filter is small.
  constexpr int64_t kSmallFilter = 200000;
  const int64_t filter = shape.kernel[0] * shape.kernel[1] * shape.kernel[2] * shape.in_channels / shape.groups * shape.out_channels;
  if (shape.part == ConvPart::kFilter && number_of(plans->front()) == "67" && filter < kSmallFilter) {
    move_up([&](const DnnPlan& plan) { return plan.name == engine_of(plan) && number_of(plan) == "1"; });
  }
}

}  // namespace

int64_t MostScratchBytes(const ConvShape& shape, const DnnLimits& limits) {
  const int64_t bytes = shape.type == Type::kDouble ? 8 : shape.type == Type::kFloat ? 4 : 2;
  const auto elements = [](int64_t outer, const ConvShape::Sizes& size) { return outer * size[0] * size[1] * size[2]; };
  const int64_t outputs = shape.side ? 2 : 1;
  const int64_t tensors = bytes * (elements(shape.batch * shape.in_channels, shape.in) +
                                   outputs * elements(shape.batch * shape.out_channels, shape.out) +
                                   elements(shape.out_channels * shape.in_channels / shape.groups, shape.kernel));
  return std::max(limits.scratch_bytes, tensors / 8 * 9);  // with some room for what is rounded up
}

absl::StatusOr<DnnDescriptor> DnnDevice(int index) {
  const int32_t number = index;
  DnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.Set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &number);
  MR_RETURN_IF_ERROR(device.Finalize("the device"));
  return device;
}

absl::StatusOr<DnnDescriptor> DnnDeviceDescribed(std::string_view json) {
  DnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()), json.data());
  MR_RETURN_IF_ERROR(device.Finalize("the device"));
  return device;
}

absl::StatusOr<std::string> DnnDeviceText(const DnnDescriptor& device) {
  constexpr int64_t kMost = 1 << 14;
  std::vector<char> text;
  MR_RETURN_IF_ERROR(device.Get(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, kMost, &text));
  return std::string(text.begin(), std::find(text.begin(), text.end(), '\0'));
}

absl::StatusOr<std::vector<DnnPlan>> RankDnnPlans(const ConvShape& shape, const DnnLimits& limits, const DnnTarget& target) {
  MR_ASSIGN_OR_RETURN(const DnnDescriptor graph, DnnGraph(shape, target.handle));
  const int64_t most_scratch = MostScratchBytes(shape, limits);
  std::vector<DnnPlan> plans;
  absl::Status none = absl::UnimplementedError("cuDNN has no deterministic engine for this convolution");
  const auto failed = [&](const absl::Status& status) {
    if (absl::IsUnimplemented(none) && !absl::IsUnimplemented(status)) none = status;
  };
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    absl::StatusOr<std::vector<DnnDescriptor>> configs = Configs(graph, target, mode);
    if (!configs.ok()) {  // one way of ranking knows no engine; the other may
      failed(configs.status());
      continue;
    }
    for (DnnDescriptor& config : *configs) {
      if (plans.size() >= static_cast<size_t>(limits.plans)) break;
      MR_ASSIGN_OR_RETURN(const DnnDescriptor engine, EngineIn(config));
      MR_ASSIGN_OR_RETURN(const bool allowed, IsAllowed(engine, shape, limits));
      if (!allowed) continue;
      MR_ASSIGN_OR_RETURN(std::string name, NameIn(config, engine));
      if (std::any_of(plans.begin(), plans.end(), [&](const DnnPlan& plan) { return plan.name == name; })) continue;
      absl::StatusOr<DnnPlan> plan = MakePlan(std::move(config), std::move(name), most_scratch);
      if (plan.ok()) {
        plans.push_back(*std::move(plan));
      } else {
        failed(plan.status());
      }
    }
  }
  if (plans.empty()) return none;
  if (shape.type == Type::kFloat && !limits.tf32) RankByMeasurements(shape, &plans);
  return plans;
}

absl::StatusOr<DnnPlan> NamedDnnPlan(const ConvShape& shape, const DnnLimits& limits, const DnnTarget& target,
                                     const std::string& name) {
  MR_ASSIGN_OR_RETURN(const Engine wanted, EngineOf(name));
  const auto refused = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("the plan was made with engine ", name, " of cuDNN: ", why));
  };
  // Another version's engines may have other numbers, and other bits.
  const auto version = static_cast<int64_t>(cudnnGetVersion());
  if (wanted.version != version) return refused(absl::StrCat("this is version ", version, "; plan again"));
  absl::StatusOr<DnnDescriptor> config = ConfigOf(wanted, shape, limits, target);
  if (!config.ok()) return refused(config.status().message());
  absl::StatusOr<DnnPlan> plan = MakePlan(*std::move(config), name, MostScratchBytes(shape, limits));
  if (!plan.ok()) return refused(plan.status().message());
  return plan;
}

absl::Status ExecuteDnnPlan(cudnnHandle_t handle, const DnnPlan& plan, const ConvTensors& tensors, void* scratch) {
  std::vector<int64_t> ids{kInputId, kFilterId, kOutputId};
  std::vector<void*> memory{tensors.input, tensors.filter, tensors.output};
  const auto add = [&](int64_t id, void* tensor) {
    if (tensor == nullptr) return;
    ids.push_back(id);
    memory.push_back(tensor);
  };
  add(kBiasId, tensors.bias);
  add(kSideId, tensors.side);
  if (plan.scratch_bytes == 0) scratch = nullptr;
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(memory.size()), memory.data())
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  MR_RETURN_IF_ERROR(pack.Finalize("a convolution's tensors"));
  return DnnStatus(cudnnBackendExecute(handle, plan.plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace millrace::cuda
