// Binomial numbers by inversion for few expected successes, by Hörmann's transformed rejection (Journal of Statistical Computation
// and Simulation 46, 1993) for others; normal numbers between bounds by rejection of what Robert proposes (Statistics and
// Computing 5, 1995).
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Doubles of [0, 1), two made of a sample and given out last first.
class Uniforms {
 public:
  explicit Uniforms(const Philox& philox) : philox_(philox) {}
  double Next() {
    if (left_ == 0) {
      uint32_t words[Philox::kWords];
      philox_.GenerateOne(words);
      philox_.Skip(1);
      values_[0] = UniformDouble(words[0], words[1]);
      values_[1] = UniformDouble(words[2], words[3]);
      left_ = 2;
    }
    return values_[--left_];
  }

 private:
  Philox philox_;
  double values_[2];
  int left_ = 0;
};

// Geometric numbers are added up until they exceed the count: as many as there were successes.
double BinomialByInversion(double count, double p, Uniforms uniform) {
  double successes = 0;
  for (double sum = 0;; ++successes) {
    sum += std::ceil(std::log(uniform.Next()) / std::log1p(-p));
    if (sum > count) return successes;
  }
}

// What Stirling's formula for log k! is off by.
double StirlingTail(double k) {
  if (k <= 9) {
    const double next = k + 1;
    return std::lgamma(next) - (0.5 * std::log(2 * M_PI) + (k + 0.5) * std::log(next) - next);
  }
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

double BinomialByRejection(double count, double p, Uniforms uniform) {
  const double deviation = std::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, center = count * p + 0.5, v_r = 0.92 - 4.2 / b, odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * p);
  while (true) {
    const double u = uniform.Next() - 0.5, v = uniform.Next(), shifted = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / shifted + b) * u + center);
    if (shifted >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + StirlingTail(mode) + StirlingTail(count - mode) -
                         StirlingTail(k) - StirlingTail(count - k);
    if (std::log(v * alpha / (a / (shifted * shifted) + b)) <= bound) return k;
  }
}

// Draw number `i` of the stream. `q`: 1 - p, as the type of the inputs rounds it.
double Binomial(double count, double p, double q, const Philox& philox, int64_t i) {
  constexpr double kFew = 10;
  constexpr uint64_t kSamplesOfInversion = 42, kSamplesOfRejection = 256;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (std::isnan(p) || std::isnan(count)) return std::isnan(p) ? p : count;
  const bool failures = p > 0.5;
  const double rarer = failures ? q : p;
  const bool few = count * rarer < kFew;
  const Uniforms uniform(philox.After(static_cast<uint64_t>(i) * (few ? kSamplesOfInversion : kSamplesOfRejection)));
  const double drawn = few ? BinomialByInversion(count, rarer, uniform) : BinomialByRejection(count, rarer, uniform);
  return failures ? count - drawn : drawn;
}

// For each element of what the parameters broadcast to, from the last dimension back, which element of `shape` it takes.
std::vector<int64_t> ElementsOf(const Shape& shape, const Shape& all) {
  std::vector<int64_t> elements(all.num_elements());
  for (size_t i = 0; i < elements.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), stride = 1;
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t size = shape.dim(shape.rank() - 1 - d), of = all.dim(all.rank() - 1 - d);
      if (size != 1) elements[i] += rest % of * stride;
      stride *= size;
      rest /= of;
    }
  }
  return elements;
}

// What the inputs from `first` on broadcast to; that they do was checked when the graph was planned.
Shape BroadcastAll(const OpInstance& node, int first) {
  std::vector<int64_t> backwards;
  for (size_t i = first; i < node.inputs.size(); ++i) {
    const Shape& shape = node.inputs[i].shape;
    if (shape.rank() > static_cast<int>(backwards.size())) backwards.resize(shape.rank(), 1);
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t size = shape.dim(shape.rank() - 1 - d);
      if (size != 1) backwards[d] = size;
    }
  }
  return Shape(std::vector<int64_t>(backwards.rbegin(), backwards.rend()));
}

template <typename Visit>
KernelOr DispatchParameters(const OpInstance& node, DataType dtype, Visit&& visit) {
  if (dtype == DataType::kInt32) return visit(TypeTag<int32_t>());
  if (dtype == DataType::kInt64) return visit(TypeTag<int64_t>());
  return DispatchFloating(node, dtype, visit);
}

// The outputs of a stream that TensorFlow sets aside for so many numbers of each set of parameters: two a try.
int64_t Reserved(int64_t parameters, int64_t numbers, int64_t tries) { return parameters * 2 * tries * (numbers + 3) / Philox::kWords; }

