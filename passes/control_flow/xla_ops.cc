#include "passes/control_flow/xla_ops.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "graph/message_fields.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

using XlaInts = std::vector<int64_t>;
constexpr int64_t kMostXlaNumber = int64_t{1} << 31;  // sizes, strides, paddings: products of two stay numbers

// Integers of a message by field, packed or not.
absl::StatusOr<std::map<uint64_t, XlaInts>> XlaFields(std::string_view bytes) {
  std::map<uint64_t, XlaInts> numbers;
  MessageFields fields(bytes);
  while (fields.Next()) {
    XlaInts& list = numbers[fields.number()];
    if (fields.is_varint()) list.push_back(static_cast<int64_t>(fields.varint()));
    if (!fields.is_bytes()) continue;
    MessageFields packed(fields.bytes());
    uint64_t value = 0;
    while (!packed.empty() && packed.Varint(&value)) list.push_back(static_cast<int64_t>(value));
    if (!packed.right()) return absl::InvalidArgumentError("attribute 'dimension_numbers' is no message of dimension numbers");
  }
  if (!fields.right()) return absl::InvalidArgumentError("attribute 'dimension_numbers' is no message of dimension numbers");
  return numbers;
}

int64_t LastXlaNumber(const XlaInts& list) { return list.empty() ? 0 : list.back(); }

absl::StatusOr<std::string> XlaNumbersAttr(const InferenceContext& context) {
  absl::StatusOr<std::string> bytes = context.attrs().Get<std::string>("dimension_numbers");
  if (!bytes.ok()) return context.Error(std::string(bytes.status().message()));
  return bytes;
}

template <typename Numbers>
absl::StatusOr<Numbers> XlaNumbersOfNode(const InferenceContext& context, absl::StatusOr<Numbers> (*read)(std::string_view)) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, XlaNumbersAttr(context));
  absl::StatusOr<Numbers> numbers = read(bytes);
  if (!numbers.ok()) return context.Error(std::string(numbers.status().message()));
  return numbers;
}

// XLA compiles for shapes.
absl::Status ExpectXlaShapes(const InferenceContext& context, std::initializer_list<int> inputs) {
  for (int i : inputs) {
    if (context.shape(i).fully_known()) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected a shape that is known when planning"));
  }
  return absl::OkStatus();
}

// The integers of a constant input, each of at least `least`.
absl::StatusOr<XlaInts> XlaConstants(const InferenceContext& context, int input, size_t count, int64_t least) {
  const Tensor* value = context.value(input);
  if (value == nullptr) return context.Error(absl::StrCat("input ", input, " must be a constant"));
  const bool indices = value->dtype() == DataType::kInt32 || value->dtype() == DataType::kInt64;
  if (!indices || static_cast<size_t>(value->num_elements()) != count) {
    return context.Error(absl::StrCat("input ", input, " is ", value->type().ToString(), ", expected ", count, " of int32 or int64"));
  }
  XlaInts numbers;
  for (size_t i = 0; i < count; ++i) {
    numbers.push_back(value->IntAt(static_cast<int64_t>(i)));
    if (numbers.back() >= least && numbers.back() < kMostXlaNumber) continue;
    return context.Error(absl::StrCat("input ", input, " has ", numbers.back(), ", expected at least ", least));
  }
  return numbers;
}

// A value of the first operand's type.
absl::Status ExpectXlaScalar(const InferenceContext& context, int input) {
  const DataType dtype = context.dtype(0);
  if (context.dtype(input) == dtype && context.shape(input).fully_known() && context.shape(input).rank() == 0) return absl::OkStatus();
  return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected a scalar of ", std::string(DataTypeName(dtype))));
}

// Dimensions that differ, of a tensor of that rank.
absl::Status ExpectXlaDims(const InferenceContext& context, const char* what, const XlaInts& dims, int64_t rank) {
  std::set<int64_t> seen;
  for (int64_t dim : dims) {
    if (dim >= 0 && dim < rank && seen.insert(dim).second) continue;
    return context.Error(absl::StrCat(what, " are [", absl::StrJoin(dims, ","), "], expected different dimensions of ", rank));
  }
  return absl::OkStatus();
}

