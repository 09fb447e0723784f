#include "cuda/launch/recurrent.h"

#include <numeric>

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

MR_DEVICE int64_t CountOf(const Steps& steps) { return steps.on_device != nullptr ? *steps.on_device : steps.known; }
MR_DEVICE float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct CheckStepsBody {
  Queue queue;
  const int64_t* steps;
  int64_t most;
  MR_DEVICE void operator()(int64_t) const {
    if (*steps < 0 || *steps > most) ReportIndex(queue, 0, 0, *steps, most + 1);
  }
};

// In elements that are moved together.
template <typename T>
struct JoinBody {
  Steps steps;
  int64_t batch, inputs, cells;
  Divider width;
  const T *x, *first, *rest;
  MR_DEVICE T operator()(int64_t at) const {
    const int64_t row = width(at), column = at - row * width.by;
    if (row >= CountOf(steps) * batch) return T{};
    if (column < inputs) return x[row * inputs + column];
    return row < batch ? first[row * cells + column - inputs] : rest[(row - batch) * cells + column - inputs];
  }
};

struct ClearBehindBody {
  Steps steps;
  int64_t per_step;
  float* y;
  MR_DEVICE void operator()(int64_t at) const {
    if (at >= CountOf(steps) * per_step) y[at] = 0;
  }
};

struct LstmCellBody {
  LstmShape shape;
  Divider cells;
  Steps steps;
  int64_t step;
  const float *gates, *bias;
  Peepholes peepholes;
  const float* cs_prev;
  LstmResults out;

  MR_DEVICE void Store(int64_t at, float i, float cs, float f, float o, float ci, float co) const {
    out.i[at] = i;
    out.cs[at] = cs;
    out.f[at] = f;
    out.o[at] = o;
    out.ci[at] = ci;
    out.co[at] = co;
    out.h[at] = co * o;
  }
  MR_DEVICE void operator()(int64_t at) const {
    if (step >= CountOf(steps)) return Store(at, 0, 0, 0, 0, 0, 0);
    const int64_t row = cells(at), c = at - row * cells.by;
    const float *const gate = gates + row * 4 * cells.by + c, *const more = bias + c;
    const float before = cs_prev[at];
    float i = gate[shape.i_at] + more[shape.i_at], o = gate[shape.o_at] + more[shape.o_at];
    float f = gate[shape.f_at] + more[shape.f_at] + shape.forget_bias;
    if (shape.peephole) {
      i += before * peepholes.i[c];
      f += before * peepholes.f[c];
    }
    i = Sigmoid(i);
    f = Sigmoid(f);
    const float ci = tanhf(gate[shape.ci_at] + more[shape.ci_at]);
    float cs = ci * i + before * f;
    if (shape.clip > 0) {
      cs = cs < -shape.clip ? -shape.clip : cs;
      cs = cs > shape.clip ? shape.clip : cs;
    }
    if (shape.peephole) o += cs * peepholes.o[c];
    Store(at, i, cs, f, Sigmoid(o), ci, tanhf(cs));
  }
};

struct LstmCellGradBody {
  LstmShape shape;
  Divider cells;
  Steps steps;
  int64_t step;
  Peepholes peepholes;
  LstmStepGrad grad;
  MR_DEVICE void operator()(int64_t at) const {
    const int64_t row = cells(at), c = at - row * cells.by, count = CountOf(steps);
    float* const gates = grad.gates + row * 4 * cells.by + c;
    if (step >= count) {
      for (int k = 0; k < 4; ++k) gates[k * cells.by] = 0;
      grad.cs_carried[at] = 0;
      return;
    }
    const bool last = step + 1 == count;
    const float by_h = last ? grad.h_grad[at] : grad.h_grad[at] + grad.h_next[at];
    const float by_next = last ? grad.cs_grad[at] : grad.cs_grad[at] + grad.cs_carried[at];
    const float i = grad.i[at], f = grad.f[at], o = grad.o[at], ci = grad.ci[at], co = grad.co[at];
    const float by_o = o * (1 - o) * by_h * co;
    float by_cs = (1 - co * co) * by_h * o + by_next;
    if (shape.peephole) by_cs += by_o * peepholes.o[c];
    const float by_i = i * (1 - i) * by_cs * ci, by_f = f * (1 - f) * by_cs * grad.cs_prev[at];
    gates[shape.i_at] = by_i;
    gates[shape.ci_at] = (1 - ci * ci) * by_cs * i;
    gates[shape.f_at] = by_f;
    gates[shape.o_at] = by_o;
    float by_prev = by_cs * f;
    if (shape.peephole) by_prev += by_i * peepholes.i[c] + by_f * peepholes.f[c];
    grad.cs_carried[at] = by_prev;
  }
};

