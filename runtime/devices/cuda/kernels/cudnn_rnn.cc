// Recurrent layers as cuDNN has them (src/ops/cudnn_rnn_ops.cc) and their gradients: the products of a layer's inputs with its weights at
// once, those of the state step by step, both directions in one product; launches for what is between them. Everything inside is
// [steps, batch, ...], as on the CPU, and so is what a training step keeps.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "cuda/kernels/common.h"
#include "cuda/kernels/random_state.h"
#include "cuda/kernels/recurrent.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/cudnn_rnn.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/random.h"
#include "graph/cudnn_rnn_sizes.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;
using Sizes = CudnnRnnSizes;
// Of the first layer, and of those above it.
using OfLayer = std::array<Planned, 2>;

constexpr int64_t kBytes = sizeof(float);

RnnCell CellOf(CudnnRnnMode mode) {
  switch (mode) {
    case CudnnRnnMode::kLstm: return RnnCell::kLstm;
    case CudnnRnnMode::kGru: return RnnCell::kGru;
    case CudnnRnnMode::kRelu: return RnnCell::kRelu;
    case CudnnRnnMode::kTanh: break;
  }
  return RnnCell::kTanh;
}

int64_t GateUnits(const Sizes& s) { return s.gates * s.units; }
int64_t States(const Sizes& s) { return s.layers * s.directions * s.batch * s.units; }
int64_t StatesOfLayer(const Sizes& s) { return s.directions * s.batch * s.units; }
int64_t Layers(const Sizes& s) { return std::min<int64_t>(s.layers, 2); }

// Step 0.
RnnStep StepOf(const Sizes& s, const KernelContext& context) {
  return {CellOf(s.mode), s.directions, s.batch, s.units, s.steps, 0, s.has_lengths ? context.input<int32_t>(4) : nullptr, s.direction_kept()};
}

// What all operands of products of a layer, and of those above it, are aligned to: all offsets are sums of multiples of these.
int64_t AlignmentOfLayer(const Sizes& s, int64_t layer) {
  return AlignmentOf({s.weights_at(layer, 0) * kBytes, GateUnits(s) * s.width(layer) * kBytes, GateUnits(s) * s.units * kBytes,
                      s.batch * s.units * kBytes});
}

absl::Status PlanOf(DeviceServices& services, const ProductShape& shape, Planned& product, int64_t& library) {
  MR_ASSIGN_OR_RETURN(product, services.PlanProduct(shape));
  library = std::max(library, product->scratch_bytes());
  return absl::OkStatus();
}

// [rows, columns, width] becomes [columns, rows, width].
void ExchangeFirst(const Queue& queue, int64_t rows, int64_t columns, int64_t width, const float* from, float* to) {
  StridedCopy copy;
  copy.rank = 3;
  copy.elements = rows * columns * width;
  const int64_t dims[] = {columns, rows, width}, from_strides[] = {width, columns * width, 1}, to_strides[] = {rows * width, width, 1};
  std::copy_n(dims, 3, copy.dims);
  std::copy_n(from_strides, 3, copy.from_strides);
  std::copy_n(to_strides, 3, copy.to_strides);
  LaunchStridedCopy(queue, kBytes, copy, from, to);
}

void Copy(const Queue& queue, int64_t elements, const void* from, void* to) {
  LaunchStridedCopy(queue, kBytes, WholeCopy(elements), from, to);
}

// `from`, or its copy at `to` whose second dimension is the batch where that is the first one of `from`.
const float* BatchSecond(const Queue& queue, const Sizes& s, int64_t first, int64_t width, const void* from, float* to) {
  const float* const given = static_cast<const float*>(from);
  if (s.time_major) return given;
  ExchangeFirst(queue, s.batch, first, width, given, to);
  return to;
}

// Without rows or units, states and their gradients are what they were. `input`, `output`: of h; those of c follow.
void CopyStates(const Queue& queue, const Sizes& s, const KernelContext& context, int input, int output) {
  Copy(queue, States(s), context.inputs[input], context.outputs[output]);
  if (s.mode == CudnnRnnMode::kLstm) Copy(queue, States(s), context.inputs[input + 1], context.outputs[output + 1]);
}

