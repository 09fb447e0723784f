#include "runtime/executor.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <string>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/with_message.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Residents of a device fit its arena, and the arena its budget.
absl::Status CheckArena(const ExecutionPlan& plan) {
  for (const PlanDevice& device : plan.devices) {
    if (device.budget_bytes > 0 && device.arena_bytes > device.budget_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the plan needs ", device.arena_bytes, " bytes on ", device.name,
                                                       ", its budget is ", device.budget_bytes));
    }
  }
  return absl::OkStatus();
}

// Arenas are mapped, not touched: without this, a plan for more memory than there is would end by the kernel's hand in the
// middle of a step.
absl::Status CheckMachine(const ExecutionPlan& plan, const RuntimeContext& context) {
  struct sysinfo machine;
  if (sysinfo(&machine) != 0) return absl::OkStatus();
  const double available = (static_cast<double>(machine.totalram) + static_cast<double>(machine.totalswap)) * machine.mem_unit;
  double needed = 0;
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const bool of_host = context.devices[d]->has_data() && context.devices[d]->memory_bytes() == 0;
    if (of_host) needed += static_cast<double>(plan.devices[d].arena_bytes);
  }
  if (needed <= available) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  return absl::ResourceExhaustedError(absl::StrFormat("the plan needs %.1f GiB of this machine's memory, which has %.1f GiB; give "
                                                      "a budget by --device_memory", needed / kGiB, available / kGiB));
}

void CopyBytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

Tensor CopyOf(const Tensor& tensor) {
  if (tensor.empty()) return tensor;
  Tensor copy(tensor.dtype(), tensor.shape());
  if (tensor.dtype() == DataType::kString) {
    copy.mutable_strings() = tensor.strings();
  } else {
    CopyBytes(copy.mutable_data(), tensor.data(), tensor.size_bytes());
  }
  return copy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(std::shared_ptr<const ExecutionPlan> plan,
                                                           const RuntimeContext& context,
                                                           const ExecutorOptions& options) {
  if (plan->devices.size() != context.devices.size() || context.devices.empty()) {
    return absl::InternalError(absl::StrCat("plan: made for ", plan->devices.size(), " devices, there are ",
                                            context.devices.size()));
  }
  MR_RETURN_IF_ERROR(CheckArena(*plan));
  MR_RETURN_IF_ERROR(CheckMachine(*plan, context));
  if (plan->tiered && context.disk == nullptr) return absl::FailedPreconditionError("the plan has a disk tier, the session has none");
  if (!plan->tiered && context.disk != nullptr && !plan->variables.empty()) {
    return absl::FailedPreconditionError("the plan has no disk tier, but the session's variables are on disk: make it with --disk");
  }
  // Homes are made while no plan holds a pool or constants: theirs make room when another one runs.
  if (context.devices[0]->has_data()) {
    MR_RETURN_IF_ERROR(context.variables->Acquire(nullptr));
    MR_RETURN_IF_ERROR(context.host->ReservePool(0, 0).status());
  }
  auto executor = std::unique_ptr<Executor>(new Executor(context, options));
  ProgramOptions program_options;
  program_options.seed = options.seed;
  program_options.parallel = context.runner;
  program_options.infer_shapes = context.infer_shapes;
  program_options.batches = context.devices[0]->has_data();
  MR_ASSIGN_OR_RETURN(executor->program_,
                      Program::Create(plan, executor->context_.devices, *context.kernels, *context.variables,
                                      program_options));
  executor->resident_end_.assign(plan->devices.size(), 0);
  for (const PlanVariable& variable : plan->variables) {
    executor->variables_.push_back(&executor->program_->variable(static_cast<int32_t>(executor->variables_.size())));
    if (variable.resident_offset != kNoAddress) {
      int64_t& end = executor->resident_end_[variable.device];
      end = std::max(end, variable.resident_offset + variable.type.size_bytes());
    }
    if (variable.host_offset != kNoAddress) {
      executor->pool_end_ = std::max(executor->pool_end_, variable.host_offset + variable.type.size_bytes());
    }
  }
  std::set<std::string> constants;  // several devices may take the same one
  for (const PlanConstant& constant : plan->constants) {
    if (constants.insert(constant.name).second) executor->constant_bytes_ += AlignUp(constant.value.size_bytes());
    if (constant.resident_offset != kNoAddress) {
      int64_t& end = executor->resident_end_[constant.device];
      end = std::max(end, constant.resident_offset + constant.value.size_bytes());
    }
  }
  executor->dirty_.assign(plan->variables.size(), false);
  for (size_t d = 0; d < plan->devices.size(); ++d) {
    executor->places_.emplace_back(*plan, static_cast<int32_t>(d), context.devices[d], executor->variables_);
  }
  EngineOptions engine_options;
  engine_options.runner = context.runner;
  engine_options.link_bytes_per_second = options.link_gbps * 1e9;
  if (plan->disk_scratch_bytes > 0) {
    MR_RETURN_IF_ERROR(context.disk->ReserveScratch(plan->disk_scratch_bytes));
  }
  engine_options.disk = plan->tiered ? context.disk : nullptr;
  engine_options.disk_bytes_per_second = options.disk_gbps * 1e9;
  engine_options.trace = options.trace;
  engine_options.observer = options.observer;
  MR_ASSIGN_OR_RETURN(executor->engine_, context.devices[0]->MakeEngine(*executor->program_, engine_options));
  return executor;
}

Executor::~Executor() {
  VariableStore& variables = *context_.variables;
  absl::Status flushed = variables.owner() == this ? variables.Acquire(nullptr) : absl::OkStatus();
  for (DevicePlaces& places : places_) {
    if (!places.has_constants()) continue;
    flushed.Update(variables.Release());  // whose turn it is may share them
    places.ForgetConstants(variables.residents());
  }
  if (!flushed.ok()) LOG(ERROR) << flushed;
}

absl::Status Executor::CheckFeeds(absl::Span<const Tensor> feeds) const {
  const std::vector<PlanFeed>& expected = plan().feeds;
  if (feeds.size() != expected.size()) {
    return absl::InvalidArgumentError(absl::StrCat(feeds.size(), " feeds given, expected ", expected.size()));
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].type() == expected[i].type) continue;
    return absl::InvalidArgumentError(absl::StrCat("feed '", expected[i].name, "' is ", feeds[i].type().ToString(),
                                                   ", expected ", expected[i].type.ToString()));
  }
  return absl::OkStatus();
}

