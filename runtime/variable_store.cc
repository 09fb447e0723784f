#include "runtime/variable_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "runtime/disk_tier.h"

namespace millrace {
namespace {

absl::Status CheckType(const StoredVariable& variable, const TensorType& type, const char* what) {
  if (variable.type == type) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("variable '", variable.name, "' is ", variable.type.ToString(), "; ",
                                                 what, " ", type.ToString()));
}

absl::Status CheckHasHome(const std::string& name, const TensorType& type) {
  if (type.shape.fully_known() && DataTypeSize(type.dtype) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' has type ", type.ToString(),
                                                 ", expected a known shape and a numeric element type"));
}

// An empty tensor may have no memory at all.
void CopyBytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

absl::StatusOr<StoredVariable*> VariableStore::Declare(const std::string& name, const TensorType& type) {
  auto it = variables_.find(name);
  if (it != variables_.end()) {
    MR_RETURN_IF_ERROR(CheckType(*it->second, type, "this graph declares it as"));
    it->second->declared = true;
    return it->second.get();
  }
  MR_ASSIGN_OR_RETURN(StoredVariable * made, Make(name, type));
  made->declared = true;
  return made;
}

absl::StatusOr<StoredVariable*> VariableStore::Make(const std::string& name, const TensorType& type) {
  MR_RETURN_IF_ERROR(CheckHasHome(name, type));
  auto variable = std::make_unique<StoredVariable>();
  variable->name = name;
  variable->type = type;
  MR_RETURN_IF_ERROR(FindHome(*variable, type.size_bytes()));
  return variables_.emplace(name, std::move(variable)).first->second.get();
}

absl::Status VariableStore::FindHome(StoredVariable& variable, int64_t bytes) {
  const std::string what = absl::StrCat("variable '", variable.name, "'");
  if (disk_ == nullptr) {
    MR_ASSIGN_OR_RETURN(void* const home, memory_->AllocateHome(bytes, what));
    if (variable.home != nullptr) memory_->FreeHome(variable.home, variable.room_bytes);
    variable.home = home;
  } else {
    int64_t places[2];
    for (int64_t& place : places) {
      MR_ASSIGN_OR_RETURN(place, disk_->Reserve(bytes, what));
    }
    std::copy(std::begin(places), std::end(places), variable.disk_offsets);
  }
  variable.room_bytes = bytes;
  return absl::OkStatus();
}

absl::Status VariableStore::ReadHome(const StoredVariable& variable,
                                     absl::FunctionRef<absl::Status(const void*, int64_t, int64_t)> take) {
  const int64_t bytes = variable.type.size_bytes();
  if (bytes == 0) return absl::OkStatus();
  if (disk_ == nullptr) return take(variable.home, 0, bytes);
  return disk_->ReadPieces(variable.disk_offsets[variable.disk_place], bytes, take);
}

absl::Status VariableStore::WriteHome(StoredVariable& variable,
                                      absl::FunctionRef<absl::Status(void*, int64_t, int64_t)> fill) {
  const int64_t bytes = variable.type.size_bytes();
  if (bytes == 0) return absl::OkStatus();
  if (disk_ == nullptr) return fill(variable.home, 0, bytes);
  MR_RETURN_IF_ERROR(disk_->WritePieces(variable.disk_offsets[1 - variable.disk_place], bytes, fill));
  variable.disk_place = 1 - variable.disk_place;
  return absl::OkStatus();
}

absl::Status VariableStore::ReadPart(const StoredVariable& variable, int64_t offset, int64_t bytes,
                                     absl::FunctionRef<absl::Status(const void*, int64_t, int64_t)> take) {
  if (bytes == variable.type.size_bytes()) return ReadHome(variable, take);
  return take(static_cast<const char*>(variable.home) + offset, 0, bytes);
}

absl::Status VariableStore::WritePart(StoredVariable& variable, int64_t offset, int64_t bytes,
                                      absl::FunctionRef<absl::Status(void*, int64_t, int64_t)> fill) {
  if (bytes == variable.type.size_bytes()) return WriteHome(variable, fill);
  return fill(static_cast<char*>(variable.home) + offset, 0, bytes);
}

const StoredVariable* VariableStore::Find(const std::string& name) const {
  auto it = variables_.find(name);
  return it == variables_.end() ? nullptr : it->second.get();
}

absl::StatusOr<VariableStore::State*> VariableStore::StateOf(const std::string& node, int64_t bytes) {
  State& state = states_[node];
  if (state.data == nullptr || state.bytes != bytes) {
    absl::StatusOr<void*> data = memory_->AllocateHome(bytes, absl::StrCat("the state of node '", node, "'"));
    if (!data.ok() && state.data == nullptr) states_.erase(node);
    MR_RETURN_IF_ERROR(data.status());
    if (state.data != nullptr) memory_->FreeHome(state.data, state.bytes);
    state = {*data, bytes, false};
  }
  return &state;
}

absl::StatusOr<void*> VariableStore::StateBlock(const std::string& node, int64_t bytes) {
  const auto set = states_.find(node);
  if (set != states_.end() && set->second.bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("node '", node, "' keeps ", bytes, " bytes of state, but ",
                                                   set->second.asked_for ? "had " : "was set to ", set->second.bytes,
                                                   set->second.asked_for ? " in an earlier plan" : ""));
  }
  MR_ASSIGN_OR_RETURN(State* state, StateOf(node, bytes));
  state->asked_for = true;
  return state->data;
}

std::map<std::string, Tensor> VariableStore::ReadStates() const {
  std::map<std::string, Tensor> values;
  for (const auto& [node, state] : states_) {
    Tensor value(DataType::kUint8, Shape({state.bytes}));
    CopyBytes(value.mutable_data(), state.data, state.bytes);
    values.emplace(node, std::move(value));
  }
  return values;
}

