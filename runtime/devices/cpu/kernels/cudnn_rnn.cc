// Recurrent layers as cuDNN has them (src/ops/cudnn_rnn_ops.cc): the products of a layer's inputs with its weights at once, those of the
// state step by step. Everything inside is [steps, batch, ...].
#include "cpu/kernels/cudnn_rnn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/widened.h"
#include "graph/cudnn_rnn_sizes.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using Mode = CudnnRnnMode;
using Sizes = CudnnRnnSizes;

// Takes pieces of scratch memory one after another; from nowhere, to know how much there must be.
class Pieces {
 public:
  explicit Pieces(void* from) : base_(reinterpret_cast<uintptr_t>(from)) {}
  template <typename T>
  T* Take(int64_t elements) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += AlignUp(elements * static_cast<int64_t>(sizeof(T)));
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  uintptr_t base_;
  int64_t used_ = 0;
};

// [steps, batch, width] from or to [batch, steps, width].
template <typename T>
void ExchangeFirst(const T* from, int64_t rows, int64_t columns, int64_t width, T* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) std::copy_n(from + (r * columns + c) * width, width, to + (c * rows + r) * width);
  }
}

// What a direction of a layer keeps. T is const where it is read.
template <typename T>
struct Kept {
  Kept(const Sizes& s, T* all, int64_t layer, int64_t direction)
      : output(all + s.output_at(layer)), gates(all + s.gates_at(layer, direction)), more(all + s.more_at(layer, direction)) {}
  static T* Dropped(const Sizes& s, T* all, int64_t layer) { return all + s.dropped_at(layer); }
  T *output, *gates, *more;
};

template <typename T>
T Sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

using Product = std::shared_ptr<Gemm>;

absl::StatusOr<Product> ProductOf(const OpInstance& node, DataType type, GemmSizes sizes, bool add, int64_t& scratch) {
  sizes.add = add;
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> made, MakeGemm(node, type, sizes, {GemmOffsets()}));
  scratch = std::max(scratch, made->scratch_bytes());
  return Product(std::move(made));
}

absl::StatusOr<std::vector<int64_t>> LengthsOf(const Sizes& s, const KernelContext& context) {
  std::vector<int64_t> lengths(s.batch, s.steps);
  for (int64_t b = 0; s.has_lengths && b < s.batch; ++b) {
    lengths[b] = context.input<int32_t>(4)[b];
    if (lengths[b] >= 0 && lengths[b] <= s.steps) continue;
    return absl::InvalidArgumentError(absl::StrCat("sequence_lengths[", b, "] = ", lengths[b], " is not in [0, ", s.steps, "]"));
  }
  return lengths;
}

int64_t RowGrain(const Sizes& s) { return std::max<int64_t>(2048 / std::max<int64_t>(s.units, 1), 1); }

template <typename T>
void ScaleBy(const T* x, const T* by, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * by[i];
}

