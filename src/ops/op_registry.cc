#include "millrace/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/guard.h"
#include "ops/register.h"

namespace millrace {

void InferenceContext::AddOutput(DataType dtype, Shape shape) {
  // Most shapes are an input's, and then share its memory.
  constexpr size_t kLooks = 2;
  for (size_t i = 0; i < std::min(inputs_.size(), kLooks); ++i) {
    if (inputs_[i].shape == shape) {
      shape = inputs_[i].shape;
      break;
    }
  }
  outputs_.push_back({dtype, std::move(shape)});
}

absl::Status InferenceContext::Error(std::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat("node '", std::string(node_name_), "' (", std::string(op_), "): ", std::string(message)));
}

absl::Status InferenceContext::ExpectInputs(int count) const {
  if (num_inputs() == count + (attrs().GetOr(kGuarded, false) ? 1 : 0)) return absl::OkStatus();
  return Error(absl::StrCat("has ", num_inputs(), " inputs, expected ", count));
}

absl::Status InferenceContext::ExpectInputsRead() const {
  if (!missing_input_.has_value()) return absl::OkStatus();
  return Error(absl::StrCat("has ", num_inputs(), " inputs, expected an input ", *missing_input_));
}

const TensorType& InferenceContext::NoInput() {
  static const TensorType& none = *new TensorType{DataType::kInvalid, Shape({})};
  return none;
}

absl::Status OpDef::InferShapes(InferenceContext& context) const {
  absl::Status ruled = WithoutExceptions([&] { return shape(context); });
  if (absl::IsInternal(ruled)) {
    ruled = absl::InternalError(absl::StrCat("node '", std::string(context.node_name()), "' (", std::string(context.op()),
                                             "): the shape rule ", ruled.message()));
  }
  const absl::Status read = context.ExpectInputsRead();
  if (!read.ok() || !ruled.ok()) return read.ok() ? ruled : read;
  const int count = static_cast<int>(context.outputs().size());
  for (int output : context.bound_outputs()) {
    if (output < 0 || output >= count) return context.Error(absl::StrCat("marks a bound of output ", output, ", has ", count, " outputs"));
  }
  return absl::OkStatus();
}

const OpRegistry& OpRegistry::Builtin() {
  static const OpRegistry& registry = *[] {
    auto* built = new OpRegistry();
    RegisterBuiltinOps(*built);
    return built;
  }();
  return registry;
}

absl::Status OpRegistry::Register(OpDef def) {
  auto shared = std::make_shared<const OpDef>(std::move(def));
  if (!defs_.emplace(shared->name, shared).second) {
    return absl::AlreadyExistsError(absl::StrCat("op '", shared->name, "' is registered twice"));
  }
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  // Looked for a million times in a large graph: the key keeps its memory.
  static thread_local std::string key;
  key.assign(name);
  auto it = defs_.find(key);
  return it == defs_.end() ? nullptr : it->second.get();
}

std::vector<std::string> OpRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, def] : defs_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
