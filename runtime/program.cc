#include "runtime/program.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/stream_name.h"
#include "plan/step_order.h"
#include "runtime/variable_store.h"

namespace millrace {
namespace {

// What empty tensors point at: valid to form spans of no elements over.
alignas(kTensorAlignment) char empty_tensor[kTensorAlignment];

absl::Status PlanError(const std::string& node, const std::string& what) {
  return absl::InternalError(absl::StrCat("plan: step '", node, "' ", what));
}

// Keeps of each lane's waits those that no earlier wait of the lane covers: counters only go up.
class WaitReducer {
 public:
  WaitReducer(const ExecutionPlan& plan, int32_t own_lane) : own_lane_(own_lane), reached_(plan.lanes.size(), 0) {}

  absl::StatusOr<WaitRange> Add(const ExecutionPlan& plan, const StepWaits& waits, const std::string& node,
                                std::vector<Wait>* out) {
    WaitRange range{static_cast<int64_t>(out->size()), 0};
    for (const Wait& wait : waits) {
      if (wait.lane < 0 || wait.lane >= static_cast<int32_t>(plan.lanes.size()) || wait.count < 0 ||
          wait.count > plan.lanes[wait.lane].num_steps()) {
        return PlanError(node, absl::StrCat("waits for ", wait.count, " steps of lane ", wait.lane,
                                            ", which does not have them"));
      }
      if (wait.lane == own_lane_ || wait.count <= reached_[wait.lane]) continue;
      reached_[wait.lane] = wait.count;
      out->push_back(wait);
      ++range.count;
    }
    return range;
  }

