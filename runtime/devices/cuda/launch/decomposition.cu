#include "cuda/launch/decomposition.h"

#include <cmath>

#include "cuda/launch/crew.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

inline constexpr int kPanel = 32;  // columns that a crew takes apart before the others follow
inline constexpr int kTile = 64, kTileSide = 16, kTileParts = kTile / kTileSide;

template <typename Fn>
void ForReal(Type type, const Fn& fn) {
  type == Type::kDouble ? fn(Tag<double>()) : fn(Tag<float>());
}

// A block of each matrix of a batch.
template <typename T>
struct Blocks {
  T* values;
  int64_t size;  // of a matrix
  int64_t row_stride, column_stride;
  MR_DEVICE T& At(int64_t matrix, int64_t row, int64_t column) const {
    return values[matrix * size + row * row_stride + column * column_stride];
  }
  Blocks From(int64_t row, int64_t column) const {
    return {values + row * row_stride + column * column_stride, size, row_stride, column_stride};
  }
  Blocks Transposed() const { return {values, size, column_stride, row_stride}; }
};

// target -= left * right, `depth` numbers for each element, in their order: what one column after another would subtract.
// Rows of the target and of the left factor lie beside each other in memory.
template <typename T>
struct UpdateBody {
  struct Shared {
    double left[kPanel][kTile], right[kPanel][kTile + 1];
  };
  int64_t rows, columns, depth;
  bool lower;  // tiles above the diagonal are left out
  Blocks<double> target;
  Blocks<const double> left;
  Blocks<const T> right;
  StridedIndex<1> right_matrix;
  Divider row_tiles, column_tiles;

  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t line = row_tiles(task), row = (task - line * row_tiles.by) * kTile;
    const int64_t matrix = column_tiles(line), column = (line - matrix * column_tiles.by) * kTile;
    if (lower && row < column) return;
    Load(crew, matrix, row, column, shared);
    crew.Sync();
    for (int t = crew.rank(); t < kTileSide * kTileSide; t += crew.size()) {
      Subtract(matrix, row, column, t % kTileSide, t / kTileSide, shared);
    }
    crew.Sync();
  }
  template <typename Crew>
  MR_DEVICE void Load(const Crew& crew, int64_t matrix, int64_t row, int64_t column, Shared& shared) const {
    const int64_t other = right_matrix.Offset(matrix);
    const bool along_depth = right.row_stride == 1;
    for (int t = crew.rank(); t < kPanel * kTile; t += crew.size()) {
      const int i = t % kTile, k = t / kTile;
      if (k < depth) shared.left[k][i] = row + i < rows ? left.At(matrix, row + i, k) : 0;
      const int j = along_depth ? t / kPanel : i, from = along_depth ? t % kPanel : k;
      if (from < depth) shared.right[from][j] = column + j < columns ? static_cast<double>(right.At(other, from, column + j)) : 0;
    }
  }
  // Every kTileSide-th row and column of the tile at (row, column), from (x, y) on.
  MR_DEVICE void Subtract(int64_t matrix, int64_t row, int64_t column, int x, int y, const Shared& shared) const {
    double rest[kTileParts][kTileParts];
    MR_UNROLL for (int p = 0; p < kTileParts * kTileParts; ++p) {
      const int64_t i = row + x + p % kTileParts * kTileSide, j = column + y + p / kTileParts * kTileSide;
      rest[p / kTileParts][p % kTileParts] = i < rows && j < columns ? target.At(matrix, i, j) : 0;
    }
    for (int k = 0; k < depth; ++k) {
      MR_UNROLL for (int p = 0; p < kTileParts * kTileParts; ++p) {
        rest[p / kTileParts][p % kTileParts] -= shared.left[k][x + p % kTileParts * kTileSide] * shared.right[k][y + p / kTileParts * kTileSide];
      }
    }
    MR_UNROLL for (int p = 0; p < kTileParts * kTileParts; ++p) {
      const int64_t i = row + x + p % kTileParts * kTileSide, j = column + y + p / kTileParts * kTileSide;
      if (i < rows && j < columns) target.At(matrix, i, j) = rest[p / kTileParts][p % kTileParts];
    }
  }
};

template <typename T>
void LaunchUpdate(const Queue& queue, int64_t count, UpdateBody<T> body) {
  const int64_t row_tiles = CeilDiv(body.rows, kTile), column_tiles = CeilDiv(body.columns, kTile), tasks = count * row_tiles * column_tiles;
  body.row_tiles = DivideBy(row_tiles, tasks);
  body.column_tiles = DivideBy(column_tiles, tasks);
  ForEachTask(queue, tasks, body);
}

