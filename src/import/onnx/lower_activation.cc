// Activations, softmax and its kin.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

absl::Status Simple(NodeContext& c, Output (*emit)(NodeContext& c, const Output& x)) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (x.valid()) c.Set(0, emit(c, x));
  return absl::OkStatus();
}

Output Clamp(const Output& x, double low, double high) {
  return ops::Binary("Minimum", ops::Binary("Maximum", x, low), high);
}

absl::Status Relu(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) {
    if (IsFloating(x.dtype())) return ops::Relu(x);
    if (IsInteger(x.dtype()) && Lowest(x.dtype()) == 0) return ops::Identity(x);
    return ops::Cast(ops::Binary("Maximum", AsWide(x), 0), x.dtype());
  });
}

absl::Status Sigmoid(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return ops::Sigmoid(x); });
}
absl::Status Tanh(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return ops::Tanh(x); });
}
absl::Status Softplus(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return ops::Softplus(x); });
}
absl::Status Softsign(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return ops::Unary("Softsign", x); });
}

// x, or alpha (exp(x) - 1) below 0.
Output EluOf(const Output& x, double alpha) {
  if (alpha == 1) return ops::Elu(x);
  const Output below = ops::Unary("Expm1", ops::Binary("Minimum", x, 0)) * alpha;
  return ops::Select(ops::Binary("Greater", x, 0), x, below);
}

absl::Status Elu(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) { return EluOf(x, c.Float("alpha", 1)); });
}

absl::Status Selu(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) {
    constexpr float kAlpha = 1.67326319217681884765625f, kGamma = 1.05070102214813232421875f;
    const float alpha = c.Float("alpha", kAlpha), gamma = c.Float("gamma", kGamma);
    if (alpha == kAlpha && gamma == kGamma) return ops::Unary("Selu", x);
    return EluOf(x, alpha) * gamma;
  });
}

absl::Status Celu(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) {
    const double alpha = c.Float("alpha", 1);
    const Output below = ops::Unary("Expm1", ops::Binary("Minimum", x, 0) / alpha) * alpha;
    return ops::Relu(x) + below;
  });
}

absl::Status LeakyRelu(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) { return ops::LeakyRelu(x, c.Float("alpha", 0.01f)); });
}

absl::Status ThresholdedRelu(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) {
    return ops::Select(ops::Binary("Greater", x, c.Float("alpha", 1)), x, ops::ZerosLike(x));
  });
}

absl::Status HardSigmoid(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) {
    return Clamp(x * c.Float("alpha", 0.2f) + c.Float("beta", 0.5f), 0, 1);
  });
}

absl::Status HardSwish(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return x * Clamp(x * (1.0 / 6) + 0.5, 0, 1); });
}

// x sigmoid(alpha x).
Output SwishOf(const NodeContext& c, const Output& x) {
  const double alpha = c.Float("alpha", 1);
  return x * ops::Sigmoid(alpha == 1 ? x : x * alpha);
}

absl::Status Swish(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) { return SwishOf(c, x); });
}

absl::Status SwiGlu(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), gated = c.in(1);
  if (!x.valid() || !gated.valid()) return absl::OkStatus();
  if (x.type() != gated.type()) return c.Error(absl::StrCat("inputs are ", x.type().ToString(), " and ", gated.type().ToString()));
  c.Set(0, SwishOf(c, x) * gated);
  return absl::OkStatus();
}

absl::Status Mish(NodeContext& c) {
  return Simple(c, [](NodeContext&, const Output& x) { return x * ops::Tanh(ops::Softplus(x)); });
}

absl::Status Gelu(NodeContext& c) {
  const std::string form = c.String("approximate", "none");
  if (form != "none" && form != "tanh") return c.Error(absl::StrCat("approximate is '", form, "'"));
  return Simple(c, [](NodeContext& c, const Output& x) {
    if (c.String("approximate", "none") == "none") return x * 0.5 * (ops::Erf(x * std::sqrt(0.5)) + 1.0);
    const Output inner = (x + x * ops::Square(x) * 0.044715) * std::sqrt(2 / M_PI);
    return x * 0.5 * (ops::Tanh(inner) + 1.0);
  });
}

absl::Status Shrink(NodeContext& c) {
  return Simple(c, [](NodeContext& c, const Output& x) {
    const double bias = c.Float("bias", 0), bound = c.Float("lambd", 0.5f);
    const Output wide = IsFloating(x.dtype()) ? x : ops::Cast(x, DataType::kDouble);
    const Output above = ops::Select(ops::Binary("Greater", wide, bound), wide - bias, ops::ZerosLike(wide));
    return ops::Cast(ops::Select(ops::Binary("Less", wide, -bound), wide + bias, above), x.dtype());
  });
}

