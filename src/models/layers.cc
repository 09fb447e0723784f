#include "models/layers.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace millrace::layers {
namespace {

bool HasSixteenBits(const Output& x) { return x.dtype() == DataType::kBfloat16 || x.dtype() == DataType::kHalf; }

Output AddBias(const Output& x) { return ops::BiasAdd(x, Weight(x, "bias", {x.dim(-1)}, init::Zeros())); }

// average -= (average - value) (1 - momentum)
void UpdateMovingAverage(GraphBuilder& b, const Variable& average, const Output& value) {
  constexpr double kMomentum = 0.99;
  b.AddUpdate(average.AssignSub((average.Read() - value) * (1 - kMomentum),
                                absl::StrCat("/", average.name(), "/update")));
}

}  // namespace

Output Weight(const Output& x, std::string_view name, const Shape& shape, const Initializer& initializer) {
  const DataType kept = HasSixteenBits(x) ? DataType::kFloat : x.dtype();
  return ops::Cast(x.builder()->AddVariable(name, shape, initializer, kept), x.dtype());
}

Output Wide(const Output& x) { return x.valid() && HasSixteenBits(x) ? ops::Cast(x, DataType::kFloat) : x; }

Output Conv(const Output& x, int64_t filters, const ConvOptions& options, std::string_view name) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const int spatial = x.rank() - 2;
  Shape shape;
  for (int i = 0; i < spatial; ++i) shape.AddDim(options.size);
  shape.AddDim(x.dim(-1));
  shape.AddDim(filters);
  const Output kernel = Weight(x, "kernel", shape, init::HeNormal());
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
  const Output kernel = Weight(x, "kernel", {size, size, x.dim(-1), filters}, init::HeNormal());
  return ops::Conv2D(padded, kernel, {.strides = {stride}, .padding = "VALID"});
}

Output DepthwiseConv(const Output& x, int64_t size, int64_t stride, int64_t dilation, std::string_view name) {
  if (!x.valid()) return x;
  GraphBuilder& b = *x.builder();
  NameScope scope(b, name);
  const Output kernel = Weight(x, "kernel", {size, size, x.dim(-1), 1},
                               init::TruncatedNormal(std::sqrt(2.0 / static_cast<double>(size * size))));
  if (dilation == 1) return ops::DepthwiseConv2D(x, kernel, {.strides = {stride}});
  // The pixels of one phase of the dilation become an image of the batch. Padding for SAME, and to whole phases.
  const int64_t reach = dilation * (size - 1), before = reach / 2;
  Tensor paddings(DataType::kInt32, Shape({2, 2})), crops(DataType::kInt32, Shape({2, 2}));
  for (int i = 0; i < 2; ++i) {
    const int64_t extra = (dilation - (x.dim(1 + i) + reach) % dilation) % dilation;
    paddings.mutable_as<int32_t>()[2 * i] = static_cast<int32_t>(before);
    paddings.mutable_as<int32_t>()[2 * i + 1] = static_cast<int32_t>(reach - before + extra);
    crops.mutable_as<int32_t>()[2 * i + 1] = static_cast<int32_t>(extra);
  }
  const Output block = b.Ints({dilation, dilation});
  const AttrMap attrs = {{"T", x.dtype()}, {"Tblock_shape", DataType::kInt32}};
  AttrMap to_batch = attrs, to_space = attrs;
  to_batch.Set("Tpaddings", DataType::kInt32);
  to_space.Set("Tcrops", DataType::kInt32);
  const Output phases = b.Op("SpaceToBatchND", {x, block, b.SharedConst(std::move(paddings))}, std::move(to_batch));
  const Output y = ops::DepthwiseConv2D(phases, kernel, {.padding = "VALID"});
  return b.Op("BatchToSpaceND", {y, block, b.SharedConst(std::move(crops))}, std::move(to_space));
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

Output Dense(const Output& x, int64_t units, std::string_view name, const Initializer& initializer) {
  if (!x.valid()) return x;
  NameScope scope(*x.builder(), name);
  const Output kernel = Weight(x, "kernel", {x.dim(-1), units}, initializer ? initializer : init::GlorotUniform());
  return AddBias(ops::MatMul(x, kernel));
}

Output Dropout(const Output& x, double rate) {
  if (!x.valid() || rate <= 0) return x;
  GraphBuilder& b = *x.builder();
  NameScope scope(b, "dropout");
  const Output keep = ops::Binary("GreaterEqual", ops::Random(b, "RandomUniform", x.type()), rate);
  return ops::Select(keep, x * (1 / (1 - rate)), b.Scalar(x.dtype(), 0));
}

Output ClippedRelu(const Output& x, double limit) {
  return ops::Binary("Minimum", ops::Relu(x), limit);
}

Output LayerNorm(const Output& x, std::string_view name, double epsilon) {
  if (!x.valid()) return x;
  GraphBuilder& b = *x.builder();
  NameScope scope(b, name);
  const Shape shape({x.dim(-1)});
  const Variable gamma = b.AddVariable("gamma", shape, init::Ones());
  const Variable beta = b.AddVariable("beta", shape, init::Zeros());
  const Output wide = Wide(x), centered = wide - ops::Mean(wide, {-1}, {}, true);
  const Output variance = ops::Mean(ops::Square(centered), {-1}, {}, true);
  return ops::Cast(centered * ops::Rsqrt(variance + epsilon) * gamma + beta, x.dtype());
}

Output Embedding(const Variable& table, const Output& ids) { return ops::Gather(table, ids); }

Output ClassificationLoss(const Output& logits, const Output& labels, std::string_view name) {
  return ops::Mean(ops::SparseSoftmaxCrossEntropy(Wide(logits), labels).loss, {}, name);
}

absl::Status ExpectAtLeast(std::string_view model, std::string_view option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", std::string(model), ": ", std::string(option), " is ",
                                                 value, ", expected at least ", least));
}

}  // namespace millrace::layers
