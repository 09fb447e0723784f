#include "cuda/launch/region.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// One axis of the images, sampled for the crops.
struct CropAxis {
  int64_t last, samples;  // the last pixel
  float ratio;
  MR_DEVICE float Middle() const { return 0.5f * static_cast<float>(last); }
  MR_DEVICE float At(float low, float high, int64_t i) const {
    if (samples <= 1) return 0.5f * (low + high) * static_cast<float>(last);
    return low * static_cast<float>(last) + static_cast<float>(i) * ((high - low) * ratio);
  }
  MR_DEVICE bool Inside(float at) const { return at >= 0 && at <= static_cast<float>(last); }
  // d At / d low and d high.
  MR_DEVICE float ByLow(int64_t i) const { return samples > 1 ? static_cast<float>(last) - static_cast<float>(i) * ratio : Middle(); }
  MR_DEVICE float ByHigh(int64_t i) const { return samples > 1 ? static_cast<float>(i) * ratio : Middle(); }
};
CropAxis AxisOf(int64_t length, int64_t samples) {
  const float ratio = samples > 1 ? static_cast<float>(length - 1) / static_cast<float>(samples - 1) : 0;
  return {length - 1, samples, ratio};
}

// The pixels that a position lies between.
struct Between {
  int64_t low, high;
  float part;
};
MR_DEVICE inline Between PixelsAt(float at) {
  const auto low = static_cast<int64_t>(floorf(at));
  return {low, static_cast<int64_t>(ceilf(at)), at - static_cast<float>(low)};
}
MR_DEVICE inline int64_t NearestAt(float at) { return static_cast<int64_t>(roundf(at)); }

// Where an element of the crops was sampled.
struct Sample {
  int64_t box, row, column, channel;
  float y, x;
  bool inside;
};
struct CropGrid {
  CropAxis rows, columns;
  Divider channels, crop_width, crop_height;
  int64_t width, image;  // elements of one
  const float* boxes;
  const int32_t* owners;
  MR_DEVICE float RowAt(int64_t box, int64_t i) const { return rows.At(boxes[4 * box], boxes[4 * box + 2], i); }
  MR_DEVICE float ColumnAt(int64_t box, int64_t j) const { return columns.At(boxes[4 * box + 1], boxes[4 * box + 3], j); }
  MR_DEVICE Sample At(int64_t i) const {
    const int64_t pixel = channels(i), line = crop_width(pixel), box = crop_height(line);
    Sample s = {box, line - box * crop_height.by, pixel - line * crop_width.by, i - pixel * channels.by, 0, 0, false};
    s.y = RowAt(box, s.row);
    s.x = ColumnAt(box, s.column);
    s.inside = rows.Inside(s.y) && columns.Inside(s.x);
    return s;
  }
  MR_DEVICE int64_t Offset(int64_t y, int64_t x) const { return (y * width + x) * channels.by; }
};
int64_t CropElements(const CropShape& shape) { return shape.crop_height * shape.crop_width * shape.channels; }
CropGrid GridOf(const CropShape& shape, const float* boxes, const int32_t* owners) {
  const int64_t n = shape.boxes * CropElements(shape);
  return {AxisOf(shape.height, shape.crop_height), AxisOf(shape.width, shape.crop_width),
          DivideBy(shape.channels, n), DivideBy(shape.crop_width, n), DivideBy(shape.crop_height, n),
          shape.width, shape.height * shape.width * shape.channels, boxes, owners};
}

struct OwnerBody {
  Queue queue;
  int input;
  int64_t batch;
  const int32_t* owners;
  const float* boxes;
  MR_DEVICE void operator()(int64_t box) const {
    if (owners[box] < 0 || owners[box] >= batch) return ReportIndex(queue, input, box, owners[box], batch);
    for (int k = 0; boxes != nullptr && k < 4; ++k) {
      const float corner = boxes[4 * box + k];
      if (corner - corner != 0) Report(queue, FaultCode::kNotFinite, input - 1, 0, 0, box);
    }
  }
};
// Kernels behind it need not look again. `boxes`: where these are checked, too.
void CheckOwners(const Queue& queue, const CropShape& shape, const int32_t* owners, const float* boxes = nullptr) {
  ForEach(queue, shape.boxes, OwnerBody{queue, shape.owners_input, shape.batch, owners, boxes});
}

// The four pixels around a position, of one channel: above left and right, below left and right.
template <typename T>
MR_DEVICE void LoadAround(const CropGrid& grid, const T* from, const Between& y, const Between& x, float* v) {
  v[0] = static_cast<float>(Widen(from[grid.Offset(y.low, x.low)]));
  v[1] = static_cast<float>(Widen(from[grid.Offset(y.low, x.high)]));
  v[2] = static_cast<float>(Widen(from[grid.Offset(y.high, x.low)]));
  v[3] = static_cast<float>(Widen(from[grid.Offset(y.high, x.high)]));
}