// (shape, seed, counts, probs), or (generator, algorithm, shape, counts, probs)
template <int kCounts>
KernelOr MakeBinomial(const OpInstance& node) {
  constexpr int64_t kTriesPerNumber = 100;
  const Shape all = BroadcastAll(node, kCounts);
  const int64_t parameters = all.num_elements(), elements = node.outputs[0].shape.num_elements();
  const std::vector<int64_t> counts = ElementsOf(node.inputs[kCounts].shape, all), probs = ElementsOf(node.inputs[kCounts + 1].shape, all);
  return DispatchParameters(node, node.inputs[kCounts].dtype, [&](auto in) {
    return DispatchParameters(node, node.outputs[0].dtype, [&](auto out) -> std::unique_ptr<Kernel> {
      using T = typename decltype(in)::type;
      using Out = typename decltype(out)::type;
      return MakeKernel([=](const KernelContext& context) -> absl::Status {
        const int64_t samples = parameters == 0 ? 0 : elements / parameters;
        Philox philox;
        if constexpr (kCounts == 2) {
          philox = StreamOfSeed(context, 1);
        } else {
          MR_ASSIGN_OR_RETURN(philox, StreamOfVariable(context, Reserved(parameters, samples, kTriesPerNumber)));
        }
        for (int64_t i = 0; i < elements; ++i) {
          const T count = context.input<T>(kCounts)[counts[i / samples]], p = context.input<T>(kCounts + 1)[probs[i / samples]];
          const double drawn = Binomial(static_cast<double>(count), static_cast<double>(p), static_cast<double>(T(1) - p), philox, i);
          context.output<Out>(0)[i % samples * parameters + i / samples] = static_cast<Out>(drawn);
        }
        return absl::OkStatus();
      });
    });
  });
}

// Samples one after another, as numbers of T.
template <typename T>
class Samples {
 public:
  static constexpr int kCount = sizeof(T) == sizeof(double) ? 2 : 4;
  explicit Samples(const Philox& philox) : philox_(philox) {}
  void Uniform(T* values) {
    uint32_t words[Philox::kWords];
    Take(words);
    for (int i = 0; i < kCount; ++i) values[i] = Number(words, i);
  }
  void Normal(T* values) {
    uint32_t words[Philox::kWords];
    Take(words);
    if constexpr (sizeof(T) == sizeof(double)) {
      NormalPair(words, values);
    } else {
      float pairs[Philox::kWords];
      NormalPair(words, pairs);
      NormalPair(words + 2, pairs + 2);
      for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(pairs[i]);
    }
  }

 private:
  void Take(uint32_t* words) {
    philox_.GenerateOne(words);
    philox_.Skip(1);
  }
  static T Number(const uint32_t* words, int i) {
    if constexpr (std::is_same_v<T, double>) return UniformDouble(words[2 * i], words[2 * i + 1]);
    if constexpr (std::is_same_v<T, float>) return UniformFloat(words[i]);
    if constexpr (std::is_same_v<T, Eigen::half>) return UniformHalf(words[i]);
    if constexpr (std::is_same_v<T, Eigen::bfloat16>) return UniformBfloat16(words[i]);
  }

  Philox philox_;
};

// Standard normal numbers in [low, high].
template <typename T>
class Truncated {
 public:
  Truncated(T low, T high, Samples<T>& samples) : low_(low), high_(high), samples_(samples) {
    using std::exp;
    using std::sqrt;
    constexpr float kInside = 1.3f;  // from here on most normal numbers are accepted
    const T root = sqrt(low * low + T(4)), cutoff = T(2) * exp(T(0.5) + low * (low - root) / T(4)) / (low + root);
    way_ = (low < T(-kInside) && high >= T(0)) || (high > T(kInside) && low <= T(0)) ? Way::kNormal
           : high - low < cutoff                                                     ? Way::kUniform
                                                                                     : Way::kExponential;
    alpha_ = (low + root) / T(2);
  }

  // Calls take(number) -> whether more are wanted, for what is accepted. False when nothing is.
  template <typename Take>
  bool Draw(Take&& take) {
    constexpr int kMostTries = 1000;
    for (int tries = 0;;) {
      T drawn[Samples<T>::kCount];
      bool accepted[Samples<T>::kCount];
      const int count = Propose(drawn, accepted);
      for (int i = 0; i < count; ++i) {
        if (accepted[i]) {
          if (!take(drawn[i])) return true;
          tries = 0;
        } else if (++tries >= kMostTries) {
          return false;
        }
      }
    }
  }

 private:
  enum class Way { kNormal, kUniform, kExponential };

  int Propose(T* drawn, bool* accepted) {
    using std::exp;
    using std::log;
    constexpr int kCount = Samples<T>::kCount;
    T numbers[kCount], limits[kCount];
    if (way_ == Way::kNormal) {
      samples_.Normal(drawn);
      for (int i = 0; i < kCount; ++i) accepted[i] = drawn[i] >= low_ && drawn[i] <= high_;
      return kCount;
    }
    samples_.Uniform(numbers);
    if (way_ == Way::kUniform) {
      samples_.Uniform(limits);
      const T most = low_ < T(0) ? T(0) : low_ * low_;
      for (int i = 0; i < kCount; ++i) {
        drawn[i] = numbers[i] * (high_ - low_) + low_;
        accepted[i] = limits[i] <= exp((most - drawn[i] * drawn[i]) / T(2));
      }
      return kCount;
    }
    for (int i = 0; i < kCount / 2; ++i) {
      drawn[i] = -log(numbers[2 * i]) / alpha_ + low_;
      const T x = low_ < alpha_ ? alpha_ - drawn[i] : low_ - alpha_;
      accepted[i] = numbers[2 * i + 1] <= exp(-x * x / T(2)) && drawn[i] < high_;
    }
    return kCount / 2;
  }

