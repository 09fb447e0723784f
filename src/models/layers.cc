#include "models/layers.h"

#include "absl/strings/str_cat.h"

namespace millrace::layers {
namespace {

Output AddBias(const Output& x) {
  return ops::BiasAdd(x, x.builder()->AddVariable("bias", {x.dim(-1)}, init::Zeros(), x.dtype()));
}

// average -= (average - value) (1 - momentum)
void UpdateMovingAverage(GraphBuilder& b, const Variable& average, const Output& value) {
  constexpr double kMomentum = 0.99;
  b.AddUpdate(average.AssignSub((average.Read() - value) * (1 - kMomentum),
                                absl::StrCat("/", average.name(), "/update")));
}

}  // namespace

Output Conv(const Output& x, int64_t filters, const ConvOptions& options, std::string_view name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const int spatial = x.rank() - 2;
  Shape shape;
  for (int i = 0; i < spatial; ++i) shape.AddDim(options.size);
  shape.AddDim(x.dim(-1));
  shape.AddDim(filters);
  const Variable kernel = x.builder()->AddVariable("kernel", shape, init::HeNormal(), x.dtype());
  const ops::WindowOptions window{.strides = {options.stride}, .dilations = {options.dilation}};
  const Output y = spatial == 3 ? ops::Conv3D(x, kernel, window) : ops::Conv2D(x, kernel, window);
  return options.bias ? AddBias(y) : y;
}

Output PaddedConv(const Output& x, int64_t filters, int64_t size, int64_t stride, std::string_view name) {
  if (stride == 1) return Conv(x, filters, {.size = size}, name);
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  const Output padded = size == 1 ? x : ops::Pad(x, {{0, 0}, {before, after}, {before, after}, {0, 0}});
  const Variable kernel =
      x.builder()->AddVariable("kernel", {size, size, x.dim(-1), filters}, init::HeNormal(), x.dtype());
  return ops::Conv2D(padded, kernel, {.strides = {stride}, .padding = "VALID"});
}

Output BatchNorm(const Output& x, std::string_view name, double gamma) {
  if (!x.valid()) return x;
  GraphBuilder& b = *x.builder();
  NameScope scope(b, name);
  const Shape shape({x.dim(-1)});
  const Variable scale = b.AddVariable("gamma", shape, init::Constant(gamma));
  const Variable offset = b.AddVariable("beta", shape, init::Zeros());
  const Variable moving_mean = b.AddState("moving_mean", shape, init::Zeros());
  const Variable moving_variance = b.AddState("moving_variance", shape, init::Ones());
  const ops::BatchNormResult norm = ops::FusedBatchNorm(x, scale, offset);
  UpdateMovingAverage(b, moving_mean, norm.mean);
  UpdateMovingAverage(b, moving_variance, norm.variance);
  return norm.y;
}

Output Dense(const Output& x, int64_t units, std::string_view name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const Variable kernel = x.builder()->AddVariable("kernel", {x.dim(-1), units}, init::GlorotUniform(), x.dtype());
  return AddBias(ops::MatMul(x, kernel));
}

Output ClassificationLoss(const Output& logits, const Output& labels, std::string_view name) {
  return ops::Mean(ops::SparseSoftmaxCrossEntropy(logits, labels).loss, {}, name);
}

absl::Status ExpectAtLeast(std::string_view model, std::string_view option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", std::string(model), ": ", std::string(option), " is ",
                                                 value, ", expected at least ", least));
}

}  // namespace millrace::layers
