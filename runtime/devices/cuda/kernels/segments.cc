// Segment reductions: by ids that rise, of rows or of rows that indices name, and by ids in any order. The sums by ids in any order
// are scatters (scatters.cc).
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/kernels/rows.h"
#include "cuda/launch/segment.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;
using Begins = std::vector<int32_t>;

// The ops whose names hold one of these.
SegmentOp OpOf(const std::string& op, bool any_ids) {
  if (absl::StrContains(op, "Mean")) return SegmentOp::kMean;
  if (absl::StrContains(op, "SqrtN")) return SegmentOp::kSqrtN;
  if (absl::StrContains(op, "Prod")) return SegmentOp::kProd;
  if (absl::StrContains(op, "Max")) return any_ids ? SegmentOp::kMaxOrLater : SegmentOp::kMax;
  if (absl::StrContains(op, "Min")) return any_ids ? SegmentOp::kMinOrLater : SegmentOp::kMin;
  return SegmentOp::kSum;
}

// Where the segments of ids that the plan knows begin, and the last one ends. Wrong ids are left to the host, which has the error.
absl::StatusOr<Begins> BeginsOf(const OpInstance& instance, const Tensor& ids, int64_t segments) {
  constexpr int64_t kMostSegments = 1 << 16;  // launches carry them to the device, some thousand bytes each
  const int64_t count = ids.num_elements();
  if (segments > kMostSegments || count > INT32_MAX) return Refused(instance, "so many segments that are known when planning");
  Begins begins(segments + 1, 0);
  int64_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = ids.IntAt(i);
    if (id < 0 || id >= segments || id + 1 < next) return Refused(instance, "these segment ids");
    while (next <= id) begins[next++] = static_cast<int32_t>(i);
  }
  while (next <= segments) begins[next++] = static_cast<int32_t>(count);
  return begins;
}

// What is known of a node whose ids rise.
struct SortedForm {
  bool sparse = false;  // input 1 names the rows
  int ids = 1;          // which input has the ids
  SegmentOp op = SegmentOp::kSum;
  Type type = Type::kFloat;
  int64_t count = 0, segments = 0, inner = 1;  // count: of the ids
  RowIndex indices;  // where `sparse`
};

absl::StatusOr<SortedForm> SortedFormOf(const OpInstance& instance) {
  SortedForm form;
  form.sparse = absl::StartsWith(instance.op, "Sparse");
  form.ids = form.sparse ? 2 : 1;
  form.op = OpOf(instance.op, /*any_ids=*/false);
  MR_ASSIGN_OR_RETURN(form.type, NumericTypeOf(instance, instance.outputs[0].dtype));
  const DataType dtype = instance.outputs[0].dtype;
  if (IsInteger(dtype) && DataTypeSize(dtype) < 4 && (form.op == SegmentOp::kMean || form.op == SegmentOp::kSqrtN)) {
    return Refused(instance, "numbers so narrow, which may not hold how many rows there are");
  }
  const Shape& data = instance.inputs[0].shape;
  form.count = instance.inputs[form.ids].shape.num_elements();
  form.segments = instance.outputs[0].shape.dim(0);
  if (form.segments >= INT32_MAX) return Refused(instance, "so many segments");
  for (int d = 1; d < data.rank(); ++d) form.inner *= data.dim(d);
  if (form.sparse) {
    MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, data, 1, /*nd=*/false));
    form.indices = rows.index;
  }
  return form;
}

void ReduceSorted(const Queue& queue, const KernelContext& context, const SortedForm& form, const int32_t* begins) {
  if (form.sparse) LaunchCheckIndices(queue, form.indices, context.inputs[1]);
  SegmentItems items;
  items.count = form.count;
  items.segments = form.segments;
  items.begins = begins;
  items.numbers = form.sparse ? context.inputs[1] : nullptr;
  items.wide = form.indices.wide;
  LaunchSegments(queue, form.op, form.type, items, form.inner, context.inputs[0], context.outputs[0]);
}

int64_t BeginsBytes(int64_t segments) { return (segments + 1) * static_cast<int64_t>(sizeof(int32_t)); }

// As many segments as the last id tells: where the plan does not know it, the host must.
KernelOr MakeSorted(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const SortedForm form, SortedFormOf(instance));
  const Tensor* ids = ValueOf(instance, form.ids);
  if (ids == nullptr) return Refused(instance, "a number of rows that is not known when planning");
  MR_ASSIGN_OR_RETURN(Begins begins, BeginsOf(instance, *ids, form.segments));
  return MakeLaunch(
      services,
      [form, known = std::move(begins)](const Queue& queue, const KernelContext& context) {
        auto* begins = static_cast<int32_t*>(context.scratch);
        LaunchPutBegins(queue, known.data(), static_cast<int64_t>(known.size()), begins);
        ReduceSorted(queue, context, form, begins);
      },
      BeginsBytes(form.segments));
}

KernelOr MakeWithNumSegments(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const SortedForm form, SortedFormOf(instance));
  MR_ASSIGN_OR_RETURN(const Rows ids, RowsOf(instance, instance.outputs[0].shape, form.ids, /*nd=*/false));
  return MakeLaunch(
      services,
      [form, ids = ids.index](const Queue& queue, const KernelContext& context) {
        auto* begins = static_cast<int32_t*>(context.scratch);
        LaunchBegins(queue, ids, /*checks=*/true, context.inputs[form.ids], begins);
        ReduceSorted(queue, context, form, begins);
      },
      BeginsBytes(form.segments));
}

KernelOr MakeUnsorted(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(Rows rows, RowsOf(instance, instance.outputs[0].shape, 1, /*nd=*/false));
  if (rows.rows == INT32_MAX) return Refused(instance, "so many segments");
  rows.index.skips_negative = true;
  const SegmentOp op = OpOf(instance.op, /*any_ids=*/true);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        const SegmentItems items = SortItems(queue, rows.index, rows.rows, context.inputs[1], context.scratch);
        LaunchSegments(queue, op, type, items, rows.inner, context.inputs[0], context.outputs[0]);
      },
      SortedItemsScratchBytes(rows.index.count, rows.rows));
}

}  // namespace

void RegisterSegments(KernelRegistry& registry, DeviceServices& services) {
  for (const char* name : {"Sum", "Prod", "Max", "Min", "Mean"}) Add(registry, services, absl::StrCat("Segment", name), MakeSorted);
  for (const char* name : {"Sum", "Mean", "SqrtN"}) {
    Add(registry, services, absl::StrCat("SparseSegment", name), MakeSorted);
    Add(registry, services, absl::StrCat("SparseSegment", name, "WithNumSegments"), MakeWithNumSegments);
  }
  for (const char* name : {"Prod", "Max", "Min"}) Add(registry, services, absl::StrCat("UnsortedSegment", name), MakeUnsorted);
}

}  // namespace millrace::cuda