absl::Status Executor::CheckVariables() const {
  for (size_t i = 0; i < variables_.size(); ++i) {
    const PlanVariable& variable = plan().variables[i];
    if (!variable.read_before_write || variable.first_reader.empty() || variables_[i]->initialized) continue;
    return absl::FailedPreconditionError(absl::StrCat("variable '", variable.home_name(), "' has no value when node '",
                                                      variable.first_reader,
                                                      "' reads it: run its initializer first"));
  }
  return absl::OkStatus();
}

absl::Status Executor::Activate() {
  if (context_.variables->owner() == this && !places_are_stale_) return absl::OkStatus();
  // The former owner's values go home before its pool is taken.
  MR_RETURN_IF_ERROR(context_.variables->Release());
  void* pool = nullptr;
  if (context_.devices[0]->has_data()) {
    MR_ASSIGN_OR_RETURN(pool, context_.host->ReservePool(plan().host_pool_bytes, constant_bytes_));
  }
  MR_RETURN_IF_ERROR(TakeDevices());
  std::vector<ArenaMap> maps;
  for (const DevicePlaces& places : places_) maps.push_back(places.map());
  const int64_t memory_moves = context_.host->pool_mappings() + context_.variables->residents().arena_moves();
  if (pool != pool_ || maps != maps_ || memory_moves != memory_moves_ || plan().tiered) {
    program_->Bind(maps, pool);
    maps_ = std::move(maps);
    pool_ = pool;
    memory_moves_ = memory_moves;
  }
  MR_RETURN_IF_ERROR(LoadPool());
  places_are_stale_ = false;
  return context_.variables->Acquire(this);
}