absl::Status ExpectCovered(const OpInstance& node, const Sizes& s) {
  if (s.has_lengths) MR_RETURN_IF_ERROR(ExpectOnDevice(node, {4}));
  return s.inputs == 0 ? Refused(node, "inputs without elements") : absl::OkStatus();
}

struct Forward {
  Forward(const OpInstance& node, DeviceServices& device)
      : s(node), services(&device), seeds(node), trains(node.attrs.GetOr("is_training", true)) {}
  bool drops() const { return trains && s.dropout > 0; }
  // Where nothing is kept two layers take turns.
  int64_t slot(int64_t layer) const { return trains ? layer : layer % 2; }

  Sizes s;
  DeviceServices* services;
  StreamSeeds seeds;
  bool trains;
  OfLayer from_input, from_state;
  int64_t input_at = 0, kept_at = 0, dropped_at = 0, products_at = 0, h_at = 0, c_at = 0, library_at = 0;
};

absl::Status PlanForward(DeviceServices& services, Forward& f, int64_t& library) {
  const Sizes& s = f.s;
  const int64_t gates = GateUnits(s);
  for (int64_t l = 0; l < Layers(s); ++l) {
    const ProductShape from_input = {.batch = s.directions, .m = s.rows(), .n = gates, .k = s.width(l), .transpose_b = true,
                                     .stride_b = s.direction_weights(l), .stride_c = s.direction_kept(), .alignment = AlignmentOfLayer(s, l)};
    const ProductShape from_state = {.batch = s.directions, .m = s.batch, .n = gates, .k = s.units, .transpose_b = true,
                                     .stride_a = s.batch * s.units, .stride_b = s.direction_weights(l), .stride_c = s.batch * gates,
                                     .alignment = AlignmentOfLayer(s, l)};
    MR_RETURN_IF_ERROR(PlanOf(services, from_input, f.from_input[l], library));
    MR_RETURN_IF_ERROR(PlanOf(services, from_state, f.from_state[l], library));
  }
  return absl::OkStatus();
}

// Which inputs of the layers above the first are left, and how much larger.
absl::Status DrawDropout(const Forward& f, const Queue& queue, const KernelContext& context) {
  const int64_t n = f.s.dropped();
  float* const scales = context.output<float>(3) + f.s.dropped_at(1);
  // A sample is four numbers.
  return DrawOfState(*f.services, queue, context, f.seeds, static_cast<uint64_t>(n / PhiloxStream::kWords + 1), [&](const RandomSource& source) {
    LaunchRandom(queue, RandomKind::kUniform, Type::kFloat, source, scales, n);
    LaunchDropoutScales(queue, n, f.s.dropout, scales);
  });
}

// What states begin with, and where they go, or their gradients; c: of an LSTM.
struct LayerStates {
  const float *h_begin, *c_begin;
  float *h, *c;
};

absl::Status RunLayer(const Forward& f, const Queue& queue, const KernelContext& context, int64_t l, const float* in, float* kept,
                      const LayerStates& states, char* scratch) {
  const Sizes& s = f.s;
  const int64_t slot = f.slot(l), kind = l > 0 ? 1 : 0;
  const float *const params = context.input<float>(3), *const weights = params + s.weights_at(l, 0);
  const float* const of_state = weights + GateUnits(s) * s.width(l);
  float* const products = FloatsAt(scratch, f.products_at);
  RnnForward forward = {kept + s.gates_at(slot, 0), kept + s.more_at(slot, 0), f.trains, products, params + s.biases_at(l, 0),
                        states.h_begin, states.c_begin, states.h, states.c, kept + s.output_at(slot)};
  MR_RETURN_IF_ERROR(f.from_input[kind]->Run(queue, in, weights, nullptr, nullptr, forward.gates, scratch + f.library_at));
  RnnStep step = StepOf(s, context);
  for (; step.step < s.steps; ++step.step) {
    MR_RETURN_IF_ERROR(f.from_state[kind]->Run(queue, forward.h_before, of_state, nullptr, nullptr, products, scratch + f.library_at));
    LaunchRnnForward(queue, step, forward);
    forward.h_before = states.h;
    forward.c_before = states.c;
  }
  return absl::OkStatus();
}