XlaInts XlaJoined(std::initializer_list<XlaInts> lists) {
  XlaInts all;
  for (const XlaInts& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void AddXlaOutput(InferenceContext& context, DataType dtype, const XlaInts& dims) { context.AddOutput(dtype, Shape(absl::MakeConstSpan(dims))); }

absl::Status XlaDotRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(const XlaDotNumbers numbers, XlaNumbersOfNode(context, &ReadXlaDotNumbers));
  const Shape &lhs = context.shape(0), &rhs = context.shape(1);
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dimensions of the left side", XlaJoined({numbers.lhs_batch, numbers.lhs_contracting}), lhs.rank()));
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dimensions of the right side", XlaJoined({numbers.rhs_batch, numbers.rhs_contracting}), rhs.rank()));
  const auto same = [&](const XlaInts& a, const XlaInts& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](int64_t l, int64_t r) { return lhs.dim(l) == rhs.dim(r); });
  };
  if (!same(numbers.lhs_batch, numbers.rhs_batch) || !same(numbers.lhs_contracting, numbers.rhs_contracting)) {
    return context.Error(absl::StrCat("shapes ", lhs.ToString(), " and ", rhs.ToString(), " differ in what is summed over, or in batches"));
  }
  XlaInts dims;
  for (int64_t d : numbers.lhs_batch) dims.push_back(lhs.dim(d));
  for (int64_t d : XlaOtherDims(lhs.rank(), {numbers.lhs_batch, numbers.lhs_contracting})) dims.push_back(lhs.dim(d));
  for (int64_t d : XlaOtherDims(rhs.rank(), {numbers.rhs_batch, numbers.rhs_contracting})) dims.push_back(rhs.dim(d));
  AddXlaOutput(context, context.attrs().GetOr("preferred_element_type", context.dtype(0)), dims);
  return absl::OkStatus();
}

absl::Status XlaConvRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(7));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(const XlaConvNumbers numbers, XlaNumbersOfNode(context, &ReadXlaConvNumbers));
  const Shape &lhs = context.shape(0), &rhs = context.shape(1);
  const size_t spatial = numbers.input_spatial.size();
  const auto rank = static_cast<int64_t>(spatial) + 2;
  if (lhs.rank() != rank || rhs.rank() != rank || numbers.kernel_spatial.size() != spatial || numbers.output_spatial.size() != spatial) {
    return context.Error(absl::StrCat("has ", spatial, " spatial dimensions, of ", lhs.ToString(), " and ", rhs.ToString()));
  }
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "input dimensions", XlaJoined({{numbers.input_batch, numbers.input_feature}, numbers.input_spatial}), rank));
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "kernel dimensions", XlaJoined({{numbers.kernel_input, numbers.kernel_output}, numbers.kernel_spatial}), rank));
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "output dimensions", XlaJoined({{numbers.output_batch, numbers.output_feature}, numbers.output_spatial}), rank));
  MR_ASSIGN_OR_RETURN(const XlaInts strides, XlaConstants(context, 2, spatial, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts padding, XlaConstants(context, 3, 2 * spatial, -kMostXlaNumber));
  MR_ASSIGN_OR_RETURN(const XlaInts lhs_dilation, XlaConstants(context, 4, spatial, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts rhs_dilation, XlaConstants(context, 5, spatial, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts groups, XlaConstants(context, 6, 1, 1));
  const int64_t batch_groups = context.attrs().GetOr<int64_t>("batch_group_count", 1);
  const int64_t batch = lhs.dim(numbers.input_batch), out = rhs.dim(numbers.kernel_output);
  if (batch_groups < 1 || batch % batch_groups != 0 || out % batch_groups != 0 || out % groups[0] != 0 ||
      lhs.dim(numbers.input_feature) != rhs.dim(numbers.kernel_input) * groups[0]) {
    return context.Error(absl::StrCat("shapes ", lhs.ToString(), " and ", rhs.ToString(), " are none for ", groups[0], " groups of channels and ",
                                      batch_groups, " of the batch"));
  }
  XlaInts dims(rank);
  dims[numbers.output_batch] = batch / batch_groups;
  dims[numbers.output_feature] = out;
  for (size_t i = 0; i < spatial; ++i) {
    const XlaWindow window{rhs.dim(numbers.kernel_spatial[i]), strides[i], padding[2 * i], padding[2 * i + 1], lhs_dilation[i], rhs_dilation[i]};
    dims[numbers.output_spatial[i]] = window.Output(lhs.dim(numbers.input_spatial[i]));
  }
  AddXlaOutput(context, context.attrs().GetOr("preferred_element_type", context.dtype(0)), dims);
  return absl::OkStatus();
}

absl::Status XlaPadRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0}));
  const Shape& shape = context.shape(0);
  const size_t rank = shape.rank();
  MR_RETURN_IF_ERROR(ExpectXlaScalar(context, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts low, XlaConstants(context, 2, rank, -kMostXlaNumber));
  MR_ASSIGN_OR_RETURN(const XlaInts high, XlaConstants(context, 3, rank, -kMostXlaNumber));
  MR_ASSIGN_OR_RETURN(const XlaInts interior, XlaConstants(context, 4, rank, 0));
  XlaInts dims;
  for (size_t d = 0; d < rank; ++d) {
    dims.push_back(low[d] + high[d] + XlaWindow{.base_dilation = interior[d] + 1}.Dilated(shape.dim(static_cast<int>(d))));
    if (dims.back() < 0) return context.Error(absl::StrCat("pads dimension ", d, " of ", shape.ToString(), " by ", low[d], " and ", high[d]));
  }
  AddXlaOutput(context, context.dtype(0), dims);
  return absl::OkStatus();
}