// Row k of the sums is peephole k / cells of cell k % cells; terms are the rows of all steps.
struct PeepholeGradsBody {
  LstmShape shape;
  Divider cells;
  Steps steps;
  PeepholeGrads grads;
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE double Load(int64_t sum, int64_t row) const {
    if (row >= CountOf(steps) * shape.batch) return 0;
    const int64_t part = cells(sum), c = sum - part * cells.by;
    const float* const gate = grads.gates + row * 4 * cells.by + c;
    if (part == 2) return static_cast<double>(gate[shape.o_at] * grads.cs[row * cells.by + c]);
    const int64_t before = row - shape.batch;
    const float cs_prev = before < 0 ? grads.cs_prev[row * cells.by + c] : grads.cs[before * cells.by + c];
    return static_cast<double>(gate[part == 0 ? shape.i_at : shape.f_at] * cs_prev);
  }
  MR_DEVICE void Store(int64_t sum, double value) const {
    const int64_t part = cells(sum), c = sum - part * cells.by;
    (part == 0 ? grads.i : part == 1 ? grads.f : grads.o)[c] = static_cast<float>(value);
  }
};

struct GruGatesBody {
  Divider cells;
  int64_t inputs;
  const float *sums, *bias, *h_prev;
  float *r, *u, *joined;
  MR_DEVICE void operator()(int64_t at) const {
    const int64_t n = cells.by, row = cells(at), c = at - row * n;
    const float reset = Sigmoid(sums[row * 2 * n + c] + bias[c]);
    r[at] = reset;
    u[at] = Sigmoid(sums[row * 2 * n + n + c] + bias[n + c]);
    joined[row * (inputs + n) + inputs + c] = h_prev[at] * reset;
  }
};

struct GruOutputBody {
  Divider cells;
  const float *bias, *u, *h_prev;
  float *c, *h;
  MR_DEVICE void operator()(int64_t at) const {
    const float candidate = tanhf(c[at] + bias[at - cells(at) * cells.by]), update = u[at];
    c[at] = candidate;
    h[at] = update * h_prev[at] + (1 - update) * candidate;
  }
};

struct GruCandidateGradBody {
  GruGrad grad;
  MR_DEVICE float operator()(int64_t at) const {
    const float c = grad.c[at];
    return grad.d_h[at] * (1 - grad.u[at]) * (1 - c * c);
  }
};

struct GruGatesGradBody {
  Divider cells;
  int64_t inputs;
  GruGrad grad;
  MR_DEVICE void operator()(int64_t at) const {
    const int64_t n = cells.by, row = cells(at), k = at - row * n;
    const float h_prev = grad.h_prev[at], r = grad.r[at], u = grad.u[at];
    float* const d_ru = grad.d_ru + row * 2 * n + k;
    d_ru[0] = grad.by_c[row * (inputs + n) + inputs + k] * h_prev * r * (1 - r);
    d_ru[n] = grad.d_h[at] * (h_prev - grad.c[at]) * u * (1 - u);
  }
};

struct GruInputsGradBody {
  Divider width;
  CellShape shape;
  GruGrad grad;
  MR_DEVICE void operator()(int64_t at) const {
    const int64_t row = width(at), column = at - row * width.by;
    if (column < shape.inputs) {
      grad.d_x[row * shape.inputs + column] = grad.by_ru[at] + grad.by_c[at];
      return;
    }
    const int64_t to = row * shape.cells + column - shape.inputs;
    grad.d_h_prev[to] = grad.by_ru[at] + grad.by_c[at] * grad.r[to] + grad.d_h[to] * grad.u[to];
  }
};

