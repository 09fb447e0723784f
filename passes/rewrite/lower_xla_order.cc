// XlaSort and its kin by TopKV2, which keeps the order of equal elements; XlaReduce and its kin.
#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/rewrite/lower_xla.h"
#include "passes/rewrite/xla_bodies.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

class XlaSorting {
 public:
  explicit XlaSorting(XlaWriter& writer) : writer_(writer) {}

  absl::Status Run() {
    const std::string& op = writer_.node().op;
    const bool variadic = op == "XlaVariadicSort";
    const auto operands = static_cast<int>(writer_.node().inputs.size()) - (variadic ? 1 : 0);
    std::vector<XlaSortKey> keys = {{}};
    if (variadic) keys = XlaSortKeys(writer_.graph(), writer_.node(), "comparator");
    if (keys.empty()) return writer_.Refuse("sorts by a function that does not compare operands one after another");
    const int64_t rank = writer_.Input(0).rank(), along = variadic ? writer_.Numbers(operands)[0] : rank - 1;
    for (int64_t d = 0; d < rank; ++d) {
      if (d != along) perm_.push_back(d);
    }
    if (rank > 0) perm_.push_back(along);
    std::vector<XlaValue> rows;
    for (int i = 0; i < operands; ++i) rows.push_back(Rows(writer_.Input(i)));
    if (rank > 0 && rows[0].dims[1] > 1 && rows[0].dims[0] > 0) Sort(keys, rows);
    std::vector<XlaValue> sorted;
    for (int i = 0; i < operands; ++i) sorted.push_back(Back(rows[i]));
    writer_.Finish(sorted);
    return absl::OkStatus();
  }

 private:
  XlaValue Rows(const XlaValue& value) {
    if (value.rank() == 0) return value;
    const XlaValue turned = writer_.Transpose(value, perm_);
    return writer_.Reshape(turned, {ProductOf(turned.dims, 0, turned.dims.size() - 1), turned.dims.back()});
  }
  XlaValue Back(const XlaValue& rows) {
    const XlaValue output = writer_.Output();
    if (output.rank() == 0) return rows;
    Ints back(perm_.size());
    for (size_t i = 0; i < back.size(); ++i) back[perm_[i]] = static_cast<int64_t>(i);
    return writer_.Transpose(writer_.Reshape(rows, PermutedBy(output.dims, perm_)), back);
  }

  // The largest first is the smallest first of what is turned round, without overflow.
  XlaValue TurnedRound(const XlaValue& value) { return writer_.Same(IsFloating(value.dtype) ? "Neg" : "Invert", {value}); }

  // By the last key first: later ones leave what is equal as it was.
  void Sort(const std::vector<XlaSortKey>& keys, std::vector<XlaValue>& rows) {
    std::optional<XlaValue> places;
    XlaValue by_first;
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      XlaValue value = rows[key->operand];
      if (places) value = Taken(value, *places);
      if (!key->descending) value = TurnedRound(value);
      const XlaValue count = writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(value.dims[1])));
      by_first = writer_.Same("TopKV2", {value, count}, {{"T", value.dtype}, {"sorted", true}});
      const XlaValue found{{by_first.ref.node, 1}, DataType::kInt32, value.dims};
      places = places ? Taken(*places, found) : found;
      if (!key->descending) by_first = TurnedRound(by_first);
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i) == keys[0].operand ? by_first : Taken(rows[i], *places);
  }

  XlaValue Taken(const XlaValue& rows, const XlaValue& places) {
    const XlaValue axis = writer_.Constant(Tensor::Scalar<int32_t>(1));
    return writer_.Same("GatherV2", {rows, places, axis},
                        {{"Tparams", rows.dtype}, {"Tindices", DataType::kInt32}, {"Taxis", DataType::kInt32}, {"batch_dims", int64_t{1}}});
  }

  XlaWriter& writer_;
  Ints perm_;  // the dimension that is sorted along comes last
};

XlaValue ReducedBy(XlaWriter& writer, const std::string& op, const XlaValue& value, const Ints& axes) {
  const XlaValue over = writer.Constant(axes);
  return writer.Add(op, {value, over}, value.dtype, writer.Output().dims, {{"T", value.dtype}, {"Tidx", DataType::kInt32}, {"keep_dims", false}});
}