 private:
  const int32_t own_lane_;
  std::vector<int64_t> reached_;
};

bool WritesResident(const ExecutionPlan& plan, const ComputeStep& step, int32_t variable) {
  const int64_t resident = plan.variables[variable].resident_offset;
  if (resident == kNoAddress) return plan.variables[variable].type.size_bytes() == 0;  // nothing of it is copied home
  for (size_t i = 0; i < step.input_variables.size(); ++i) {
    if (step.input_variables[i] != variable || step.inputs[i] == kNoAddress) continue;
    return step.inputs[i] >= resident && step.inputs[i] < resident + std::max<int64_t>(1, plan.variables[variable].type.size_bytes());
  }
  return true;
}

int64_t EndOf(int64_t offset, int64_t bytes) { return offset == kNoAddress ? 0 : offset + bytes; }

absl::Status CheckDynamic(const ExecutionPlan& plan, const ComputeStep& step, const OpInstance& instance) {
  const auto in_plan = [&](int32_t t) { return t >= -1 && t < static_cast<int64_t>(plan.dynamic_tensors.size()); };
  if (step.input_shapes.size() != step.inputs.size() || step.output_shapes.size() != step.outputs.size() ||
      !std::all_of(step.input_shapes.begin(), step.input_shapes.end(), in_plan) ||
      !std::all_of(step.output_shapes.begin(), step.output_shapes.end(), in_plan)) {
    return PlanError(instance.name, "names dynamic tensors that are not there, or too few");
  }
  return absl::OkStatus();
}

int64_t HighWater(const ComputeStep& step, const OpInstance& instance) {
  int64_t end = step.scratch_bytes > 0 ? step.scratch_offset + step.scratch_bytes : 0;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    end = std::max(end, EndOf(step.inputs[i], step.inputs[i] == kNoAddress ? 0 : instance.inputs[i].size_bytes()));
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    end = std::max(end, EndOf(step.outputs[i], step.outputs[i] == kNoAddress ? 0 : instance.outputs[i].size_bytes()));
  }
  return end;
}

// Whether every wait of steps [begin, end) of the lane is for steps that the plan puts before step `begin`: then all
// can be waited for at once without waiting for what one of the steps themselves must do first.
bool WaitsPrecede(const ExecutionPlan& plan, const Lane& lane, int64_t begin, int64_t step) {
  for (const Wait& wait : lane.compute[step].waits) {
    if (wait.count > 0 && PositionOf(plan.lanes[wait.lane], wait.count - 1) > lane.compute[begin].position) {
      return false;
    }
  }
  return true;
}

// Cuts steps [begin, end) into chunks of at least `grain` predicted seconds.
std::vector<int64_t> CutChunks(const Lane& lane, int64_t begin, int64_t end, double grain) {
  std::vector<int64_t> cuts{begin};
  double seconds = 0;
  for (int64_t i = begin; i < end; ++i) {
    seconds += lane.compute[i].predicted_seconds;
    if (seconds >= grain && i + 1 < end) {
      cuts.push_back(i + 1);
      seconds = 0;
    }
  }
  cuts.push_back(end);
  return cuts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Create(std::shared_ptr<const ExecutionPlan> plan,
                                                         absl::Span<RuntimeDevice* const> devices, KernelCache& kernels,
                                                         VariableStore& variables, const ProgramOptions& options) {
  auto program = std::unique_ptr<Program>(new Program());
  program->plan_ = std::move(plan);
  const ExecutionPlan& p = *program->plan_;
  program->variable_state_.initialized = std::make_unique<bool[]>(p.variables.size() + 1);
  program->variable_state_.changed = std::make_unique<bool[]>(p.variables.size() + 1);
  program->variable_state_.perhaps = std::make_unique<bool[]>(p.variables.size() + 1);
  program->variable_state_.at_home = std::make_unique<bool[]>(p.variables.size() + 1);
  for (const PlanVariable& variable : p.variables) {
    MR_ASSIGN_OR_RETURN(StoredVariable * declared, variables.Declare(variable.home_name(), variable.home_type()));
    if (!variable.whole.empty() && declared->home == nullptr) {
      return PlanError(variable.name, "is a part of a variable whose home is not in memory");
    }
    program->variables_.push_back(declared);
  }
  program->infer_shapes_ = options.infer_shapes;
  program->dynamic_shapes_.resize(p.dynamic_tensors.size());
  for (const PlanFetch& fetch : p.fetches) {
    if (fetch.shape >= static_cast<int64_t>(p.dynamic_tensors.size())) {
      return absl::InternalError(absl::StrCat("plan: fetch '", fetch.name, "' has the shape of a tensor not there"));
    }
  }
  program->lanes_.resize(p.lanes.size());
  program->pointers_.resize(p.lanes.size());
  program->flags_.resize(p.lanes.size());
  for (int32_t l = 0; l < static_cast<int32_t>(p.lanes.size()); ++l) {
    const Lane& lane = p.lanes[l];
    if (lane.device < 0 || lane.device >= static_cast<int32_t>(devices.size())) {
      return absl::InternalError(absl::StrCat("plan: lane ", l, " is of device ", lane.device, ", there are ",
                                              devices.size()));
    }
    program->lanes_[l].lane = &lane;
    program->lanes_[l].device = devices[lane.device];
    program->lanes_[l].num_steps = lane.num_steps();
    if (lane.kind == LaneKind::kCompute) {
      MR_RETURN_IF_ERROR(program->AddComputeLane(l, kernels, variables, options));
    } else {
      MR_RETURN_IF_ERROR(program->AddCopyLane(l));
    }
  }
  program->FindFormerValues();
  program->FindUsesOfVariables();
  return program;
}

void Program::FindFormerValues() {
  std::vector<int64_t> first_write(plan_->variables.size(), std::numeric_limits<int64_t>::max());
  for (const ProgramLane& lane : lanes_) {
    for (const ComputeStep& step : lane.lane->compute) {
      for (int32_t v : step.writes_variables) first_write[v] = std::min(first_write[v], step.position);
    }
  }
  for (ProgramLane& lane : lanes_) {
    for (CopyOp& op : lane.copies) {
      const int32_t v = op.step->writes_variable;
      op.carries_former_value =
          v >= 0 && plan_->variables[v].resident_offset != kNoAddress && op.step->position < first_write[v];
    }
  }
}

void Program::FindUsesOfVariables() {
  uses_home_.resize(plan_->variables.size(), false);
  writes_.resize(plan_->variables.size(), false);
  for (const ProgramLane& lane : lanes_) {
    for (const VariableWrite& write : lane.writes) writes_[write.variable] = true;
    for (const CopyOp& op : lane.copies) {
      if (op.step->host.kind == HostRef::Kind::kVariable) uses_home_[op.step->host.index] = true;
      if (op.step->writes_variable >= 0) uses_home_[op.step->writes_variable] = writes_[op.step->writes_variable] = true;
    }
  }
}

void Program::MarkWrites(const ProgramLane& lane, const ComputeOp& op, bool finished) const {
  for (int32_t w = op.first_write; w < op.first_write + op.num_writes; ++w) {
    const VariableWrite& write = lane.writes[w];
    if (finished) variable_state_.initialized[write.variable] = true;
    if (!write.resident) continue;
    bool& changed = variable_state_.changed[write.variable];
    bool& perhaps = variable_state_.perhaps[write.variable];
    perhaps = !finished && (perhaps || !changed);
    changed = true;
    variable_state_.at_home[write.variable] = false;
  }
}

void Program::MarkCopy(const CopyOp& op, bool carries_former_value) const {
  const int32_t v = op.step->writes_variable;
  if (v < 0) return;
  if (!carries_former_value) {
    variable_state_.changed[v] = true;
    variable_state_.perhaps[v] = false;
  }
  variable_state_.at_home[v] = true;
}

absl::Status Program::AddComputeLane(int32_t l, KernelCache& kernels, VariableStore& variables,
                                     const ProgramOptions& options) {
  ProgramLane& out = lanes_[l];
  const Lane& lane = *out.lane;
  WaitReducer reducer(*plan_, l);
  out.compute.reserve(lane.compute.size());
  int64_t pointers = 0, flags = 0;
  for (const ComputeStep& step : lane.compute) {
    MR_RETURN_IF_ERROR(AddComputeOp(out, step, kernels, variables, options));
    pointers += step.inputs.size() + step.outputs.size();
    flags += step.input_variables.size();
  }
  for (int64_t i = 0; i < out.num_steps;) {
    int64_t end = i + 1;
    double seconds = lane.compute[i].predicted_seconds;
    while (options.batches && end < out.num_steps && lane.compute[end].group == lane.compute[i].group &&
           lane.compute[i].group != 0 && WaitsPrecede(*plan_, lane, i, end)) {
      seconds += lane.compute[end++].predicted_seconds;
    }
    if (end - i < 2 || seconds < 2 * options.batch_grain_seconds) end = i + 1;
    // A batch waits for all that its steps wait for; the waits of its later steps are then covered.
    StepWaits waits;
    for (int64_t s = i; s < end; ++s) {
      waits.insert(waits.end(), lane.compute[s].waits.begin(), lane.compute[s].waits.end());
    }
    const std::string& name = plan_->instances[lane.compute[i].instance].name;
    MR_ASSIGN_OR_RETURN(out.compute[i].waits, reducer.Add(*plan_, waits, name, &out.waits));
    if (end - i > 1) {
      out.compute[i].batch = static_cast<int32_t>(out.batches.size());
      out.batches.push_back({out.compute[i].waits, CutChunks(lane, i, end, options.batch_grain_seconds)});
    }
    i = end;
  }
  pointers_[l].resize(pointers);
  flags_[l].resize(flags);
  return absl::OkStatus();
}

absl::Status Program::AddComputeOp(ProgramLane& out, const ComputeStep& step, KernelCache& kernels,
                                   VariableStore& variables, const ProgramOptions& options) {
  if (step.instance < 0 || step.instance >= static_cast<int32_t>(plan_->instances.size())) {
    return absl::InternalError(absl::StrCat("plan: a compute step names instance ", step.instance, " of ",
                                            plan_->instances.size()));
  }
  const OpInstance& instance = plan_->instances[step.instance];
  if (step.inputs.size() != instance.inputs.size() || step.outputs.size() != instance.outputs.size() ||
      (!step.input_variables.empty() && step.input_variables.size() != step.inputs.size())) {
    return PlanError(instance.name, "has a wrong number of addresses");
  }
  ComputeOp op;
  op.context.instance = &instance;
  op.context.parallel = options.parallel;
  op.context.seed = options.seed;
  op.high_water = HighWater(step, instance);
  op.first_write = static_cast<int32_t>(out.writes.size());
  op.num_writes = static_cast<int32_t>(step.writes_variables.size());
  for (const RareIndices* list : {&step.writes_variables, &step.input_variables}) {
    for (int32_t v : *list) {
      if (v >= static_cast<int32_t>(plan_->variables.size())) {
        return PlanError(instance.name, "names a variable that is not there");
      }
    }
  }
  for (int32_t v : step.writes_variables) out.writes.push_back({v, WritesResident(*plan_, step, v)});
  if (step.is_dynamic()) {
    MR_RETURN_IF_ERROR(CheckDynamic(*plan_, step, instance));
    if (infer_shapes_ == nullptr) return PlanError(instance.name, "has dynamic shapes, which nothing here infers");
    dynamic_ops_.push_back(std::make_unique<DynamicOp>(instance, step, infer_shapes_, kernels, out.lane->device,
                                                       *out.device));
    op.dynamic = dynamic_ops_.back().get();
  } else if (out.device->has_data()) {
    MR_ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel, kernels.Get(instance, out.lane->device));
    if (kernel->scratch_bytes() > step.scratch_bytes) {
      return PlanError(instance.name, absl::StrCat("has ", step.scratch_bytes, " bytes of scratch, its kernel needs ",
                                                   kernel->scratch_bytes()));
    }
    op.kernel = kernel.get();
    kernels_.push_back(std::move(kernel));
  }
  if (out.device->has_data() && step.state_bytes > 0) {
    MR_ASSIGN_OR_RETURN(op.context.state, variables.StateBlock(StreamName(instance), step.state_bytes));
    states_.emplace(static_cast<char*>(op.context.state), step.state_bytes);
  }
  out.compute.push_back(op);
  return absl::OkStatus();
}

absl::Status Program::AddCopyLane(int32_t l) {
  ProgramLane& out = lanes_[l];
  WaitReducer reducer(*plan_, l);
  const auto in_range = [](int32_t index, size_t size) { return index >= 0 && index < static_cast<int64_t>(size); };
  for (const CopyStep& step : out.lane->copies) {
    CopyOp op;
    op.step = &step;
    MR_ASSIGN_OR_RETURN(op.waits, reducer.Add(*plan_, step.waits, step.name, &out.waits));
    const LaneKind kind = out.lane->kind;
    const bool disk = kind == LaneKind::kToDisk || kind == LaneKind::kFromDisk;
    op.high_water = disk ? 0 : EndOf(step.device_offset, step.bytes);
    int64_t host_bytes = step.bytes;
    bool known = true;
    switch (step.host.kind) {
      case HostRef::Kind::kPool: op.pool_high_water = step.host.offset_bytes + step.bytes; break;
      case HostRef::Kind::kVariable:
        known = in_range(step.host.index, plan_->variables.size());
        if (known) host_bytes = plan_->variables[step.host.index].type.size_bytes();
        if (plan_->tiered) op.pool_high_water = step.host.offset_bytes + step.bytes;
        break;
      case HostRef::Kind::kConstant:
        known = in_range(step.host.index, plan_->constants.size());
        if (known) host_bytes = plan_->constants[step.host.index].value.size_bytes();
        break;
      case HostRef::Kind::kFeed:
        known = in_range(step.host.index, plan_->feeds.size());
        if (known) host_bytes = plan_->feeds[step.host.index].type.size_bytes();
        break;
      case HostRef::Kind::kFetch:
        known = in_range(step.host.index, plan_->fetches.size());
        if (known) host_bytes = plan_->fetches[step.host.index].type.size_bytes();
        break;
    }
    known = known && step.writes_variable < static_cast<int64_t>(plan_->variables.size());
    if (!known) return PlanError(step.name, "names a place in host memory that is not there");
    if (step.bytes < 0 || step.bytes > host_bytes || op.pool_high_water > plan_->host_pool_bytes) {
      return PlanError(step.name, absl::StrCat("copies ", step.bytes, " bytes, more than its host side holds"));
    }
    out.copies.push_back(op);
  }
  return absl::OkStatus();
}

void Program::Bind(absl::Span<const ArenaMap> maps, void* pool) {
  ++binding_;
  pool_ = pool;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    ProgramLane& lane = lanes_[l];
    const ArenaMap& map = maps[lane.lane->device];
    BindCompute(lane, map);
    for (CopyOp& op : lane.copies) {
      const CopyStep& step = *op.step;
      op.device_address = map.base() == nullptr ? nullptr : map.At(step.device_offset);
      if (step.host.kind == HostRef::Kind::kPool) op.host_address = static_cast<char*>(pool) + step.host.offset_bytes;
      if (step.host.kind == HostRef::Kind::kVariable) {
        op.host_address = plan_->tiered ? static_cast<char*>(pool) + step.host.offset_bytes : home(step.host.index);
      }
      if (step.host.kind == HostRef::Kind::kConstant) {
        // Read only: constants are never the target of a copy.
        op.host_address = const_cast<void*>(plan_->constants[step.host.index].value.data());
      }
    }
  }
}

