// LSTM and GRU cells, sequences of LSTM cells, and their gradients: products, and launches for what is between them.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/recurrent.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/recurrent.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

constexpr int64_t kBytes = sizeof(float);

absl::StatusOr<Planned> PlanOf(DeviceServices& services, ProductShape shape) {
  shape.stride_a = shape.m * shape.k;
  shape.stride_b = shape.k * shape.n;
  shape.stride_c = shape.m * shape.n;
  MR_ASSIGN_OR_RETURN(Planned product, services.PlanProduct(shape));
  return product;
}

Peepholes PeepholesOf(const KernelContext& context, int first) {
  return {context.input<float>(first), context.input<float>(first + 1), context.input<float>(first + 2)};
}
// `at`: elements before the step.
LstmResults ResultsOf(const KernelContext& context, int64_t at) {
  const auto out = [&](int k) { return context.output<float>(k) + at; };
  return {out(0), out(1), out(2), out(3), out(4), out(5), out(6)};
}

// Steps of a sequence that are walked: those that count where that is known, else all. Of a cell nothing is to be known.
struct Walk {
  int64_t all = 0, steps = 0;
  bool known = true;
  Steps Of(const KernelContext& context) const { return known ? Steps{nullptr, steps} : Steps{context.input<int64_t>(0), all}; }
  bool complete() const { return known && steps == all; }
};

// Of an op whose inputs begin with seq_len_max and x.
absl::StatusOr<Walk> WalkOf(const OpInstance& node) {
  Walk walk;
  const Tensor* const value = ValueOf(node, 0);
  walk.known = value != nullptr;
  walk.all = node.inputs[1].shape.dim(0);
  walk.steps = walk.known ? value->IntAt(0) : walk.all;
  if (walk.steps < 0 || walk.steps > walk.all) return Refused(node, "so many steps");
  return walk;
}

// Where there is nothing to multiply.
std::unique_ptr<Kernel> MakeZeros(DeviceServices& services, const OpInstance& node, const Walk& walk = {}) {
  std::vector<int64_t> bytes;
  for (const TensorType& type : node.outputs) bytes.push_back(type.size_bytes());
  return MakeLaunch(services, [walk, bytes = std::move(bytes)](const Queue& queue, const KernelContext& context) {
    if (!walk.known) LaunchCheckSteps(queue, context.input<int64_t>(0), walk.all);
    for (size_t k = 0; k < bytes.size(); ++k) LaunchZero(queue, context.outputs[k], bytes[k]);
  });
}

// (x, cs_prev, h_prev, w, wci, wcf, wco, b) -> i, cs, f, o, ci, co, h
KernelOr MakeLstmCell(DeviceServices& services, const OpInstance& node) {
  const LstmShape lstm = LstmCellOf(node, node.inputs[0].shape, node.inputs[3].shape);
  if (lstm.batch * lstm.cells == 0) return MakeZeros(services, node);
  MR_ASSIGN_OR_RETURN(const Planned product, PlanOf(services, {.m = lstm.batch, .n = 4 * lstm.cells, .k = lstm.width()}));
  Room room;
  const int64_t joined_at = room.Take(lstm.batch * lstm.width() * kBytes), gates_at = room.Take(lstm.batch * 4 * lstm.cells * kBytes);
  const int64_t library_at = room.Take(product->scratch_bytes());
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) -> absl::Status {
        char* const scratch = AlignedScratch(context);
        float *const joined = FloatsAt(scratch, joined_at), *const gates = FloatsAt(scratch, gates_at);
        LaunchJoin(queue, lstm, Steps(), lstm.batch, context.input<float>(0), context.input<float>(2), nullptr, joined);
        MR_RETURN_IF_ERROR(product->Run(queue, joined, context.inputs[3], nullptr, nullptr, gates, scratch + library_at));
        LaunchLstmCell(queue, lstm, Steps(), 0, gates, context.input<float>(7), PeepholesOf(context, 4), context.input<float>(1),
                       ResultsOf(context, 0));
        return absl::OkStatus();
      },
      room.total());
}

// Sums over the rows of all steps, or zeros, for outputs `first` on.
void RunPeepholeGrads(const Queue& queue, const LstmShape& lstm, const Steps& steps, int64_t rows, PeepholeGrads grads,
                      const KernelContext& context, int first, void* scratch) {
  if (!lstm.peephole) {
    for (int k = first; k < first + 3; ++k) LaunchZero(queue, context.outputs[k], lstm.cells * kBytes);
    return;
  }
  grads.i = context.output<float>(first);
  grads.f = context.output<float>(first + 1);
  grads.o = context.output<float>(first + 2);
  LaunchPeepholeGrads(queue, lstm, steps, rows, grads, scratch);
}