absl::Status VariableStore::SetState(const std::string& node, const Tensor& state) {
  if (state.dtype() != DataType::kUint8 || state.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state of node '", node, "' is ", state.type().ToString(), ", expected bytes, uint8[n]"));
  }
  const auto kept = states_.find(node);
  if (kept != states_.end() && kept->second.asked_for && kept->second.bytes != state.size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node '", node, "' keeps ", kept->second.bytes, " bytes of state, given are ", state.size_bytes()));
  }
  MR_ASSIGN_OR_RETURN(State* block, StateOf(node, state.size_bytes()));
  CopyBytes(block->data, state.data(), state.size_bytes());
  return absl::OkStatus();
}

std::map<std::string, TensorType> VariableStore::Types() const {
  std::map<std::string, TensorType> types;
  for (const auto& [name, variable] : variables_) {
    if (variable->initialized) types.emplace(name, variable->type);
  }
  return types;
}

absl::StatusOr<std::map<std::string, Tensor>> VariableStore::Read() {
  std::map<std::string, Tensor> values;
  MR_RETURN_IF_ERROR(ReadEach([&](const std::string& name, Tensor value) {
    values.emplace(name, std::move(value));
    return absl::OkStatus();
  }));
  return values;
}

absl::Status VariableStore::ReadEach(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take) {
  if (owner_ != nullptr) MR_RETURN_IF_ERROR(owner_->Flush());
  MR_RETURN_IF_ERROR(FlushDevices(nullptr));
  for (const auto& [name, variable] : variables_) {
    if (!variable->initialized) continue;
    MR_ASSIGN_OR_RETURN(Tensor value, CopyOf(*variable));
    MR_RETURN_IF_ERROR(take(name, std::move(value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> VariableStore::Read(const std::string& name) {
  if (owner_ != nullptr) MR_RETURN_IF_ERROR(owner_->Flush());
  const StoredVariable* const variable = Find(name);
  if (variable != nullptr) MR_RETURN_IF_ERROR(FlushDevices(variable));
  if (variable == nullptr || !variable->initialized) {
    return absl::FailedPreconditionError(absl::StrCat("variable '", name, "' has no value"));
  }
  return CopyOf(*variable);
}

absl::StatusOr<Tensor> VariableStore::CopyOf(const StoredVariable& variable) {
  Tensor value(variable.type.dtype, variable.type.shape);
  char* const data = static_cast<char*>(value.mutable_data());
  MR_RETURN_IF_ERROR(ReadHome(variable, [&](const void* piece, int64_t at, int64_t size) {
    CopyBytes(data + at, piece, size);
    return absl::OkStatus();
  }));
  return value;
}

absl::Status VariableStore::BringHome(const StoredVariable& variable) {
  MR_RETURN_IF_ERROR(Release());
  LostValues lost;
  residents_.RemoveAllOf(variable, [](const Resident&) { return false; }, lost);
  return lost.status();
}

absl::Status VariableStore::FlushDevices(const StoredVariable* variable) {
  LostValues lost;
  residents_.Flush(variable, lost);
  return lost.status();
}

absl::Status VariableStore::Clear(const std::string& name) {
  const auto it = variables_.find(name);
  if (it == variables_.end() || !it->second->initialized) return absl::OkStatus();
  MR_RETURN_IF_ERROR(BringHome(*it->second));
  it->second->initialized = false;
  return absl::OkStatus();
}

absl::Status VariableStore::Set(const std::string& name, const Tensor& value) {
  const auto it = variables_.find(name);
  StoredVariable* variable = it == variables_.end() ? nullptr : it->second.get();
  if (variable != nullptr && variable->type != value.type() && !variable->declared) return Replace(name, value);
  if (variable != nullptr) MR_RETURN_IF_ERROR(CheckType(*variable, value.type(), "the value given is"));
  if (variable == nullptr) {
    MR_ASSIGN_OR_RETURN(variable, Make(name, value.type()));
  }
  MR_RETURN_IF_ERROR(BringHome(*variable));
  const char* const data = static_cast<const char*>(value.data());
  MR_RETURN_IF_ERROR(WriteHome(*variable, [&](void* piece, int64_t at, int64_t size) {
    CopyBytes(piece, data + at, size);
    return absl::OkStatus();
  }));
  variable->initialized = true;
  return absl::OkStatus();
}

absl::Status VariableStore::Replace(const std::string& name, const Tensor& value) {
  const auto it = variables_.find(name);
  if (it != variables_.end() && it->second->type != value.type()) {
    MR_RETURN_IF_ERROR(CheckHasHome(name, value.type()));
    StoredVariable& variable = *it->second;
    MR_RETURN_IF_ERROR(BringHome(variable));
    if (value.size_bytes() > variable.room_bytes) MR_RETURN_IF_ERROR(FindHome(variable, value.size_bytes()));
    variable.type = value.type();
    variable.initialized = variable.declared = false;
  }
  return Set(name, value);
}

absl::Status VariableStore::Acquire(PoolOwner* owner) {
  if (owner_ != owner) MR_RETURN_IF_ERROR(Release());
  owner_ = owner;
  return owner == nullptr ? FlushDevices(nullptr) : absl::OkStatus();
}

absl::Status VariableStore::Release() {
  if (owner_ == nullptr) return absl::OkStatus();
  const absl::Status flushed = owner_->Flush();
  owner_->Deactivate();
  owner_ = nullptr;
  return flushed;
}

absl::Status VariableStore::LeaveDevices() {
  MR_RETURN_IF_ERROR(Release());
  return residents_.RemoveAll();
}

}  // namespace millrace