// Those of one layer.
LayerStates StatesAt(const Sizes& s, const LayerStates& all, int64_t layer) {
  const int64_t at = layer * StatesOfLayer(s);
  if (s.mode != CudnnRnnMode::kLstm) return {all.h_begin + at, nullptr, all.h + at, nullptr};
  return {all.h_begin + at, all.c_begin + at, all.h + at, all.c + at};
}

absl::Status RunLayers(const Forward& f, const Queue& queue, const KernelContext& context) {
  const Sizes& s = f.s;
  const bool lstm = s.mode == CudnnRnnMode::kLstm;
  const int64_t stacked = s.layers * s.directions;
  char* const scratch = AlignedScratch(context);
  float* const kept = f.trains ? context.output<float>(3) : FloatsAt(scratch, f.kept_at);
  const float* in = BatchSecond(queue, s, s.steps, s.inputs, context.inputs[0], FloatsAt(scratch, f.input_at));
  LayerStates all = {BatchSecond(queue, s, stacked, s.units, context.inputs[1], FloatsAt(scratch, f.h_at)), nullptr, context.output<float>(1),
                     context.output<float>(2)};
  if (lstm) all.c_begin = BatchSecond(queue, s, stacked, s.units, context.inputs[2], FloatsAt(scratch, f.c_at));
  if (!s.time_major) {
    all.h = FloatsAt(scratch, f.h_at);
    all.c = FloatsAt(scratch, f.c_at);
  }
  for (int64_t l = 0; l < s.layers; ++l) {
    if (l > 0 && f.drops()) {
      float* const dropped = FloatsAt(scratch, f.dropped_at);
      LaunchScale(queue, s.rows() * s.wide(), in, kept + s.dropped_at(l), dropped);
      in = dropped;
    }
    MR_RETURN_IF_ERROR(RunLayer(f, queue, context, l, in, kept, StatesAt(s, all, l), scratch));
    in = kept + s.output_at(f.slot(l));
  }
  if (s.time_major) {
    Copy(queue, s.rows() * s.wide(), in, context.outputs[0]);
    return absl::OkStatus();
  }
  ExchangeFirst(queue, s.steps, s.batch, s.wide(), in, context.output<float>(0));
  ExchangeFirst(queue, stacked, s.batch, s.units, all.h, context.output<float>(1));
  if (lstm) ExchangeFirst(queue, stacked, s.batch, s.units, all.c, context.output<float>(2));
  return absl::OkStatus();
}

absl::Status RunForward(const Forward& f, const Queue& queue, const KernelContext& context) {
  const Sizes& s = f.s;
  if (s.has_lengths) LaunchCheckLengths(queue, 4, context.input<int32_t>(4), s.batch, s.steps);
  if (f.drops()) MR_RETURN_IF_ERROR(DrawDropout(f, queue, context));
  if (s.mode != CudnnRnnMode::kLstm) LaunchZero(queue, context.outputs[2], kBytes);
  if (s.rows() * s.units > 0) return RunLayers(f, queue, context);
  CopyStates(queue, s, context, 1, 1);
  return absl::OkStatus();
}

// (input, input_h, input_c, params[, sequence_lengths]) -> output, output_h, output_c, kept[, nothing]
KernelOr MakeForward(DeviceServices& services, const OpInstance& node) {
  Forward f(node, services);
  const Sizes& s = f.s;
  MR_RETURN_IF_ERROR(ExpectCovered(node, s));
  int64_t library = 0;
  if (s.rows() * s.units > 0) MR_RETURN_IF_ERROR(PlanForward(services, f, library));
  Room room;
  room.Take(kStateBytes);
  const int64_t exchanged = s.time_major ? 0 : States(s);
  f.input_at = room.TakeFloats(s.time_major ? 0 : s.rows() * s.inputs);
  f.kept_at = room.TakeFloats(f.trains ? 0 : Layers(s) * s.layer_kept());
  f.dropped_at = room.TakeFloats(f.drops() ? s.rows() * s.wide() : 0);
  f.products_at = room.TakeFloats(s.directions * s.batch * GateUnits(s));
  f.h_at = room.TakeFloats(exchanged);
  f.c_at = room.TakeFloats(s.mode == CudnnRnnMode::kLstm ? exchanged : 0);
  f.library_at = room.Take(library);
  return MakeLaunch(
      services, [f = std::move(f)](const Queue& queue, const KernelContext& context) { return RunForward(f, queue, context); }, room.total());
}

