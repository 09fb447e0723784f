// Support vectors (ai.onnx.ml.SVMRegressor, SVMClassifier).
//
//   rows ──► kernel with every vector [rows, vectors] ──► weights of every pair of classes ──► scores [rows, pairs]
//   pairs vote for the label; probabilities of classes come from those of pairs (Wu, Lin and Weng's second method, as libsvm has it)
#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"
#include "onnx/ml.h"

namespace millrace::onnx {
namespace {

// How alike rows and support vectors are: [rows, vectors].
absl::StatusOr<Output> Kernel(const NodeContext& c, const Output& x, const std::vector<float>& vectors) {
  const std::string kind = c.String("kernel_type", "LINEAR");
  std::vector<float> params = c.Floats("kernel_params");
  params.resize(3, 0);
  const double gamma = params[0], coef0 = params[1], degree = params[2];
  MR_ASSIGN_OR_RETURN(const Output products, TimesRows(c, x, vectors, "support_vectors"));
  if (kind == "LINEAR") return products;
  if (kind == "SIGMOID") return ops::Tanh(products * gamma + coef0);
  if (kind == "POLY") return ops::Pow(products * gamma + coef0, c.b.Scalar(x.dtype(), degree));
  if (kind != "RBF") return c.Error(absl::StrCat("kernel_type is '", kind, "'"));
  const int64_t columns = x.dim(1), count = static_cast<int64_t>(vectors.size()) / columns;
  const Output matrix = Vector(c.b, x.dtype(), {vectors.begin(), vectors.end()}, {count, columns});
  const Output distances = ops::Sum(ops::Square(ops::ExpandDims(x, 1) - matrix), {2});
  return ops::Exp(distances * -gamma);
}

absl::Status SvmRegressor(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  const int64_t count = c.Int("n_supports", 0);
  const std::vector<float> coefficients = c.Floats("coefficients"), rho = c.Floats("rho");
  if (rho.size() != 1) return c.Error(absl::StrCat("rho has ", rho.size(), " numbers, expected 1"));
  Output like = x;
  if (count > 0) {
    MR_ASSIGN_OR_RETURN(like, Kernel(c, x, c.Floats("support_vectors")));
  }
  if (!like.valid()) return absl::OkStatus();
  if (static_cast<int64_t>(coefficients.size()) != like.dim(1)) {
    return c.Error(absl::StrCat("coefficients has ", coefficients.size(), " numbers, expected ", like.dim(1)));
  }
  MR_ASSIGN_OR_RETURN(const Output sums, TimesRows(c, like, coefficients, "coefficients"));
  Output y = sums + static_cast<double>(rho[0]);
  if (c.Int("one_class", 0) != 0) {
    y = ops::Cast(ops::Binary("Greater", y, 0), y.dtype()) * 2.0 - 1.0;
  } else {
    MR_ASSIGN_OR_RETURN(y, PostTransformed(c, y));
  }
  c.Set(0, ops::Cast(y, DataType::kFloat));
  return absl::OkStatus();
}

// One class against another, for every two of them in order: which vectors count, with what weight.
struct Pairs {
  std::vector<std::array<int64_t, 2>> classes;
  std::vector<float> weights;  // [pairs, vectors]
  int64_t size() const { return static_cast<int64_t>(classes.size()); }
};

// `coefficients` [classes - 1, vectors]: those of a class are beside its own vectors, one row for each other class.
Pairs PairsOf(const IntList& vectors_of, const std::vector<float>& coefficients) {
  const int64_t classes = static_cast<int64_t>(vectors_of.size());
  const int64_t vectors = std::accumulate(vectors_of.begin(), vectors_of.end(), int64_t{0});
  IntList first(classes, 0);
  std::partial_sum(vectors_of.begin(), vectors_of.end() - 1, first.begin() + 1);
  Pairs pairs;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j) {
      std::vector<float> row(vectors, 0);
      std::copy_n(coefficients.begin() + (j - 1) * vectors + first[i], vectors_of[i], row.begin() + first[i]);
      std::copy_n(coefficients.begin() + i * vectors + first[j], vectors_of[j], row.begin() + first[j]);
      pairs.weights.insert(pairs.weights.end(), row.begin(), row.end());
      pairs.classes.push_back({i, j});
    }
  }
  return pairs;
}

