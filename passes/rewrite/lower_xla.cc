#include "passes/rewrite/lower_xla.h"

#include <algorithm>

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

absl::Status LowerXlaPrecision(XlaWriter& writer) {
  const int64_t exponent = writer.node().attrs.GetOr<int64_t>("exponent_bits", 0), mantissa = writer.node().attrs.GetOr<int64_t>("mantissa_bits", 0);
  const XlaValue value = writer.Input(0);
  const auto holds = [&](DataType dtype, int64_t exponents, int64_t mantissas) {
    return value.dtype == dtype && exponent >= exponents && mantissa >= mantissas;
  };
  if (holds(DataType::kFloat, 8, 23) || holds(DataType::kDouble, 11, 52) || holds(DataType::kHalf, 5, 10) || holds(DataType::kBfloat16, 8, 7)) {
    writer.Finish(value);
    return absl::OkStatus();
  }
  const bool bfloat16 = exponent == 8 && mantissa == 7, half = exponent == 5 && mantissa == 10, single = exponent == 8 && mantissa == 23;
  if (!bfloat16 && !half && !single) {
    return writer.Refuse(absl::StrCat("keeps ", exponent, " bits of exponent and ", mantissa, " of mantissa, expected those of a type"));
  }
  const DataType narrow = bfloat16 ? DataType::kBfloat16 : half ? DataType::kHalf : DataType::kFloat;
  writer.Finish(writer.Cast(writer.Cast(value, narrow), value.dtype));
  return absl::OkStatus();
}

absl::Status LowerXlaNode(XlaWriter& writer, XlaPools& pools) {
  const std::string op = writer.node().op;
  if (op == "XlaDot" || op == "XlaDotV2") return LowerXlaDot(writer);
  if (op == "XlaConv" || op == "XlaConvV2") return LowerXlaConv(writer);
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
