// Elements that change places otherwise than by strides: diagonals of matrices, turned and reversed dimensions, blocks, patches,
// rows by indices of each batch, permutations; and what else makes a tensor of few operands: numbers at equal distances, cross products.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REARRANGE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REARRANGE_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// Matrices [batch, rows, columns] and their diagonals lower ... upper as [batch, count, length], topmost first. Diagonal 0 is the
// main one, those above it are positive. Shorter ones lie on the left or on the right of their `length` elements.
struct DiagonalShape {
  int64_t batch = 1, rows = 0, columns = 0;
  int64_t lower = 0, upper = 0, length = 0;
  bool left_above = true, left_below = true;  // of the diagonals above and below the main one, which is either
};
// The element where there is no diagonal: at `value`, in memory that the kernels reach, else the first bytes of `bits`.
struct DiagonalPadding {
  const void* value = nullptr;
  uint64_t bits = 0;
};
void LaunchMatrixDiag(const Queue& queue, int bytes, const DiagonalShape& shape, const DiagonalPadding& padding, const void* in,
                      void* out);
void LaunchMatrixDiagPart(const Queue& queue, int bytes, const DiagonalShape& shape, const DiagonalPadding& padding,
                          const void* in, void* out);
// `out` may be `in`.
void LaunchMatrixSetDiag(const Queue& queue, int bytes, const DiagonalShape& shape, const void* in, const void* diagonals,
                         void* out);
// Zeros beside the diagonals lower ... upper. `out` may be `in`.
void LaunchMatrixBandPart(const Queue& queue, int bytes, const DiagonalShape& shape, const void* in, void* out);

// Runs of `inner` elements; those of dimension d move by shifts[d], which is in [0, dims[d]), and around.
struct RollShape {
  int rank = 0;
  int64_t inner = 1;
  int64_t dims[kMaxDims] = {}, shifts[kMaxDims] = {};
};
void LaunchRoll(const Queue& queue, int bytes, const RollShape& shape, const void* in, void* out);

// Runs of `inner` elements, in two dimensions of which one is inside the other; strides are runs.
struct SequenceShape {
  bool wide_lengths = false;
  int64_t runs = 0, inner = 1;
  int64_t steps = 1, step_stride = 1, batches = 1, batch_stride = 1;
};
// The first lengths[batch] steps of every batch in reverse, the others as they are. A length above `steps` is a fault of input 1.
void LaunchReverseSequence(const Queue& queue, int bytes, const SequenceShape& shape, const void* in, const void* lengths,
                           void* out);

// Pictures of plain[0] x plain[1] places, of `inner` elements each, against those of blocked[0] x blocked[1] places, of which
// there are block * block for each: place p of the one at offset o is place block * p + o - before of the plain one.
struct BlockShape {
  int64_t block = 1, images = 1, inner = 1;
  int64_t plain[2] = {1, 1}, blocked[2] = {1, 1}, before[2] = {0, 0};
};
void LaunchSpaceToBatch(const Queue& queue, int bytes, const BlockShape& shape, const void* in, void* out);
void LaunchBatchToSpace(const Queue& queue, int bytes, const BlockShape& shape, const void* in, void* out);

// The windows of size[0] x size[1] x size[2] places at every position, with zeros outside.
struct PatchShape {
  int64_t batch = 1, depth = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, size[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, rate[3] = {1, 1, 1};
  int64_t before[3] = {0, 0, 0};
};
void LaunchPatches(const Queue& queue, int bytes, const PatchShape& shape, const void* in, void* out);

// out[b][o][i][:] = in[b][o][index[b][i]][:], `inner` elements in a row. An index out of [0, limit) is a fault of input 1.
struct BatchGatherShape {
  bool wide_indices = false;
  int64_t batch = 1, outer = 1, limit = 1, count = 1, inner = 1;
};
void LaunchBatchGather(const Queue& queue, int bytes, const BatchGatherShape& shape, const void* in, const void* index, void* out);

// out[in[i]] = i. A number out of [0, n), or one that is there twice, is a fault of input 0.
void LaunchInvertPermutation(const Queue& queue, bool wide, int64_t n, const void* in, void* out);
// out[i] = in[i] modulo rows, which is not negative.
void LaunchWrapRows(const Queue& queue, int64_t rows, int64_t n, const int32_t* in, int32_t* out);

// n numbers from *start to *stop. Every step is rounded to the type, as in Cross.
void LaunchLinSpace(const Queue& queue, Type type, const void* start, const void* stop, void* out, int64_t n);
// Of rows of three. `out` may be an operand.
void LaunchCross(const Queue& queue, Type type, const void* a, const void* b, void* out, int64_t rows);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REARRANGE_H_
