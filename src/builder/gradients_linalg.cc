// Gradients of decompositions and solutions of matrices, each matrix of a batch on its own. After M. Giles, "Collected
// Matrix Derivative Results for Forward and Reverse Mode AD" (2008); QR after F. Walter and L. Lehmann (2010), wide
// matrices by their square part; SVD of thin factors after J. Townsend, "Differentiating the Singular Value
// Decomposition" (2016). Entries that an op does not read have none of the gradient.
#include <tuple>
#include <utility>

#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::BatchMatMul;
using ops::IntList;
using In = const Output&;

// Conjugated where it is complex.
Output Adjoint(In x) {
  IntList permutation(x.rank());
  for (int i = 0; i < x.rank(); ++i) permutation[i] = i;
  std::swap(permutation[x.rank() - 1], permutation[x.rank() - 2]);
  if (!IsComplex(x.dtype())) return ops::Transpose(x, permutation);
  return Emit("ConjugateTranspose", {x, x.builder()->Ints(permutation)}, {{"T", x.dtype()}, {"Tperm", DataType::kInt32}});
}

// Keeps `lower` diagonals below the main one and `upper` above it; -1: all.
Output Band(In x, int64_t lower, int64_t upper) {
  GraphBuilder& b = *x.builder();
  return Emit("MatrixBandPart", {x, b.Int(lower), b.Int(upper)}, {{"T", x.dtype()}, {"Tindex", DataType::kInt32}});
}

Output Diagonal(In x) { return ops::Unary("MatrixDiagPart", x); }
Output OfDiagonal(In x) { return ops::Unary("MatrixDiag", x); }
Output WithDiagonal(In x, In diagonal) { return Emit("MatrixSetDiag", {x, diagonal}, {{"T", x.dtype()}}); }

// The lower triangle of x with half of the diagonal.
Output HalfLower(In x) {
  const Output lower = Band(x, -1, 0);
  return WithDiagonal(lower, Diagonal(lower) * 0.5);
}

Output Columns(In x, int64_t begin, int64_t count) {
  IntList from(x.rank(), 0), size = Dims(x);
  from.back() = begin;
  size.back() = count;
  return ops::Slice(x, from, size);
}

// [..., 1, 1]
Output AsMatrices(In x) { return ops::ExpandDims(ops::ExpandDims(x, -1), -1); }

Output Inverse(In x, bool adjoint) { return Emit("MatrixInverse", {x}, {{"T", x.dtype()}, {"adjoint", adjoint}}); }

Output TriangularSolve(In a, In b, bool lower, bool adjoint) {
  return Emit("MatrixTriangularSolve", {a, b}, {{"T", a.dtype()}, {"lower", lower}, {"adjoint", adjoint}});
}

absl::Status InverseGradient(Context& c) {
  const Output y = c.output(0), g = c.gradient();
  const bool adjoint = c.attrs().GetOr<bool>("adjoint", false);
  c.Set(0, adjoint ? -BatchMatMul(y, BatchMatMul(g, y, {.a = true}))
                   : -BatchMatMul(y, BatchMatMul(g, y, {.b = true}), {.a = true}));
  return absl::OkStatus();
}

absl::Status DeterminantGradient(Context& c) {
  c.Set(0, AsMatrices(c.gradient() * Conj(c.output(0))) * Inverse(c.input(0), true));
  return absl::OkStatus();
}

// (sign, logarithm of the absolute value): of a complex determinant, whose sign is exp(i angle), the imaginary part and the real part
// of its logarithm.
absl::Status LogDeterminantGradient(Context& c) {
  Output gradient = c.gradient(1);
  if (const DataType type = gradient.dtype(); IsComplex(type)) {
    const DataType part = type == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
    const auto of = [&](const char* op, In z) -> Output { return Emit(op, {z}, {{"T", type}, {"Tout", part}}); };
    const Output real = of("Real", gradient), angle = of("Imag", c.gradient(0) * Conj(c.output(0)));
    gradient = Emit("Complex", {real, angle}, {{"T", part}, {"Tout", type}});
  }
  c.Set(0, AsMatrices(gradient) * Inverse(c.input(0), true));
  return absl::OkStatus();
}

// The input is symmetric: both of its triangles get their half.
absl::Status CholeskyGradient(Context& c) {
  const Output l = c.output(0);
  const Output middle = HalfLower(BatchMatMul(l, c.gradient(), {.a = true}));
  const Output left = TriangularSolve(l, middle, true, true);                             // L^-T M
  const Output both = Adjoint(TriangularSolve(l, Adjoint(left), true, true));  // L^-T M L^-1
  c.Set(0, (both + Adjoint(both)) * 0.5);
  return absl::OkStatus();
}

