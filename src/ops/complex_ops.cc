// Complex numbers: parts, angles, Fourier transforms.
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status JoinShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  absl::StatusOr<Shape> shape = BroadcastShapes(context.shape(0), context.shape(1));
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  context.AddOutput(context.attrs().GetOr("Tout", DataType::kComplex64), *std::move(shape));
  return absl::OkStatus();
}

absl::Status ExpectComplex(const InferenceContext& context, DataType dtype) {
  if (dtype == DataType::kComplex64 || dtype == DataType::kComplex128) return absl::OkStatus();
  return context.Error(absl::StrCat("has type ", std::string(DataTypeName(dtype)), ", expected complex64 or complex128"));
}

// A real number per complex one.
absl::Status PartShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectComplex(context, context.dtype(0)));
  const DataType part = context.dtype(0) == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  if (context.attrs().GetOr("Tout", DataType::kFloat) != part) {
    return context.Error(absl::StrCat("the parts of ", context.input(0).ToString(), " are ", std::string(DataTypeName(part)),
                                      ", Tout is another type"));
  }
  context.AddOutput(part, context.shape(0));
  return absl::OkStatus();
}

absl::Status ConjugateShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectComplex(context, context.dtype(0)));
  return SameAsFirstInput(context);
}

// FFTND and its kin: of as many dimensions as they are given axes.
bool TakesAxes(std::string_view op) { return op.substr(op.size() - 2) == "ND"; }

// Of the other ones.
int Dimensions(std::string_view op) {
  return op.back() != 'D' ? 1 : op[op.size() - 2] - '0';
}

// The axes, input 2, must be the last ones in their order: TensorFlow takes no others.
absl::StatusOr<int> DimensionsOf(const InferenceContext& context) {
  if (!TakesAxes(context.op())) return Dimensions(context.op());
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 2));
  if (axes.empty()) return context.Error("axes are empty");
  const int count = static_cast<int>(axes.size());
  const Shape& shape = context.shape(0);
  if (shape.unknown_rank() || shape.rank() < count) return count;
  for (int i = 0; i < count; ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + shape.rank() : axes[i], expected = shape.rank() - count + i;
    if (axis == expected) continue;
    if (i + 1 == count) return context.Error(absl::StrCat("The last axis to perform transform on must be -1, is ", axes[i]));
    return context.Error(absl::StrCat("axes must be successive and ascending. Axis ", i, " is ", axes[i], ", expected ", expected));
  }
  return count;
}

absl::Status ExpectRankFor(const InferenceContext& context, int dims) {
  const Shape& shape = context.shape(0);
  if (shape.unknown_rank() || shape.rank() >= dims) return absl::OkStatus();
  return context.Error(absl::StrCat("Input must have rank of at least ", dims, " but got: ", shape.ToString()));
}

absl::Status FftShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(ConjugateShape(context));
  return ExpectRankFor(context, Dimensions(context.op()));
}

// (input, fft_length). Dimension `i` of the transformed ones must hold at least this many elements.
absl::Status ExpectLength(const InferenceContext& context, int dim, int64_t least) {
  const int64_t found = context.shape(0).dim(dim);
  if (found < 0 || found >= least || found == 0) return absl::OkStatus();
  return context.Error(absl::StrCat("Input dimension ", dim, " must have length of at least ", least, " but got: ", found));
}

absl::StatusOr<std::vector<int64_t>> LengthsOf(const InferenceContext& context, int dims) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> lengths, KnownInts(context, 1));
  if (static_cast<int>(lengths.size()) != dims) {
    return context.Error(absl::StrCat("fft_length must have shape [", dims, "], has ", lengths.size(), " elements"));
  }
  if (std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length < 0; })) return context.Error("fft_length must be >= 0");
  return lengths;
}

