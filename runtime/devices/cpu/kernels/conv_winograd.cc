// Layers of 3x3 filters and stride 1 by minimal filtering (Winograd; Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2016): F(2x2, 3x3), which takes 16 multiplications for 4 outputs instead of 36.
// Its matrices hold 0, 1 and 1/2 only, so rounding is that of the direct sum.
//
// The output is cut into tiles of 2x2 pixels; a tile is made from 4x4 input pixels, its 16 points:
//
//   forward  V = B' x B,  U = G f G',  M[point] = V[point] * U[point],  y = A' M A
//   kInput   the same layer with the filter turned around: output gradient in, input gradient out
//   kFilter  P[point] = sum over tiles of V[point]' * (A dy A')[point],  df = G' P G
//
// Tiles go through in blocks that stay in the cache, points as one product each.
#include <algorithm>
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/gemm_tile.h"
#include "cpu/kernels/transpose_tile.h"

namespace millrace::cpu {
namespace {

constexpr int kPoints = 16;
constexpr int64_t kLanes = kGemmLanes<float>;
using Vector = GemmVector<float>;
// Columns of a panel of a transformed filter, in vectors: what leaves room for rows in the registers.
constexpr int kPanelVectors = kGemmVectors + (kGemmRows == 8 ? 1 : 0);
constexpr double kFlopsPerShard = 8e6;
// Every shard of a filter gradient has sums of its own: so many floats together at most.
constexpr int64_t kMaxSums = 1 << 20;
// Above these many pairs of channels a transformed filter is out of reach of the cache, and sums are too few to share.
constexpr int64_t kMaxChannelPairs = 256 * 256, kMaxFilterChannelPairs = kMaxSums / kPoints / 3;
// Up to these, sums stay in the cache; above, so many tiles pay for them.
constexpr int64_t kNearChannelPairs = 64 * 64, kManyTiles = 512;
// Tiles that pay for the filter's transformation, and the part of their pixels that must be inside.
constexpr int64_t kMinTiles = 32;
constexpr double kMinInside = 0.7;

Vector Load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
void Store(const Vector& vector, float* to) { std::memcpy(to, &vector, sizeof(vector)); }

// One dimension of B' x, of A' m and of A y, G f and G' p.
void InputPoints(const Vector* x, Vector* points) {
  points[0] = x[0] - x[2];
  points[1] = x[1] + x[2];
  points[2] = x[2] - x[1];
  points[3] = x[1] - x[3];
}
void OutputPixels(const Vector* points, Vector* y) {
  y[0] = points[0] + points[1] + points[2];
  y[1] = points[1] - points[2] - points[3];
}
void GradientPoints(const Vector* y, Vector* points) {
  points[0] = y[0];
  points[1] = y[0] + y[1];
  points[2] = y[0] - y[1];
  points[3] = -y[1];
}
void FilterPoints(const Vector* f, Vector* points) {
  const Vector ends = 0.5f * (f[0] + f[2]), middle = 0.5f * f[1];
  points[0] = f[0];
  points[1] = ends + middle;
  points[2] = ends - middle;
  points[3] = f[2];
}
void FilterTaps(const Vector* points, Vector* f) {
  const Vector sum = 0.5f * (points[1] + points[2]);
  f[0] = points[0] + sum;
  f[1] = 0.5f * (points[1] - points[2]);
  f[2] = sum + points[3];
}

// Applies `one` to the columns and then to the rows of kIn x kIn values (row by row): kOut x kOut values.
template <int kIn, int kOut, typename One>
void BothDimensions(One one, const Vector* from, Vector* to) {
  Vector half[kOut][kIn];
#pragma GCC unroll 4
  for (int j = 0; j < kIn; ++j) {
    Vector column[kIn], made[kOut];
    for (int i = 0; i < kIn; ++i) column[i] = from[i * kIn + j];
    one(column, made);
    for (int i = 0; i < kOut; ++i) half[i][j] = made[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kOut; ++i) one(half[i], to + i * kOut);
}

// Images with channels last, read by tiles. Pixels outside are zeros.
struct Images {
  int64_t height, width, channels;
  int64_t pad_top, pad_left;  // the first tile begins so many pixels outside
};

// A tile of the output; tiles go row by row, image by image.
struct TilePosition {
  int64_t image = 0, top = 0, left = 0;
};

class WinogradConv final : public Kernel {
 public:
  WinogradConv(const ConvGeometry& g, ConvKind kind) : kind_(kind) {
    input_ = {g.in[0], g.in[1], g.in_channels, g.pad_before[0], g.pad_before[1]};
    output_ = {g.out[0], g.out[1], g.out_channels, 0, 0};
    if (kind == ConvKind::kInput) {
      std::swap(input_, output_);
      input_.pad_top = 2 - g.pad_before[0];
      input_.pad_left = 2 - g.pad_before[1];
      output_.pad_top = output_.pad_left = 0;
    }
    tile_columns_ = (output_.width + 1) / 2;
    image_tiles_ = (output_.height + 1) / 2 * tile_columns_;
    tiles_ = g.batch * image_tiles_;
    const int64_t pairs = input_.channels * output_.channels;
    block_ = kind == ConvKind::kFilter ? 48 : 24;
    v_step_ = block_ * input_.channels + kLanes;
    m_step_ = block_ * output_.channels + kLanes;
    filter_elements_ = kPoints * pairs;
    zeros_.assign(std::max(input_.channels, output_.channels), 0.0f);
    int64_t most = (tiles_ + block_ - 1) / block_;
    if (kind == ConvKind::kFilter) most = std::clamp<int64_t>(kMaxSums / filter_elements_, 1, most);
    shards_ = NumShards(static_cast<int64_t>(g.flops()), static_cast<int64_t>(kFlopsPerShard), std::min(most, kMaxShards));
  }

  // The filter's points, or each shard's sums of them; then each shard's blocks.
  int64_t scratch_bytes() const override { return FilterBytes() * filters() + shards_ * BlockBytes(); }

  absl::Status Run(const KernelContext& context) const override {
    auto* filters = static_cast<float*>(context.scratch);
    float* blocks = filters + this->filters() * FilterBytes() / static_cast<int64_t>(sizeof(float));
    if (kind_ == ConvKind::kForward) TransformFilter(context, context.input<float>(1), filters);
    if (kind_ == ConvKind::kInput) TransformTurnedFilter(context, context.input<float>(1), filters);
    const float* in = context.input<float>(kind_ == ConvKind::kInput ? 2 : 0);
    const auto shard = [&](int64_t s) {
      float* v = blocks + s * BlockBytes() / static_cast<int64_t>(sizeof(float));
      float* m = v + kPoints * v_step_;
      float* sums = filters + s * FilterBytes() / static_cast<int64_t>(sizeof(float));
      if (kind_ == ConvKind::kFilter) std::memset(sums, 0, filter_elements_ * sizeof(float));
      for (int64_t tile = tiles_ * s / shards_, end = tiles_ * (s + 1) / shards_; tile < end; tile += block_) {
        const int64_t count = std::min(block_, end - tile);
        ForTiles(tile, count, [&](const TilePosition& at, int64_t t) { TransformInput(in, at, v + t * input_.channels); });
        if (kind_ == ConvKind::kFilter) {
          ForTiles(tile, count, [&](const TilePosition& at, int64_t t) {
            TransformGradient(context.input<float>(2), at, m + t * output_.channels);
          });
          AddPoints(v, m, count, sums);
        } else {
          if (output_.channels == kLanes && input_.channels == kLanes) {
            MultiplyRowsOfPoints<kLanes>(v, filters, count, m);
          } else if (output_.channels == kLanes) {
            MultiplyRowsOfPoints<0>(v, filters, count, m);
          } else {
            MultiplyPoints(v, filters, count, m);
          }
          ForTiles(tile, count, [&](const TilePosition& at, int64_t t) {
            TransformOutput(m + t * output_.channels, at, context.output<float>(0));
          });
        }
      }
    };
    if (shards_ == 1) {
      shard(0);
    } else {
      context.parallel->For(shards_, shard);
    }
    if (kind_ == ConvKind::kFilter) FinishFilter(context, filters, context.output<float>(0));
    return absl::OkStatus();
  }

 private:
  int64_t filters() const { return kind_ == ConvKind::kFilter ? shards_ : 1; }
  int64_t FilterBytes() const { return AlignUp(filter_elements_ * static_cast<int64_t>(sizeof(float))); }
  int64_t BlockBytes() const { return AlignUp(kPoints * (v_step_ + m_step_) * static_cast<int64_t>(sizeof(float))); }

  // Pixels of `size` x `size` from the tile's first on; those outside are at `zeros_`.
  template <int kSize>
  void Locate(const Images& images, const float* data, const TilePosition& tile, const float** pixels) const {
    const int64_t top = tile.top - images.pad_top, left = tile.left - images.pad_left;
    const float* first = data + ((tile.image * images.height + top) * images.width + left) * images.channels;
    const bool inside = top >= 0 && left >= 0 && top + kSize <= images.height && left + kSize <= images.width;
    for (int64_t i = 0; i < kSize; ++i) {
      const bool row_inside = inside || (top + i >= 0 && top + i < images.height);
      for (int64_t j = 0; j < kSize; ++j) {
        const bool pixel_inside = inside || (row_inside && left + j >= 0 && left + j < images.width);
        pixels[i * kSize + j] = pixel_inside ? first + (i * images.width + j) * images.channels : zeros_.data();
      }
    }
  }

  TilePosition PositionOf(int64_t tile) const {
    const int64_t within = tile % image_tiles_;
    return {tile / image_tiles_, within / tile_columns_ * 2, within % tile_columns_ * 2};
  }

  // Calls fn(tile, number in the block) for `count` tiles from `tile` on.
  template <typename Fn>
  void ForTiles(int64_t tile, int64_t count, Fn&& fn) const {
    TilePosition position = PositionOf(tile);
    for (int64_t t = 0; t < count; ++t) {
      fn(position, t);
      if ((position.left += 2) < output_.width) continue;
      position.left = 0;
      if ((position.top += 2) < output_.height) continue;
      position.top = 0;
      ++position.image;
    }
  }

  void TransformInput(const float* data, const TilePosition& tile, float* v) const {
    const float* pixels[kPoints];
    Locate<4>(input_, data, tile, pixels);
    for (int64_t c = 0; c < input_.channels; c += kLanes) {
      Vector x[kPoints], points[kPoints];
#pragma GCC unroll 16
      for (int i = 0; i < kPoints; ++i) x[i] = Load(pixels[i] + c);
      BothDimensions<4, 4>(InputPoints, x, points);
#pragma GCC unroll 16
      for (int i = 0; i < kPoints; ++i) Store(points[i], v + i * v_step_ + c);
    }
  }

  void TransformGradient(const float* data, const TilePosition& tile, float* m) const {
    const float* pixels[4];
    Locate<2>(output_, data, tile, pixels);
    for (int64_t k = 0; k < output_.channels; k += kLanes) {
      Vector y[4], points[kPoints];
      for (int i = 0; i < 4; ++i) y[i] = Load(pixels[i] + k);
      BothDimensions<2, 4>(GradientPoints, y, points);
#pragma GCC unroll 16
      for (int i = 0; i < kPoints; ++i) Store(points[i], m + i * m_step_ + k);
    }
  }

  void TransformOutput(const float* m, const TilePosition& tile, float* data) const {
    const bool below = tile.top + 1 < output_.height, right = tile.left + 1 < output_.width;
    float* to = data + ((tile.image * output_.height + tile.top) * output_.width + tile.left) * output_.channels;
    for (int64_t k = 0; k < output_.channels; k += kLanes) {
      Vector y[4];
      if (output_.channels == kLanes) {
        JoinRowsOfPoints(m, y);
      } else {
        Vector points[kPoints];
#pragma GCC unroll 16
        for (int i = 0; i < kPoints; ++i) points[i] = Load(m + i * m_step_ + k);
        BothDimensions<4, 2>(OutputPixels, points, y);
      }
      Store(y[0], to + k);
      if (right) Store(y[1], to + output_.channels + k);
      if (below) Store(y[2], to + output_.width * output_.channels + k);
      if (below && right) Store(y[3], to + (output_.width + 1) * output_.channels + k);
    }
  }

  // Calls fn(integral_constant<vectors>, first column) for the panels of `columns`: nearly equal ones.
  template <typename Fn>
  static void ForPanels(int64_t columns, Fn&& fn) {
    const int64_t vectors = columns / kLanes, panels = (vectors + kPanelVectors - 1) / kPanelVectors;
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t begin = vectors * p / panels, width = vectors * (p + 1) / panels - begin;
      if (width == 4) fn(std::integral_constant<int, std::min(4, kPanelVectors)>(), begin * kLanes);
      if (width == 3) fn(std::integral_constant<int, 3>(), begin * kLanes);
      if (width == 2) fn(std::integral_constant<int, 2>(), begin * kLanes);
      if (width == 1) fn(std::integral_constant<int, 1>(), begin * kLanes);
    }
  }
  template <int kVectors>
  static constexpr int kPanelRows = kVectors == 4 ? 6 : kGemmRows;

  // The panel of a point's filter with these columns: [input channel][column].
  float* Panel(float* filter, int point, int64_t column) const {
    return filter + (point * output_.channels + column) * input_.channels;
  }

  // [tile][input channel] * filter, for every point. A panel stays near while the rows go by.
  void MultiplyPoints(const float* v, float* filter, int64_t count, float* m) const {
    const int64_t depth = input_.channels, columns = output_.channels;
    for (int p = 0; p < kPoints; ++p) {
      ForPanels(columns, [&](auto vectors, int64_t column) {
        constexpr int kVectors = vectors();
        const float* panel = Panel(filter, p, column);
        ForRowGroups<kPanelRows<kVectors>>(count, [&](auto rows, int64_t row) {
          Vector sums[rows() * kVectors];
          MultiplyTile<rows(), kVectors, 0>(depth, v + p * v_step_ + row * depth, depth, 1, panel, kVectors * kLanes, sums);
          for (int i = 0; i < rows(); ++i) {
            std::memcpy(m + p * m_step_ + (row + i) * columns + column, &sums[i * kVectors], kVectors * sizeof(Vector));
          }
        });
      });
    }
  }

  // The same for a single vector of output channels: the points of a row together, so that one dimension of A' M A is
  // done in registers. m holds two values for each of the four rows. kDepth: the input channels, or 0 for any number.
  template <int64_t kDepth>
  void MultiplyRowsOfPoints(const float* v, const float* filter, int64_t count, float* m) const {
    const int64_t depth = kDepth > 0 ? kDepth : input_.channels;
    constexpr int kMaxRows = kGemmRows == 8 ? 6 : 2;
    for (int i = 0; i < 4; ++i) {
      const float* panels = filter + 4 * i * depth * kLanes;
      ForRowGroups<kMaxRows>(count, [&](auto rows, int64_t row) {
        constexpr int kRows = rows();
        const float* a = v + 4 * i * v_step_ + row * depth;
        Vector sums[kRows][4] = {};
        for (int64_t l = 0; l < depth; ++l, ++a) {
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) {
            const Vector columns = Load(panels + (j * depth + l) * kLanes);
#pragma GCC unroll 6
            for (int r = 0; r < kRows; ++r) sums[r][j] += a[j * v_step_ + r * depth] * columns;
          }
        }
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
          Vector y[2];
          OutputPixels(sums[r], y);
          for (int j = 0; j < 2; ++j) Store(y[j], m + (2 * i + j) * m_step_ + (row + r) * kLanes);
        }
      });
    }
  }

