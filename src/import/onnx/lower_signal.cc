// Fourier transforms of known lengths, as products with their matrices, and the mel scale's weights.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

constexpr int64_t kMostElements = 1 << 24;

// What x[n] counts for in bin k: exp(-2 pi i n k / length), or of the inverse exp(2 pi i n k / length) / length.
struct Transform {
  int64_t length, samples, bins;  // samples: that there are, at most `length`
  bool inverse;
  // Of an inverse: the samples are the first half of a spectrum whose other half mirrors them, the result is real.
  bool mirrored = false;
};

struct Matrices {
  Output cosine, sine;  // [samples, bins], the sine with its sign
};

Matrices MatricesOf(GraphBuilder& b, const Transform& t) {
  std::vector<double> cosine(t.samples * t.bins), sine(t.samples * t.bins);
  const double scale = t.inverse ? 1.0 / static_cast<double>(t.length) : 1.0;
  for (int64_t n = 0; n < t.samples; ++n) {
    const double times = t.mirrored && n > 0 && 2 * n != t.length ? 2 : 1;
    for (int64_t k = 0; k < t.bins; ++k) {
      const double angle = 2 * M_PI * static_cast<double>(n * k % t.length) / static_cast<double>(t.length);
      cosine[n * t.bins + k] = times * scale * std::cos(angle);
      sine[n * t.bins + k] = times * (t.inverse ? scale : -scale) * std::sin(angle);
    }
  }
  const Shape shape({t.samples, t.bins});
  return {Vector(b, DataType::kDouble, cosine, shape), Vector(b, DataType::kDouble, sine, shape)};
}

// x[..., samples, 1 or 2] (real, or real and imaginary parts) -> [..., bins, 2], computed in double so that bins which
// cancel are as good as 0.
Output Transformed(const Output& x, const Transform& t) {
  GraphBuilder& b = *x.builder();
  IntList dims = Dims(x);
  const int64_t parts = dims.back();
  dims.pop_back();
  const int64_t rows = Product(IntList(dims.begin(), dims.end() - 1));
  const Output wide = ops::Cast(x, DataType::kDouble);
  const Matrices m = MatricesOf(b, t);
  const auto part = [&](int64_t i) { return ops::Reshape(ops::Index(wide, i, -1), {rows, t.samples}); };
  const Output real = part(0);
  Output re = ops::MatMul(real, m.cosine);
  if (parts == 2) re = re - ops::MatMul(part(1), m.sine);
  dims.back() = t.bins;
  if (t.mirrored) {
    dims.push_back(1);
    return ops::Cast(ops::Reshape(re, dims), x.dtype());
  }
  Output im = ops::MatMul(real, m.sine);
  if (parts == 2) im = im + ops::MatMul(part(1), m.cosine);
  dims.push_back(2);
  return ops::Cast(ops::Reshape(ops::Pack({re, im}, -1), dims), x.dtype());
}

absl::Status ExpectParts(const NodeContext& c, const Output& x) {
  if (x.rank() >= 2 && (x.dim(-1) == 1 || x.dim(-1) == 2) && IsFloating(x.dtype()) && x.shape().num_elements() > 0) {
    return absl::OkStatus();
  }
  return c.Error(absl::StrCat("input ", x.type().ToString(),
                              ", expected floats with a last dimension of 1, or of 2: real and imaginary parts"));
}

absl::Status ExpectLength(const NodeContext& c, int64_t length, int64_t samples) {
  const bool good = length >= 1 && length <= kMostElements && samples >= 1 && length * samples <= kMostElements;
  if (good) return absl::OkStatus();
  return c.Error(absl::StrCat("a transform of length ", length, " of ", samples, " samples, expected at most ",
                              kMostElements, " elements in its matrix"));
}

absl::Status Dft(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 3));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectParts(c, x));
  int64_t axis = c.opset() >= 20 ? -2 : c.Int("axis", 1);
  if (c.has(2)) {
    MR_ASSIGN_OR_RETURN(const IntList given, c.ConstantInts(2));
    if (given.size() != 1) return c.Error("axis is not a scalar");
    axis = given[0];
  }
  MR_ASSIGN_OR_RETURN(axis, c.Axis(axis, x.rank()));
  if (axis == x.rank() - 1) return c.Error("axis is that of the real and imaginary parts");
  const bool inverse = c.Int("inverse", 0) != 0, onesided = c.Int("onesided", 0) != 0, mirrored = inverse && onesided;
  const int64_t present = x.dim(static_cast<int>(axis));
  int64_t length = mirrored ? 2 * (present - 1) : present;
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(const IntList given, c.ConstantInts(1));
    if (given.size() != 1) return c.Error("dft_length is not a scalar");
    length = given[0];
  }
  const int64_t samples = std::min(mirrored ? length / 2 + 1 : length, present);
  MR_RETURN_IF_ERROR(ExpectLength(c, length, samples));
  IntList begin(x.rank(), 0), size = Dims(x), order = Iota(x.rank());
  size[axis] = samples;
  std::swap(order[axis], order[x.rank() - 2]);
  const Output moved = ops::Transpose(Part(x, begin, size), order);
  const Transform transform{length, samples, onesided && !inverse ? length / 2 + 1 : length, inverse, mirrored};
  c.Set(0, ops::Transpose(Transformed(moved, transform), order));
  return absl::OkStatus();
}