// A triangle of at most kPanel rows, and as many columns of right-hand sides, which become solutions.
template <typename T>
struct TriangleBody {
  struct Shared {
    double triangle[kPanel][kPanel + 1], side[kPanel][kPanel + 1];
  };
  int64_t rows, columns;
  bool lower, unit;
  Blocks<const T> triangle;
  StridedIndex<1> triangle_matrix;
  Blocks<double> side;
  Divider tiles;

  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t matrix = tiles(task), column = (task - matrix * tiles.by) * kPanel, other = triangle_matrix.Offset(matrix);
    const int wide = columns - column < kPanel ? static_cast<int>(columns - column) : kPanel, high = static_cast<int>(rows);
    EachPlace(crew, triangle.row_stride == 1, [&](int i, int j) {
      if (i < high && j < high) shared.triangle[i][j] = static_cast<double>(triangle.At(other, i, j));
    });
    EachPlace(crew, side.row_stride == 1, [&](int i, int j) {
      if (i < high && j < wide) shared.side[i][j] = side.At(matrix, i, column + j);
    });
    crew.Sync();
    for (int step = 0; step < high; ++step) {
      Substitute(crew, lower ? step : high - 1 - step, high, wide, shared);
      crew.Sync();
    }
    EachPlace(crew, side.row_stride == 1, [&](int i, int j) {
      if (i < high && j < wide) side.At(matrix, i, column + j) = shared.side[i][j];
    });
    crew.Sync();
  }
  // fn(row, column) for all of a square; neighbouring threads along rows or along columns.
  template <typename Crew, typename Fn>
  MR_DEVICE static void EachPlace(const Crew& crew, bool along_rows, const Fn& fn) {
    for (int t = crew.rank(); t < kPanel * kPanel; t += crew.size()) {
      along_rows ? fn(t % kPanel, t / kPanel) : fn(t / kPanel, t % kPanel);
    }
  }
  template <typename Crew>
  MR_DEVICE void Substitute(const Crew& crew, int k, int high, int wide, Shared& shared) const {
    if (!unit) {
      for (int j = crew.rank(); j < wide; j += crew.size()) shared.side[k][j] /= shared.triangle[k][k];
      crew.Sync();
    }
    const int begin = lower ? k + 1 : 0, end = lower ? high : k;
    for (int t = crew.rank(); t < (end - begin) * kPanel; t += crew.size()) {
      const int i = begin + t / kPanel, j = t % kPanel;
      if (j < wide) shared.side[i][j] -= shared.triangle[i][k] * shared.side[k][j];
    }
  }
};

// The same of small triangles: a thread for each column of the right-hand sides.
constexpr int64_t kSmallTriangle = 8;
template <typename T>
struct SmallTriangleBody {
  int64_t rows;
  bool lower, unit;
  Blocks<const T> triangle;
  StridedIndex<1> triangle_matrix;
  Blocks<double> side;
  Divider columns;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t matrix = columns(i), column = i - matrix * columns.by, other = triangle_matrix.Offset(matrix);
    for (int64_t step = 0; step < rows; ++step) {
      const int64_t k = lower ? step : rows - 1 - step;
      double& solved = side.At(matrix, k, column);
      if (!unit) solved /= static_cast<double>(triangle.At(other, k, k));
      for (int64_t row = lower ? k + 1 : 0, end = lower ? rows : k; row < end; ++row) {
        side.At(matrix, row, column) -= static_cast<double>(triangle.At(other, row, k)) * solved;
      }
    }
  }
};

template <typename T>
void LaunchTriangle(const Queue& queue, int64_t count, TriangleBody<T> body) {
  const int64_t tiles = CeilDiv(body.columns, kPanel);
  body.tiles = DivideBy(tiles, count * tiles);
  ForEachTask(queue, count * tiles, body);
}

