// Trees of elementwise ops (_Fused): the ops' own kernels, one after another, with what passes between them in scratch
// memory. So the bits are those of the ops as nodes.
#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

struct FusedOp {
  OpInstance instance;
  std::unique_ptr<Kernel> kernel;
  std::vector<int64_t> operands;  // input i of the node, or -1 - k for the result of op k
  int slot = 0;                   // of temporaries
};

class FusedKernel final : public Kernel {
 public:
  absl::Status Prepare(const KernelRegistry& registry, const OpInstance& node) {
    MR_ASSIGN_OR_RETURN(const auto refs, node.attrs.Get<std::vector<FunctionRef>>("ops"));
    MR_ASSIGN_OR_RETURN(const auto operands, node.attrs.Get<std::vector<int64_t>>("operands"));
    MR_ASSIGN_OR_RETURN(const auto types, node.attrs.Get<std::vector<DataType>>("types"));
    if (types.size() != refs.size() || refs.empty()) return absl::InvalidArgumentError("ops and types differ in number");
    const Shape& shape = node.outputs[0].shape;
    ops_.resize(refs.size());
    size_t at = 0;
    for (size_t k = 0; k < refs.size(); ++k) {
      FusedOp& op = ops_[k];
      const int64_t count = at < operands.size() ? operands[at++] : 0;
      for (int64_t i = 0; i < count && at < operands.size(); ++i) op.operands.push_back(operands[at++]);
      op.instance.name = node.name;
      op.instance.op = refs[k].name;
      if (refs[k].attrs != nullptr) op.instance.attrs = *refs[k].attrs;
      for (int64_t operand : op.operands) {
        if (operand >= static_cast<int64_t>(node.inputs.size()) || operand < -static_cast<int64_t>(k)) {
          return absl::InvalidArgumentError(absl::StrCat("op ", k, " has no operand ", operand));
        }
        op.instance.inputs.push_back(operand >= 0 ? node.inputs[operand] : TensorType{types[-1 - operand], shape});
      }
      op.instance.outputs.push_back({types[k], shape});
      const KernelFactory* factory = registry.Find(op.instance.op);
      if (factory == nullptr) return Refused(node, absl::StrCat("op ", op.instance.op));
      MR_ASSIGN_OR_RETURN(op.kernel, (*factory)(op.instance));
      if (op.kernel->scratch_bytes() > 0) return Refused(node, absl::StrCat("op ", op.instance.op, ", which needs scratch"));
      slot_bytes_ = std::max(slot_bytes_, AlignUp(op.instance.outputs[0].size_bytes()));
    }
    AssignSlots();
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override { return slots_ * slot_bytes_; }

  absl::Status Run(const KernelContext& context) const override {
    char* temporaries = static_cast<char*>(context.scratch);
    std::vector<void*> operands;
    for (const FusedOp& op : ops_) {
      operands.clear();
      for (int64_t operand : op.operands) {
        operands.push_back(operand >= 0 ? context.inputs[operand] : temporaries + ops_[-1 - operand].slot * slot_bytes_);
      }
      // The output may be the memory of an input that an operand repeats over: the last op writes it element by element
      // from operands of the same element, or from rows and scalars that are other memory.
      void* result = &op == &ops_.back() ? context.outputs[0] : temporaries + op.slot * slot_bytes_;
      KernelContext inner = context;
      inner.instance = &op.instance;
      inner.inputs = operands.data();
      inner.outputs = &result;
      inner.scratch = nullptr;
      MR_RETURN_IF_ERROR(op.kernel->Run(inner));
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
    for (size_t k = 0; k + 1 < ops_.size(); ++k) {
      auto slot = std::find_if(busy_until.begin(), busy_until.end(), [&](size_t until) { return until < k; });
      if (slot == busy_until.end()) slot = busy_until.insert(slot, 0);
      *slot = std::max(last_use[k], k);
      ops_[k].slot = static_cast<int>(slot - busy_until.begin());
    }
    slots_ = static_cast<int64_t>(busy_until.size());
  }

  std::vector<FusedOp> ops_;
  int64_t slots_ = 0, slot_bytes_ = 0;
};

}  // namespace

void RegisterFused(KernelRegistry& registry, DeviceServices& services) {
  auto ops = std::make_shared<KernelRegistry>();
  RegisterElementwise(*ops, services);
  const absl::Status added =
      registry.Register("_Fused", [ops](const OpInstance& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        auto kernel = std::make_unique<FusedKernel>();
        MR_RETURN_IF_ERROR(kernel->Prepare(*ops, node));
        return kernel;
      });
  CHECK(added.ok()) << added;
}

}  // namespace millrace::cuda
