#include "cuda/launch/cudnn_rnn.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

MR_DEVICE float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct CheckLengthsBody {
  Queue queue;
  int32_t input;
  const int32_t* lengths;
  int64_t steps;
  MR_DEVICE void operator()(int64_t b) const {
    if (lengths[b] < 0 || lengths[b] > steps) ReportIndex(queue, input, b, lengths[b], steps + 1);
  }
};

template <int kGates>
struct Gates {
  float of[kGates] = {};
};

// Cells: Forward takes sums with the input and with the state, each with its bias, and the state to what it is after the step; Backward
// takes gradients of the state after the step to those before it, `by_h` with what the layer above adds, as far as no product is needed.

struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr bool kHasCell = true, kApart = false;
  MR_DEVICE static void Forward(const Gates<4>& x, const Gates<4>& s, float& h, float& c, Gates<4>& gates, float& more) {
    const float i = Sigmoid(x.of[0] + s.of[0]), f = Sigmoid(x.of[1] + s.of[1]);
    const float g = tanhf(x.of[2] + s.of[2]), o = Sigmoid(x.of[3] + s.of[3]);
    more = c = f * c + i * g;
    h = o * tanhf(c);
    gates = {{i, f, g, o}};
  }
  MR_DEVICE static void Backward(const Gates<4>& gates, float more, float, float c, float& by_h, float& by_c, Gates<4>& to_input, Gates<4>&) {
    const float in = gates.of[0], forget = gates.of[1], made = gates.of[2], out = gates.of[3], shown = tanhf(more);
    const float cell = by_c + by_h * out * (1 - shown * shown);
    to_input = {{cell * made * in * (1 - in), cell * c * forget * (1 - forget), cell * in * (1 - made * made), by_h * shown * out * (1 - out)}};
    by_c = cell * forget;
    by_h = 0;
  }
};

struct GruCell {
  static constexpr int kGates = 3;
  static constexpr bool kHasCell = false, kApart = true;
  MR_DEVICE static void Forward(const Gates<3>& x, const Gates<3>& s, float& h, float&, Gates<3>& gates, float& more) {
    const float r = Sigmoid(x.of[0] + s.of[0]), z = Sigmoid(x.of[1] + s.of[1]);
    more = s.of[2];
    const float made = tanhf(x.of[2] + r * more);
    h = (1 - z) * made + z * h;
    gates = {{r, z, made}};
  }
  MR_DEVICE static void Backward(const Gates<3>& gates, float more, float h, float, float& by_h, float&, Gates<3>& to_input,
                                 Gates<3>& to_state) {
    const float r = gates.of[0], z = gates.of[1], made = gates.of[2];
    const float candidate = by_h * (1 - z) * (1 - made * made);
    to_input = {{candidate * more * r * (1 - r), by_h * (h - made) * z * (1 - z), candidate}};
    to_state = {{to_input.of[0], to_input.of[1], candidate * r}};
    by_h = by_h * z;
  }
};

template <bool kRelu>
struct PlainCell {
  static constexpr int kGates = 1;
  static constexpr bool kHasCell = false, kApart = false;
  MR_DEVICE static void Forward(const Gates<1>& x, const Gates<1>& s, float& h, float&, Gates<1>& gates, float& more) {
    const float sum = x.of[0] + s.of[0];
    h = !kRelu ? tanhf(sum) : sum < 0 ? 0.0f : sum;
    gates.of[0] = more = h;
  }
  MR_DEVICE static void Backward(const Gates<1>& gates, float, float, float, float& by_h, float&, Gates<1>& to_input, Gates<1>&) {
    const float y = gates.of[0];
    to_input.of[0] = !kRelu ? by_h * (1 - y * y) : y > 0 ? by_h : 0.0f;
    by_h = 0;
  }
};

template <typename Fn>
void ForCell(RnnCell cell, const Fn& fn) {
  switch (cell) {
    case RnnCell::kLstm: return fn(LstmCell());
    case RnnCell::kGru: return fn(GruCell());
    case RnnCell::kRelu: return fn(PlainCell<true>());
    case RnnCell::kTanh: return fn(PlainCell<false>());
  }
}

int64_t GatesOf(RnnCell cell) { return cell == RnnCell::kLstm ? 4 : cell == RnnCell::kGru ? 3 : 1; }

