// Attention and what comes with it: rotary positions, caches, linear attention, causal convolutions with a state.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// [batch, length, heads * size] -> [batch, heads, length, size].
absl::StatusOr<Output> SplitHeads(const NodeContext& c, const Output& x, int64_t heads) {
  if (x.rank() != 3 || heads < 1 || x.dim(2) % heads != 0) return c.Error(absl::StrCat(heads, " heads of ", x.type().ToString()));
  return ops::Transpose(ops::Reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

Output MergeHeads(const Output& x) {
  return ops::Reshape(ops::Transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

// Rows of the query heads that share a head of keys, under one another: [batch, heads, length, size] -> [batch, shared, ...].
Output Grouped(const Output& x, int64_t groups) { return ops::Reshape(x, {x.dim(0), groups, x.dim(1) / groups * x.dim(2), x.dim(3)}); }

struct Heads {
  Output query, keys, values;  // [batch, heads, length, size]
};

absl::Status ExpectHeads(const NodeContext& c, const Heads& h) {
  const bool ranks = h.query.rank() == 4 && h.keys.rank() == 4 && h.values.rank() == 4;
  if (ranks && h.query.dim(0) == h.keys.dim(0) && h.keys.dim(0) == h.values.dim(0) && h.keys.dim(1) == h.values.dim(1) &&
      h.keys.dim(1) > 0 && h.query.dim(1) % h.keys.dim(1) == 0 && h.keys.dim(2) == h.values.dim(2) && h.query.dim(3) == h.keys.dim(3)) {
    return absl::OkStatus();
  }
  return c.Error(absl::StrCat("queries ", h.query.type().ToString(), ", keys ", h.keys.type().ToString(), ", values ",
                              h.values.type().ToString()));
}

// Scaled products of queries and keys, [batch, query heads, queries, keys].
Output Scores(const NodeContext& c, const Heads& h) {
  const double size = static_cast<double>(h.query.dim(3));
  const double scale = c.Attribute("scale") != nullptr ? c.Float("scale", 1) : 1 / std::sqrt(size);
  const double root = std::sqrt(scale);
  const Output scores = ops::BatchMatMul(Grouped(h.query * root, h.keys.dim(1)), h.keys * root, {.b = true});
  return ops::Reshape(scores, {h.query.dim(0), h.query.dim(1), h.query.dim(2), h.keys.dim(2)});
}

Output Weighted(const Output& weights, const Heads& h) {
  const Output sums = ops::BatchMatMul(Grouped(weights, h.values.dim(1)), h.values);
  return ops::Reshape(sums, {h.query.dim(0), h.query.dim(1), h.query.dim(2), h.values.dim(3)});
}

absl::StatusOr<DataType> SoftmaxType(const NodeContext& c, DataType fallback) {
  if (c.Attribute("softmax_precision") == nullptr) return fallback;
  const DataType dtype = TypeFromOnnx(static_cast<int32_t>(std::clamp<int64_t>(c.Int("softmax_precision", 0), 0, 1000)));
  if (!IsFloating(dtype)) return c.Error("softmax_precision is no floating-point type");
  return dtype;
}

Output Both(const Output& x, const Output& y) {
  if (!x.valid()) return y;
  return x.builder()->Op("LogicalAnd", {x, y});
}

// Which keys a query may see by their places, [queries, keys] or [batch, 1, queries, keys]; not valid: all of them.
absl::StatusOr<Output> SeenByPlace(NodeContext& c, const Heads& h, int64_t past) {
  constexpr int64_t kFar = int64_t{1} << 52;  // and exact as a double
  const int64_t left = std::min(c.Int("left_window_size", -1), kFar), right = std::min(c.Int("right_window_size", -1), kFar);
  const bool causal = c.Int("is_causal", 0) != 0;
  const int64_t queries = h.query.dim(2), keys = h.keys.dim(2);
  Output filled, offset = c.b.SharedConst(Tensor::Scalar<int64_t>(past));  // how many keys come before the first query's
  if (c.has(6)) {
    filled = c.in(6);
    if (filled.shape() != Shape({h.query.dim(0)}) || filled.dtype() != DataType::kInt64) {
      return c.Error(absl::StrCat("numbers of keys are ", filled.type().ToString(), ", expected one int64 for each sample"));
    }
    filled = ops::Reshape(filled, {h.query.dim(0), 1, 1, 1});
    offset = filled - static_cast<double>(queries);
  }
  const bool by_distance = causal || left >= 0 || right >= 0;
  if (!by_distance && !filled.valid()) return Output();
  const auto range = [&c](int64_t count) { return ops::Cast(ops::Range(c.b.Int(0), c.b.Int(count), c.b.Int(1)), DataType::kInt64); };
  Output seen, places = range(keys);
  if (by_distance) {
    const Output own = ops::Reshape(range(queries), {queries, 1}) + offset;  // places of the queries among the keys
    if (causal) seen = Both(seen, ops::Binary("LessEqual", places, own));
    if (left >= 0) seen = Both(seen, ops::Binary("GreaterEqual", places, own - static_cast<double>(left)));
    if (right >= 0) seen = Both(seen, ops::Binary("LessEqual", places, own + static_cast<double>(right)));
  }
  if (filled.valid()) seen = Both(seen, ops::Binary("Less", places, filled));
  return seen;
}

// What is added to the scores: 0 or -inf by place and boolean mask, and a mask of numbers. Not valid: nothing.
absl::StatusOr<Output> Bias(NodeContext& c, const Heads& h, int64_t past) {
  const DataType dtype = h.query.dtype();
  MR_ASSIGN_OR_RETURN(Output seen, SeenByPlace(c, h, past));
  Output added;
  if (c.has(3)) {
    Output mask = c.in(3);
    const bool boolean = mask.dtype() == DataType::kBool;
    if (mask.rank() < 1 || mask.rank() > 4 || (!boolean && mask.dtype() != dtype)) {
      return c.Error(absl::StrCat("the mask is ", mask.type().ToString(), ", expected bool or the type of the queries"));
    }
    // Keys that the mask does not reach are not seen.
    if (const int64_t missing = h.keys.dim(2) - mask.dim(-1); missing > 0) {
      IntList rest = Dims(mask);
      rest.back() = missing;
      const Output unseen = boolean ? c.b.SharedConst(Tensor::Scalar<bool>(false)) : c.b.Scalar(dtype, kMinusInfinity);
      mask = ops::Concat({{mask, ops::Fill(c.b.Ints(rest), unseen)}}, -1);
    }
    if (boolean) seen = Both(seen, mask);
    if (!boolean) added = mask;
  }
  if (!seen.valid()) return added;
  const Output cut = ops::Select(seen, c.b.Scalar(dtype, 0), c.b.Scalar(dtype, kMinusInfinity));
  return added.valid() ? added + cut : cut;
}

absl::Status Attention(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 7));
  Heads h{c.in(0), c.in(1), c.in(2)};
  if (!h.query.valid() || !h.keys.valid() || !h.values.valid()) return absl::OkStatus();
  const bool packed = h.query.rank() == 3;
  if (packed) {
    MR_ASSIGN_OR_RETURN(h.query, SplitHeads(c, h.query, c.Int("q_num_heads", 0)));
    MR_ASSIGN_OR_RETURN(h.keys, SplitHeads(c, h.keys, c.Int("kv_num_heads", 0)));
    MR_ASSIGN_OR_RETURN(h.values, SplitHeads(c, h.values, c.Int("kv_num_heads", 0)));
  }
  int64_t past = 0;
  if (c.has(4) != c.has(5)) return c.Error("expected past keys and past values, or none of them");
  if (c.has(4)) {
    if (c.has(6)) return c.Error("past keys and numbers of keys exclude each other");
    if (c.in(4).rank() != 4) return c.Error(absl::StrCat("past keys are ", c.in(4).type().ToString()));
    past = c.in(4).dim(2);
    h.keys = ops::Concat({{c.in(4), h.keys}}, 2);
    h.values = ops::Concat({{c.in(5), h.values}}, 2);
  }
  MR_RETURN_IF_ERROR(c.b.status());
  MR_RETURN_IF_ERROR(ExpectHeads(c, h));
  MR_ASSIGN_OR_RETURN(const Output bias, Bias(c, h, past));
  MR_ASSIGN_OR_RETURN(const DataType precise, SoftmaxType(c, h.query.dtype()));
  Output scores = Scores(c, h);
  const int64_t mode = c.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return c.Error(absl::StrCat("qk_matmul_output_mode is ", mode));
  if (mode == 0) c.Set(3, scores);
  if (const double cap = c.Float("softcap", 0); cap > 0) scores = ops::Tanh(scores / cap) * cap;
  if (mode == 1) c.Set(3, scores);
  Output blind;  // queries that see no key: their weights are 0
  if (bias.valid()) {
    scores = scores + bias;
    if (mode == 2) c.Set(3, scores);
    blind = ops::Binary("Equal", ops::Max(bias, {-1}, true), c.b.Scalar(bias.dtype(), kMinusInfinity));
    scores = ops::Select(blind, ops::ZerosLike(scores), scores);
  } else if (mode == 2) {
    c.Set(3, scores);
  }
  Output weights = ops::Cast(ops::Softmax(ops::Cast(scores, precise)), h.query.dtype());
  if (blind.valid()) weights = ops::Select(blind, ops::ZerosLike(weights), weights);
  if (mode == 3) c.Set(3, weights);
  const Output y = Weighted(weights, h);
  if (!y.valid()) return absl::OkStatus();
  c.Set(0, packed ? MergeHeads(y) : y);
  c.Set(1, h.keys);
  c.Set(2, h.values);
  return absl::OkStatus();
}

// The result of a nested graph that changes scores or weights.
absl::StatusOr<Output> Changed(NodeContext& c, const char* graph, const Output& x) {
  const onnx_proto::AttributeProto* attribute = c.Attribute(graph);
  if (attribute == nullptr) return x;
  MR_ASSIGN_OR_RETURN(const std::vector<ModelValue> outputs, c.source().Lower(attribute->g(), {ValueOf(x)}));
  if (outputs.size() == 1 && outputs[0].tensor.valid() && outputs[0].tensor.shape() == x.shape()) {
    return ops::Cast(outputs[0].tensor, x.dtype());
  }
  return c.Error(absl::StrCat(graph, ": expected one output ", x.type().ToString()));
}

absl::Status FlexAttention(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Heads h{c.in(0), c.in(1), c.in(2)};
  if (!h.query.valid() || !h.keys.valid() || !h.values.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectHeads(c, h));
  const DataType wide = h.query.dtype() == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  MR_ASSIGN_OR_RETURN(const DataType precise, SoftmaxType(c, wide));
  MR_ASSIGN_OR_RETURN(const Output scores, Changed(c, "score_mod", ops::Cast(Scores(c, h), precise)));
  MR_ASSIGN_OR_RETURN(const Output weights, Changed(c, "prob_mod", ops::Softmax(scores)));
  const Heads precisely{h.query, h.keys, ops::Cast(h.values, precise)};
  c.Set(0, ops::Cast(Weighted(weights, precisely), h.values.dtype()));
  return absl::OkStatus();
}

absl::Status RotaryEmbedding(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 4));
  Output x = c.in(0), cosines = c.in(1), sines = c.in(2);
  if (!x.valid() || !cosines.valid() || !sines.valid()) return absl::OkStatus();
  const bool packed = x.rank() == 3;
  if (packed) {
    MR_ASSIGN_OR_RETURN(x, SplitHeads(c, x, c.Int("num_heads", 0)));
  }
  if (x.rank() != 4) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected rank 3 or 4"));
  const int64_t turned = c.Int("rotary_embedding_dim", 0) != 0 ? c.Int("rotary_embedding_dim", 0) : x.dim(3);
  if (turned < 2 || turned % 2 != 0 || turned > x.dim(3)) return c.Error(absl::StrCat("turns ", turned, " numbers of ", x.type().ToString()));
  if (c.has(3)) {
    cosines = ops::Gather(cosines, c.in(3));
    sines = ops::Gather(sines, c.in(3));
  }
  for (const Output& cache : {cosines, sines}) {
    if (cache.shape() == Shape({x.dim(0), x.dim(2), turned / 2})) continue;
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", cosines and sines ", cache.type().ToString()));
  }
  cosines = ops::ExpandDims(cosines, 1);
  sines = ops::ExpandDims(sines, 1);
  const IntList dims = Dims(x);
  const auto part = [&](const Output& of, int64_t begin, int64_t size) { return Part(of, {0, 0, 0, begin}, {dims[0], dims[1], dims[2], size}); };
  const bool interleaved = c.Int("interleaved", 0) != 0;
  Output one, other;
  if (interleaved) {
    const Output pairs = ops::Reshape(part(x, 0, turned), {dims[0], dims[1], dims[2], turned / 2, 2});
    one = ops::Index(pairs, 0, -1);
    other = ops::Index(pairs, 1, -1);
  } else {
    one = part(x, 0, turned / 2);
    other = part(x, turned / 2, turned / 2);
  }
  const Output real = cosines * one - sines * other, imaginary = sines * one + cosines * other;
  Output y = interleaved ? ops::Reshape(ops::Pack({{real, imaginary}}, -1), {dims[0], dims[1], dims[2], turned})
                         : ops::Concat({{real, imaginary}}, -1);
  if (turned < dims[3]) y = ops::Concat({{y, part(x, turned, dims[3] - turned)}}, -1);
  c.Set(0, packed ? MergeHeads(y) : y);
  return absl::OkStatus();
}

