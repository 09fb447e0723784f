// XlaGather and XlaScatter: windows of an operand by vectors of indices. Indices of a gather are moved to where the whole window is
// inside; a scatter leaves out what is not.
#include <algorithm>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "graph/extremes_as_xla.h"
#include "millrace/status.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/rewrite/lower_xla.h"
#include "passes/rewrite/xla_bodies.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

bool XlaHolds(const Ints& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }
int64_t XlaPlaceIn(const Ints& list, int64_t value) { return std::find(list.begin(), list.end(), value) - list.begin(); }

const Tensor* XlaConstant(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  const AttrValue* value = node.op == "Const" ? node.attrs.Find("value") : nullptr;
  return value == nullptr ? nullptr : std::get_if<Tensor>(value);
}

// What both have in common. Dimensions of the operand come in the order of `order`: batching ones, indexed ones, those that windows
// fill in part, all others.
class XlaIndexing {
 public:
  // `sizes`: of the window, by dimension of the operand.
  XlaIndexing(XlaWriter& writer, const XlaIndexNumbers& numbers, const XlaValue& operand, Ints sizes)
      : writer_(writer), numbers_(numbers), operand_(operand), sizes_(std::move(sizes)) {
    const Ints others = XlaOtherDims(operand.rank(), {numbers.batching, numbers.mapped});
    indexed_ = numbers.batching;
    indexed_.insert(indexed_.end(), numbers.mapped.begin(), numbers.mapped.end());
    for (int64_t d : others) {
      if (sizes_[d] < operand.dims[d]) indexed_.push_back(d);
    }
    order_ = indexed_;
    for (int64_t d : XlaOtherDims(operand.rank(), {indexed_})) order_.push_back(d);
    for (int64_t d : indexed_) {
      if (!XlaHolds(numbers.batching, d) && sizes_[d] != 1) wide_.push_back(d);
    }
    kept_ = XlaOtherDims(operand.rank(), {numbers.collapsed, numbers.batching});
    ReadVectors();
  }

  const Ints& batch() const { return batch_; }       // of the indices
  const Ints& indexed() const { return indexed_; }   // dimensions of the operand
  const Ints& order() const { return order_; }
  const Ints& kept() const { return kept_; }         // those that windows have
  const Ints& wide() const { return wide_; }         // indexed ones of which windows have several
  XlaValue vectors() const { return vectors_; }      // [batch..., mapped]
  int64_t size(int64_t d) const { return sizes_[d]; }
  int64_t num_vectors() const { return ProductOf(batch_, 0, batch_.size()); }
  // The dimensions that a gathered window has: those of `kept` but for indexed ones of 1.
  bool IsThin(int64_t d) const { return XlaHolds(indexed_, d) && sizes_[d] == 1; }
  void set_vectors(const XlaValue& vectors) { vectors_ = vectors; }

  Ints Last() const {
    Ints last;
    for (int64_t d : numbers_.mapped) last.push_back(operand_.dims[d] - sizes_[d]);
    return last;
  }
  XlaValue LastVector() { return writer_.Cast(writer_.Constant(Last()), vectors_.dtype); }
  // Whether all indices are constants of windows that lie inside.
  bool KnownInside() const {
    const Tensor* value = XlaConstant(writer_.graph(), writer_.node().inputs[1]);
    if (value == nullptr || numbers_.mapped.empty()) return numbers_.mapped.empty();
    const Ints last = Last();
    const auto& dims = value->shape();
    int64_t behind = 1;
    for (int64_t d = dims.rank() - 1; d > numbers_.index_vector; --d) behind *= dims.dim(static_cast<int>(d));
    for (int64_t i = 0; i < value->num_elements(); ++i) {
      const int64_t index = value->IntAt(i);
      if (index < 0 || index > last[i / behind % static_cast<int64_t>(last.size())]) return false;
    }
    return true;
  }
  void Clamp() {
    if (KnownInside() || numbers_.mapped.empty()) return;
    const XlaValue low = writer_.Same("Maximum", {vectors_, writer_.Zero(vectors_.dtype)});
    vectors_ = writer_.Same("Minimum", {low, LastVector()});
  }

