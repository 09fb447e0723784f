// Losses.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct LossInputs {
  Output rows;     // [rows, classes]: logits or logarithms of probabilities
  Output classes;  // [rows], int64; 0 where ignored
  Output weights;  // [rows]; invalid when all are 1
  IntList shape;   // of one value a row: the labels'
};

// scores [N, C, d...] and labels [N, d...] as rows.
absl::StatusOr<LossInputs> ReadLoss(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 3));
  const Output scores = c.in(0), labels = c.in(1);
  LossInputs loss;
  if (!scores.valid() || !labels.valid()) return c.b.status();
  IntList expected = Dims(scores);
  if (scores.rank() >= 2) expected.erase(expected.begin() + 1);
  if (scores.rank() < 2 || Dims(labels) != expected || !IsInteger(labels.dtype())) {
    return c.Error(absl::StrCat("scores ", scores.type().ToString(), " and labels ", labels.type().ToString()));
  }
  loss.shape = expected;
  IntList last = Iota(scores.rank());
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  const int64_t classes = scores.dim(1), rows = Product(expected);
  loss.rows = ops::Reshape(scores.rank() == 2 ? scores : ops::Transpose(scores, last), {rows, classes});
  loss.classes = ops::Reshape(ops::Cast(labels, DataType::kInt64), {rows});
  Output counts;
  if (c.Attribute("ignore_index") != nullptr) {
    counts = ops::Binary("NotEqual", loss.classes, static_cast<double>(c.Int("ignore_index", 0)));
    loss.classes = ops::Select(counts, loss.classes, ops::ZerosLike(loss.classes));
  }
  if (c.has(2)) loss.weights = ops::Gather(c.state(2), loss.classes);  // weights of classes do not train
  if (counts.valid()) {
    const Output mask = ops::Cast(counts, scores.dtype());
    loss.weights = loss.weights.valid() ? loss.weights * mask : mask;
  }
  return loss;
}

// Row losses weighted and reduced as the attribute says.
absl::Status SetLoss(NodeContext& c, const LossInputs& inputs, Output rows) {
  const std::string reduction = c.String("reduction", "mean");
  if (inputs.weights.valid()) rows = rows * inputs.weights;
  if (reduction == "none") {
    c.Set(0, ops::Reshape(rows, inputs.shape));
  } else if (reduction == "sum") {
    c.Set(0, ops::Sum(rows, {}));
  } else if (reduction == "mean") {
    c.Set(0, inputs.weights.valid() ? ops::Sum(rows, {}) / ops::Sum(inputs.weights, {}) : ops::Mean(rows, {}));
  } else {
    return c.Error(absl::StrCat("reduction is '", reduction, "'"));
  }
  return absl::OkStatus();
}

// -values[row, class of the row].
Output Picked(const LossInputs& inputs, const Output& values) {
  GraphBuilder& b = *values.builder();
  const Output rows = ops::Cast(ops::Range(b.Int(0), b.Int(values.dim(0)), b.Int(1)), DataType::kInt64);
  // Pairs, not places in all the rows: a class out of range is no other row's.
  const Output places = ops::Pack({{rows, inputs.classes}}, 1);
  return -b.Op("GatherNd", {values, places}, {{"Tparams", values.dtype()}, {"Tindices", DataType::kInt64}}).output(0);
}

absl::Status NegativeLogLikelihood(NodeContext& c) {
  MR_ASSIGN_OR_RETURN(const LossInputs inputs, ReadLoss(c));
  if (!inputs.rows.valid()) return absl::OkStatus();
  return SetLoss(c, inputs, Picked(inputs, inputs.rows));
}

absl::Status SoftmaxCrossEntropy(NodeContext& c) {
  MR_ASSIGN_OR_RETURN(const LossInputs inputs, ReadLoss(c));
  if (!inputs.rows.valid()) return absl::OkStatus();
  if (c.wants(1)) {
    const Output log_prob = ops::LogSoftmax(inputs.rows);
    IntList spread = inputs.shape, back = Iota(static_cast<int64_t>(inputs.shape.size()) + 1);
    spread.push_back(inputs.rows.dim(1));
    std::rotate(back.begin() + 1, back.end() - 1, back.end());
    c.Set(1, ops::Transpose(ops::Reshape(log_prob, spread), back));
    return SetLoss(c, inputs, Picked(inputs, log_prob));
  }
  if (inputs.rows.dtype() == DataType::kFloat) {
    return SetLoss(c, inputs, ops::SparseSoftmaxCrossEntropy(inputs.rows, inputs.classes).loss);
  }
  return SetLoss(c, inputs, Picked(inputs, ops::LogSoftmax(inputs.rows)));
}

}  // namespace

void AddLossLowerings(LoweringTable& table) {
  table.Add("NegativeLogLikelihoodLoss", NegativeLogLikelihood);
  table.Add("SoftmaxCrossEntropyLoss", SoftmaxCrossEntropy);
}

}  // namespace millrace::onnx
