// Rows of different lengths: as sparse tensors, by their numbers, counts of their elements, ranges of their own per row; crossed
// features, sets.
#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/feature_crosses.h"
#include "graph/shape_math.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"
#include "ops/sizes.h"
#include "ops/string_rules.h"

namespace millrace {
namespace {

absl::Status ExpectVector(const InferenceContext& context, int input) {
  const Shape& shape = context.shape(input);
  if (shape.unknown_rank() || shape.rank() == 1) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected a vector"));
}

// (nested splits, values) -> indices, values, dense shape
absl::Status RaggedToSparseShape(InferenceContext& context) {
  const int levels = context.num_inputs() - 1;
  if (levels < 1) return context.Error("has no row splits");
  for (int i = 0; i < levels; ++i) {
    MR_RETURN_IF_ERROR(ExpectVector(context, i));
    const Shape& splits = context.shape(i);
    if (splits.fully_known() && splits.num_elements() < 1) return context.Error("row splits must have at least one element");
  }
  const Shape& values = context.shape(levels);
  if (values.unknown_rank() || values.rank() < 1) {
    return context.Error(absl::StrCat("values are ", values.ToString(), ", expected at least one dimension"));
  }
  const int64_t elements = values.fully_known() ? values.num_elements() : -1;
  context.AddOutput(DataType::kInt64, Shape({elements, levels + values.rank()}));
  context.AddOutput(context.dtype(levels), Shape({elements}));
  context.AddOutput(DataType::kInt64, Shape({levels + values.rank()}));
  return absl::OkStatus();
}

// (splits, values, size, weights) -> [rows, size]
absl::Status RaggedBincountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectVector(context, 0));
  MR_ASSIGN_OR_RETURN(const int64_t size, KnownSize(context, 2));
  const Shape& splits = context.shape(0);
  if (splits.fully_known() && splits.dim(0) < 1) return context.Error("splits must have at least one element");
  context.AddOutput(context.dtype(3), Shape({splits.fully_known() ? splits.dim(0) - 1 : -1, size}));
  return absl::OkStatus();
}

// (indices, values, dense shape, size, weights) -> [size] of a vector, else [rows, size]
absl::Status SparseBincountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 2));
  MR_ASSIGN_OR_RETURN(const int64_t size, KnownSize(context, 3));
  if (dims.empty() || dims.size() > 2 || dims[0] < 0) {
    return context.Error(absl::StrCat("the dense shape has ", dims.size(), " dimensions, expected 1 or 2"));
  }
  const Shape& indices = context.shape(0);
  if (indices.fully_known() && (indices.rank() != 2 || indices.dim(1) != static_cast<int64_t>(dims.size()))) {
    return context.Error(absl::StrCat("indices are ", indices.ToString(), ", expected [n,", dims.size(), "]"));
  }
  context.AddOutput(context.dtype(4), dims.size() == 1 ? Shape({size}) : Shape({dims[0], size}));
  return absl::OkStatus();
}