struct Backward {
  explicit Backward(const OpInstance& node) : s(node), gradients(s.has_lengths ? 8 : 7) {}
  Sizes s;
  int gradients;  // input of the first of three
  OfLayer to_input, to_input_weights, to_state, to_state_weights;
  std::array<int64_t, 2> below_at = {};  // gradients of the inputs of layers, which take turns
  int64_t input_at = 0, above_at = 0, dropped_at = 0, to_input_at = 0, to_state_at = 0, of_step_at = 0, before_at = 0;
  int64_t h_begin_at = 0, c_begin_at = 0, h_at = 0, c_at = 0, sums_at = 0, library_at = 0;
};

absl::Status PlanBackward(DeviceServices& services, Backward& b, int64_t& library) {
  const Sizes& s = b.s;
  const int64_t gates = GateUnits(s), rows = s.rows();
  for (int64_t l = 0; l < Layers(s); ++l) {
    const int64_t width = s.width(l), weights = s.direction_weights(l), alignment = AlignmentOfLayer(s, l);
    const ProductShape to_input = {.m = rows, .n = width, .k = gates, .alignment = alignment};
    const ProductShape to_state = {.batch = s.directions, .m = s.batch, .n = s.units, .k = gates, .stride_a = s.batch * gates,
                                   .stride_b = weights, .stride_c = s.batch * s.units, .alignment = alignment};
    const ProductShape to_input_weights = {.batch = s.directions, .m = gates, .n = width, .k = rows, .transpose_a = true,
                                           .stride_a = rows * gates, .stride_c = weights, .alignment = alignment};
    const ProductShape to_state_weights = {.batch = s.directions, .m = gates, .n = s.units, .k = rows, .transpose_a = true,
                                           .stride_a = rows * gates, .stride_b = rows * s.units, .stride_c = weights, .alignment = alignment};
    MR_RETURN_IF_ERROR(PlanOf(services, to_input, b.to_input[l], library));
    MR_RETURN_IF_ERROR(PlanOf(services, to_state, b.to_state[l], library));
    MR_RETURN_IF_ERROR(PlanOf(services, to_input_weights, b.to_input_weights[l], library));
    MR_RETURN_IF_ERROR(PlanOf(services, to_state_weights, b.to_state_weights[l], library));
  }
  return absl::OkStatus();
}

// Of a layer: the gradient of its output, and where that of its input goes.
struct LayerGradients {
  const float* above;
  const float *h_given, *c_given;
  float* below;
};

// From the last step to the first.
absl::Status WalkBack(const Backward& b, const Queue& queue, const KernelContext& context, int64_t l, const LayerStates& states,
                      const LayerGradients& gradients, char* scratch) {
  const Sizes& s = b.s;
  const float* const kept = context.input<float>(b.gradients + 3);
  const float* const of_state = context.input<float>(3) + s.weights_at(l, 0) + GateUnits(s) * s.width(l);
  RnnBackward backward = {kept + s.gates_at(l, 0), kept + s.more_at(l, 0), kept + s.output_at(l), states.h_begin, states.c_begin,
                          gradients.above, gradients.h_given, gradients.c_given, states.h, states.c, FloatsAt(scratch, b.to_input_at),
                          FloatsAt(scratch, b.to_state_at), FloatsAt(scratch, b.of_step_at), FloatsAt(scratch, b.before_at)};
  RnnStep step = StepOf(s, context);
  for (step.step = s.steps - 1; step.step >= 0; --step.step) {
    LaunchRnnBackward(queue, step, backward);
    MR_RETURN_IF_ERROR(b.to_state[l > 0 ? 1 : 0]->Run(queue, backward.of_step, of_state, states.h, nullptr, states.h, scratch + b.library_at));
    backward.h_after = states.h;
    backward.c_after = states.c;
  }
  return absl::OkStatus();
}

