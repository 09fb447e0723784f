#include "cpu/kernels/guarded.h"

#include <cstring>
#include <utility>

#include "cpu/kernels/values.h"
#include "millrace/guard.h"

namespace millrace::cpu {
namespace {

class GuardedKernel final : public Kernel {
 public:
  GuardedKernel(OpInstance node, std::unique_ptr<Kernel> kernel) : node_(std::move(node)), kernel_(std::move(kernel)) {}

  int64_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

  absl::Status Run(const KernelContext& context) const override {
    if (*static_cast<const bool*>(ValueReader(context).data(static_cast<int>(node_.inputs.size())))) {
      OpInstance node = node_;
      node.name = context.instance->name;  // the kernel is shared, and random ops without seeds draw by their names
      KernelContext inner = context;
      inner.instance = &node;
      return kernel_->Run(inner);
    }
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      const int64_t bytes = node_.outputs[i].size_bytes();
      if (node_.op != "Print") {
        std::memset(context.outputs[i], 0, bytes);
      } else if (context.outputs[i] != context.inputs[0]) {
        std::memcpy(context.outputs[i], context.inputs[0], bytes);
      }
    }
    return absl::OkStatus();
  }

 private:
  OpInstance node_;  // without the guard; of the node that the kernel was made for
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

KernelFactory Guarded(KernelFactory factory) {
  return [factory = std::move(factory)](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    if (!instance.attrs.GetOr(kGuarded, false)) return factory(instance);
    OpInstance node = instance;
    node.inputs.pop_back();
    if (node.input_values.size() > node.inputs.size()) node.input_values.resize(node.inputs.size());
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(node));
    return std::make_unique<GuardedKernel>(std::move(node), std::move(kernel));
  };
}

}  // namespace millrace::cpu
