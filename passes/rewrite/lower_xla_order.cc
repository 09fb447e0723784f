// XlaSort and its kin by TopKV2, which keeps the order of equal elements; XlaReduce and its kin.
#include <algorithm>
#include <cmath>
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
    if (rank > 0 && rows[0].dims[1] > 1 && rows[0].dims[0] > 0) Sort(keys, rows, variadic);
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
  XlaValue TurnedRound(const XlaValue& value) { return writer_.Same("Invert", {value}); }

  // The numbers that InTotalOrder made such integers of.
  XlaValue FromTotalOrder(const XlaValue& order, DataType dtype) {
    const DataType single = dtype == DataType::kDouble ? dtype : DataType::kFloat;
    const XlaValue least = writer_.Scalar(std::ldexp(-1, order.dtype == DataType::kInt64 ? 63 : 31), order.dtype), none = writer_.Zero(order.dtype);
    const XlaValue negative = writer_.Same("Invert", {writer_.Same("BitwiseXor", {order, least})});
    const XlaValue below = writer_.Add("Less", {order, none}, DataType::kBool, order.dims);
    const XlaValue bits = writer_.Add("SelectV2", {below, negative, order}, order.dtype, order.dims, {{"T", order.dtype}});
    return writer_.Cast(writer_.Add("Bitcast", {bits}, single, order.dims, {{"T", order.dtype}, {"type", single}}), dtype);
  }

  // Integers in the order of numbers. Where they are `alike`, as JAX sorts, zeros of both signs are equal, and so are all NaN, behind any
  // number; else all bits count, from the NaN of negative sign to that of positive sign.
  XlaValue InTotalOrder(const XlaValue& numbers, bool alike) {
    const bool wide = numbers.dtype == DataType::kDouble;
    const XlaValue value = writer_.Cast(numbers, wide ? DataType::kDouble : DataType::kFloat);
    const DataType dtype = wide ? DataType::kInt64 : DataType::kInt32;
    const auto where = [&](const char* op, const XlaValue& a, const XlaValue& b, const XlaValue& then, const XlaValue& otherwise) {
      const XlaValue applies = writer_.Add(op, {a, b}, DataType::kBool, value.dims);
      return writer_.Add("SelectV2", {applies, then, otherwise}, otherwise.dtype, value.dims, {{"T", otherwise.dtype}});
    };
    XlaValue ordered = value;
    if (alike) {
      const XlaValue zero = writer_.Zero(value.dtype), nan = writer_.Scalar(std::numeric_limits<double>::quiet_NaN(), value.dtype);
      ordered = where("NotEqual", value, value, nan, where("Equal", value, zero, zero, value));
    }
    const XlaValue bits = writer_.Add("Bitcast", {ordered}, dtype, value.dims, {{"T", value.dtype}, {"type", dtype}});
    const XlaValue least = writer_.Scalar(std::ldexp(-1, wide ? 63 : 31), dtype), none = writer_.Zero(dtype);
    const XlaValue negative = writer_.Same("BitwiseXor", {writer_.Same("Invert", {bits}), least});
    return where("Less", bits, none, negative, bits);
  }

  // By the last key first: later ones leave what is equal as it was.
  void Sort(const std::vector<XlaSortKey>& keys, std::vector<XlaValue>& rows, bool alike) {
    std::optional<XlaValue> places;
    XlaValue by_first;
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      XlaValue value = rows[key->operand];
      if (places) value = Taken(value, *places);
      if (IsFloating(value.dtype)) value = InTotalOrder(value, alike);
      if (!key->descending) value = TurnedRound(value);
      const XlaValue count = writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(value.dims[1])));
      by_first = writer_.Same("TopKV2", {value, count}, {{"T", value.dtype}, {"sorted", true}});
      const XlaValue found{{by_first.ref.node, 1}, DataType::kInt32, value.dims};
      places = places ? Taken(*places, found) : found;
      if (!key->descending) by_first = TurnedRound(by_first);
    }
    if (!alike && IsFloating(rows[0].dtype)) by_first = FromTotalOrder(by_first, rows[0].dtype);
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool found = static_cast<int>(i) == keys[0].operand && rows[i].dtype == by_first.dtype;
      rows[i] = found ? by_first : Taken(rows[i], *places);
    }
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

// A reduction by any function: XLA asks that it be associative, so neighbours are joined in pairs, then what they gave, in their order. The
// initial values, which XLA may take any number of times, come once, before all.
class XlaTree {
 public:
  XlaTree(XlaWriter& writer, const Ints& axes) : writer_(writer), operands_(writer.node().inputs.size() / 2) {
    const XlaValue first = writer.Input(0);
    const Ints others = XlaOtherDims(first.rank(), {axes});
    Ints over = axes;
    std::sort(over.begin(), over.end());
    const bool together = over.empty() || over.back() - over.front() + 1 == static_cast<int64_t>(over.size());
    Ints perm = others;  // those that are reduced last, unless they lie together
    perm.insert(perm.end(), over.begin(), over.end());
    if (together) std::sort(perm.begin(), perm.end());
    const Ints dims = PermutedBy(first.dims, perm);
    const size_t begin = together && !over.empty() ? over.front() : others.size();
    before_ = ProductOf(dims, 0, begin);
    length_ = ProductOf(dims, begin, begin + over.size());
    behind_ = ProductOf(dims, begin + over.size(), dims.size());
    for (size_t i = 0; i < operands_; ++i) {
      values_.push_back(writer.Reshape(writer.Transpose(writer.Input(static_cast<int>(i)), perm), {before_, length_, behind_}));
    }
  }