// (x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad)
//   -> cs_prev_grad, dicfo, wci_grad, wcf_grad, wco_grad
KernelOr MakeLstmCellGrad(DeviceServices& services, const OpInstance& node) {
  const LstmShape lstm = LstmCellOf(node, node.inputs[0].shape, node.inputs[3].shape);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        const auto in = [&](int k) { return context.input<float>(k); };
        float* const gates = context.output<float>(1);
        LaunchLstmCellGrad(queue, lstm, Steps(), 0, PeepholesOf(context, 4),
                           {in(8), in(10), in(11), in(12), in(13), in(1), in(14), in(15), nullptr, context.output<float>(0), gates});
        RunPeepholeGrads(queue, lstm, Steps(), lstm.batch, {gates, in(1), in(9), nullptr, nullptr, nullptr}, context, 2,
                         context.scratch);
      },
      PeepholeScratchBytes(lstm, lstm.batch));
}

// Products of x and of h with their rows of the weights.
struct Sequence {
  LstmShape lstm;
  Walk walk;
  Planned of_x, of_h;  // x of all steps at once, none where x has no elements
  int64_t gates_at = 0, library_at = 0;
};

absl::Status RunSequence(const Sequence& s, const Queue& queue, const KernelContext& context) {
  const LstmShape& lstm = s.lstm;
  const int64_t n = lstm.batch * lstm.cells;
  const Steps steps = s.walk.Of(context);
  char* const scratch = AlignedScratch(context);
  float* const gates = FloatsAt(scratch, s.gates_at);
  const float *const w = context.input<float>(4), *const w_h = w + lstm.inputs * 4 * lstm.cells;
  if (!s.walk.known) LaunchCheckSteps(queue, steps.on_device, s.walk.all);
  if (s.of_x != nullptr) {
    MR_RETURN_IF_ERROR(s.of_x->Run(queue, context.inputs[1], w, nullptr, nullptr, gates, scratch + s.library_at));
  }
  const float *cs_prev = context.input<float>(2), *h_prev = context.input<float>(3);
  for (int64_t t = 0; t < s.walk.steps; ++t) {
    float* const gate = gates + t * 4 * n;
    const float* const onto = s.of_x != nullptr ? gate : nullptr;
    MR_RETURN_IF_ERROR(s.of_h->Run(queue, h_prev, w_h, onto, nullptr, gate, scratch + s.library_at));
    const LstmResults out = ResultsOf(context, t * n);
    LaunchLstmCell(queue, lstm, steps, t, gate, context.input<float>(8), PeepholesOf(context, 5), cs_prev, out);
    cs_prev = out.cs;
    h_prev = out.h;
  }
  const int outputs = s.walk.steps < s.walk.all ? static_cast<int>(context.instance->outputs.size()) : 0;
  for (int k = 0; k < outputs; ++k) LaunchClearBehind(queue, steps, n, s.walk.all * n, context.output<float>(k));
  return absl::OkStatus();
}

// (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b) -> i, cs, f, o, ci, co, h
KernelOr MakeSequence(DeviceServices& services, const OpInstance& node) {
  Sequence s;
  s.lstm = LstmCellOf(node, node.inputs[1].shape, node.inputs[4].shape);
  MR_ASSIGN_OR_RETURN(s.walk, WalkOf(node));
  const LstmShape& lstm = s.lstm;
  const int64_t n = lstm.batch * lstm.cells, gates = 4 * lstm.cells;
  if (n * s.walk.steps == 0) return MakeZeros(services, node, s.walk);
  MR_ASSIGN_OR_RETURN(s.of_h, PlanOf(services, {.m = lstm.batch, .n = gates, .k = lstm.cells,
                                                .alignment = AlignmentOf({n * kBytes, lstm.inputs * gates * kBytes})}));
  int64_t library = s.of_h->scratch_bytes();
  if (lstm.inputs > 0) {
    MR_ASSIGN_OR_RETURN(s.of_x, PlanOf(services, {.m = s.walk.steps * lstm.batch, .n = gates, .k = lstm.inputs}));
    library = std::max(library, s.of_x->scratch_bytes());
  }
  Room room;
  s.gates_at = room.Take(s.walk.steps * 4 * n * kBytes);
  s.library_at = room.Take(library);
  return MakeLaunch(
      services, [s = std::move(s)](const Queue& queue, const KernelContext& context) { return RunSequence(s, queue, context); },
      room.total());
}