absl::Status RunLayerBack(const Backward& b, const Queue& queue, const KernelContext& context, int64_t l, const float* in,
                          const LayerStates& states, const LayerGradients& gradients, char* scratch) {
  const Sizes& s = b.s;
  const int64_t kind = l > 0 ? 1 : 0, of_direction = s.rows() * GateUnits(s);
  char* const library = scratch + b.library_at;
  const float *const to_input = FloatsAt(scratch, b.to_input_at), *const to_state = FloatsAt(scratch, b.to_state_at);
  MR_RETURN_IF_ERROR(WalkBack(b, queue, context, l, states, gradients, scratch));
  float *const params = context.output<float>(3), *const weights = params + s.weights_at(l, 0);
  MR_RETURN_IF_ERROR(b.to_input_weights[kind]->Run(queue, to_input, in, nullptr, nullptr, weights, library));
  MR_RETURN_IF_ERROR(b.to_state_weights[kind]->Run(queue, to_state, FloatsAt(scratch, b.before_at), nullptr, nullptr,
                                                   weights + GateUnits(s) * s.width(l), library));
  LaunchRnnBiasGrads(queue, StepOf(s, context), s.rows(), to_input, to_state, params + s.biases_at(l, 0), scratch + b.sums_at);
  for (int64_t d = 0; d < s.directions; ++d) {
    const float* const onto = d > 0 ? gradients.below : nullptr;
    MR_RETURN_IF_ERROR(b.to_input[kind]->Run(queue, to_input + d * of_direction, context.input<float>(3) + s.weights_at(l, d), onto, nullptr,
                                             gradients.below, library));
  }
  return absl::OkStatus();
}

// States of all layers; `gradients`: of what the op's outputs were.
LayerStates StatesBack(const Backward& b, const Queue& queue, const KernelContext& context, char* scratch, LayerGradients& gradients) {
  const Sizes& s = b.s;
  const int64_t stacked = s.layers * s.directions;
  LayerStates all = {nullptr, nullptr, context.output<float>(1), context.output<float>(2)};
  if (!s.time_major) {
    all.h = FloatsAt(scratch, b.h_at);
    all.c = FloatsAt(scratch, b.c_at);
  }
  const auto given = [&](int input, int64_t at) {
    return BatchSecond(queue, s, stacked, s.units, context.inputs[input], FloatsAt(scratch, at));
  };
  all.h_begin = given(1, b.h_begin_at);
  gradients.above = BatchSecond(queue, s, s.steps, s.wide(), context.inputs[b.gradients], FloatsAt(scratch, b.above_at));
  gradients.h_given = given(b.gradients + 1, b.h_at);
  if (s.mode == CudnnRnnMode::kLstm) {
    all.c_begin = given(2, b.c_begin_at);
    gradients.c_given = given(b.gradients + 2, b.c_at);
  }
  return all;
}

absl::Status RunLayersBack(const Backward& b, const Queue& queue, const KernelContext& context) {
  const Sizes& s = b.s;
  const bool lstm = s.mode == CudnnRnnMode::kLstm;
  const int64_t n = s.rows() * s.wide(), stacked = s.layers * s.directions;
  char* const scratch = AlignedScratch(context);
  const float* const kept = context.input<float>(b.gradients + 3);
  LayerGradients all = {};
  const LayerStates states = StatesBack(b, queue, context, scratch, all);
  const float* const input = BatchSecond(queue, s, s.steps, s.inputs, context.inputs[0], FloatsAt(scratch, b.input_at));
  for (int64_t l = s.layers - 1; l >= 0; --l) {
    const float* in = l > 0 ? kept + s.output_at(l - 1) : input;
    if (l > 0 && s.dropout > 0) {
      float* const dropped = FloatsAt(scratch, b.dropped_at);
      LaunchScale(queue, n, in, kept + s.dropped_at(l), dropped);
      in = dropped;
    }
    LayerGradients gradients = all;
    gradients.h_given += l * StatesOfLayer(s);
    if (lstm) gradients.c_given += l * StatesOfLayer(s);
    gradients.below = l == 0 && s.time_major ? context.output<float>(0) : FloatsAt(scratch, b.below_at[l % 2]);
    MR_RETURN_IF_ERROR(RunLayerBack(b, queue, context, l, in, StatesAt(s, states, l), gradients, scratch));
    if (l > 0 && s.dropout > 0) LaunchScale(queue, n, gradients.below, kept + s.dropped_at(l), gradients.below);
    all.above = gradients.below;
  }
  if (s.time_major) return absl::OkStatus();
  ExchangeFirst(queue, s.steps, s.batch, s.inputs, all.above, context.output<float>(0));
  ExchangeFirst(queue, stacked, s.batch, s.units, states.h, context.output<float>(1));
  if (lstm) ExchangeFirst(queue, stacked, s.batch, s.units, states.c, context.output<float>(2));
  return absl::OkStatus();
}

