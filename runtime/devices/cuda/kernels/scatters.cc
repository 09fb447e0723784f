// Gathers and scatters by rows of indices, and unsorted segment sums, which are scatters into zeros.
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/kernels/rows.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/scatter.h"
#include "graph/extremes_as_xla.h"

namespace millrace::cuda {

absl::StatusOr<Rows> RowsOf(const OpInstance& instance, const Shape& sliced, int input, bool nd) {
  const Shape& indices = instance.inputs[input].shape;
  const DataType dtype = instance.inputs[input].dtype;
  if ((dtype != DataType::kInt32 && dtype != DataType::kInt64) || ValueOf(instance, input) != nullptr) {
    return Refused(instance, "these indices");
  }
  Rows rows;
  rows.index.wide = dtype == DataType::kInt64;
  rows.index.input = input;
  rows.index.tuples = nd;
  rows.index.depth = nd ? indices.dim(indices.rank() - 1) : 1;
  if (rows.index.depth > kMaxDims) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
  rows.index.count = 1;
  for (int d = 0; d < indices.rank() - (nd ? 1 : 0); ++d) rows.index.count *= indices.dim(d);
  for (int d = static_cast<int>(rows.index.depth) - 1; d >= 0; --d) {
    rows.index.dims[d] = sliced.dim(d);
    rows.index.strides[d] = rows.rows;
    rows.rows *= sliced.dim(d);
  }
  for (int d = static_cast<int>(rows.index.depth); d < sliced.rank(); ++d) rows.inner *= sliced.dim(d);
  if (rows.rows > INT32_MAX || rows.index.count > INT32_MAX) return Refused(instance, "so many rows");
  return rows;
}

namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr MakeGatherNd(DeviceServices& services, const OpInstance& instance) {
  if (instance.attrs.GetOr<std::string>("bad_indices_policy", "") == "IGNORE") return Refused(instance, "bad indices");
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  if (instance.attrs.GetOr<int64_t>("batch_dims", 0) != 0) return Refused(instance, "batch dimensions");
  MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, instance.inputs[0].shape, 1, /*nd=*/true));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchGatherRows(queue, bytes, rows.index, rows.inner, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

// What the updates are combined with.
enum class Target { kZeros, kCopyOfInput, kVariable };

KernelOr MakeScatterInto(DeviceServices& services, const OpInstance& instance, CombineOp op, Target target, const Rows& rows,
                         int updates) {
  const DataType dtype = instance.inputs[updates].dtype;
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, dtype));
  if (ValueOf(instance, updates) != nullptr) return Refused(instance, "updates that are on the host");
  if (op == CombineOp::kDiv && !IsFloating(dtype)) return Refused(instance, "integers, which may be divided by zero");
  // Booleans: adding is or, which is the greater byte.
  if (type == Type::kBool && op == CombineOp::kAdd) op = CombineOp::kMax;
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, dtype));
  const Shape& whole = target == Target::kZeros ? instance.outputs[0].shape : instance.inputs[0].shape;
  const StridedCopy copy = WholeCopy(whole.num_elements());
  const bool one_update = instance.inputs[updates].shape.rank() == 0 && rows.index.count * rows.inner != 1;
  const int indices = rows.index.input;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        void* out = target == Target::kVariable ? context.inputs[0] : context.outputs[0];
        if (target == Target::kZeros) LaunchZero(queue, out, copy.elements * bytes);
        if (target == Target::kCopyOfInput && out != context.inputs[0]) {
          LaunchStridedCopy(queue, bytes, copy, context.inputs[0], out);
        }
        LaunchScatterRows(queue, op, type, rows.index, rows.rows, rows.inner, one_update, context.inputs[indices],
                          context.inputs[updates], out, context.scratch);
      },
      ScatterScratchBytes(rows.index.count, rows.rows));
}

const std::map<std::string, CombineOp>& CombineOps() {
  static const auto* const ops = new std::map<std::string, CombineOp>{
      {"Update", CombineOp::kAssign}, {"Add", CombineOp::kAdd}, {"Sub", CombineOp::kSub}, {"Mul", CombineOp::kMul},
      {"Div", CombineOp::kDiv},       {"Max", CombineOp::kMax}, {"Min", CombineOp::kMin}};
  return *ops;
}

CombineOp CombineOf(const OpInstance& instance) {
  const bool as_xla = instance.attrs.GetOr(kExtremesAsXla, false);
  for (const auto& [name, combine] : CombineOps()) {
    if (!absl::EndsWith(instance.op, name)) continue;
    if (as_xla && combine == CombineOp::kMax) return CombineOp::kMaxOrNan;
    return as_xla && combine == CombineOp::kMin ? CombineOp::kMinOrNan : combine;
  }
  return CombineOp::kAdd;  // ScatterNd
}

KernelOr MakeScatterNd(DeviceServices& services, const OpInstance& instance) {
  if (instance.attrs.GetOr<std::string>("bad_indices_policy", "") == "IGNORE") return Refused(instance, "bad indices");
  const Target target = instance.op == "ScatterNd"                            ? Target::kZeros
                        : absl::StartsWith(instance.op, "TensorScatter") ||
                                instance.op == "ScatterNdNonAliasingAdd"      ? Target::kCopyOfInput
                                                                              : Target::kVariable;
  const bool zeros = target == Target::kZeros;
  const Shape& sliced = zeros ? instance.outputs[0].shape : instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, sliced, zeros ? 0 : 1, /*nd=*/true));
  return MakeScatterInto(services, instance, CombineOf(instance), target, rows, zeros ? 1 : 2);
}

KernelOr MakeVariableScatter(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, instance.inputs[0].shape, 1, /*nd=*/false));
  return MakeScatterInto(services, instance, CombineOf(instance), Target::kVariable, rows, 2);
}

KernelOr MakeSegmentSum(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(NumericTypeOf(instance, instance.outputs[0].dtype).status());
  const Shape& out = instance.outputs[0].shape;
  MR_ASSIGN_OR_RETURN(Rows rows, RowsOf(instance, out, 1, /*nd=*/false));
  rows.index.skips_negative = true;
  return MakeScatterInto(services, instance, CombineOp::kAdd, Target::kZeros, rows, 0);
}

}  // namespace

void RegisterScatters(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"GatherNd", "ResourceGatherNd"}) Add(registry, services, op, MakeGatherNd);
  for (const char* op : {"ScatterNd", "ScatterNdNonAliasingAdd"}) Add(registry, services, op, MakeScatterNd);
  for (const char* name : {"Add", "Sub", "Update", "Max", "Min"}) {
    for (const char* prefix : {"TensorScatter", "ScatterNd", "ResourceScatterNd"}) {
      Add(registry, services, absl::StrCat(prefix, name), MakeScatterNd);
    }
  }
  for (const auto& [name, combine] : CombineOps()) {
    for (const char* prefix : {"Scatter", "ResourceScatter"}) Add(registry, services, absl::StrCat(prefix, name), MakeVariableScatter);
  }
  Add(registry, services, "UnsortedSegmentSum", MakeSegmentSum);
}

}  // namespace millrace::cuda
