// Gather, scatter, stitch and partition: ops that move rows by index.
#include <limits>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

Shape Concatenate(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  Shape shape(a);
  for (int64_t dim : b) shape.AddDim(dim);
  return shape;
}

// Rows of `params` (input 0) along `axis` by the indices of input 1.
absl::Status GatherAlong(InferenceContext& context, int64_t axis, int64_t batch_dims) {
  const Shape &params = context.shape(0), &indices = context.shape(1);
  if (params.unknown_rank() || indices.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (params.rank() < 1) return context.Error("params must be at least 1 dimensional");
  if (batch_dims < -indices.rank() || batch_dims > indices.rank()) {
    return context.Error(absl::StrCat("Expected batch_dims in the range [", -indices.rank(), ", ", indices.rank(),
                                      "], but got ", batch_dims));
  }
  if (batch_dims < 0) batch_dims += indices.rank();
  MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, params.rank()));
  if (batch_dims > d) {
    return context.Error(absl::StrCat("batch_dims (", batch_dims, ") must be less than or equal to axis (", d, ")."));
  }
  for (int i = 0; i < batch_dims; ++i) {
    const int64_t a = params.dim(i), b = indices.dim(i);
    if (a >= 0 && b >= 0 && a != b) {
      return context.Error(absl::StrCat("params.shape[", i, "]: ", a, " should be equal to indices.shape[", i,
                                        "]: ", b));
    }
  }
  Shape out = Concatenate(params.dims().subspan(0, d), indices.dims().subspan(batch_dims));
  for (int i = d + 1; i < params.rank(); ++i) out.AddDim(params.dim(i));
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status GatherShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  return GatherAlong(context, 0, 0);
}

absl::Status GatherV2Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t axis, KnownInt(context, 2));
  return GatherAlong(context, axis, context.attrs().GetOr<int64_t>("batch_dims", 0));
}

// That the variable (input 0) has the type that the attribute says.
absl::Status ExpectVariableOfDtype(const InferenceContext& context) {
  const DataType dtype = context.attrs().GetOr<DataType>("dtype", context.dtype(0));
  if (dtype == context.dtype(0)) return absl::OkStatus();
  return context.Error(absl::StrCat("reads a variable of ", std::string(DataTypeName(context.dtype(0))), ", attribute 'dtype' is ",
                                    std::string(DataTypeName(dtype))));
}

absl::Status ResourceGatherShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectVariableOfDtype(context));
  const int64_t batch_dims = context.attrs().GetOr<int64_t>("batch_dims", 0);
  if (batch_dims < 0) return context.Error(absl::StrCat("batch_dims is negative (", batch_dims, ")"));
  return GatherAlong(context, batch_dims, batch_dims);
}

absl::Status GatherNdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &params = context.shape(0), &indices = context.shape(1);
  if (params.unknown_rank() || indices.unknown_rank() || (indices.rank() > 0 && indices.dim(indices.rank() - 1) < 0)) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (indices.rank() < 1) return context.Error("indices must be at least a vector");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > params.rank()) {
    return context.Error(absl::StrCat("index innermost dimension length must be <= params rank; saw: ", depth, " vs. ",
                                      params.rank()));
  }
  context.AddOutput(context.dtype(0), Concatenate(indices.dims().subspan(0, indices.rank() - 1),
                                                  params.dims().subspan(depth)));
  return absl::OkStatus();
}

absl::Status ResourceGatherNdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(ExpectVariableOfDtype(context));
  return GatherNdShape(context);
}

// That `updates` (input u) has the shape of slices of `target` at `indices` (input i).
absl::Status CheckScatterNd(const InferenceContext& context, const Shape& target, int i, int u) {
  const Shape &indices = context.shape(i), &updates = context.shape(u);
  if (!indices.fully_known() || !updates.fully_known() || !target.fully_known()) return absl::OkStatus();
  if (indices.rank() < 1 || target.rank() < 1) return context.Error("indices and output must be at least 1-D");
  if (target.num_elements() == 0 && (indices.num_elements() > 0 || updates.num_elements() > 0)) {
    return context.Error(absl::StrCat("Indices and updates specified for empty input: ", target.ToString()));
  }
  const int64_t depth = indices.dim(indices.rank() - 1);
  const bool fits = depth <= target.rank() &&
                    updates == Concatenate(indices.dims().subspan(0, indices.rank() - 1),
                                           target.dims().subspan(std::min<int64_t>(depth, target.rank())));
  if (fits) return absl::OkStatus();
  return context.Error(absl::StrCat("Must have updates.shape = indices.shape[:batch_dim] + "
                                    "buffer_shape[num_index_dims:], got updates.shape: ", updates.ToString(),
                                    ", indices.shape: ", indices.ToString(), ", buffer_shape: ", target.ToString()));
}

