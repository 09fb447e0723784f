// Gradients of recurrent blocks, morphology, antialiased scaling and round trips through integers.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

// (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b) -> i, cs, f, o, ci, co, h of all steps.
absl::Status BlockLstmGradient(Context& c) {
  constexpr int kCells = 1, kHidden = 6;
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (i == kCells || i == kHidden || !c.has_gradient(i)) continue;
    return c.Error("a gradient flows into its gates; its op for gradients knows those of cs and h only");
  }
  std::vector<Output> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  for (int i = 0; i < c.num_outputs(); ++i) inputs.push_back(c.output(i));
  inputs.push_back(c.gradient(kCells));
  inputs.push_back(c.gradient(kHidden));
  const Operation gradients = Emit(
      c.op() == "BlockLSTM" ? "BlockLSTMGrad" : "BlockLSTMGradV2", absl::MakeConstSpan(inputs),
      {{"T", c.input(1).dtype()}, {"use_peephole", c.attrs().GetOr<bool>("use_peephole", false)}}, {});
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.Set(i, gradients.output(i - 1));
  }
  return absl::OkStatus();
}

// (input, states h and c, weights[, lengths]) -> output, states h and c, what is kept[, nothing more]
absl::Status CudnnRnnGradient(Context& c) {
  if (!c.attrs().GetOr<bool>("is_training", true)) return c.Error("is_training must be true: else it keeps nothing for its gradient");
  constexpr int kResults = 3;
  std::vector<Output> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  for (int i = 0; i < kResults; ++i) inputs.push_back(c.output(i));
  for (int i = 0; i < kResults; ++i) inputs.push_back(c.gradient(i));
  for (int i = kResults; i < c.num_outputs(); ++i) inputs.push_back(c.output(i));
  AttrMap attrs = c.attrs();
  attrs.Erase("is_training");
  const std::string version = c.op().substr(std::string("CudnnRNN").size());
  const Operation gradients = Emit("CudnnRNNBackprop" + version, absl::MakeConstSpan(inputs), attrs, {});
  for (int i = 0; i < 4; ++i) {
    if (c.wants(i)) c.Set(i, gradients.output(i));
  }
  return absl::OkStatus();
}

absl::Status DilationGradient(Context& c) {
  if (c.wants(0)) c.Set(0, SameAttrs(c, "Dilation2DBackpropInput", {c.input(0), c.input(1), c.gradient()}));
  if (c.wants(1)) c.Set(1, SameAttrs(c, "Dilation2DBackpropFilter", {c.input(0), c.input(1), c.gradient()}));
  return absl::OkStatus();
}

// (images, size, scale, translation)
absl::Status ScaleGradient(Context& c) {
  if (c.wants(0)) c.Set(0, SameAttrs(c, "ScaleAndTranslateGrad", {c.gradient(), c.input(0), c.input(2), c.input(3)}));
  return absl::OkStatus();
}

// (gradients, images, scale, translation): the transposed op, so its gradient scales again.
absl::Status ScaleGradGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output size = c.builder().Ints({c.input(0).dim(1), c.input(0).dim(2)});
  c.Set(0, SameAttrs(c, "ScaleAndTranslate", {c.gradient(), size, c.input(2), c.input(3)}));
  return absl::OkStatus();
}

// Straight through; what the range is has no gradient.
absl::Status RoundTripGradient(Context& c) {
  if (c.wants(0)) c.Set(0, c.gradient());
  return absl::OkStatus();
}

// Straight through within the range; what lies outside moves with the bound that holds it.
absl::Status RoundTripV4Gradient(Context& c) {
  const Operation gradients = Emit("QuantizeAndDequantizeV4Grad", {c.gradient(), c.input(0), c.input(1), c.input(2)},
                                   {{"T", c.dtype()}, {"axis", c.attrs().GetOr<int64_t>("axis", -1)}});
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.Set(i, gradients.output(i));
  }
  return absl::OkStatus();
}

// (gradients, input, min, max) -> (those within, the sums of those below and above): linear in the gradients. TensorFlow
// differentiates the first result only, and so do we.
absl::Status RoundTripGradGradient(Context& c) {
  if (c.wants(0)) c.Set(0, SameAttrs(c, c.op(), {c.gradient(), c.input(1), c.input(2), c.input(3)}));
  return absl::OkStatus();
}

}  // namespace

void AddRareGradients(GradientTable& table) {
  table.Add({"BlockLSTM", "BlockLSTMV2"}, BlockLstmGradient);
  table.Add({"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}, CudnnRnnGradient);
  table.Add("Dilation2D", DilationGradient);
  table.Add("ScaleAndTranslate", ScaleGradient);
  table.Add("ScaleAndTranslateGrad", ScaleGradGradient);
  table.Add({"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3"}, RoundTripGradient);
  table.Add("QuantizeAndDequantizeV4Grad", RoundTripGradGradient);
  table.Add("QuantizeAndDequantizeV4", RoundTripV4Gradient);
}

}  // namespace millrace
