// Gradients of batch normalisation and local response normalisation.
#include <algorithm>

#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

// What the mean and the variance of the batch, outputs 1 and 2, pass on to x. With a factor f below 1 they are averages,
// (1 - f) the mean or variance that came in + f the batch's. The variance is that of n - 1 degrees of freedom.
absl::StatusOr<Output> StatisticsGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output& x = c.input(0);
  const int channel_axis = c.attrs().GetOr<std::string>("data_format", "NHWC").starts_with("NC") ? 1 : x.rank() - 1;
  ops::IntList axes, per_channel(x.rank(), 1);
  for (int i = 0; i < x.rank(); ++i) {
    if (i != channel_axis) axes.push_back(i);
  }
  per_channel[channel_axis] = x.dim(channel_axis);
  const DataType dtype = c.input(1).dtype();
  const Output count = CountOver(x, axes, dtype), less = CountOver(x, axes, dtype) - 1.0;
  const double factor = c.attrs().GetOr<float>("exponential_avg_factor", 1.0f);
  const auto spread = [&](const Output& channels) { return ops::Reshape(channels, per_channel); };
  const Output wide_x = ops::Cast(x, dtype);
  Output sum = ops::ZerosLike(wide_x);
  if (c.has_gradient(1)) sum = sum + spread(c.gradient(1)) * (c.builder().Scalar(dtype, factor) / count);
  if (c.has_gradient(2)) {
    const Output centered = wide_x - ops::Mean(wide_x, axes, {}, true);
    sum = sum + centered * (spread(c.gradient(2)) * (c.builder().Scalar(dtype, 2 * factor) / ops::Maximum(less, c.builder().Scalar(dtype, 1))));
  }
  return ops::Cast(sum, x.dtype());
}

// FusedBatchNorm, V2 and V3: (x, scale, offset, mean, variance) -> y, mean, variance, two or three reserves.
absl::Status BatchNormGradient(Context& c) {
  const bool training = c.attrs().GetOr<bool>("is_training", true);
  const bool v3 = c.op() == "FusedBatchNormV3";
  std::vector<Output> inputs = {c.gradient(0), c.input(0), c.input(1), training ? c.output(3) : c.input(3),
                                training ? c.output(4) : c.input(4)};
  if (v3) inputs.push_back(c.output(5));
  AttrMap attrs = {{"T", c.dtype()},
                   {"epsilon", c.attrs().GetOr<float>("epsilon", 1e-4f)},
                   {"data_format", c.attrs().GetOr<std::string>("data_format", "NHWC")},
                   {"is_training", training}};
  if (c.op() != "FusedBatchNorm") attrs.Set("U", c.input(1).dtype());
  const std::string op = c.op() == "FusedBatchNorm"     ? "FusedBatchNormGrad"
                         : c.op() == "FusedBatchNormV2" ? "FusedBatchNormGradV2"
                                                        : "FusedBatchNormGradV3";
  const Operation gradient = Emit(op, inputs, std::move(attrs), {});
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.Set(i, gradient.output(i));
  }
  if (training && c.wants(0) && (c.has_gradient(1) || c.has_gradient(2))) {
    MR_ASSIGN_OR_RETURN(const Output statistics, StatisticsGradient(c));
    c.Set(0, gradient.output(0) + statistics);
  }
  for (int i = 1; i < 3; ++i) {  // the averages that came in
    const double kept = training ? 1 - c.attrs().GetOr<float>("exponential_avg_factor", 1.0f) : 1;
    if (kept != 0 && c.wants(i + 2) && c.has_gradient(i)) c.Set(i + 2, c.gradient(i) * kept);
  }
  return absl::OkStatus();
}

// The gradient of batch normalisation written out in plain ops, which have gradients themselves.
struct PlainBatchNormGrad {
  Output x, scale, offset;
};

PlainBatchNormGrad WriteOut(const Output& dy, const Output& x, const Output& scale, const Context& c,
                            const ops::IntList& axes, const ops::IntList& per_channel, const Output& count) {
  const double epsilon = c.attrs().GetOr<float>("epsilon", 1e-4f);
  const DataType dtype = scale.dtype();
  const Output wide_x = ops::Cast(x, dtype), wide_dy = ops::Cast(dy, dtype);
  const auto spread = [&](const Output& channels) { return ops::Reshape(channels, per_channel); };
  const bool training = c.attrs().GetOr<bool>("is_training", true);
  Output mean = spread(c.input(3)), variance = spread(c.input(4));
  if (training) {
    mean = ops::Mean(wide_x, axes, {}, true);
    variance = ops::Mean(ops::Square(wide_x - mean), axes, {}, true);
  }
  const Output inverse_stddev = ops::Rsqrt(variance + epsilon);
  const Output normalized = (wide_x - mean) * inverse_stddev;
  PlainBatchNormGrad result;
  result.offset = ops::Sum(wide_dy, axes);
  result.scale = ops::Sum(wide_dy * normalized, axes);
  Output dx = wide_dy;
  if (training) {
    dx = wide_dy - spread(result.offset) / count - normalized * (spread(result.scale) / count);
  }
  result.x = ops::Cast(spread(scale) * inverse_stddev * dx, x.dtype());
  return result;
}

