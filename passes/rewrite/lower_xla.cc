#include "passes/rewrite/lower_xla.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/xla_ops.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

bool IsXlaComplex(DataType dtype) { return dtype == DataType::kComplex64 || dtype == DataType::kComplex128; }

// One side of a product: [batches, rows, columns] or the other way round.
struct XlaDotSide {
  XlaValue matrix;
  bool turned = false;  // columns before rows
};

// Dimensions of 1 may lie anywhere.
bool IsXlaInOrder(const XlaValue& value, const Ints& order) {
  Ints longer;
  std::copy_if(order.begin(), order.end(), std::back_inserter(longer), [&](int64_t d) { return value.dims[d] != 1; });
  return std::is_sorted(longer.begin(), longer.end());
}

Ints XlaConcat(std::initializer_list<Ints> lists) {
  Ints all;
  for (const Ints& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

int64_t XlaSizeOf(const XlaValue& value, const Ints& dims) {
  int64_t size = 1;
  for (int64_t d : dims) size *= value.dims[d];
  return size;
}

XlaDotSide XlaSideOf(XlaWriter& writer, const XlaValue& value, const Ints& batch, const Ints& rows, const Ints& columns, bool may_turn) {
  XlaDotSide side;
  const Ints order = XlaConcat({batch, rows, columns}), turned = XlaConcat({batch, columns, rows});
  // Where it is transposed in any case, its last dimension stays the last.
  const bool last_stays = !order.empty() && turned.back() + 1 == value.rank() && order.back() + 1 != value.rank();
  side.turned = may_turn && !IsXlaInOrder(value, order) && (IsXlaInOrder(value, turned) || last_stays);
  Ints dims = {XlaSizeOf(value, rows), XlaSizeOf(value, columns)};
  if (side.turned) std::swap(dims[0], dims[1]);
  if (!batch.empty()) dims.insert(dims.begin(), XlaSizeOf(value, batch));
  side.matrix = writer.Reshape(writer.Transpose(value, side.turned ? turned : order), dims);
  return side;
}

absl::Status LowerXlaDot(XlaWriter& writer) {
  MR_ASSIGN_OR_RETURN(XlaDotNumbers numbers, ReadXlaDotNumbers(writer.node().attrs.GetOr<std::string>("dimension_numbers", "")));
  const XlaValue output = writer.Output();
  const XlaValue lhs = writer.Cast(writer.Input(0), output.dtype), rhs = writer.Cast(writer.Input(1), output.dtype);
  const Ints lhs_rows = XlaOtherDims(lhs.rank(), {numbers.lhs_batch, numbers.lhs_contracting});
  const Ints rhs_columns = XlaOtherDims(rhs.rank(), {numbers.rhs_batch, numbers.rhs_contracting});
  // What is summed over may be in any order: that of one of the sides, so that this one need not be transposed.
  Ints pairs(numbers.lhs_contracting.size());
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<int64_t>(i);
  const bool by_lhs = lhs.num_elements() >= rhs.num_elements();
  const Ints& leading = by_lhs ? numbers.lhs_contracting : numbers.rhs_contracting;
  std::sort(pairs.begin(), pairs.end(), [&](int64_t a, int64_t b) { return leading[a] < leading[b]; });
  const Ints lhs_summed = PermutedBy(numbers.lhs_contracting, pairs), rhs_summed = PermutedBy(numbers.rhs_contracting, pairs);
  const bool batched = !numbers.lhs_batch.empty();
  const bool may_turn = !(batched && IsXlaComplex(output.dtype));  // which would be conjugated
  const XlaDotSide left = XlaSideOf(writer, lhs, numbers.lhs_batch, lhs_rows, lhs_summed, may_turn);
  const XlaDotSide right = XlaSideOf(writer, rhs, numbers.rhs_batch, rhs_summed, rhs_columns, may_turn);
  Ints dims = {XlaSizeOf(lhs, lhs_rows), XlaSizeOf(rhs, rhs_columns)};
  if (batched) dims.insert(dims.begin(), XlaSizeOf(lhs, numbers.lhs_batch));
  AttrMap attrs{{"T", output.dtype}};
  attrs.Set(batched ? "adj_x" : "transpose_a", left.turned);
  attrs.Set(batched ? "adj_y" : "transpose_b", right.turned);
  const XlaValue product = writer.Add(batched ? "BatchMatMulV2" : "MatMul", {left.matrix, right.matrix}, output.dtype, dims, attrs);
  writer.Finish(writer.Reshape(product, output.dims));
  return absl::OkStatus();
}

absl::Status LowerXlaPad(XlaWriter& writer) {
  writer.Finish(writer.PadAny(writer.Input(0), writer.Numbers(2), writer.Numbers(3), writer.Numbers(4), writer.Input(1)));
  return absl::OkStatus();
}

struct XlaFormat {
  DataType dtype, bits;
  int64_t exponent, mantissa;
  int64_t bias() const { return (int64_t{1} << (exponent - 1)) - 1; }
};

// As XLA does it, on the bits of the magnitude: rounded to even, then what is too large is infinite, and what has no normal number is zero.
// By ops that a GPU has, too.
XlaValue XlaRounded(XlaWriter& writer, const XlaValue& value, const XlaFormat& from, int64_t exponent, int64_t mantissa) {
  const auto number = [&](int64_t bits) { return writer.Scalar(static_cast<double>(bits), from.bits); };
  const auto bits_of = [&](const XlaValue& of) { return writer.Add("Bitcast", {of}, from.bits, of.dims, {{"T", of.dtype}, {"type", from.bits}}); };
  const XlaValue sign = writer.Same("BitwiseAnd", {bits_of(value), writer.Scalar(-std::ldexp(1, from.exponent + from.mantissa), from.bits)});
  XlaValue size = bits_of(writer.Same("Abs", {value}));
  const int64_t cut = from.mantissa - mantissa;
  if (cut > 0) {
    const XlaValue last = writer.Same("BitwiseAnd", {size, number(int64_t{1} << cut)});
    const XlaValue odd = writer.Cast(writer.Add("NotEqual", {last, number(0)}, DataType::kBool, size.dims), size.dtype);
    size = writer.Same("AddV2", {writer.Same("AddV2", {size, odd}), number((int64_t{1} << (cut - 1)) - 1)});
    size = writer.Same("BitwiseAnd", {size, number(-(int64_t{1} << cut))});
  }
  if (exponent < from.exponent) {
    const int64_t bias = (int64_t{1} << (exponent - 1)) - 1, infinite = ((int64_t{1} << from.exponent) - 1) << from.mantissa;
    const auto where = [&](const char* op, int64_t biased, int64_t then) {
      const XlaValue applies = writer.Add(op, {size, number(biased << from.mantissa)}, DataType::kBool, size.dims);
      size = writer.Add("SelectV2", {applies, number(then), size}, size.dtype, size.dims, {{"T", size.dtype}});
    };
    where("GreaterEqual", from.bias() + bias + 1, infinite);
    where("Less", from.bias() - bias + 1, 0);
  }
  const XlaValue bits = writer.Same("BitwiseOr", {size, sign});
  return writer.Add("Bitcast", {bits}, value.dtype, value.dims, {{"T", bits.dtype}, {"type", value.dtype}});
}

constexpr XlaFormat kXlaSingle = {DataType::kFloat, DataType::kInt32, 8, 23}, kXlaDouble = {DataType::kDouble, DataType::kInt64, 11, 52},
                    kXlaHalf = {DataType::kHalf, DataType::kInt16, 5, 10}, kXlaBrain = {DataType::kBfloat16, DataType::kInt16, 8, 7};

// By casts to a type that has so many bits and back, but for what XLA makes zero: what rounds to less than the type's smallest normal number.
XlaValue XlaRoundedBy(XlaWriter& writer, const XlaValue& value, const XlaFormat& from, const XlaFormat& to) {
  const XlaValue rounded = writer.Cast(writer.Cast(value, to.dtype), value.dtype);
  if (to.exponent >= from.exponent) return rounded;
  const double least = std::ldexp(1 - std::ldexp(1, -2 - static_cast<int>(to.mantissa)), 1 - static_cast<int>(to.bias()));
  const XlaValue small = writer.Add("Less", {writer.Same("Abs", {value}), writer.Scalar(least, value.dtype)}, DataType::kBool, value.dims);
  const XlaValue zero = writer.Same("Mul", {value, writer.Zero(value.dtype)});  // of its sign
  return writer.Add("SelectV2", {small, zero, rounded}, value.dtype, value.dims, {{"T", value.dtype}});
}

absl::Status LowerXlaPrecision(XlaWriter& writer) {
  static constexpr XlaFormat kFormats[] = {kXlaSingle, kXlaDouble, kXlaHalf, kXlaBrain};
  const int64_t exponent = writer.node().attrs.GetOr<int64_t>("exponent_bits", 0), mantissa = writer.node().attrs.GetOr<int64_t>("mantissa_bits", 0);
  const XlaValue value = writer.Input(0);
  const auto format = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const XlaFormat& one) { return one.dtype == value.dtype; });
  if (format == std::end(kFormats) || exponent < 1 || mantissa < 0) {
    return writer.Refuse(absl::StrCat("keeps ", exponent, " bits of exponent and ", mantissa, " of mantissa of ", std::string(DataTypeName(value.dtype)),
                                      ", expected at least 1 and 0 of a floating-point type"));
  }
  const bool single = value.dtype == DataType::kFloat;
  if (exponent >= format->exponent && mantissa >= format->mantissa) {
    writer.Finish(value);
  } else if (single && exponent >= kXlaBrain.exponent && mantissa == kXlaBrain.mantissa) {
    writer.Finish(XlaRoundedBy(writer, value, *format, kXlaBrain));
  } else if (single && exponent == kXlaHalf.exponent && mantissa == kXlaHalf.mantissa) {
    writer.Finish(XlaRoundedBy(writer, value, *format, kXlaHalf));
  } else if (value.dtype == DataType::kDouble && exponent == kXlaSingle.exponent && mantissa == kXlaSingle.mantissa) {
    writer.Finish(XlaRoundedBy(writer, value, *format, kXlaSingle));
  } else {
    // 16 bits are rounded as 32, of which GPUs have integers, unless the half's subnormal numbers stay.
    const bool wider = format->bits == DataType::kInt16 && (exponent < format->exponent || value.dtype == DataType::kBfloat16);
    const XlaFormat& rounds = wider ? kXlaSingle : *format;
    const XlaValue number = writer.Cast(value, rounds.dtype);
    const XlaValue rounded = XlaRounded(writer, number, rounds, exponent, mantissa);
    const XlaValue nan = writer.Add("NotEqual", {number, number}, DataType::kBool, value.dims);
    const XlaValue of_nan = mantissa > 0 ? number : writer.Scalar(std::numeric_limits<double>::infinity(), number.dtype);
    const XlaValue made = writer.Add("SelectV2", {nan, of_nan, rounded}, number.dtype, value.dims, {{"T", number.dtype}});
    writer.Finish(writer.Cast(made, value.dtype));
  }
  return absl::OkStatus();
}