// Shapes of the dimensions of indices that are no vector of one.
XlaInts XlaIndexBatch(const Shape& indices, int64_t index_vector) {
  XlaInts dims;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d != index_vector) dims.push_back(indices.dim(static_cast<int>(d)));
  }
  return dims;
}

absl::Status CheckXlaIndexNumbers(const InferenceContext& context, const XlaIndexNumbers& numbers, const Shape& operand, const Shape& indices,
                               int64_t window_rank) {
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dropped dimensions", XlaJoined({numbers.collapsed, numbers.batching}), operand.rank()));
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "indexed dimensions", XlaJoined({numbers.mapped, numbers.batching}), operand.rank()));
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "window dimensions", numbers.window, window_rank));
  if (context.dtype(1) != DataType::kInt32 && context.dtype(1) != DataType::kInt64) {
    return context.Error(absl::StrCat("indices are ", context.input(1).ToString(), ", expected int32 or int64"));
  }
  const int64_t at = numbers.index_vector;
  if (at < 0 || at > indices.rank()) return context.Error(absl::StrCat("index vectors are dimension ", at, " of ", indices.ToString()));
  const int64_t length = at == indices.rank() ? 1 : indices.dim(static_cast<int>(at));
  const bool fits = length == static_cast<int64_t>(numbers.mapped.size()) && numbers.batching.size() == numbers.index_batching.size() &&
                    numbers.window.size() + numbers.collapsed.size() + numbers.batching.size() == static_cast<size_t>(operand.rank()) &&
                    window_rank == static_cast<int64_t>(XlaIndexBatch(indices, at).size() + numbers.window.size());
  MR_RETURN_IF_ERROR(ExpectXlaDims(context, "batches of indices", XlaJoined({numbers.index_batching, {at}}), std::max<int64_t>(indices.rank(), at + 1)));
  if (!fits) {
    return context.Error(absl::StrCat("indices ", indices.ToString(), " are none for ", operand.ToString(), " by these dimension numbers"));
  }
  for (size_t i = 0; i < numbers.batching.size(); ++i) {
    if (indices.dim(static_cast<int>(numbers.index_batching[i])) != operand.dim(static_cast<int>(numbers.batching[i]))) {
      return context.Error(absl::StrCat("indices ", indices.ToString(), " and ", operand.ToString(), " differ in batches"));
    }
  }
  return absl::OkStatus();
}

absl::Status XlaGatherRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 1}));
  MR_ASSIGN_OR_RETURN(const XlaIndexNumbers numbers, XlaNumbersOfNode(context, &ReadXlaIndexNumbers));
  const Shape &operand = context.shape(0), &indices = context.shape(1);
  MR_ASSIGN_OR_RETURN(const XlaInts sizes, XlaConstants(context, 2, operand.rank(), 0));
  const XlaInts batch = XlaIndexBatch(indices, numbers.index_vector);
  MR_RETURN_IF_ERROR(CheckXlaIndexNumbers(context, numbers, operand, indices, static_cast<int64_t>(batch.size() + numbers.window.size())));
  for (int d = 0; d < operand.rank(); ++d) {
    if (sizes[d] > operand.dim(d)) return context.Error(absl::StrCat("takes ", sizes[d], " of dimension ", d, " of ", operand.ToString()));
  }
  for (int64_t d : XlaJoined({numbers.collapsed, numbers.batching})) {
    if (sizes[d] != 1) return context.Error(absl::StrCat("drops dimension ", d, ", of which it takes ", sizes[d]));
  }
  XlaInts dims(batch.size() + numbers.window.size(), -1);
  size_t next = 0;
  for (int64_t d : XlaOtherDims(operand.rank(), {numbers.collapsed, numbers.batching})) dims[numbers.window[next++]] = sizes[d];
  next = 0;
  for (int64_t& dim : dims) dim = dim < 0 ? batch[next++] : dim;
  AddXlaOutput(context, context.dtype(0), dims);
  return absl::OkStatus();
}