absl::Status BatchNormGradGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output& x = c.input(1);
  const bool channels_first = c.attrs().GetOr<std::string>("data_format", "NHWC").starts_with("NC");
  const int channel_axis = channels_first ? 1 : x.rank() - 1;
  ops::IntList axes, per_channel(x.rank(), 1);
  for (int i = 0; i < x.rank(); ++i) {
    if (i != channel_axis) axes.push_back(i);
  }
  per_channel[channel_axis] = x.dim(channel_axis);
  // Stand-ins for the inputs end the differentiation here and not in what produced them.
  const Output dy = ops::Identity(c.input(0)), x_in = ops::Identity(x), scale = ops::Identity(c.input(2));
  const PlainBatchNormGrad plain = WriteOut(dy, x_in, scale, c, axes, per_channel, CountOver(x, axes, scale.dtype()));
  GradientOptions options;
  std::vector<Output> ys;
  const Output outputs[] = {plain.x, plain.scale, plain.offset};
  for (int i = 0; i < 3; ++i) {
    if (!c.has_gradient(i)) continue;
    ys.push_back(outputs[i]);
    options.y_gradients.push_back(c.gradient(i));
  }
  options.scope = "written_out";
  const Output xs[] = {dy, x_in, scale};
  MR_ASSIGN_OR_RETURN(const std::vector<Output> gradients, AddGradients(c.builder(), ys, xs, options));
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.Set(i, gradients[i]);
  }
  return absl::OkStatus();
}

// y = x (bias + alpha S(x^2))^-beta in plain ops, S the sum over a window of channels: a product with a band of ones.
Output WriteOutLrn(const Output& x, const Context& c) {
  GraphBuilder& b = *x.builder();
  const int64_t radius = c.attrs().GetOr<int64_t>("depth_radius", 5), channels = x.dim(-1);
  const Output ones = ops::Full(b, TensorType{x.dtype(), Shape({channels, channels})}, 1);
  const Output band = b.Op("MatrixBandPart", {ones, b.Int(radius), b.Int(radius)}, {{"T", x.dtype()}, {"Tindex", DataType::kInt32}});
  const Output rows = ops::Reshape(ops::Square(x), {-1, channels});
  const Output sums = ReshapeAs(ops::MatMul(rows, band), x);
  const Output base = sums * c.attrs().GetOr<float>("alpha", 1) + c.attrs().GetOr<float>("bias", 1);
  return x * ops::Binary("Pow", base, -c.attrs().GetOr<float>("beta", 0.5f));
}

// LRNGrad(dy, x, y): the gradient of the written-out gradient.
absl::Status LrnGradGradient(Context& c) {
  if (c.input(1).dim(-1) < 0) MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output dy = ops::Identity(c.input(0)), x = ops::Identity(c.input(1));
  GradientOptions first{.y_gradients = {dy}, .scope = "first"}, second{.y_gradients = {c.gradient()}, .scope = "second"};
  MR_ASSIGN_OR_RETURN(const std::vector<Output> dx, AddGradients(c.builder(), {WriteOutLrn(x, c)}, {x}, first));
  MR_ASSIGN_OR_RETURN(const std::vector<Output> gradients, AddGradients(c.builder(), dx, {dy, x}, second));
  for (int i = 0; i < 2; ++i) {
    if (c.wants(i)) c.Set(i, gradients[i]);
  }
  return absl::OkStatus();
}

absl::Status LrnGradient(Context& c) {
  c.Set(0, SameAttrs(c, "LRNGrad", {c.gradient(), c.input(0), c.output(0)}));
  return absl::OkStatus();
}

}  // namespace

void AddNormGradients(GradientTable& table) {
  table.Add({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}, BatchNormGradient);
  table.Add({"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"}, BatchNormGradGradient);
  table.Add("LRN", LrnGradient);
  table.Add("LRNGrad", LrnGradGradient);
}

}  // namespace millrace
