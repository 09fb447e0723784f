// The gradient of max pooling in planes, each of one channel, by square windows whose size and stride are known when compiling.
// Included by pool.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_PLANES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_PLANES_H_

#include "cuda/launch/pack.h"
#include "cuda/launch/pool.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {

// Divides what is not negative and below 2^31 by what is known before the launch: what Divider has for such numbers alone.
struct QuickDivider {
  int32_t by = 1;
  uint32_t magic = 0;
  int32_t shift = 0;
  MR_DEVICE int32_t operator()(int32_t i) const {
    const uint64_t twice = static_cast<uint32_t>(i) << 1;
    return static_cast<int32_t>(static_cast<uint32_t>(twice * magic >> 32) >> shift);
  }
};
inline QuickDivider QuickDivideBy(int64_t by, int64_t bound) {
  const Divider divider = DivideBy(by, bound);
  return {static_cast<int32_t>(divider.by), divider.small_magic, divider.shift};
}

// Indices of windows, or of cells: a plane with its padding in front is cut into cells as large as the stride, and each cell begins
// where the window of the same row and column does.
struct PlaneIndex {
  QuickDivider columns, rows;
  struct Spot {
    int32_t plane, row, column;
  };
  MR_DEVICE Spot operator()(int32_t i) const {
    const int32_t line = columns(i), plane = rows(line);
    return {plane, line - plane * rows.by, i - line * columns.by};
  }
};
struct PlaneSizes {
  int32_t high, wide, out_high, out_wide, pad_high, pad_wide;
};
MR_DEVICE inline bool Within(int32_t at, int32_t size) { return static_cast<uint32_t>(at) < static_cast<uint32_t>(size); }

// Of a window that lies in the padding alone.
inline constexpr uint8_t kNoFirst = 255;

// The first maximum of every window, as its place in the window.
template <typename T, int kWindow, int kStride>
struct PlaneFirstBody {
  PlaneIndex windows;
  PlaneSizes sizes;
  const T* x;
  uint8_t* firsts;
  MR_DEVICE void operator()(int64_t i) const {
    const PlaneIndex::Spot spot = windows(static_cast<int32_t>(i));
    const int32_t top = spot.row * kStride - sizes.pad_high, left = spot.column * kStride - sizes.pad_wide;
    const int32_t start = (spot.plane * sizes.high + top) * sizes.wide + left;
    T elements[kWindow][kWindow];
    MR_UNROLL for (int a = 0; a < kWindow; ++a) {
      MR_UNROLL for (int b = 0; b < kWindow; ++b) {
        const bool there = Within(top + a, sizes.high) && Within(left + b, sizes.wide);
        elements[a][b] = there ? x[start + a * sizes.wide + b] : T{};
      }
    }
    typename Wide<T>::type best = 0;
    int first = kNoFirst;
    MR_UNROLL for (int a = 0; a < kWindow; ++a) {
      MR_UNROLL for (int b = 0; b < kWindow; ++b) {
        const auto value = Widen(elements[a][b]);
        const bool there = Within(top + a, sizes.high) && Within(left + b, sizes.wide), larger = first == kNoFirst || best < value;
        best = there && larger ? value : best;
        first = there && larger ? a * kWindow + b : first;
      }
    }
    firsts[i] = static_cast<uint8_t>(first);
  }
};

// The gradients of a cell's elements, each the sum of those of the windows whose first maximum it is, in the windows' order.
template <typename T, int kWindow, int kStride>
struct PlaneGradBody {
  using W = typename Wide<T>::type;
  static constexpr int kReach = (kWindow + kStride - 1) / kStride;  // windows, along a dimension, that have elements of a cell
  PlaneIndex cells;
  PlaneSizes sizes;
  bool whole;  // the lines of a cell are within the plane or not at all, and aligned
  const T* dy;
  const uint8_t* firsts;
  T* dx;

