// Gradients of activations and of their gradients.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;

// dx = op(g, y) or op(g, x), with the node's own attributes (alpha of LeakyRelu).
GradientTable::Rule Paired(const char* gradient_op, bool from_output, bool gradient_first) {
  return [=](Context& c) {
    const Output other = Conj(from_output ? c.output(0) : c.input(0));
    c.Set(0, gradient_first ? SameAttrs(c, gradient_op, {c.gradient(), other})
                            : SameAttrs(c, gradient_op, {other, c.gradient()}));
    return absl::OkStatus();
  };
}

// op(dy, y) is linear in dy and piecewise constant in y: ReluGrad and its kin.
absl::Status LinearGradGradient(Context& c) {
  if (c.wants(0)) c.Set(0, SameAttrs(c, c.op(), {c.gradient(), c.input(1)}));
  return absl::OkStatus();
}

// dx = dy (y + constant) where y < 0, dy elsewhere: EluGrad, SeluGrad.
absl::Status EluGradGradient(Context& c) {
  const Output g = c.gradient(), y = c.input(1);
  if (c.wants(0)) c.Set(0, SameAttrs(c, c.op(), {g, y}));
  if (c.wants(1)) {
    const Output zero = c.builder().Scalar(y.dtype(), 0);
    c.Set(1, ops::Select(Binary("Less", y, zero), g * c.input(0), zero));
  }
  return absl::OkStatus();
}

absl::Status TanhGradGradient(Context& c) {  // dx = dy (1 - y^2)
  const Output g = c.gradient(), y = Conj(c.input(0)), dy = Conj(c.input(1));
  if (c.wants(0)) c.Set(0, g * -2.0 * dy * y);
  if (c.wants(1)) c.Set(1, Binary("TanhGrad", y, g));
  return absl::OkStatus();
}

absl::Status SigmoidGradGradient(Context& c) {  // dx = dy y (1 - y)
  const Output g = c.gradient(), y = Conj(c.input(0)), dy = Conj(c.input(1));
  if (c.wants(0)) {
    const Output product = g * dy;
    c.Set(0, product - product * 2.0 * y);
  }
  if (c.wants(1)) c.Set(1, Binary("SigmoidGrad", y, g));
  return absl::OkStatus();
}

absl::Status SoftplusGradGradient(Context& c) {  // dx = dy sigmoid(x)
  const Output g = c.gradient(), dy = c.input(0), x = c.input(1);
  if (c.wants(0)) c.Set(0, Binary("SoftplusGrad", g, x));
  if (c.wants(1)) c.Set(1, (g * dy) / (ops::Exp(-x) + ops::Exp(x) + 2.0));
  return absl::OkStatus();
}

absl::Status SoftsignGradGradient(Context& c) {  // dx = dy / (1 + |x|)^2
  const Output g = c.gradient(), x = c.input(1);
  if (c.wants(0)) c.Set(0, Binary("SoftsignGrad", g, x));
  if (c.wants(1)) c.Set(1, g * c.output(0) * -2.0 * ops::Sign(x) / (ops::Abs(x) + 1.0));
  return absl::OkStatus();
}

absl::Status BiasAddGradient(Context& c) {
  if (c.wants(0)) c.Set(0, c.gradient());
  if (c.wants(1)) {
    c.Set(1, Emit("BiasAddGrad", {c.gradient()},
                  {{"T", c.dtype()}, {"data_format", c.attrs().GetOr<std::string>("data_format", "NHWC")}}));
  }
  return absl::OkStatus();
}

absl::Status BiasAddGradGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  Output g = c.gradient();
  if (c.attrs().GetOr<std::string>("data_format", "NHWC") == "NCHW") {
    std::vector<int64_t> dims(c.input(0).rank(), 1);
    dims[1] = g.dim(0);
    g = ops::Reshape(g, dims);
  }
  c.Set(0, BroadcastAs(g, c.input(0)));
  return absl::OkStatus();
}

}  // namespace

void AddActivationGradients(GradientTable& table) {
  table.Add("Relu", Paired("ReluGrad", true, true));
  table.Add("Relu6", Paired("Relu6Grad", true, true));
  table.Add("LeakyRelu", Paired("LeakyReluGrad", false, true));
  table.Add("Elu", Paired("EluGrad", true, true));
  table.Add("Selu", Paired("SeluGrad", true, true));
  table.Add("Softplus", Paired("SoftplusGrad", false, true));
  table.Add("Softsign", Paired("SoftsignGrad", false, true));
  table.Add("Tanh", Paired("TanhGrad", true, false));
  table.Add("Sigmoid", Paired("SigmoidGrad", true, false));
  table.Add({"ReluGrad", "Relu6Grad", "LeakyReluGrad"}, LinearGradGradient);
  table.Add({"EluGrad", "SeluGrad"}, EluGradGradient);
  table.Add("TanhGrad", TanhGradGradient);
  table.Add("SigmoidGrad", SigmoidGradGradient);
  table.Add("SoftplusGrad", SoftplusGradGradient);
  table.Add("SoftsignGrad", SoftsignGradGradient);
  table.Add({"BiasAdd", "BiasAddV1"}, BiasAddGradient);
  table.Add("BiasAddGrad", BiasAddGradGradient);
}

}  // namespace millrace
