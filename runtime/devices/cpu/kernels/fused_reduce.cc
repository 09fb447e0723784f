// Groups of elementwise ops with reductions of what they compute (graph/fused_reduce.h): the group into its outputs and scratch
// memory, the reductions from there, so that both have the bits that they have apart.
#include <algorithm>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/fused.h"
#include "cpu/kernels/register.h"
#include "graph/fused_reduce.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

class FusedReduceKernel final : public Kernel {
 public:
  absl::Status Prepare(const OpInstance& instance) {
    MR_ASSIGN_OR_RETURN(apart_, TakenApart(instance));
    MR_ASSIGN_OR_RETURN(group_, MakeKernel(apart_.group));
    inner_bytes_ = group_->scratch_bytes();
    for (const GroupWithReductions::Reduced& reduced : apart_.reductions) {
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, MakeKernel(reduced.node));
      inner_bytes_ = std::max(inner_bytes_, kernel->scratch_bytes());
      reductions_.push_back(std::move(kernel));
    }
    inner_bytes_ = AlignUp(inner_bytes_);
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    int64_t bytes = inner_bytes_;
    for (size_t o = apart_.written; o < apart_.group.outputs.size(); ++o) bytes += AlignUp(apart_.group.outputs[o].size_bytes());
    return bytes;
  }

  absl::Status Run(const KernelContext& context) const override {
    std::vector<void*> results(context.outputs, context.outputs + apart_.written);
    char* between = static_cast<char*>(context.scratch) + inner_bytes_;
    for (size_t o = apart_.written; o < apart_.group.outputs.size(); ++o) {
      results.push_back(between);
      between += AlignUp(apart_.group.outputs[o].size_bytes());
    }
    // What is written may take the place of an input.
    MR_RETURN_IF_ERROR(Reduce(context, /*inputs=*/true, context.inputs));
    KernelContext inner = context;
    inner.instance = &apart_.group;
    inner.outputs = results.data();
    MR_RETURN_IF_ERROR(group_->Run(inner));
    return Reduce(context, /*inputs=*/false, results.data());
  }

 private:
  static absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const OpInstance& instance) {
    const KernelFactory* factory = OpKernels().Find(instance.op);
    if (factory == nullptr) return absl::UnimplementedError(absl::StrCat("no kernel of op '", instance.op, "' to fuse"));
    return (*factory)(instance);
  }

  absl::Status Reduce(const KernelContext& context, bool inputs, void* const* tensors) const {
    for (size_t r = 0; r < reductions_.size(); ++r) {
      const GroupWithReductions::Reduced& reduced = apart_.reductions[r];
      if (reduced.of_input != inputs) continue;
      void* operands[] = {tensors[reduced.operand], nullptr};  // the axes are known
      KernelContext inner = context;
      inner.instance = &reduced.node;
      inner.inputs = operands;
      inner.outputs = context.outputs + reduced.output;
      MR_RETURN_IF_ERROR(reductions_[r]->Run(inner));
    }
    return absl::OkStatus();
  }

  GroupWithReductions apart_;
  std::unique_ptr<Kernel> group_;
  std::vector<std::unique_ptr<Kernel>> reductions_;
  int64_t inner_bytes_ = 0;
};

}  // namespace

void RegisterFusedReductions(KernelRegistry& registry) {
  for (const char* op : {"_FusedReduce", "_FusedMapReduce"}) {
    AddKernel(registry, op, [](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      auto kernel = std::make_unique<FusedReduceKernel>();
      MR_RETURN_IF_ERROR(kernel->Prepare(instance));
      return kernel;
    });
  }
}

}  // namespace millrace::cpu