absl::Status SolveGradient(Context& c) {
  AttrMap attrs = c.attrs();
  const bool adjoint = attrs.GetOr<bool>("adjoint", false);
  attrs.Set("adjoint", !adjoint);
  const Output x = c.output(0), db = Emit(c.op(), {c.input(0), c.gradient()}, attrs);
  if (c.wants(0)) {
    Output da = -(adjoint ? BatchMatMul(x, db, {.b = true}) : BatchMatMul(db, x, {.b = true}));
    if (c.op() == "MatrixTriangularSolve") {
      da = attrs.GetOr<bool>("lower", true) ? Band(da, -1, 0) : Band(da, 0, -1);
    }
    SetReduced(c, 0, da);
  }
  if (c.wants(1)) SetReduced(c, 1, db);
  return absl::OkStatus();
}

// x R^-H for an upper triangular R.
Output TimesInverseAdjoint(In x, In r) { return Adjoint(TriangularSolve(r, Adjoint(x), false, false)); }

// Rows >= columns: (dQ + Q M) R^-H, M the Hermitian matrix with the lower triangle of R dR' - dQ' Q. R's diagonal is real, which
// is what determines complex factors.
Output DeepQr(In q, In r, In dq, In dr) {
  const Output m = BatchMatMul(r, Band(dr, 0, -1), {.b = true}) - BatchMatMul(dq, q, {.a = true});
  const Output half = HalfLower(m);
  return TimesInverseAdjoint(dq + BatchMatMul(q, half + Adjoint(half)), r);
}

absl::Status QrGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output a = c.input(0), q = c.output(0), r = c.output(1), dq = c.gradient(0), dr = c.gradient(1);
  const int64_t rows = a.dim(-2), columns = a.dim(-1);
  if (rows > columns && q.dim(-1) == rows) {
    return c.Error("full_matrices leaves the last columns of q undetermined when there are more rows than columns");
  }
  if (rows >= columns) {
    c.Set(0, DeepQr(q, r, dq, dr));
    return absl::OkStatus();
  }
  // a = [x, y], r = [u, v]: x = q u, y = q v.
  const int64_t rest = columns - rows;
  const Output y = Columns(a, rows, rest), dv = Columns(dr, rows, rest);
  const Output dx = DeepQr(q, Columns(r, 0, rows), dq + BatchMatMul(y, dv, {.b = true}), Columns(dr, 0, rows));
  c.Set(0, ops::Concat({dx, BatchMatMul(q, dv)}, a.rank() - 1));
  return absl::OkStatus();
}

// f[i, j] = 1 / (values[j] - values[i]), 0 where they are equal: vectors of equal values are not determined.
Output InverseDifferences(In values) {
  return ops::Binary("DivNoNan", values.builder()->Scalar(values.dtype(), 1),
                     ops::ExpandDims(values, -2) - ops::ExpandDims(values, -1));
}

// The op reads the lower triangle only.
absl::Status EigenGradient(Context& c) {
  const Output a = c.input(0);
  Output values = c.output(0), vectors = c.output(1), middle = OfDiagonal(c.gradient(0));
  if (!c.attrs().GetOr<bool>("compute_v", true)) {
    vectors = Emit("SelfAdjointEigV2", {a}, {{"T", a.dtype()}, {"compute_v", true}}).output(1);
  } else if (c.has_gradient(1)) {
    middle = middle + InverseDifferences(values) * BatchMatMul(vectors, c.gradient(1), {.a = true});
  }
  const Output full = BatchMatMul(vectors, BatchMatMul(middle, vectors, {.b = true}));
  c.Set(0, HalfLower(full + Adjoint(full)));
  return absl::OkStatus();
}

// Vectors beyond the first `count` span what the first do not: they turn as little as they can.
std::pair<Output, Output> FirstVectors(In vectors, In gradient, int64_t count) {
  const int64_t rest = vectors.dim(-1) - count;
  if (rest == 0) return {vectors, gradient};
  const Output first = Columns(vectors, 0, count), others = Columns(vectors, count, rest);
  const Output turned = BatchMatMul(Columns(gradient, count, rest), first, {.a = true});
  return {first, Columns(gradient, 0, count) - BatchMatMul(others, turned)};
}

// The real part, as a number of the same type.
Output RealPart(In z) {
  if (!IsComplex(z.dtype())) return z;
  return ops::Cast(Emit("Real", {z}, {{"T", z.dtype()}, {"Tout", z.dtype() == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble}}), z.dtype());
}