// Products of the gates' gradients with the weights' rows of h, step by step; with those of x, and of x and h with the gates'
// gradients, over all steps at once.
struct SequenceGrad {
  LstmShape lstm;
  Walk walk;
  Planned to_h, to_x, to_weights;  // to_x: none where x has no elements
  int64_t gates_at = 0, joined_at = 0, sums_at = 0, library_at = 0;
};

// From the last step to the first.
absl::Status WalkBack(const SequenceGrad& s, const Queue& queue, const KernelContext& context, float* gates, char* library) {
  const int64_t n = s.lstm.batch * s.lstm.cells;
  const float* const w_h = context.input<float>(4) + s.lstm.inputs * 4 * s.lstm.cells;
  float *const cs_prev_grad = context.output<float>(1), *const h_prev_grad = context.output<float>(2);
  for (int64_t t = s.walk.steps - 1; t >= 0; --t) {
    const auto at = [&](int k) { return context.input<float>(k) + t * n; };
    const float* const cs_prev = t == 0 ? context.input<float>(2) : at(10) - n;
    float* const gate = gates + t * 4 * n;
    LaunchLstmCellGrad(queue, s.lstm, s.walk.Of(context), t, PeepholesOf(context, 5),
                       {at(9), at(11), at(12), at(13), at(14), cs_prev, at(16), at(17), h_prev_grad, cs_prev_grad, gate});
    MR_RETURN_IF_ERROR(s.to_h->Run(queue, gate, w_h, nullptr, nullptr, h_prev_grad, library));
  }
  return absl::OkStatus();
}

absl::Status RunSequenceGrad(const SequenceGrad& s, const Queue& queue, const KernelContext& context) {
  const LstmShape& lstm = s.lstm;
  const int64_t rows = s.walk.steps * lstm.batch, n = lstm.batch * lstm.cells, x = lstm.batch * lstm.inputs;
  const Steps steps = s.walk.Of(context);
  char *const scratch = AlignedScratch(context), *const library = scratch + s.library_at, *const sums = scratch + s.sums_at;
  float *const gates = FloatsAt(scratch, s.gates_at), *const joined = FloatsAt(scratch, s.joined_at);
  const auto in = [&](int k) { return context.input<float>(k); };
  if (!s.walk.known) LaunchCheckSteps(queue, steps.on_device, s.walk.all);
  MR_RETURN_IF_ERROR(WalkBack(s, queue, context, gates, library));
  if (s.to_x != nullptr) MR_RETURN_IF_ERROR(s.to_x->Run(queue, gates, in(4), nullptr, nullptr, context.outputs[0], library));
  if (!s.walk.complete()) {
    // Zeros, too, where weights are not finite.
    LaunchClearBehind(queue, steps, x, s.walk.all * x, context.output<float>(0));
    LaunchClearBehind(queue, steps, n, n, context.output<float>(2));
  }
  LaunchJoin(queue, lstm, steps, rows, in(1), in(3), in(15), joined);
  MR_RETURN_IF_ERROR(s.to_weights->Run(queue, joined, gates, nullptr, nullptr, context.outputs[3], library));
  RunPeepholeGrads(queue, lstm, steps, rows, {gates, in(2), in(10), nullptr, nullptr, nullptr}, context, 4, sums);
  const void* const summed = gates;
  LaunchSumColumns(queue, Type::kFloat, &summed, 1, rows, 4 * lstm.cells, 1, context.outputs[7], sums);
  return absl::OkStatus();
}

// (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, h, cs_grad, h_grad)
//   -> gradients of x, cs_prev, h_prev, w, wci, wcf, wco, b
KernelOr MakeSequenceGrad(DeviceServices& services, const OpInstance& node) {
  SequenceGrad s;
  s.lstm = LstmCellOf(node, node.inputs[1].shape, node.inputs[4].shape);
  MR_ASSIGN_OR_RETURN(s.walk, WalkOf(node));
  const LstmShape& lstm = s.lstm;
  const int64_t n = lstm.batch * lstm.cells, gates = 4 * lstm.cells, rows = s.walk.steps * lstm.batch;
  if (n * s.walk.steps == 0) return MakeZeros(services, node, s.walk);
  MR_ASSIGN_OR_RETURN(s.to_h, PlanOf(services, {.m = lstm.batch, .n = lstm.cells, .k = gates, .transpose_b = true,
                                                .alignment = AlignmentOf({4 * n * kBytes, lstm.inputs * gates * kBytes})}));
  MR_ASSIGN_OR_RETURN(s.to_weights, PlanOf(services, {.m = lstm.width(), .n = gates, .k = rows, .transpose_a = true}));
  int64_t library = std::max(s.to_h->scratch_bytes(), s.to_weights->scratch_bytes());
  if (lstm.inputs > 0) {
    MR_ASSIGN_OR_RETURN(s.to_x, PlanOf(services, {.m = rows, .n = lstm.inputs, .k = gates, .transpose_b = true}));
    library = std::max(library, s.to_x->scratch_bytes());
  }
  Room room;
  s.gates_at = room.Take(rows * gates * kBytes);
  s.joined_at = room.Take(rows * lstm.width() * kBytes);
  s.sums_at = room.Take(std::max(PeepholeScratchBytes(lstm, rows), ReduceScratchBytes(gates, rows, true)));
  s.library_at = room.Take(library);
  return MakeLaunch(
      services,
      [s = std::move(s)](const Queue& queue, const KernelContext& context) { return RunSequenceGrad(s, queue, context); },
      room.total());
}