absl::Status RunBackward(const Backward& b, const Queue& queue, const KernelContext& context) {
  const Sizes& s = b.s;
  if (s.has_lengths) LaunchCheckLengths(queue, 4, context.input<int32_t>(4), s.batch, s.steps);
  if (s.mode != CudnnRnnMode::kLstm) LaunchZero(queue, context.outputs[2], context.output_type(2).size_bytes());
  if (s.rows() * s.units > 0) return RunLayersBack(b, queue, context);
  for (int k : {0, 3}) LaunchZero(queue, context.outputs[k], context.output_type(k).size_bytes());
  CopyStates(queue, s, context, b.gradients + 1, 1);
  return absl::OkStatus();
}

void TakeRoom(Backward& b, int64_t library, Room& room) {
  const Sizes& s = b.s;
  const bool lstm = s.mode == CudnnRnnMode::kLstm;
  const int64_t rows = s.rows(), gates = s.directions * GateUnits(s), exchanged = s.time_major ? 0 : States(s);
  const RnnStep step = {.cell = CellOf(s.mode), .directions = s.directions, .units = s.units};
  b.input_at = room.TakeFloats(s.time_major ? 0 : rows * s.inputs);
  b.above_at = room.TakeFloats(s.time_major ? 0 : rows * s.wide());
  b.dropped_at = room.TakeFloats(s.dropout > 0 ? rows * s.wide() : 0);
  b.below_at[0] = room.TakeFloats(rows * std::max(s.layers > 2 ? s.wide() : 0, s.time_major ? 0 : s.inputs));
  b.below_at[1] = room.TakeFloats(s.layers > 1 ? rows * s.wide() : 0);
  b.to_input_at = room.TakeFloats(rows * gates);
  b.to_state_at = s.mode == CudnnRnnMode::kGru ? room.TakeFloats(rows * gates) : b.to_input_at;
  b.of_step_at = room.TakeFloats(s.batch * gates);
  b.before_at = room.TakeFloats(rows * s.wide());
  for (int64_t* at : {&b.h_begin_at, &b.h_at}) *at = room.TakeFloats(exchanged);
  for (int64_t* at : {&b.c_begin_at, &b.c_at}) *at = room.TakeFloats(lstm ? exchanged : 0);
  b.sums_at = room.Take(RnnBiasScratchBytes(step, rows));
  b.library_at = room.Take(library);
}

// (input, input_h, input_c, params[, sequence_lengths], output, output_h, output_c, their gradients, kept ...)
//   -> gradients of input, input_h, input_c, params
KernelOr MakeBackward(DeviceServices& services, const OpInstance& node) {
  Backward b(node);
  MR_RETURN_IF_ERROR(ExpectCovered(node, b.s));
  // The host's kernel says what is wrong with it.
  if (node.inputs[b.gradients + 3].shape != Shape({b.s.kept()})) return Refused(node, "what another op has kept");
  int64_t library = 0;
  if (b.s.rows() * b.s.units > 0) MR_RETURN_IF_ERROR(PlanBackward(services, b, library));
  Room room;
  TakeRoom(b, library, room);
  return MakeLaunch(
      services, [b = std::move(b)](const Queue& queue, const KernelContext& context) { return RunBackward(b, queue, context); }, room.total());
}

}  // namespace

void RegisterCudnnRnn(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}) Add(registry, services, op, Widened<MakeForward>);
  for (const char* op : {"CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"}) Add(registry, services, op, Widened<MakeBackward>);
}

}  // namespace millrace::cuda
