// Binomial numbers (graph/distributions.h), normal numbers between bounds (graph/truncated_normal.h).
#include <algorithm>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"
#include "graph/distributions.h"
#include "graph/truncated_normal.h"
#include "millrace/status.h"

namespace millrace {

template <>
struct SampleNumbers<Eigen::half> {
  static constexpr int kCount = SampleNumbers<float>::kCount;
  static void Uniform(const uint32_t* words, Eigen::half* values) {
    for (int i = 0; i < kCount; ++i) values[i] = cpu::UniformHalf(words[i]);
  }
  static void Normal(const uint32_t* words, Eigen::half* values) { NarrowNormal(words, values); }
  template <typename T>
  static void NarrowNormal(const uint32_t* words, T* values) {
    float pairs[kCount];
    SampleNumbers<float>::Normal(words, pairs);
    for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(pairs[i]);
  }
};
template <>
struct SampleNumbers<Eigen::bfloat16> {
  static constexpr int kCount = SampleNumbers<float>::kCount;
  static void Uniform(const uint32_t* words, Eigen::bfloat16* values) {
    for (int i = 0; i < kCount; ++i) values[i] = cpu::UniformBfloat16(words[i]);
  }
  static void Normal(const uint32_t* words, Eigen::bfloat16* values) { SampleNumbers<Eigen::half>::NarrowNormal(words, values); }
};

}  // namespace millrace

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

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
          const auto round = [](double value) { return static_cast<double>(static_cast<T>(value)); };
          const double drawn = BinomialDraw(static_cast<double>(count), static_cast<double>(p), round, philox, i);
          context.output<Out>(0)[i % samples * parameters + i / samples] = static_cast<Out>(drawn);
        }
        return absl::OkStatus();
      });
    });
  });
}

// Hands accepted numbers to take(number) -> whether more are wanted; `stream` goes on. False when none is accepted.
template <typename T, typename Take>
bool DrawAccepted(const TruncatedNormal<T>& truncated, Philox& stream, Take&& take) {
  for (int tries = 0;;) {
    T drawn[TruncatedNormal<T>::kCount];
    bool accepted[TruncatedNormal<T>::kCount];
    const int count = truncated.Propose(stream, drawn, accepted);
    stream.Skip(truncated.samples());
    for (int i = 0; i < count; ++i) {
      if (accepted[i]) {
        if (!take(drawn[i])) return true;
        tries = 0;
      } else if (++tries >= kMostTruncatedTries) {
        return false;
      }
    }
  }
}

// Draws `count` numbers of these parameters, each handed to put(number).
template <typename T, typename Put>
absl::Status DrawTruncated(TruncatedParameters<T> parameters, int64_t count, Philox& stream, Put&& put) {
  if (!parameters.Arrange()) return absl::InvalidArgumentError("Invalid parameters");
  const bool drawn = DrawAccepted(TruncatedNormal<T>(parameters), stream, [&](T number) {
    put(number * parameters.deviation + parameters.mean);
    return --count > 0;
  });
  if (drawn) return absl::OkStatus();
  const auto text = [](T value) { return absl::StrCat(static_cast<double>(value)); };
  return absl::InvalidArgumentError(absl::StrCat("TruncatedNormal rejection sampler failed to accept a sample: mean ", text(parameters.mean),
                                                 ", deviation ", text(parameters.deviation), ", bounds ", text(parameters.low), " and ",
                                                 text(parameters.high)));
}

// (shape, seed, means, deviations, lower bounds, upper bounds). TensorFlow's draws depend on its threads when there are many; these
// are the ones that it makes on one thread: the stream goes on from one set of parameters to the next.
template <typename T>
absl::Status FillTruncated(const KernelContext& context, const std::vector<int64_t> (&elements)[4]) {
  const int64_t count = context.output_type(0).shape.num_elements(), parameters = static_cast<int64_t>(elements[0].size());
  if (count == 0) return absl::OkStatus();
  Philox stream = StreamOfSeed(context, 1);
  for (int64_t p = 0; p < parameters; ++p) {
    const auto parameter = [&](int which) { return context.input<T>(2 + which)[elements[which][p]]; };
    T* to = context.output<T>(0) + p;
    MR_RETURN_IF_ERROR(DrawTruncated<T>({parameter(0), parameter(1), parameter(2), parameter(3)}, count / parameters, stream, [&](T number) {
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
      Philox samples = stream.Reserve(context, Reserved(batches, batch, kTriesPerNumber));
      if (count == 0) return absl::OkStatus();
      T* to = context.output<T>(0);
      for (int64_t b = 0; b < batches; ++b) {
        const auto parameter = [&](int i) { return context.input<T>(i)[context.input_type(i).shape.num_elements() == 1 ? 0 : b]; };
        const int64_t asked = std::min(batch, count - b * batch);
        MR_RETURN_IF_ERROR(DrawTruncated<T>({parameter(1), parameter(2), parameter(3), parameter(4)}, asked, samples,
                                            [&](T number) { *to++ = number; }));
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