template <typename T>
struct CropBody {
  CropGrid grid;
  bool nearest;
  float extrapolation;
  const T* images;
  MR_DEVICE float operator()(int64_t i) const {
    const Sample s = grid.At(i);
    if (!s.inside) return extrapolation;
    const T* const from = images + grid.owners[s.box] * grid.image + s.channel;
    if (nearest) return static_cast<float>(Widen(from[grid.Offset(NearestAt(s.y), NearestAt(s.x))]));
    const Between y = PixelsAt(s.y), x = PixelsAt(s.x);
    float v[4];
    LoadAround(grid, from, y, x, v);
    const float top = v[0] + (v[1] - v[0]) * x.part, bottom = v[2] + (v[3] - v[2]) * x.part;
    return top + (bottom - top) * y.part;
  }
};

// Samples [first, last) of a box along an axis: those that have a part of a pixel.
struct Samples {
  int32_t first, last;
};
// Of every box and pixel of the axis that begins with corner `corner`. Positions of samples never turn back, so these lie together.
struct SamplesBody {
  CropAxis axis;
  Divider length;
  bool nearest;
  int corner;
  const float* boxes;
  Samples* samples;
  // The first sample for which `is_there` holds, as it does for all behind.
  template <typename Fn>
  MR_DEVICE int32_t First(const Fn& is_there) const {
    int64_t low = 0, high = axis.samples;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      is_there(middle) ? high = middle : low = middle + 1;
    }
    return static_cast<int32_t>(low);
  }
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t box = length(i);
    const float pixel = static_cast<float>(i - box * length.by), low = boxes[4 * box + corner], high = boxes[4 * box + corner + 2];
    const auto below = [&](float at) { return at < 0 || (nearest ? roundf(at) : ceilf(at)) < pixel; };
    const auto above = [&](float at) { return !(at <= static_cast<float>(axis.last)) || (nearest ? roundf(at) : floorf(at)) > pixel; };
    const bool rises = (high - low) * axis.ratio >= 0;
    const int32_t first = First([&](int64_t k) {
      const float at = axis.At(low, high, k);
      return !(rises ? below(at) : at == at && above(at));
    });
    const int32_t last = First([&](int64_t k) {
      const float at = axis.At(low, high, k);
      return at != at || (rises ? above(at) : below(at));
    });
    samples[i] = {first, last};
  }
};

// What an element of the images has of all samples, in their order; a crew shares the boxes.
template <typename T>
struct CropGradImageBody {
  using W = typename Wide<T>::type;
  CropGrid grid;
  Divider channels, width, height;  // of the images
  bool nearest;
  int64_t boxes;
  const float* gradient;
  const Samples* row_samples;
  const Samples* column_samples;
  T* images;

