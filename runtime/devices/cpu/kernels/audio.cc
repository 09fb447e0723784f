// Spectrograms of sound, and mel-frequency cepstral coefficients of them (Davis and Mermelstein, 1980). All in double.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/fourier_lanes.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/shards.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// As many windows at once as a vector has lanes.
class Spectrogram {
 public:
  explicit Spectrogram(const OpInstance& node)
      : channels_(node.inputs[0].shape.dim(1)),
        stride_(node.attrs.GetOr<int64_t>("stride", 1)),
        rows_(node.outputs[0].shape.dim(1)),
        frequencies_(node.outputs[0].shape.dim(2)),
        squared_(node.attrs.GetOr("magnitude_squared", false)),
        fourier_(2 * (frequencies_ - 1)),
        window_(node.attrs.GetOr<int64_t>("window_size", 2)) {
    for (size_t i = 0; i < window_.size(); ++i) {
      window_[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window_.size()));
    }
    const int64_t most = std::clamp<int64_t>(kMostScratch / ShardBytes(), 1, kMaxShards);
    shards_ = NumShards(Groups(), std::max<int64_t>(kElementGrain / (kLanes * fourier_.length()), 1), most);
  }

  int64_t scratch_bytes() const { return shards_ * ShardBytes(); }

  absl::Status Run(const KernelContext& context) const {
    const int64_t groups = Groups();
    if (groups == 0) return absl::OkStatus();
    context.parallel->For(shards_, [&](int64_t shard) {
      Lanes* buffer = reinterpret_cast<Lanes*>(static_cast<char*>(context.scratch) + shard * ShardBytes());
      for (int64_t g = groups * shard / shards_; g < groups * (shard + 1) / shards_; ++g) Transform(context, g * kLanes, buffer);
    });
    return absl::OkStatus();
  }

 private:
  using Lanes = ComplexLanes<double>;
  static constexpr int64_t kLanes = LaneFourier<double>::kLanes;
  static constexpr int64_t kMostScratch = int64_t{16} << 20;

  int64_t Groups() const { return (channels_ * rows_ + kLanes - 1) / kLanes; }
  int64_t ShardBytes() const { return 2 * fourier_.room() * static_cast<int64_t>(sizeof(Lanes)); }

  // Windows [first, first + kLanes) of all channels' one after another.
  void Transform(const KernelContext& context, int64_t first, Lanes* buffer) const {
    const int64_t lanes = std::min(kLanes, channels_ * rows_ - first);
    std::fill_n(buffer, fourier_.length(), Lanes{});
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t channel = (first + l) / rows_, row = (first + l) % rows_;
      const float* samples = context.input<float>(0) + row * stride_ * channels_ + channel;
      for (size_t i = 0; i < window_.size(); ++i) buffer[i].re[l] = static_cast<double>(samples[i * channels_]) * window_[i];
    }
    const Lanes* done = fourier_.Run<true>(buffer, buffer + fourier_.room());
    for (int64_t l = 0; l < lanes; ++l) {
      float* out = context.output<float>(0) + (first + l) * frequencies_;
      for (int64_t i = 0; i < frequencies_; ++i) {
        const float square = static_cast<float>(done[i].re[l] * done[i].re[l] + done[i].im[l] * done[i].im[l]);
        out[i] = squared_ ? square : std::sqrt(square);
      }
    }
  }

  int64_t channels_, stride_, rows_, frequencies_, shards_ = 1;
  bool squared_;
  LaneFourier<double> fourier_;
  std::vector<double> window_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeSpectrogram(const OpInstance& node) {
  if (node.outputs[0].shape.num_elements() == 0) return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
  const Spectrogram spectrogram(node);
  return MakeKernel([spectrogram](const KernelContext& context) { return spectrogram.Run(context); }, spectrogram.scratch_bytes());
}

double Mel(double hertz) { return 1127.0 * std::log1p(hertz / 700.0); }