CellShape GruOf(const OpInstance& node) {
  return {node.inputs[0].shape.dim(0), node.inputs[0].shape.dim(1), node.inputs[1].shape.dim(1)};
}

// (x, h_prev, w_ru, w_c, b_ru, b_c) -> r, u, c, h
KernelOr MakeGruCell(DeviceServices& services, const OpInstance& node) {
  const CellShape gru = GruOf(node);
  if (gru.batch * gru.cells == 0) return MakeZeros(services, node);
  MR_ASSIGN_OR_RETURN(const Planned gates, PlanOf(services, {.m = gru.batch, .n = 2 * gru.cells, .k = gru.width()}));
  MR_ASSIGN_OR_RETURN(const Planned candidate, PlanOf(services, {.m = gru.batch, .n = gru.cells, .k = gru.width()}));
  Room room;
  const int64_t joined_at = room.Take(gru.batch * gru.width() * kBytes), sums_at = room.Take(gru.batch * 2 * gru.cells * kBytes);
  const int64_t library_at = room.Take(std::max(gates->scratch_bytes(), candidate->scratch_bytes()));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) -> absl::Status {
        char *const scratch = AlignedScratch(context), *const library = scratch + library_at;
        float *const joined = FloatsAt(scratch, joined_at), *const sums = FloatsAt(scratch, sums_at);
        float *const u = context.output<float>(1), *const c = context.output<float>(2);
        const auto in = [&](int k) { return context.input<float>(k); };
        LaunchJoin(queue, gru, Steps(), gru.batch, in(0), in(1), nullptr, joined);
        MR_RETURN_IF_ERROR(gates->Run(queue, joined, in(2), nullptr, nullptr, sums, library));
        LaunchGruGates(queue, gru, sums, in(4), in(1), context.output<float>(0), u, joined);
        MR_RETURN_IF_ERROR(candidate->Run(queue, joined, in(3), nullptr, nullptr, c, library));
        LaunchGruOutput(queue, gru, in(5), u, in(1), c, context.output<float>(3));
        return absl::OkStatus();
      },
      room.total());
}

// (x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h) -> d_x, d_h_prev, d_c_bar, d_r_bar_u_bar
KernelOr MakeGruCellGrad(DeviceServices& services, const OpInstance& node) {
  const CellShape gru = GruOf(node);
  if (gru.batch * gru.cells == 0) return MakeZeros(services, node);
  MR_ASSIGN_OR_RETURN(const Planned candidate,
                      PlanOf(services, {.m = gru.batch, .n = gru.width(), .k = gru.cells, .transpose_b = true}));
  MR_ASSIGN_OR_RETURN(const Planned gates,
                      PlanOf(services, {.m = gru.batch, .n = gru.width(), .k = 2 * gru.cells, .transpose_b = true}));
  Room room;
  const int64_t by_c_at = room.Take(gru.batch * gru.width() * kBytes), by_ru_at = room.Take(gru.batch * gru.width() * kBytes);
  const int64_t library_at = room.Take(std::max(gates->scratch_bytes(), candidate->scratch_bytes()));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) -> absl::Status {
        char *const scratch = AlignedScratch(context), *const library = scratch + library_at;
        float *const by_c = FloatsAt(scratch, by_c_at), *const by_ru = FloatsAt(scratch, by_ru_at);
        const auto in = [&](int k) { return context.input<float>(k); };
        const auto out = [&](int k) { return context.output<float>(k); };
        const GruGrad grad = {in(1), in(6), in(7), in(8), in(9), by_c, by_ru, out(0), out(1), out(2), out(3)};
        LaunchGruCandidateGrad(queue, gru, grad);
        MR_RETURN_IF_ERROR(candidate->Run(queue, grad.d_c, in(3), nullptr, nullptr, by_c, library));
        LaunchGruGatesGrad(queue, gru, grad);
        MR_RETURN_IF_ERROR(gates->Run(queue, grad.d_ru, in(2), nullptr, nullptr, by_ru, library));
        LaunchGruInputsGrad(queue, gru, grad);
        return absl::OkStatus();
      },
      room.total());
}