// Transforms of windows [batch, frames, length] of a signal.
absl::Status Stft(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 4));
  const Output x = c.in(0);
  MR_ASSIGN_OR_RETURN(const IntList step, c.ConstantInts(1));
  if (!x.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectParts(c, x));
  int64_t length = 0;
  if (c.has(3)) {
    MR_ASSIGN_OR_RETURN(const IntList given, c.ConstantInts(3));
    if (given.size() == 1) length = given[0];
  } else if (c.has(2)) {
    length = c.in(2).shape().num_elements();
  }
  if (x.rank() != 3 || step.size() != 1 || step[0] < 1 || length < 1 || length > x.dim(1)) {
    return c.Error(absl::StrCat("signal ", x.type().ToString(), ", frames of ", length, " samples"));
  }
  const int64_t frames = (x.dim(1) - length) / step[0] + 1;
  MR_RETURN_IF_ERROR(ExpectLength(c, length, std::max(length, frames)));
  IntList samples;
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t i = 0; i < length; ++i) samples.push_back(f * step[0] + i);
  }
  const Output at = ops::Reshape(c.b.Ints(samples), {frames, length});
  Output framed = ops::Gather(x, at, 1);  // [batch, frames, length, parts]
  if (c.has(2)) {
    const Output window = c.in(2);
    if (window.shape() != Shape({length})) return c.Error(absl::StrCat("window ", window.type().ToString()));
    framed = framed * ops::Reshape(window, {length, 1});
  }
  const bool onesided = c.Int("onesided", 1) != 0 && x.dim(-1) == 1;
  c.Set(0, Transformed(framed, {length, length, onesided ? length / 2 + 1 : length, false}));
  return absl::OkStatus();
}

// Triangles over the bins of a spectrum, as wide as the mel scale says.
absl::Status MelWeightMatrix(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(5, 5));
  IntList counts;
  std::vector<double> edges;
  for (int i = 0; i < 3; ++i) {
    MR_ASSIGN_OR_RETURN(const IntList value, c.ConstantInts(i));
    counts.insert(counts.end(), value.begin(), value.end());
  }
  for (int i = 3; i < 5; ++i) {
    MR_ASSIGN_OR_RETURN(const std::vector<double> value, c.ConstantFloats(i));
    edges.insert(edges.end(), value.begin(), value.end());
  }
  if (counts.size() != 3 || edges.size() != 2) return c.Error("an input is not a scalar");
  const int64_t bands = counts[0], length = counts[1], rate = counts[2], bins = length / 2 + 1;
  if (bands < 1 || bands > kMostElements || length < 1 || length > kMostElements || rate < 1 ||
      bands * bins > kMostElements) {
    return c.Error(absl::StrCat(bands, " bands of ", length, " samples at a rate of ", rate));
  }
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(edges[0]), width = (mel(edges[1]) - low) / static_cast<double>(bands + 2);
  IntList edge_bins;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * width + low) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins))) return c.Error("an edge is beyond the spectrum");
    edge_bins.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> weights(bins * bands, 0);
  for (int64_t i = 0; i < bands; ++i) {
    const int64_t lower = edge_bins[i], centre = edge_bins[i + 1], upper = edge_bins[i + 2];
    if (lower == centre) weights[centre * bands + i] = 1;
    for (int64_t k = lower; lower < centre && k <= centre; ++k) {
      weights[k * bands + i] = static_cast<double>(k - lower) / static_cast<double>(centre - lower);
    }
    for (int64_t k = centre; k < upper; ++k) {
      weights[k * bands + i] = static_cast<double>(upper - k) / static_cast<double>(upper - centre);
    }
  }
  const DataType dtype = TypeFromOnnx(static_cast<int32_t>(c.Int("output_datatype", 1)));
  c.Set(0, Vector(c.b, dtype, weights, {bins, bands}));
  return absl::OkStatus();
}

}  // namespace

void AddSignalLowerings(LoweringTable& table) {
  table.Add("DFT", Dft);
  table.Add("STFT", Stft);
  table.Add("MelWeightMatrix", MelWeightMatrix);
}

}  // namespace millrace::onnx