  MR_DEVICE void AddSample(float at_y, float at_x, int64_t y, int64_t x, float g, W& sum) const {
    if (nearest) {
      sum += static_cast<W>(g);
      return;
    }
    const Between rows = PixelsAt(at_y), columns = PixelsAt(at_x);
    const float top = (1 - rows.part) * g, bottom = rows.part * g;
    if (rows.low == y && columns.low == x) sum += static_cast<W>((1 - columns.part) * top);
    if (rows.low == y && columns.high == x) sum += static_cast<W>(columns.part * top);
    if (rows.high == y && columns.low == x) sum += static_cast<W>((1 - columns.part) * bottom);
    if (rows.high == y && columns.high == x) sum += static_cast<W>(columns.part * bottom);
  }
  MR_DEVICE void AddBox(int64_t box, int64_t y, int64_t x, int64_t channel, W& sum) const {
    const Samples rows = row_samples[box * height.by + y];
    if (rows.first >= rows.last) return;
    const Samples columns = column_samples[box * width.by + x];
    for (int64_t i = rows.first; i < rows.last; ++i) {
      const int64_t line = (box * grid.crop_height.by + i) * grid.crop_width.by;
      for (int64_t j = columns.first; j < columns.last; ++j) {
        AddSample(grid.RowAt(box, i), grid.ColumnAt(box, j), y, x, gradient[(line + j) * channels.by + channel], sum);
      }
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t i) const {
    const int64_t pixel = channels(i), line = width(pixel), image = height(line);
    W sum = 0;
    for (int64_t box = crew.rank(); box < boxes; box += crew.size()) {
      if (grid.owners[box] != image) continue;
      AddBox(box, line - image * height.by, pixel - line * width.by, i - pixel * channels.by, sum);
    }
    sum = crew.Reduce(sum, [](W a, W b) { return a + b; });
    if (crew.rank() == 0) images[i] = Wide<T>::Narrow(sum);
  }
};

struct BoxSum {
  float of[4];
};
template <typename T>
struct CropGradBoxesBody {
  CropGrid grid;
  int64_t crop;  // elements of one
  const float* gradient;
  const T* images;
  float* out;
  MR_DEVICE BoxSum Identity() const { return {{0, 0, 0, 0}}; }
  MR_DEVICE BoxSum Combine(const BoxSum& a, const BoxSum& b) const {
    return {{a.of[0] + b.of[0], a.of[1] + b.of[1], a.of[2] + b.of[2], a.of[3] + b.of[3]}};
  }
  MR_DEVICE BoxSum Load(int64_t box, int64_t k) const {
    const Sample s = grid.At(box * crop + k);
    if (!s.inside) return Identity();
    const Between y = PixelsAt(s.y), x = PixelsAt(s.x);
    float v[4];
    LoadAround(grid, images + grid.owners[box] * grid.image + s.channel, y, x, v);
    const float g = gradient[box * crop + k];
    const float by_y = ((1 - x.part) * (v[2] - v[0]) + x.part * (v[3] - v[1])) * g;
    const float by_x = ((1 - y.part) * (v[1] - v[0]) + y.part * (v[3] - v[2])) * g;
    return {{by_y * grid.rows.ByLow(s.row), by_x * grid.columns.ByLow(s.column), by_y * grid.rows.ByHigh(s.row),
             by_x * grid.columns.ByHigh(s.column)}};
  }
  MR_DEVICE void Store(int64_t box, const BoxSum& sum) const {
    for (int k = 0; k < 4; ++k) out[4 * box + k] = sum.of[k];
  }
};

// Fewer elements than these keep crews busy, which share the boxes.
constexpr int64_t kFewElements = 1 << 15;

}  // namespace

void LaunchCrop(const Queue& queue, Type type, const CropShape& shape, const void* images, const float* boxes, const int32_t* owners,
                float* crops) {
  CheckOwners(queue, shape, owners, boxes);
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CropBody<T> body = {GridOf(shape, boxes, owners), shape.nearest, shape.extrapolation, static_cast<const T*>(images)};
    Map(queue, CropElements(shape) * shape.boxes, crops, body);
  });
}

int64_t CropGradImageScratchBytes(const CropShape& shape) {
  return shape.boxes * (shape.height + shape.width) * static_cast<int64_t>(sizeof(Samples));
}

void LaunchCropGradImage(const Queue& queue, Type type, const CropShape& shape, const float* gradient, const float* boxes,
                         const int32_t* owners, void* images, void* scratch) {
  CheckOwners(queue, shape, owners);
  const CropGrid grid = GridOf(shape, boxes, owners);
  const int64_t rows = shape.boxes * shape.height, columns = shape.boxes * shape.width;
  Samples *const row_samples = static_cast<Samples*>(scratch), *const column_samples = row_samples + rows;
  ForEach(queue, rows, SamplesBody{grid.rows, DivideBy(shape.height, rows), shape.nearest, 0, boxes, row_samples});
  ForEach(queue, columns, SamplesBody{grid.columns, DivideBy(shape.width, columns), shape.nearest, 1, boxes, column_samples});
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = shape.batch * grid.image;
    const CropGradImageBody<T> body = {grid, DivideBy(shape.channels, n), DivideBy(shape.width, n), DivideBy(shape.height, n),
                                       shape.nearest, shape.boxes, gradient, row_samples, column_samples, static_cast<T*>(images)};
    ForEachRow(queue, n, n < kFewElements ? shape.boxes : 1, body);
  });
}

int64_t CropGradBoxesScratchBytes(const CropShape& shape) {
  return shape.boxes * SumChunks(shape.boxes, CropElements(shape), false) * static_cast<int64_t>(sizeof(BoxSum));
}

void LaunchCropGradBoxes(const Queue& queue, Type type, const CropShape& shape, const float* gradient, const void* images,
                         const float* boxes, const int32_t* owners, float* gradient_of_boxes, void* scratch) {
  CheckOwners(queue, shape, owners);
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t crop = CropElements(shape);
    const CropGradBoxesBody<T> body = {GridOf(shape, boxes, owners), crop, gradient, static_cast<const T*>(images), gradient_of_boxes};
    SumRows<BoxSum, /*kRowsAlone=*/true>(queue, shape.boxes, crop, false, scratch, body);
  });
}

}  // namespace millrace::cuda