// Dimensions of the side that has fewer are those of the other that input 2 names.
absl::Status LowerXlaBroadcastHelper(XlaWriter& writer) {
  std::vector<XlaValue> sides = {writer.Input(0), writer.Input(1)};
  for (int i = 0; i < 2; ++i) sides[i] = writer.Reshape(sides[i], writer.Output(i).dims);
  writer.Finish(sides);
  return absl::OkStatus();
}

// One triangle alone counts: TensorFlow's op reads the lower one.
absl::Status LowerXlaEigenvalues(XlaWriter& writer) {
  XlaValue matrix = writer.Input(0);
  Ints perm(matrix.rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  if (!writer.node().attrs.GetOr("lower", true)) matrix = writer.Transpose(matrix, perm);
  const XlaValue values = writer.Add("SelfAdjointEigV2", {matrix}, matrix.dtype, writer.Output(0).dims, {{"compute_v", true}, {"T", matrix.dtype}});
  writer.Finish({values, {{values.ref.node, 1}, matrix.dtype, writer.Output(1).dims}});
  return absl::OkStatus();
}

absl::Status LowerXlaSvd(XlaWriter& writer) {
  const XlaValue matrix = writer.Input(0);
  const AttrMap attrs{{"compute_uv", true}, {"full_matrices", true}, {"T", matrix.dtype}};
  const XlaValue values = writer.Add("Svd", {matrix}, matrix.dtype, writer.Output(0).dims, attrs);
  const auto side = [&](int output) { return XlaValue{{values.ref.node, output}, matrix.dtype, writer.Output(output).dims}; };
  writer.Finish({values, side(1), side(2)});
  return absl::OkStatus();
}

absl::Status LowerXlaNode(XlaWriter& writer, XlaPools& pools) {
  const std::string op = writer.node().op;
  if (op == "XlaDot" || op == "XlaDotV2") return LowerXlaDot(writer);
  if (op == "XlaConv" || op == "XlaConvV2") return LowerXlaConv(writer);
  if (op == "XlaRngBitGenerator") return LowerXlaRandom(writer);
  if (op == "XlaBroadcastHelper") return LowerXlaBroadcastHelper(writer);
  if (op == "XlaSelfAdjointEig") return LowerXlaEigenvalues(writer);
  if (op == "XlaSvd") return LowerXlaSvd(writer);
  if (op == "XlaPad") return LowerXlaPad(writer);
  if (op == "XlaGather") return LowerXlaGather(writer);
  if (op == "XlaScatter") return LowerXlaScatter(writer);
  if (op == "XlaReduceWindow") return LowerXlaReduceWindow(writer, pools);
  if (op == "XlaSelectAndScatter") return LowerXlaSelectAndScatter(writer, pools);
  if (op == "XlaReducePrecision") return LowerXlaPrecision(writer);
  if (op == "XlaSort" || op == "XlaKeyValueSort" || op == "XlaVariadicSort") return LowerXlaSort(writer);
  return LowerXlaReduce(writer);
}

bool HasXlaDynamicTypes(const Graph& graph, const Node& node) {
  return node.dynamic_outputs != 0 || node.run_time_values != 0 || std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef in) {
           return graph.node(in.node).dynamic_output(in.index);
         });
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> LowerXla(Graph& graph, const OpRegistry& ops) {
  CreationPlaces places;
  XlaPools pools;
  bool changed = false;
  const int32_t nodes = graph.num_ids();
  for (int32_t i = 0; i < nodes; ++i) {
    const NodeId id{i};
    if (!graph.alive(id) || !IsXlaOp(graph.node(id).op) || ops.Find(graph.node(id).op) != nullptr) continue;
    XlaWriter writer(graph, places, id);
    if (HasXlaDynamicTypes(graph, graph.node(id))) return writer.Refuse("has shapes or sizes that are known only when running");
    MR_RETURN_IF_ERROR(LowerXlaNode(writer, pools));
    changed = true;
  }
  if (!changed) return std::vector<NodeId>();
  return places.Renumber(graph);
}

}  // namespace millrace