  void JoinRowsOfPoints(const float* m, Vector* y) const {
    for (int j = 0; j < 2; ++j) {
      Vector column[4], made[2];
      for (int i = 0; i < 4; ++i) column[i] = Load(m + (2 * i + j) * m_step_);
      OutputPixels(column, made);
      y[j] = made[0];
      y[2 + j] = made[1];
    }
  }

  // sums[point][input channel][output channel] += products over the tiles.
  void AddPoints(const float* v, const float* m, int64_t count, float* sums) const {
    const int64_t rows_end = input_.channels, columns = output_.channels;
    for (int p = 0; p < kPoints; ++p) {
      ForPanels(columns, [&](auto vectors, int64_t column) {
        constexpr int kVectors = vectors();
        ForRowGroups<kPanelRows<kVectors>>(rows_end, [&](auto rows, int64_t row) {
          Vector tile[rows() * kVectors];
          MultiplyTile<rows(), kVectors, 0>(count, v + p * v_step_ + row, 1, rows_end, m + p * m_step_ + column, columns, tile);
          for (int i = 0; i < rows(); ++i) {
            float* to = sums + (p * rows_end + row + i) * columns + column;
            for (int k = 0; k < kVectors; ++k) Store(Load(to + k * kLanes) + tile[i * kVectors + k], to + k * kLanes);
          }
        });
      });
    }
  }

