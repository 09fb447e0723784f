// Normalisation.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// One value per channel, as [C, 1, ...] for a tensor of this rank.
Output PerChannel(const Output& values, int rank) {
  IntList shape(std::max(rank - 1, 1), 1);
  shape[0] = -1;
  return ops::Reshape(values, shape);
}

struct BatchNorm {
  Output x, scale, offset, mean, variance;
  float epsilon = 1e-5f;
  bool training = false;
};

// y, mean and population variance of the batch (or the given ones).
struct BatchNormOutputs {
  Output y, mean, variance;
};

// Written out, for types and ranks that TensorFlow's op does not take.
BatchNormOutputs PlainBatchNorm(const BatchNorm& n) {
  BatchNormOutputs out{.mean = n.mean, .variance = n.variance};
  const DataType wide = n.scale.dtype() == DataType::kHalf || n.scale.dtype() == DataType::kBfloat16 ? DataType::kFloat : n.scale.dtype();
  const Output x = ops::Cast(n.x, wide);
  if (n.training) {
    IntList axes = Iota(x.rank());
    axes.erase(axes.begin() + 1);
    out.mean = ops::Mean(x, axes);
    out.variance = ops::Mean(ops::Square(x - PerChannel(out.mean, x.rank())), axes);
  }
  const auto spread = [&](const Output& values) { return PerChannel(ops::Cast(values, wide), x.rank()); };
  const Output factor = spread(n.scale) * ops::Rsqrt(spread(out.variance) + n.epsilon);
  out.y = ops::Cast((x - spread(out.mean)) * factor + spread(n.offset), n.x.dtype());
  return out;
}

BatchNormOutputs FusedBatchNorm(const BatchNorm& n) {
  GraphBuilder& b = *n.x.builder();
  const IntList dims = Dims(n.x);
  // Two-dimensional inputs are images of one pixel; lines and volumes are images, too.
  const int64_t pixels = Product(IntList(dims.begin() + 2, dims.end()));
  const Output images = n.x.rank() == 4 ? n.x : ops::Reshape(n.x, {dims[0], dims[1], pixels, 1});
  const Output none = b.SharedConst(Tensor(DataType::kFloat, Shape({0})));
  const Operation op = b.Op("FusedBatchNormV3",
                            {images, n.scale, n.offset, n.training ? none : n.mean, n.training ? none : n.variance},
                            {{"T", images.dtype()},
                             {"U", DataType::kFloat},
                             {"epsilon", n.epsilon},
                             {"exponential_avg_factor", 1.0f},
                             {"data_format", std::string("NCHW")},
                             {"is_training", n.training}});
  BatchNormOutputs out{.y = op.output(0), .mean = n.mean, .variance = n.variance};
  if (n.x.rank() != 4) out.y = ops::Reshape(out.y, dims);
  if (n.training) {
    out.mean = op.output(1);
    // TensorFlow gives the sample's variance, ONNX wants the population's.
    const double count = static_cast<double>(dims[0] * pixels);
    out.variance = count > 1 ? op.output(2) * ((count - 1) / count) : op.output(2);
  }
  return out;
}

// By an attribute, the other way round before opset 7; between, results that come of training alone say it.
bool Trains(const NodeContext& c) {
  constexpr int64_t kByOutputsOpset = 7, kByModeOpset = 14;
  if (c.opset() < kByOutputsOpset) return c.Int("is_test", 0) == 0;
  return c.opset() < kByModeOpset ? c.wants(1) : c.Int("training_mode", 0) != 0;
}