absl::Status PRelu(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0);
  Output slope = c.in(1);
  if (!x.valid() || !slope.valid()) return absl::OkStatus();
  constexpr int64_t kFromTheEndOpset = 7;
  if (c.opset() < kFromTheEndOpset && slope.rank() == 1 && slope.dim(0) > 1 && x.rank() > 2) {
    // Before, one for every channel.
    IntList channels(x.rank() - 1, 1);
    channels[0] = slope.dim(0);
    slope = ops::Reshape(slope, channels);
  }
  const Output y = ops::Select(ops::Binary("Less", x, 0), x * slope, x);
  if (y.valid() && y.shape() != x.shape()) {
    return c.Error(absl::StrCat("slope ", slope.type().ToString(), " does not broadcast to ", x.type().ToString()));
  }
  c.Set(0, y);
  return absl::OkStatus();
}

absl::Status Clip(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  // Numbers of 64 bits without a sign would turn negative in a wider type, and need none.
  const bool wide = AsWide(x).dtype() != x.dtype() && !IsFloating(x.dtype()) && x.dtype() != DataType::kUint64;
  Output y = wide ? AsWide(x) : x;
  const auto bound = [&](int i, const char* attribute, const char* op) -> absl::Status {
    if (c.has(i)) {
      // A bound is a number, not a weight: it stays as it is.
      absl::StatusOr<Tensor> value = c.Constant(i);
      Output limit = value.ok() ? c.b.SharedConst(*std::move(value)) : c.in(i);
      y = ops::Binary(op, y, ops::Cast(ops::Reshape(limit, {}), y.dtype()));
    } else if (c.Attribute(attribute) != nullptr) {
      y = ops::Binary(op, y, c.Float(attribute, 0));
    }
    return absl::OkStatus();
  };
  MR_RETURN_IF_ERROR(bound(1, "min", "Maximum"));
  MR_RETURN_IF_ERROR(bound(2, "max", "Minimum"));
  c.Set(0, ops::Cast(y, x.dtype()));
  return absl::OkStatus();
}

// Applies `emit`, which works along the last axis, along the attribute's axis. Before opset 13 all axes from there on
// count as one.
absl::Status AlongAxis(NodeContext& c, Output (*emit)(const Output& x)) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  constexpr int64_t kAxisAloneOpset = 13;
  const bool alone = c.opset() >= kAxisAloneOpset;
  const IntList dims = Dims(x);
  const int64_t given = c.Int("axis", alone ? -1 : 1);
  if (!alone) {
    int64_t axis = given;
    if (given != x.rank()) {
      MR_ASSIGN_OR_RETURN(axis, c.Axis(given, x.rank()));
    }
    const int64_t rows = Product(IntList(dims.begin(), dims.begin() + axis));
    const int64_t columns = Product(IntList(dims.begin() + axis, dims.end()));
    c.Set(0, ops::Reshape(emit(ops::Reshape(x, {rows, columns})), dims));
    return absl::OkStatus();
  }
  if (x.rank() == 0) {
    c.Set(0, ops::Reshape(emit(ops::Reshape(x, {1})), {}));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(given, x.rank()));
  if (axis == x.rank() - 1) {
    c.Set(0, emit(x));
    return absl::OkStatus();
  }
  IntList swap = Iota(x.rank());
  std::swap(swap[axis], swap.back());
  c.Set(0, ops::Transpose(emit(ops::Transpose(x, swap)), swap));
  return absl::OkStatus();
}

absl::Status Softmax(NodeContext& c) {
  return AlongAxis(c, [](const Output& x) { return ops::Softmax(x); });
}
absl::Status LogSoftmax(NodeContext& c) {
  return AlongAxis(c, [](const Output& x) { return ops::LogSoftmax(x); });
}
absl::Status Hardmax(NodeContext& c) {
  return AlongAxis(c, [](const Output& x) { return ops::OneHot(ops::ArgMax(x, -1), x.dim(-1), x.dtype()); });
}

}  // namespace

void AddActivationLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Relu", Relu},           {"Sigmoid", Sigmoid},         {"Tanh", Tanh},
           {"Softplus", Softplus},   {"Softsign", Softsign},       {"Elu", Elu},
           {"Selu", Selu},           {"Celu", Celu},               {"LeakyRelu", LeakyRelu},
           {"HardSwish", HardSwish}, {"HardSigmoid", HardSigmoid}, {"ThresholdedRelu", ThresholdedRelu},
           {"Mish", Mish},           {"Gelu", Gelu},               {"Shrink", Shrink},
           {"Swish", Swish},         {"SwiGLU", SwiGlu},
           {"PRelu", PRelu},         {"Clip", Clip},               {"Softmax", Softmax},
           {"Hardmax", Hardmax},     {"LogSoftmax", LogSoftmax}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