  void TransformFilter(const KernelContext& context, const float* filter, float* to) const {
    const int64_t channels = input_.channels, columns = output_.channels;
    ParallelRange(context, channels, kElementGrain / (kPoints * columns) + 1, [&](int64_t begin, int64_t end) {
      ForPanels(columns, [&](auto vectors, int64_t column) {
        for (int64_t c = begin; c < end; ++c) {
          for (int k = 0; k < vectors(); ++k) {
            Vector taps[9], points[kPoints];
            for (int i = 0; i < 9; ++i) taps[i] = Load(filter + (i * channels + c) * columns + column + k * kLanes);
            BothDimensions<3, 4>(FilterPoints, taps, points);
            for (int p = 0; p < kPoints; ++p) Store(points[p], Panel(to, p, column) + (c * vectors() + k) * kLanes);
          }
        }
      });
    });
  }

  // Of the filter [tap][output_.channels][input_.channels] with its taps in reverse: transposed square by square.
  void TransformTurnedFilter(const KernelContext& context, const float* filter, float* to) const {
    const int64_t channels = input_.channels, columns = output_.channels;
    ParallelRange(context, channels / kLanes, kElementGrain / (kPoints * columns * kLanes) + 1, [&](int64_t begin, int64_t end) {
      float square[kPoints][kLanes * kLanes];
      ForPanels(columns, [&](auto vectors, int64_t column) {
        for (int64_t c = begin * kLanes; c < end * kLanes; c += kLanes) {
          for (int k = 0; k < vectors(); ++k) {
            for (int64_t row = 0; row < kLanes; ++row) {
              const int64_t from = (column + k * kLanes + row) * channels + c;
              Vector taps[9], points[kPoints];
              for (int i = 0; i < 9; ++i) taps[i] = Load(filter + (8 - i) * columns * channels + from);
              BothDimensions<3, 4>(FilterPoints, taps, points);
              for (int p = 0; p < kPoints; ++p) Store(points[p], square[p] + row * kLanes);
            }
            for (int p = 0; p < kPoints; ++p) {
              TransposeTile<float>::Run(square[p], kLanes, kLanes, Panel(to, p, column) + (c * vectors() + k) * kLanes,
                                        vectors() * kLanes);
            }
          }
        }
      });
    });
  }