// The class that most pairs are for, the first of several; a pair is for its first class where its score is above 0.
Output MostVotes(const NodeContext& c, const Output& scores, const Pairs& pairs, int64_t classes) {
  std::vector<double> first(pairs.size() * classes, 0), second = first;
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    first[pair * classes + pairs.classes[pair][0]] = 1;
    second[pair * classes + pairs.classes[pair][1]] = 1;
  }
  const Shape shape = {pairs.size(), classes};
  const Output above = ops::Cast(ops::Binary("Greater", scores, 0), DataType::kFloat);
  const Output votes = ops::MatMul(above, Vector(c.b, DataType::kFloat, first, shape)) +
                       ops::MatMul(-above + 1.0, Vector(c.b, DataType::kFloat, second, shape));
  return ops::ArgMax(votes, 1);
}

// Probabilities of the classes [rows, classes] from those of pairs [rows, pairs], class by class until they are near enough: never more
// than some few turns, in which rows that have arrived stay.
Output Coupled(const NodeContext& c, const Output& of_pairs, const Pairs& pairs, int64_t classes) {
  constexpr int kTurns = 10;
  const int64_t rows = of_pairs.dim(0);
  std::vector<Output> better(classes * classes);  // [i, j]: of i against j, [rows, 1]
  for (int64_t pair = 0; pair < pairs.size(); ++pair) {
    const auto [i, j] = pairs.classes[pair];
    better[i * classes + j] = ops::Slice(of_pairs, {0, pair}, {-1, 1});
    better[j * classes + i] = -better[i * classes + j] + 1.0;
  }
  std::vector<Output> lines, diagonal, units;  // of the matrix Q, [rows, classes] and [rows, 1]
  for (int64_t i = 0; i < classes; ++i) {
    std::vector<Output> line(classes), squares;
    for (int64_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      line[j] = -(better[j * classes + i] * better[i * classes + j]);
      squares.push_back(ops::Square(better[j * classes + i]));
    }
    line[i] = ops::AddN(squares);
    diagonal.push_back(line[i]);
    lines.push_back(ops::Concat(line, 1));
    std::vector<double> unit(classes, 0);
    unit[i] = 1;
    units.push_back(Vector(c.b, DataType::kFloat, unit, {1, classes}));
  }
  const Output matrix = ops::Pack(lines, 1);  // symmetric
  Output p = ops::Full(c.b, {DataType::kFloat, {rows, classes}}, 1.0 / static_cast<double>(classes));
  for (int turn = 0; turn < kTurns; ++turn) {
    Output product = ops::Sum(matrix * ops::ExpandDims(p, 1), {2});
    Output whole = ops::Sum(p * product, {1}, true);
    const Output far = ops::Max(ops::Abs(product - whole), {1}, true);
    const Output going = ops::Binary("GreaterEqual", far, 0.005 / static_cast<double>(classes));
    Output next = p;
    for (int64_t i = 0; i < classes; ++i) {
      const Output own = ops::Slice(product, {0, i}, {-1, 1});
      const Output step = (whole - own) / diagonal[i];
      const Output scale = step + 1.0;
      whole = (whole + step * (step * diagonal[i] + own * 2.0)) / scale / scale;
      product = (product + step * lines[i]) / scale;
      next = (next + step * units[i]) / scale;
    }
    p = ops::Select(going, next, p);
  }
  return p;
}

// Scores of a pair as the probability of its first class: 1 / (1 + exp(score * a + b)), and neither 0 nor 1.
Output OfPairs(const NodeContext& c, const Output& scores, const std::vector<float>& a, const std::vector<float>& b) {
  const auto row = [&](const std::vector<float>& values) {
    return Vector(c.b, DataType::kFloat, {values.begin(), values.end()}, {scores.dim(1)});
  };
  constexpr double kLeast = 1e-7;
  const Output some = ops::Sigmoid(-(scores * row(a) + row(b)));
  return ops::Binary("Minimum", ops::Binary("Maximum", some, kLeast), 1 - kLeast);
}

constexpr const char *kSvmStrings = "classlabels_strings", *kSvmInts = "classlabels_ints";

absl::Status SetClasses(NodeContext& c, const Output& best, const Output& scores) {
  MR_ASSIGN_OR_RETURN(const Output labels, LabelsOf(c, best, kSvmStrings, kSvmInts));
  c.Set(0, labels);
  c.Set(1, scores);
  return absl::OkStatus();
}

