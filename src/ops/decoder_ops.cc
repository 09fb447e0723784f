// Decoded sequences and their distances, pooling over windows of changing size, ragged rows laid out as a tensor.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

absl::Status ExpectRank(const InferenceContext& context, int input, DataType dtype, int rank) {
  const TensorType& type = context.input(input);
  if (type.dtype == dtype && (type.shape.unknown_rank() || type.shape.rank() == rank)) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", type.ToString(), ", expected ", std::string(DataTypeName(dtype)), " of ",
                                    rank, " dimensions"));
}

// (inputs [time, batch, classes], sequence_length [batch]) -> indices [n, 2], values [n], shape [2], log probability [batch, 1]
absl::Status GreedyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectRank(context, 0, context.dtype(0), 3));
  MR_RETURN_IF_ERROR(ExpectRank(context, 1, DataType::kInt32, 1));
  const Shape &inputs = context.shape(0), &lengths = context.shape(1);
  const bool known = inputs.fully_known();
  if (known && lengths.fully_known() && inputs.dim(1) != lengths.dim(0)) {
    return context.Error(absl::StrCat("len(sequence_length) != batch_size: ", lengths.ToString(), " and inputs ", inputs.ToString()));
  }
  const int64_t most = known ? SizeProduct(inputs.dim(0), inputs.dim(1)) : -1;
  context.AddOutput(DataType::kInt64, Shape({most, 2}));
  context.AddOutput(DataType::kInt64, Shape({most}));
  context.AddOutput(DataType::kInt64, Shape({2}));
  context.AddOutput(context.dtype(0), Shape({known ? inputs.dim(1) : -1, 1}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// (inputs [time, batch, classes], sequence_length [batch]) -> per path indices, values and shape, log probabilities [batch, paths]
absl::Status BeamShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectRank(context, 0, context.dtype(0), 3));
  MR_RETURN_IF_ERROR(ExpectRank(context, 1, DataType::kInt32, 1));
  MR_ASSIGN_OR_RETURN(const int64_t width, RequiredAttr<int64_t>(context, "beam_width"));
  MR_ASSIGN_OR_RETURN(const int64_t paths, RequiredAttr<int64_t>(context, "top_paths"));
  if (paths < 1 || width < paths || paths > 1000) {
    return context.Error(absl::StrCat("beam_width is ", width, " and top_paths ", paths, ", expected 1 path or more, and no more than the width"));
  }
  const Shape &inputs = context.shape(0), &lengths = context.shape(1);
  const bool known = inputs.fully_known();
  if (known && lengths.fully_known() && inputs.dim(1) != lengths.dim(0)) {
    return context.Error(absl::StrCat("len(sequence_length) != batch_size: ", lengths.ToString(), " and inputs ", inputs.ToString()));
  }
  const int64_t most = known ? SizeProduct(inputs.dim(0), inputs.dim(1)) : -1;
  const int count = static_cast<int>(paths);
  for (int p = 0; p < count; ++p) context.AddOutput(DataType::kInt64, Shape({most, 2}));
  for (int p = 0; p < count; ++p) context.AddOutput(DataType::kInt64, Shape({most}));
  for (int p = 0; p < count; ++p) context.AddOutput(DataType::kInt64, Shape({2}));
  context.AddOutput(context.dtype(0), Shape({known ? inputs.dim(1) : -1, paths}));
  for (int i = 0; i < 2 * count; ++i) context.MarkBound(i);
  return absl::OkStatus();
}

// (hypothesis indices, values, shape; truth indices, values, shape) -> a distance per sequence
absl::Status EditDistanceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  for (int first : {0, 3}) {
    MR_RETURN_IF_ERROR(ExpectRank(context, first, DataType::kInt64, 2));
    MR_RETURN_IF_ERROR(ExpectRank(context, first + 1, context.dtype(1), 1));
    MR_RETURN_IF_ERROR(ExpectRank(context, first + 2, DataType::kInt64, 1));
    const Shape &indices = context.shape(first), &values = context.shape(first + 1), &shape = context.shape(first + 2);
    if (indices.fully_known() && values.fully_known() && shape.fully_known() &&
        (indices.dim(0) != values.dim(0) || indices.dim(1) != shape.dim(0) || shape.dim(0) < 1)) {
      return context.Error(absl::StrCat("indices ", indices.ToString(), ", values ", values.ToString(), " and shape ", shape.ToString(),
                                        " are no sequences, expected [n,rank], [n] and [rank]"));
    }
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> a, KnownInts(context, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> b, KnownInts(context, 5));
  if (a.size() != b.size()) return context.Error(absl::StrCat("ranks ", a.size(), " and ", b.size(), " of hypothesis and truth differ"));
  Shape out;
  for (size_t d = 0; d + 1 < a.size(); ++d) out.AddDim(std::max(a[d], b[d]));
  context.AddOutput(DataType::kFloat, out);
  return absl::OkStatus();
}

