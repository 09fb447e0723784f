// Groups of elementwise ops (_Fused): one kernel, compiled for the group where the device has a compiler, else one that reads
// the ops. What these do not cover (an AddN of too many) is run by the ops' own kernels, one after another, with what
// passes between them in scratch memory. All ways give the bits of the ops as nodes. The attributes: passes/rewrite/
// fused_writer.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/fused_program.h"
#include "cuda/kernels/fused_source.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeProgram(DeviceServices& services, const OpInstance& node,
                                                    const std::vector<FusedOp>& ops) {
  MR_ASSIGN_OR_RETURN(const FusedGroup group, ReadFusedGroup(node, ops));
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> compiled = services.CompileFusion(FusedSource(group.program, group.small));
  if (!compiled.ok() && !absl::IsUnimplemented(compiled.status())) return compiled.status();
  const std::shared_ptr<const CompiledFusion> kernel = compiled.ok() ? *compiled : nullptr;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) -> absl::Status {
    const FusedArguments arguments = group.Arguments(queue, context);
    if (kernel != nullptr) {
      const absl::Status launched = kernel->Launch(queue, arguments);
      if (!absl::IsUnimplemented(launched)) return launched;
    }
    LaunchFused(queue, group.program, arguments);
    return absl::OkStatus();
  });
}

class OpByOpKernel final : public Kernel {
 public:
  absl::Status Prepare(const KernelRegistry& registry, const OpInstance& node, std::vector<FusedOp> ops) {
    for (const char* attribute : {"results", "pitches", "spreads"}) {
      if (node.attrs.Has(attribute)) return Refused(node, absl::StrCat(attribute, " like these"));
    }
    ops_ = std::move(ops);
    for (FusedOp& op : ops_) {
      const KernelFactory* factory = registry.Find(op.instance.op);
      if (factory == nullptr) return Refused(node, absl::StrCat("op ", op.instance.op));
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, (*factory)(op.instance));
      if (kernel->scratch_bytes() > 0) return Refused(node, absl::StrCat("op ", op.instance.op, ", which needs scratch"));
      kernels_.push_back(std::move(kernel));
      slot_bytes_ = std::max(slot_bytes_, AlignUp(op.instance.outputs[0].size_bytes()));
    }
    AssignSlots();
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override { return slots_ * slot_bytes_; }

  absl::Status Run(const KernelContext& context) const override {
    char* temporaries = static_cast<char*>(context.scratch);
    std::vector<void*> operands;
    for (size_t k = 0; k < ops_.size(); ++k) {
      const FusedOp& op = ops_[k];
      operands.clear();
      for (int64_t operand : op.operands) {
        operands.push_back(operand >= 0 ? context.inputs[operand] : temporaries + slot_[-1 - operand] * slot_bytes_);
      }
      // The output may be the memory of an input that an operand repeats over: the last op writes it element by element
      // from operands of the same element, or from rows and scalars that are other memory.
      void* result = k + 1 == ops_.size() ? context.outputs[0] : temporaries + slot_[k] * slot_bytes_;
      KernelContext inner = context;
      inner.instance = &op.instance;
      inner.inputs = operands.data();
      inner.outputs = &result;
      inner.scratch = nullptr;
      MR_RETURN_IF_ERROR(kernels_[k]->Run(inner));
    }
    return absl::OkStatus();
  }

 private:
  // A temporary is free again after the last op that takes it. The last op writes the output.
  void AssignSlots() {
    std::vector<size_t> last_use(ops_.size(), 0);
    for (size_t k = 0; k < ops_.size(); ++k) {
      for (int64_t operand : ops_[k].operands) {
        if (operand < 0) last_use[-1 - operand] = k;
      }
    }
    std::vector<size_t> busy_until;
    slot_.assign(ops_.size(), 0);
    for (size_t k = 0; k + 1 < ops_.size(); ++k) {
      auto slot = std::find_if(busy_until.begin(), busy_until.end(), [&](size_t until) { return until < k; });
      if (slot == busy_until.end()) slot = busy_until.insert(slot, 0);
      *slot = std::max(last_use[k], k);
      slot_[k] = slot - busy_until.begin();
    }
    slots_ = static_cast<int64_t>(busy_until.size());
  }

  std::vector<FusedOp> ops_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<int64_t> slot_;  // of temporaries, per op
  int64_t slots_ = 0, slot_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeGroup(DeviceServices& services, const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(std::vector<FusedOp> ops, ReadFusedOps(node));
  absl::StatusOr<std::unique_ptr<Kernel>> program = MakeProgram(services, node, ops);
  if (program.ok() || !absl::IsUnimplemented(program.status())) return program;
  KernelRegistry kernels;
  RegisterElementwise(kernels, services);
  auto one_by_one = std::make_unique<OpByOpKernel>();
  MR_RETURN_IF_ERROR(one_by_one->Prepare(kernels, node, std::move(ops)));
  return one_by_one;
}

void RegisterFused(KernelRegistry& registry, DeviceServices& services) {
  const absl::Status added =
      registry.Register("_Fused", [&services](const OpInstance& node) { return MakeGroup(services, node); });
  CHECK(added.ok()) << added;
}

}  // namespace millrace::cuda