  // [batch..., wide..., indexed]: the place of every element, or row, in the operand in its order.
  XlaValue Places() {
    Ints dims = batch_;
    for (int64_t d : wide_) dims.push_back(sizes_[d]);
    dims.push_back(1);
    std::vector<XlaValue> columns;
    for (int64_t d : indexed_) columns.push_back(writer_.Broadcast(Column(d, dims), dims));
    if (columns.size() == 1) return columns[0];
    const auto count = static_cast<int64_t>(columns.size());
    dims.back() = count;
    columns.push_back(writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(dims.size()) - 1)));
    return writer_.Add("ConcatV2", columns, vectors_.dtype, dims, {{"N", count}, {"Tidx", DataType::kInt32}, {"T", vectors_.dtype}});
  }

 private:
  void ReadVectors() {
    XlaValue indices = writer_.Input(1);
    if (numbers_.index_vector == indices.rank()) {
      Ints dims = indices.dims;
      dims.push_back(1);
      indices = writer_.Reshape(indices, dims);
    }
    Ints perm = XlaOtherDims(indices.rank(), {{numbers_.index_vector}});
    batch_ = PermutedBy(indices.dims, perm);
    perm.push_back(numbers_.index_vector);
    vectors_ = writer_.Transpose(indices, perm);
  }

  // 0, 1, ... along one of `rank` dimensions
  XlaValue Counted(int64_t size, size_t along, size_t rank) {
    Ints numbers(size), dims(rank, 1);
    for (int64_t i = 0; i < size; ++i) numbers[i] = i;
    dims[along] = size;
    return writer_.Reshape(writer_.Cast(writer_.Constant(numbers), vectors_.dtype), dims);
  }

  XlaValue Column(int64_t d, const Ints& dims) {
    if (XlaHolds(numbers_.batching, d)) {
      // Of the indices, less the vector before it.
      int64_t along = numbers_.index_batching[XlaPlaceIn(numbers_.batching, d)];
      if (along > numbers_.index_vector) --along;
      return Counted(operand_.dims[d], static_cast<size_t>(along), dims.size());
    }
    const bool wide = sizes_[d] != 1;
    XlaValue steps;
    if (wide) steps = Counted(sizes_[d], batch_.size() + static_cast<size_t>(XlaPlaceIn(wide_, d)), dims.size());
    if (!XlaHolds(numbers_.mapped, d)) return wide ? steps : Counted(1, 0, dims.size());
    Ints begin(batch_.size() + 1, 0), size = batch_, shape = batch_;
    begin.back() = XlaPlaceIn(numbers_.mapped, d);
    size.push_back(1);
    shape.resize(dims.size(), 1);
    const XlaValue first = writer_.Reshape(writer_.Slice(vectors_, begin, size), shape);
    if (!wide) return first;
    Ints sum = shape;
    sum[batch_.size() + XlaPlaceIn(wide_, d)] = sizes_[d];
    return writer_.Add("AddV2", {first, steps}, first.dtype, sum);
  }

  XlaWriter& writer_;
  const XlaIndexNumbers& numbers_;
  const XlaValue operand_;
  Ints sizes_, indexed_, order_, wide_, kept_, batch_;
  XlaValue vectors_;
};

// Dimensions of the result (of updates) as they are named here: those of batches by -1 - place, those of windows by the operand's.
Ints XlaResultNames(const XlaIndexNumbers& numbers, const Ints& kept, size_t batch_rank) {
  Ints names(kept.size() + batch_rank, 0);
  std::vector<bool> is_window(names.size(), false);
  for (size_t i = 0; i < kept.size(); ++i) {
    names[numbers.window[i]] = kept[i];
    is_window[numbers.window[i]] = true;
  }
  int64_t next = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!is_window[i]) names[i] = -1 - next++;
  }
  return names;
}

Ints XlaBatchNames(size_t batch_rank) {
  Ints names;
  for (size_t i = 0; i < batch_rank; ++i) names.push_back(-1 - static_cast<int64_t>(i));
  return names;
}

class XlaGathering {
 public:
  explicit XlaGathering(XlaWriter& writer, const XlaIndexNumbers& numbers)
      : writer_(writer), numbers_(numbers), sizes_(writer.Numbers(2)), operand_(Cut()), indexing_(writer, numbers, operand_, sizes_) {}