  T low_, high_, alpha_;
  Way way_;
  Samples<T>& samples_;
};

// Draws `count` numbers of these parameters, each handed to put(number).
template <typename T, typename Put>
absl::Status DrawTruncated(T mean, T deviation, T low, T high, int64_t count, Samples<T>& stream, Put&& put) {
  const auto finite = [](T value) { return std::isfinite(static_cast<double>(value)); };
  if (!(deviation > T(0)) || !(low < high) || (!finite(low) && !finite(high))) return absl::InvalidArgumentError("Invalid parameters");
  if ((!finite(low) && low < T(0)) || high < mean) {
    // Mirrored, the bound that there is, or the one nearer to the mean, is the lower one.
    std::swap(low, high);
    deviation = -deviation;
  }
  Truncated<T> truncated((low - mean) / deviation, (high - mean) / deviation, stream);
  const bool drawn = truncated.Draw([&](T number) {
    put(number * deviation + mean);
    return --count > 0;
  });
  if (drawn) return absl::OkStatus();
  const auto text = [](T value) { return absl::StrCat(static_cast<double>(value)); };
  return absl::InvalidArgumentError(absl::StrCat("TruncatedNormal rejection sampler failed to accept a sample: mean ", text(mean),
                                                 ", deviation ", text(deviation), ", bounds ", text(low), " and ", text(high)));
}

// (shape, seed, means, deviations, lower bounds, upper bounds). TensorFlow's draws depend on its threads when there are many; these
// are the ones that it makes on one thread: the stream goes on from one set of parameters to the next.
template <typename T>
absl::Status FillTruncated(const KernelContext& context, const std::vector<int64_t> (&elements)[4]) {
  const int64_t count = context.output_type(0).shape.num_elements(), parameters = static_cast<int64_t>(elements[0].size());
  if (count == 0) return absl::OkStatus();
  // The first skip rounds up to whole samples.
  Samples<T> stream(StreamOfSeed(context, 1).After((Samples<T>::kCount - 1) / Samples<T>::kCount));
  for (int64_t p = 0; p < parameters; ++p) {
    const auto parameter = [&](int which) { return context.input<T>(2 + which)[elements[which][p]]; };
    T* to = context.output<T>(0) + p;
    MR_RETURN_IF_ERROR(DrawTruncated<T>(parameter(0), parameter(1), parameter(2), parameter(3), count / parameters, stream, [&](T number) {
      *to = number;
      to += parameters;
    }));
  }
  return absl::OkStatus();
}

KernelOr MakeTruncated(const OpInstance& node) {
  const Shape all = BroadcastAll(node, 2);
  return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    struct Elements {
      std::vector<int64_t> of[4];
    } elements;
    for (int i = 0; i < 4; ++i) elements.of[i] = ElementsOf(node.inputs[2 + i].shape, all);
    return MakeKernel([elements](const KernelContext& context) { return FillTruncated<T>(context, elements.of); });
  });
}

// (shape, means, deviations, lower bounds, upper bounds): one batch after another. Where all parameters are scalars a batch is 100
// numbers, whatever the shape. The draws of one thread, as above.
KernelOr MakeTruncatedBatches(const OpInstance& node) {
  constexpr int64_t kNumbersAtOnce = 100, kTriesPerNumber = 1000;
  const Shape& shape = node.outputs[0].shape;
  const int64_t count = shape.num_elements();
  const bool scalars = std::all_of(node.inputs.begin() + 1, node.inputs.end(), [](const TensorType& type) { return type.shape.rank() == 0; });
  const int64_t batch = scalars || shape.dim(0) == 0 ? kNumbersAtOnce : count / shape.dim(0);
  const int64_t batches = scalars ? (count + batch - 1) / batch : shape.dim(0);
  const RandomStream stream(node);
  return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) -> absl::Status {
      Samples<T> samples(stream.Reserve(context, Reserved(batches, batch, kTriesPerNumber)));
      if (count == 0) return absl::OkStatus();
      T* to = context.output<T>(0);
      for (int64_t b = 0; b < batches; ++b) {
        const auto parameter = [&](int i) { return context.input<T>(i)[context.input_type(i).shape.num_elements() == 1 ? 0 : b]; };
        const int64_t asked = std::min(batch, count - b * batch);
        MR_RETURN_IF_ERROR(DrawTruncated<T>(parameter(1), parameter(2), parameter(3), parameter(4), asked, samples, [&](T number) { *to++ = number; }));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterRandomRareKernels(KernelRegistry& registry) {
  AddKernel(registry, "StatelessRandomBinomial", MakeBinomial<2>);
  AddKernel(registry, "StatefulRandomBinomial", MakeBinomial<3>);
  AddKernel(registry, "StatelessParameterizedTruncatedNormal", MakeTruncated);
  AddKernel(registry, "ParameterizedTruncatedNormal", MakeTruncatedBatches);
}

}  // namespace millrace::cpu