  MR_DEVICE void Write(const PlaneIndex::Spot& spot, const W (&sums)[kStride][kStride]) const {
    const int32_t top = spot.row * kStride - sizes.pad_high, left = spot.column * kStride - sizes.pad_wide;
    MR_UNROLL for (int e = 0; e < kStride; ++e) {
      if (!Within(top + e, sizes.high)) continue;
      T* const to = dx + (spot.plane * sizes.high + top + e) * sizes.wide + left;
      Pack<T, kStride> line;
      MR_UNROLL for (int f = 0; f < kStride; ++f) line.of[f] = Wide<T>::Narrow(sums[e][f]);
      if (whole) {
        if (Within(left, sizes.wide)) Store(to, line);
        continue;
      }
      MR_UNROLL for (int f = 0; f < kStride; ++f) {
        if (Within(left + f, sizes.wide)) to[f] = line.of[f];
      }
    }
  }
  MR_DEVICE void operator()(int64_t i) const {
    const PlaneIndex::Spot spot = cells(static_cast<int32_t>(i));
    const int32_t last = (spot.plane * sizes.out_high + spot.row) * sizes.out_wide + spot.column;
    T gradient[kReach][kReach];
    int first[kReach][kReach];
    MR_UNROLL for (int k = 0; k < kReach; ++k) {
      MR_UNROLL for (int l = 0; l < kReach; ++l) {
        const int32_t window = last - k * sizes.out_wide - l;
        const bool there = Within(spot.row - k, sizes.out_high) && Within(spot.column - l, sizes.out_wide);
        first[k][l] = there ? firsts[window] : kNoFirst;
        gradient[k][l] = there ? dy[window] : T{};
      }
    }
    W sums[kStride][kStride] = {};
    MR_UNROLL for (int k = kReach - 1; k >= 0; --k) {
      MR_UNROLL for (int l = kReach - 1; l >= 0; --l) {
        MR_UNROLL for (int tap = 0; tap < kStride * kStride; ++tap) {
          const int e = tap / kStride, f = tap % kStride, row = e + k * kStride, column = f + l * kStride;
          const bool takes = row < kWindow && column < kWindow && first[k][l] == row * kWindow + column;
          if (takes) sums[e][f] = static_cast<W>(sums[e][f] + Widen(gradient[k][l]));
        }
      }
    }
    Write(spot, sums);
  }
};

inline int64_t CellsAlong(const PoolShape& shape, int d) { return CeilDiv(shape.in[d] + shape.pad[d], shape.stride[d]); }

// `firsts`: a byte for every window.
template <int kWindow, int kStride, typename T>
void LaunchPlaneGrad(const Queue& queue, const PoolShape& shape, const T* x, const T* dy, T* dx, uint8_t* firsts) {
  const auto index = [&](int64_t rows, int64_t columns) {
    const int64_t n = shape.batch * rows * columns;
    return PlaneIndex{QuickDivideBy(columns, n), QuickDivideBy(rows, n)};
  };
  const auto small = [](int64_t size) { return static_cast<int32_t>(size); };
  const PlaneSizes sizes = {small(shape.in[1]), small(shape.in[2]), small(shape.out[1]), small(shape.out[2]), small(shape.pad[1]), small(shape.pad[2])};
  const bool whole = shape.in[2] % kStride == 0 && shape.pad[2] % kStride == 0 && reinterpret_cast<uintptr_t>(dx) % (kStride * sizeof(T)) == 0;
  const int64_t rows = CellsAlong(shape, 1), columns = CellsAlong(shape, 2);
  ForEach(queue, shape.batch * shape.out[1] * shape.out[2],
          PlaneFirstBody<T, kWindow, kStride>{index(shape.out[1], shape.out[2]), sizes, x, firsts});
  ForEach(queue, shape.batch * rows * columns, PlaneGradBody<T, kWindow, kStride>{index(rows, columns), sizes, whole, dy, firsts, dx});
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_POOL_PLANES_H_
