// Fourier transforms of the lines of an array: what FFT, RFFT and IRFFT of any rank come down to.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LINES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LINES_H_

#include <algorithm>
#include <complex>
#include <optional>

#include "cpu/kernels/common.h"
#include "cpu/kernels/fourier_lanes.h"
#include "cpu/kernels/transpose_tile.h"

namespace millrace::cpu {

// Moves up to kLanes lines of complex numbers between memory and lanes. Steps count T: an element's parts lie side by
// side, the next element is `element_step` behind, the next line `line_step`.
template <typename T>
class LaneMover {
 public:
  using Lanes = ComplexLanes<T>;
  using Vector = GemmVector<T>;
  static constexpr int kLanes = kGemmLanes<T>;

  static void Load(const T* from, int64_t line_step, int64_t element_step, int64_t lines, int64_t n, Lanes* to) {
    int64_t i = 0;
    if (element_step == 2) {
      for (; i + kLanes / 2 <= n; i += kLanes / 2) {
        TransposeTile<T>::Run(from + 2 * i, line_step, lines, reinterpret_cast<T*>(to + i), kLanes);
      }
    }
    for (; i < n; ++i) {
      alignas(kGemmVectorBytes) T re[kLanes] = {}, im[kLanes] = {};
      const T* x = from + i * element_step;
      if (line_step == 2 && lines == kLanes) {
        for (int64_t l = 0; l < kLanes; ++l) {
          re[l] = x[2 * l];
          im[l] = x[2 * l + 1];
        }
      } else {
        for (int64_t l = 0; l < lines; ++l) {
          re[l] = x[l * line_step];
          im[l] = x[l * line_step + 1];
        }
      }
      std::memcpy(&to[i].re, re, sizeof(Vector));
      std::memcpy(&to[i].im, im, sizeof(Vector));
    }
  }

  // Real numbers side by side, as complex ones.
  static void LoadReal(const T* from, int64_t line_step, int64_t lines, int64_t n, Lanes* to) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      TransposeTile<T>::Run(from + i, line_step, lines, reinterpret_cast<T*>(to + i), 2 * kLanes);
      for (int k = 0; k < kLanes; ++k) to[i + k].im = Vector{};
    }
    for (; i < n; ++i) {
      to[i] = Lanes{};
      for (int64_t l = 0; l < lines; ++l) to[i].re[l] = from[l * line_step + i];
    }
  }

  static void Store(const Lanes* from, T scale, T* to, int64_t line_step, int64_t element_step, int64_t lines, int64_t n) {
    int64_t i = 0;
    if (element_step == 2) {
      alignas(kGemmVectorBytes) T tile[kLanes * kLanes];
      for (; i + kLanes / 2 <= n; i += kLanes / 2) {
        for (int k = 0; k < kLanes / 2; ++k) {
          const Vector re = from[i + k].re * scale, im = from[i + k].im * scale;
          std::memcpy(tile + 2 * k * kLanes, &re, sizeof(re));
          std::memcpy(tile + (2 * k + 1) * kLanes, &im, sizeof(im));
        }
        if (lines == kLanes) {
          TransposeTile<T>::Run(tile, kLanes, kLanes, to + 2 * i, line_step);
          continue;
        }
        alignas(kGemmVectorBytes) T turned[kLanes * kLanes];
        TransposeTile<T>::Run(tile, kLanes, kLanes, turned, kLanes);
        for (int64_t l = 0; l < lines; ++l) std::copy_n(turned + l * kLanes, kLanes, to + l * line_step + 2 * i);
      }
    }
    for (; i < n; ++i) {
      alignas(kGemmVectorBytes) T re[kLanes], im[kLanes];
      const Vector scaled_re = from[i].re * scale, scaled_im = from[i].im * scale;
      std::memcpy(re, &scaled_re, sizeof(re));
      std::memcpy(im, &scaled_im, sizeof(im));
      T* y = to + i * element_step;
      if (line_step == 2 && lines == kLanes) {
        for (int64_t l = 0; l < kLanes; ++l) {
          y[2 * l] = re[l];
          y[2 * l + 1] = im[l];
        }
      } else {
        for (int64_t l = 0; l < lines; ++l) {
          y[l * line_step] = re[l];
          y[l * line_step + 1] = im[l];
        }
      }
    }
  }

  static void StoreReal(const Lanes* from, T scale, T* to, int64_t line_step, int64_t lines, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t l = 0; l < lines; ++l) to[l * line_step + i] = from[i].re[l] * scale;
    }
  }
};

// Transforms of lines of one length. A long line, or few of them, is taken as a matrix of rows and columns (Bailey's four
// steps): columns are transformed, turned, then rows, whose results are the columns of the answer.
template <typename T>
class LineFourier {
 public:
  using Lanes = ComplexLanes<T>;
  using Mover = LaneMover<T>;
  static constexpr int64_t kLanes = kGemmLanes<T>;

