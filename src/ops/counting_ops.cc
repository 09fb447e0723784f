// Histograms and counts, flat indices, data formats as permutations, updates of rows by value.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// (arr, size, weights) -> [size]
absl::Status BincountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t size, KnownSize(context, 1));
  context.AddOutput(context.dtype(2), Shape({size}));
  return absl::OkStatus();
}

// (input [n] or [rows,n], size, weights) -> [size] or [rows,size]
absl::Status DenseBincountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t size, KnownSize(context, 1));
  const Shape& input = context.shape(0);
  if (input.unknown_rank() || input.rank() > 2) {
    return context.Error(absl::StrCat("input is ", input.ToString(), ", expected [n] or [rows,n]"));
  }
  const Shape& weights = context.shape(2);
  if (weights.fully_known() && input.fully_known() && weights.num_elements() > 0 && !(weights == input)) {
    return context.Error(absl::StrCat("`weights` must be the same shape as `arr` or a length-0 `Tensor`. Received ", weights.ToString(), " for ",
                                      input.ToString()));
  }
  context.AddOutput(context.dtype(2), input.rank() == 2 ? Shape({input.dim(0), size}) : Shape({size}));
  return absl::OkStatus();
}

// (values, value_range, nbins)
absl::Status HistogramShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t bins, KnownInt(context, 2));
  MR_RETURN_IF_ERROR(ExpectVector(context, 1, "value_range", 2));
  if (bins <= 0) return context.Error(absl::StrCat("nbins should be a positive number, but got '", bins, "'"));
  MR_ASSIGN_OR_RETURN(const DataType dtype, IndexTypeAttr(context, "dtype", DataType::kInt32));
  context.AddOutput(dtype, Shape({bins}));
  return absl::OkStatus();
}

// (indices, dims) -> [rank, …]
absl::Status UnravelShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &indices = context.shape(0), &dims = context.shape(1);
  if (indices.rank() > 1) return context.Error(absl::StrCat("The indices can only be scalar or vector, got ", indices.ToString()));
  if (indices.fully_known() && indices.num_elements() == 0) {
    return context.Error(absl::StrCat("received empty tensor indices: ", context.input(0).ToString()));
  }
  if (!dims.unknown_rank() && dims.rank() != 1) return context.Error(absl::StrCat("dims is ", dims.ToString(), ", expected a vector"));
  Shape out;
  out.AddDim(dims.fully_known() ? dims.num_elements() : -1);
  if (indices.unknown_rank()) out = Shape::UnknownRank();
  for (int d = 0; !indices.unknown_rank() && d < indices.rank(); ++d) out.AddDim(indices.dim(d));
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status EmptyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 0));
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("Dimension ", dim, " must be >= 0"));
  }
  MR_ASSIGN_OR_RETURN(const DataType dtype, RequiredAttr<DataType>(context, "dtype"));
  context.AddOutput(dtype, Shape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

// (x, i, v): rows i of x
absl::Status InplaceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 2}));
  const Shape &x = context.shape(0), &i = context.shape(1), &v = context.shape(2);
  if (x.fully_known() && i.fully_known() && v.fully_known() &&
      (x.rank() < 1 || i.rank() != 1 || v.rank() != x.rank() || v.dim(0) != i.dim(0) ||
       v.num_elements() * x.dim(0) != x.num_elements() * i.dim(0))) {
    return context.Error(absl::StrCat("rows ", i.ToString(), " of ", x.ToString(), " cannot be ", v.ToString()));
  }
  return SameAsFirstInput(context);
}

absl::Status CrossShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  const Shape &a = context.shape(0), &b = context.shape(1);
  if (a.fully_known() && (a.rank() < 1 || a.dim(a.rank() - 1) != 3 || (b.fully_known() && !(a == b)))) {
    return context.Error(absl::StrCat("inputs are ", a.ToString(), " and ", b.ToString(),
                                      ", expected equal shapes whose last dimension is 3"));
  }
  return SameAsFirstInput(context);
}

// (x, axis)
absl::Status ScanShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  if (!context.shape(0).unknown_rank()) {
    MR_ASSIGN_OR_RETURN(const int64_t axis, KnownInt(context, 1));
    MR_RETURN_IF_ERROR(NormalizeAxis(context, axis, context.shape(0).rank()).status());
  }
  return SameAsFirstInput(context);
}

absl::Status FormatShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& input = context.shape(0);
  if (context.op() == "DataFormatVecPermute" && input.rank() == 2 && input.dim(1) >= 0 && input.dim(1) != 2) {
    return context.Error(absl::StrCat("Second dimension of 2D input must be of size 2, but got shape ", input.ToString()));
  }
  return SameAsFirstInput(context);
}

}  // namespace

void RegisterCountingOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Bincount", .shape = BincountShape});
  AddOp(registry, {.name = "DenseBincount", .shape = DenseBincountShape});
  AddOp(registry, {.name = "HistogramFixedWidth", .shape = HistogramShape});
  AddOp(registry, {.name = "UnravelIndex", .shape = UnravelShape});
  AddOp(registry, {.name = "Empty", .shape = EmptyShape, .cost = MoveCost});
  for (const char* name : {"InplaceUpdate", "InplaceAdd", "InplaceSub"}) {
    AddOp(registry, {.name = name, .shape = InplaceShape, .cost = MoveCost, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "Cross", .shape = CrossShape, .in_place = {{0, 0}, {0, 1}}});
  AddOp(registry, {.name = "CumulativeLogsumexp", .shape = ScanShape});
  for (const char* name : {"DataFormatDimMap", "DataFormatVecPermute"}) {
    AddOp(registry, {.name = name, .shape = FormatShape, .cost = NoCost});
  }
}

}  // namespace millrace
