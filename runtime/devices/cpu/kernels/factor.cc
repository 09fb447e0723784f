#include "cpu/kernels/factor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kLanes = kGemmLanes<double>;
using Vector = GemmVector<double>;
typedef int64_t Index __attribute__((vector_size(kGemmVectorBytes)));

using Part = DoublePart;

inline void Load(const double* from, Vector& vector) { std::memcpy(&vector, from, sizeof(vector)); }
inline void Store(const Vector& vector, double* to) { std::memcpy(to, &vector, sizeof(vector)); }

inline Index LaneNumbers() {
  Index numbers = {};
  for (int i = 0; i < kLanes; ++i) numbers[i] = i;
  return numbers;
}

// About half of n, in whole vectors.
int64_t HalfOf(int64_t n) { return (n / 2 + kLanes - 1) / kLanes * kLanes; }

// Calls fn(integral_constant<vectors>, first column) for strips of columns.
template <typename Fn>
void ForStrips(int64_t columns, Fn&& fn) {
  int64_t column = 0;
  const auto cover = [&](auto vectors) {
    for (; column + (vectors() - 1) * kLanes < columns; column += vectors() * kLanes) fn(vectors, column);
  };
  cover(std::integral_constant<int, kGemmVectors>());
  cover(std::integral_constant<int, 1>());
}

// c[m, n] -= a[m, k] * b[k, n], which may leave out what is below c's diagonal where kUpper; a is stored as its transpose where kTransposed.
template <bool kTransposed = false, bool kUpper = false>
void SubtractProduct(int64_t m, int64_t n, int64_t k, Part a, Part b, Part c) {
  const int64_t row_step = kTransposed ? 1 : a.step, k_step = kTransposed ? a.step : 1;
  ForStrips(n, [&](auto vectors, int64_t column) {
    ForRowGroups(kUpper ? std::min(m, column + vectors() * kLanes) : m, [&](auto rows, int64_t row) {
      Vector products[rows() * vectors()], value;
      MultiplyTile<rows(), vectors(), 0>(k, a.data + row * row_step, row_step, k_step, b.data + column, b.step, products);
      for (int64_t at = 0; at < rows() * vectors(); ++at) {
        double* to = c.row(row + at / vectors()) + column + at % vectors() * kLanes;
        Load(to, value);
        Store(value - products[at], to);
      }
    });
  });
}

// x[n, columns] of a triangle times x, in place of that product. Of the lower one the diagonal is of ones.
void SolveUnitLower(int64_t n, Part triangle, int64_t columns, Part x) {
  if (n > kLanes) {
    const int64_t half = HalfOf(n);
    SolveUnitLower(half, triangle, columns, x);
    SubtractProduct(n - half, columns, half, triangle.From(half, 0), x, x.From(half, 0));
    return SolveUnitLower(n - half, triangle.From(half, half), columns, x.From(half, 0));
  }
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t i = 1; i < n; ++i) {
      Vector sum, other;
      Load(x.row(i) + column, sum);
      for (int64_t j = 0; j < i; ++j) {
        Load(x.row(j) + column, other);
        sum -= triangle(i, j) * other;
      }
      Store(sum, x.row(i) + column);
    }
  }
}
void SolveUpper(int64_t n, Part triangle, int64_t columns, Part x) {
  if (n > kLanes) {
    const int64_t half = HalfOf(n);
    SolveUpper(n - half, triangle.From(half, half), columns, x.From(half, 0));
    SubtractProduct(half, columns, n - half, triangle.From(0, half), x.From(half, 0), x);
    return SolveUpper(half, triangle, columns, x);
  }
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t i = n - 1; i >= 0; --i) {
      Vector sum, other;
      Load(x.row(i) + column, sum);
      for (int64_t j = i + 1; j < n; ++j) {
        Load(x.row(j) + column, other);
        sum -= triangle(i, j) * other;
      }
      Store(sum / triangle(i, i), x.row(i) + column);
    }
  }
}

