// Sums are made in the order of the CPU's kernels: first along one axis, then along the other.
#include "cuda/launch/resampling.h"

#include "cuda/launch/crew.h"

namespace millrace::cuda {
namespace {

MR_DEVICE inline int64_t Inside(int64_t at, int64_t size) { return at < 0 ? 0 : at < size ? at : size - 1; }

// Where few outputs cover many rows each, the sums of the rows are made on their own, so that there is work for all threads. Up to
// kMostRows places are so exact that no output covers more than two rows beyond the scale.
inline constexpr int64_t kFewSums = 1 << 18, kManyRows = 8, kMostRows = 1 << 22;

int64_t SumsOf(const AreaShape& shape) { return shape.batch * shape.rows.output * shape.columns.output * shape.channels; }
// Rows that an output pixel may cover, where their sums are apart; else 0.
int64_t RowsApart(const AreaShape& shape) {
  const int64_t rows = static_cast<int64_t>(ceilf(shape.rows.scale)) + 2;
  return SumsOf(shape) < kFewSums && rows >= kManyRows && shape.rows.input <= kMostRows ? rows : 0;
}

template <typename T>
struct AreaRow {
  AreaShape shape;
  Divider channels, columns, rows;  // of the output
  const T* x;
  struct Spot {
    int64_t image, channel;
    AreaCover down, across;
  };
  MR_DEVICE Spot SpotOf(int64_t i) const {
    const int64_t pixel = channels(i), line = columns(pixel), image = rows(line);
    return {image, i - pixel * channels.by, AreaCoverOf(line - image * rows.by, shape.rows.scale),
            AreaCoverOf(pixel - line * columns.by, shape.columns.scale)};
  }
  // What row k of those that are covered adds.
  MR_DEVICE float Sum(const Spot& spot, int64_t k) const {
    const int64_t row = Inside(spot.down.first + k, shape.rows.input);
    const T* const line = x + (spot.image * shape.rows.input + row) * shape.columns.input * channels.by + spot.channel;
    const float part = spot.down.Part(k);
    float sum = 0;
    for (int64_t at = 0; at < spot.across.count; ++at) {
      const float value = static_cast<float>(Widen(line[Inside(spot.across.first + at, shape.columns.input) * channels.by]));
      sum += value * part * spot.across.Part(at);
    }
    return sum;
  }
};

template <typename T>
struct AreaBody {
  AreaRow<T> row;
  float share;
  MR_DEVICE float operator()(int64_t i) const {
    const auto spot = row.SpotOf(i);
    float sum = 0;
    for (int64_t k = 0; k < spot.down.count; ++k) sum += row.Sum(spot, k);
    return sum * share;
  }
};

// The sums of rows of all outputs, row k of those that each covers behind row k - 1.
template <typename T>
struct AreaRowBody {
  AreaRow<T> row;
  Divider outputs;
  float* sums;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t k = outputs(i);
    const auto spot = row.SpotOf(i - k * outputs.by);
    if (k < spot.down.count) sums[i] = row.Sum(spot, k);
  }
};
template <typename T>
struct AreaOfRowsBody {
  AreaRow<T> row;
  int64_t outputs;
  float share;
  const float* sums;
  MR_DEVICE float operator()(int64_t i) const {
    const int64_t count = row.SpotOf(i).down.count;
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += sums[k * outputs + i];
    return sum * share;
  }
};

template <typename T>
void ResizeArea(const Queue& queue, const AreaShape& shape, const T* x, float* y, float* sums) {
  const int64_t n = SumsOf(shape), apart = RowsApart(shape);
  const float share = 1 / (shape.rows.scale * shape.columns.scale);
  const AreaRow<T> row = {shape, DivideBy(shape.channels, n), DivideBy(shape.columns.output, n), DivideBy(shape.rows.output, n), x};
  if (apart == 0) return MapEach(queue, n, y, AreaBody<T>{row, share});
  ForEach(queue, n * apart, AreaRowBody<T>{row, DivideBy(n, n * apart), sums});
  MapEach(queue, n, y, AreaOfRowsBody<T>{row, n, share, sums});
}

// Input pixels that make an output pixel, at most: filters are as wide as the scale says, which only the device knows.
int64_t MostPixels(const ScaleShape& shape, int d) {
  const int64_t most = ResampleAxisOf(shape.filter, false, shape.input[d], 1, 0).most_pixels();
  return shape.antialias ? shape.input[d] : most;
}

// An axis's part of the scratch. Weights of neighbouring output pixels lie beside each other.
struct AxisTable {
  int64_t input, output, most;
  float* weights;   // [most][output]
  int64_t* start;   // [output]: of the input pixels of each output pixel
  int64_t* end;
  int64_t* first;   // [input]: of the output pixels that have an input pixel
  int64_t* beyond;
};
struct Tables {
  AxisTable axes[2];
  float* lines;
};

int64_t LinesOf(const ScaleShape& shape) { return shape.batch * shape.output[0] * shape.input[1] * shape.channels; }

// Positions first: they are the wider numbers.
Tables TablesOf(const ScaleShape& shape, void* scratch) {
  Tables tables;
  int64_t* positions = static_cast<int64_t*>(scratch);
  for (int d = 0; d < 2; ++d) {
    AxisTable& axis = tables.axes[d];
    axis = {shape.input[d], shape.output[d], MostPixels(shape, d), nullptr, nullptr, nullptr, nullptr, nullptr};
    for (int64_t** part : {&axis.start, &axis.end}) {
      *part = positions;
      positions += axis.output;
    }
    for (int64_t** part : {&axis.first, &axis.beyond}) {
      *part = positions;
      positions += axis.input;
    }
  }
  float* numbers = reinterpret_cast<float*>(positions);
  for (AxisTable& axis : tables.axes) {
    axis.weights = numbers;
    numbers += axis.most * axis.output;
  }
  tables.lines = numbers;
  return tables;
}

// The weights of both axes, those of the columns behind those of the rows; not yet divided by their sums.
struct WeightBody {
  Queue queue;
  ResampleFilter filter;
  bool antialias;
  const float* scale;
  const float* translation;
  AxisTable axes[2];
  Divider outputs[2];
  MR_DEVICE void operator()(int64_t i) const {
    for (int d = 0; d < 2; ++d) {
      if (scale[d] > 0) continue;
      if (i == 0) Report(queue, FaultCode::kIndexOutOfRange, 2, static_cast<int64_t>(millrace::BitsOf(static_cast<double>(scale[d]))), 0, d);
      return;
    }
    const int64_t rows = axes[0].most * axes[0].output;
    i < rows ? Store(0, i) : Store(1, i - rows);
  }
  MR_DEVICE void Store(int d, int64_t i) const {
    const AxisTable& table = axes[d];
    const ResampleAxis axis = ResampleAxisOf(filter, antialias, table.input, scale[d], translation[d]);
    const int64_t k = outputs[d](i), pixel = i - k * outputs[d].by;
    const ResampleAxis::Span span = axis.SpanOf(pixel);
    const int64_t end = span.end < span.start + table.most ? span.end : span.start + table.most;
    if (span.start + k < end) table.weights[i] = axis.WeightAt(span, span.start + k);
    if (k != 0) return;
    table.start[pixel] = span.start;
    table.end[pixel] = end;
  }
};

// Weights are divided by their sum, which all threads of a crew make in the same order.
struct NormBody {
  AxisTable axes[2];
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t i) const {
    const AxisTable& table = i < axes[0].output ? axes[0] : axes[1];
    const int64_t pixel = i < axes[0].output ? i : i - axes[0].output, count = table.end[pixel] - table.start[pixel];
    float* const weights = table.weights + pixel;
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += weights[k * table.output];
    crew.Sync();
    if (fabsf(sum) < kLeastWeights) return;
    for (int64_t k = crew.rank(); k < count; k += crew.size()) weights[k * table.output] /= sum;
  }
};