int64_t StateOf(const CellShape& shape) { return shape.batch * shape.cells; }

}  // namespace

void LaunchCheckSteps(const Queue& queue, const int64_t* steps, int64_t most) { ForEach(queue, 1, CheckStepsBody{queue, steps, most}); }

void LaunchJoin(const Queue& queue, const CellShape& shape, const Steps& steps, int64_t rows, const float* x, const float* first,
                const float* rest, float* joined) {
  const int64_t common = std::gcd(shape.inputs, shape.cells);
  const int from_x = WidestRows(sizeof(float), common, x, joined), from_h = WidestRows(sizeof(float), common, first, rest);
  ForWideSize(from_x < from_h ? from_x : from_h, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) >= sizeof(float)) {
      constexpr int64_t kTogether = sizeof(T) / sizeof(float);
      const int64_t n = rows * shape.width() / kTogether;
      Map(queue, n, reinterpret_cast<T*>(joined),
          JoinBody<T>{steps, shape.batch, shape.inputs / kTogether, shape.cells / kTogether, DivideBy(shape.width() / kTogether, n),
                      reinterpret_cast<const T*>(x), reinterpret_cast<const T*>(first), reinterpret_cast<const T*>(rest)});
    }
  });
}

void LaunchClearBehind(const Queue& queue, const Steps& steps, int64_t per_step, int64_t n, float* y) {
  ForEach(queue, n, ClearBehindBody{steps, per_step, y});
}

void LaunchLstmCell(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t step, const float* gates,
                    const float* bias, const Peepholes& peepholes, const float* cs_prev, const LstmResults& out) {
  const int64_t n = StateOf(shape);
  ForEach(queue, n, LstmCellBody{shape, DivideBy(shape.cells, n), steps, step, gates, bias, peepholes, cs_prev, out});
}

void LaunchLstmCellGrad(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t step, const Peepholes& peepholes,
                        const LstmStepGrad& grad) {
  const int64_t n = StateOf(shape);
  ForEach(queue, n, LstmCellGradBody{shape, DivideBy(shape.cells, n), steps, step, peepholes, grad});
}

int64_t PeepholeScratchBytes(const LstmShape& shape, int64_t rows) {
  const int64_t sums = 3 * shape.cells, chunks = SumChunks(sums, rows, true);
  return chunks > 1 ? sums * chunks * static_cast<int64_t>(sizeof(double)) : 0;
}

void LaunchPeepholeGrads(const Queue& queue, const LstmShape& shape, const Steps& steps, int64_t rows, const PeepholeGrads& grads,
                         void* scratch) {
  const int64_t sums = 3 * shape.cells;
  SumRows<double>(queue, sums, rows, true, scratch, PeepholeGradsBody{shape, DivideBy(shape.cells, sums), steps, grads});
}

void LaunchGruGates(const Queue& queue, const CellShape& shape, const float* sums, const float* bias, const float* h_prev, float* r,
                    float* u, float* joined) {
  const int64_t n = StateOf(shape);
  ForEach(queue, n, GruGatesBody{DivideBy(shape.cells, n), shape.inputs, sums, bias, h_prev, r, u, joined});
}

void LaunchGruOutput(const Queue& queue, const CellShape& shape, const float* bias, const float* u, const float* h_prev, float* c,
                     float* h) {
  const int64_t n = StateOf(shape);
  ForEach(queue, n, GruOutputBody{DivideBy(shape.cells, n), bias, u, h_prev, c, h});
}

void LaunchGruCandidateGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad) {
  Map(queue, StateOf(shape), grad.d_c, GruCandidateGradBody{grad});
}

void LaunchGruGatesGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad) {
  const int64_t n = StateOf(shape);
  ForEach(queue, n, GruGatesGradBody{DivideBy(shape.cells, n), shape.inputs, grad});
}

void LaunchGruInputsGrad(const Queue& queue, const CellShape& shape, const GruGrad& grad) {
  const int64_t n = shape.batch * shape.width();
  ForEach(queue, n, GruInputsGradBody{DivideBy(shape.width(), n), shape, grad});
}

}  // namespace millrace::cuda