// The same of the transpose of an upper one.
void SolveTransposed(int64_t n, Part triangle, int64_t columns, Part x) {
  if (n > kLanes) {
    const int64_t half = HalfOf(n);
    SolveTransposed(half, triangle, columns, x);
    SubtractProduct<true>(n - half, columns, half, triangle.From(0, half), x, x.From(half, 0));
    return SolveTransposed(n - half, triangle.From(half, half), columns, x.From(half, 0));
  }
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t i = 0; i < n; ++i) {
      Vector sum, other;
      Load(x.row(i) + column, sum);
      for (int64_t j = 0; j < i; ++j) {
        Load(x.row(j) + column, other);
        sum -= triangle(j, i) * other;
      }
      Store(sum / triangle(i, i), x.row(i) + column);
    }
  }
}

// The inverse of a lower triangle with a diagonal of ones, in place of the unit matrix.
void InvertUnitLower(int64_t n, Part triangle, Part x) {
  if (n <= kLanes) return SolveUnitLower(n, triangle, n, x);
  const int64_t half = HalfOf(n);
  InvertUnitLower(half, triangle, x);
  InvertUnitLower(n - half, triangle.From(half, half), x.From(half, half));
  SubtractProduct(n - half, half, half, triangle.From(half, 0), x, x.From(half, 0));
  SolveUnitLower(n - half, triangle.From(half, half), half, x.From(half, 0));
}

// As many reflections as a vector has lanes: together 1 - v t v^T, with v's ones on the diagonal and zeros above it.
class Reflections {
 public:
  static int64_t elements(int64_t rows) { return rows * kLanes + kLanes * kLanes; }

  Reflections(int64_t rows, double* elements) : rows_(rows), v_{elements, kLanes}, t_{elements + rows * kLanes, kLanes} {}

  // Takes those that make an upper triangle of the first `count` columns of `a`; the other columns of the same vector are reflected, too.
  void Find(int64_t count, Part a) const {
    std::fill_n(v_.data, elements(rows_), 0.0);
    for (int64_t k = 0; k < count; ++k) Reflect(k, a);
  }

  // c, or with `inverse` what it was reflected from.
  void Apply(bool inverse, int64_t columns, Part c) const {
    ForStrips(columns, [&](auto vectors, int64_t column) {
      Vector along[kLanes * vectors()], combined[kLanes * vectors()] = {};
      MultiplyTile<kLanes, vectors(), 0>(rows_, v_.data, 1, kLanes, c.data + column, c.step, along);
      for (int64_t i = 0; i < kLanes; ++i) {
        for (int64_t j = 0; j < kLanes; ++j) {
          for (int64_t lane = 0; lane < vectors(); ++lane) combined[i * vectors() + lane] += (inverse ? t_(i, j) : t_(j, i)) * along[j * vectors() + lane];
        }
      }
      SubtractProduct(rows_, vectors() * kLanes, kLanes, v_, {reinterpret_cast<double*>(combined), vectors() * kLanes}, c.From(0, column));
    });
  }

 private:
  void Reflect(int64_t k, Part a) const {
    double below = 0;
    for (int64_t i = k + 1; i < rows_; ++i) below += a(i, k) * a(i, k);
    const double first = a(k, k);
    v_(k, k) = 1;
    if (below <= std::numeric_limits<double>::min()) {
      for (int64_t i = k + 1; i < rows_; ++i) a(i, k) = 0;
      return;
    }
    const double length = std::sqrt(first * first + below), last = first >= 0 ? -length : length, tau = (last - first) / last;
    // Along the new one: the earlier ones, whose elements are where zeros will be, and the columns that follow.
    Vector along, row;
    Load(a.row(k), along);
    for (int64_t i = k + 1; i < rows_; ++i) {
      Load(a.row(i), row);
      v_(i, k) = row[k] / (first - last);
      along += v_(i, k) * row;
    }
    t_(k, k) = tau;
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t l = j; l < k; ++l) t_(j, k) -= tau * t_(j, l) * along[l];
    }
    const Index lane = LaneNumbers();
    along = lane > k ? tau * along : Vector{};
    for (int64_t i = k; i < rows_; ++i) {
      Load(a.row(i), row);
      row -= v_(i, k) * along;
      Store(lane == k ? (i == k ? last : v_(i, k)) - Vector{} : row, a.row(i));
    }
  }

  int64_t rows_;
  Part v_, t_;
};

// Rows of a square matrix are exchanged as its columns, and of those halves, become triangles.
class LuInPlace {
 public:
  LuInPlace(int64_t n, Part a, int64_t* source) : n_(n), a_(a), source_(source) { std::iota(source, source + n, 0); }