// (values, weights), (indices, values, dense shape, weights) or (splits, values, weights) -> indices, counts, dense shape: a
// count for every value that is there, by rows where there are any
absl::Status SparseOutputShape(InferenceContext& context) {
  const bool dense = context.op() == "DenseCountSparseOutput", sparse = context.op() == "SparseCountSparseOutput";
  MR_RETURN_IF_ERROR(context.ExpectInputs(dense ? 2 : sparse ? 4 : 3));
  const Shape& values = context.shape(dense ? 0 : 1);
  const DataType type = context.dtype(dense ? 0 : 1);
  if (type != DataType::kInt32 && type != DataType::kInt64) {
    return context.Error(absl::StrCat("values are ", context.input(dense ? 0 : 1).ToString(), ", expected int32 or int64"));
  }
  int rank = 2;
  if (dense) {
    if (values.unknown_rank() || values.rank() < 1 || values.rank() > 2) {
      return context.Error(absl::StrCat("Input must be a 1 or 2-dimensional tensor. Got: ", values.ToString()));
    }
    rank = values.rank();
  } else if (sparse) {
    const Shape& dims = context.shape(2);
    if (!dims.fully_known() || dims.rank() != 1 || dims.dim(0) < 1 || dims.dim(0) > 2) {
      return context.Error(absl::StrCat("the dense shape is ", dims.ToString(), ", expected one or two dimensions"));
    }
    rank = static_cast<int>(dims.dim(0));
    const Shape& indices = context.shape(0);
    const bool known = indices.fully_known() && values.fully_known();
    if (known && (indices.rank() != 2 || indices.dim(1) != rank || indices.dim(0) != values.num_elements())) {
      return context.Error(absl::StrCat("indices are ", indices.ToString(), " and values ", values.ToString(), ", expected [n,", rank, "] and [n]"));
    }
  }
  const Shape& weights = context.shape(context.num_inputs() - 1);
  if (weights.fully_known() && values.fully_known() && weights.num_elements() > 0 && !(weights == values)) {
    return context.Error(absl::StrCat("Weights and values must have the same shape. Weight shape: ", weights.ToString(), "; values shape: ",
                                      values.ToString()));
  }
  const int64_t most = values.fully_known() ? values.num_elements() : -1;
  context.AddOutput(DataType::kInt64, Shape({most, rank}));
  context.AddOutput(context.dtype(context.num_inputs() - 1), Shape({most}));
  context.AddOutput(DataType::kInt64, Shape({rank}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// (starts, limits, deltas) -> splits, values
absl::Status RaggedRangeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(const DataType splits, IndexTypeAttr(context, "Tsplits", DataType::kInt64));
  const Tensor* values[3];
  int64_t rows = -1;
  for (int i = 0; i < 3; ++i) {
    values[i] = context.value(i);
    if (values[i] == nullptr) return context.Error(absl::StrCat("input ", i, " must be known when the graph is planned"));
    if (values[i]->shape().rank() == 0) continue;
    if (values[i]->shape().rank() != 1 || (rows >= 0 && values[i]->num_elements() != rows)) {
      return context.Error("starts, limits and deltas must be scalars or vectors of one length");
    }
    rows = values[i]->num_elements();
  }
  if (rows < 0) rows = 1;
  int64_t total = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = [&](int i) { return values[i]->shape().rank() == 0 ? 0 : row; };
    absl::StatusOr<int64_t> steps =
        IsInteger(context.dtype(0))
            ? RowRangeSize(values[0]->IntAt(at(0)), values[1]->IntAt(at(1)), values[2]->IntAt(at(2)))
            : RowRangeSize(context.dtype(0), values[0]->DoubleAt(at(0)), values[1]->DoubleAt(at(1)), values[2]->DoubleAt(at(2)));
    if (!steps.ok()) return ErrorAtNode(context, steps.status());
    total = SizeSum(total, *steps);
  }
  context.AddOutput(splits, Shape({rows + 1}));
  context.AddOutput(context.dtype(0), Shape({total}));
  return absl::OkStatus();
}

// Whether input `i` is of numbers, or of strings that are known.
bool IsFeature(const InferenceContext& context, int i) {
  return context.dtype(i) == DataType::kInt64 || (context.dtype(i) == DataType::kString && context.value(i) != nullptr);
}

absl::Status ExpectSalt(const InferenceContext& context, int buckets) {
  const Shape& salt = context.shape(buckets + 2);
  for (int i = buckets; i < buckets + 2; ++i) {
    if (!context.shape(i).fully_known() || context.shape(i).num_elements() == 1) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected a scalar"));
  }
  if (!salt.fully_known() || salt.num_elements() == 2) return absl::OkStatus();
  return context.Error(absl::StrCat("Input \"salt\" must have length 2 but has length ", salt.num_elements()));
}

// (indices of n sparse features, their values, their shapes, dense features) -> indices [m, 2], values [m], shape [2]
// SparseCrossHashed has also: buckets, whether to hash numbers and texts with the salt, the salt.
absl::Status SparseCrossShape(InferenceContext& context) {
  if (CrossesTexts(context.op(), context.attrs())) return StringCodesShape(context);
  const bool salted = context.op() == "SparseCrossHashed";
  const int features = context.num_inputs() - (salted ? 3 : 0);
  const int64_t sparse = context.attrs().GetOr<int64_t>("N", 0);
  if (features < 0 || sparse < 0 || sparse > features / 3) return context.Error("has fewer inputs than its sparse features have parts");
  if (salted) MR_RETURN_IF_ERROR(ExpectSalt(context, features));
  constexpr char kFeatures[] = ", expected int64 or strings that are known when the graph is planned";
  const bool texts_only = context.attrs().GetOr<DataType>("internal_type", DataType::kInt64) == DataType::kString;
  int64_t most = 1, batch = -1;
  for (int i = 0; i < sparse; ++i) {
    const int values = static_cast<int>(sparse) + i;
    if (texts_only && context.dtype(values) == DataType::kInt64) return context.Error("Input values should be of internal type 7 but received 9");
    if (!IsFeature(context, values)) return context.Error(absl::StrCat("input ", values, " is ", context.input(values).ToString(), kFeatures));
    MR_RETURN_IF_ERROR(ExpectVector(context, values + static_cast<int>(sparse), "the shape of a feature", 2));
    most = SizeProduct(most, context.shape(values).fully_known() ? context.shape(values).num_elements() : 0);
  }
  for (int i = static_cast<int>(3 * sparse); i < features; ++i) {
    const TensorType& dense = context.input(i);
    if (texts_only && dense.dtype == DataType::kInt64) return context.Error("Dense inputs should be of internal type 7 but received 9");
    if (!IsFeature(context, i)) return context.Error(absl::StrCat("dense feature ", i - 3 * sparse, " is ", dense.ToString(), kFeatures));
    if (dense.shape.rank() != 2) return context.Error(absl::StrCat("dense feature ", i - 3 * sparse, " is ", dense.ToString(), ", expected [batch,columns]"));
    if (batch >= 0 && dense.shape.dim(0) != batch) return context.Error("dense features have different batch sizes");
    batch = dense.shape.dim(0);
    most = SizeProduct(most, dense.shape.dim(1));
  }
  // Where every feature is dense, every row has as many.
  if (sparse == 0) most = SizeProduct(most, std::max<int64_t>(batch, 0));
  context.AddOutput(DataType::kInt64, Shape({most, 2}));
  context.AddOutput(DataType::kInt64, Shape({most}));
  context.AddOutput(DataType::kInt64, Shape({2}));
  if (sparse > 0) {
    context.MarkBound(0);
    context.MarkBound(1);
  }
  return absl::OkStatus();
}

// (ragged values, ragged row splits, sparse indices, sparse values, sparse shapes, dense features), each a list -> values, row splits
absl::Status RaggedCrossShape(InferenceContext& context) {
  if (CrossesTexts(context.op(), context.attrs())) return StringCodesShape(context);
  const auto order = context.attrs().GetOr<std::string>("input_order", "");
  const int ragged = static_cast<int>(std::count(order.begin(), order.end(), 'R')), dense = static_cast<int>(std::count(order.begin(), order.end(), 'D'));
  const int sparse = static_cast<int>(order.size()) - ragged - dense, first_dense = 2 * ragged + 3 * sparse;
  if (context.attrs().GetOr<int64_t>("Nsparse", 0) != sparse || order.empty()) return context.Error("Invalid length for input_order");
  MR_RETURN_IF_ERROR(context.ExpectInputs(first_dense + dense));
  constexpr char kFeatures[] = ", expected int64 or strings that are known when the graph is planned";
  int64_t most = 1, batch = -1;
  bool known = true;
  const auto take = [&](int values, int rank) -> absl::Status {
    const TensorType& type = context.input(values);
    if (!IsFeature(context, values)) return context.Error(absl::StrCat("input ", values, " is ", type.ToString(), kFeatures));
    if (!type.shape.unknown_rank() && type.shape.rank() != rank) return context.Error("tf.ragged.cross only supports inputs with rank=2.");
    known = known && type.shape.fully_known();
    if (rank == 1 && known) most = SizeProduct(most, type.shape.dim(0));
    return absl::OkStatus();
  };
  const auto has_batch = [&](int64_t size) {
    if (batch < 0) batch = size;
    return size < 0 || size == batch;
  };
  for (int i = 0; i < ragged; ++i) {
    MR_RETURN_IF_ERROR(take(i, 1));
    const Shape& splits = context.shape(ragged + i);
    if (!splits.fully_known()) continue;
    if (splits.rank() != 1 || splits.dim(0) < 1) return context.Error(absl::StrCat("row splits are ", splits.ToString(), ", expected a vector of one or more"));
    if (!has_batch(splits.dim(0) - 1)) return context.Error("inputs must all have the same batch dimension size.");
  }
  for (int i = 0; i < sparse; ++i) {
    MR_RETURN_IF_ERROR(take(2 * ragged + sparse + i, 1));
    const int at = 2 * ragged + 2 * sparse + i;
    if (context.shape(at).fully_known() && context.shape(at).num_elements() != 2) return context.Error("tf.ragged.cross only supports inputs with rank=2.");
    if (ragged + dense > 0 && context.value(at) == nullptr) continue;  // another feature tells the size
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, at));
    if (!has_batch(dims[0])) return context.Error("inputs must all have the same batch dimension size.");
  }
  int64_t columns = 1;
  for (int i = first_dense; i < context.num_inputs(); ++i) {
    MR_RETURN_IF_ERROR(take(i, 2));
    if (!context.shape(i).fully_known()) return context.Error(absl::StrCat("dense feature ", i - first_dense, " has no known shape"));
    if (!has_batch(context.shape(i).dim(0))) return context.Error("inputs must all have the same batch dimension size.");
    columns = SizeProduct(columns, context.shape(i).dim(1));
  }
  // Where every feature is dense, every row has as many.
  const bool bound = ragged + sparse > 0;
  context.AddOutput(DataType::kInt64, Shape({known ? SizeProduct(bound ? most : std::max<int64_t>(batch, 0), columns) : -1}));
  MR_ASSIGN_OR_RETURN(const DataType splits, IndexTypeAttr(context, "out_row_splits_type", DataType::kInt64));
  context.AddOutput(splits, Shape({batch < 0 ? -1 : batch + 1}));
  if (bound) context.MarkBound(0);
  return absl::OkStatus();
}

