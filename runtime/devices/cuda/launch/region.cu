#include "cuda/launch/region.h"

#include <type_traits>

#include "cuda/launch/crew.h"
#include "cuda/launch/pack.h"
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

// The boxes that have samples of a row of an image, chained in their order; -1 is none.
struct RowBoxes {
  Divider height;  // of the images
  int32_t* first;  // [images, rows]
  int32_t* next;   // [boxes, rows]
};
// A thread for each row of each image.
struct RowBoxesBody {
  RowBoxes chain;
  int64_t boxes;
  const int32_t* owners;
  const Samples* row_samples;
  MR_DEVICE void operator()(int64_t line) const {
    constexpr int kAtOnce = 8;  // on their way
    const int64_t rows = chain.height.by, image = chain.height(line), row = line - image * rows;
    int32_t* last = chain.first + line;
    MR_NO_UNROLL for (int64_t base = 0; base < boxes; base += kAtOnce) {
      bool there[kAtOnce];
      MR_UNROLL for (int k = 0; k < kAtOnce; ++k) {
        const int64_t box = base + k < boxes ? base + k : boxes - 1;
        const Samples samples = row_samples[box * rows + row];
        there[k] = base + k < boxes && owners[box] == image && samples.first < samples.last;
      }
      MR_UNROLL for (int k = 0; k < kAtOnce; ++k) {
        if (!there[k]) continue;
        *last = static_cast<int32_t>(base + k);
        last = chain.next + (base + k) * rows + row;
      }
    }
    *last = -1;
  }
};

// What kPack elements of the images, of channels that follow one another, have of all samples, in their order: of the boxes that are
// chained, or of all, which a crew shares.
template <typename T, int kPack>
struct CropGradImageBody {
  using W = typename Wide<T>::type;
  static constexpr int kElements = kPack;
  CropGrid grid;
  Divider packs, width;  // of a pixel, of the images
  bool nearest, chained;
  int64_t boxes;
  const float* gradient;
  RowBoxes chain;
  const Samples* row_samples;
  const Samples* column_samples;
  T* images;

  MR_DEVICE void AddSample(float at_y, float at_x, int64_t y, int64_t x, const Pack<float, kPack>& given, W* sums) const {
    const Between rows = PixelsAt(at_y), columns = PixelsAt(at_x);
    for (int p = 0; p < kPack; ++p) {
      const float g = given.of[p], top = (1 - rows.part) * g, bottom = rows.part * g;
      if (nearest) {
        sums[p] += static_cast<W>(g);
        continue;
      }
      if (rows.low == y && columns.low == x) sums[p] += static_cast<W>((1 - columns.part) * top);
      if (rows.low == y && columns.high == x) sums[p] += static_cast<W>(columns.part * top);
      if (rows.high == y && columns.low == x) sums[p] += static_cast<W>((1 - columns.part) * bottom);
      if (rows.high == y && columns.high == x) sums[p] += static_cast<W>(columns.part * bottom);
    }
  }
  MR_DEVICE void AddBox(int64_t box, int64_t y, int64_t x, int64_t channel, W* sums) const {
    const Samples columns = column_samples[box * width.by + x];
    if (columns.first >= columns.last) return;
    const Samples rows = row_samples[box * chain.height.by + y];
    for (int64_t i = rows.first; i < rows.last; ++i) {
      const int64_t line = (box * grid.crop_height.by + i) * grid.crop_width.by;
      for (int64_t j = columns.first; j < columns.last; ++j) {
        AddSample(grid.RowAt(box, i), grid.ColumnAt(box, j), y, x, Load<kPack>(gradient + (line + j) * grid.channels.by + channel), sums);
      }
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t i) const {
    const int64_t pixel = packs(i), line = width(pixel), image = chain.height(line), y = line - image * chain.height.by;
    const int64_t x = pixel - line * width.by, channel = (i - pixel * packs.by) * kPack;
    W sums[kPack] = {};
    for (int64_t box = chained ? chain.first[line] : -1, next = -1; box >= 0; box = next) {
      next = chain.next[box * chain.height.by + y];  // is on its way meanwhile
      AddBox(box, y, x, channel, sums);
    }
    for (int64_t box = chained ? boxes : crew.rank(); box < boxes; box += crew.size()) {
      if (grid.owners[box] == image) AddBox(box, y, x, channel, sums);
    }
    Pack<T, kPack> result;
    for (int p = 0; p < kPack; ++p) result.of[p] = Wide<T>::Narrow(crew.Reduce(sums[p], [](W a, W b) { return a + b; }));
    if (crew.rank() == 0) Store(images + i * kPack, result);
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

// Few elements keep crews busy, which share the boxes.
bool IsFew(const CropShape& shape) { return shape.batch * shape.height * shape.width * shape.channels < 1 << 15; }

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
  const int64_t chained = IsFew(shape) ? 0 : (shape.batch + shape.boxes) * shape.height;
  return shape.boxes * (shape.height + shape.width) * static_cast<int64_t>(sizeof(Samples)) + chained * static_cast<int64_t>(sizeof(int32_t));
}

void LaunchCropGradImage(const Queue& queue, Type type, const CropShape& shape, const float* gradient, const float* boxes,
                         const int32_t* owners, void* images, void* scratch) {
  CheckOwners(queue, shape, owners);
  const CropGrid grid = GridOf(shape, boxes, owners);
  const int64_t rows = shape.boxes * shape.height, columns = shape.boxes * shape.width, lines = shape.batch * shape.height;
  Samples *const row_samples = static_cast<Samples*>(scratch), *const column_samples = row_samples + rows;
  int32_t* const first = reinterpret_cast<int32_t*>(column_samples + columns);
  const RowBoxes chain = {DivideBy(shape.height, lines), first, first + lines};
  ForEach(queue, rows, SamplesBody{grid.rows, DivideBy(shape.height, rows), shape.nearest, 0, boxes, row_samples});
  ForEach(queue, columns, SamplesBody{grid.columns, DivideBy(shape.width, columns), shape.nearest, 1, boxes, column_samples});
  const int64_t n = shape.batch * grid.image;
  const bool few = IsFew(shape);
  if (!few) ForEach(queue, lines, RowBoxesBody{chain, shape.boxes, owners, row_samples});
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto body_of = [&]<int kPack>(Tag<Pack<T, kPack>>) {
      return CropGradImageBody<T, kPack>{grid, DivideBy(shape.channels / kPack, n), DivideBy(shape.width, n), shape.nearest, !few, shape.boxes,
                                         gradient, chain, row_samples, column_samples, static_cast<T*>(images)};
    };
    if (few) return ForEachRow(queue, n, shape.boxes, body_of(Tag<Pack<T, 1>>()));
    const auto launch = [&](auto elements) {
      const auto body = body_of(elements);
      ForEach(queue, n / body.kElements, AloneBody<std::decay_t<decltype(body)>>{body});
    };
    shape.channels % 4 == 0 ? launch(Tag<Pack<T, 4>>()) : launch(Tag<Pack<T, 1>>());
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
