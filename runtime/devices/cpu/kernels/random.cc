// Stateful random ops: numbers of the usual distributions, shuffles, draws of classes.
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

template <RandomKind kKind>
absl::StatusOr<std::unique_ptr<Kernel>> MakeRandom(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const RandomFill fill, FindRandomFill(kKind, node));
  const int64_t elements = node.outputs[0].shape.num_elements();
  const RandomStream seeds(node);
  return MakeKernel([=](const KernelContext& context) {
    int64_t low = 0, high = 0;
    if (elements == 0) return absl::OkStatus();
    if (kKind == RandomKind::kUniformInt) MR_RETURN_IF_ERROR(ReadBounds(context, 1, &low, &high));
    fill(context, seeds.Reserve(context, elements * kSamplesPerOutput), elements, low, high);
    return absl::OkStatus();
  });
}

// Rows of the input in random order, by a stream of the node's own or (value, key, counter, alg).
template <bool kKeyed>
absl::StatusOr<std::unique_ptr<Kernel>> MakeRandomShuffle(const OpInstance& node) {
  const TensorType& type = node.inputs[0];
  if (DataTypeSize(type.dtype) == 0) return UnsupportedType(node, type.dtype);
  const int64_t rows = type.shape.rank() == 0 ? 1 : type.shape.dim(0), bytes = type.size_bytes();
  const RandomStream seeds(node);
  return MakeKernel(
      [=](const KernelContext& context) -> absl::Status {
        const char* from = context.input<char>(0);
        char* to = context.output<char>(0);
        if (rows <= 1 || bytes == 0) {
          std::memcpy(to, from, bytes);
          return absl::OkStatus();
        }
        const int64_t row_bytes = bytes / rows;
        int64_t* order = static_cast<int64_t*>(context.scratch);
        std::iota(order, order + rows, 0);
        Philox philox;
        if constexpr (kKeyed) {
          MR_ASSIGN_OR_RETURN(philox, StreamOfKey(context));
        } else {
          philox = seeds.Reserve(context, (rows - 1 + Philox::kWords - 1) / Philox::kWords);
        }
        PhiloxWords words(philox);
        for (int64_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + words() % static_cast<uint32_t>(rows - i)]);
        for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * row_bytes, from + order[i] * row_bytes, row_bytes);
        return absl::OkStatus();
      },
      rows * static_cast<int64_t>(sizeof(int64_t)));
}

// Draws classes by unnormalised log probabilities. TensorFlow's draws depend on its threads when there are many rows;
// these are the ones it makes on one thread.
template <typename T, typename Out>
void DrawClasses(const KernelContext& context, const Philox& philox, int64_t rows, int64_t classes, int64_t samples) {
  PhiloxWords words(philox);
  double* cumulative = static_cast<double*>(context.scratch);
  for (int64_t r = 0; r < rows; ++r) {
    const T* logits = context.input<T>(0) + r * classes;
    T largest = Eigen::NumTraits<T>::lowest();
    for (int64_t c = 0; c < classes; ++c) {
      if ((Eigen::numext::isfinite)(logits[c])) largest = std::max(largest, logits[c]);
    }
    double total = 0;
    for (int64_t c = 0; c < classes; ++c) {
      if ((Eigen::numext::isfinite)(logits[c])) {
        total += std::exp(static_cast<double>(logits[c]) - static_cast<double>(largest));
      }
      cumulative[c] = total;
    }
    for (int64_t s = 0; s < samples; ++s) {
      const uint32_t high = words(), low = words();
      const double wanted = UniformDouble(high, low) * total;
      const double* found = std::upper_bound(cumulative, cumulative + classes, wanted);
      context.output<Out>(0)[r * samples + s] = static_cast<Out>(found - cumulative);
    }
  }
}

template <bool kStateless>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMultinomial(const OpInstance& node) {
  const Shape &logits = node.inputs[0].shape, &output = node.outputs[0].shape;
  const int64_t rows = logits.dim(0), classes = logits.dim(1), samples = output.dim(1);
  const bool wide = node.outputs[0].dtype == DataType::kInt64;
  const uint64_t reserved = rows * ((samples + 3) / 4 * 4) * 2 * kSamplesPerOutput;
  const RandomStream seeds(node);
  return DispatchFloating(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel(
        [=](const KernelContext& context) {
          if (rows * samples == 0) return absl::OkStatus();
          Philox philox;
          if (kStateless) {
            const DataType seed_type = context.input_type(2).dtype;
            philox = Philox::FromStatelessSeed(ReadInt(seed_type, context.inputs[2], 0),
                                               ReadInt(seed_type, context.inputs[2], 1));
          } else {
            philox = seeds.Reserve(context, reserved);
          }
          (wide ? DrawClasses<T, int64_t> : DrawClasses<T, int32_t>)(context, philox, rows, classes, samples);
          return absl::OkStatus();
        },
        classes * static_cast<int64_t>(sizeof(double)));
  });
}

}  // namespace

int64_t ReadInt(DataType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DataType::kInt32: return static_cast<const int32_t*>(data)[i];
    case DataType::kUint32: return static_cast<const uint32_t*>(data)[i];
    default: return static_cast<const int64_t*>(data)[i];
  }
}

absl::Status ReadBounds(const KernelContext& context, int first, int64_t* low, int64_t* high) {
  const DataType dtype = context.input_type(first).dtype;
  *low = ReadInt(dtype, context.inputs[first], 0);
  *high = ReadInt(dtype, context.inputs[first + 1], 0);
  const bool rising = dtype == DataType::kUint64 ? static_cast<uint64_t>(*low) < static_cast<uint64_t>(*high)
                                                 : *low < *high;
  if (rising) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("minval is ", *low, " and maxval ", *high, ", expected minval < maxval"));
}

void RegisterRandomKernels(KernelRegistry& registry) {
  AddKernel(registry, "RandomUniform", MakeRandom<RandomKind::kUniform>);
  AddKernel(registry, "RandomStandardNormal", MakeRandom<RandomKind::kNormal>);
  AddKernel(registry, "TruncatedNormal", MakeRandom<RandomKind::kTruncatedNormal>);
  AddKernel(registry, "RandomUniformInt", MakeRandom<RandomKind::kUniformInt>);
  AddKernel(registry, "NonDeterministicInts", MakeRandom<RandomKind::kUniformFullInt>);
  AddKernel(registry, "RandomShuffle", MakeRandomShuffle<false>);
  AddKernel(registry, "StatelessShuffle", MakeRandomShuffle<true>);
  AddKernel(registry, "Multinomial", MakeMultinomial<false>);
  AddKernel(registry, "StatelessMultinomial", MakeMultinomial<true>);
}

}  // namespace millrace::cpu