absl::Status ScatterNdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 2));
  const Shape shape(dims);
  if (!shape.fully_known()) return context.Error(absl::StrCat("shape is ", shape.ToString(), ", expected all known"));
  MR_RETURN_IF_ERROR(CheckScatterNd(context, shape, 0, 1));
  context.AddOutput(context.dtype(1), shape);
  return absl::OkStatus();
}

absl::Status TensorScatterShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 2}));
  MR_RETURN_IF_ERROR(CheckScatterNd(context, context.shape(0), 1, 2));
  return SameAsFirstInput(context);
}

absl::Status CheckVariableScatterNd(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 2}));
  return CheckScatterNd(context, context.shape(0), 1, 2);
}

absl::Status SparseToDenseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 1));
  const Shape shape(dims);
  if (!shape.fully_known()) return context.Error(absl::StrCat("output_shape is ", shape.ToString()));
  const Shape& indices = context.shape(0);
  if (indices.rank() > 2) {
    return context.Error(absl::StrCat("sparse_indices should be a scalar, vector, or matrix, got shape ",
                                      indices.ToString()));
  }
  if (indices.fully_known()) {
    const int64_t depth = indices.rank() == 2 ? indices.dim(1) : 1;
    const int64_t count = indices.rank() == 0 ? 1 : indices.dim(0);
    if (depth != shape.rank()) {
      return context.Error(absl::StrCat("output_shape has incorrect number of elements: ", shape.rank(),
                                        " should be: ", depth));
    }
    const Shape& values = context.shape(2);
    if (values.fully_known() && values.rank() != 0 && (values.rank() != 1 || values.dim(0) != count)) {
      return context.Error(absl::StrCat("sparse_values has incorrect shape ", values.ToString(),
                                        ", should be [] or [", count, "]"));
    }
  }
  if (context.shape(3).rank() > 0) return context.Error("default_value should be a scalar.");
  context.AddOutput(context.dtype(2), shape);
  return absl::OkStatus();
}

absl::Status DynamicStitchShape(InferenceContext& context) {
  const int count = context.num_inputs() / 2;
  if (count < 1 || context.num_inputs() % 2 != 0) {
    return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected as many indices as data"));
  }
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // indices are int32
  bool indices_known = true, shapes_known = true;
  int64_t rows = 0, elements = 0;
  Shape row = Shape::UnknownRank();
  for (int i = 0; i < count; ++i) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {count, count + i}));
    const Shape &indices = context.shape(i), &data = context.shape(count + i);
    if (context.value(i) != nullptr) {
      MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, KnownInts(context, i));
      for (int64_t value : values) {
        if (value > kMostRows) return context.Error(absl::StrCat("indices[", i, "] has ", value, ", expected at most ", kMostRows));
        rows = std::max(rows, value + 1);
      }
    } else {
      indices_known = false;
    }
    if (!indices.fully_known() || !data.fully_known()) {
      shapes_known = false;
      continue;
    }
    elements += indices.num_elements();
    const bool prefix = indices.rank() <= data.rank() && indices.dims() == data.dims().subspan(0, indices.rank());
    const Shape rest = prefix ? Shape(data.dims().subspan(indices.rank())) : Shape();
    if (!prefix || (!row.unknown_rank() && rest != row)) {
      return context.Error(absl::StrCat("data[", i, "].shape = ", data.ToString(),
                                        " must start with indices[", i, "].shape = ", indices.ToString(),
                                        " and end as the others"));
    }
    row = rest;
  }
  if (row.unknown_rank()) {
    context.AddOutput(context.dtype(count), row);
    return absl::OkStatus();
  }
  // A bound when the indices are not known: they are a permutation in all graphs of TensorFlow's own making.
  Shape out({indices_known ? rows : shapes_known ? elements : -1});
  for (int64_t dim : row.dims()) out.AddDim(dim);
  context.AddOutput(context.dtype(count), std::move(out));
  if (!indices_known) context.MarkBound(0);
  return absl::OkStatus();
}

// A byte for each row: whether an index names it.
Cost DynamicStitchCost(const OpInstance& instance) {
  Cost cost = MoveCost(instance);
  const Shape& out = instance.outputs[0].shape;
  if (!out.unknown_rank()) cost.scratch_bytes = std::max<int64_t>(out.dim(0), 0);
  return cost;
}

