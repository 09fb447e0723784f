// Factorizations of matrices of doubles by their rows, in vectors and in products of blocks. None takes memory of its own.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FACTOR_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FACTOR_H_

#include <algorithm>
#include <cstdint>

namespace millrace::cpu {

// A matrix or a part of one. Its columns begin with a whole vector, and where they end in one the rest of it belongs to nothing else.
struct DoublePart {
  double* data;
  int64_t step;

  double* row(int64_t i) const { return data + i * step; }
  double& operator()(int64_t i, int64_t j) const { return data[i * step + j]; }
  DoublePart From(int64_t i, int64_t j) const { return {data + i * step + j, step}; }
};

// Rows are an odd number of cache lines apart: a column's elements meet in no one place of a cache.
inline int64_t PaddedStep(int64_t columns) { return ((columns + 7) / 8 | 1) * 8; }
inline int64_t PaddedElements(int64_t rows, int64_t columns) { return rows * PaddedStep(columns); }
// A matrix of zeros at `data`, PaddedElements.
inline DoublePart PaddedZeros(double* data, int64_t rows, int64_t columns) {
  std::fill_n(data, PaddedElements(rows, columns), 0.0);
  return {data, PaddedStep(columns)};
}

// Makes a square matrix, its rows exchanged, a lower triangle with ones on its diagonal (which are not stored) and an upper one that have it as
// their product. source[row]: the row that became this one. Returns 1, or -1 after an odd number of exchanges.
double FactorLu(int64_t n, DoublePart a, int64_t* source);
// x of such a product times x, in place of the side with its rows exchanged. Requires pivots that are not 0.
void SolveByLu(int64_t n, DoublePart lu, int64_t columns, DoublePart x);
// The inverse of such a product in place of zeros.
void InvertByLu(int64_t n, DoublePart lu, DoublePart x);

// Makes the upper triangle of a matrix the one that its transpose times gives it. False where it is not positive definite.
bool FactorPositive(int64_t n, DoublePart upper);

// Makes a[m, n] have, from its diagonal on, the upper triangle that q times gives it: the first `inner` columns of an orthogonal matrix, in
// place of zeros.
int64_t ElementsToFactorOrthogonal(int64_t m, int64_t n);  // of the workspace
void FactorOrthogonal(int64_t m, int64_t n, DoublePart a, int64_t inner, DoublePart q, double* workspace);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FACTOR_H_