absl::Status XlaScatterRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(const XlaIndexNumbers numbers, XlaNumbersOfNode(context, &ReadXlaIndexNumbers));
  const Shape &operand = context.shape(0), &indices = context.shape(1), &updates = context.shape(2);
  MR_RETURN_IF_ERROR(CheckXlaIndexNumbers(context, numbers, operand, indices, updates.rank()));
  const XlaInts batch = XlaIndexBatch(indices, numbers.index_vector), kept = XlaOtherDims(operand.rank(), {numbers.collapsed, numbers.batching});
  size_t next = 0;
  for (int64_t d : XlaOtherDims(updates.rank(), {numbers.window})) {
    if (updates.dim(static_cast<int>(d)) != batch[next++]) {
      return context.Error(absl::StrCat("updates are ", updates.ToString(), ", indices ", indices.ToString()));
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (updates.dim(static_cast<int>(numbers.window[i])) > operand.dim(static_cast<int>(kept[i]))) {
      return context.Error(absl::StrCat("updates are ", updates.ToString(), ", more than ", operand.ToString(), " has room for"));
    }
  }
  context.AddOutput(context.dtype(0), operand);
  return absl::OkStatus();
}

// (operands, initial values)
absl::Status XlaReduceRule(InferenceContext& context) {
  const int operands = context.num_inputs() / 2;
  if (operands < 1 || context.num_inputs() % 2 != 0) {
    return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected operands and as many initial values"));
  }
  const XlaInts axes = context.attrs().GetOr<XlaInts>("dimensions_to_reduce", {});
  for (int i = 0; i < operands; ++i) {
    MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {i, operands + i}));
    const Shape& shape = context.shape(i);
    if (context.shape(operands + i).rank() != 0) return context.Error(absl::StrCat("input ", operands + i, " is no scalar"));
    if (shape != context.shape(0)) return context.Error(absl::StrCat("operands are ", context.shape(0).ToString(), " and ", shape.ToString()));
    MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dimensions to reduce", axes, shape.rank()));
    XlaInts dims;
    for (int64_t d : XlaOtherDims(shape.rank(), {axes})) dims.push_back(shape.dim(static_cast<int>(d)));
    AddXlaOutput(context, context.dtype(i), dims);
  }
  return absl::OkStatus();
}

absl::Status XlaReduceWindowRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(7));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0}));
  MR_RETURN_IF_ERROR(ExpectXlaScalar(context, 1));
  const Shape& shape = context.shape(0);
  const size_t rank = shape.rank();
  MR_ASSIGN_OR_RETURN(const XlaInts sizes, XlaConstants(context, 2, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts strides, XlaConstants(context, 3, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts base, XlaConstants(context, 4, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts dilations, XlaConstants(context, 5, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts padding, XlaConstants(context, 6, 2 * rank, -kMostXlaNumber));
  XlaInts dims;
  for (size_t d = 0; d < rank; ++d) {
    dims.push_back(XlaWindow{sizes[d], strides[d], padding[2 * d], padding[2 * d + 1], base[d], dilations[d]}.Output(shape.dim(static_cast<int>(d))));
  }
  AddXlaOutput(context, context.dtype(0), dims);
  return absl::OkStatus();
}

absl::Status XlaSelectAndScatterRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 4}));
  MR_RETURN_IF_ERROR(ExpectXlaScalar(context, 5));
  const Shape &shape = context.shape(0), &source = context.shape(4);
  const size_t rank = shape.rank();
  MR_ASSIGN_OR_RETURN(const XlaInts sizes, XlaConstants(context, 1, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts strides, XlaConstants(context, 2, rank, 1));
  MR_ASSIGN_OR_RETURN(const XlaInts padding, XlaConstants(context, 3, 2 * rank, 0));
  XlaInts dims;
  for (size_t d = 0; d < rank; ++d) {
    dims.push_back(XlaWindow{sizes[d], strides[d], padding[2 * d], padding[2 * d + 1]}.Output(shape.dim(static_cast<int>(d))));
  }
  if (source != Shape(absl::MakeConstSpan(dims))) {
    return context.Error(absl::StrCat("the source is ", source.ToString(), ", expected [", absl::StrJoin(dims, ","), "]"));
  }
  context.AddOutput(context.dtype(0), shape);
  return absl::OkStatus();
}