// (input, input_h, input_c, params[, sequence_lengths]) -> output, output_h, output_c, kept
template <typename T>
class Forward {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const OpInstance& node) {
    Forward forward(node);
    const Sizes& s = forward.s_;
    const DataType type = node.inputs[0].dtype;
    for (int64_t l = 0; l < std::min<int64_t>(s.layers, 2); ++l) {
      const GemmSizes sizes = GemmSizes::Dense(s.rows(), s.gates * s.units, s.width(l), false, true);
      MR_ASSIGN_OR_RETURN(forward.from_input_[l], ProductOf(node, type, sizes, false, forward.gemm_scratch_));
    }
    const GemmSizes sizes = GemmSizes::Dense(s.batch, s.gates * s.units, s.units, false, true);
    MR_ASSIGN_OR_RETURN(forward.from_state_, ProductOf(node, type, sizes, false, forward.gemm_scratch_));
    const int64_t scratch = Scratch(forward, nullptr).used;
    return MakeKernel([forward](const KernelContext& context) { return forward.Run(context); }, scratch);
  }

 private:
  explicit Forward(const OpInstance& node) : s_(node), stream_(node), trains_(node.attrs.GetOr("is_training", true)) {}

  struct Scratch {
    Scratch(const Forward& f, void* from) {
      Pieces pieces(from);
      input = pieces.Take<T>(f.s_.rows() * f.s_.inputs);
      kept = pieces.Take<T>(f.trains_ ? 0 : f.s_.kept());
      dropped = pieces.Take<T>(f.s_.rows() * f.s_.wide());
      products = pieces.Take<T>(f.s_.batch * f.s_.gates * f.s_.units);
      h = pieces.Take<T>(f.s_.batch * f.s_.units);
      c = pieces.Take<T>(f.s_.batch * f.s_.units);
      gemm = pieces.Take<char>(f.gemm_scratch_);
      used = pieces.used();
    }
    T *input, *kept, *dropped, *products, *h, *c;
    char* gemm;
    int64_t used;
  };

  absl::Status Run(const KernelContext& context) const {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, LengthsOf(s_, context));
    Scratch scratch(*this, context.scratch);
    if (trains_) scratch.kept = context.output<T>(3);
    const T* in = context.input<T>(0);
    if (!s_.time_major) {
      ExchangeFirst(in, s_.batch, s_.steps, s_.inputs, scratch.input);
      in = scratch.input;
    }
    if (trains_ && s_.dropout > 0) DrawDropout(context, scratch);
    for (int64_t l = 0; l < s_.layers; ++l) {
      if (l > 0) {
        in = Kept<T>(s_, scratch.kept, l - 1, 0).output;
        if (trains_ && s_.dropout > 0) {
          ScaleBy(in, Kept<T>::Dropped(s_, scratch.kept, l), s_.rows() * s_.wide(), scratch.dropped);
          in = scratch.dropped;
        }
      }
      for (int64_t d = 0; d < s_.directions; ++d) MR_RETURN_IF_ERROR(Direction(context, lengths, scratch, in, l, d));
    }
    const T* last = Kept<T>(s_, scratch.kept, s_.layers - 1, 0).output;
    if (s_.time_major) std::copy_n(last, s_.rows() * s_.wide(), context.output<T>(0));
    if (!s_.time_major) ExchangeFirst(last, s_.steps, s_.batch, s_.wide(), context.output<T>(0));
    if (s_.mode != Mode::kLstm) context.output<T>(2)[0] = T(0);
    return absl::OkStatus();
  }

  // Which inputs of the layers above the first are left, and how much larger. cuDNN's own draws nobody else can make.
  void DrawDropout(const KernelContext& context, const Scratch& scratch) const {
    const int64_t count = s_.dropped();
    PhiloxWords words(stream_.Reserve(context, count / Philox::kWords + 1));
    T* scales = Kept<T>::Dropped(s_, scratch.kept, 1);
    for (int64_t i = 0; i < count; ++i) scales[i] = UniformFloat(words()) < s_.dropout ? T(0) : T(1) / (T(1) - T(s_.dropout));
  }

  absl::Status Direction(const KernelContext& context, const std::vector<int64_t>& lengths, const Scratch& scratch, const T* in,
                         int64_t l, int64_t d) const {
    const Kept<T> kept(s_, scratch.kept, l, d);
    const T* weights = context.input<T>(3) + s_.weights_at(l, d);
    const T* of_state = weights + s_.gates * s_.units * s_.width(l);
    MR_RETURN_IF_ERROR(from_input_[l > 0]->Run(context, in, weights, kept.gates, scratch.gemm));
    const int64_t stacked = l * s_.directions + d;
    for (int64_t b = 0; b < s_.batch; ++b) {
      std::copy_n(context.input<T>(1) + s_.state_at(stacked, b), s_.units, scratch.h + b * s_.units);
      if (s_.mode == Mode::kLstm) std::copy_n(context.input<T>(2) + s_.state_at(stacked, b), s_.units, scratch.c + b * s_.units);
    }
    for (int64_t step = 0; step < s_.steps; ++step) {
      const int64_t t = d == 0 ? step : s_.steps - 1 - step;
      MR_RETURN_IF_ERROR(from_state_->Run(context, scratch.h, of_state, scratch.products, scratch.gemm));
      ParallelRange(context, s_.batch, RowGrain(s_), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t row = t * s_.batch + b;
          T* out = kept.output + row * s_.wide() + d * s_.units;
          if (t >= lengths[b]) {
            std::fill_n(out, s_.units, T(0));
            std::fill_n(kept.gates + row * s_.gates * s_.units, s_.gates * s_.units, T(0));
            std::fill_n(kept.more + row * s_.units, s_.units, T(0));
            continue;
          }
          Cell(context.input<T>(3) + s_.biases_at(l, d), scratch.products + b * s_.gates * s_.units,
               kept.gates + row * s_.gates * s_.units, kept.more + row * s_.units, scratch.h + b * s_.units, scratch.c + b * s_.units);
          std::copy_n(scratch.h + b * s_.units, s_.units, out);
        }
      });
    }
    for (int64_t b = 0; b < s_.batch; ++b) {
      std::copy_n(scratch.h + b * s_.units, s_.units, context.output<T>(1) + s_.state_at(stacked, b));
      if (s_.mode == Mode::kLstm) std::copy_n(scratch.c + b * s_.units, s_.units, context.output<T>(2) + s_.state_at(stacked, b));
    }
    return absl::OkStatus();
  }

  // One step of one row. `gates` has the products of the input, and then what the gates are.
  void Cell(const T* biases, const T* products, T* gates, T* more, T* h, T* c) const {
    const int64_t n = s_.units;
    const T* state_biases = biases + s_.gates * n;
    for (int64_t u = 0; u < n; ++u) {
      const auto of_state = [&](int64_t g) { return products[g * n + u] + state_biases[g * n + u]; };
      const auto of_input = [&](int64_t g) { return gates[g * n + u] + biases[g * n + u]; };
      const auto sum = [&](int64_t g) { return of_input(g) + of_state(g); };
      if (s_.mode == Mode::kLstm) {
        const T i = Sigmoid(sum(0)), f = Sigmoid(sum(1)), g = std::tanh(sum(2)), o = Sigmoid(sum(3));
        more[u] = c[u] = f * c[u] + i * g;
        h[u] = o * std::tanh(c[u]);
        gates[u] = i, gates[n + u] = f, gates[2 * n + u] = g, gates[3 * n + u] = o;
      } else if (s_.mode == Mode::kGru) {
        const T r = Sigmoid(sum(0)), z = Sigmoid(sum(1));
        more[u] = of_state(2);
        const T made = std::tanh(of_input(2) + r * more[u]);
        h[u] = (T(1) - z) * made + z * h[u];
        gates[u] = r, gates[n + u] = z, gates[2 * n + u] = made;
      } else {
        h[u] = s_.mode == Mode::kRelu ? std::max(sum(0), T(0)) : std::tanh(sum(0));
        gates[u] = more[u] = h[u];
      }
    }
  }

  Sizes s_;
  RandomStream stream_;
  bool trains_;
  int64_t gemm_scratch_ = 0;
  Product from_input_[2], from_state_;
};