// What the chosen rows have, level by level, if splits and indices are known; else the most they may have.
struct GatheredSizes {
  std::vector<int64_t> elements;  // of the level below the rows, and so on
  bool exact = true;
};

absl::StatusOr<GatheredSizes> SizesOfGathered(const InferenceContext& context, int levels) {
  constexpr int64_t kMostRepeats = 16;  // a bound beyond that wastes more than planning for the values costs
  GatheredSizes sizes;
  const Tensor* indices = context.value(levels + 1);
  bool known = indices != nullptr;
  for (int level = 0; level < levels; ++level) known = context.value(level) != nullptr && known;
  if (!known) {
    const int64_t count = context.shape(levels + 1).fully_known() ? context.shape(levels + 1).num_elements() : -1;
    for (int level = 0; level < levels; ++level) {
      const Shape& below = context.shape(level + 1);
      const int64_t rows = below.unknown_rank() ? -1 : below.dim(0) - (level + 1 < levels ? 1 : 0);
      sizes.elements.push_back(count < 0 || rows < 0 || count > kMostRepeats ? -1 : SizeProduct(count, rows));
    }
    sizes.exact = false;
    return sizes;
  }
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < indices->num_elements(); ++i) rows.push_back(indices->IntAt(i));
  for (int level = 0; level < levels; ++level) {
    const Tensor& splits = *context.value(level);
    const bool last = level + 1 == levels;
    const Shape& below = context.shape(level + 1);
    const int64_t rows_below = below.dim(0) < 0 ? INT64_MAX : below.dim(0) - (last ? 0 : 1);
    std::vector<int64_t> next;
    int64_t elements = 0;
    for (int64_t row : rows) {
      if (row < 0 || row + 1 >= splits.num_elements()) continue;  // the kernel's error
      const int64_t begin = splits.IntAt(row), end = splits.IntAt(row + 1);
      if (begin < 0 || end < begin || end > rows_below) {
        return context.Error(absl::StrCat("Ragged splits must be sorted, begin with 0 and not exceed the number of values, got a row from ",
                                          begin, " to ", end));
      }
      elements += end - begin;
      for (int64_t k = begin; k < end && !last; ++k) next.push_back(k);
    }
    sizes.elements.push_back(elements);
    rows = std::move(next);
  }
  return sizes;
}

