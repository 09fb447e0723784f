#include "ops/rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "millrace/status.h"
#include "ops/input_types.h"

namespace millrace {

void AddOp(OpRegistry& registry, OpDef def) {
  def.shape = WithTypesChecked(def.name, std::move(def.shape));
  const absl::Status status = registry.Register(std::move(def));
  CHECK(status.ok()) << status.ToString();
}

absl::Status SameAsFirstInput(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  context.AddOutput(context.dtype(0), context.shape(0));
  return absl::OkStatus();
}

absl::Status ExpectEqualTypes(const InferenceContext& context, std::initializer_list<int> inputs) {
  const int first = *inputs.begin();
  for (int i : inputs) {
    if (context.dtype(i) == context.dtype(first)) continue;
    return context.Error(absl::StrCat("inputs ", first, " and ", i, " are ", context.input(first).ToString(), " and ",
                                      context.input(i).ToString(), ", expected equal element types"));
  }
  return absl::OkStatus();
}

absl::Status ExpectScalar(const InferenceContext& context, int input, const char* name) {
  const Shape& shape = context.shape(input);
  if (shape.unknown_rank() || shape.rank() == 0) return absl::OkStatus();
  return context.Error(absl::StrCat(name, " must be a scalar, input ", input, " is ", context.input(input).ToString()));
}

absl::Status ExpectVector(const InferenceContext& context, int input, const char* name, int64_t elements) {
  const Shape& shape = context.shape(input);
  if (shape.unknown_rank() || (shape.rank() == 1 && (shape.dim(0) < 0 || shape.dim(0) == elements))) return absl::OkStatus();
  return context.Error(absl::StrCat(name, " must have shape [", elements, "], input ", input, " is ", context.input(input).ToString()));
}

absl::Status ExpectLayout(const InferenceContext& context, int input, int rank, const char* layout) {
  const Shape& shape = context.shape(input);
  if (shape.unknown_rank() || shape.rank() == rank) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", shape.ToString(), ", expected ", layout));
}

absl::Status ExpectImages(const InferenceContext& context, int input) {
  return ExpectLayout(context, input, 4, "[batch,height,width,channels]");
}

absl::Status ExpectShape(const InferenceContext& context, int input, const Shape& expected) {
  const Shape& shape = context.shape(input);
  if (!shape.fully_known() || !expected.fully_known() || shape == expected) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", shape.ToString(), ", expected ", expected.ToString()));
}

bool MayBeEqual(const Shape& a, const Shape& b) {
  if (a.unknown_rank() || b.unknown_rank()) return true;
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dim(d) >= 0 && b.dim(d) >= 0 && a.dim(d) != b.dim(d)) return false;
  }
  return true;
}

absl::Status ExpectSparse(const InferenceContext& context, int indices_at, int values_at, int shape_at) {
  const Shape &indices = context.shape(indices_at), &values = context.shape(values_at), &shape = context.shape(shape_at);
  if (!indices.fully_known() || !values.fully_known() || !shape.fully_known()) return absl::OkStatus();
  if (indices.rank() == 2 && values.rank() == 1 && shape.rank() == 1 && indices.dim(0) == values.dim(0) &&
      indices.dim(1) == shape.dim(0)) {
    return absl::OkStatus();
  }
  return context.Error(absl::StrCat("indices ", indices.ToString(), ", values ", values.ToString(), " and shape ", shape.ToString(),
                                    " are no sparse tensor, expected [n,rank], [n] and [rank]"));
}

absl::Status ExpectSeed(const InferenceContext& context, int input) {
  if (context.dtype(input) != DataType::kInt32 && context.dtype(input) != DataType::kInt64) {
    return context.Error(absl::StrCat("seed is ", context.input(input).ToString(), ", expected int32 or int64"));
  }
  return ExpectVector(context, input, "seed", 2);
}

absl::Status ExpectKeyCounterAlg(const InferenceContext& context, int key) {
  MR_RETURN_IF_ERROR(ExpectVector(context, key, "key", 1));
  const Shape& counter = context.shape(key + 1);
  if (!counter.unknown_rank() && (counter.rank() != 1 || (counter.dim(0) >= 0 && counter.dim(0) < 2))) {
    return context.Error(absl::StrCat("counter must be a vector with length at least 2; got shape: ", counter.ToString()));
  }
  return ExpectScalar(context, key + 2, "alg");
}

absl::StatusOr<bool> ChannelsAreSecond(const InferenceContext& context) {
  const std::string format = context.attrs().GetOr<std::string>("data_format", "NHWC");
  if (format == "NHWC" || format == "NCHW") return format == "NCHW";
  return context.Error(absl::StrCat("data_format is '", format, "', expected NHWC or NCHW"));
}

absl::StatusOr<DataType> IndexTypeAttr(const InferenceContext& context, const char* name, DataType fallback) {
  const DataType type = context.attrs().GetOr<DataType>(name, fallback);
  if (type == DataType::kInt32 || type == DataType::kInt64) return type;
  return context.Error(absl::StrCat(name, " is ", std::string(DataTypeName(type)), ", expected int32 or int64"));
}

absl::Status NoOutputs(InferenceContext&) { return absl::OkStatus(); }

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  if (a.unknown_rank() || b.unknown_rank()) return Shape::UnknownRank();
  const int rank = std::max(a.rank(), b.rank());
  Shape result;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da == db || db == 1) {
      result.AddDim(da);
    } else if (da == 1) {
      result.AddDim(db);
    } else if (da < 0 || db < 0) {
      result.AddDim(std::max(da, db));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast"));
    }
  }
  return result;
}

absl::Status BroadcastBinary(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  absl::StatusOr<Shape> shape = BroadcastShapes(context.shape(0), context.shape(1));
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  context.AddOutput(context.dtype(0), *std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<int> NormalizeAxis(const InferenceContext& context, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return context.Error(absl::StrCat("axis ", axis, " is out of range, expected [", -rank, ", ", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<std::vector<int64_t>> KnownInts(const InferenceContext& context, int input) {
  if (input >= context.num_inputs()) {
    return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected more than ", input));
  }
  const Tensor* value = context.value(input);
  if (value == nullptr) {
    return context.Error(absl::StrCat("input ", input, " must be known when the graph is planned, but is computed "
                                      "from values that are not"));
  }
  if (!IsInteger(value->dtype())) {
    return context.Error(absl::StrCat("input ", input, " is ", value->type().ToString(), ", expected integers"));
  }
  std::vector<int64_t> ints(value->num_elements());
  for (size_t i = 0; i < ints.size(); ++i) ints[i] = value->IntAt(i);
  return ints;
}

absl::StatusOr<int64_t> KnownInt(const InferenceContext& context, int input) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> ints, KnownInts(context, input));
  if (ints.size() != 1) {
    return context.Error(
        absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected one element"));
  }
  return ints[0];
}

absl::StatusOr<int64_t> KnownSize(const InferenceContext& context, int input) {
  MR_ASSIGN_OR_RETURN(const int64_t size, KnownInt(context, input));
  if (size < 0) return context.Error(absl::StrCat("size (", size, ") must be non-negative"));
  return size;
}

absl::Status ErrorAtNode(const InferenceContext& context, const absl::Status& status) {
  return context.Error(std::string(status.message()));
}

Cost MoveCost(const OpInstance& instance) {
  Cost cost;
  for (const TensorType& output : instance.outputs) cost.bytes += 2.0 * output.size_bytes();
  return cost;
}

Cost NoCost(const OpInstance&) { return Cost(); }

}  // namespace millrace