// Triangles that overlap by half, evenly spaced in mel: a frequency's magnitude goes to the band that falls there and the one that
// rises.
class Bands {
 public:
  Bands(int64_t count, double lower, double upper, int64_t frequencies, double rate) : count_(count) {
    const double hertz = 0.5 * rate / static_cast<double>(frequencies - 1);
    const double low = Mel(lower), spacing = (Mel(upper) - low) / static_cast<double>(count + 1);
    begin_ = static_cast<int64_t>(1.5 + lower / hertz);  // never what is constant
    const int64_t last = static_cast<int64_t>(upper / hertz);
    reaches_beyond_ = last >= frequencies;
    const auto centre = [&](int64_t band) { return low + spacing * static_cast<double>(band + 1); };
    for (int64_t i = begin_, rising = 0; i <= last && !reaches_beyond_; ++i) {
      const double mel = Mel(static_cast<double>(i) * hertz);
      while (rising < count && centre(rising) < mel) ++rising;
      const double before = rising == 0 ? low : centre(rising - 1);
      falling_.push_back({rising - 1, (centre(rising) - mel) / (centre(rising) - before)});
    }
  }

  // Where they reach beyond the spectrogram, TensorFlow adds up nothing.
  bool reaches_beyond() const { return reaches_beyond_; }

  void Sum(const float* spectrogram, std::vector<double>& sums) const {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t i = 0; i < falling_.size(); ++i) {
      const auto& [band, share] = falling_[i];
      const double magnitude = std::sqrt(static_cast<double>(spectrogram[begin_ + i])), falling = magnitude * share;
      if (band >= 0) sums[band] += falling;
      if (band + 1 < count_) sums[band + 1] += magnitude - falling;
    }
  }

 private:
  struct Falling {
    int64_t band;
    double share;
  };
  int64_t count_, begin_ = 0;
  bool reaches_beyond_ = false;
  std::vector<Falling> falling_;  // from begin_ on
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeMfcc(const OpInstance& node) {
  const auto upper = node.attrs.GetOr<float>("upper_frequency_limit", 4000), lower = node.attrs.GetOr<float>("lower_frequency_limit", 20);
  const auto bands = node.attrs.GetOr<int64_t>("filterbank_channel_count", 40);
  const int64_t coefficients = node.outputs[0].shape.dim(2), frequencies = node.inputs[0].shape.dim(2);
  const int64_t rows = node.outputs[0].shape.dim(0) * node.outputs[0].shape.dim(1);
  std::vector<double> cosines(coefficients * bands);
  for (int64_t c = 0; c < coefficients; ++c) {
    for (int64_t b = 0; b < bands; ++b) {
      const double angle = static_cast<double>(c) * std::numbers::pi / static_cast<double>(bands) * (static_cast<double>(b) + 0.5);
      cosines[c * bands + b] = std::sqrt(2.0 / static_cast<double>(bands)) * std::cos(angle);
    }
  }
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    const int32_t rate = context.input<int32_t>(1)[0];
    if (rate < 1 || frequencies < 2 || lower < 0 || upper <= lower) {
      return absl::InvalidArgumentError(absl::StrCat("Mfcc initialization failed for channel count ", frequencies, ", sample rate ", rate,
                                                     " and frequencies from ", lower, " to ", upper));
    }
    const Bands filters(bands, lower, upper, frequencies, rate);
    ParallelRange(context, rows, std::max<int64_t>(kElementGrain / frequencies, 1), [&](int64_t begin, int64_t end) {
      constexpr double kFloor = 1e-12;
      std::vector<double> sums(bands);
      for (int64_t row = begin; row < end; ++row) {
        filters.Sum(context.input<float>(0) + row * frequencies, sums);
        for (double& sum : sums) sum = filters.reaches_beyond() ? 0.0 : std::log(sum < kFloor ? kFloor : sum);
        for (int64_t c = 0; c < coefficients; ++c) {
          double of_cosine = 0;
          for (int64_t b = 0; b < bands; ++b) of_cosine += cosines[c * bands + b] * sums[b];
          context.output<float>(0)[row * coefficients + c] = static_cast<float>(of_cosine);
        }
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterAudioKernels(KernelRegistry& registry) {
  AddKernel(registry, "AudioSpectrogram", MakeSpectrogram);
  AddKernel(registry, "Mfcc", MakeMfcc);
}

}  // namespace millrace::cpu