struct Largest {
  MR_DEVICE double operator()(double a, double b) const { return a > b ? a : b; }
};
struct First {
  MR_DEVICE int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

// Columns [begin, end) of each matrix.
struct PanelBody {
  Squares squares;
  int64_t begin, end;
  // Takes from row `row` of the columns behind `k` what `factor` times a row, whose element c is top[c * stride], has there.
  MR_DEVICE void Subtract(double* matrix, int64_t row, int64_t k, double factor, const double* top, int64_t stride) const {
    constexpr int kAtOnce = 8;  // on their way to a thread
    for (int64_t first = k + 1; first < end; first += kAtOnce) {
      const int count = end - first < kAtOnce ? static_cast<int>(end - first) : kAtOnce;
      double* const at = matrix + first * squares.n + row;
      const double* const from = top + first * stride;
      double rest[kAtOnce], other[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        rest[u] = u < count ? at[u * squares.n] : 0;
        other[u] = u < count ? from[u * stride] : 0;
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        if (u < count) at[u * squares.n] = rest[u] - factor * other[u];
      }
    }
  }
};

struct LuBody {
  Queue queue;
  PanelBody panel;
  bool invertible;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t number) const {
    const Squares& squares = panel.squares;
    const int64_t n = squares.n;
    double* const matrix = squares.values + number * n * n;
    if (panel.begin == 0) {
      if (crew.rank() == 0) squares.state[number] = 0;
      for (int64_t row = crew.rank(); row < n; row += crew.size()) squares.rows[number * n + row] = static_cast<int32_t>(row);
    }
    for (int64_t k = panel.begin; k < panel.end; ++k) {
      double* const column = matrix + k * n;
      const int64_t chosen = PivotOf(crew, column, k);
      if (chosen != k) Exchange(crew, number, k, chosen);
      const double pivot = column[k];
      // The host looks for the least pivot, which NaN is where it is the first one.
      if (invertible && crew.rank() == 0 && (pivot == 0 || (k == 0 && pivot != pivot))) Report(queue, FaultCode::kNotInvertible, 0, 0, 0, number);
      for (int64_t row = k + 1 + crew.rank(); row < n; row += crew.size()) {
        if (pivot != 0) column[row] /= pivot;
        panel.Subtract(matrix, row, k, column[row], matrix + k, n);
      }
      crew.Sync();
    }
  }
  // The first row, from k on, whose element is the largest; NaN is larger than none, and none is larger than NaN in row k.
  template <typename Crew>
  MR_DEVICE int64_t PivotOf(const Crew& crew, const double* column, int64_t k) const {
    const int64_t n = panel.squares.n;
    double largest = -1;
    int64_t at = n;
    for (int64_t row = k + crew.rank(); row < n; row += crew.size()) {
      const double size = fabs(column[row]);
      if (!(size > largest)) continue;
      largest = size;
      at = row;
    }
    const bool stays = column[k] != column[k];  // before Reduce: behind it others may exchange it already
    const double all = crew.Reduce(largest, Largest());
    at = crew.Reduce(largest == all ? at : n, First());
    return stays ? k : at;
  }
  template <typename Crew>
  MR_DEVICE void Exchange(const Crew& crew, int64_t number, int64_t a, int64_t b) const {
    const int64_t n = panel.squares.n;
    double* const matrix = panel.squares.values + number * n * n;
    for (int64_t c = crew.rank(); c < n; c += crew.size()) Swap(matrix[c * n + a], matrix[c * n + b]);
    if (crew.rank() == 0) {
      Swap(panel.squares.rows[number * n + a], panel.squares.rows[number * n + b]);
      ++panel.squares.state[number];
    }
    crew.Sync();
  }
  template <typename T>
  MR_DEVICE static void Swap(T& a, T& b) {
    const T before = a;
    a = b;
    b = before;
  }
};

struct CholeskyBody {
  PanelBody panel;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t number) const {
    const int64_t n = panel.squares.n;
    double* const matrix = panel.squares.values + number * n * n;
    if (panel.begin == 0 && crew.rank() == 0) panel.squares.state[number] = 0;
    for (int64_t k = panel.begin; k < panel.end; ++k) {
      double* const column = matrix + k * n;
      const double square = column[k], root = sqrt(square);
      if (square <= 0) {
        if (crew.rank() == 0) panel.squares.state[number] = 1;
        return;
      }
      for (int64_t row = k + 1 + crew.rank(); row < n; row += crew.size()) column[row] /= root;
      crew.Sync();
      if (crew.rank() == 0) column[k] = root;
      for (int64_t row = k + 1 + crew.rank(); row < n; row += crew.size()) panel.Subtract(matrix, row, k, column[row], column, 1);
      crew.Sync();
    }
  }
};

Blocks<double> BlocksOf(const Squares& squares) { return {squares.values, squares.n * squares.n, 1, squares.n}; }
Blocks<const double> Factors(const Blocks<double>& blocks) { return {blocks.values, blocks.size, blocks.row_stride, blocks.column_stride}; }

StridedIndex<1> NumbersOf(const Broadcast& batch, int input) {
  StridedIndex<1> index;
  index.rank = batch.rank;
  for (int d = 0; d < batch.rank; ++d) {
    index.SetDim(d, batch.dims[d], batch.elements);
    index.strides[0][d] = batch.strides[input][d];
  }
  return index;
}
// Matrix i of as many.
StridedIndex<1> EachNumber(int64_t count) {
  Broadcast batch;
  batch.rank = 1;
  batch.elements = batch.dims[0] = count;
  batch.strides[0][0] = 1;
  return NumbersOf(batch, 0);
}