// The output pixels that have an input pixel: starts and ends rise.
struct UseBody {
  AxisTable axes[2];
  MR_DEVICE void operator()(int64_t i) const { i < axes[0].input ? Find(axes[0], i) : Find(axes[1], i - axes[0].input); }
  // The first place of a number above `pixel`.
  MR_DEVICE static int64_t Above(const int64_t* rising, int64_t count, int64_t pixel) {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      rising[middle] > pixel ? high = middle : low = middle + 1;
    }
    return low;
  }
  MR_DEVICE void Find(const AxisTable& table, int64_t pixel) const {
    table.first[pixel] = Above(table.end, table.output, pixel);
    table.beyond[pixel] = Above(table.start, table.output, pixel);
  }
};

// Of a tensor [outer, pixels of an axis, inner], by the result's elements.
struct AxisPass {
  AxisTable table;
  Divider pixels, inner;
  struct Place {
    int64_t outer, pixel, column;
  };
  MR_DEVICE Place Of(int64_t i) const {
    const int64_t line = inner(i), outer = pixels(line);
    return {outer, line - outer * pixels.by, i - line * inner.by};
  }
};

AxisPass PassOf(const AxisTable& table, int64_t pixels, int64_t inner, int64_t n) { return {table, DivideBy(pixels, n), DivideBy(inner, n)}; }

