// Logarithms throughout, in double. States of all sequences lie one after another: a sequence of k labels has 2k + 1
// states, its labels with blanks between and around. Times are launches, states are threads: one launch takes alpha one
// step on and beta one step back.
#include "cuda/launch/ctc.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

MR_DEVICE inline double LogSumExp(double a, double b) {
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

struct CtcScratch {
  double* log_sum;     // [time, batch]
  double* alpha;       // [time, states]
  double* beta;        // [time, states]
  double* log_total;   // [batch]
  int64_t* first;      // [batch + 1], into the labels
  int64_t* count;      // [batch], labels of the sequence; -1: nothing to compute
  int32_t* sequence;   // [states]
  int32_t* next;       // [states], the next state of the sequence that has the same class; -1: there is none
  int32_t* is_first;   // [states], of its class
};

int64_t States(const CtcShape& shape) { return 2 * shape.labels + shape.batch; }

template <typename T>
struct CtcBody {
  Queue queue;
  CtcShape shape;
  CtcScratch s;
  int64_t states;
  const T* inputs;
  const int64_t* indices;
  const int32_t* values;
  const int32_t* lengths;
  T* loss;
  T* gradient;

  MR_DEVICE void Refuse(CtcFault why, int64_t at, int64_t value, int64_t limit) const {
    Report(queue, FaultCode::kBadSequence, static_cast<int32_t>(why), value, limit, at);
  }
  MR_DEVICE int64_t Blank() const { return shape.blank_first ? 0 : shape.classes - 1; }
  MR_DEVICE int64_t FirstState(int64_t b) const { return 2 * s.first[b] + b; }
  MR_DEVICE int64_t ClassOf(int64_t b, int64_t u) const { return u % 2 == 0 ? Blank() : values[s.first[b] + u / 2]; }
  MR_DEVICE double LogProbability(int64_t t, int64_t b, int64_t u) const {
    const int64_t row = t * shape.batch + b;
    return static_cast<double>(Widen(inputs[row * shape.classes + ClassOf(b, u)])) - s.log_sum[row];
  }
  MR_DEVICE bool MayStay(int64_t u) const { return shape.merge_repeated || u % 2 == 0; }
  MR_DEVICE bool MaySkipTo(int64_t b, int64_t u) const {
    return u % 2 == 1 && !(shape.merge_repeated && ClassOf(b, u) == ClassOf(b, u - 2));
  }
};

// Where the labels of each sequence are, and whether they are as they must be.
template <typename T>
struct GroupBody {
  CtcBody<T> c;
  // The first label whose sequence is at least b.
  MR_DEVICE int64_t Begin(int64_t b) const {
    int64_t low = 0, high = c.shape.labels;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (c.indices[2 * middle] < b) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  MR_DEVICE void operator()(int64_t b) const {
    const int64_t begin = Begin(b), end = Begin(b + 1), length = c.lengths[b];
    c.s.first[b] = begin;
    if (b == c.shape.batch - 1) c.s.first[b + 1] = c.shape.labels;
    if (length < 0 || length > c.shape.time) return c.Refuse(CtcFault::kLength, b, length, c.shape.time);
    if (begin == end) return c.Refuse(CtcFault::kNoLabels, b, 0, 0);
    int64_t kept = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t value = c.values[i];
      const bool null = !c.shape.blank_first && value >= c.shape.classes - 1;
      if (value < (c.shape.blank_first ? 1 : 0) || (c.shape.blank_first && value >= c.shape.classes)) {
        return c.Refuse(CtcFault::kLabel, b, value, c.shape.classes);
      }
      if (null) continue;
      if (kept < i - begin) return c.Refuse(CtcFault::kAfterNull, b, value, c.shape.classes - 1);
      ++kept;
    }
    if (!c.shape.ignore_longer && end - begin > length) return c.Refuse(CtcFault::kTooManyLabels, b, end - begin, length);
    c.s.count[b] = length == 0 || kept > length ? -1 : kept;
  }
};

template <typename T>
struct OrderBody {
  CtcBody<T> c;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t sequence = c.indices[2 * i], position = c.indices[2 * i + 1];
    if (sequence < 0 || sequence >= c.shape.batch || position < 0) return c.Refuse(CtcFault::kSequenceOfLabel, i, sequence, c.shape.batch);
    if (i == 0) return;
    const int64_t before = c.indices[2 * i - 2];
    if (sequence < before || (sequence == before && position <= c.indices[2 * i - 1])) c.Refuse(CtcFault::kOrderOfLabel, i, sequence, position);
  }
};