// Where a thread works.
struct Place {
  int64_t direction, u, line;  // line: of the states, direction by direction
  int64_t t, row, length;
  MR_DEVICE bool counts() const { return t < length; }
};

// A thread for each element of the states.
struct StepGrid {
  RnnStep step;
  Divider units, batch;
  explicit StepGrid(const RnnStep& s) : step(s), units(DivideBy(s.units, elements())), batch(DivideBy(s.batch, elements())) {}
  int64_t elements() const { return step.directions * step.batch * step.units; }
  MR_DEVICE Place Of(int64_t at) const {
    const int64_t line = units(at), direction = batch(line), b = line - direction * batch.by;
    const int64_t t = direction == 0 ? step.step : step.steps - 1 - step.step;
    return {direction, at - line * units.by, line, t, t * batch.by + b, step.lengths == nullptr ? step.steps : step.lengths[b]};
  }
  // Of the first gate of a row of all directions, and of a row of one number of each unit.
  MR_DEVICE int64_t KeptGates(const Place& p, int gates) const { return p.direction * step.kept_stride + p.row * gates * units.by + p.u; }
  MR_DEVICE int64_t KeptMore(const Place& p, int64_t row) const { return p.direction * step.kept_stride + row * units.by + p.u; }
  MR_DEVICE int64_t Output(const Place& p, int64_t row) const { return (row * step.directions + p.direction) * units.by + p.u; }
  MR_DEVICE int64_t OfRow(const Place& p) const { return p.direction * step.steps * batch.by + p.row; }
};

template <int kGates>
MR_DEVICE Gates<kGates> Load(const float* from, int64_t apart) {
  Gates<kGates> gates;
  for (int g = 0; g < kGates; ++g) gates.of[g] = from[g * apart];
  return gates;
}
template <int kGates>
MR_DEVICE void Store(const Gates<kGates>& gates, float* to, int64_t apart) {
  for (int g = 0; g < kGates; ++g) to[g * apart] = gates.of[g];
}

template <typename Cell>
struct ForwardBody {
  static constexpr int kGates = Cell::kGates;
  StepGrid grid;
  RnnForward f;
  MR_DEVICE void operator()(int64_t at) const {
    const Place p = grid.Of(at);
    const int64_t n = grid.units.by, wide = kGates * n, gates_at = grid.KeptGates(p, kGates);
    float h = f.h_before[at], c = Cell::kHasCell ? f.c_before[at] : 0.0f, more = 0;
    Gates<kGates> gates;
    if (p.counts()) {
      Gates<kGates> x = Load<kGates>(f.gates + gates_at, n), s = Load<kGates>(f.products + p.line * wide + p.u, n);
      const float* const biases = f.biases + p.direction * 2 * wide + p.u;
      for (int g = 0; g < kGates; ++g) {
        x.of[g] += biases[g * n];
        s.of[g] += biases[wide + g * n];
      }
      Cell::Forward(x, s, h, c, gates, more);
    }
    f.output[grid.Output(p, p.row)] = p.counts() ? h : 0.0f;
    f.h[at] = h;
    if (Cell::kHasCell) f.c[at] = c;
    if (!f.keeps) return;
    Store(gates, f.gates + gates_at, n);
    f.more[grid.KeptMore(p, p.row)] = more;
  }
};

template <typename Cell>
struct BackwardBody {
  static constexpr int kGates = Cell::kGates;
  StepGrid grid;
  RnnBackward b;
  MR_DEVICE void operator()(int64_t at) const {
    const Place p = grid.Of(at);
    const int64_t n = grid.units.by, wide = kGates * n;
    float by_h = b.h_after[at], by_c = Cell::kHasCell ? b.c_after[at] : 0.0f, before = 0;
    Gates<kGates> to_input, to_state;
    if (p.counts()) {
      // The state that the sequence began with is before its first step.
      const int64_t previous = p.direction == 0 ? p.t - 1 : p.t + 1;
      const bool first = previous < 0 || previous >= p.length;
      const int64_t row = p.row + (previous - p.t) * grid.batch.by;
      before = first ? b.h_begin[at] : b.output[grid.Output(p, row)];
      float c = 0;
      if (Cell::kHasCell) c = first ? b.c_begin[at] : b.more[grid.KeptMore(p, row)];
      by_h += b.above[grid.Output(p, p.row)];
      const Gates<kGates> gates = Load<kGates>(b.gates + grid.KeptGates(p, kGates), n);
      Cell::Backward(gates, b.more[grid.KeptMore(p, p.row)], before, c, by_h, by_c, to_input, to_state);
      if (!Cell::kApart) to_state = to_input;
    }
    const int64_t of_row = grid.OfRow(p), to = of_row * wide + p.u;
    Store(to_input, b.to_input + to, n);
    if (Cell::kApart) Store(to_state, b.to_state + to, n);
    Store(to_state, b.of_step + p.line * wide + p.u, n);
    b.before[of_row * n + p.u] = before;
    b.h[at] = by_h;
    if (Cell::kHasCell) b.c[at] = by_c;
  }
};

