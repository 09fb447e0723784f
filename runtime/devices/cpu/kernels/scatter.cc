// ScatterNd, its forms on tensors and variables, and SparseToDense.
#include "absl/strings/str_join.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/scatter_rows.h"
#include "cpu/kernels/strided_copy.h"
#include "cpu/kernels/values.h"
#include "graph/extremes_as_xla.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Where the result is and which inputs hold indices and updates.
struct ScatterForm {
  Combine combine;
  int indices, updates;
  enum class Target { kZeros, kCopyOfInput, kVariable } target;
  bool skips_bad = false;  // rows of indices that name no slice are left out
};

// The slice that every index row names, into scratch, -1 for one that is left out; checked before anything is written.
template <typename Index>
absl::Status ResolveTargets(const KernelContext& context, const NdLayout& layout, const ScatterForm& form, const Shape& sliced,
                            int64_t* targets) {
  const Index* indices = context.input<Index>(form.indices);
  if (!form.skips_bad) {
    MR_RETURN_IF_ERROR(CheckNdIndices(layout, indices, context.input_type(form.indices).shape, sliced));
  }
  for (int64_t r = 0; r < layout.rows; ++r) targets[r] = !form.skips_bad || layout.Inside(indices, r) ? layout.Row(indices, r) : -1;
  return absl::OkStatus();
}

// Every element of the tensors is `parts` of type T.
template <typename T>
KernelOr MakeScatterOf(const OpInstance& instance, const ScatterForm& form, int64_t parts = 1) {
  const bool zeros = form.target == ScatterForm::Target::kZeros;
  const Shape& sliced = zeros ? instance.outputs[0].shape : instance.inputs[0].shape;
  const int64_t elements = sliced.num_elements() * parts;
  NdLayout layout = MakeNdLayout(sliced, instance.inputs[form.indices].shape, sizeof(T) * parts);
  layout.slice_elements *= parts;
  return DispatchIndex(instance, form.indices, [&](auto tag) -> KernelOr {
    using Index = typename decltype(tag)::type;
    auto run = [layout, form, sliced, elements](const KernelContext& context) -> absl::Status {
      auto* targets = static_cast<int64_t*>(context.scratch);
      MR_RETURN_IF_ERROR(ResolveTargets<Index>(context, layout, form, sliced, targets));
      T* out = form.target == ScatterForm::Target::kVariable ? context.variable<T>(0) : context.output<T>(0);
      const int64_t bytes = elements * static_cast<int64_t>(sizeof(T));
      if (form.target == ScatterForm::Target::kZeros) FillZero(context, out, bytes);
      if (form.target == ScatterForm::Target::kCopyOfInput) CopyTensor(context, context.inputs[0], out, bytes);
      if (layout.slice_elements == 0) return absl::OkStatus();
      ScatterRows<T>(context, form.combine, targets, layout.rows, layout.slice_elements,
                     context.input<T>(form.updates), out, elements / layout.slice_elements);
      return absl::OkStatus();
    };
    return MakeKernel(std::move(run), layout.rows * static_cast<int64_t>(sizeof(int64_t)));
  });
}

KernelOr MakeScatter(const OpInstance& instance, ScatterForm form) {
  form.skips_bad = instance.attrs.GetOr<std::string>("bad_indices_policy", "") == "IGNORE";
  const DataType dtype = instance.inputs[form.updates].dtype;
  if (dtype == DataType::kBool) {  // adding is or, which is the greater byte
    if (form.combine == Combine::kAdd) form.combine = Combine::kMax;
    return MakeScatterOf<uint8_t>(instance, form);
  }
  const bool ordered = form.combine == Combine::kMax || form.combine == Combine::kMin;
  if (ordered && instance.attrs.GetOr(kExtremesAsXla, false)) form.combine = form.combine == Combine::kMax ? Combine::kMaxOrNan : Combine::kMinOrNan;
  return DispatchNumeric(instance, ordered ? dtype : PartOf(dtype), [&](auto tag) -> KernelOr {
    return MakeScatterOf<typename decltype(tag)::type>(instance, form, PartsOf(dtype));
  });
}

