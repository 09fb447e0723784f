// SparseApply* and ResourceSparseApply*: updates of the rows that the indices name, in the order of the indices.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/optimizer.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_indices.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeSparseApply(const OpInstance& instance, const UpdateRule& rule) {
  MR_ASSIGN_OR_RETURN(BoundUpdate update, BoundUpdate::Create(instance, rule, /*sparse=*/true));
  MR_ASSIGN_OR_RETURN(const RowIndices indices,
                      RowIndices::Create(instance, rule.gradient + 1, instance.inputs[0].shape));
  return MakeKernel([update = std::move(update), indices](const KernelContext& context) {
    MR_RETURN_IF_ERROR(indices.Check(context));
    const BoundUpdate::Scalars scalars = update.ReadScalars(context);
    const BoundUpdate::Pointers slots = update.SlotPointers(context);
    const char* gradient = context.input<char>(update.gradient_input());
    const int64_t n = indices.row_elements();
    indices.ForEach(context, [&](int64_t row, int64_t i) { update.Run(slots, row * n, gradient, i * n, scalars, n); });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSparseOptimizerKernels(KernelRegistry& registry) {
  for (const UpdateRule& rule : UpdateRules()) {
    if (!rule.sparse) continue;
    for (const char* prefix : {"ResourceSparseApply", "SparseApply"}) {
      if (!rule.reference && prefix[0] == 'S') continue;
      AddKernel(registry, absl::StrCat(prefix, rule.name),
                [&rule](const OpInstance& instance) { return MakeSparseApply(instance, rule); });
    }
  }
}

}  // namespace millrace::cpu