  // The shards' sums in their order, back to taps.
  void FinishFilter(const KernelContext& context, const float* sums, float* filter) const {
    const int64_t pairs = input_.channels * output_.channels, step = FilterBytes() / static_cast<int64_t>(sizeof(float));
    ParallelRange(context, pairs / kLanes, kElementGrain / (kPoints * kLanes * shards_) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kLanes; at < end * kLanes; at += kLanes) {
        Vector points[kPoints], taps[9];
        for (int p = 0; p < kPoints; ++p) {
          points[p] = Load(sums + p * pairs + at);
          for (int64_t s = 1; s < shards_; ++s) points[p] += Load(sums + s * step + p * pairs + at);
        }
        BothDimensions<4, 3>(FilterTaps, points, taps);
        for (int i = 0; i < 9; ++i) Store(taps[i], filter + i * pairs + at);
      }
    });
  }

  const ConvKind kind_;
  // Of the layer that is computed: for kInput the gradients are its input and output.
  Images input_, output_;
  int64_t tile_columns_ = 0, image_tiles_ = 0, tiles_ = 0, block_ = 0, shards_ = 1;
  int64_t v_step_ = 0, m_step_ = 0;  // floats from point to point of a block; no multiple of the cache's period
  int64_t filter_elements_ = 0;
  std::vector<float> zeros_;
};

}  // namespace