// (operands[, dimension])
absl::Status XlaSortRule(InferenceContext& context) {
  const int operands = context.num_inputs() - (context.op() == "XlaVariadicSort" ? 1 : 0);
  if (operands < 1) return context.Error(absl::StrCat("has ", context.num_inputs(), " inputs, expected operands"));
  for (int i = 0; i < operands; ++i) {
    MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {i}));
    if (context.shape(i) != context.shape(0)) {
      return context.Error(absl::StrCat("operands are ", context.shape(0).ToString(), " and ", context.shape(i).ToString()));
    }
    context.AddOutput(context.dtype(i), context.shape(i));
  }
  if (context.op() == "XlaVariadicSort") {
    MR_ASSIGN_OR_RETURN(const XlaInts dimension, XlaConstants(context, operands, 1, 0));
    MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dimensions to sort along", dimension, context.shape(0).rank()));
  }
  return absl::OkStatus();
}

// (algorithm, state, shape) -> state, bits
absl::Status XlaRandomRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const XlaInts algorithm, XlaConstants(context, 0, 1, 0));
  const Shape &state = context.shape(1), &shape = context.shape(2);
  const bool is_state = context.dtype(1) == DataType::kUint64 && state.fully_known() && state.rank() == 1 && (state.dim(0) == 2 || state.dim(0) == 3);
  if (!is_state) return context.Error(absl::StrCat("the state is ", context.input(1).ToString(), ", expected 2 or 3 of uint64"));
  if (!shape.fully_known() || shape.rank() != 1) return context.Error(absl::StrCat("the shape is ", context.input(2).ToString(), ", expected a vector"));
  MR_ASSIGN_OR_RETURN(const XlaInts dims, XlaConstants(context, 2, static_cast<size_t>(shape.dim(0)), 0));
  const DataType dtype = context.attrs().GetOr("dtype", DataType::kUint64);
  if (dtype != DataType::kUint8 && dtype != DataType::kUint32 && dtype != DataType::kUint64) {
    return context.Error(absl::StrCat("dtype is ", std::string(DataTypeName(dtype)), ", expected uint8, uint32 or uint64"));
  }
  context.AddOutput(DataType::kUint64, state);
  AddXlaOutput(context, dtype, dims);
  return absl::OkStatus();
}

// (left, right, dimensions of the longer shape) -> both with equal ranks
absl::Status XlaBroadcastHelperRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0, 1, 2}));
  const bool left_is_longer = context.shape(0).rank() >= context.shape(1).rank();
  const Shape &longer = context.shape(left_is_longer ? 0 : 1), &shorter = context.shape(left_is_longer ? 1 : 0);
  XlaInts dims(shorter.dims().begin(), shorter.dims().end());
  if (shorter.rank() > 0 && shorter.rank() < longer.rank()) {
    MR_ASSIGN_OR_RETURN(const XlaInts places, XlaConstants(context, 2, dims.size(), 0));
    MR_RETURN_IF_ERROR(ExpectXlaDims(context, "dimensions to broadcast along", places, longer.rank()));
    if (!std::is_sorted(places.begin(), places.end())) {
      return context.Error(absl::StrCat("dimensions to broadcast along are [", absl::StrJoin(places, ","), "], expected ascending ones"));
    }
    dims.assign(longer.rank(), 1);
    for (size_t i = 0; i < places.size(); ++i) dims[places[i]] = shorter.dim(static_cast<int>(i));
  }
  for (int i : {0, 1}) {
    if ((i == 0) == left_is_longer) {
      context.AddOutput(context.dtype(i), longer);
    } else {
      AddXlaOutput(context, context.dtype(i), dims);
    }
  }
  return absl::OkStatus();
}

