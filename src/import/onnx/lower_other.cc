// Operators of ONNX's other domains (optimizers of the training preview, classic machine learning), and those whose
// results are as long as the values say.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// Inputs (rate, step, x..., g..., slots...) in lists of equal length; outputs new x..., new slots...
struct Update {
  Output rate, step;  // step: how many came before, as a float
  int64_t count;
};

absl::StatusOr<Update> ReadUpdate(NodeContext& c, int lists) {
  const int count = (c.num_inputs() - 2) / lists;
  if (count < 1 || c.num_inputs() != 2 + count * lists || c.num_outputs() != count * (lists - 1)) {
    return c.Error(absl::StrCat(c.num_inputs(), " inputs and ", c.num_outputs(),
                                " outputs, expected a rate, a step and ", lists, " lists of tensors"));
  }
  for (int i = 2; i < c.num_inputs(); ++i) {
    const Output x = c.in(i);
    if (x.valid() && x.type() == c.in(2 + (i - 2) % count).type() && IsFloating(x.dtype())) continue;
    return c.Error(absl::StrCat("input ", i, " is ", x.type().ToString(), ", expected the type of what is updated"));
  }
  return Update{c.in(0), ops::Cast(c.in(1), DataType::kFloat), count};
}

// The gradient with that of the L2 norm.
Output Regularised(const NodeContext& c, const Output& x, const Output& g) {
  const double norm = c.Float("norm_coefficient", 0);
  return norm == 0 ? g : g + x * norm;
}

absl::Status Adagrad(NodeContext& c) {
  MR_ASSIGN_OR_RETURN(const Update u, ReadUpdate(c, 3));
  for (int i = 0; i < u.count; ++i) {
    const int n = static_cast<int>(u.count);
    const Output x = c.in(2 + i), g = Regularised(c, x, c.in(2 + n + i)), h = c.in(2 + 2 * n + i);
    const Output rate = u.rate / (u.step * static_cast<double>(c.Float("decay_factor", 0)) + 1.0);
    const Output squares = h + ops::Square(g);
    const Output root = ops::Sqrt(squares) + static_cast<double>(c.Float("epsilon", 1e-6f));
    c.Set(i, x - ops::Cast(rate, x.dtype()) * g / root);
    c.Set(n + i, squares);
  }
  return absl::OkStatus();
}

absl::Status Adam(NodeContext& c) {
  MR_ASSIGN_OR_RETURN(const Update u, ReadUpdate(c, 4));
  const double alpha = c.Float("alpha", 0.9f), beta = c.Float("beta", 0.999f);
  const auto rest_of = [&](double base) { return -ops::Pow(c.b.Scalar(DataType::kFloat, base), u.step) + 1.0; };
  // Without a step behind it, nothing has to be corrected.
  const Output started = ops::Binary("Greater", u.step, 0);
  const Output one = c.b.Scalar(DataType::kFloat, 1);
  const Output quotient = ops::Sqrt(rest_of(beta)) / ops::Select(started, rest_of(alpha), one);
  const Output correction = ops::Select(started, quotient, one);
  for (int i = 0; i < u.count; ++i) {
    const int n = static_cast<int>(u.count);
    const Output x = c.in(2 + i), g = Regularised(c, x, c.in(2 + n + i));
    const Output v = c.in(2 + 2 * n + i) * alpha + g * (1 - alpha);
    const Output h = c.in(2 + 3 * n + i) * beta + ops::Square(g) * (1 - beta);
    const Output root = ops::Sqrt(h) + static_cast<double>(c.Float("epsilon", 1e-6f));
    const Output moved = x - ops::Cast(u.rate * correction, x.dtype()) * v / root;
    const double post = c.Float("norm_coefficient_post", 0);
    c.Set(i, post == 0 ? moved : moved * (1 - post));
    c.Set(n + i, v);
    c.Set(2 * n + i, h);
  }
  return absl::OkStatus();
}

absl::Status Momentum(NodeContext& c) {
  MR_ASSIGN_OR_RETURN(const Update u, ReadUpdate(c, 3));
  const double alpha = c.Float("alpha", 0), beta = c.Float("beta", 0);
  const std::string mode = c.String("mode", "standard");
  if (mode != "standard" && mode != "nesterov") return c.Error(absl::StrCat("mode '", mode, "'"));
  const Output share = ops::Select(ops::Binary("Greater", u.step, 0), c.b.Scalar(DataType::kFloat, beta),
                                   c.b.Scalar(DataType::kFloat, 1));
  for (int i = 0; i < u.count; ++i) {
    const int n = static_cast<int>(u.count);
    const Output x = c.in(2 + i), g = Regularised(c, x, c.in(2 + n + i));
    const Output v = c.in(2 + 2 * n + i) * alpha + g * ops::Cast(share, x.dtype());
    c.Set(i, x - ops::Cast(u.rate, x.dtype()) * (mode == "nesterov" ? g + v * alpha : v));
    c.Set(n + i, v);
  }
  return absl::OkStatus();
}

absl::Status ArrayFeatureExtractor(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), columns = c.in(1);
  if (!x.valid() || !columns.valid()) return absl::OkStatus();
  if (x.rank() < 1) return c.Error("input is a scalar");
  const int64_t count = columns.shape().num_elements();
  const Output picked = ops::Gather(x, ops::Reshape(columns, {count}), x.rank() - 1);
  c.Set(0, x.rank() == 1 ? ops::Reshape(picked, {1, count}) : picked);
  return absl::OkStatus();
}