  // For `count` lines that are transformed in `groups` of kLanes at most; `by_line`: by RunLine where that is better. Without its
  // `tables` it tells what scratch it needs, and must not run.
  LineFourier(int64_t length, int64_t count, int64_t groups, bool by_line, bool tables) : length_(length), whole_(1) {
    int64_t rows = 1;
    for (int64_t d = 2; d * d <= length; ++d) {
      if (length % d == 0) rows = d;
    }
    in_parts_ = by_line && rows >= 8 && (length > kLongest || count < kLanes);
    int64_t longest = 0;
    if (in_parts_) {
      columns_of_.emplace(rows, tables);
      rows_of_.emplace(length / rows, tables);
      longest = std::max(columns_of_->room(), rows_of_->room());
      turns_.resize(tables ? length : 0);
      for (int64_t k = 0; tables && k < length; ++k) turns_[k] = std::complex<T>(LaneFourier<T>::Root(k, length));
      groups = (length / rows + kLanes - 1) / kLanes;
    } else {
      whole_ = LaneFourier<T>(length, tables);
      longest = std::max(whole_.room(), length + 1);
    }
    shard_bytes_ = 2 * longest * static_cast<int64_t>(sizeof(Lanes));
    const int64_t most = std::clamp<int64_t>(kMostScratch / shard_bytes_, 1, kMaxShards);
    shards_ = NumShards(groups, std::max<int64_t>(kElementGrain / 2 / (kLanes * longest), 1), most);
  }

  int64_t length() const { return length_; }
  bool in_parts() const { return in_parts_; }
  const LaneFourier<T>& whole() const { return whole_; }
  int64_t shards() const { return shards_; }
  // Of the two buffers of a shard, each of length() + 1 elements at least unless in parts.
  int64_t shard_bytes() const { return shard_bytes_; }
  int64_t scratch_bytes() const {
    return shards_ * shard_bytes_ + (in_parts_ ? 2 * length_ * static_cast<int64_t>(sizeof(T)) : 0);
  }

  // One line, its numbers side by side, in place. Requires in_parts().
  template <bool kForward>
  void RunLine(const KernelContext& context, T* line, T scale, void* scratch) const {
    const int64_t rows = columns_of_->length(), columns = rows_of_->length();
    T* turned = reinterpret_cast<T*>(static_cast<char*>(scratch) + shards_ * shard_bytes_);
    ForGroups(context, columns, scratch, [&](int64_t first, int64_t count, Lanes* a, Lanes* b) {
      Mover::Load(line + 2 * first, 2, 2 * columns, count, rows, a);
      Lanes* done = columns_of_->template Run<kForward>(a, b);
      for (int64_t k = 1; k < rows; ++k) {
        typename Lanes::Vector re{}, im{};
        for (int64_t l = 0; l < count; ++l) {
          const std::complex<T> turn = turns_[(first + l) * k];
          re[l] = turn.real();
          im[l] = kForward ? turn.imag() : -turn.imag();
        }
        const Lanes x = done[k];
        done[k] = {x.re * re - x.im * im, x.re * im + x.im * re};
      }
      Mover::Store(done, T(1), turned + 2 * first, 2, 2 * columns, count, rows);
    });
    ForGroups(context, rows, scratch, [&](int64_t first, int64_t count, Lanes* a, Lanes* b) {
      Mover::Load(turned + 2 * first * columns, 2 * columns, 2, count, columns, a);
      Mover::Store(rows_of_->template Run<kForward>(a, b), scale, line + 2 * first, 2, 2 * rows, count, columns);
    });
  }

 private:
  static constexpr int64_t kLongest = 4096;             // of which lanes and their copy stay in the second-level cache
  static constexpr int64_t kMostScratch = int64_t{64} << 20;

  // body(first line, lines, buffers) for groups of kLanes of `lines` lines.
  template <typename Body>
  void ForGroups(const KernelContext& context, int64_t lines, void* scratch, Body&& body) const {
    const int64_t groups = (lines + kLanes - 1) / kLanes, shards = std::min(groups, shards_);
    context.parallel->For(shards, [&](int64_t s) {
      Lanes* a = reinterpret_cast<Lanes*>(static_cast<char*>(scratch) + s * shard_bytes_);
      Lanes* b = a + shard_bytes_ / (2 * static_cast<int64_t>(sizeof(Lanes)));
      for (int64_t g = groups * s / shards; g < groups * (s + 1) / shards; ++g) {
        body(g * kLanes, std::min(kLanes, lines - g * kLanes), a, b);
      }
    });
  }

  int64_t length_, shard_bytes_ = 0, shards_ = 1;
  bool in_parts_ = false;
  LaneFourier<T> whole_;
  std::optional<LaneFourier<T>> columns_of_, rows_of_;  // of the matrix that a line is taken as
  std::vector<std::complex<T>> turns_;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_FOURIER_LINES_H_