void Program::BindCompute(ProgramLane& lane, const ArenaMap& map) {
  const size_t l = &lane - lanes_.data();
  void** pointer = pointers_[l].data();
  const bool** flag = flags_[l].data();
  static const bool kNoVariable = true;
  for (size_t i = 0; i < lane.compute.size(); ++i) {
    const ComputeStep& step = lane.lane->compute[i];
    KernelContext& context = lane.compute[i].context;
    const auto resolve = [&](int64_t offset) -> void* {
      return offset == kNoAddress || map.base() == nullptr ? empty_tensor : map.At(offset);
    };
    context.inputs = pointer;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const std::vector<Tensor>& values = context.instance->input_values;
      const bool by_value = step.inputs[k] == kNoAddress && k < values.size() && !values[k].empty();
      *pointer++ = by_value ? const_cast<void*>(values[k].data()) : resolve(step.inputs[k]);
    }
    context.outputs = pointer;
    for (int64_t offset : step.outputs) *pointer++ = resolve(offset);
    context.scratch = step.scratch_bytes > 0 ? resolve(step.scratch_offset) : empty_tensor;
    context.initialized = step.input_variables.empty() ? nullptr : flag;
    for (int32_t v : step.input_variables) *flag++ = v < 0 ? &kNoVariable : &variable_state_.initialized[v];
  }
}

void* Program::home(int32_t index) const {
  char* const whole = static_cast<char*>(variables_[index]->home);
  return whole == nullptr ? nullptr : whole + plan_->variables[index].home_offset;
}

const Shape& Program::fetch_shape(int32_t fetch) const {
  const PlanFetch& planned = plan_->fetches[fetch];
  return planned.shape < 0 ? planned.type.shape : dynamic_shapes_[planned.shape];
}

}  // namespace millrace