// (input, fft_length, axes). What is shorter than fft_length goes on with zeros.
absl::Status FftOfAxesShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectComplex(context, context.dtype(0)));
  MR_ASSIGN_OR_RETURN(const int dims, DimensionsOf(context));
  MR_RETURN_IF_ERROR(ExpectRankFor(context, dims));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, LengthsOf(context, dims));
  Shape shape = context.shape(0);
  for (int i = 0; i < dims && !shape.unknown_rank(); ++i) shape.set_dim(shape.rank() - dims + i, lengths[i]);
  context.AddOutput(context.dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status RealFftShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(TakesAxes(context.op()) ? 3 : 2));
  const bool inverse = context.op()[0] == 'I';
  MR_ASSIGN_OR_RETURN(const int dims, DimensionsOf(context));
  MR_RETURN_IF_ERROR(ExpectRankFor(context, dims));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, LengthsOf(context, dims));
  const DataType type = inverse ? context.attrs().GetOr("Treal", DataType::kFloat)
                                : context.attrs().GetOr("Tcomplex", DataType::kComplex64);
  const DataType whole = inverse ? context.dtype(0) : type, real = inverse ? type : context.dtype(0);
  MR_RETURN_IF_ERROR(ExpectComplex(context, whole));
  if (real != (whole == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble)) {
    return context.Error(absl::StrCat("numbers of type ", std::string(DataTypeName(real)), " have no spectrum of type ",
                                      std::string(DataTypeName(whole))));
  }
  Shape shape = context.shape(0);
  for (int i = 0; i < dims && !shape.unknown_rank(); ++i) {
    const int dim = shape.rank() - dims + i;
    const bool halved = i == dims - 1;
    MR_RETURN_IF_ERROR(ExpectLength(context, dim, inverse && halved ? lengths[i] / 2 + 1 : lengths[i]));
    shape.set_dim(dim, lengths[i] == 0 ? 0 : !inverse && halved ? lengths[i] / 2 + 1 : lengths[i]);
  }
  context.AddOutput(type, std::move(shape));
  return absl::OkStatus();
}

// Of n numbers: 5 n log2 n operations of a power of two, sums of p terms for a larger prime factor p, and beyond the largest one that is
// done so by the kernels (LaneFourier) a convolution, of two transforms of about twice the length or more.
double LineFlops(int64_t n) {
  constexpr int64_t kLargestFactor = 61;
  double each = 0;
  int64_t rest = n;
  for (int64_t factor = 2; factor <= kLargestFactor && rest > 1; ++factor) {
    for (; rest % factor == 0; rest /= factor) each += factor <= 5 ? 5 * std::log2(factor) : 8.0 * static_cast<double>(factor);
  }
  if (rest <= 1) return static_cast<double>(n) * each;
  const auto padded = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  return 2 * LineFlops(static_cast<int64_t>(padded)) + 6 * padded + 12 * static_cast<double>(n);
}

// The lines of every dimension that is transformed. Real lines are half as many complex numbers, or as many where they are odd.
Cost FourierCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  const bool backward = node.op[0] == 'I', real = node.op[backward ? 1 : 0] == 'R';
  Shape shape = node.outputs[0].shape;
  const int last = shape.rank() - 1;
  const int dims = TakesAxes(node.op) ? static_cast<int>(node.inputs[2].shape.num_elements()) : Dimensions(node.op);
  int64_t row = shape.dim(last);
  if (real && backward) shape.set_dim(last, row / 2 + 1);
  if (real && !backward) row = node.input_values.size() > 1 && !node.input_values[1].empty() ? node.input_values[1].IntAt(dims - 1) : 2 * (row - 1);
  for (int d = last - dims + 1; d <= last; ++d) {
    const int64_t numbers = shape.dim(d), length = d < last || !real ? numbers : row % 2 == 0 ? row / 2 : row;
    if (numbers > 0 && length > 0) cost.flops += LineFlops(length) * static_cast<double>(shape.num_elements() / numbers);
  }
  return cost;
}

Cost AngleCost(const OpInstance& node) {
  Cost cost = MoveCost(node);
  cost.flops = 10.0 * node.outputs[0].shape.num_elements();
  return cost;
}

}  // namespace

void RegisterComplexOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Complex", .shape = JoinShape, .cost = MoveCost});
  for (const char* name : {"Real", "Imag"}) AddOp(registry, {.name = name, .shape = PartShape, .cost = MoveCost});
  for (const char* name : {"ComplexAbs", "Angle"}) AddOp(registry, {.name = name, .shape = PartShape, .cost = AngleCost});
  AddOp(registry, {.name = "Conj", .shape = ConjugateShape, .cost = MoveCost, .in_place = {{0, 0}}});
  for (const char* name : {"FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"}) {
    AddOp(registry, {.name = name, .shape = FftShape, .cost = FourierCost, .in_place = {{0, 0}}});
  }
  for (const char* name : {"FFTND", "IFFTND"}) AddOp(registry, {.name = name, .shape = FftOfAxesShape, .cost = FourierCost});
  for (const char* name : {"RFFT", "RFFT2D", "RFFT3D", "RFFTND", "IRFFT", "IRFFT2D", "IRFFT3D", "IRFFTND"}) {
    AddOp(registry, {.name = name, .shape = RealFftShape, .cost = FourierCost});
  }
}

}  // namespace millrace