  absl::Status Run() {
    indexing_.Clamp();
    if (indexing_.num_vectors() == 1 && numbers_.batching.empty()) {
      writer_.Finish(writer_.Reshape(OneWindow(), writer_.Output().dims));
      return absl::OkStatus();
    }
    if (indexing_.indexed().empty()) return writer_.Refuse("gathers several windows without indices");
    const bool by_rows = numbers_.mapped.size() == 1 && sizes_[numbers_.mapped[0]] == 1 && BatchesLead();
    if (by_rows) {
      Rows();
    } else {
      Elements();
    }
    return absl::OkStatus();
  }

 private:
  // Where windows have less of a dimension that is not indexed, the rest is never taken.
  XlaValue Cut() {
    const XlaValue operand = writer_.Input(0);
    Ints size = operand.dims;
    for (int64_t d = 0; d < operand.rank(); ++d) {
      if (!XlaHolds(numbers_.mapped, d) && !XlaHolds(numbers_.batching, d)) size[d] = sizes_[d];
    }
    return writer_.Slice(operand, Ints(size.size(), 0), size);
  }

  XlaValue OneWindow() {
    const auto count = static_cast<int64_t>(numbers_.mapped.size());
    const XlaValue vector = writer_.Reshape(indexing_.vectors(), {count});
    const AttrMap attrs{{"Index", vector.dtype}, {"T", operand_.dtype}};
    const XlaValue with_zero = writer_.Pad(vector, {0}, {1}, writer_.Zero(vector.dtype));
    Ints from;
    for (int64_t d = 0; d < operand_.rank(); ++d) from.push_back(XlaPlaceIn(numbers_.mapped, d));
    const XlaValue begin = writer_.Add("GatherV2", {with_zero, writer_.Constant(from), writer_.Constant(Tensor::Scalar<int32_t>(0))}, vector.dtype,
                                       {operand_.rank()}, {{"Tparams", vector.dtype}, {"Tindices", DataType::kInt32}, {"Taxis", DataType::kInt32}});
    return writer_.Add("Slice", {operand_, begin, writer_.Cast(writer_.Constant(sizes_), vector.dtype)}, operand_.dtype, sizes_, attrs);
  }

  bool BatchesLead() const {
    for (size_t i = 0; i < numbers_.batching.size(); ++i) {
      if (numbers_.batching[i] != static_cast<int64_t>(i) || numbers_.index_batching[i] != static_cast<int64_t>(i)) return false;
    }
    return numbers_.batching.size() <= static_cast<size_t>(numbers_.index_vector);
  }

  void Rows() {
    const int64_t axis = numbers_.mapped[0];
    const auto batches = static_cast<int64_t>(numbers_.batching.size());
    const Ints& batch = indexing_.batch();
    const XlaValue rows = writer_.Reshape(indexing_.vectors(), batch);
    Ints names = XlaBatchNames(batches), dims;
    for (int64_t d = batches; d < axis; ++d) names.push_back(d);
    for (size_t b = batches; b < batch.size(); ++b) names.push_back(-1 - static_cast<int64_t>(b));
    for (int64_t d = axis + 1; d < operand_.rank(); ++d) names.push_back(d);
    for (int64_t name : names) dims.push_back(name < 0 ? batch[-1 - name] : operand_.dims[name]);
    const XlaValue made =
        writer_.Add("GatherV2", {operand_, rows, writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(axis)))}, operand_.dtype, dims,
                    {{"Tparams", operand_.dtype}, {"Tindices", rows.dtype}, {"Taxis", DataType::kInt32}, {"batch_dims", batches}});
    FinishFrom(made, names);
  }

  void Elements() {
    const Ints& order = indexing_.order();
    const XlaValue places = indexing_.Places();
    const XlaValue turned = writer_.Transpose(operand_, order);
    Ints names = XlaBatchNames(indexing_.batch().size()), dims(places.dims.begin(), places.dims.end() - 1);
    names.insert(names.end(), indexing_.wide().begin(), indexing_.wide().end());
    for (size_t i = indexing_.indexed().size(); i < order.size(); ++i) {
      names.push_back(order[i]);
      dims.push_back(operand_.dims[order[i]]);
    }
    const XlaValue made =
        writer_.Add("GatherNd", {turned, places}, operand_.dtype, dims, {{"Tparams", operand_.dtype}, {"Tindices", places.dtype}});
    FinishFrom(made, names);
  }

  void FinishFrom(const XlaValue& made, const Ints& names) {
    const Ints results = XlaResultNames(numbers_, indexing_.kept(), indexing_.batch().size());
    Ints thick, dims, perm;  // without the dimensions of 1 that are dropped
    for (size_t i = 0; i < names.size(); ++i) {
      if (!XlaHolds(results, names[i])) continue;
      thick.push_back(names[i]);
      dims.push_back(made.dims[i]);
    }
    for (int64_t name : results) {
      if (XlaHolds(thick, name)) perm.push_back(XlaPlaceIn(thick, name));
    }
    writer_.Finish(writer_.Reshape(writer_.Transpose(writer_.Reshape(made, dims), perm), writer_.Output().dims));
  }

  XlaWriter& writer_;
  const XlaIndexNumbers& numbers_;
  const Ints sizes_;
  const XlaValue operand_;
  XlaIndexing indexing_;
};

