// Gradients of the parts of complex numbers and of Fourier transforms.
#include <complex>

#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::IntList;
using In = const Output&;

DataType ComplexType(DataType part) { return part == DataType::kDouble ? DataType::kComplex128 : DataType::kComplex64; }

Output Part(const char* op, In x) { return Emit(op, {x}, {{"T", x.dtype()}, {"Tout", PartType(x.dtype())}}); }

Output Join(In real, In imag) {
  return Emit("Complex", {real, imag}, {{"T", real.dtype()}, {"Tout", ComplexType(real.dtype())}});
}

Output WithoutImag(In real) { return Join(real, real.builder()->Scalar(real.dtype(), 0)); }

absl::Status ComplexGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (c.wants(0)) SetReduced(c, 0, Part("Real", c.gradient()));
  if (c.wants(1)) SetReduced(c, 1, Part("Imag", c.gradient()));
  return absl::OkStatus();
}

absl::Status RealGradient(Context& c) {
  c.Set(0, WithoutImag(c.gradient()));
  return absl::OkStatus();
}

absl::Status ImagGradient(Context& c) {
  c.Set(0, Join(c.builder().Scalar(c.gradient().dtype(), 0), c.gradient()));
  return absl::OkStatus();
}

absl::Status ConjGradient(Context& c) {
  c.Set(0, Conj(c.gradient()));
  return absl::OkStatus();
}

// The direction of x; 0 has none.
absl::Status MagnitudeGradient(Context& c) {
  c.Set(0, ops::Binary("DivNoNan", WithoutImag(c.gradient()) * c.input(0), WithoutImag(c.output(0))));
  return absl::OkStatus();
}

// -1 / (imag + i real) = i x / |x|^2: at right angles to x.
absl::Status AngleGradient(Context& c) {
  const Output turned = Join(Part("Imag", c.input(0)), Part("Real", c.input(0)));
  c.Set(0, -(WithoutImag(c.gradient()) * ops::Reciprocal(turned)));
  return absl::OkStatus();
}

// ---- Fourier transforms over the last `Dimensions` dimensions

int Dimensions(const std::string& op) { return op.back() == 'D' ? op[op.size() - 2] - '0' : 1; }

std::string WithoutPrefix(const std::string& op, size_t count) { return op.substr(count); }

Output Fourier(const std::string& op, In x) { return Emit(op, {x}, {{"Tcomplex", x.dtype()}}); }

double TransformSize(In x, int dims) {
  double size = 1;
  for (int i = 1; i <= dims; ++i) size *= static_cast<double>(x.dim(-i));
  return size;
}

// The adjoint of the transform is its inverse times its size.
absl::Status FourierGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient();
  if (HasKnownShape(g) && g.shape().num_elements() == 0) {
    c.Set(0, g);
    return absl::OkStatus();
  }
  const bool inverse = c.op()[0] == 'I';
  const int dimensions = Dimensions(c.op());
  const Output back = Fourier(inverse ? WithoutPrefix(c.op(), 1) : "I" + c.op(), g);
  if (!HasKnownShape(g)) {
    const Output sizes = ops::Slice(ShapeOf(c.input(0)), {c.input(0).rank() - dimensions}, {dimensions});
    const Output size = ops::Cast(ops::Maximum(ops::Reduce("Prod", sizes, {0}), c.builder().Int(1)), g.dtype());
    c.Set(0, inverse ? back / size : back * size);
    return absl::OkStatus();
  }
  const double size = TransformSize(g, dimensions);
  c.Set(0, inverse ? back / size : back * size);
  return absl::OkStatus();
}

// `x` with zeros behind its elements, up to `shape`.
Output PadTo(In x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<std::pair<int64_t, int64_t>> paddings;
  for (int i = 0; i < shape.rank(); ++i) paddings.emplace_back(0, shape.dim(i) - x.dim(i));
  return ops::Pad(x, paddings);
}

// The rule, where there is a gradient of known shape and with elements.
template <absl::Status (*rule)(Context&)>
absl::Status OfElements(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(0)) return absl::OkStatus();
  if (c.gradient().shape().num_elements() > 0) return rule(c);
  c.Set(0, ops::Full(c.builder(), c.input(0).type(), 0));
  return absl::OkStatus();
}

// Half of a spectrum is given: the other half has no gradient, so the real part of the whole transform's adjoint is
// this one's. Elements beyond fft_length were not read.
absl::Status RealFourierGradient(Context& c) {
  const Output g = c.gradient(), x = c.input(0);
  MR_ASSIGN_OR_RETURN(const IntList lengths, c.ConstantInts(1));
  Shape whole = g.shape();
  whole.set_dim(whole.rank() - 1, lengths.back());
  const Output back = Fourier("IFFT" + WithoutPrefix(c.op(), 4), PadTo(g, whole));
  c.Set(0, PadTo(Part("Real", back) * TransformSize(back, Dimensions(c.op())), x.shape()));
  return absl::OkStatus();
}

// How often each of the first `count` numbers of a spectrum of `length` stands in the whole of it.
Output Multiplicities(GraphBuilder& b, DataType dtype, int64_t length) {
  const int64_t count = length / 2 + 1;
  Tensor values(dtype, Shape({count}));
  for (int64_t i = 0; i < count; ++i) {
    const double times = i == 0 || 2 * i == length ? 1 : 2;
    if (dtype == DataType::kComplex64) {
      values.mutable_as<std::complex<float>>()[i] = static_cast<float>(times);
    } else {
      values.mutable_as<std::complex<double>>()[i] = times;
    }
  }
  return b.SharedConst(std::move(values));
}

absl::Status InverseRealFourierGradient(Context& c) {
  const Output g = c.gradient(), x = c.input(0);
  const Output spectrum =
      Emit(WithoutPrefix(c.op(), 1), {g, c.input(1)}, {{"Treal", g.dtype()}, {"Tcomplex", x.dtype()}});
  const Output times = Multiplicities(c.builder(), x.dtype(), g.dim(-1));
  c.Set(0, PadTo(spectrum * (times / TransformSize(g, Dimensions(c.op()))), x.shape()));
  return absl::OkStatus();
}

}  // namespace

void AddComplexGradients(GradientTable& table) {
  table.Add("Complex", ComplexGradient);
  table.Add("Real", RealGradient);
  table.Add("Imag", ImagGradient);
  table.Add("Conj", ConjGradient);
  table.Add("ComplexAbs", MagnitudeGradient);
  table.Add("Angle", AngleGradient);
  table.Add({"FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"}, FourierGradient);
  table.Add({"RFFT", "RFFT2D", "RFFT3D"}, OfElements<RealFourierGradient>);
  table.Add({"IRFFT", "IRFFT2D", "IRFFT3D"}, OfElements<InverseRealFourierGradient>);
}

}  // namespace millrace