// A cache [batch, ..., places, ...] with an update written from a place on that every sample has of its own.
absl::Status TensorScatter(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output cache = c.in(0), update = c.in(1);
  if (!cache.valid() || !update.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -2), cache.rank()));
  const std::string mode = c.String("mode", "linear");
  if (mode != "linear" && mode != "circular") return c.Error(absl::StrCat("mode is '", mode, "'"));
  IntList expected = Dims(cache);
  if (update.rank() == cache.rank()) expected[axis] = update.dim(static_cast<int>(axis));
  if (axis == 0 || Dims(update) != expected || expected[axis] > cache.dim(static_cast<int>(axis))) {
    return c.Error(absl::StrCat("cache ", cache.type().ToString(), ", update ", update.type().ToString(), ", axis ", axis));
  }
  // [batch, places, ...], then rows of all samples.
  IntList order = Iota(cache.rank());
  std::rotate(order.begin() + 1, order.begin() + axis, order.begin() + axis + 1);
  const Output from = ops::Transpose(cache, order), by = ops::Transpose(update, order);
  const int64_t batch = from.dim(0), places = from.dim(1), written = by.dim(1);
  const auto rows = [](const Output& x) {
    IntList dims = Dims(x);
    dims[1] *= dims[0];
    dims.erase(dims.begin());
    return ops::Reshape(x, dims);
  };
  Tensor steps(DataType::kInt64, Shape({1, written})), starts(DataType::kInt64, Shape({batch, 1}));
  for (int64_t i = 0; i < written; ++i) steps.mutable_as<int64_t>()[i] = i;
  for (int64_t i = 0; i < batch; ++i) starts.mutable_as<int64_t>()[i] = i * places;
  Output positions = c.b.SharedConst(std::move(steps));
  if (c.has(2)) positions = ops::Reshape(ops::Cast(c.in(2), DataType::kInt64), {batch, 1}) + positions;
  if (mode == "circular") positions = ops::Binary("FloorMod", positions, static_cast<double>(places));
  Output outside;  // a place of another sample's: becomes one that the kernels refuse
  if (mode == "linear" && c.has(2)) {
    outside = c.b.Op("LogicalOr", {ops::Binary("Less", positions, 0), ops::Binary("GreaterEqual", positions, static_cast<double>(places))});
  }
  positions = c.b.SharedConst(std::move(starts)) + positions;
  if (outside.valid()) positions = ops::Select(outside, c.b.Scalar(DataType::kInt64, static_cast<double>(batch * places)), positions);
  const Output present = c.b.Op("TensorScatterUpdate", {rows(from), ops::Reshape(positions, {batch * written, 1}), rows(by)},
                                {{"T", cache.dtype()}, {"Tindices", DataType::kInt64}});
  IntList back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  c.Set(0, ops::Transpose(ops::Reshape(present, Dims(from)), back));
  return absl::OkStatus();
}