bool WinogradIsFaster(const ConvGeometry& g, ConvKind kind) {
  const ConvGeometry::Sizes& out = kind == ConvKind::kInput ? g.in : g.out;
  const int64_t tiles = g.batch * ((out[0] + 1) / 2) * ((out[1] + 1) / 2), pairs = g.in_channels * g.out_channels;
  if (tiles < kMinTiles || static_cast<double>(g.batch * out[0] * out[1]) < kMinInside * 4.0 * static_cast<double>(tiles)) {
    return false;
  }
  if (kind != ConvKind::kFilter) return pairs <= kMaxChannelPairs;
  return pairs <= kMaxFilterChannelPairs && (pairs <= kNearChannelPairs || tiles >= kManyTiles);
}

std::unique_ptr<Kernel> MakeWinogradConv(const ConvGeometry& g, ConvKind kind) {
  if (g.spatial != 2 || g.channels_first || g.groups != 1 || g.in_channels % kLanes != 0 || g.out_channels % kLanes != 0) {
    return nullptr;
  }
  for (int i = 0; i < 2; ++i) {
    if (g.kernel[i] != 3 || g.stride[i] != 1 || g.dilation[i] != 1 || g.pad_before[i] > 2) return nullptr;
  }
  return std::make_unique<WinogradConv>(g, kind);
}

}  // namespace millrace::cpu