template <typename T>
struct LogSumBody {
  CtcBody<T> c;
  MR_DEVICE double operator()(int64_t row) const {
    const T* x = c.inputs + row * c.shape.classes;
    double largest = Widen(x[0]);
    for (int64_t k = 1; k < c.shape.classes; ++k) largest = largest < Widen(x[k]) ? static_cast<double>(Widen(x[k])) : largest;
    double sum = 0;
    for (int64_t k = 0; k < c.shape.classes; ++k) sum += exp(static_cast<double>(Widen(x[k])) - largest);
    return largest + log(sum);
  }
};

// Which sequence a state is of, and the next one of its class, which those of labels look for.
template <typename T>
struct StatesBody {
  CtcBody<T> c;
  MR_DEVICE int64_t SequenceOf(int64_t state) const {
    int64_t low = 0, high = c.shape.batch - 1;
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (c.FirstState(middle) <= state) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  MR_DEVICE void operator()(int64_t state) const {
    const int64_t b = SequenceOf(state), u = state - c.FirstState(b), last = 2 * c.s.count[b];
    c.s.sequence[state] = static_cast<int32_t>(b);
    if (u > last) return;
    const bool label = u % 2 == 1;
    int64_t next = u + 2, former = u - 2;
    while (label && next <= last && c.ClassOf(b, next) != c.ClassOf(b, u)) next += 2;
    while (label && former >= 0 && c.ClassOf(b, former) != c.ClassOf(b, u)) former -= 2;
    c.s.next[state] = next <= last ? static_cast<int32_t>(next) : -1;
    c.s.is_first[state] = former < 0 ? 1 : 0;
  }
};

// Step `step` of all sequences: alpha at time `step`, beta at time length - 1 - step.
template <typename T>
struct StepBody {
  CtcBody<T> c;
  int64_t step;
  MR_DEVICE void operator()(int64_t state) const {
    const int64_t b = c.s.sequence[state], u = state - c.FirstState(b), count = c.s.count[b], length = c.lengths[b];
    if (count < 0 || u > 2 * count || step >= length) return;
    const int64_t states = 2 * count + 1;
    double* const alpha = c.s.alpha + step * c.states + state;
    if (step == 0) {
      *alpha = u < 2 ? c.LogProbability(0, b, u) : -INFINITY;
    } else {
      const double* before = alpha - c.states;
      double sum = c.MayStay(u) ? before[0] : -INFINITY;
      if (u > 0) sum = LogSumExp(sum, before[-1]);
      if (u > 1 && c.MaySkipTo(b, u)) sum = LogSumExp(sum, before[-2]);
      *alpha = sum + c.LogProbability(step, b, u);
    }
    const int64_t t = length - 1 - step;
    double* const beta = c.s.beta + t * c.states + state;
    if (step == 0) {
      *beta = u + 2 >= states ? 0.0 : -INFINITY;
      return;
    }
    const double* next = beta + c.states;
    double sum = c.MayStay(u) ? next[0] + c.LogProbability(t + 1, b, u) : -INFINITY;
    if (u + 1 < states) sum = LogSumExp(sum, next[1] + c.LogProbability(t + 1, b, u + 1));
    if (u + 2 < states && c.MaySkipTo(b, u + 2)) sum = LogSumExp(sum, next[2] + c.LogProbability(t + 1, b, u + 2));
    *beta = sum;
  }
};

template <typename T>
struct LossBody {
  CtcBody<T> c;
  MR_DEVICE void operator()(int64_t b) const {
    using W = typename Wide<T>::type;
    c.loss[b] = Wide<T>::Narrow(W(0));
    if (c.s.count[b] < 0) return;
    const int64_t states = 2 * c.s.count[b] + 1;
    const double* last = c.s.alpha + (c.lengths[b] - 1) * c.states + c.FirstState(b);
    const double total = states > 1 ? LogSumExp(last[states - 1], last[states - 2]) : last[0];
    c.s.log_total[b] = total;
    c.loss[b] = Wide<T>::Narrow(static_cast<W>(-total));
  }
};

// What the gradient is of classes that the labels do not have.
template <typename T>
struct CtcGradBody {
  CtcBody<T> c;
  Divider classes, batch;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = classes(i), t = batch(row), b = row - t * batch.by;
    if (c.s.count[b] < 0 || t >= c.lengths[b]) return Wide<T>::Narrow(W(0));
    const double total = c.s.log_total[b], share = total != total ? total : 0.0;  // NaN at any time is NaN at all of them
    return Wide<T>::Narrow(static_cast<W>(exp(static_cast<double>(Widen(c.inputs[i])) - c.s.log_sum[row]) - share));
  }
};
// And of those that they have, by the first state of each.
template <typename T>
struct CtcClassGradBody {
  CtcBody<T> c;
  Divider states;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t t = states(i), state = i - t * states.by, b = c.s.sequence[state], first = c.FirstState(b);
    if (c.s.count[b] < 0 || t >= c.lengths[b] || state - first > 2 * c.s.count[b] || c.s.is_first[state] == 0) return;
    double sum = -INFINITY;
    for (int64_t u = state - first; u >= 0; u = c.s.next[first + u]) {
      sum = LogSumExp(sum, c.s.alpha[t * c.states + first + u] + c.s.beta[t * c.states + first + u]);
    }
    const double total = c.s.log_total[b], share = total == -INFINITY ? 0.0 : exp(sum - total);
    const int64_t row = t * c.shape.batch + b, at = row * c.shape.classes + c.ClassOf(b, state - first);
    c.gradient[at] = Wide<T>::Narrow(static_cast<W>(exp(static_cast<double>(Widen(c.inputs[at])) - c.s.log_sum[row]) - share));
  }
};