template <typename T>
struct LoadSquaresBody {
  bool transposed;
  Divider n;
  const T* in;
  MR_DEVICE double operator()(int64_t i) const {
    if (transposed) return static_cast<double>(in[i]);
    const int64_t line = n(i), row = i - line * n.by, matrix = n(line), column = line - matrix * n.by;
    return static_cast<double>(in[(matrix * n.by + row) * n.by + column]);
  }
};

// Of row-major matrices, as LU and Cholesky store theirs.
template <typename T>
struct StoreSquaresBody {
  Squares squares;
  bool cholesky;
  double nan;
  Divider n;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t line = n(i), column = i - line * n.by, matrix = n(line), row = line - matrix * n.by;
    if (cholesky && column > row) return T(0);
    if (cholesky && squares.state[matrix] != 0) return static_cast<T>(nan);
    return static_cast<T>(squares.values[(matrix * n.by + column) * n.by + row]);
  }
};

template <typename T>
void StoreSquares(const Queue& queue, bool cholesky, const Squares& squares, T* out) {
  const int64_t n = squares.n, elements = squares.count * n * n;
  Map(queue, elements, out, StoreSquaresBody<T>{squares, cholesky, static_cast<double>(NAN), DivideBy(n, elements)});
}

template <typename T>
struct RowsBody {
  const int32_t* rows;
  MR_DEVICE T operator()(int64_t i) const { return rows[i]; }
};

template <typename T>
struct DeterminantBody {
  Squares squares;
  T* out;
  MR_DEVICE void operator()(int64_t number) const {
    const int64_t n = squares.n;
    const double* const matrix = squares.values + number * n * n;
    double product = 1;
    for (int64_t k = 0; k < n; ++k) product *= matrix[k * n + k];
    out[number] = static_cast<T>(squares.state[number] % 2 == 0 ? product : -product);
  }
};

template <typename T>
struct LogDeterminantBody {
  Squares squares;
  T* sign;
  T* sum;
  MR_DEVICE void operator()(int64_t number) const {
    const int64_t n = squares.n;
    const double* const matrix = squares.values + number * n * n;
    double direction = squares.state[number] % 2 == 0 ? 1 : -1, logs = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double pivot = matrix[k * n + k];
      direction *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // 0 and NaN have no direction
      logs += log(fabs(pivot));
    }
    sign[number] = static_cast<T>(direction);
    sum[number] = static_cast<T>(logs);
  }
};

template <typename T>
struct LoadSidesBody {
  Divider columns, n;
  StridedIndex<1> numbers;
  const T* in;
  const int32_t* rows;
  MR_DEVICE double operator()(int64_t i) const {
    const int64_t line = columns(i), column = i - line * columns.by, side = n(line);
    const int64_t row = rows != nullptr ? rows[line] : line - side * n.by;
    if (in == nullptr) return row == column ? 1 : 0;
    return static_cast<double>(in[(numbers.Offset(side) * n.by + row) * columns.by + column]);
  }
};

template <typename T>
struct NarrowBody {
  const double* values;
  MR_DEVICE T operator()(int64_t i) const { return static_cast<T>(values[i]); }
};

template <typename T>
void Solve(const Queue& queue, const Triangles& given, const Sides& sides) {
  const int64_t n = sides.n, columns = sides.columns;
  const Blocks<const T> triangles = {static_cast<const T*>(given.values), n * n, given.row_stride, given.column_stride};
  const Blocks<double> side = {sides.values, n * columns, columns, 1};
  const StridedIndex<1> numbers = NumbersOf(given.batch, 0);
  if (n <= kSmallTriangle) {
    const int64_t lines = sides.count * columns;
    return ForEach(queue, lines, SmallTriangleBody<T>{n, given.lower, given.unit, triangles, numbers, side, DivideBy(columns, lines)});
  }
  const int64_t panels = CeilDiv(n, kPanel);
  for (int64_t step = 0; step < panels; ++step) {
    const int64_t begin = (given.lower ? step : panels - 1 - step) * kPanel, end = begin + kPanel < n ? begin + kPanel : n;
    LaunchTriangle(queue, sides.count, TriangleBody<T>{end - begin, columns, given.lower, given.unit, triangles.From(begin, begin), numbers,
                                                       side.From(begin, 0), {}});
    // Of what is left, transposed: along its rows threads are neighbours.
    const int64_t first = given.lower ? end : 0, last = given.lower ? n : begin;
    const Blocks<double> rest = side.From(first, 0).Transposed(), solved = side.From(begin, 0).Transposed();
    LaunchUpdate(queue, sides.count, UpdateBody<T>{columns, last - first, end - begin, false, rest, Factors(solved),
                                                   triangles.From(first, begin).Transposed(), numbers, {}, {}});
  }
}

}  // namespace