absl::Status Executor::TakeDevices() {
  Residents& residents = context_.variables->residents();
  std::vector<char*> arenas;
  for (size_t d = 0; d < places_.size(); ++d) {
    const PlanDevice& device = plan().devices[d];
    MR_ASSIGN_OR_RETURN(char* const arena, residents.ReserveArena(*context_.devices[d], std::max(device.arena_bytes, device.budget_bytes)));
    arenas.push_back(arena);
  }
  // The plan may take it from its home at any time, however new the value is that it finds.
  LostValues lost;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!stays_on_device(i) || program_->uses_home(i)) residents.Flush(variables_[i], lost);
  }
  if (residents.changes() == changes_) return lost.status();
  std::set<const Resident*> shared;
  for (size_t d = 0; d < places_.size(); ++d) places_[d].Choose(residents, arenas[d], residents.arena_bytes(*context_.devices[d]), shared);
  const auto is_shared = [&](const Resident& resident) { return shared.count(&resident) > 0; };
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (stays_on_device(i) || program_->writes(i)) residents.RemoveAllOf(*variables_[i], is_shared, lost);
  }
  MR_RETURN_IF_ERROR(lost.status());
  for (DevicePlaces& places : places_) places.MakeRoom(residents, shared, lost);
  MR_RETURN_IF_ERROR(lost.status());
  for (DevicePlaces& places : places_) MR_RETURN_IF_ERROR(places.Load(residents));
  changes_ = residents.changes();
  return absl::OkStatus();
}

absl::Status Executor::LoadPool() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!stays_in_pool(i) || !variables_[i]->initialized) continue;
    MR_RETURN_IF_ERROR(context_.variables->ReadHome(*variables_[i], [&](const void* piece, int64_t at, int64_t size) {
      CopyBytes(in_pool(i) + at, piece, size);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status Executor::Flush() {
  LostValues lost;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!dirty_[i]) continue;
    const absl::Status copied = context_.variables->WriteHome(*variables_[i], [&](void* piece, int64_t at, int64_t size) {
      CopyBytes(piece, in_pool(i) + at, size);
      return absl::OkStatus();
    });
    dirty_[i] = false;
    if (!copied.ok()) lost.Add(*variables_[i], copied);
  }
  return lost.status();
}

void Executor::CommitVariables() {
  const VariableState& state = program_->variable_state();
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (Resident* const on_device = resident(i); on_device != nullptr) on_device->newer = !state.at_home[i];
    if (state.changed[i] && stays_in_pool(i)) dirty_[i] = true;
    if (state.changed[i]) variables_[i]->initialized = state.initialized[i];
  }
}

absl::Status Executor::KeepStates() {
  states_before_.clear();
  int64_t total = 0;
  for (const auto& [data, bytes] : program_->states()) total += bytes;
  try {
    states_before_.reserve(total);
  } catch (const std::exception&) {  // bad_alloc, or length_error
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy of the ", total, " bytes that nodes keep from step to step"));
  }
  for (const auto& [data, bytes] : program_->states()) states_before_.insert(states_before_.end(), data, data + bytes);
  return absl::OkStatus();
}

void Executor::RestoreStates() {
  const char* before = states_before_.data();
  for (const auto& [data, bytes] : program_->states()) {
    CopyBytes(data, before, bytes);
    before += bytes;
  }
}

// Parts of a variable follow one another.
std::vector<std::string> Executor::ChangedVariables(std::vector<std::string>* perhaps) const {
  const VariableState& state = program_->variable_state();
  std::vector<std::string> changed;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!state.changed[i]) continue;
    const std::string& name = variables_[i]->name;
    if (changed.empty() || changed.back() != name) {
      changed.push_back(name);
      if (state.perhaps[i]) perhaps->push_back(name);
    } else if (!state.perhaps[i] && !perhaps->empty() && perhaps->back() == name) {
      perhaps->pop_back();
    }
  }
  return changed;
}

absl::Status Executor::DescribeFailure(const absl::Status& error, const std::vector<std::string>& changed, const std::vector<std::string>& perhaps) {
  const auto some_of = [](const std::vector<std::string>& names) {
    const size_t shown = std::min<size_t>(names.size(), 10);
    std::string some = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
    if (shown < names.size()) absl::StrAppend(&some, " and ", names.size() - shown, " more");
    return some;
  };
  std::string note = "; no variable has changed";
  if (!changed.empty()) note = absl::StrCat("; changed already by this step: ", some_of(changed));
  if (!perhaps.empty()) absl::StrAppend(&note, " (perhaps not: ", some_of(perhaps), ")");
  return WithMessage(error, absl::StrCat(error.message(), note));
}