template <typename T>
void Run(const Queue& queue, const CtcBody<T>& c) {
  const CtcShape& shape = c.shape;
  ForEach(queue, shape.labels, OrderBody<T>{c});
  ForEach(queue, shape.batch, GroupBody<T>{c});
  ForEach(queue, c.states, StatesBody<T>{c});
  MapEach(queue, shape.time * shape.batch, c.s.log_sum, LogSumBody<T>{c});
  for (int64_t step = 0; step < shape.time; ++step) ForEach(queue, c.states, StepBody<T>{c, step});
  ForEach(queue, shape.batch, LossBody<T>{c});
  const int64_t n = shape.time * shape.batch * shape.classes;
  MapEach(queue, n, c.gradient, CtcGradBody<T>{c, DivideBy(shape.classes, n), DivideBy(shape.batch, n)});
  ForEach(queue, shape.time * c.states, CtcClassGradBody<T>{c, DivideBy(c.states, shape.time * c.states)});
}

}  // namespace

int64_t CtcScratchBytes(const CtcShape& shape) {
  return 8 * (shape.time * shape.batch + 2 * shape.time * States(shape) + 3 * shape.batch + 1) + 3 * 4 * States(shape);
}

void LaunchCtc(const Queue& queue, Type type, const CtcShape& shape, const void* inputs, const int64_t* indices,
               const int32_t* values, const int32_t* lengths, void* loss, void* gradient, void* scratch) {
  const int64_t states = States(shape);
  CtcScratch s;
  s.log_sum = static_cast<double*>(scratch);
  s.alpha = s.log_sum + shape.time * shape.batch;
  s.beta = s.alpha + shape.time * states;
  s.log_total = s.beta + shape.time * states;
  s.first = reinterpret_cast<int64_t*>(s.log_total + shape.batch);
  s.count = s.first + shape.batch + 1;
  s.sequence = reinterpret_cast<int32_t*>(s.count + shape.batch);
  s.next = s.sequence + states;
  s.is_first = s.next + states;
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    Run(queue, CtcBody<T>{queue, shape, s, states, static_cast<const T*>(inputs), indices, values, lengths,
                          static_cast<T*>(loss), static_cast<T*>(gradient)});
  };
  if (type == Type::kFloat) return launch(Tag<float>());
  if (type == Type::kDouble) launch(Tag<double>());
}

}  // namespace millrace::cuda