  double sign() const { return sign_; }

  void Factor(int64_t begin, int64_t end) {
    if (end - begin <= kLanes) return FactorColumns(begin, end);
    const int64_t middle = begin + HalfOf(end - begin);
    Factor(begin, middle);
    SolveUnitLower(middle - begin, a_.From(begin, begin), end - middle, a_.From(begin, middle));
    SubtractProduct(n_ - middle, end - middle, middle - begin, a_.From(middle, begin), a_.From(begin, middle), a_.From(middle, middle));
    Factor(middle, end);
  }

 private:
  void FactorColumns(int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t largest = k;
      for (int64_t i = k + 1; i < n_; ++i) {
        if (std::abs(a_(i, k)) > std::abs(a_(largest, k))) largest = i;
      }
      if (largest != k) Exchange(k, largest);
      const double pivot = a_(k, k);
      if (pivot == 0) continue;
      const Index lane = begin + LaneNumbers();
      Vector top, row;
      Load(a_.row(k) + begin, top);
      for (int64_t i = k + 1; i < n_; ++i) {
        const double factor = a_(i, k) / pivot;
        Load(a_.row(i) + begin, row);
        row = lane > k ? row - factor * top : row;
        Store(lane == k ? factor - Vector{} : row, a_.row(i) + begin);
      }
    }
  }

  void Exchange(int64_t row, int64_t other) {
    std::swap_ranges(a_.row(row), a_.row(row) + n_, a_.row(other));
    std::swap(source_[row], source_[other]);
    sign_ = -sign_;
  }

  int64_t n_;
  Part a_;
  int64_t* source_;
  double sign_ = 1;
};

}  // namespace

double FactorLu(int64_t n, DoublePart a, int64_t* source) {
  LuInPlace lu(n, a, source);
  lu.Factor(0, n);
  return lu.sign();
}

void SolveByLu(int64_t n, DoublePart lu, int64_t columns, DoublePart x) {
  SolveUnitLower(n, lu, columns, x);
  SolveUpper(n, lu, columns, x);
}

void InvertByLu(int64_t n, DoublePart lu, DoublePart x) {
  for (int64_t k = 0; k < n; ++k) x(k, k) = 1;
  InvertUnitLower(n, lu, x);
  SolveUpper(n, lu, n, x);
}

bool FactorPositive(int64_t n, DoublePart upper) {
  if (n > kLanes) {
    const int64_t half = HalfOf(n);
    if (!FactorPositive(half, upper)) return false;
    SolveTransposed(half, upper, n - half, upper.From(0, half));
    SubtractProduct<true, true>(n - half, n - half, half, upper.From(0, half), upper.From(0, half), upper.From(half, half));
    return FactorPositive(n - half, upper.From(half, half));
  }
  for (int64_t k = 0; k < n; ++k) {
    if (upper(k, k) <= 0) return false;
    const double root = std::sqrt(upper(k, k));
    Vector row, other;
    Load(upper.row(k), row);
    row /= root;
    row[k] = root;
    Store(row, upper.row(k));
    for (int64_t i = k + 1; i < n; ++i) {
      Load(upper.row(i), other);
      Store(other - row[i] * row, upper.row(i));
    }
  }
  return true;
}

int64_t ElementsToFactorOrthogonal(int64_t m, int64_t n) { return (std::min(m, n) + 7) / 8 * 8 * (m + 8); }

void FactorOrthogonal(int64_t m, int64_t n, DoublePart a, int64_t inner, DoublePart q, double* workspace) {
  const int64_t columns = std::min(m, n);
  const auto reflections = [&](int64_t first) { return Reflections(m - first, workspace + first / kLanes * Reflections::elements(m)); };
  for (int64_t first = 0; first < columns; first += kLanes) {
    reflections(first).Find(std::min(kLanes, columns - first), a.From(first, first));
    reflections(first).Apply(false, n - first - kLanes, a.From(first, first + kLanes));
  }
  for (int64_t k = 0; k < inner; ++k) q(k, k) = 1;
  for (int64_t first = (columns + kLanes - 1) / kLanes * kLanes - kLanes; first >= 0; first -= kLanes) {
    reflections(first).Apply(true, inner - first, q.From(first, first));
  }
}

}  // namespace millrace::cpu