KernelFactory Factory(Combine combine, ScatterForm::Target target) {
  const bool zeros = target == ScatterForm::Target::kZeros;
  const ScatterForm form = {combine, zeros ? 0 : 1, zeros ? 1 : 2, target};
  return [form](const OpInstance& instance) { return MakeScatter(instance, form); };
}

// TensorFlow's rule for validated sparse indices: inside, in order, none twice.
absl::Status CheckSparseIndices(const NdLayout& layout, absl::Span<const int64_t> indices, const Shape& shape) {
  for (int64_t r = 0; r < layout.rows; ++r) {
    const auto row = indices.subspan(r * layout.depth, layout.depth);
    if (!layout.Inside(indices.data(), r)) {
      return absl::InvalidArgumentError(absl::StrCat("indices[", r, "] = [", absl::StrJoin(row, ","),
                                                     "] is out of bounds: need 0 <= index < ", shape.ToString()));
    }
    if (r == 0) continue;
    const auto before = indices.subspan((r - 1) * layout.depth, layout.depth);
    if (row == before) {
      return absl::InvalidArgumentError(
          absl::StrCat("indices[", r, "] = [", absl::StrJoin(row, ","), "] is repeated"));
    }
    if (std::lexicographical_compare(row.begin(), row.end(), before.begin(), before.end())) {
      return absl::InvalidArgumentError(
          absl::StrCat("indices[", r, "] = [", absl::StrJoin(row, ","), "] is out of order"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SparseToDense(const KernelContext& context, const NdLayout& layout, bool validate) {
  const Shape& shape = context.output_type(0).shape;
  MR_ASSIGN_OR_RETURN(const Ints indices, ValueReader(context).ints(0));
  if (validate) {
    MR_RETURN_IF_ERROR(CheckSparseIndices(layout, indices, shape));
  } else {
    MR_RETURN_IF_ERROR(CheckNdIndices(layout, indices.data(), Shape({layout.rows, layout.depth}), shape));
  }
  const T value = *context.input<T>(3);
  T* out = context.output<T>(0);
  ParallelRange(context, shape.num_elements(), kElementGrain,
                [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
  const T* values = context.input<T>(2);
  const bool one_value = context.input_type(2).shape.rank() == 0;
  for (int64_t r = 0; r < layout.rows; ++r) out[layout.Row(indices.data(), r)] = values[one_value ? 0 : r];
  return absl::OkStatus();
}

KernelOr MakeSparseToDense(const OpInstance& instance) {
  const Shape& indices = instance.inputs[0].shape;
  const Shape matrix = indices.rank() == 2   ? indices
                       : indices.rank() == 1 ? Shape({indices.dim(0), 1})
                                             : Shape({1, 1});
  const bool validate = instance.attrs.GetOr<bool>("validate_indices", true);
  return DispatchBySize(instance, instance.outputs[0].dtype, [&](auto tag) -> KernelOr {
    using T = typename decltype(tag)::type;
    const NdLayout layout = MakeNdLayout(instance.outputs[0].shape, matrix, sizeof(T));
    return MakeKernel(
        [layout, validate](const KernelContext& context) { return SparseToDense<T>(context, layout, validate); });
  });
}

}  // namespace

void RegisterScatterKernels(KernelRegistry& registry) {
  using Target = ScatterForm::Target;
  AddKernel(registry, "ScatterNd", Factory(Combine::kAdd, Target::kZeros));
  AddKernel(registry, "ScatterNdNonAliasingAdd", Factory(Combine::kAdd, Target::kCopyOfInput));
  const std::pair<const char*, Combine> forms[] = {{"Add", Combine::kAdd},
                                                   {"Sub", Combine::kSub},
                                                   {"Update", Combine::kAssign},
                                                   {"Max", Combine::kMax},
                                                   {"Min", Combine::kMin}};
  for (const auto& [name, combine] : forms) {
    AddKernel(registry, absl::StrCat("TensorScatter", name), Factory(combine, Target::kCopyOfInput));
    AddKernel(registry, absl::StrCat("ScatterNd", name), Factory(combine, Target::kVariable));
    AddKernel(registry, absl::StrCat("ResourceScatterNd", name), Factory(combine, Target::kVariable));
  }
  AddKernel(registry, "SparseToDense", MakeSparseToDense);
}

}  // namespace millrace::cpu
