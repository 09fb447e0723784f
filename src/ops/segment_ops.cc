// Segment reductions (sorted, unsorted, sparse), Unique, Where and ListDiff: ops whose sizes depend on values.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

// [rows] + the dimensions of `data` from `from` on.
Shape WithRows(int64_t rows, const Shape& data, int from) {
  Shape out({rows});
  for (int i = from; i < data.rank(); ++i) out.AddDim(data.dim(i));
  return out;
}

absl::Status UnsortedSegmentShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t segments, KnownInt(context, 2));
  if (segments < 0) return context.Error(absl::StrCat("Input num_segments == ", segments, " must not be negative."));
  const Shape &data = context.shape(0), &ids = context.shape(1);
  if (data.unknown_rank() || ids.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  bool prefix = ids.rank() <= data.rank();
  for (int i = 0; prefix && i < ids.rank(); ++i) {
    prefix = ids.dim(i) == data.dim(i) || ids.dim(i) < 0 || data.dim(i) < 0;
  }
  if (!prefix) {
    return context.Error(absl::StrCat("data.shape = ", data.ToString(), " does not start with segment_ids.shape = ",
                                      ids.ToString()));
  }
  context.AddOutput(context.dtype(0), WithRows(segments, data, ids.rank()));
  return absl::OkStatus();
}

// Rows of an op with sorted ids (input `ids`): one more than the last id where it is known, else at most as many as
// there are ids, which holds for ids without gaps.
absl::Status AddSortedSegments(InferenceContext& context, int ids) {
  const Shape& shape = context.shape(ids);
  if (!shape.unknown_rank() && shape.rank() != 1) {
    return context.Error(absl::StrCat("segment_ids should be a vector, got ", shape.ToString()));
  }
  if (context.shape(0).unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (context.shape(0).rank() < 1) return context.Error("data must be at least a vector");
  if (context.value(ids) == nullptr) {
    context.AddOutput(context.dtype(0), WithRows(shape.unknown_rank() ? -1 : shape.dim(0), context.shape(0), 1));
    context.MarkBound(0);
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, KnownInts(context, ids));
  const int64_t rows = values.empty() ? 0 : SizeSum(values.back(), 1);
  if (rows < 0) return context.Error("segment ids must be >= 0");
  context.AddOutput(context.dtype(0), WithRows(rows, context.shape(0), 1));
  return absl::OkStatus();
}

absl::Status SegmentShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &data = context.shape(0), &ids = context.shape(1);
  if (data.fully_known() && ids.fully_known() && data.rank() > 0 && data.dim(0) != ids.num_elements()) {
    return context.Error("segment_ids should be the same size as dimension 0 of input.");
  }
  return AddSortedSegments(context, 1);
}

absl::Status CheckSparseIds(const InferenceContext& context) {
  const Shape &indices = context.shape(1), &ids = context.shape(2);
  if (indices.fully_known() && ids.fully_known() && indices.num_elements() != ids.num_elements()) {
    return context.Error("segment_ids and indices should have same size.");
  }
  return absl::OkStatus();
}

absl::Status CheckDataAndRowCount(const InferenceContext& context) {
  const Shape &data = context.shape(0), &rows = context.shape(3);
  if (!data.unknown_rank() && data.rank() < 1) return context.Error("data must be at least a vector");
  if (rows.unknown_rank() || rows.rank() == 0) return absl::OkStatus();
  return context.Error(absl::StrCat("input 3 is ", context.input(3).ToString(), ", expected a scalar number of rows"));
}

absl::Status SparseSegmentShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(CheckSparseIds(context));
  return AddSortedSegments(context, 2);
}

// Input 3 says how many rows there are.
absl::Status SparseSegmentWithRowsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(CheckSparseIds(context));
  MR_RETURN_IF_ERROR(CheckDataAndRowCount(context));
  MR_ASSIGN_OR_RETURN(const int64_t rows, KnownInt(context, 3));
  if (rows < 0) return context.Error(absl::StrCat("expected at least 0 rows, got ", rows));
  const Shape& data = context.shape(0);
  context.AddOutput(context.dtype(0), data.unknown_rank() ? data : WithRows(rows, data, 1));
  return absl::OkStatus();
}