// (input, input_h, input_c, params[, sequence_lengths], output, output_h, output_c, their gradients, kept ...)
template <typename T>
class Backward {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const OpInstance& node) {
    Backward backward(node);
    const Sizes& s = backward.s_;
    if (node.inputs[backward.gradients_ + 3].shape != Shape({s.kept()})) {
      return absl::InvalidArgumentError(absl::StrCat("reserve_space is ", node.inputs[backward.gradients_ + 3].ToString(), ", expected ", s.kept(),
                                                     " elements: the forward op has other attributes, or is_training false"));
    }
    const DataType type = node.inputs[0].dtype;
    const auto make = [&](Product& product, int64_t m, int64_t n, int64_t k, bool transposed, bool add) -> absl::Status {
      MR_ASSIGN_OR_RETURN(product, ProductOf(node, type, GemmSizes::Dense(m, n, k, transposed, false), add, backward.gemm_scratch_));
      return absl::OkStatus();
    };
    const int64_t all = s.gates * s.units;
    for (int64_t l = 0; l < std::min<int64_t>(s.layers, 2); ++l) {
      for (bool add : {false, true}) MR_RETURN_IF_ERROR(make(backward.to_input_[l][add], s.rows(), s.width(l), all, false, add));
      MR_RETURN_IF_ERROR(make(backward.to_input_weights_[l], all, s.width(l), s.rows(), true, false));
    }
    MR_RETURN_IF_ERROR(make(backward.to_state_, s.batch, s.units, all, false, true));
    MR_RETURN_IF_ERROR(make(backward.to_state_weights_, all, s.units, s.rows(), true, false));
    const int64_t scratch = Scratch(backward, nullptr).used;
    return MakeKernel([backward](const KernelContext& context) { return backward.Run(context); }, scratch);
  }

 private:
  explicit Backward(const OpInstance& node) : s_(node), gradients_(s_.has_lengths ? 8 : 7) {}

  struct Scratch {
    Scratch(const Backward& b, void* from) {
      const Sizes& s = b.s_;
      Pieces pieces(from);
      input = pieces.Take<T>(s.rows() * s.inputs);
      dropped = pieces.Take<T>(s.rows() * s.wide());
      above = pieces.Take<T>(s.rows() * std::max(s.wide(), s.inputs));
      below = pieces.Take<T>(s.rows() * std::max(s.wide(), s.inputs));
      before = pieces.Take<T>(s.rows() * s.units);
      of_input = pieces.Take<T>(s.rows() * s.gates * s.units);
      of_state = s.mode == Mode::kGru ? pieces.Take<T>(s.rows() * s.gates * s.units) : of_input;
      h = pieces.Take<T>(s.batch * s.units);
      c = pieces.Take<T>(s.batch * s.units);
      gemm = pieces.Take<char>(b.gemm_scratch_);
      used = pieces.used();
    }
    T *input, *dropped;
    T *above, *below;        // gradients of a layer's output and input, which take turns
    T* before;               // the state before every step
    T *of_input, *of_state;  // gradients of the products with the input and with the state
    T *h, *c;                // gradients of the state
    char* gemm;
    int64_t used;
  };

  absl::Status Run(const KernelContext& context) const {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, LengthsOf(s_, context));
    Scratch scratch(*this, context.scratch);
    const T* kept = context.input<T>(gradients_ + 3);
    const T* input = context.input<T>(0);
    const T* given = context.input<T>(gradients_);
    if (s_.time_major) {
      std::copy_n(given, s_.rows() * s_.wide(), scratch.above);
    } else {
      ExchangeFirst(input, s_.batch, s_.steps, s_.inputs, scratch.input);
      input = scratch.input;
      ExchangeFirst(given, s_.batch, s_.steps, s_.wide(), scratch.above);
    }
    for (int64_t l = s_.layers - 1; l >= 0; --l) {
      const T* in = input;
      if (l > 0) {
        in = Kept<const T>(s_, kept, l - 1, 0).output;
        if (s_.dropout > 0) {
          ScaleBy(in, Kept<const T>::Dropped(s_, kept, l), s_.rows() * s_.wide(), scratch.dropped);
          in = scratch.dropped;
        }
      }
      for (int64_t d = 0; d < s_.directions; ++d) MR_RETURN_IF_ERROR(Direction(context, lengths, scratch, kept, in, l, d));
      if (l == 0) break;
      if (s_.dropout > 0) ScaleBy(scratch.below, Kept<const T>::Dropped(s_, kept, l), s_.rows() * s_.wide(), scratch.below);
      std::swap(scratch.above, scratch.below);
    }
    if (s_.time_major) std::copy_n(scratch.below, s_.rows() * s_.inputs, context.output<T>(0));
    if (!s_.time_major) ExchangeFirst(scratch.below, s_.steps, s_.batch, s_.inputs, context.output<T>(0));
    if (s_.mode != Mode::kLstm) std::fill_n(context.output<T>(2), context.output_type(2).shape.num_elements(), T(0));
    return absl::OkStatus();
  }

  absl::Status Direction(const KernelContext& context, const std::vector<int64_t>& lengths, const Scratch& scratch, const T* all, const T* in,
                         int64_t l, int64_t d) const {
    const Kept<const T> kept(s_, all, l, d);
    const int64_t stacked = l * s_.directions + d, n = s_.units, wide = s_.gates * n;
    const bool lstm = s_.mode == Mode::kLstm;
    for (int64_t b = 0; b < s_.batch; ++b) {
      std::copy_n(context.input<T>(gradients_ + 1) + s_.state_at(stacked, b), n, scratch.h + b * n);
      if (lstm) std::copy_n(context.input<T>(gradients_ + 2) + s_.state_at(stacked, b), n, scratch.c + b * n);
    }
    const T* weights = context.input<T>(3) + s_.weights_at(l, d);
    const T* of_state = weights + wide * s_.width(l);
    for (int64_t step = s_.steps - 1; step >= 0; --step) {
      const int64_t t = d == 0 ? step : s_.steps - 1 - step, previous = d == 0 ? t - 1 : t + 1;
      ParallelRange(context, s_.batch, RowGrain(s_), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t row = t * s_.batch + b;
          T *to_input = scratch.of_input + row * wide, *to_state = scratch.of_state + row * wide, *before = scratch.before + row * n;
          if (t >= lengths[b]) {
            std::fill_n(to_input, wide, T(0));
            std::fill_n(to_state, wide, T(0));
            std::fill_n(before, n, T(0));
            continue;
          }
          // The state that the sequence began with is before its first step.
          const bool first = previous < 0 || previous >= lengths[b];
          const int64_t at = previous * s_.batch + b;
          const T* h = first ? context.input<T>(1) + s_.state_at(stacked, b) : kept.output + at * s_.wide() + d * n;
          const T* c = !lstm ? nullptr : first ? context.input<T>(2) + s_.state_at(stacked, b) : kept.more + at * n;
          std::copy_n(h, n, before);
          Cell(kept.gates + row * wide, kept.more + row * n, before, c, scratch.above + row * s_.wide() + d * n, scratch.h + b * n,
               scratch.c + b * n, to_input, to_state);
        }
      });
      MR_RETURN_IF_ERROR(to_state_->Run(context, scratch.of_state + t * s_.batch * wide, of_state, scratch.h, scratch.gemm));
    }
    for (int64_t b = 0; b < s_.batch; ++b) {
      std::copy_n(scratch.h + b * n, n, context.output<T>(1) + s_.state_at(stacked, b));
      if (lstm) std::copy_n(scratch.c + b * n, n, context.output<T>(2) + s_.state_at(stacked, b));
    }
    T* to_weights = context.output<T>(3) + s_.weights_at(l, d);
    MR_RETURN_IF_ERROR(to_input_weights_[l > 0]->Run(context, scratch.of_input, in, to_weights, scratch.gemm));
    MR_RETURN_IF_ERROR(to_state_weights_->Run(context, scratch.of_state, scratch.before, to_weights + wide * s_.width(l), scratch.gemm));
    T* to_biases = context.output<T>(3) + s_.biases_at(l, d);
    std::fill_n(to_biases, 2 * wide, T(0));
    for (int64_t row = 0; row < s_.rows(); ++row) {
      for (int64_t g = 0; g < wide; ++g) {
        to_biases[g] += scratch.of_input[row * wide + g];
        to_biases[wide + g] += scratch.of_state[row * wide + g];
      }
    }
    return to_input_[l > 0][d > 0]->Run(context, scratch.of_input, weights, scratch.below, scratch.gemm);
  }

  // One step of one row. `by_h` and `by_c` go from gradients of the state after it to those before it, as far as no product is needed.
  void Cell(const T* gates, const T* more, const T* h, const T* c, const T* above, T* by_h, T* by_c, T* to_input, T* to_state) const {
    const int64_t n = s_.units;
    for (int64_t u = 0; u < n; ++u) {
      const T g = by_h[u] + above[u];
      if (s_.mode == Mode::kLstm) {
        const T in = gates[u], forget = gates[n + u], made = gates[2 * n + u], out = gates[3 * n + u], shown = std::tanh(more[u]);
        const T cell = by_c[u] + g * out * (T(1) - shown * shown);
        to_input[u] = cell * made * in * (T(1) - in);
        to_input[n + u] = cell * c[u] * forget * (T(1) - forget);
        to_input[2 * n + u] = cell * in * (T(1) - made * made);
        to_input[3 * n + u] = g * shown * out * (T(1) - out);
        by_c[u] = cell * forget;
        by_h[u] = T(0);
      } else if (s_.mode == Mode::kGru) {
        const T r = gates[u], z = gates[n + u], made = gates[2 * n + u];
        const T candidate = g * (T(1) - z) * (T(1) - made * made);
        to_input[u] = to_state[u] = candidate * more[u] * r * (T(1) - r);
        to_input[n + u] = to_state[n + u] = g * (h[u] - made) * z * (T(1) - z);
        to_input[2 * n + u] = candidate;
        to_state[2 * n + u] = candidate * r;
        by_h[u] = g * z;
      } else {
        to_input[u] = s_.mode == Mode::kRelu ? (gates[u] > T(0) ? g : T(0)) : g * (T(1) - gates[u] * gates[u]);
        by_h[u] = T(0);
      }
    }
  }

  Sizes s_;
  int gradients_;  // input of the first of three
  int64_t gemm_scratch_ = 0;
  Product to_input_[2][2], to_input_weights_[2], to_state_, to_state_weights_;
};