// Without vectors the coefficients are a linear model's, a row for each class.
absl::Status LinearMachine(NodeContext& c, const Output& x, int64_t classes) {
  MR_ASSIGN_OR_RETURN(Output scores, TimesRows(c, x, c.Floats("coefficients"), "coefficients"));
  if (!scores.valid()) return absl::OkStatus();
  if (scores.dim(1) != classes) return c.Error(absl::StrCat("coefficients are of ", scores.dim(1), " classes, there are ", classes, " labels"));
  scores = scores + static_cast<double>(c.Floats("rho")[0]);
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores));
  return SetClasses(c, ops::ArgMax(scores, 1), y);
}

absl::Status ExpectNumbers(const NodeContext& c, const char* name, int64_t expected) {
  const int64_t count = static_cast<int64_t>(c.Floats(name).size());
  if (count == expected) return absl::OkStatus();
  return c.Error(absl::StrCat(name, " has ", count, " numbers, expected ", expected));
}

absl::Status SvmClassifier(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  x = ops::Cast(x, DataType::kFloat);
  const int64_t classes = CountLabels(c, kSvmStrings, kSvmInts);
  if (classes < 2) return c.Unsupported(absl::StrCat("a classifier of ", classes, " labels"));
  if (c.Floats("rho").empty()) return c.Error("rho has no numbers");
  const IntList vectors_of = c.Ints("vectors_per_class", {});
  const int64_t coefficients = static_cast<int64_t>(c.Floats("coefficients").size());
  const auto is_count = [&](int64_t count) { return count >= 0 && count <= coefficients; };
  if (!std::all_of(vectors_of.begin(), vectors_of.end(), is_count)) return c.Error("vectors_per_class has numbers that coefficients do not go with");
  const int64_t vectors = std::accumulate(vectors_of.begin(), vectors_of.end(), int64_t{0});
  if (vectors == 0) return LinearMachine(c, x, classes);
  if (static_cast<int64_t>(vectors_of.size()) != classes || vectors > coefficients) {
    return c.Error(absl::StrCat("vectors_per_class has ", vectors_of.size(), " numbers and ", vectors, " vectors, there are ", classes,
                                " labels and ", coefficients, " coefficients"));
  }
  // Of pairs there are tables over the vectors and, for votes, over the classes.
  constexpr int64_t kMostPairWeights = int64_t{1} << 28, kMostCoupled = 256;
  const int64_t count = classes * (classes - 1) / 2;
  if (count > kMostPairWeights / std::max(vectors, 8 * classes)) {
    return c.Unsupported(absl::StrCat(count, " pairs of ", classes, " classes with ", vectors, " vectors"));
  }
  if (!c.Floats("prob_a").empty() && classes > kMostCoupled) return c.Unsupported(absl::StrCat("probabilities of ", classes, " classes"));
  MR_RETURN_IF_ERROR(ExpectNumbers(c, "support_vectors", vectors * x.dim(1)));
  MR_RETURN_IF_ERROR(ExpectNumbers(c, "coefficients", vectors * (classes - 1)));
  MR_RETURN_IF_ERROR(ExpectNumbers(c, "rho", count));
  const Pairs pairs = PairsOf(vectors_of, c.Floats("coefficients"));
  MR_ASSIGN_OR_RETURN(const Output like, Kernel(c, x, c.Floats("support_vectors")));
  if (!like.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(Output scores, TimesRows(c, like, pairs.weights, "coefficients"));
  const std::vector<float> rho = c.Floats("rho"), a = c.Floats("prob_a"), b = c.Floats("prob_b");
  scores = scores + Vector(c.b, DataType::kFloat, {rho.begin(), rho.end()}, {pairs.size()});
  if (!scores.valid()) return absl::OkStatus();
  const Output best = MostVotes(c, scores, pairs, classes);
  if (!a.empty()) {
    MR_RETURN_IF_ERROR(ExpectNumbers(c, "prob_a", pairs.size()));
    MR_RETURN_IF_ERROR(ExpectNumbers(c, "prob_b", pairs.size()));
    scores = Coupled(c, OfPairs(c, scores, a, b), pairs, classes);
  } else if (classes == 2) {
    MR_ASSIGN_OR_RETURN(const Output both, BothScores(c, scores, c.String("post_transform", "NONE") != "NONE"));
    return SetClasses(c, best, both);
  }
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores));
  return SetClasses(c, best, y);
}

}  // namespace

void AddSvmLowerings(LoweringTable& table) {
  table.Add("ai.onnx.ml.SVMRegressor", SvmRegressor);
  table.Add("ai.onnx.ml.SVMClassifier", SvmClassifier);
}

}  // namespace millrace::onnx