void LaunchLoadSquares(const Queue& queue, Type type, bool transposed, const void* in, const Squares& squares) {
  const int64_t elements = squares.count * squares.n * squares.n;
  ForReal(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, elements, squares.values, LoadSquaresBody<T>{transposed, DivideBy(squares.n, elements), static_cast<const T*>(in)});
  });
}

void LaunchLu(const Queue& queue, const Squares& squares, bool invertible) {
  const int64_t n = squares.n, count = squares.count;
  const Blocks<double> all = BlocksOf(squares);
  const StridedIndex<1> numbers = EachNumber(count);
  int64_t begin = 0;
  do {
    const int64_t end = begin + kPanel < n ? begin + kPanel : n, rest = n - end;
    ForEachRow(queue, count, n * n, LuBody{queue, {squares, begin, end}, invertible});
    LaunchTriangle(queue, count, TriangleBody<double>{end - begin, rest, true, true, Factors(all.From(begin, begin)), numbers,
                                                      all.From(begin, end), {}});
    LaunchUpdate(queue, count, UpdateBody<double>{rest, rest, end - begin, false, all.From(end, end), Factors(all.From(end, begin)),
                                                  Factors(all.From(begin, end)), numbers, {}, {}});
    begin = end;
  } while (begin < n);
}

void LaunchCholesky(const Queue& queue, const Squares& squares) {
  const int64_t n = squares.n, count = squares.count;
  const Blocks<double> all = BlocksOf(squares);
  for (int64_t begin = 0; begin < n; begin += kPanel) {
    const int64_t end = begin + kPanel < n ? begin + kPanel : n, rest = n - end;
    ForEachRow(queue, count, n * n, CholeskyBody{{squares, begin, end}});
    const Blocks<const double> below = Factors(all.From(end, begin));
    LaunchUpdate(queue, count, UpdateBody<double>{rest, rest, end - begin, true, all.From(end, end), below, below.Transposed(),
                                                  EachNumber(count), {}, {}});
  }
}

void LaunchStoreLu(const Queue& queue, Type type, bool wide, const Squares& squares, void* out, void* rows) {
  ForReal(type, [&](auto tag) { StoreSquares(queue, false, squares, static_cast<typename decltype(tag)::type*>(out)); });
  const int64_t count = squares.count * squares.n;
  if (wide) return Map(queue, count, static_cast<int64_t*>(rows), RowsBody<int64_t>{squares.rows});
  Map(queue, count, static_cast<int32_t*>(rows), RowsBody<int32_t>{squares.rows});
}

void LaunchStoreCholesky(const Queue& queue, Type type, const Squares& squares, void* out) {
  ForReal(type, [&](auto tag) { StoreSquares(queue, true, squares, static_cast<typename decltype(tag)::type*>(out)); });
}

void LaunchDeterminant(const Queue& queue, Type type, const Squares& squares, void* out) {
  ForReal(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, squares.count, DeterminantBody<T>{squares, static_cast<T*>(out)});
  });
}

void LaunchLogDeterminant(const Queue& queue, Type type, const Squares& squares, void* sign, void* log) {
  ForReal(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, squares.count, LogDeterminantBody<T>{squares, static_cast<T*>(sign), static_cast<T*>(log)});
  });
}

void LaunchLoadSides(const Queue& queue, Type type, const Broadcast& batch, const void* in, const int32_t* rows, const Sides& sides) {
  const int64_t elements = sides.count * sides.n * sides.columns;
  ForReal(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, elements, sides.values, LoadSidesBody<T>{DivideBy(sides.columns, elements), DivideBy(sides.n, elements), NumbersOf(batch, 1),
                                                        static_cast<const T*>(in), rows});
  });
}

void LaunchStoreSides(const Queue& queue, Type type, const Sides& sides, void* out) {
  if (out == sides.values) return;
  ForReal(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, sides.count * sides.n * sides.columns, static_cast<T*>(out), NarrowBody<T>{sides.values});
  });
}

void LaunchSolve(const Queue& queue, const Triangles& triangles, const Sides& sides) {
  ForReal(triangles.type, [&](auto tag) { Solve<typename decltype(tag)::type>(queue, triangles, sides); });
}

}  // namespace millrace::cuda