// (nested splits, values, indices) -> nested splits, values: splits of the indices' dimensions before those of the rows
absl::Status RaggedGatherShape(InferenceContext& context) {
  const int levels = context.num_inputs() - 2;
  if (levels < 1) return context.Error("has no row splits");
  for (const int integers : {0, levels + 1}) {
    const DataType type = context.dtype(integers);
    if (type == DataType::kInt32 || type == DataType::kInt64) continue;
    return context.Error(absl::StrCat("input ", integers, " is ", context.input(integers).ToString(), ", expected int32 or int64"));
  }
  for (int i = 0; i < levels; ++i) {
    MR_RETURN_IF_ERROR(ExpectVector(context, i));
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, i}));
    if (context.shape(i).fully_known() && context.shape(i).num_elements() < 1) return context.Error("row splits must have at least one element");
  }
  const Shape &values = context.shape(levels), &indices = context.shape(levels + 1);
  if (values.unknown_rank() || values.rank() < 1 || !indices.fully_known() || indices.rank() < 1) {
    return context.Error(absl::StrCat("values are ", values.ToString(), " and indices ", indices.ToString(), ", expected at least one dimension"));
  }
  int64_t outer = 1;
  for (int d = 0; d + 1 < indices.rank(); ++d) {
    outer = SizeProduct(outer, indices.dim(d));
    context.AddOutput(context.dtype(0), Shape({outer + 1}));
  }
  MR_ASSIGN_OR_RETURN(const GatheredSizes sizes, SizesOfGathered(context, levels));
  if (std::count(sizes.elements.begin(), sizes.elements.end(), -1) > 0) {
    return context.Error("row splits and indices must be known when the graph is planned");
  }
  context.AddOutput(context.dtype(0), Shape({indices.num_elements() + 1}));
  Shape gathered = values;
  for (int level = 0; level < levels; ++level) {
    if (level + 1 < levels) context.AddOutput(context.dtype(0), Shape({sizes.elements[level] + 1}));
    else gathered.set_dim(0, sizes.elements[level]);
  }
  context.AddOutput(context.dtype(levels), std::move(gathered));
  const int first = indices.rank();  // the splits of the rows themselves are as many as there are indices
  for (int output = first; !sizes.exact && output < first + levels; ++output) context.MarkBound(output);
  return absl::OkStatus();
}

