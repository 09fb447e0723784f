// RNN, GRU and LSTM, and onnxruntime's LSTM of 8-bit weights, unrolled over their static number of steps.
#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct Activation {
  std::string name;  // lower case
  double alpha = 0, beta = 0;
};

struct Cell {
  int gates = 1;                          // 1 RNN, 3 GRU, 4 LSTM
  std::vector<Activation> activations;    // of one direction
  double clip = 0;                        // 0: none
  bool linear_before_reset = false, input_forget = false;
  bool in_8_bits = false;  // what is multiplied by weights is rounded to 8 bits before
  int64_t hidden = 0;
};

Output Activate(const Activation& f, const Output& x, double clip) {
  const Output in = clip > 0 ? ops::Binary("Minimum", ops::Binary("Maximum", x, -clip), clip) : x;
  if (f.name == "sigmoid") return ops::Sigmoid(in);
  if (f.name == "tanh") return ops::Tanh(in);
  if (f.name == "relu") return ops::Relu(in);
  if (f.name == "affine") return in * f.alpha + f.beta;
  if (f.name == "leakyrelu") return ops::LeakyRelu(in, static_cast<float>(f.alpha));
  if (f.name == "thresholdedrelu") return ops::Select(ops::Binary("Greater", in, f.alpha), in, ops::ZerosLike(in));
  if (f.name == "scaledtanh") return ops::Tanh(in * f.beta) * f.alpha;
  if (f.name == "hardsigmoid") {
    return ops::Binary("Minimum", ops::Binary("Maximum", in * f.alpha + f.beta, 0), 1);
  }
  if (f.name == "elu") {
    return ops::Select(ops::Binary("Greater", in, 0), in, ops::Unary("Expm1", ops::Binary("Minimum", in, 0)) * f.alpha);
  }
  if (f.name == "softsign") return ops::Unary("Softsign", in);
  return ops::Softplus(in);
}

// The activations of every direction, with their parameters taken from the lists in order.
absl::StatusOr<std::vector<Activation>> ReadActivations(const NodeContext& c, std::vector<std::string> names, int directions) {
  const std::vector<std::string> given = c.Strings("activations");
  const size_t per_direction = names.size();
  if (!given.empty()) {
    names = given;
  } else if (directions == 2) {
    const std::vector<std::string> forward = names;
    names.insert(names.end(), forward.begin(), forward.end());
  }
  if (names.size() != per_direction * directions) return c.Error(absl::StrCat(names.size(), " activations"));
  struct Defaults {
    const char* name;
    double alpha, beta;
    bool has_alpha, has_beta;
  };
  static constexpr Defaults kKnown[] = {{"sigmoid", 0, 0, false, false},       {"tanh", 0, 0, false, false},
                                        {"relu", 0, 0, false, false},          {"affine", 1, 0, true, true},
                                        {"leakyrelu", 0.01, 0, true, false},   {"thresholdedrelu", 1, 0, true, false},
                                        {"scaledtanh", 1, 1, true, true},      {"hardsigmoid", 0.2, 0.5, true, true},
                                        {"elu", 1, 0, true, false},            {"softsign", 0, 0, false, false},
                                        {"softplus", 0, 0, false, false}};
  const std::vector<float> alphas = c.Floats("activation_alpha"), betas = c.Floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const std::string lower = absl::AsciiStrToLower(name);
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Defaults& d) { return lower == d.name; });
    if (known == std::end(kKnown)) return c.Error(absl::StrCat("activation '", name, "'"));
    Activation activation{lower, known->alpha, known->beta};
    if (known->has_alpha && alpha < alphas.size()) activation.alpha = alphas[alpha++];
    if (known->has_beta && beta < betas.size()) activation.beta = betas[beta++];
    activations.push_back(activation);
  }
  return activations;
}

struct State {
  Output h, c;
};

// Weights of one direction: of the hidden state [gates * hidden, hidden], its bias, and LSTM's peepholes [hidden] each.
struct Weights {
  Output recurrent;
  Output recurrent_bias;  // invalid: none
  std::vector<Output> peepholes;
};

Output Gate(const Output& x, int64_t gate, int64_t hidden) { return Part(x, {0, gate * hidden}, {x.dim(0), hidden}); }

Output TimesTransposed(const Output& x, const Output& weights) { return ops::MatMul(x, weights, {false, true}); }
Output TimesTransposed(const Cell& cell, const Output& x, const Output& weights) {
  return TimesTransposed(cell.in_8_bits ? RoundedByRange(x) : x, weights);
}

