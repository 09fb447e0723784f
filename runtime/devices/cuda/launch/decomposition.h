// Cholesky and LU decompositions, and solutions of triangular systems, of batches of matrices. Whatever the matrices' type, they are
// computed in double, as on the host. Panels of columns are a launch each, with a crew for every matrix; what is right of them or
// below them follows in tiles, over the whole device.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DECOMPOSITION_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DECOMPOSITION_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// Square matrices that are taken apart in place. They lie column by column, so that neighbouring threads have neighbouring rows.
struct Squares {
  int64_t count = 0, n = 0;
  double* values = nullptr;
  int32_t* rows = nullptr;   // LU: of the given matrix, where each row comes from
  int32_t* state = nullptr;  // of each matrix. LU: how many rows were exchanged; Cholesky: 1 where it is not positive definite
};
// From row-major matrices of floats or doubles, or of their transposes.
void LaunchLoadSquares(const Queue& queue, Type type, bool transposed, const void* in, const Squares& squares);

// By the largest element of each column, the first of equal ones. `invertible`: a pivot of 0 is a fault (FaultCode::kNotInvertible).
void LaunchLu(const Queue& queue, const Squares& squares, bool invertible);
// Of the lower triangle.
void LaunchCholesky(const Queue& queue, const Squares& squares);

// Both triangles as one row-major matrix, and its rows as int32 or (`wide`) int64.
void LaunchStoreLu(const Queue& queue, Type type, bool wide, const Squares& squares, void* out, void* rows);
// The lower triangle with zeros beside it; all NaN where the matrix was not positive definite.
void LaunchStoreCholesky(const Queue& queue, Type type, const Squares& squares, void* out);
// Of what LaunchLu has left.
void LaunchDeterminant(const Queue& queue, Type type, const Squares& squares, void* out);
void LaunchLogDeterminant(const Queue& queue, Type type, const Squares& squares, void* sign, void* log);

// Right-hand sides, row-major matrices [n, columns], which solutions replace.
struct Sides {
  int64_t count = 0, n = 0, columns = 0;
  double* values = nullptr;
};
// Side i is matrix sum(index * batch.strides[1]) of `in`, or the identity where there is none; with its rows as `rows`, where there are
// any, names them.
void LaunchLoadSides(const Queue& queue, Type type, const Broadcast& batch, const void* in, const int32_t* rows, const Sides& sides);
void LaunchStoreSides(const Queue& queue, Type type, const Sides& sides, void* out);

// Triangles of floats or doubles; side i has matrix sum(index * batch.strides[0]). `unit`: the diagonal is not read, but 1.
struct Triangles {
  Type type = Type::kDouble;
  const void* values = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  bool lower = true, unit = false;
  Broadcast batch;
};
void LaunchSolve(const Queue& queue, const Triangles& triangles, const Sides& sides);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DECOMPOSITION_H_