void Executor::BeginVariables() {
  VariableState& state = program_->variable_state();
  for (size_t i = 0; i < variables_.size(); ++i) {
    state.initialized[i] = variables_[i]->initialized;
    state.changed[i] = state.perhaps[i] = false;
    const Resident* const on_device = resident(i);
    state.at_home[i] = on_device == nullptr ? !dirty_[i] : !on_device->newer;
  }
}

absl::StatusOr<std::vector<Tensor>> Executor::MakeFetches() const {
  std::vector<Tensor> fetched;
  for (const PlanFetch& fetch : plan().fetches) {
    try {
      // Of a constant's bytes the caller gets a copy.
      fetched.push_back(copies(fetch) ? Tensor(fetch.type.dtype, fetch.type.shape) : CopyOf(fetch.value));
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for fetch '", fetch.name, "' of ", fetch.type.size_bytes(), " bytes"));
    }
  }
  return fetched;
}

void Executor::ShrinkFetches(std::vector<Tensor>& fetched) const {
  for (size_t i = 0; i < fetched.size(); ++i) {
    const Shape& shape = program_->fetch_shape(static_cast<int32_t>(i));
    if (!copies(plan().fetches[i]) || shape == fetched[i].shape()) continue;
    Tensor smaller(fetched[i].dtype(), shape);
    CopyBytes(smaller.mutable_data(), fetched[i].data(), smaller.size_bytes());
    fetched[i] = std::move(smaller);
  }
}

void Executor::AddResidents(StepStats& stats) const {
  // An engine of one device may give its peak alone.
  if (stats.device_peak_bytes.empty()) stats.device_peak_bytes = {stats.peak_device_bytes};
  stats.device_peak_bytes.resize(resident_end_.size(), 0);
  stats.peak_device_bytes = 0;
  for (size_t d = 0; d < resident_end_.size(); ++d) {
    stats.device_peak_bytes[d] = std::max(stats.device_peak_bytes[d], resident_end_[d]);
    stats.peak_device_bytes += stats.device_peak_bytes[d];
  }
  stats.peak_host_bytes = std::max(stats.peak_host_bytes, pool_end_);
  stats.peak_host_bytes += context_.host->home_bytes() + constant_bytes_;
}

absl::Status Executor::RunStep(absl::Span<const Tensor> feeds, std::vector<Tensor>* fetches, StepStats* stats) {
  const bool has_data = context_.devices[0]->has_data();
  if (has_data) {
    MR_RETURN_IF_ERROR(CheckFeeds(feeds));
    MR_RETURN_IF_ERROR(CheckVariables());
  }
  MR_RETURN_IF_ERROR(Activate());
  BeginVariables();
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> fetched, MakeFetches());
  std::vector<const void*> feed_data;
  for (const Tensor& feed : feeds) feed_data.push_back(feed.data());
  std::vector<void*> fetch_data;
  for (size_t i = 0; i < fetched.size(); ++i) fetch_data.push_back(copies(plan().fetches[i]) ? fetched[i].mutable_data() : nullptr);

  MR_RETURN_IF_ERROR(KeepStates());
  StepStats measured;
  const absl::Status status = engine_->RunStep({feed_data, fetch_data, recording_}, &measured);
  if (has_data) CommitVariables();
  if (!status.ok()) {
    for (DevicePlaces& places : places_) places_are_stale_ = places.ForgetWhatLeaves(context_.variables->residents()) || places_are_stale_;
    RestoreStates();
    std::vector<std::string> perhaps, changed = ChangedVariables(&perhaps);
    const absl::Status described = options_.undone ? DescribeFailure(status, {}, {}) : DescribeFailure(status, changed, perhaps);
    if (stats != nullptr) stats->changed_variables = std::move(changed);
    return described;
  }

  ShrinkFetches(fetched);
  if (fetches != nullptr) *fetches = std::move(fetched);
  AddResidents(measured);
  if (stats != nullptr) *stats = std::move(measured);
  return absl::OkStatus();
}

}  // namespace millrace
