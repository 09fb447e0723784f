#include "testlib/plan_builder.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace millrace::testing {
namespace {

template <typename T>
int32_t IndexOf(const std::vector<T>& list, const std::string& name) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return static_cast<int32_t>(i);
  }
  LOG(FATAL) << "the test's plan has no '" << name << "'";
}

}  // namespace

TensorType Floats(int64_t elements) { return {DataType::kFloat, Shape({elements})}; }

PlanBuilder::PlanBuilder(int64_t arena_bytes) {
  plan_.strategy = "test";
  plan_.devices.push_back({});
  plan_.devices[0].name = "test:0";
  plan_.devices[0].arena_bytes = arena_bytes;
  plan_.devices[0].num_partitions = 1;
  for (LaneKind kind : {LaneKind::kCompute, LaneKind::kToHost, LaneKind::kToDevice}) {
    plan_.lanes.push_back({});
    plan_.lanes.back().kind = kind;
  }
}

void PlanBuilder::Feed(const std::string& name, int64_t elements) { plan_.feeds.push_back({name, Floats(elements)}); }

void PlanBuilder::Fetch(const std::string& name, int64_t elements) {
  plan_.fetches.push_back({name, Floats(elements), Tensor()});
}

int32_t PlanBuilder::Variable(const std::string& name, int64_t elements, int64_t resident_offset) {
  PlanVariable variable;
  variable.name = name;
  variable.type = Floats(elements);
  variable.resident_offset = resident_offset;
  plan_.variables.push_back(variable);
  if (resident_offset != kNoAddress) owner_at_[resident_offset] = name;
  return static_cast<int32_t>(plan_.variables.size()) - 1;
}

void PlanBuilder::Constant(const std::string& name, const std::vector<float>& values, int64_t resident_offset) {
  plan_.constants.push_back({name, Tensor::Vector<float>(values), 0, resident_offset});
  if (resident_offset != kNoAddress) owner_at_[resident_offset] = name;
}

HostRef PlanBuilder::FeedRef(const std::string& name) const {
  return {HostRef::Kind::kFeed, IndexOf(plan_.feeds, name), 0};
}
HostRef PlanBuilder::FetchRef(const std::string& name) const {
  return {HostRef::Kind::kFetch, IndexOf(plan_.fetches, name), 0};
}
HostRef PlanBuilder::VariableRef(const std::string& name) const {
  return {HostRef::Kind::kVariable, IndexOf(plan_.variables, name), 0};
}
HostRef PlanBuilder::ConstantRef(const std::string& name) const {
  return {HostRef::Kind::kConstant, IndexOf(plan_.constants, name), 0};
}

int32_t PlanBuilder::Owner(const std::string& name) {
  const auto it = std::find(plan_.tensors.begin(), plan_.tensors.end(), name);
  if (it != plan_.tensors.end()) return static_cast<int32_t>(it - plan_.tensors.begin());
  plan_.tensors.push_back(name);
  return static_cast<int32_t>(plan_.tensors.size()) - 1;
}

ComputeStep& PlanBuilder::Compute(const std::string& name, const std::string& op, const std::vector<At>& inputs,
                                  const std::vector<At>& outputs, StepWaits waits, double seconds) {
  OpInstance instance;
  instance.name = name;
  instance.op = op;
  ComputeStep step;
  step.instance = static_cast<int32_t>(plan_.instances.size());
  for (const At& at : inputs) {
    instance.inputs.push_back(Floats(at.elements));
    step.inputs.push_back(at.offset);
    const std::string owner = at.owner.empty() ? owner_at_[at.offset] : at.owner;
    step.input_owners.push_back(at.offset == kNoAddress || owner.empty() ? -1 : Owner(owner));
  }
  for (const At& at : outputs) {
    instance.outputs.push_back(Floats(at.elements));
    step.outputs.push_back(at.offset);
    const std::string owner =
        at.owner.empty() ? absl::StrCat(name, ":", step.output_owners.size()) : at.owner;
    step.output_owners.push_back(at.offset == kNoAddress ? -1 : Owner(owner));
    owner_at_[at.offset] = owner;
  }
  step.position = position_++;
  step.waits = std::move(waits);
  step.predicted_seconds = seconds;
  plan_.instances.push_back(std::move(instance));
  plan_.lanes[kCompute].compute.push_back(std::move(step));
  return plan_.lanes[kCompute].compute.back();
}

CopyStep& PlanBuilder::Copy(int32_t lane, const std::string& tensor, HostRef host, int64_t offset, int64_t bytes,
                            StepWaits waits, double seconds) {
  CopyStep step;
  step.tensor = tensor;
  step.name = tensor.substr(0, tensor.find(':')) + (lane == kToHost ? "_out" : "_in");
  step.bytes = bytes;
  step.device_offset = offset;
  step.host = host;
  step.position = position_++;
  step.waits = std::move(waits);
  step.predicted_seconds = seconds;
  if (lane == kToHost && host.kind == HostRef::Kind::kVariable) step.writes_variable = host.index;
  if (lane == kToDevice) owner_at_[offset] = tensor;
  plan_.lanes[lane].copies.push_back(std::move(step));
  return plan_.lanes[lane].copies.back();
}

CopyStep& PlanBuilder::In(const std::string& tensor, HostRef from, int64_t offset, int64_t bytes,
                          StepWaits waits, double seconds) {
  return Copy(kToDevice, tensor, from, offset, bytes, std::move(waits), seconds);
}

CopyStep& PlanBuilder::Out(const std::string& tensor, int64_t offset, int64_t bytes, HostRef to,
                           StepWaits waits, double seconds) {
  return Copy(kToHost, tensor, to, offset, bytes, std::move(waits), seconds);
}

ExecutionPlan PlanBuilder::Build() {
  plan_.host_pool_bytes = plan_.bytes_to_host = plan_.bytes_to_device = 0;
  for (const Lane& lane : plan_.lanes) {
    for (const CopyStep& copy : lane.copies) {
      (lane.kind == LaneKind::kToHost ? plan_.bytes_to_host : plan_.bytes_to_device) += copy.bytes;
      if (copy.host.kind != HostRef::Kind::kPool) continue;
      plan_.host_pool_bytes = std::max(plan_.host_pool_bytes, AlignUp(copy.host.offset_bytes + copy.bytes));
    }
  }
  plan_.host_bytes = plan_.host_pool_bytes;
  for (const PlanVariable& variable : plan_.variables) plan_.host_bytes += AlignUp(variable.type.size_bytes());
  for (const PlanConstant& constant : plan_.constants) plan_.host_bytes += AlignUp(constant.value.size_bytes());
  plan_.counts.nodes = plan_.lanes[kCompute].num_steps();
  return plan_;
}

}  // namespace millrace::testing