// A sum for every column of what is for the products: where they differ, `to_input` and `to_state` take turns, direction by direction.
struct BiasGradsBody {
  bool apart;
  int64_t rows;
  Divider wide;
  const float *to_input, *to_state;
  float* biases;
  struct Terms {
    static constexpr int kAtOnce = 4;
    const float* from;
    int64_t apart;
    MR_DEVICE float Fetch(int64_t k) const { return from[k * apart]; }
    MR_DEVICE float Value(float x) const { return x; }
  };
  MR_DEVICE float Identity() const { return 0; }
  MR_DEVICE float Combine(float a, float b) const { return a + b; }
  MR_DEVICE Terms Row(int64_t sum) const {
    const int64_t part = wide(sum), direction = apart ? part / 2 : part;
    const float* const from = apart && part % 2 != 0 ? to_state : to_input;
    return {from + direction * rows * wide.by + sum - part * wide.by, wide.by};
  }
  MR_DEVICE void Store(int64_t sum, float value) const {
    if (apart) {
      biases[sum] = value;
      return;
    }
    const int64_t at = sum + wide(sum) * wide.by;
    biases[at] = biases[at + wide.by] = value;
  }
};

int64_t BiasSums(const RnnStep& step) { return (step.cell == RnnCell::kGru ? 2 : 1) * step.directions * GatesOf(step.cell) * step.units; }

struct DropoutScalesBody {
  float rate, scale;
  const float* uniform;
  MR_DEVICE float operator()(int64_t i) const { return uniform[i] < rate ? 0.0f : scale; }
};

struct ScaleBody {
  const float *x, *by;
  MR_DEVICE float operator()(int64_t i) const { return x[i] * by[i]; }
};

}  // namespace

void LaunchCheckLengths(const Queue& queue, int input, const int32_t* lengths, int64_t batch, int64_t steps) {
  ForEach(queue, batch, CheckLengthsBody{queue, input, lengths, steps});
}

void LaunchRnnForward(const Queue& queue, const RnnStep& step, const RnnForward& forward) {
  const StepGrid grid(step);
  ForCell(step.cell, [&](auto cell) { ForEach(queue, grid.elements(), ForwardBody<decltype(cell)>{grid, forward}); });
}

void LaunchRnnBackward(const Queue& queue, const RnnStep& step, const RnnBackward& backward) {
  const StepGrid grid(step);
  ForCell(step.cell, [&](auto cell) { ForEach(queue, grid.elements(), BackwardBody<decltype(cell)>{grid, backward}); });
}

int64_t RnnBiasScratchBytes(const RnnStep& step, int64_t rows) {
  const int64_t sums = BiasSums(step), chunks = SumChunks(sums, rows, true);
  return chunks > 1 ? sums * chunks * static_cast<int64_t>(sizeof(float)) : 0;
}

void LaunchRnnBiasGrads(const Queue& queue, const RnnStep& step, int64_t rows, const float* to_input, const float* to_state, float* biases,
                        void* scratch) {
  const int64_t sums = BiasSums(step);
  const Divider wide = DivideBy(GatesOf(step.cell) * step.units, sums);
  SumRows<float>(queue, sums, rows, true, scratch, BiasGradsBody{step.cell == RnnCell::kGru, rows, wide, to_input, to_state, biases});
}

void LaunchDropoutScales(const Queue& queue, int64_t n, float rate, float* scales) {
  Map(queue, n, scales, DropoutScalesBody{rate, 1.0f / (1.0f - rate), scales});
}

void LaunchScale(const Queue& queue, int64_t n, const float* x, const float* by, float* y) { Map(queue, n, y, ScaleBody{x, by}); }

}  // namespace millrace::cuda
