// Gamma numbers by the method of Marsaglia and Tsang (ACM TOMS 26:3, 2000), Poisson numbers by Knuth's product for small
// rates and by Hörmann's transformed rejection (Insurance: Mathematics and Economics 12, 1993) for others. Output i
// draws from the stream after i * kSamplesPerOutput samples, so that the bits do not depend on shards.
#include <cmath>

#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Pairs of doubles made of one sample, given out last first.
template <bool kNormal>
class Pairs {
 public:
  double Next(Philox& philox) {
    if (left_ == 0) {
      uint32_t words[Philox::kWords];
      philox.GenerateOne(words);
      philox.Skip(1);
      if (kNormal) {
        NormalPair(words, values_);
      } else {
        values_[0] = UniformDouble(words[0], words[1]);
        values_[1] = UniformDouble(words[2], words[3]);
      }
      left_ = 2;
    }
    return values_[--left_];
  }

 private:
  double values_[2];
  int left_ = 0;
};

struct Gamma {
  explicit Gamma(double alpha) : alpha(alpha), d(alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3)), c(1.0 / 3 / std::sqrt(d)) {}
  double operator()(Philox philox) const {
    Pairs<false> uniform;
    Pairs<true> normal;
    if (alpha == 1) return -std::log1p(-uniform.Next(philox));
    while (true) {
      const double x = normal.Next(philox);
      double v = 1 + c * x;
      if (v <= 0) continue;
      v = v * v * v;
      const double u = uniform.Next(philox);
      if (u >= 1 - 0.0331 * (x * x) * (x * x) && std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
      return alpha < 1 ? d * v * std::pow(uniform.Next(philox), 1 / alpha) : d * v;
    }
  }
  double alpha, d, c;
};

struct Poisson {
  explicit Poisson(double rate) : rate(rate) {}
  double operator()(Philox philox) const {
    Pairs<false> uniform;
    if (!std::isfinite(rate) || rate < 0) return std::nan("");
    if (rate < 10) {
      const double stop = std::exp(-rate);
      double product = 1, count = 0;
      while ((product *= uniform.Next(philox)) > stop) ++count;
      return count;
    }
    const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    while (true) {
      const double u = uniform.Next(philox) - 0.5, v = uniform.Next(philox), shifted = 0.5 - std::abs(u);
      const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
      if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
      if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
      if (std::log(v * inverse_alpha / (a / (shifted * shifted) + b)) <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
    }
  }
  double rate;
};

// Types are converted through double one element at a time: the draws cost far more.
double ReadDouble(DataType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DataType::kFloat: return static_cast<const float*>(data)[i];
    case DataType::kDouble: return static_cast<const double*>(data)[i];
    case DataType::kHalf: return static_cast<double>(static_cast<const Eigen::half*>(data)[i]);
    case DataType::kBfloat16: return static_cast<double>(static_cast<const Eigen::bfloat16*>(data)[i]);
    case DataType::kInt32: return static_cast<const int32_t*>(data)[i];
    default: return static_cast<double>(static_cast<const int64_t*>(data)[i]);
  }
}

void WriteDouble(DataType dtype, double value, void* data, int64_t i) {
  switch (dtype) {
    case DataType::kFloat: static_cast<float*>(data)[i] = static_cast<float>(value); return;
    case DataType::kDouble: static_cast<double*>(data)[i] = value; return;
    case DataType::kHalf: static_cast<Eigen::half*>(data)[i] = static_cast<Eigen::half>(value); return;
    case DataType::kBfloat16: static_cast<Eigen::bfloat16*>(data)[i] = static_cast<Eigen::bfloat16>(value); return;
    case DataType::kInt32: static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value); return;
    default: static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
  }
}

bool IsConvertible(DataType dtype) {
  return IsFloating(dtype) || dtype == DataType::kInt32 || dtype == DataType::kInt64;
}

enum class StreamSource { kState, kSeed, kKey };

// Sample s of parameter p is output s * parameters + p and draw p * samples + s.
template <typename Distribution, StreamSource kSource>
absl::StatusOr<std::unique_ptr<Kernel>> MakeByParameter(const OpInstance& node) {
  constexpr int kInput = kSource == StreamSource::kState ? 1 : kSource == StreamSource::kSeed ? 2 : 4;
  constexpr int64_t kGrain = 256;
  const DataType from = node.inputs[kInput].dtype, to = node.outputs[0].dtype;
  for (DataType dtype : {from, to}) {
    if (!IsConvertible(dtype)) return UnsupportedType(node, dtype);
  }
  const int64_t elements = node.outputs[0].shape.num_elements(), parameters = node.inputs[kInput].shape.num_elements();
  const RandomStream stream(node);
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    if (elements == 0) return absl::OkStatus();
    Philox philox;
    if constexpr (kSource == StreamSource::kState) philox = stream.Reserve(context, elements * kSamplesPerOutput);
    if constexpr (kSource == StreamSource::kSeed) philox = StreamOfSeed(context, 1);
    if constexpr (kSource == StreamSource::kKey) {
      MR_ASSIGN_OR_RETURN(philox, StreamOfKey(context));
    }
    const int64_t samples = elements / parameters;
    ParallelRange(context, elements, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Distribution draw(ReadDouble(from, context.inputs[kInput], i / samples));
        const double value = draw(philox.After(static_cast<uint64_t>(i) * kSamplesPerOutput));
        WriteDouble(to, value, context.outputs[0], i % samples * parameters + i / samples);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterRandomGammaKernels(KernelRegistry& registry) {
  AddKernel(registry, "RandomGamma", MakeByParameter<Gamma, StreamSource::kState>);
  AddKernel(registry, "StatelessRandomGammaV2", MakeByParameter<Gamma, StreamSource::kSeed>);
  AddKernel(registry, "StatelessRandomGammaV3", MakeByParameter<Gamma, StreamSource::kKey>);
  AddKernel(registry, "RandomPoissonV2", MakeByParameter<Poisson, StreamSource::kState>);
  AddKernel(registry, "StatelessRandomPoisson", MakeByParameter<Poisson, StreamSource::kSeed>);
}

}  // namespace millrace::cpu