// The inputs of a sparse set from `first` on: (indices, values, dense shape).
absl::Status ExpectSparseSet(const InferenceContext& context, int first) {
  if (context.dtype(first) != DataType::kInt64 || context.dtype(first + 2) != DataType::kInt64) {
    return context.Error(absl::StrCat("indices are ", context.input(first).ToString(), " and the dense shape ", context.input(first + 2).ToString(), ", expected int64"));
  }
  const Shape &indices = context.shape(first), &values = context.shape(first + 1), &dims = context.shape(first + 2);
  if (!indices.fully_known() || !values.fully_known() || !dims.fully_known() || indices.rank() != 2 || values.rank() != 1 || dims.rank() != 1 ||
      indices.dim(0) != values.dim(0) || indices.dim(1) != dims.dim(0) || dims.dim(0) < 1) {
    return context.Error(absl::StrCat("indices ", indices.ToString(), ", values ", values.ToString(), " and dense shape ", dims.ToString(),
                                      " are not those of one sparse tensor"));
  }
  return absl::OkStatus();
}

// Two sets for each group -> indices, values, dense shape of the sets that the operation gives.
absl::Status SetOperationShape(InferenceContext& context) {
  const bool first_dense = context.op() != "SparseToSparseSetOperation", second_dense = context.op() == "DenseToDenseSetOperation";
  const int second = first_dense ? 1 : 3;
  MR_RETURN_IF_ERROR(context.ExpectInputs(second + (second_dense ? 1 : 3)));
  MR_ASSIGN_OR_RETURN(const std::string given, RequiredAttr<std::string>(context, "set_operation"));
  const std::string operation = absl::AsciiStrToLower(given);
  const std::string known[] = {"a-b", "b-a", "intersection", "union"};
  if (std::find(std::begin(known), std::end(known), operation) == std::end(known)) return context.Error(absl::StrCat("Invalid set_operation ", given, "."));
  int64_t rank = -1, most = 0;
  const int values[] = {first_dense ? 0 : 1, second_dense ? second : second + 1};
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {values[0], values[1]}));
  for (int i = 0; i < 2; ++i) {
    const bool dense = i == 0 ? first_dense : second_dense;
    if (!dense) MR_RETURN_IF_ERROR(ExpectSparseSet(context, values[i] - 1));
    const Shape& shape = context.shape(values[i]);
    if (!shape.fully_known()) return context.Error(absl::StrCat("input ", values[i], " has no known shape"));
    const int64_t own = dense ? shape.rank() : context.shape(values[i] + 1).dim(0);
    if (own < (dense ? 2 : 1) || (rank >= 0 && own != rank)) return context.Error(absl::StrCat("sets have ", own, " dimensions, expected ", std::max<int64_t>(rank, 2)));
    rank = own;
    most = SizeSum(most, shape.num_elements());
  }
  context.AddOutput(DataType::kInt64, Shape({most, rank}));
  context.AddOutput(context.dtype(values[0]), Shape({most}));
  context.AddOutput(DataType::kInt64, Shape({rank}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// (indices, values, dense shape) -> how many elements each set has
absl::Status SetSizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectSparseSet(context, 0));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 2));
  Shape out;
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    if (dims[d] < 0) return context.Error("the dense shape has a negative dimension");
    out.AddDim(dims[d]);
  }
  context.AddOutput(DataType::kInt32, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterRaggedOps(OpRegistry& registry) {
  AddOp(registry, {.name = "RaggedTensorToSparse", .shape = RaggedToSparseShape});
  AddOp(registry, {.name = "RaggedBincount", .shape = RaggedBincountShape});
  AddOp(registry, {.name = "SparseBincount", .shape = SparseBincountShape});
  for (const char* name : {"DenseCountSparseOutput", "SparseCountSparseOutput", "RaggedCountSparseOutput"}) {
    AddOp(registry, {.name = name, .shape = SparseOutputShape});
  }
  AddOp(registry, {.name = "RaggedRange", .shape = RaggedRangeShape});
  AddOp(registry, {.name = "SparseCross", .shape = SparseCrossShape});
  AddOp(registry, {.name = "SparseCrossHashed", .shape = SparseCrossShape});
  AddOp(registry, {.name = "RaggedCross", .shape = RaggedCrossShape});
  AddOp(registry, {.name = "RaggedGather", .shape = RaggedGatherShape, .cost = MoveCost});
  for (const char* name : {"DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"}) {
    AddOp(registry, {.name = name, .shape = SetOperationShape});
  }
  AddOp(registry, {.name = "SetSize", .shape = SetSizeShape});
}

}  // namespace millrace