template <template <typename> class Pass>
absl::StatusOr<std::unique_ptr<Kernel>> MakePass(const OpInstance& node) {
  if (node.inputs[0].dtype == DataType::kFloat) return Pass<float>::Make(node);
  if (node.inputs[0].dtype == DataType::kDouble) return Pass<double>::Make(node);
  return UnsupportedType(node, node.inputs[0].dtype);
}

// (layers, units, inputs) -> [how many weights]
absl::StatusOr<std::unique_ptr<Kernel>> MakeParamsSize(const OpInstance& node) {
  const int64_t gates = CudnnRnnGates(CudnnRnnModeOf(node.attrs)), directions = CudnnRnnDirections(node.attrs);
  return MakeKernel([=](const KernelContext& context) {
    const int64_t layers = context.input<int32_t>(0)[0], units = context.input<int32_t>(1)[0], inputs = context.input<int32_t>(2)[0];
    int64_t size = 0;
    for (int64_t l = 0; l < layers; ++l) size += directions * gates * units * ((l == 0 ? inputs : directions * units) + units + 2);
    if (context.output_type(0).dtype == DataType::kInt64) {
      context.output<int64_t>(0)[0] = size;
    } else {
      context.output<int32_t>(0)[0] = static_cast<int32_t>(size);
    }
    return absl::OkStatus();
  });
}