// Tensors of 16-bit floats that are converted in scratch, where a kernel of float has them.
struct Widening {
  struct Place {
    size_t index;
    int64_t at, elements;
  };
  OpInstance node;  // of float
  std::shared_ptr<const Kernel> kernel;
  Type narrow = Type::kHalf;
  std::vector<Place> inputs, outputs;
  int64_t kernel_at = 0;
};

absl::Status RunWidened(const Widening& w, const Queue& queue, const KernelContext& context) {
  char* const scratch = AlignedScratch(context);
  std::vector<void*> inputs(context.inputs, context.inputs + w.node.inputs.size());
  std::vector<void*> outputs(context.outputs, context.outputs + w.node.outputs.size());
  for (const auto& [index, at, elements] : w.inputs) {
    inputs[index] = scratch + at;
    LaunchCast(queue, w.narrow, Type::kFloat, context.inputs[index], inputs[index], elements);
  }
  for (const auto& place : w.outputs) outputs[place.index] = scratch + place.at;
  KernelContext wide = context;
  wide.instance = &w.node;
  OpInstance node;
  if (context.state != nullptr) {
    // A kernel may be of several nodes, whose streams of random numbers go by their names.
    node = w.node;
    node.name = context.instance->name;
    wide.instance = &node;
  }
  wide.inputs = inputs.data();
  wide.outputs = outputs.data();
  wide.scratch = scratch + w.kernel_at;
  MR_RETURN_IF_ERROR(w.kernel->Run(wide));
  for (const auto& [index, at, elements] : w.outputs) {
    LaunchCast(queue, Type::kFloat, w.narrow, outputs[index], context.outputs[index], elements);
  }
  return absl::OkStatus();
}

absl::Status ExpectFloatsOnDevice(const OpInstance& node) {
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    if (IsFloating(node.inputs[i].dtype)) MR_RETURN_IF_ERROR(ExpectOnDevice(node, {i}));
  }
  return absl::OkStatus();
}

template <Factory kFactory>
KernelOr Gru(DeviceServices& services, const OpInstance& node) {
  MR_RETURN_IF_ERROR(ExpectFloatsOnDevice(node));
  if (node.outputs[0].dtype != DataType::kFloat) return Refused(node, "elements other than float");
  return kFactory(services, node);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(DeviceServices& services, const OpInstance& node, Factory factory) {
  MR_RETURN_IF_ERROR(ExpectFloatsOnDevice(node));
  Widening w;
  MR_ASSIGN_OR_RETURN(w.narrow, FloatingTypeOf(node, node.outputs[0].dtype));
  if (w.narrow == Type::kFloat) return factory(services, node);
  if (w.narrow == Type::kDouble) return Refused(node, "elements of double precision");
  w.node = node;
  Room room;
  const auto convert = [&](std::vector<TensorType>& types, std::vector<Widening::Place>& places) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (!IsFloating(types[i].dtype)) continue;
      types[i].dtype = DataType::kFloat;
      places.push_back({i, room.Take(types[i].size_bytes()), types[i].shape.num_elements()});
    }
  };
  convert(w.node.inputs, w.inputs);
  convert(w.node.outputs, w.outputs);
  MR_ASSIGN_OR_RETURN(w.kernel, factory(services, w.node));
  w.kernel_at = room.Take(w.kernel->scratch_bytes());
  return MakeLaunch(
      services, [w = std::move(w)](const Queue& queue, const KernelContext& context) { return RunWidened(w, queue, context); },
      room.total());
}

void RegisterRecurrent(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "LSTMBlockCell", Widened<MakeLstmCell>);
  Add(registry, services, "LSTMBlockCellGrad", Widened<MakeLstmCellGrad>);
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) Add(registry, services, op, Widened<MakeSequence>);
  for (const char* op : {"BlockLSTMGrad", "BlockLSTMGradV2"}) Add(registry, services, op, Widened<MakeSequenceGrad>);
  Add(registry, services, "GRUBlockCell", Gru<MakeGruCell>);
  Add(registry, services, "GRUBlockCellGrad", Gru<MakeGruCellGrad>);
}

}  // namespace millrace::cuda