State LstmStep(const Cell& cell, const Weights& w, const Output& x, const State& state) {
  const int64_t n = cell.hidden;
  Output all = x + TimesTransposed(cell, state.h, w.recurrent);
  if (w.recurrent_bias.valid()) all = all + w.recurrent_bias;
  const auto with_peephole = [&](const Output& gate, const Output& c, int i) {
    return w.peepholes.empty() ? gate : gate + c * w.peepholes[i];
  };
  const Output i = Activate(cell.activations[0], with_peephole(Gate(all, 0, n), state.c, 0), cell.clip);
  const Output f = cell.input_forget
                       ? -i + 1.0
                       : Activate(cell.activations[0], with_peephole(Gate(all, 2, n), state.c, 2), cell.clip);
  const Output g = Activate(cell.activations[1], Gate(all, 3, n), cell.clip);
  State next;
  next.c = f * state.c + i * g;
  const Output o = Activate(cell.activations[0], with_peephole(Gate(all, 1, n), next.c, 1), cell.clip);
  next.h = o * Activate(cell.activations[2], next.c, 0);
  return next;
}

State GruStep(const Cell& cell, const Weights& w, const Output& x, const State& state) {
  const int64_t n = cell.hidden;
  const Output gates = Part(w.recurrent, {0, 0}, {2 * n, n}), last = Part(w.recurrent, {2 * n, 0}, {n, n});
  const auto bias = [&](int64_t from, int64_t count) { return Part(w.recurrent_bias, {from}, {count}); };
  Output zr = Part(x, {0, 0}, {x.dim(0), 2 * n}) + TimesTransposed(state.h, gates);
  if (w.recurrent_bias.valid()) zr = zr + bias(0, 2 * n);
  const Output z = Activate(cell.activations[0], Gate(zr, 0, n), cell.clip);
  const Output r = Activate(cell.activations[0], Gate(zr, 1, n), cell.clip);
  Output from_state = TimesTransposed(cell.linear_before_reset ? state.h : r * state.h, last);
  if (w.recurrent_bias.valid()) from_state = from_state + bias(2 * n, n);
  if (cell.linear_before_reset) from_state = r * from_state;
  const Output candidate = Activate(cell.activations[1], Gate(x, 2, n) + from_state, cell.clip);
  return {.h = (-z + 1.0) * candidate + z * state.h};
}

State RnnStep(const Cell& cell, const Weights& w, const Output& x, const State& state) {
  Output all = x + TimesTransposed(state.h, w.recurrent);
  if (w.recurrent_bias.valid()) all = all + w.recurrent_bias;
  return {.h = Activate(cell.activations[0], all, cell.clip)};
}

struct Sequence {
  std::vector<Output> steps;  // [batch, hidden] each, by time
  State last;
};

// What is multiplied: x [time, batch, inputs], weights of all directions [directions, gates * hidden, inputs or hidden].
struct Factors {
  Output x, of_inputs, recurrent;
};

class Direction {
 public:
  Direction(NodeContext& c, const Cell& cell, const Factors& factors, int number)
      : c_(c), cell_(cell), factors_(factors), x_(factors.x), number_(number) {}

  Sequence Run(bool reverse, const Output& lengths) {
    const int64_t steps = x_.dim(0), batch = x_.dim(1), wide = cell_.gates * cell_.hidden;
    Weights w;
    w.recurrent = OfDirection(factors_.recurrent);
    // The inputs' part of all steps is one product.
    Output inputs = TimesTransposed(cell_, ops::Reshape(x_, {steps * batch, x_.dim(2)}), OfDirection(factors_.of_inputs));
    if (c_.has(3)) {
      const Output bias = OfDirection(c_.in(3));
      inputs = ops::BiasAdd(inputs, Part(bias, {0}, {wide}));
      w.recurrent_bias = Part(bias, {wide}, {wide});
    }
    if (cell_.gates == 4 && c_.has(7)) {
      const Output all = OfDirection(c_.in(7));
      for (int64_t i = 0; i < 3; ++i) w.peepholes.push_back(Part(all, {i * cell_.hidden}, {cell_.hidden}));
    }
    const std::vector<Output> by_time = ops::Unpack(ops::Reshape(inputs, {steps, batch, wide}), 0);
    State state = {Initial(5), cell_.gates == 4 ? Initial(6) : Output()};
    const Output zeros = ops::Full(c_.b, TensorType{x_.dtype(), Shape({batch, cell_.hidden})}, 0);
    Sequence result;
    result.steps.resize(steps);
    Output given = state.h;  // by the step before
    for (int64_t i = 0; i < steps && c_.b.ok(); ++i) {
      const int64_t t = reverse ? steps - 1 - i : i;
      // Zeros of sequences that have ended leave the others' range alone.
      State next = Step(w, by_time[t], {cell_.in_8_bits ? given : state.h, state.c});
      Output y = next.h;
      if (lengths.valid()) {
        // Beyond its length a sequence keeps its state and gives zeros.
        const Output runs = ops::ExpandDims(ops::Binary("Greater", lengths, static_cast<double>(t)), 1);
        y = ops::Select(runs, next.h, zeros);
        next.h = ops::Select(runs, next.h, state.h);
        if (next.c.valid()) next.c = ops::Select(runs, next.c, state.c);
      }
      result.steps[t] = y;
      given = c_.wants(0) ? y : next.h;  // who asks for no steps gets none zeroed by onnxruntime
      state = next;
    }
    result.last = state;
    return result;
  }

