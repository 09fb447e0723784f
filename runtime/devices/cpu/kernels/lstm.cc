// LSTMBlockCell, BlockLSTM(V2) and their gradients: a step's four gates are one product of [x, h] with the weights.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/widened.h"
#include "graph/recurrent_cell.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Lstm : LstmCell {
  int64_t joined_bytes() const { return AlignUp(batch * width() * 4); }
  int64_t gates_bytes() const { return AlignUp(batch * 4 * cells * 4); }
  int64_t weights_bytes() const { return AlignUp(width() * 4 * cells * 4); }
};

struct Peepholes {
  const float *i, *f, *o;
};

// Rows of one step, [batch, cells] each.
struct Step {
  float *i, *cs, *f, *o, *ci, *co, *h;
};

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void JoinRows(const Lstm& lstm, const float* x, const float* h, float* joined) {
  for (int64_t b = 0; b < lstm.batch; ++b) {
    std::copy_n(x + b * lstm.inputs, lstm.inputs, joined + b * lstm.width());
    std::copy_n(h + b * lstm.cells, lstm.cells, joined + b * lstm.width() + lstm.inputs);
  }
}

// `gates`: the products, [batch, 4 * cells].
void CellForward(const KernelContext& context, const Lstm& lstm, const float* gates, const float* bias,
                 const Peepholes& peep, const float* cs_prev, const Step& out) {
  const int64_t cells = lstm.cells;
  ParallelRange(context, lstm.batch, std::max<int64_t>(2048 / std::max<int64_t>(cells, 1), 1), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float* gate = gates + b * 4 * cells;
      for (int64_t c = 0; c < cells; ++c) {
        const int64_t at = b * cells + c;
        const auto sum = [&](int64_t from) { return gate[from + c] + bias[from + c]; };
        float i = sum(lstm.i_at), f = sum(lstm.f_at) + lstm.forget_bias, o = sum(lstm.o_at);
        if (lstm.peephole) {
          i += cs_prev[at] * peep.i[c];
          f += cs_prev[at] * peep.f[c];
        }
        out.i[at] = Sigmoid(i);
        out.f[at] = Sigmoid(f);
        out.ci[at] = std::tanh(sum(lstm.ci_at));
        float cs = out.ci[at] * out.i[at] + cs_prev[at] * out.f[at];
        if (lstm.clip > 0) cs = std::min(std::max(cs, -lstm.clip), lstm.clip);
        if (lstm.peephole) o += cs * peep.o[c];
        out.cs[at] = cs;
        out.o[at] = Sigmoid(o);
        out.co[at] = std::tanh(cs);
        out.h[at] = out.co[at] * out.o[at];
      }
    }
  });
}

struct Gradients {
  const float *cs, *h;  // of this step's results
  float* gates;         // [batch, 4 * cells]
  float* cs_prev;
  float *wci, *wcf, *wco;  // added to
};

void CellBackward(const Lstm& lstm, const Step& step, const float* cs_prev, const Peepholes& peep, const Gradients& g) {
  const int64_t cells = lstm.cells;
  for (int64_t b = 0; b < lstm.batch; ++b) {
    for (int64_t c = 0; c < cells; ++c) {
      const int64_t at = b * cells + c;
      const float i = step.i[at], f = step.f[at], o = step.o[at], ci = step.ci[at], co = step.co[at];
      const float by_o = o * (1 - o) * g.h[at] * co;
      float by_cs = (1 - co * co) * g.h[at] * o + g.cs[at];
      if (lstm.peephole) by_cs += by_o * peep.o[c];
      const float by_i = i * (1 - i) * by_cs * ci, by_f = f * (1 - f) * by_cs * cs_prev[at];
      float* gates = g.gates + b * 4 * cells + c;
      gates[lstm.i_at] = by_i;
      gates[lstm.ci_at] = (1 - ci * ci) * by_cs * i;
      gates[lstm.f_at] = by_f;
      gates[lstm.o_at] = by_o;
      float by_prev = by_cs * f;
      if (lstm.peephole) {
        by_prev += by_i * peep.i[c] + by_f * peep.f[c];
        g.wci[c] += by_i * cs_prev[at];
        g.wcf[c] += by_f * cs_prev[at];
        g.wco[c] += by_o * step.cs[at];
      }
      g.cs_prev[at] = by_prev;
    }
  }
}

absl::Status ExpectFloat(const OpInstance& node) {
  if (node.outputs[0].dtype == DataType::kFloat) return absl::OkStatus();
  return UnsupportedType(node, node.outputs[0].dtype);
}

absl::StatusOr<std::shared_ptr<Gemm>> ProductOf(const OpInstance& node, const GemmSizes& sizes) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> made, MakeGemm(node, DataType::kFloat, sizes, {GemmOffsets()}));
  return std::shared_ptr<Gemm>(std::move(made));
}