// The vector of weights is its parts one after another.
absl::StatusOr<std::unique_ptr<Kernel>> MakeToCanonical(const OpInstance& node) {
  return MakeKernel([outputs = node.outputs.size()](const KernelContext& context) {
    const char* from = context.input<char>(3);
    for (size_t i = 0; i < outputs; ++i) {
      const int64_t bytes = context.output_type(static_cast<int>(i)).size_bytes();
      std::copy_n(from, bytes, context.output<char>(static_cast<int>(i)));
      from += bytes;
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeToParams(const OpInstance& node) {
  return MakeKernel([inputs = node.inputs.size()](const KernelContext& context) {
    char* to = context.output<char>(0);
    for (size_t i = 3; i < inputs; ++i) {
      const int64_t bytes = context.input_type(static_cast<int>(i)).size_bytes();
      to = std::copy_n(context.input<char>(static_cast<int>(i)), bytes, to);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterCudnnRnnKernels(KernelRegistry& registry) {
  for (const char* op : {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}) AddKernel(registry, op, Widened(MakePass<Forward>));
  for (const char* op : {"CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"}) AddKernel(registry, op, Widened(MakePass<Backward>));
  AddKernel(registry, "CudnnRNNParamsSize", MakeParamsSize);
  for (const char* op : {"CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2"}) AddKernel(registry, op, MakeToCanonical);
  for (const char* op : {"CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2"}) AddKernel(registry, op, MakeToParams);
}

}  // namespace millrace::cpu
