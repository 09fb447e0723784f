// Gradients of softmax and of the losses.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

absl::Status SoftmaxGradient(Context& c) {
  const Output g = c.gradient(), y = c.output(0);
  c.Set(0, (g - ops::Sum(g * y, {-1}, true)) * y);
  return absl::OkStatus();
}

absl::Status LogSoftmaxGradient(Context& c) {
  const Output g = c.gradient();
  c.Set(0, g - ops::Sum(g, {-1}, true) * ops::Exp(c.output(0)));
  return absl::OkStatus();
}

// A value per row, times rows.
Output TimesRows(const Output& per_row, const Output& rows) { return ops::ExpandDims(per_row, -1) * rows; }

// The loss op gives its gradient beside the loss; that output is differentiated too (second derivatives).
absl::Status CrossEntropyGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output logits = c.input(0);
  if (c.wants(0)) {
    Output result;
    if (c.has_gradient(0)) result = TimesRows(c.gradient(0), c.output(1));
    if (c.has_gradient(1)) {
      const Output softmax = ops::Softmax(logits), g = c.gradient(1);
      const Output second = (g - ops::Sum(g * softmax, {-1}, true)) * softmax;
      result = result.valid() ? result + second : second;
    }
    SetReduced(c, 0, result);
  }
  if (c.op() == "SoftmaxCrossEntropyWithLogits" && c.wants(1)) {
    // loss = -sum(labels log softmax), backprop = softmax - labels
    Output result;
    if (c.has_gradient(0)) result = TimesRows(c.gradient(0), -ops::LogSoftmax(logits));
    if (c.has_gradient(1)) result = result.valid() ? result - c.gradient(1) : -c.gradient(1);
    SetReduced(c, 1, result);
  }
  return absl::OkStatus();
}

absl::Status CtcGradient(Context& c) {
  if (c.wants(0)) c.Set(0, TimesRows(c.gradient(0), c.output(1)));
  return absl::OkStatus();
}

}  // namespace

void AddLossGradients(GradientTable& table) {
  table.Add("Softmax", SoftmaxGradient);
  table.Add("LogSoftmax", LogSoftmaxGradient);
  table.Add({"SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits"}, CrossEntropyGradient);
  table.Add({"CTCLoss", "CTCLossV2"}, CtcGradient);
}

}  // namespace millrace