// value [batch, rows, columns, channels] -> pooled, first rows of the windows, first columns
absl::Status FractionalPoolShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectRank(context, 0, context.dtype(0), 4));
  MR_ASSIGN_OR_RETURN(const std::vector<float> ratio, RequiredAttr<std::vector<float>>(context, "pooling_ratio"));
  if (ratio.size() != 4) return context.Error("pooling_ratio field must specify 4 dimensions");
  const bool seeded = context.attrs().GetOr<int64_t>("seed", 0) != 0 || context.attrs().GetOr<int64_t>("seed2", 0) != 0;
  if (seeded && !context.attrs().GetOr("deterministic", false)) return context.Error("Both seed and seed2 should be 0 if deterministic is false.");
  if (ratio[0] != 1 || ratio[3] != 1) return context.Error("Fractional pooling is not yet supported on the batch or channel dimension.");
  Shape out = context.shape(0);
  if (!out.fully_known()) return context.Error(absl::StrCat("value is ", out.ToString(), ", expected a shape that is known"));
  for (int d : {1, 2}) {
    if (!(ratio[d] >= 1)) return context.Error(absl::StrCat("pooling_ratio must be at least 1, got ", ratio[d]));
    const int64_t size = static_cast<int64_t>(std::floor(static_cast<float>(out.dim(d)) / ratio[d]));
    if (size < 1) return context.Error(absl::StrCat("dimension ", d, " of ", out.ToString(), " is smaller than its pooling ratio ", ratio[d]));
    out.set_dim(d, size);
  }
  context.AddOutput(context.dtype(0), out);
  for (int d : {1, 2}) context.AddOutput(DataType::kInt64, Shape({out.dim(d) + 1}));
  return absl::OkStatus();
}

absl::Status ExpectWindows(const InferenceContext& context, int pooled, int rows, int columns) {
  MR_RETURN_IF_ERROR(ExpectRank(context, pooled, context.dtype(pooled), 4));
  for (int i : {rows, columns}) {
    MR_RETURN_IF_ERROR(ExpectRank(context, i, DataType::kInt64, 1));
    const int64_t windows = context.shape(pooled).unknown_rank() ? -1 : context.shape(pooled).dim(i == rows ? 1 : 2);
    if (windows >= 0 && context.shape(i).fully_known() && context.shape(i).dim(0) != windows + 1) {
      return context.Error(absl::StrCat("input ", i, " has ", context.shape(i).dim(0), " places, expected ", windows + 1));
    }
  }
  return absl::OkStatus();
}

// (input, output, gradient of the output, rows, columns) -> gradient of the input
absl::Status FractionalMaxGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1, 2}));
  MR_RETURN_IF_ERROR(ExpectWindows(context, 2, 3, 4));
  MR_RETURN_IF_ERROR(ExpectRank(context, 0, context.dtype(0), 4));
  const Shape &in = context.shape(0), &gradient = context.shape(2);
  if (in.fully_known() && gradient.fully_known() && (in.dim(0) != gradient.dim(0) || in.dim(3) != gradient.dim(3))) {
    return context.Error(absl::StrCat("input ", in.ToString(), " and gradient ", gradient.ToString(), " differ in batch or channels"));
  }
  context.AddOutput(context.dtype(0), in);
  return absl::OkStatus();
}

// (shape of the input, gradient of the output, rows, columns) -> gradient of the input
absl::Status FractionalAvgGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectWindows(context, 1, 2, 3));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 0));
  const Shape& gradient = context.shape(1);
  if (dims.size() != 4 || (gradient.fully_known() && (dims[0] != gradient.dim(0) || dims[3] != gradient.dim(3)))) {
    return context.Error(absl::StrCat("the input's shape has ", dims.size(), " dimensions and the gradient is ", gradient.ToString(),
                                      ", expected 4 that agree in batch and channels"));
  }
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("the input's shape has a dimension of ", dim));
  }
  context.AddOutput(context.dtype(1), Shape(dims));
  return absl::OkStatus();
}

