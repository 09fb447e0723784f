// Gamma and Poisson numbers (graph/distributions.h). Output i draws from the stream after i * kSamplesPerOutput samples, so that the
// bits do not depend on shards.
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "graph/distributions.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

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
        const double parameter = ReadDouble(from, context.inputs[kInput], i / samples);
        const double value = Distribution()(parameter, philox.After(static_cast<uint64_t>(i) * kSamplesPerOutput));
        WriteDouble(to, value, context.outputs[0], i % samples * parameters + i / samples);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterRandomGammaKernels(KernelRegistry& registry) {
  AddKernel(registry, "RandomGamma", MakeByParameter<GammaDraw, StreamSource::kState>);
  AddKernel(registry, "StatelessRandomGammaV2", MakeByParameter<GammaDraw, StreamSource::kSeed>);
  AddKernel(registry, "StatelessRandomGammaV3", MakeByParameter<GammaDraw, StreamSource::kKey>);
  AddKernel(registry, "RandomPoissonV2", MakeByParameter<PoissonDraw, StreamSource::kState>);
  AddKernel(registry, "StatelessRandomPoisson", MakeByParameter<PoissonDraw, StreamSource::kSeed>);
}

}  // namespace millrace::cpu