 private:
  State Step(const Weights& w, const Output& x, const State& state) {
    return cell_.gates == 4 ? LstmStep(cell_, w, x, state) : cell_.gates == 3 ? GruStep(cell_, w, x, state)
                                                                              : RnnStep(cell_, w, x, state);
  }
  Output OfDirection(const Output& all) { return ops::Index(all, number_, 0); }
  Output Initial(int input) {
    const int64_t batch = x_.dim(1);
    if (!c_.has(input)) return ops::Full(c_.b, TensorType{x_.dtype(), Shape({batch, cell_.hidden})}, 0);
    const bool batch_first = c_.Int("layout", 0) != 0;
    return ops::Index(c_.in(input), number_, batch_first ? 1 : 0);
  }

  NodeContext& c_;
  const Cell& cell_;
  const Factors& factors_;
  const Output& x_;
  const int number_;
};

// [time, batch, ...], each sequence's steps within its length turned about.
Output InReverse(const Output& x, const Output& lengths) {
  return x.builder()->Op("ReverseSequence", {x, lengths}, {{"T", x.dtype()}, {"Tlen", lengths.dtype()}, {"seq_dim", int64_t{0}}, {"batch_dim", int64_t{1}}});
}

// x with zeros, which are in any range, for the steps beyond the longest sequence.
Output WithinLongest(const Output& x, const Output& lengths) {
  IntList times(x.dim(0));
  std::iota(times.begin(), times.end(), 0);
  const Output runs = ops::Reshape(ops::Binary("Greater", ops::Reduce("Max", lengths, {0}), x.builder()->Ints(times)), {x.dim(0), 1, 1});
  return ops::Select(runs, x, ops::ZerosLike(x));
}

// Weights [directions, inputs, gates * hidden] of 8 bits, with scales and zero points of each direction or of each of its columns, as they
// stand in the other cells.
absl::StatusOr<Output> Dequantized(NodeContext& c, int weights, int scale, int zero) {
  const Output x = c.in(weights);
  if (!x.valid()) return x;
  if (x.rank() != 3 || (x.dtype() != DataType::kInt8 && x.dtype() != DataType::kUint8)) {
    return c.Error(absl::StrCat("weights are ", x.type().ToString(), ", expected 8-bit integers of rank 3"));
  }
  const auto of_columns = [&](int input) -> absl::StatusOr<Output> {
    MR_ASSIGN_OR_RETURN(const Tensor value, c.Constant(input));
    const bool per_column = value.shape() == Shape({x.dim(0), x.dim(2)});
    if (!per_column && value.shape() != Shape({x.dim(0)})) {
      return c.Error(absl::StrCat("input ", input, " is ", value.type().ToString(), ", the weights are ", x.type().ToString()));
    }
    return ops::Reshape(ops::Cast(c.b.SharedConst(value), DataType::kFloat), {x.dim(0), 1, per_column ? x.dim(2) : 1});
  };
  MR_ASSIGN_OR_RETURN(const Output step, of_columns(scale));
  MR_ASSIGN_OR_RETURN(const Output offset, of_columns(zero));
  return ops::Transpose((ops::Cast(x, DataType::kFloat) - offset) * step, {0, 2, 1});
}

absl::Status ExpectShapes(const NodeContext& c, const Cell& cell, const Output& x, const Output& w, const Output& r,
                          int64_t directions) {
  const int64_t wide = cell.gates * cell.hidden;
  if (x.rank() == 3 && x.dim(0) > 0 && w.shape() == Shape({directions, wide, x.dim(2)}) &&
      r.shape() == Shape({directions, wide, cell.hidden})) {
    return absl::OkStatus();
  }
  return c.Error(absl::StrCat("X ", x.type().ToString(), ", W ", w.type().ToString(), ", R ", r.type().ToString(), ", ",
                              cell.hidden, " units, ", directions, " directions"));
}