// a = u diag(s) v': the parts of the gradient through u and v. Complex vectors have a phase in common that is not determined: the
// gradient is that of results that do not depend on it.
Output SvdThroughVectors(In s, In u, In du, In v, In dv) {
  const Output f = InverseDifferences(ops::Square(s));
  const auto turn = [&f](In vectors, In gradient) {
    const Output product = f * BatchMatMul(vectors, gradient, {.a = true});
    return product + Adjoint(product);
  };
  const Output row = ops::ExpandDims(s, -2), column = ops::ExpandDims(s, -1);
  Output inner = turn(u, du) * row + column * turn(v, dv);
  if (IsComplex(u.dtype())) {
    const Output turned = Diagonal(BatchMatMul(u, du, {.a = true}));
    inner = inner + OfDiagonal(ops::Binary("DivNoNan", turned - RealPart(turned), s));
  }
  Output sum = BatchMatMul(u, BatchMatMul(inner, v, {.b = true}));
  const Output inverse = ops::Binary("DivNoNan", s.builder()->Scalar(s.dtype(), 1), row);
  // What leaves the span of the thin factor.
  const auto outside = [](In vectors, In scaled) {
    return scaled - BatchMatMul(vectors, BatchMatMul(vectors, scaled, {.a = true}));
  };
  if (u.dim(-2) > u.dim(-1)) sum = sum + BatchMatMul(outside(u, du * inverse), v, {.b = true});
  if (v.dim(-2) > v.dim(-1)) sum = sum + BatchMatMul(u, outside(v, dv * inverse), {.b = true});
  return sum;
}

absl::Status SvdGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output a = c.input(0);
  const bool vectors = c.attrs().GetOr<bool>("compute_uv", true);
  const Operation svd = vectors ? Operation(&c.builder(), c.node())
                                : Emit("Svd", {a}, {{"T", a.dtype()}, {"compute_uv", true}, {"full_matrices", false}});
  const Output s = svd.output(0);
  const int64_t count = s.dim(-1);
  Output u = svd.output(1), v = svd.output(2), du, dv;
  const bool through_vectors = vectors && (c.has_gradient(1) || c.has_gradient(2));
  if (vectors) {
    std::tie(u, du) = FirstVectors(u, c.gradient(1), count);
    std::tie(v, dv) = FirstVectors(v, c.gradient(2), count);
  }
  Output da = BatchMatMul(u * ops::ExpandDims(RealPart(c.gradient(0)), -2), v, {.b = true});
  if (through_vectors) da = da + SvdThroughVectors(s, u, du, v, dv);
  c.Set(0, da);
  return absl::OkStatus();
}

// r r = a: the gradient g of r is g' of the Sylvester equation r' g' + g' r' = g, which is linear in the elements of g'.
absl::Status SquareRootGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output root = c.output(0), turned = Adjoint(root);
  const int64_t n = root.dim(-1);
  const Output unit = OfDiagonal(Diagonal(root) * 0.0 + 1.0);
  IntList batch = Dims(root);
  batch.resize(batch.size() - 2);
  const auto with = [&batch](std::initializer_list<int64_t> dims) {
    IntList all = batch;
    all.insert(all.end(), dims.begin(), dims.end());
    return all;
  };
  const auto kronecker = [&](In a, In b) {
    const Output product = ops::Reshape(a, with({n, 1, n, 1})) * ops::Reshape(b, with({1, n, 1, n}));
    return ops::Reshape(product, with({n * n, n * n}));
  };
  const Output sum = kronecker(unit, turned) + kronecker(root, unit);
  const Output columns = ops::Reshape(Adjoint(c.gradient()), with({n * n, 1}));
  const Output solved = Emit("MatrixSolve", {sum, columns}, {{"T", root.dtype()}, {"adjoint", false}});
  c.Set(0, Adjoint(ops::Reshape(solved, Dims(root))));
  return absl::OkStatus();
}

// Vectors of three elements: the derivative of a x b by a is b x g, by b it is g x a.
absl::Status CrossGradient(Context& c) {
  const Output g = c.gradient();
  if (c.wants(0)) c.Set(0, ops::Binary("Cross", c.input(1), g));
  if (c.wants(1)) c.Set(1, ops::Binary("Cross", g, c.input(0)));
  return absl::OkStatus();
}

}  // namespace

void AddLinalgGradients(GradientTable& table) {
  table.Add("MatrixInverse", InverseGradient);
  table.Add("MatrixDeterminant", DeterminantGradient);
  table.Add("LogMatrixDeterminant", LogDeterminantGradient);
  table.Add("Cholesky", CholeskyGradient);
  table.Add({"MatrixSolve", "MatrixTriangularSolve"}, SolveGradient);
  table.Add("Qr", QrGradient);
  table.Add("SelfAdjointEigV2", EigenGradient);
  table.Add("Svd", SvdGradient);
  table.Add("Cross", CrossGradient);
  table.Add("MatrixSquareRoot", SquareRootGradient);
}

}  // namespace millrace