absl::Status BatchNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(5, 5));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 2) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected channels in dimension 1"));
  // Before opset 9: statistics of every element of a channel. They are those of a row of as many channels.
  const bool of_elements = c.Int("spatial", 1) == 0 && x.rank() > 2;
  const IntList dims = Dims(x), per_value = of_elements ? IntList(dims.begin() + 1, dims.end()) : IntList{dims[1]};
  const auto as_given = [&](const Output& values) { return of_elements ? ops::Reshape(values, per_value) : values; };
  BatchNorm n{x, c.in(1), c.in(2), c.state(3), c.state(4), c.Float("epsilon", 1e-5f), Trains(c)};
  for (Output* values : {&n.scale, &n.offset, &n.mean, &n.variance}) {
    if (!values->valid()) return absl::OkStatus();
    if (values->shape() != Shape(per_value)) {
      return c.Error(absl::StrCat("input ", x.type().ToString(), " and ", values->type().ToString(), ": expected a value for each ",
                                  of_elements ? "element of a channel" : "channel"));
    }
    if (of_elements) *values = ops::Reshape(*values, {Product(per_value)});
  }
  if (of_elements) n.x = ops::Reshape(x, {dims[0], Product(per_value)});
  bool fused = n.scale.dtype() == DataType::kFloat && n.mean.dtype() == DataType::kFloat &&
               (x.dtype() == DataType::kFloat || x.dtype() == DataType::kHalf || x.dtype() == DataType::kBfloat16);
  fused = fused && x.shape().num_elements() > 0;
  const BatchNormOutputs out = fused ? FusedBatchNorm(n) : PlainBatchNorm(n);
  c.Set(0, of_elements ? ops::Reshape(out.y, dims) : out.y);
  if (!n.training && c.source().training()) {
    LOG_FIRST_N(WARNING, 1) << c.Describe() << " is for inference: training leaves its running mean and variance as they are, and those "
                            << "of all that are like it; exporters have a training mode";
  }
  if (!n.training || !out.mean.valid()) return absl::OkStatus();
  const double momentum = c.Float("momentum", 0.9f);
  const Output mean = as_given(n.mean * momentum + ops::Cast(out.mean, n.mean.dtype()) * (1 - momentum));
  const Output variance = as_given(n.variance * momentum + ops::Cast(out.variance, n.mean.dtype()) * (1 - momentum));
  c.Set(1, mean);
  c.Set(2, variance);
  c.Set(3, as_given(out.mean));
  c.Set(4, as_given(out.variance));
  if (!c.source().training()) return absl::OkStatus();
  for (const auto& [input, value] : {std::pair(3, mean), std::pair(4, variance)}) {
    const Variable* variable = c.source().FindVariable(c.node().input(input));
    if (variable != nullptr) c.b.AddUpdate(variable->Assign(value, "update"));
  }
  return absl::OkStatus();
}

// (x - mean) / sqrt(variance + epsilon) over `axes`.
struct Normalized {
  Output y, mean, inverse;
};
Normalized Normalize(const Output& x, const IntList& axes, double epsilon) {
  Normalized n;
  n.mean = ops::Mean(x, axes, {}, true);
  const Output centered = x - n.mean;
  n.inverse = ops::Rsqrt(ops::Mean(ops::Square(centered), axes, {}, true) + epsilon);
  n.y = centered * n.inverse;
  return n;
}

absl::Status LayerNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), x.rank()));
  IntList axes = Iota(x.rank());
  axes.erase(axes.begin(), axes.begin() + axis);
  const Normalized n = Normalize(AsWide(x), axes, c.Float("epsilon", 1e-5f));
  Output y = ops::Mul(ops::Cast(n.y, x.dtype()), c.in(1));
  if (c.has(2)) y = ops::Add(y, c.in(2));
  c.Set(0, y);
  c.Set(1, n.mean);
  c.Set(2, n.inverse);
  return absl::OkStatus();
}

absl::Status RmsNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), x.rank()));
  IntList axes = Iota(x.rank());
  axes.erase(axes.begin(), axes.begin() + axis);
  const Output wide = AsWide(x);
  const Output scaled = wide * ops::Rsqrt(ops::Mean(ops::Square(wide), axes, {}, true) + static_cast<double>(c.Float("epsilon", 1e-5f)));
  const Output y = ops::Mul(ops::Cast(scaled, c.in(1).dtype()), c.in(1));
  if (y.valid() && y.shape() != x.shape()) return c.Error(absl::StrCat("input ", x.type().ToString(), ", scale ", c.in(1).type().ToString()));
  c.Set(0, y);
  return absl::OkStatus();
}

absl::Status InstanceNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (x.rank() < 3) return c.Error(absl::StrCat("input is ", x.type().ToString(), ", expected rank 3 or more"));
  IntList axes = Iota(x.rank());
  axes.erase(axes.begin(), axes.begin() + 2);
  const Output y = ops::Cast(Normalize(AsWide(x), axes, c.Float("epsilon", 1e-5f)).y, x.dtype());
  c.Set(0, y * PerChannel(c.in(1), x.rank()) + PerChannel(c.in(2), x.rank()));
  return absl::OkStatus();
}