// matrices -> eigenvalues and vectors, or singular values and both bases
absl::Status XlaMatrixRule(InferenceContext& context) {
  const bool singular = context.op() == "XlaSvd";
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectXlaShapes(context, {0}));
  const Shape& shape = context.shape(0);
  const int rank = shape.rank();
  if (rank < 2 || (!singular && shape.dim(rank - 1) != shape.dim(rank - 2))) {
    return context.Error(absl::StrCat("input 0 is ", context.input(0).ToString(), ", expected ", singular ? "matrices" : "square matrices"));
  }
  const int64_t rows = shape.dim(rank - 2), columns = shape.dim(rank - 1);
  const auto add = [&](std::initializer_list<int64_t> last) {
    XlaInts dims(shape.dims().begin(), shape.dims().end() - 2);
    dims.insert(dims.end(), last);
    AddXlaOutput(context, context.dtype(0), dims);
  };
  add({std::min(rows, columns)});
  add({rows, rows});
  if (singular) add({columns, columns});
  return absl::OkStatus();
}

absl::Status XlaSameRule(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(context.dtype(0), context.shape(0));
  return absl::OkStatus();
}

const std::map<std::string, OpDef::ShapeRule>& XlaRules() {
  static const auto& rules = *new std::map<std::string, OpDef::ShapeRule>{
      {"XlaBroadcastHelper", XlaBroadcastHelperRule},
      {"XlaConv", XlaConvRule},
      {"XlaConvV2", XlaConvRule},
      {"XlaDot", XlaDotRule},
      {"XlaDotV2", XlaDotRule},
      {"XlaGather", XlaGatherRule},
      {"XlaKeyValueSort", XlaSortRule},
      {"XlaPad", XlaPadRule},
      {"XlaReduce", XlaReduceRule},
      {"XlaReducePrecision", XlaSameRule},
      {"XlaReduceWindow", XlaReduceWindowRule},
      {"XlaRngBitGenerator", XlaRandomRule},
      {"XlaScatter", XlaScatterRule},
      {"XlaSelectAndScatter", XlaSelectAndScatterRule},
      {"XlaSelfAdjointEig", XlaMatrixRule},
      {"XlaSort", XlaSortRule},
      {"XlaSvd", XlaMatrixRule},
      {"XlaVariadicReduce", XlaReduceRule},
      {"XlaVariadicReduceV2", XlaReduceRule},
      {"XlaVariadicSort", XlaSortRule},
  };
  return rules;
}

}  // namespace

bool IsXlaOp(const std::string& op) { return absl::StartsWith(op, "Xla") && XlaRules().count(op) > 0; }

bool HoldsXlaOps(const Graph& graph) {
  return HoldsAny(graph, [](const Node& node) { return IsXlaOp(node.op); });
}

OpRegistry WithXlaOps(const OpRegistry& ops) {
  OpRegistry all = ops;
  for (const auto& [name, rule] : XlaRules()) {
    if (all.Find(name) == nullptr) CHECK(all.Register({.name = name, .shape = rule}).ok()) << name;
  }
  return all;
}

absl::StatusOr<XlaDotNumbers> ReadXlaDotNumbers(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(auto fields, XlaFields(bytes));
  return XlaDotNumbers{fields[1], fields[2], fields[3], fields[4]};
}

absl::StatusOr<XlaConvNumbers> ReadXlaConvNumbers(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(auto fields, XlaFields(bytes));
  XlaConvNumbers numbers;
  numbers.kernel_input = LastXlaNumber(fields[3]);
  numbers.kernel_output = LastXlaNumber(fields[4]);
  numbers.kernel_spatial = fields[6];
  numbers.input_batch = LastXlaNumber(fields[7]);
  numbers.input_feature = LastXlaNumber(fields[8]);
  numbers.output_batch = LastXlaNumber(fields[9]);
  numbers.output_feature = LastXlaNumber(fields[10]);
  numbers.input_spatial = fields[11];
  numbers.output_spatial = fields[12];
  return numbers;
}

absl::StatusOr<XlaIndexNumbers> ReadXlaIndexNumbers(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(auto fields, XlaFields(bytes));
  XlaIndexNumbers numbers{fields[1], fields[2], fields[3], fields[5], fields[6]};
  numbers.index_vector = LastXlaNumber(fields[4]);
  return numbers;
}

std::vector<int64_t> XlaOtherDims(int64_t rank, absl::Span<const std::vector<int64_t>> lists) {
  XlaInts others;
  for (int64_t d = 0; d < rank; ++d) {
    const auto holds = [d](const XlaInts& list) { return std::find(list.begin(), list.end(), d) != list.end(); };
    if (std::none_of(lists.begin(), lists.end(), holds)) others.push_back(d);
  }
  return others;
}

}  // namespace millrace