// (shape, values, default_value, row partitions) -> dense. Where shape has -1, the dimension is the longest row.
absl::Status RaggedToTensorShape(InferenceContext& context) {
  if (context.num_inputs() < 4) return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected at least 4"));
  MR_ASSIGN_OR_RETURN(const auto types, RequiredAttr<std::vector<std::string>>(context, "row_partition_types"));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 2}));
  if (types.empty() || static_cast<int>(types.size()) != context.num_inputs() - 3) {
    return context.Error(absl::StrCat(types.size(), " row_partition_types of ", context.num_inputs() - 3, " row partitions"));
  }
  if (types[0] == "VALUE_ROWIDS") return context.Error("Cannot handle VALUE_ROWIDS in first dimension.");
  const bool sized = types[0] == "FIRST_DIM_SIZE";
  if (sized) MR_RETURN_IF_ERROR(ExpectScalar(context, 3, "FIRST_DIM_SIZE"));
  const int levels = static_cast<int>(types.size()) - (sized ? 1 : 0);
  const Shape& values = context.shape(1);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> asked, KnownInts(context, 0));
  if (values.unknown_rank() || values.rank() < 1) return context.Error(absl::StrCat("values are ", values.ToString()));
  const int rank = levels + values.rank();
  if (!asked.empty() && static_cast<int>(asked.size()) != rank && !(asked.size() == 1 && asked[0] == -1)) {
    return context.Error(absl::StrCat("shape has ", asked.size(), " dimensions, expected ", rank));
  }
  Shape out;
  bool open = false;
  for (int d = 0; d < rank; ++d) {
    const int64_t given = static_cast<int>(asked.size()) == rank ? asked[d] : -1;
    int64_t size = given;
    if (d > levels) {
      size = values.dim(d - levels);
      if (given >= 0 && size >= 0 && given != size) return context.Error(absl::StrCat("dimension ", d, " is ", size, ", shape asks for ", given));
    } else if (given < 0 && d == 0) {
      const Shape& partition = context.shape(3);
      if (sized) {
        MR_ASSIGN_OR_RETURN(size, KnownInt(context, 3));
      } else {
        size = partition.fully_known() && partition.rank() == 1 ? std::max<int64_t>(partition.dim(0) - 1, 0) : -1;
      }
    } else if (given < 0) {
      size = values.dim(0);  // a row holds at most all there is
      if (d < levels) {
        const Shape& partition = context.shape(3 + d);
        size = partition.fully_known() && partition.rank() == 1 ? partition.dim(0) : -1;
      }
      open = true;
    }
    out.AddDim(size);
  }
  context.AddOutput(context.dtype(1), out);
  if (open) context.MarkBound(0);
  return absl::OkStatus();
}

// Every step looks at every class of every prefix of the beam.
Cost BeamCost(const OpInstance& node) {
  Cost cost;
  cost.bytes = node.inputs[0].size_bytes();
  cost.flops = 4.0 * static_cast<double>(node.inputs[0].shape.num_elements()) * static_cast<double>(node.attrs.GetOr<int64_t>("beam_width", 1));
  return cost;
}

}  // namespace

void RegisterDecoderOps(OpRegistry& registry) {
  AddOp(registry, {.name = "CTCGreedyDecoder", .shape = GreedyShape});
  AddOp(registry, {.name = "CTCBeamSearchDecoder", .shape = BeamShape, .cost = BeamCost});
  AddOp(registry, {.name = "EditDistance", .shape = EditDistanceShape});
  for (const char* name : {"FractionalMaxPool", "FractionalAvgPool"}) {
    AddOp(registry, {.name = name, .shape = FractionalPoolShape, .stateful = true, .state_bytes = sizeof(int64_t)});
  }
  AddOp(registry, {.name = "FractionalMaxPoolGrad", .shape = FractionalMaxGradShape});
  AddOp(registry, {.name = "FractionalAvgPoolGrad", .shape = FractionalAvgGradShape});
  AddOp(registry, {.name = "RaggedTensorToTensor", .shape = RaggedToTensorShape, .cost = MoveCost});
}

}  // namespace millrace