absl::Status Binarizer(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const Output wide = IsFloating(x.dtype()) ? x : ops::Cast(x, DataType::kDouble);
  c.Set(0, ops::Cast(ops::Binary("Greater", wide, static_cast<double>(c.Float("threshold", 0))), x.dtype()));
  return absl::OkStatus();
}

Output Longs(GraphBuilder& b, const IntList& values, Shape shape) {
  Tensor tensor(DataType::kInt64, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<int64_t>().begin());
  return b.SharedConst(std::move(tensor));
}

// How many there are depends on the values: they must be known.
absl::Status NonZero(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  if (DataTypeSize(x.dtype()) == 0) return c.Error(absl::StrCat("input ", x.type().ToString()));
  IntList found;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (x.DoubleAt(i) != 0) found.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(found.size()), rank = x.shape().rank();
  IntList places(rank * count);
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = found[k];
    for (int64_t d = rank; d-- > 0;) {
      places[d * count + k] = rest % x.shape().dim(static_cast<int>(d));
      rest /= x.shape().dim(static_cast<int>(d));
    }
  }
  c.Set(0, Longs(c.b, places, {rank, count}));
  return absl::OkStatus();
}

// Slices [outer, rows, inner] of a known tensor along its middle dimension.
struct Slices {
  const Tensor& x;
  int64_t outer, rows, inner;

  int64_t At(int64_t row, int64_t i) const { return (i / inner * rows + row) * inner + i % inner; }
  // Less than 0, 0 or more, as the first difference says. NaN comes behind all numbers.
  int Compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < outer * inner; ++i) {
      if (IsFloating(x.dtype())) {
        const double p = x.DoubleAt(At(a, i)), q = x.DoubleAt(At(b, i));
        if (p < q || (!std::isnan(p) && std::isnan(q))) return -1;
        if (p > q || (std::isnan(p) && !std::isnan(q))) return 1;
      } else {
        const int64_t p = x.IntAt(At(a, i)), q = x.IntAt(At(b, i));
        if (p != q) return (x.dtype() == DataType::kUint64 ? static_cast<uint64_t>(p) < static_cast<uint64_t>(q) : p < q) ? -1 : 1;
      }
    }
    return 0;
  }
};

absl::Status Unique(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Tensor x, c.Constant(0));
  if (DataTypeSize(x.dtype()) == 0) return c.Error(absl::StrCat("input ", x.type().ToString()));
  Slices slices{x, 1, x.num_elements(), 1};
  int64_t axis = 0;
  IntList dims = {x.num_elements()};
  if (c.Attribute("axis") != nullptr) {
    MR_ASSIGN_OR_RETURN(axis, c.Axis(c.Int("axis", 0), x.shape().rank()));
    dims.assign(x.shape().dims().begin(), x.shape().dims().end());
    slices.outer = Product(IntList(dims.begin(), dims.begin() + axis));
    slices.rows = dims[axis];
    slices.inner = Product(IntList(dims.begin() + axis + 1, dims.end()));
  }
  IntList order = Iota(slices.rows), first, inverse(slices.rows), counts;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.Compare(a, b) < 0; });
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.Compare(order[i - 1], order[i]) != 0) {
      first.push_back(order[i]);
      counts.push_back(0);
    }
    inverse[order[i]] = static_cast<int64_t>(first.size()) - 1;
    ++counts.back();
  }
  const int64_t found = static_cast<int64_t>(first.size());
  IntList ranks = Iota(found);  // in which order they come
  if (c.Int("sorted", 1) == 0) {
    std::sort(ranks.begin(), ranks.end(), [&](int64_t a, int64_t b) { return first[a] < first[b]; });
  }
  IntList place(found), indices, numbers;
  dims[axis] = found;
  Tensor y(x.dtype(), Shape(absl::MakeConstSpan(dims)));
  const size_t size = DataTypeSize(x.dtype());
  for (int64_t k = 0; k < found; ++k) {
    place[ranks[k]] = k;
    indices.push_back(first[ranks[k]]);
    numbers.push_back(counts[ranks[k]]);
    for (int64_t i = 0; i < slices.outer * slices.inner; ++i) {
      const int64_t to = (i / slices.inner * found + k) * slices.inner + i % slices.inner;
      std::memcpy(static_cast<char*>(y.mutable_data()) + to * size,
                  static_cast<const char*>(x.data()) + slices.At(first[ranks[k]], i) * size, size);
    }
  }
  for (int64_t& at : inverse) at = place[at];
  c.Set(0, c.b.SharedConst(std::move(y)));
  if (c.wants(1)) c.Set(1, Longs(c.b, indices, {found}));
  if (c.wants(2)) c.Set(2, Longs(c.b, inverse, {slices.rows}));
  if (c.wants(3)) c.Set(3, Longs(c.b, numbers, {found}));
  return absl::OkStatus();
}

}  // namespace

void AddOtherLowerings(LoweringTable& table) {
  table.Add("ai.onnx.preview.training.Adagrad", Adagrad);
  table.Add("ai.onnx.preview.training.Adam", Adam);
  table.Add("ai.onnx.preview.training.Momentum", Momentum);
  table.Add("ai.onnx.ml.ArrayFeatureExtractor", ArrayFeatureExtractor);
  table.Add("ai.onnx.ml.Binarizer", Binarizer);
  table.Add("NonZero", NonZero);
  table.Add("Unique", Unique);
}

}  // namespace millrace::onnx