absl::Status LinearAttention(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 6));
  const std::string rule = c.String("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") return c.Error(absl::StrCat("update_rule is '", rule, "'"));
  if (gated != c.has(4) || delta != c.has(5)) return c.Error(absl::StrCat("rule '", rule, "' with other inputs than decay and beta of it"));
  const Output type_of = c.in(0);
  if (!type_of.valid()) return absl::OkStatus();
  const int64_t groups = c.Int("kv_num_heads", 0);
  Heads h;
  MR_ASSIGN_OR_RETURN(h.query, SplitHeads(c, ops::Cast(c.in(0), DataType::kFloat), c.Int("q_num_heads", 0)));
  MR_ASSIGN_OR_RETURN(h.keys, SplitHeads(c, ops::Cast(c.in(1), DataType::kFloat), groups));
  MR_ASSIGN_OR_RETURN(h.values, SplitHeads(c, ops::Cast(c.in(2), DataType::kFloat), groups));
  MR_RETURN_IF_ERROR(ExpectHeads(c, h));
  const int64_t batch = h.query.dim(0), steps = h.query.dim(2), size = h.keys.dim(3), value_size = h.values.dim(3);
  constexpr int64_t kMostSteps = 20000;
  if (h.keys.dim(2) != steps || steps > kMostSteps) return c.Error(absl::StrCat(steps, " queries, ", h.keys.dim(2), " keys"));
  Output decay, beta;  // [batch, groups, steps, size or 1], [batch, groups or 1, steps, 1]
  if (gated) {
    const Output given = ops::Cast(c.in(4), DataType::kFloat);
    MR_ASSIGN_OR_RETURN(decay, SplitHeads(c, given, groups));
    if (decay.dim(3) != 1 && decay.dim(3) != size) return c.Error(absl::StrCat("decay is ", given.type().ToString()));
    decay = ops::Exp(decay);
  }
  if (delta) {
    const Output given = ops::Cast(c.in(5), DataType::kFloat);
    if (given.rank() != 3 || (given.dim(2) != 1 && given.dim(2) != groups)) return c.Error(absl::StrCat("beta is ", given.type().ToString()));
    MR_ASSIGN_OR_RETURN(beta, SplitHeads(c, given, given.dim(2)));
  }
  const DataType state_type = c.has(3) ? c.in(3).dtype() : type_of.dtype();
  Output state = c.has(3) ? ops::Cast(c.in(3), DataType::kFloat)
                          : ops::Full(c.b, {DataType::kFloat, Shape({batch, groups, size, value_size})}, 0);
  if (state.shape() != Shape({batch, groups, size, value_size})) return c.Error(absl::StrCat("the past state is ", state.type().ToString()));
  const double scale = c.Float("scale", 0) != 0 ? c.Float("scale", 0) : 1 / std::sqrt(static_cast<double>(size));
  const auto step_of = [](const Output& x, int64_t step) { return Part(x, {0, 0, step, 0}, {x.dim(0), x.dim(1), 1, x.dim(3)}); };
  std::vector<Output> rows;
  for (int64_t t = 0; t < steps; ++t) {
    const Output key = step_of(h.keys, t);  // [batch, groups, 1, size]
    Output value = step_of(h.values, t);
    if (gated) state = state * ops::Transpose(step_of(decay, t), {0, 1, 3, 2});
    if (delta) value = step_of(beta, t) * (value - ops::BatchMatMul(key, state));
    state = state + ops::BatchMatMul(key, value, {.a = true});
    const Output query = Grouped(step_of(h.query, t), groups);
    rows.push_back(ops::Reshape(ops::BatchMatMul(query, state) * scale, {batch, h.query.dim(1), 1, value_size}));
  }
  if (rows.empty()) return c.Error("there are no queries");
  c.Set(0, ops::Cast(MergeHeads(ops::Concat(rows, 2)), type_of.dtype()));
  c.Set(1, ops::Cast(state, state_type));
  return absl::OkStatus();
}