// (x, cs_prev, h_prev, w, wci, wcf, wco, b)
absl::StatusOr<std::unique_ptr<Kernel>> MakeCell(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectFloat(node));
  const Lstm lstm = {LstmCellOf(node, node.inputs[0].shape, node.inputs[3].shape)};
  MR_ASSIGN_OR_RETURN(const auto gemm, ProductOf(node, GemmSizes::Dense(lstm.batch, 4 * lstm.cells, lstm.width(), false, false)));
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        char* scratch = static_cast<char*>(context.scratch);
        float *joined = reinterpret_cast<float*>(scratch), *gates = reinterpret_cast<float*>(scratch + lstm.joined_bytes());
        JoinRows(lstm, context.input<float>(0), context.input<float>(2), joined);
        MR_RETURN_IF_ERROR(gemm->Run(context, joined, context.input<float>(3), gates, scratch + lstm.joined_bytes() + lstm.gates_bytes()));
        const auto out = [&](int k) { return context.output<float>(k); };
        CellForward(context, lstm, gates, context.input<float>(7),
                    {context.input<float>(4), context.input<float>(5), context.input<float>(6)}, context.input<float>(1),
                    {out(0), out(1), out(2), out(3), out(4), out(5), out(6)});
        return absl::OkStatus();
      },
      lstm.joined_bytes() + lstm.gates_bytes() + gemm->scratch_bytes());
}

// (x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad)
//   -> cs_prev_grad, dicfo, wci_grad, wcf_grad, wco_grad
absl::StatusOr<std::unique_ptr<Kernel>> MakeCellGrad(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectFloat(node));
  const Lstm lstm = {LstmCellOf(node, node.inputs[0].shape, node.inputs[3].shape)};
  return MakeKernel([=](const KernelContext& context) {
    for (int k : {2, 3, 4}) std::fill_n(context.output<float>(k), lstm.cells, 0.0f);
    const auto in = [&](int k) { return static_cast<float*>(context.inputs[k]); };
    CellBackward(lstm, {in(8), in(9), in(10), in(11), in(12), in(13), nullptr}, in(1), {in(4), in(5), in(6)},
                 {in(14), in(15), context.output<float>(1), context.output<float>(0), context.output<float>(2),
                  context.output<float>(3), context.output<float>(4)});
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> StepsOf(const KernelContext& context, int64_t most) {
  const int64_t steps = *context.input<int64_t>(0);
  if (steps >= 0 && steps <= most) return steps;
  return absl::InvalidArgumentError(absl::StrCat("seq_len_max is ", steps, ", expected 0 to ", most, ", the steps of x"));
}

// (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b); steps from seq_len_max on are zero.
absl::StatusOr<std::unique_ptr<Kernel>> MakeSequence(const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectFloat(node));
  const Lstm lstm = {LstmCellOf(node, node.inputs[1].shape, node.inputs[4].shape)};
  const int64_t most = node.inputs[1].shape.dim(0);
  MR_ASSIGN_OR_RETURN(const auto gemm, ProductOf(node, GemmSizes::Dense(lstm.batch, 4 * lstm.cells, lstm.width(), false, false)));
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        MR_ASSIGN_OR_RETURN(const int64_t steps, StepsOf(context, most));
        char* scratch = static_cast<char*>(context.scratch);
        float *joined = reinterpret_cast<float*>(scratch), *gates = reinterpret_cast<float*>(scratch + lstm.joined_bytes());
        const int64_t n = lstm.batch * lstm.cells;
        const float *cs_prev = context.input<float>(2), *h_prev = context.input<float>(3);
        for (int64_t t = 0; t < steps; ++t) {
          JoinRows(lstm, context.input<float>(1) + t * lstm.batch * lstm.inputs, h_prev, joined);
          MR_RETURN_IF_ERROR(gemm->Run(context, joined, context.input<float>(4), gates, scratch + lstm.joined_bytes() + lstm.gates_bytes()));
          const auto out = [&](int k) { return context.output<float>(k) + t * n; };
          CellForward(context, lstm, gates, context.input<float>(8),
                      {context.input<float>(5), context.input<float>(6), context.input<float>(7)}, cs_prev,
                      {out(0), out(1), out(2), out(3), out(4), out(5), out(6)});
          cs_prev = out(1);
          h_prev = out(6);
        }
        for (int k = 0; k < 7; ++k) std::fill(context.output<float>(k) + steps * n, context.output<float>(k) + most * n, 0.0f);
        return absl::OkStatus();
      },
      lstm.joined_bytes() + lstm.gates_bytes() + gemm->scratch_bytes());
}