// Whether elements of the value are their places along `axis`.
bool CountsAlong(const XlaWriter& writer, const XlaValue& value, int64_t axis) {
  OutputRef ref = value.ref;
  Ints dims = value.dims;  // of what the numbers were before they were spread
  const auto op = [&]() -> const std::string& { return writer.graph().node(ref.node).op; };
  while (op() == "BroadcastTo" || op() == "Reshape" || op() == "Identity") {
    const OutputRef from = writer.graph().node(ref.node).inputs[0];
    const Shape& shape = writer.graph().type(from).shape;
    const Ints before(shape.dims().begin(), shape.dims().end());
    if (op() == "BroadcastTo") {
      // From here on only the axis may be longer than 1.
      if (before.size() != dims.size() || before[axis] != dims[axis]) return false;
      dims = before;
    } else if (ProductOf(before, 0, before.size()) != ProductOf(dims, 0, dims.size()) || ProductOf(dims, 0, dims.size()) != dims[axis]) {
      break;
    }
    ref = from;
  }
  const AttrValue* found = op() == "Const" ? writer.graph().node(ref.node).attrs.Find("value") : nullptr;
  const Tensor* numbers = found == nullptr ? nullptr : std::get_if<Tensor>(found);
  if (numbers == nullptr || !IsInteger(numbers->dtype()) || numbers->num_elements() != ProductOf(dims, 0, dims.size())) return false;
  const int64_t behind = ProductOf(dims, axis + 1, dims.size());
  for (int64_t i = 0; i < numbers->num_elements(); ++i) {
    if (numbers->IntAt(i) != i / behind % dims[axis]) return false;
  }
  return true;
}

// (values, places): the largest or the smallest value, and where it is.
absl::Status LowerXlaArgReduce(XlaWriter& writer, const Ints& axes) {
  const std::string op = XlaArgOp(writer.graph(), writer.node(), "reducer");
  const XlaValue values = writer.Input(0), places = writer.Input(1);
  if (op.empty() || axes.size() != 1 || !CountsAlong(writer, places, axes[0])) {
    return writer.Refuse("reduces several operands by a function that does not find the place of the largest or smallest along a dimension");
  }
  const XlaValue of_values = ReducedBy(writer, op == "ArgMax" ? "Max" : "Min", values, axes);
  const XlaValue axis = writer.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(axes[0])));
  const bool wide = places.dtype == DataType::kInt64;
  const XlaValue at = writer.Add(op, {values, axis}, wide ? DataType::kInt64 : DataType::kInt32, of_values.dims,
                                 {{"T", values.dtype}, {"Tidx", DataType::kInt32}, {"output_type", wide ? DataType::kInt64 : DataType::kInt32}});
  writer.Finish({of_values, writer.Cast(at, places.dtype)});
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerXlaSort(XlaWriter& writer) { return XlaSorting(writer).Run(); }

absl::Status LowerXlaReduce(XlaWriter& writer) {
  const Ints axes = writer.node().attrs.GetOr<Ints>("dimensions_to_reduce", {});
  const size_t operands = writer.node().inputs.size() / 2;
  if (operands == 2) return LowerXlaArgReduce(writer, axes);
  static constexpr const char* kOps[][2] = {{"AddV2", "Sum"},   {"Mul", "Prod"},       {"Maximum", "Max"},
                                            {"Minimum", "Min"}, {"LogicalAnd", "All"}, {"LogicalOr", "Any"}};
  const std::string joins = XlaBinaryOp(writer.graph(), writer.node(), "reducer");
  const auto known = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& pair) { return joins == pair[0]; });
  if (operands != 1 || known == std::end(kOps)) {
    return writer.Refuse(absl::StrCat("reduces ", operands, " operands by a function that is no sum, product, maximum, minimum, and, or"));
  }
  const XlaValue initial = writer.Input(1), reduced = ReducedBy(writer, (*known)[1], writer.Input(0), axes);
  const std::optional<double> start = writer.Known(initial);
  const double end = std::numeric_limits<double>::infinity();
  const bool any = joins == "AddV2" || joins == "LogicalOr", all = joins == "Mul" || joins == "LogicalAnd";
  const double nothing = any ? 0 : all ? 1 : joins == "Maximum" ? -end : end;
  writer.Finish(start == nothing ? reduced : writer.Same(joins, {reduced, initial}));
  return absl::OkStatus();
}

}  // namespace millrace