absl::Status GroupNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output x = c.in(0), scale = c.in(1), bias = c.in(2);
  if (!x.valid() || !scale.valid() || !bias.valid()) return absl::OkStatus();
  const int64_t groups = c.Int("num_groups", 0);
  if (x.rank() < 3 || groups < 1 || x.dim(1) % groups != 0) {
    return c.Error(absl::StrCat(groups, " groups of ", x.type().ToString()));
  }
  const IntList dims = Dims(x);
  IntList grouped = {dims[0], groups, dims[1] / groups};
  grouped.insert(grouped.end(), dims.begin() + 2, dims.end());
  IntList axes = Iota(static_cast<int64_t>(grouped.size()));
  axes.erase(axes.begin(), axes.begin() + 2);
  Output y = ops::Cast(Normalize(AsWide(ops::Reshape(x, grouped)), axes, c.Float("epsilon", 1e-5f)).y, x.dtype());
  // Up to opset 20 a scale and a bias per group, later per channel.
  const bool per_group = scale.dim(0) == groups && c.opset() < 21;
  if (per_group) y = y * PerChannel(scale, y.rank()) + PerChannel(bias, y.rank());
  y = ops::Reshape(y, dims);
  if (!per_group) y = y * PerChannel(scale, y.rank()) + PerChannel(bias, y.rank());
  c.Set(0, y);
  return absl::OkStatus();
}

absl::Status MeanVarianceNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const IntList axes, c.Axes(c.Ints("axes", {0, 2, 3}), x.rank()));
  const Output centered = x - ops::Mean(x, axes, {}, true);
  c.Set(0, centered / (ops::Sqrt(ops::Mean(ops::Square(centered), axes, {}, true)) + 1e-9));
  return absl::OkStatus();
}

// TensorFlow's op works on the last dimension and on odd windows; the sum over channels is written out otherwise.
absl::Status Lrn(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  const int64_t size = c.Int("size", 1);
  if (x.rank() < 3 || size < 1 || size > 4096) {
    return c.Error(absl::StrCat("a window of ", size, " channels of ", x.type().ToString()));
  }
  const float alpha = c.Float("alpha", 1e-4f), beta = c.Float("beta", 0.75f), bias = c.Float("bias", 1);
  if (x.rank() == 4 && size % 2 == 1 && x.dtype() == DataType::kFloat) {
    const Output last = ops::Transpose(x, {0, 2, 3, 1});
    const Output y = ops::Lrn(last, (size - 1) / 2, bias, alpha / static_cast<float>(size), beta);
    c.Set(0, ops::Transpose(y, {0, 3, 1, 2}));
    return absl::OkStatus();
  }
  std::vector<std::pair<int64_t, int64_t>> pads(x.rank(), {0, 0});
  pads[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const Output padded = ops::Pad(ops::Square(x), pads);
  std::vector<Output> parts;
  for (int64_t i = 0; i < size; ++i) {
    IntList begin(x.rank(), 0);
    begin[1] = i;
    parts.push_back(Part(padded, begin, Dims(x)));
  }
  const Output sum = ops::AddN(parts) * (alpha / static_cast<double>(size)) + bias;
  c.Set(0, x / ops::Binary("Pow", sum, beta));
  return absl::OkStatus();
}

absl::Status LpNormalization(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), x.rank()));
  const int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) return c.Error(absl::StrCat("p is ", p, ", expected 1 or 2"));
  const Output norm = p == 1 ? ops::Reduce("Sum", ops::Abs(x), {axis}, true)
                             : ops::Sqrt(ops::Reduce("Sum", ops::Square(x), {axis}, true));
  c.Set(0, ops::Binary("DivNoNan", x, norm));
  return absl::OkStatus();
}

}  // namespace

void AddNormLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"BatchNormalization", BatchNormalization},
           {"LayerNormalization", LayerNormalization},
           {"RMSNormalization", RmsNormalization},
           {"InstanceNormalization", InstanceNormalization},
           {"GroupNormalization", GroupNormalization},
           {"MeanVarianceNormalization", MeanVarianceNormalization},
           {"LpNormalization", LpNormalization},
           {"LRN", Lrn}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
