// Scatter* on references and resources: rows of a variable replaced by, or joined with, rows of updates.
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/binary.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/row_indices.h"
#include "millrace/status.h"

namespace millrace::cpu {

namespace {

class ScatterKernel final : public Kernel {
 public:
  // Without a loop, rows are replaced.
  ScatterKernel(std::optional<ConvertedLoop> loop, const RowIndices& indices, DataType dtype, bool one_update,
                bool refuses_zero)
      : loop_(loop),
        indices_(indices),
        bytes_(DataTypeSize(dtype)),
        one_update_(one_update),
        refuses_zero_(refuses_zero) {}

  absl::Status Run(const KernelContext& context) const override {
    const int64_t row_elements = indices_.row_elements(), row_bytes = row_elements * bytes_;
    const char* updates = context.input<char>(2);
    MR_RETURN_IF_ERROR(indices_.Check(context));
    if (refuses_zero_ && AnyZero(updates, bytes_, one_update_ ? 1 : indices_.count() * row_elements)) {
      return absl::InvalidArgumentError("Integer division by zero");
    }
    char* variable = context.variable<char>(0);
    indices_.ForEach(context, [&](int64_t row, int64_t i) {
      char* at = variable + row * row_bytes;
      const char* update = one_update_ ? updates : updates + i * row_bytes;
      if (loop_.has_value()) {
        loop_->Run(one_update_ ? BinaryMode::kVectorScalar : BinaryMode::kVectorVector, at, update, at, row_elements);
      } else if (one_update_) {
        for (int64_t k = 0; k < row_elements; ++k) std::memcpy(at + k * bytes_, update, bytes_);
      } else {
        std::memcpy(at, update, row_bytes);
      }
    });
    return absl::OkStatus();
  }

 private:
  std::optional<ConvertedLoop> loop_;
  RowIndices indices_;
  int64_t bytes_;
  bool one_update_;  // a scalar for all rows
  bool refuses_zero_;
};

struct ScatterOp {
  const char* name;
  BinaryLoops (*loops)();  // null: replaces
  bool refuses_zero = false;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeScatter(const OpInstance& instance, const ScatterOp& op) {
  const DataType dtype = instance.inputs[0].dtype;
  const Shape& variable = instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const RowIndices indices, RowIndices::Create(instance, 1, variable));
  std::optional<ConvertedLoop> loop;
  if (op.loops != nullptr) {
    BinaryLoop of_type = IsComplex(dtype) ? ComplexLoop(op.name, dtype) : op.loops().For(WideningOf(dtype).compute);
    if (of_type == nullptr) return UnsupportedType(instance, dtype);
    loop = ConvertedLoop(of_type, dtype, /*compares=*/false);
  } else if (DataTypeSize(dtype) == 0) {
    return UnsupportedType(instance, dtype);
  }
  const bool one_update = instance.inputs[2].shape.rank() == 0;
  return std::make_unique<ScatterKernel>(loop, indices, dtype, one_update, op.refuses_zero && IsInteger(dtype));
}

constexpr ScatterOp kScatterOps[] = {{"Update", nullptr},   {"Add", &AddLoops},       {"Sub", &SubLoops},
                                     {"Mul", &MulLoops},    {"Div", &DivLoops, true}, {"Max", &MaximumLoops},
                                     {"Min", &MinimumLoops}};

}  // namespace

void RegisterVariableScatterKernels(KernelRegistry& registry) {
  for (const ScatterOp& op : kScatterOps) {
    for (const char* prefix : {"Scatter", "ResourceScatter"}) {
      AddKernel(registry, absl::StrCat(prefix, op.name),
                [&op](const OpInstance& instance) { return MakeScatter(instance, op); });
    }
  }
}

}  // namespace millrace::cpu