// Every channel by a filter of its own over the numbers up to its place; what comes before is zeros, or a state.
absl::Status CausalConvWithState(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 4));
  const Output x = c.in(0), weights = c.in(1);
  if (!x.valid() || !weights.valid()) return absl::OkStatus();
  constexpr int64_t kMostTaps = 4096;
  if (x.rank() != 3 || weights.rank() != 3 || weights.dim(0) != x.dim(1) || weights.dim(1) != 1 || weights.dim(2) < 1 ||
      weights.dim(2) > kMostTaps) {
    return c.Error(absl::StrCat("input ", x.type().ToString(), ", weights ", weights.type().ToString()));
  }
  const std::string activation = c.String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") return c.Error(absl::StrCat("activation is '", activation, "'"));
  const int64_t batch = x.dim(0), channels = x.dim(1), length = x.dim(2), taps = weights.dim(2);
  const Shape state_shape({batch, channels, taps - 1});
  const Output past = c.has(3) ? c.in(3) : ops::Full(c.b, {x.dtype(), state_shape}, 0);
  if (past.shape() != state_shape) return c.Error(absl::StrCat("the past state is ", past.type().ToString(), ", expected ", state_shape.ToString()));
  const Output padded = ops::Concat({{past, x}}, 2);
  const Output wide = AsWide(padded), filters = ops::Cast(weights, wide.dtype());
  std::vector<Output> terms;
  for (int64_t tap = 0; tap < taps; ++tap) {
    terms.push_back(Part(wide, {0, 0, tap}, {batch, channels, length}) * ops::Index(filters, tap, -1));
  }
  Output y = ops::AddN(terms);
  if (c.has(2)) y = y + ops::Reshape(ops::Cast(c.in(2), wide.dtype()), {channels, 1});
  if (activation != "none") y = y * ops::Sigmoid(y);
  c.Set(0, ops::Cast(y, x.dtype()));
  c.Set(1, Part(padded, {0, 0, length}, {batch, channels, taps - 1}));
  return absl::OkStatus();
}

}  // namespace

void AddAttentionLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Attention", Attention},
           {"ai.onnx.preview.FlexAttention", FlexAttention},
           {"RotaryEmbedding", RotaryEmbedding},
           {"TensorScatter", TensorScatter},
           {"LinearAttention", LinearAttention},
           {"CausalConvWithState", CausalConvWithState}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