absl::Status DynamicPartitionShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const int64_t count, RequiredAttr<int64_t>(context, "num_partitions"));
  if (count < 1 || count > (1 << 20)) return context.Error(absl::StrCat("num_partitions is ", count));
  const Shape &data = context.shape(0), &partitions = context.shape(1);
  Shape row = Shape::UnknownRank();
  int64_t bound = -1;
  if (data.fully_known() && partitions.fully_known()) {
    if (partitions.rank() > data.rank() || partitions.dims() != data.dims().subspan(0, partitions.rank())) {
      return context.Error(absl::StrCat("data.shape must start with partitions.shape, got data.shape = ",
                                        data.ToString(), ", partitions.shape = ", partitions.ToString()));
    }
    row = Shape(data.dims().subspan(partitions.rank()));
    bound = partitions.num_elements();
  }
  std::vector<int64_t> rows(count, bound);
  const bool known = context.value(1) != nullptr;
  if (known) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, KnownInts(context, 1));
    rows.assign(count, 0);
    for (int64_t value : values) {
      if (value < 0 || value >= count) {
        return context.Error(absl::StrCat("partitions = ", value, " is not in [0, ", count, ")"));
      }
      ++rows[value];
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if (row.unknown_rank()) {
      context.AddOutput(context.dtype(0), row);
      continue;
    }
    context.AddOutput(context.dtype(0), Concatenate({rows[i]}, row.dims()));
    if (!known) context.MarkBound(static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status OneHotShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_ASSIGN_OR_RETURN(const int64_t depth, KnownInt(context, 1));
  if (depth < 0) return context.Error(absl::StrCat("depth must be non-negative, got: ", depth));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "on_value"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 3, "off_value"));
  const Shape& indices = context.shape(0);
  if (indices.unknown_rank()) {
    context.AddOutput(context.dtype(2), indices);
    return absl::OkStatus();
  }
  const int64_t at = context.attrs().GetOr<int64_t>("axis", -1);
  if (at < -1) return context.Error(absl::StrCat("axis must be >= -1, got ", at));
  MR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(context, at, indices.rank() + 1));
  Shape out = Concatenate(indices.dims().subspan(0, axis), {depth});
  for (int i = axis; i < indices.rank(); ++i) out.AddDim(indices.dim(i));
  context.AddOutput(context.dtype(2), std::move(out));
  return absl::OkStatus();
}

Cost ScatterCost(const OpInstance& instance) {
  // The output is written once and the updates (the last tensor input of all these ops but ScatterNd) moved.
  Cost cost = MoveCost(instance);
  for (const TensorType& input : instance.inputs) cost.bytes += static_cast<double>(input.size_bytes());
  return cost;
}

}  // namespace

void RegisterGatherScatterOps(OpRegistry& registry) {
  const std::vector<VariableUse> reads = {{.input = 0, .access = VariableAccess::kRead}};
  const std::vector<VariableUse> updates = {{.input = 0, .access = VariableAccess::kReadWrite}};
  AddOp(registry, {.name = "Gather", .shape = GatherShape, .cost = MoveCost});
  AddOp(registry, {.name = "GatherV2", .shape = GatherV2Shape, .cost = MoveCost});
  AddOp(registry, {.name = "GatherNd", .shape = GatherNdShape, .cost = MoveCost});
  AddOp(registry, {.name = "ResourceGather",
                   .shape = ResourceGatherShape,
                   .cost = MoveCost,
                   .variables = reads,
                   .stateful = true});
  AddOp(registry,
        {.name = "ResourceGatherNd", .shape = ResourceGatherNdShape, .cost = MoveCost, .variables = reads, .stateful = true});
  AddOp(registry, {.name = "ScatterNd", .shape = ScatterNdShape, .cost = ScatterCost});
  for (const char* name : {"TensorScatterAdd", "TensorScatterSub", "TensorScatterUpdate", "TensorScatterMax",
                           "TensorScatterMin", "ScatterNdNonAliasingAdd"}) {
    AddOp(registry, {.name = name, .shape = TensorScatterShape, .cost = ScatterCost, .in_place = {{0, 0}}});
  }
  for (const char* name : {"ScatterNdUpdate", "ScatterNdAdd", "ScatterNdSub", "ScatterNdMax", "ScatterNdMin"}) {
    AddOp(registry, {.name = name,
                     .shape = TensorScatterShape,
                     .cost = ScatterCost,
                     .variables = updates,
                     .returns_variable = true,
                     .writes_chosen_rows = true,
                     .stateful = true});
    AddOp(registry, {.name = absl::StrCat("Resource", name),
                     .shape = CheckVariableScatterNd,
                     .cost = ScatterCost,
                     .variables = updates,
                     .writes_chosen_rows = true,
                     .stateful = true});
  }
  AddOp(registry, {.name = "SparseToDense", .shape = SparseToDenseShape, .cost = ScatterCost});
  for (const char* name : {"DynamicStitch", "ParallelDynamicStitch"}) {
    AddOp(registry, {.name = name, .shape = DynamicStitchShape, .cost = DynamicStitchCost});
  }
  AddOp(registry, {.name = "DynamicPartition", .shape = DynamicPartitionShape, .cost = MoveCost});
  AddOp(registry, {.name = "OneHot", .shape = OneHotShape, .cost = MoveCost});
}

}  // namespace millrace