  void Run() {
    std::vector<XlaValue> results;
    for (size_t i = 0; i < operands_; ++i) results.push_back(writer_.Input(static_cast<int>(operands_ + i)));
    if (length_ > 0) results = Joined(results, Root());
    for (size_t i = 0; i < operands_; ++i) {
      const Ints dims = writer_.Output(static_cast<int>(i)).dims;
      results[i] = length_ > 0 ? writer_.Reshape(results[i], dims) : writer_.Broadcast(results[i], dims);
    }
    writer_.Finish(results);
  }

 private:
  std::vector<XlaValue> Root() {
    std::vector<XlaValue> tail;  // what had no neighbour
    for (int64_t n = length_; n > 1; n /= 2) {
      if (n % 2 == 1) {
        const std::vector<XlaValue> last = Taken(values_, {0, n - 1, 0}, {before_, 1, behind_});
        tail = tail.empty() ? last : Joined(last, tail);
        values_ = Taken(values_, {0, 0, 0}, {before_, n - 1, behind_});
      }
      for (XlaValue& value : values_) value = writer_.Reshape(value, {before_, n / 2, 2, behind_});
      const Ints half = {before_, n / 2, 1, behind_};
      std::vector<XlaValue> left = Taken(values_, {0, 0, 0, 0}, half), right = Taken(values_, {0, 0, 1, 0}, half);
      values_ = Joined(left, right);
      for (XlaValue& value : values_) value = writer_.Reshape(value, {before_, n / 2, behind_});
    }
    return tail.empty() ? values_ : Joined(values_, tail);
  }

  std::vector<XlaValue> Taken(const std::vector<XlaValue>& values, const Ints& begin, const Ints& size) {
    std::vector<XlaValue> taken;
    for (const XlaValue& value : values) taken.push_back(writer_.Slice(value, begin, size));
    return taken;
  }
  std::vector<XlaValue> Joined(std::vector<XlaValue> left, const std::vector<XlaValue>& right) {
    left.insert(left.end(), right.begin(), right.end());
    return XlaAppliedTo(writer_, "reducer", left);
  }

  XlaWriter& writer_;
  const size_t operands_;
  std::vector<XlaValue> values_;  // [before, length, behind]
  int64_t before_ = 1, length_ = 1, behind_ = 1;
};

absl::Status LowerXlaTree(XlaWriter& writer, const Ints& axes) {
  const size_t operands = writer.node().inputs.size() / 2;
  if (!XlaIsOfElements(writer.graph(), writer.node(), "reducer", operands)) {
    return writer.Refuse(absl::StrCat("reduces ", operands, " operands by a function that holds ops other than those of single elements"));
  }
  XlaTree(writer, axes).Run();
  return absl::OkStatus();
}

// Which values are the extreme that was found along `axis`, or NaN: that, too, was found where there is one.
XlaValue AreAsFound(XlaWriter& writer, const XlaValue& values, const XlaValue& found, int64_t axis) {
  Ints dims = values.dims;
  dims[axis] = 1;
  const XlaValue equal = writer.Add("Equal", {values, writer.Reshape(found, dims)}, DataType::kBool, values.dims);
  const XlaValue nan = writer.Add("NotEqual", {values, values}, DataType::kBool, values.dims);
  return writer.Add("LogicalOr", {equal, nan}, DataType::kBool, values.dims);
}

// (values, places): the largest or the smallest value, and where it is.
absl::Status LowerXlaArgReduce(XlaWriter& writer, const Ints& axes) {
  const XlaArg arg = XlaArgOp(writer.graph(), writer.node(), "reducer");
  const XlaValue values = writer.Input(0), places = writer.Input(1);
  if (arg.op.empty() || axes.size() != 1 || !CountsAlong(writer, places, axes[0])) return LowerXlaTree(writer, axes);
  const XlaValue of_values = ReducedBy(writer, arg.op == "ArgMax" ? "Max" : "Min", values, axes);
  const XlaValue axis = writer.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(axes[0])));
  const DataType index = places.dtype == DataType::kInt64 ? DataType::kInt64 : DataType::kInt32;
  const bool nan_first = arg.nan_first && IsFloating(values.dtype);
  const XlaValue of = nan_first ? AreAsFound(writer, values, of_values, axes[0]) : values;
  const XlaValue at = writer.Add(nan_first ? "ArgMax" : arg.op, {of, axis}, index, of_values.dims,
                                 {{"T", of.dtype}, {"Tidx", DataType::kInt32}, {"output_type", index}});
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
  if (operands != 1 || known == std::end(kOps)) return LowerXlaTree(writer, axes);
  const XlaValue initial = writer.Input(1), reduced = ReducedBy(writer, (*known)[1], writer.Input(0), axes);
  const std::optional<double> start = writer.Known(initial);
  const double end = std::numeric_limits<double>::infinity();
  const bool any = joins == "AddV2" || joins == "LogicalOr", all = joins == "Mul" || joins == "LogicalAnd";
  const double nothing = any ? 0 : all ? 1 : joins == "Maximum" ? -end : end;
  writer.Finish(start == nothing ? reduced : writer.Same(joins, {reduced, initial}));
  return absl::OkStatus();
}

}  // namespace millrace