class XlaScattering {
 public:
  XlaScattering(XlaWriter& writer, const XlaIndexNumbers& numbers, std::string op)
      : writer_(writer), numbers_(numbers), op_(std::move(op)), operand_(writer.Input(0)), indexing_(writer, numbers, operand_, Sizes()) {}

  absl::Status Run() {
    static constexpr const char* kOps[][2] = {
        {"AddV2", "TensorScatterAdd"}, {"Maximum", "TensorScatterMax"}, {"Minimum", "TensorScatterMin"}, {kXlaSecond, "TensorScatterUpdate"},
        {"Mul", "UnsortedSegmentProd"}};
    const auto known = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& pair) { return op_ == pair[0]; });
    if (known == std::end(kOps)) {
      return writer_.Refuse("joins updates by a function that is no sum, product, maximum, minimum or the update itself");
    }
    XlaValue updates = Updates();
    if (indexing_.indexed().empty()) return WithoutIndices(updates);
    const bool inside = indexing_.KnownInside();
    const bool replaces = op_ == kXlaSecond;
    XlaValue turned = writer_.Transpose(operand_, indexing_.order());
    const Ints dims = turned.dims;
    if (!inside) LeaveOut(updates, turned);
    const XlaValue places = indexing_.Places();
    AttrMap attrs{{"T", operand_.dtype}, {"Tindices", places.dtype}};
    XlaValue made;
    if (op_ == "Mul") {
      MR_ASSIGN_OR_RETURN(made, Products(turned, updates, places));
    } else if (op_ == "AddV2" && OperandIsZero()) {
      made = writer_.Add("ScatterNd", {places, updates, writer_.Cast(writer_.Constant(dims), places.dtype)}, operand_.dtype, dims, attrs);
    } else {
      if (IsFloating(operand_.dtype) && (op_ == "Maximum" || op_ == "Minimum")) attrs.Set(kExtremesAsXla, true);
      made = writer_.Add((*known)[1], {turned, places, updates}, operand_.dtype, turned.dims, attrs);
    }
    if (replaces && !inside) made = writer_.Slice(made, Ints(dims.size(), 0), dims);
    Ints back(dims.size());
    for (size_t i = 0; i < back.size(); ++i) back[indexing_.order()[i]] = static_cast<int64_t>(i);
    writer_.Finish(writer_.Transpose(made, back));
    return absl::OkStatus();
  }

 private:
  Ints Sizes() const {
    const XlaValue updates = writer_.Input(2);
    Ints sizes(operand_.dims.size(), 1);
    const Ints kept = XlaOtherDims(operand_.rank(), {numbers_.collapsed, numbers_.batching});
    for (size_t i = 0; i < kept.size(); ++i) sizes[kept[i]] = updates.dims[numbers_.window[i]];
    return sizes;
  }

  // [batch..., wide..., the rest of the operand in its order]
  XlaValue Updates() {
    const XlaValue updates = writer_.Input(2);
    const Ints has = XlaResultNames(numbers_, indexing_.kept(), indexing_.batch().size());
    Ints names = XlaBatchNames(indexing_.batch().size());
    names.insert(names.end(), indexing_.wide().begin(), indexing_.wide().end());
    names.insert(names.end(), indexing_.order().begin() + static_cast<int64_t>(indexing_.indexed().size()), indexing_.order().end());
    Ints thick, perm;  // without the dimensions of 1 that are indexed
    for (int64_t name : has) {
      if (name < 0 || !indexing_.IsThin(name)) thick.push_back(name);
    }
    Ints dims;
    for (int64_t name : thick) dims.push_back(updates.dims[XlaPlaceIn(has, name)]);
    Ints whole;  // with those of 1 that were dropped without an index
    for (int64_t name : names) {
      const bool there = XlaHolds(thick, name);
      if (there) perm.push_back(XlaPlaceIn(thick, name));
      whole.push_back(there ? dims[perm.back()] : 1);
    }
    return writer_.Reshape(writer_.Transpose(writer_.Reshape(updates, dims), perm), whole);
  }

  absl::Status WithoutIndices(const XlaValue& updates) {
    if (indexing_.num_vectors() != 1) return writer_.Refuse("scatters several windows without indices");
    const XlaValue whole = writer_.Reshape(updates, operand_.dims);
    writer_.Finish(op_ == kXlaSecond ? whole : writer_.Same(op_, {operand_, whole}));
    return absl::OkStatus();
  }

  // What changes nothing: of the extremes, the other end.
  XlaValue Nothing(DataType dtype) {
    const bool largest = op_ == "Maximum";
    if (op_ == "AddV2" || op_ == "Mul") return writer_.Scalar(op_ == "Mul" ? 1 : 0, dtype);
    const double end = std::numeric_limits<double>::infinity();
    if (IsFloating(dtype)) return writer_.Scalar(largest ? -end : end, dtype);
    const int64_t bits = 8 * DataTypeSize(dtype);
    const bool is_signed = dtype == DataType::kInt8 || dtype == DataType::kInt16 || dtype == DataType::kInt32 || dtype == DataType::kInt64;
    const uint64_t highest = ~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
    const auto number = static_cast<int64_t>(!largest ? highest : is_signed ? ~highest : 0);
    return writer_.Cast(writer_.Constant(Tensor::Scalar<int64_t>(number)), dtype);
  }

  // Windows that are not inside change nothing; where updates replace what is there, they go behind the operand.
  void LeaveOut(XlaValue& updates, XlaValue& turned) {
    const XlaValue vectors = indexing_.vectors();
    Ints batch = indexing_.batch(), spread = batch;
    const XlaValue from = writer_.Add("GreaterEqual", {vectors, writer_.Zero(vectors.dtype)}, DataType::kBool, vectors.dims);
    const XlaValue to = writer_.Add("LessEqual", {vectors, indexing_.LastVector()}, DataType::kBool, vectors.dims);
    const XlaValue both = writer_.Add("LogicalAnd", {from, to}, DataType::kBool, vectors.dims);
    const XlaValue axis = writer_.Constant({static_cast<int64_t>(batch.size())});
    const XlaValue inside = writer_.Add("All", {both, axis}, DataType::kBool, batch, {{"Tidx", DataType::kInt32}, {"keep_dims", false}});
    if (op_ == kXlaSecond) {
      spread.push_back(1);
      const int64_t first = numbers_.mapped[0], row = operand_.dims[first];
      const auto at = static_cast<size_t>(XlaPlaceIn(indexing_.order(), first));
      Ints outside(numbers_.mapped.size(), 0), none(turned.dims.size(), 0), window = none;
      outside[0] = row;
      window[at] = indexing_.size(first);
      const XlaValue behind = writer_.Cast(writer_.Constant(outside), vectors.dtype);
      indexing_.set_vectors(writer_.Add("SelectV2", {writer_.Reshape(inside, spread), vectors, behind}, vectors.dtype, vectors.dims, {{"T", vectors.dtype}}));
      turned = writer_.Pad(turned, none, window, writer_.Zero(turned.dtype));
      return;
    }
    spread.resize(updates.dims.size(), 1);
    updates = writer_.Add("SelectV2", {writer_.Reshape(inside, spread), updates, Nothing(updates.dtype)}, updates.dtype, updates.dims, {{"T", updates.dtype}});
    // Where they go does not matter, but it must be there.
    const XlaValue low = writer_.Same("Maximum", {vectors, writer_.Zero(vectors.dtype)});
    indexing_.set_vectors(writer_.Same("Minimum", {low, indexing_.LastVector()}));
  }

  // Of the operand's element at each of the indexed places and the updates that go there, in this order.
  absl::StatusOr<XlaValue> Products(const XlaValue& turned, const XlaValue& updates, const XlaValue& places) {
    const auto indexed = static_cast<int64_t>(indexing_.indexed().size());
    const Ints& dims = turned.dims;
    const int64_t rows = ProductOf(dims, 0, indexed), more = ProductOf(places.dims, 0, places.dims.size() - 1);
    if (rows + more > std::numeric_limits<int32_t>::max()) {
      return writer_.Refuse(absl::StrCat("multiplies ", more, " updates into ", rows, " places, expected less than 2^31 in all"));
    }
    const DataType index = DataType::kInt32;
    const auto number = [&](int64_t value) { return writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(value))); };
    const XlaValue own_rows = writer_.Add("Range", {number(0), number(rows), number(1)}, index, {rows}, {{"Tidx", index}});
    const auto with_rest = [&](int64_t first) {
      Ints all(dims.begin() + indexed, dims.end());
      all.insert(all.begin(), first);
      return all;
    };
    const auto joined = [&](const XlaValue& a, const XlaValue& b, const Ints& of) {
      return writer_.Add("ConcatV2", {a, b, number(0)}, a.dtype, of, {{"N", int64_t{2}}, {"Tidx", DataType::kInt32}, {"T", a.dtype}});
    };
    const XlaValue factors = joined(writer_.Reshape(turned, with_rest(rows)), writer_.Reshape(updates, with_rest(more)), with_rest(rows + more));
    const XlaValue products = writer_.Add("UnsortedSegmentProd", {factors, joined(own_rows, RowsOf(places, dims), {rows + more}), number(rows)}, turned.dtype,
                                          with_rest(rows), {{"T", turned.dtype}, {"Tindices", index}, {"Tnumsegments", index}});
    return writer_.Reshape(products, dims);
  }

  // Places of one dimension each, where all that are indexed are taken as one.
  XlaValue RowsOf(const XlaValue& places, const Ints& dims) {
    const int64_t indexed = places.dims.back(), count = places.num_elements() / indexed;
    const XlaValue narrow = writer_.Cast(places, DataType::kInt32);
    if (indexed == 1) return writer_.Reshape(narrow, {count});
    Ints steps;
    for (int64_t i = 0; i < indexed; ++i) steps.push_back(ProductOf(dims, i + 1, indexed));
    const XlaValue apart = writer_.Same("Mul", {writer_.Reshape(narrow, {count, indexed}), writer_.Constant(steps)});
    return writer_.Add("Sum", {apart, writer_.Constant({1})}, narrow.dtype, {count}, {{"T", narrow.dtype}, {"Tidx", DataType::kInt32}, {"keep_dims", false}});
  }

  bool OperandIsZero() const {
    const Node& node = writer_.graph().node(operand_.ref.node);
    const bool filled = node.op == "BroadcastTo" || node.op == "Fill" || node.op == "ZerosLike";
    if (node.op == "ZerosLike") return true;
    const OutputRef from = filled ? node.inputs[node.op == "Fill" ? 1 : 0] : operand_.ref;
    const Tensor* value = XlaConstant(writer_.graph(), from);
    if (value == nullptr || !IsFloating(value->dtype())) return false;
    for (int64_t i = 0; i < value->num_elements(); ++i) {
      if (value->DoubleAt(i) != 0) return false;
    }
    return true;
  }

  XlaWriter& writer_;
  const XlaIndexNumbers& numbers_;
  const std::string op_;
  const XlaValue operand_;
  XlaIndexing indexing_;
};

}  // namespace

absl::Status LowerXlaGather(XlaWriter& writer) {
  MR_ASSIGN_OR_RETURN(const XlaIndexNumbers numbers, ReadXlaIndexNumbers(writer.node().attrs.GetOr<std::string>("dimension_numbers", "")));
  return XlaGathering(writer, numbers).Run();
}

absl::Status LowerXlaScatter(XlaWriter& writer) {
  MR_ASSIGN_OR_RETURN(const XlaIndexNumbers numbers, ReadXlaIndexNumbers(writer.node().attrs.GetOr<std::string>("dimension_numbers", "")));
  return XlaScattering(writer, numbers, XlaBinaryOp(writer.graph(), writer.node(), "update_computation")).Run();
}

}  // namespace millrace