// The rows of the gradient that are not zero, and which these are.
absl::Status SparseSegmentGradRowsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(CheckSparseIds(context));
  MR_RETURN_IF_ERROR(CheckDataAndRowCount(context));
  const Shape &data = context.shape(0), &indices = context.shape(1);
  const int64_t rows = indices.fully_known() ? indices.num_elements() : -1;
  context.AddOutput(context.dtype(0), data.unknown_rank() ? data : WithRows(rows, data, 1));
  context.AddOutput(context.dtype(1), Shape({rows}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ElementBound(const InferenceContext& context, int input) {
  const Shape& shape = context.shape(input);
  return shape.fully_known() ? shape.num_elements() : -1;
}

absl::StatusOr<DataType> IndexType(const InferenceContext& context) {
  return IndexTypeAttr(context, "out_idx", DataType::kInt32);
}

// Unique and UniqueWithCounts.
absl::Status AddUnique(InferenceContext& context, Shape values, int axis, bool with_counts) {
  const Shape along({values.unknown_rank() ? -1 : values.dim(axis)});
  MR_ASSIGN_OR_RETURN(const DataType index, IndexType(context));
  context.AddOutput(context.dtype(0), std::move(values));
  context.MarkBound(0);
  context.AddOutput(index, along);
  if (with_counts) {
    context.AddOutput(index, along);
    context.MarkBound(2);
  }
  return absl::OkStatus();
}

absl::Status UniqueShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& x = context.shape(0);
  if (!x.unknown_rank() && x.rank() != 1) {
    return context.Error(absl::StrCat("unique expects a 1D vector, got ", x.ToString()));
  }
  return AddUnique(context, x, 0, context.op() == "UniqueWithCounts");
}

absl::Status UniqueV2Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& x = context.shape(0);
  const bool with_counts = context.op() == "UniqueWithCountsV2";
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 1));
  if (axes.empty()) {
    if (!x.unknown_rank() && x.rank() != 1) {
      return context.Error(absl::StrCat("unique expects a 1D vector, got ", x.ToString()));
    }
    return AddUnique(context, x, 0, with_counts);
  }
  if (axes.size() > 1) return context.Error("axis does not support input tensors larger than 1 elements");
  if (x.unknown_rank()) return AddUnique(context, x, 0, with_counts);
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, axes[0], x.rank()));
  return AddUnique(context, x, axis, with_counts);
}

absl::Status WhereShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t bound, ElementBound(context, 0));
  context.AddOutput(DataType::kInt64, Shape({bound, context.shape(0).rank()}));
  context.MarkBound(0);
  return absl::OkStatus();
}

absl::Status ListDiffShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(const int64_t bound, ElementBound(context, 0));
  MR_ASSIGN_OR_RETURN(const DataType index, IndexType(context));
  context.AddOutput(context.dtype(0), Shape({bound}));
  context.AddOutput(index, Shape({bound}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

}  // namespace

void RegisterSegmentOps(OpRegistry& registry) {
  for (const char* reduction : {"Sum", "Prod", "Max", "Min", "Mean"}) {
    AddOp(registry, {.name = absl::StrCat("Segment", reduction), .shape = SegmentShape});
    if (absl::string_view(reduction) != "Mean") {
      AddOp(registry, {.name = absl::StrCat("UnsortedSegment", reduction), .shape = UnsortedSegmentShape});
    }
  }
  for (const char* reduction : {"Sum", "Mean", "SqrtN"}) {
    AddOp(registry, {.name = absl::StrCat("SparseSegment", reduction), .shape = SparseSegmentShape});
    AddOp(registry,
          {.name = absl::StrCat("SparseSegment", reduction, "WithNumSegments"), .shape = SparseSegmentWithRowsShape});
    AddOp(registry, {.name = absl::StrCat("SparseSegment", reduction, "Grad"), .shape = SparseSegmentWithRowsShape});
    AddOp(registry, {.name = absl::StrCat("SparseSegment", reduction, "GradV2"), .shape = SparseSegmentGradRowsShape});
  }
  for (const char* name : {"Unique", "UniqueWithCounts"}) AddOp(registry, {.name = name, .shape = UniqueShape});
  for (const char* name : {"UniqueV2", "UniqueWithCountsV2"}) AddOp(registry, {.name = name, .shape = UniqueV2Shape});
  AddOp(registry, {.name = "Where", .shape = WhereShape});
  AddOp(registry, {.name = "ListDiff", .shape = ListDiffShape});
}

}  // namespace millrace