// Output pixels of input pixels.
template <typename T>
struct ForwardBody {
  AxisPass pass;
  const T* x;
  MR_DEVICE float operator()(int64_t i) const {
    const AxisTable& table = pass.table;
    const auto [outer, pixel, column] = pass.Of(i);
    const int64_t start = table.start[pixel], count = table.end[pixel] - start;
    const T* const from = x + (outer * table.input + start) * pass.inner.by + column;
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      sum += table.weights[k * table.output + pixel] * static_cast<float>(Widen(from[k * pass.inner.by]));
    }
    return sum;
  }
};

// Input pixels of the output pixels that have them.
struct BackwardBody {
  AxisPass pass;
  const float* dy;
  MR_DEVICE float operator()(int64_t i) const {
    const AxisTable& table = pass.table;
    const auto [outer, pixel, column] = pass.Of(i);
    const float* const from = dy + outer * table.output * pass.inner.by + column;
    const int64_t beyond = table.beyond[pixel];
    float sum = 0;
    for (int64_t at = table.first[pixel]; at < beyond; ++at) {
      sum += table.weights[(pixel - table.start[at]) * table.output + at] * from[at * pass.inner.by];
    }
    return sum;
  }
};

Tables MakeWeights(const Queue& queue, const ScaleShape& shape, const float* scale, const float* translation, void* scratch) {
  const Tables tables = TablesOf(shape, scratch);
  const AxisTable &rows = tables.axes[0], &columns = tables.axes[1];
  const int64_t row_weights = rows.most * rows.output, column_weights = columns.most * columns.output;
  ForEach(queue, row_weights + column_weights,
          WeightBody{queue, shape.filter, shape.antialias, scale, translation, {rows, columns},
                     {DivideBy(rows.output, row_weights), DivideBy(columns.output, column_weights)}});
  ForEachRow(queue, rows.output + columns.output, rows.most > columns.most ? rows.most : columns.most, NormBody{{rows, columns}});
  return tables;
}

}  // namespace

int64_t ResizeAreaScratchBytes(const AreaShape& shape) { return SumsOf(shape) * RowsApart(shape) * static_cast<int64_t>(sizeof(float)); }

void LaunchResizeArea(const Queue& queue, Type type, const AreaShape& shape, const void* x, float* y, void* scratch) {
  ForNumeric(type, [&]<typename T>(Tag<T>) { ResizeArea(queue, shape, static_cast<const T*>(x), y, static_cast<float*>(scratch)); });
}

int64_t ScaleScratchBytes(const ScaleShape& shape) {
  int64_t positions = 0, numbers = LinesOf(shape);
  for (int d = 0; d < 2; ++d) {
    positions += 2 * (shape.input[d] + shape.output[d]);
    numbers += MostPixels(shape, d) * shape.output[d];
  }
  return positions * static_cast<int64_t>(sizeof(int64_t)) + numbers * static_cast<int64_t>(sizeof(float));
}

void LaunchScaleAndTranslate(const Queue& queue, Type type, const ScaleShape& shape, const void* x, const float* scale, const float* translation,
                 float* y, void* scratch) {
  const Tables tables = MakeWeights(queue, shape, scale, translation, scratch);
  const int64_t lines = LinesOf(shape), n = shape.batch * shape.output[0] * shape.output[1] * shape.channels;
  ForNumeric(type, [&]<typename T>(Tag<T>) {
    const AxisPass pass = PassOf(tables.axes[0], shape.output[0], shape.input[1] * shape.channels, lines);
    MapEach(queue, lines, tables.lines, ForwardBody<T>{pass, static_cast<const T*>(x)});
  });
  MapEach(queue, n, y, ForwardBody<float>{PassOf(tables.axes[1], shape.output[1], shape.channels, n), tables.lines});
}

void LaunchScaleAndTranslateGrad(const Queue& queue, const ScaleShape& shape, const float* dy, const float* scale, const float* translation, float* dx,
                     void* scratch) {
  const Tables tables = MakeWeights(queue, shape, scale, translation, scratch);
  const int64_t lines = LinesOf(shape), n = shape.batch * shape.input[0] * shape.input[1] * shape.channels;
  ForEach(queue, shape.input[0] + shape.input[1], UseBody{{tables.axes[0], tables.axes[1]}});
  MapEach(queue, lines, tables.lines, BackwardBody{PassOf(tables.axes[1], shape.input[1], shape.channels, lines), dy});
  MapEach(queue, n, dx, BackwardBody{PassOf(tables.axes[0], shape.input[0], shape.input[1] * shape.channels, n), tables.lines});
}

}  // namespace millrace::cuda