absl::Status Recurrent(NodeContext& c, Cell cell, const std::vector<std::string>& activations, const Output& w, const Output& r) {
  const std::string direction = c.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return c.Error(absl::StrCat("direction is '", direction, "'"));
  }
  const int directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = c.Int("layout", 0) != 0;
  Output x = c.in(0);
  if (!x.valid() || !w.valid() || !r.valid()) return absl::OkStatus();
  if (batch_first && x.rank() == 3) x = ops::Transpose(x, {1, 0, 2});
  cell.hidden = c.Int("hidden_size", r.rank() == 3 ? r.dim(2) : 0);
  cell.clip = c.Float("clip", 0);
  cell.linear_before_reset = c.Int("linear_before_reset", 0) != 0;
  cell.input_forget = c.Int("input_forget", 0) != 0;
  MR_RETURN_IF_ERROR(ExpectShapes(c, cell, x, w, r, directions));
  constexpr int64_t kMostSteps = 20000;
  if (x.dim(0) > kMostSteps) return c.Unsupported(absl::StrCat("unrolling over ", x.dim(0), " steps"));
  MR_ASSIGN_OR_RETURN(const std::vector<Activation> all, ReadActivations(c, activations, directions));
  Output lengths;
  if (c.has(4)) lengths = c.in(4);
  // Ranges are onnxruntime's: of the steps of one number in all sequences, which it turns about before it takes them backwards.
  const bool by_length = cell.in_8_bits && lengths.valid();
  if (by_length) x = WithinLongest(x, lengths);
  std::vector<Sequence> sequences;
  for (int d = 0; d < directions; ++d) {
    cell.activations.assign(all.begin() + d * static_cast<int64_t>(activations.size()),
                            all.begin() + (d + 1) * static_cast<int64_t>(activations.size()));
    const bool reverse = direction == "reverse" || d == 1, turned = by_length && reverse;
    const Factors factors{turned ? InReverse(x, lengths) : x, w, r};
    sequences.push_back(Direction(c, cell, factors, d).Run(reverse && !turned, lengths));
    if (turned) sequences.back().steps = ops::Unpack(InReverse(ops::Pack(sequences.back().steps, 0), lengths), 0);
  }
  MR_RETURN_IF_ERROR(c.b.status());
  std::vector<Output> ys, hs, cs;
  for (const Sequence& sequence : sequences) {
    if (c.wants(0)) ys.push_back(ops::Pack(sequence.steps, 0));
    hs.push_back(sequence.last.h);
    if (cell.gates == 4) cs.push_back(sequence.last.c);
  }
  // [time, directions, batch, hidden] or [batch, time, directions, hidden].
  if (c.wants(0)) c.Set(0, batch_first ? ops::Transpose(ops::Pack(ys, 1), {2, 0, 1, 3}) : ops::Pack(ys, 1));
  c.Set(1, ops::Pack(hs, batch_first ? 1 : 0));
  if (cell.gates == 4) c.Set(2, ops::Pack(cs, batch_first ? 1 : 0));
  return absl::OkStatus();
}

absl::Status Recurrent(NodeContext& c, const Cell& cell, const std::vector<std::string>& activations) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, cell.gates == 4 ? 8 : 6));
  return Recurrent(c, cell, activations, c.in(1), c.in(2));
}

absl::Status Rnn(NodeContext& c) { return Recurrent(c, {.gates = 1}, {"Tanh"}); }
absl::Status Gru(NodeContext& c) { return Recurrent(c, {.gates = 3}, {"Sigmoid", "Tanh"}); }
absl::Status Lstm(NodeContext& c) { return Recurrent(c, {.gates = 4}, {"Sigmoid", "Tanh", "Tanh"}); }

// onnxruntime's: products of integers, of x and of each state rounded to 8 bits by their range at the time.
absl::Status DynamicQuantizeLstm(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 12));  // an input that is read below and absent is an error there
  MR_ASSIGN_OR_RETURN(const Output w, Dequantized(c, 1, 8, 9));
  MR_ASSIGN_OR_RETURN(const Output r, Dequantized(c, 2, 10, 11));
  return Recurrent(c, {.gates = 4, .in_8_bits = true}, {"Sigmoid", "Tanh", "Tanh"}, w, r);
}

}  // namespace

void AddRecurrentLowerings(LoweringTable& table) {
  table.Add("RNN", Rnn);
  table.Add("GRU", Gru);
  table.Add("LSTM", Lstm);
  table.Add("com.microsoft.DynamicQuantizeLSTM", DynamicQuantizeLstm);
}

}  // namespace millrace::onnx