// The gradient of a sequence, step by step from the last. Inputs: (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b,
// i, cs, f, o, ci, co, h, cs_grad, h_grad); outputs: (x, cs_prev, h_prev, w, wci, wcf, wco, b), gradients.
class SequenceGrad final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const OpInstance& node) {
    MR_RETURN_IF_ERROR(ExpectFloat(node));
    auto made = std::make_unique<SequenceGrad>();
    made->lstm_ = {LstmCellOf(node, node.inputs[1].shape, node.inputs[4].shape)};
    const Lstm& lstm = made->lstm_;
    made->most_ = node.inputs[1].shape.dim(0);
    const int64_t gates = 4 * lstm.cells;
    MR_ASSIGN_OR_RETURN(made->to_joined_, ProductOf(node, GemmSizes::Dense(lstm.batch, lstm.width(), gates, false, true)));
    MR_ASSIGN_OR_RETURN(made->to_weights_, ProductOf(node, GemmSizes::Dense(lstm.width(), gates, lstm.batch, true, false)));
    return made;
  }

  int64_t scratch_bytes() const override {
    return 2 * lstm_.joined_bytes() + lstm_.gates_bytes() + lstm_.weights_bytes() + 2 * CellsBytes() +
           std::max(to_joined_->scratch_bytes(), to_weights_->scratch_bytes());
  }

  absl::Status Run(const KernelContext& context) const override {
    MR_ASSIGN_OR_RETURN(const int64_t steps, StepsOf(context, most_));
    char* free = static_cast<char*>(context.scratch);
    const auto take = [&](int64_t bytes) { return reinterpret_cast<float*>(std::exchange(free, free + bytes)); };
    const Scratch scratch = {take(lstm_.joined_bytes()), take(lstm_.joined_bytes()), take(lstm_.gates_bytes()),
                             take(lstm_.weights_bytes()), take(CellsBytes()), take(CellsBytes()), free};
    for (int k = 0; k < 8; ++k) std::fill_n(context.output<float>(k), context.output_type(k).shape.num_elements(), 0.0f);
    for (int64_t t = steps - 1; t >= 0; --t) MR_RETURN_IF_ERROR(StepBack(context, t, scratch));
    return absl::OkStatus();
  }

 private:
  struct Scratch {
    float *joined, *joined_grad, *gates, *weights, *cs, *h;
    void* gemm;
  };

  int64_t CellsBytes() const { return AlignUp(lstm_.batch * lstm_.cells * 4); }

  absl::Status StepBack(const KernelContext& context, int64_t t, const Scratch& scratch) const {
    const int64_t n = lstm_.batch * lstm_.cells;
    const auto in = [&](int k) { return static_cast<float*>(context.inputs[k]); };
    const auto at = [&](int k) { return in(k) + t * n; };
    float *cs_prev_grad = context.output<float>(1), *h_prev_grad = context.output<float>(2);
    for (int64_t i = 0; i < n; ++i) scratch.cs[i] = at(16)[i] + cs_prev_grad[i];
    for (int64_t i = 0; i < n; ++i) scratch.h[i] = at(17)[i] + h_prev_grad[i];
    const float* cs_prev = t == 0 ? in(2) : at(10) - n;
    CellBackward(lstm_, {at(9), at(10), at(11), at(12), at(13), at(14), nullptr}, cs_prev, {in(5), in(6), in(7)},
                 {scratch.cs, scratch.h, scratch.gates, cs_prev_grad, context.output<float>(4), context.output<float>(5),
                  context.output<float>(6)});
    MR_RETURN_IF_ERROR(to_joined_->Run(context, scratch.gates, in(4), scratch.joined_grad, scratch.gemm));
    float* x_grad = context.output<float>(0) + t * lstm_.batch * lstm_.inputs;
    for (int64_t b = 0; b < lstm_.batch; ++b) {
      const float* row = scratch.joined_grad + b * lstm_.width();
      std::copy_n(row, lstm_.inputs, x_grad + b * lstm_.inputs);
      std::copy_n(row + lstm_.inputs, lstm_.cells, h_prev_grad + b * lstm_.cells);
    }
    JoinRows(lstm_, in(1) + t * lstm_.batch * lstm_.inputs, t == 0 ? in(3) : at(15) - n, scratch.joined);
    MR_RETURN_IF_ERROR(to_weights_->Run(context, scratch.joined, scratch.gates, scratch.weights, scratch.gemm));
    for (int64_t i = 0; i < lstm_.width() * 4 * lstm_.cells; ++i) context.output<float>(3)[i] += scratch.weights[i];
    for (int64_t b = 0; b < lstm_.batch; ++b) {
      for (int64_t c = 0; c < 4 * lstm_.cells; ++c) context.output<float>(7)[c] += scratch.gates[b * 4 * lstm_.cells + c];
    }
    return absl::OkStatus();
  }

  Lstm lstm_;
  int64_t most_ = 0;
  std::shared_ptr<Gemm> to_joined_, to_weights_;
};

}  // namespace

void RegisterLstmKernels(KernelRegistry& registry) {
  AddKernel(registry, "LSTMBlockCell", Widened(MakeCell));
  AddKernel(registry, "LSTMBlockCellGrad", Widened(MakeCellGrad));
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) AddKernel(registry, op, Widened(MakeSequence));
  for (const char* op : {"BlockLSTMGrad", "BlockLSTMGradV2"}) AddKernel(registry, op, Widened(SequenceGrad::Make));
}

}  // namespace millrace::cpu
