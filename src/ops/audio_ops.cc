// Features of sound: what speech models take in place of samples.
#include <bit>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Samples [time, channels] -> [channels, windows, frequencies]
absl::Status SpectrogramShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const int64_t window, RequiredAttr<int64_t>(context, "window_size"));
  MR_ASSIGN_OR_RETURN(const int64_t stride, RequiredAttr<int64_t>(context, "stride"));
  if (window < 2) return context.Error(absl::StrCat("window size must be > 1, got ", window));
  if (stride < 1) return context.Error(absl::StrCat("stride must be strictly positive, got ", stride));
  const Shape& samples = context.shape(0);
  if (!samples.unknown_rank() && samples.rank() != 2) {
    return context.Error(absl::StrCat("input must be 2-dimensional", samples.ToString()));
  }
  Shape result({-1, -1, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window))) / 2 + 1});
  if (!samples.unknown_rank()) {
    result.set_dim(0, samples.dim(1));
    if (samples.dim(0) >= 0) result.set_dim(1, samples.dim(0) < window ? 0 : (samples.dim(0) - window) / stride + 1);
  }
  context.AddOutput(DataType::kFloat, std::move(result));
  return absl::OkStatus();
}

// (spectrogram [channels, windows, frequencies], sample rate) -> [channels, windows, coefficients]
absl::Status MfccShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &spectrogram = context.shape(0), &rate = context.shape(1);
  const auto coefficients = context.attrs().GetOr<int64_t>("dct_coefficient_count", 13);
  if (!rate.unknown_rank() && rate.rank() != 0) {
    return context.Error(absl::StrCat("Input sample_rate should be a scalar tensor, got ", rate.ToString(), " instead."));
  }
  if (!spectrogram.unknown_rank() && spectrogram.rank() != 3) {
    return context.Error(absl::StrCat("spectrogram must be 3-dimensional", spectrogram.ToString()));
  }
  const auto bands = context.attrs().GetOr<int64_t>("filterbank_channel_count", 40);
  if (bands < 1 || coefficients < 1 || coefficients > bands) {
    return context.Error(absl::StrCat("Mfcc initialization failed for ", bands, " bands and ", coefficients, " coefficients"));
  }
  Shape result({-1, -1, coefficients});
  if (!spectrogram.unknown_rank()) {
    result.set_dim(0, spectrogram.dim(0));
    result.set_dim(1, spectrogram.dim(1));
  }
  context.AddOutput(DataType::kFloat, std::move(result));
  return absl::OkStatus();
}

// Five flops per number and halving of the window.
Cost SpectrogramCost(const OpInstance& node) {
  Cost cost;
  const Shape& out = node.outputs[0].shape;
  cost.bytes = node.inputs[0].size_bytes() + node.outputs[0].size_bytes();
  cost.flops = 10.0 * out.num_elements() * std::bit_width(static_cast<uint64_t>(out.dim(2)));
  return cost;
}

Cost MfccCost(const OpInstance& node) {
  Cost cost;
  cost.bytes = node.inputs[0].size_bytes() + node.outputs[0].size_bytes();
  const auto bands = node.attrs.GetOr<int64_t>("filterbank_channel_count", 40);
  cost.flops = 4.0 * node.inputs[0].shape.num_elements() + 2.0 * bands * node.outputs[0].shape.num_elements();
  return cost;
}

}  // namespace

void RegisterAudioOps(OpRegistry& registry) {
  AddOp(registry, {.name = "AudioSpectrogram", .shape = SpectrogramShape, .cost = SpectrogramCost});
  AddOp(registry, {.name = "Mfcc", .shape = MfccShape, .cost = MfccCost});
}

}  // namespace millrace
