// Random numbers that take as many samples as they need, classes drawn by their logits, rows and indices in random order.
#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/random_state.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/random_rare.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;
// Launches what draws from a stream. `scratch`: as many bytes as it asked for, aligned as tensors are.
using Draw = std::function<void(const Queue& queue, const KernelContext& context, const RandomSource& source, void* scratch)>;

// Of a stream of the node's own, of which each run takes `samples`. The state comes first in scratch.
std::unique_ptr<Kernel> DrawsOfNode(DeviceServices& services, const OpInstance& instance, uint64_t samples, int64_t scratch_bytes, Draw draw) {
  const StreamSeeds seeds(instance);
  return MakeLaunch(
      services,
      [=, &services](const Queue& queue, const KernelContext& context) {
        return DrawOfState(services, queue, context, seeds, samples, [&](const RandomSource& source) {
          draw(queue, context, source, static_cast<char*>(context.scratch) + kTensorAlignment);
        });
      },
      kTensorAlignment + scratch_bytes);
}

// Of the seed in `input`, two integers in the device's memory.
KernelOr DrawsOfSeed(DeviceServices& services, const OpInstance& instance, int input, int64_t scratch_bytes, Draw draw) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {input}));
  if (!IsIndex(instance.inputs[input].dtype)) return Refused(instance, "a seed of this type");
  const bool wide = instance.inputs[input].dtype == DataType::kInt64;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        RandomSource source;
        source.kind = RandomSource::Kind::kSeed;
        source.counter = context.inputs[input];
        source.wide_seed = wide;
        draw(queue, context, source, context.scratch);
      },
      scratch_bytes);
}

// Of key, counter and algorithm.
KernelOr DrawsOfKey(DeviceServices& services, const OpInstance& instance, int64_t scratch_bytes, Draw draw) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {kKeyInput, kCounterInput}));
  MR_ASSIGN_OR_RETURN(const bool checks, ChecksAlgorithm(instance));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        if (checks) LaunchCheckAlgorithm(queue, kAlgorithmInput, context.input<int32_t>(kAlgorithmInput));
        RandomSource source;
        source.kind = RandomSource::Kind::kKeyed;
        source.counter = context.inputs[kCounterInput];
        source.key = context.inputs[kKeyInput];
        draw(queue, context, source, context.scratch);
      },
      scratch_bytes);
}

std::unique_ptr<Kernel> Nothing(DeviceServices& services) {
  return MakeLaunch(services, [](const Queue&, const KernelContext&) {});
}

absl::StatusOr<Type> DrawTypeOf(const OpInstance& instance, DataType dtype) {
  if (!IsFloating(dtype) && !IsIndex(dtype)) return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
  return TypeOf(instance, dtype);
}

KernelOr MakeByParameter(DeviceServices& services, const OpInstance& instance) {
  const bool stateless = absl::StartsWith(instance.op, "Stateless"), keyed = absl::EndsWith(instance.op, "V3");
  const int input = !stateless ? 1 : keyed ? 4 : 2;
  ParameterDraws draws;
  draws.distribution = absl::StrContains(instance.op, "Gamma") ? Distribution::kGamma : Distribution::kPoisson;
  MR_ASSIGN_OR_RETURN(draws.from, DrawTypeOf(instance, instance.inputs[input].dtype));
  MR_ASSIGN_OR_RETURN(draws.to, DrawTypeOf(instance, instance.outputs[0].dtype));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {input}));
  const int64_t n = instance.outputs[0].shape.num_elements();
  if (n == 0) return Nothing(services);
  draws.parameters = instance.inputs[input].shape.num_elements();
  draws.samples = n / draws.parameters;
  const Draw draw = [=](const Queue& queue, const KernelContext& context, const RandomSource& source, void*) {
    LaunchParameterDraws(queue, draws, source, context.inputs[input], context.outputs[0]);
  };
  if (!stateless) return DrawsOfNode(services, instance, static_cast<uint64_t>(n) * kSamplesPerOutput, 0, draw);
  return keyed ? DrawsOfKey(services, instance, 0, draw) : DrawsOfSeed(services, instance, 1, 0, draw);
}

// What inputs [first, first + count) broadcast to; that they do was checked when the graph was planned.
absl::StatusOr<ParameterSets> SetsOf(const OpInstance& instance, int first, int count) {
  ParameterSets sets;
  for (int k = 0; k < count; ++k) sets.rank = std::max(sets.rank, instance.inputs[first + k].shape.rank());
  if (sets.rank > kMaxDims) return Refused(instance, "parameters of this rank");
  std::fill_n(sets.dims, sets.rank, 1);
  for (int k = 0; k < count; ++k) {
    const Shape& shape = instance.inputs[first + k].shape;
    int64_t stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int at = sets.rank - shape.rank() + d;
      if (shape.dim(d) != 1) sets.dims[at] = shape.dim(d);
      sets.strides[k][at] = shape.dim(d) == 1 ? 0 : stride;
      stride *= shape.dim(d);
    }
  }
  for (int d = 0; d < sets.rank; ++d) sets.count *= sets.dims[d];
  return sets;
}

// The outputs of a stream that TensorFlow sets aside for so many numbers of each set of parameters: two a try.
uint64_t ReservedSamples(int64_t parameters, int64_t numbers, int64_t tries) {
  constexpr int64_t kWords = PhiloxStream::kWords;
  return static_cast<uint64_t>(parameters * 2 * tries * (numbers + 3) / kWords);
}

// (shape, seed, counts, probs), or (generator, algorithm, shape, counts, probs)
KernelOr MakeBinomial(DeviceServices& services, const OpInstance& instance) {
  constexpr int64_t kTriesPerNumber = 100;
  const bool stateful = instance.op == "StatefulRandomBinomial";
  const int first = stateful ? 3 : 2;
  MR_ASSIGN_OR_RETURN(const Type from, DrawTypeOf(instance, instance.inputs[first].dtype));
  MR_ASSIGN_OR_RETURN(const Type to, DrawTypeOf(instance, instance.outputs[0].dtype));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {first, first + 1}));
  MR_ASSIGN_OR_RETURN(const ParameterSets sets, SetsOf(instance, first, 2));
  const int64_t n = instance.outputs[0].shape.num_elements(), samples = sets.count == 0 ? 0 : n / sets.count;
  const Draw draw = [=](const Queue& queue, const KernelContext& context, const RandomSource& source, void*) {
    LaunchBinomial(queue, from, to, sets, samples, source, context.inputs[first], context.inputs[first + 1], context.outputs[0]);
  };
  if (!stateful) return DrawsOfSeed(services, instance, 1, 0, draw);
  // The op's rule refuses all but Philox.
  if (ValueOf(instance, 1) == nullptr) return Refused(instance, "an algorithm that is not known when planning");
  const uint64_t reserved = ReservedSamples(sets.count, samples, kTriesPerNumber) * kSamplesPerOutput;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    RandomSource source;
    source.kind = RandomSource::Kind::kVariable;
    source.counter = context.inputs[0];
    draw(queue, context, source, nullptr);
    LaunchAdvanceVariable(queue, context.variable<uint64_t>(0), reserved, nullptr, nullptr);
  });
}

Draw TruncatedOf(const TruncatedDraws& draws, int first) {
  return [=](const Queue& queue, const KernelContext& context, const RandomSource& source, void*) {
    TruncatedDraws now = draws;
    for (int k = 0; k < ParameterSets::kMost; ++k) now.parameters[k] = context.inputs[first + k];
    LaunchTruncated(queue, now, source, context.outputs[0]);
  };
}

// Halves are rounded after every operation on the CPU.
absl::StatusOr<Type> TruncatedTypeOf(const OpInstance& instance) {
  const DataType dtype = instance.outputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return Refused(instance, "this element type");
  return TypeOf(instance, dtype);
}

// Sets of parameters come one after another, some microseconds each: of few numbers each the host is done sooner, and of very many the
// launch takes seconds, which a device that drives a display does not allow.
absl::Status ExpectFewSets(const OpInstance& instance, const TruncatedDraws& draws) {
  constexpr int64_t kFewNumbers = 32, kMostOfFew = int64_t{1} << 12, kMost = int64_t{1} << 17;
  if (draws.sets.count > (draws.numbers < kFewNumbers ? kMostOfFew : kMost)) return Refused(instance, "so many sets of parameters");
  return absl::OkStatus();
}

// (shape, seed, means, deviations, lower bounds, upper bounds)
KernelOr MakeTruncated(DeviceServices& services, const OpInstance& instance) {
  constexpr int kFirst = 2;
  TruncatedDraws draws;
  MR_ASSIGN_OR_RETURN(draws.type, TruncatedTypeOf(instance));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {kFirst, kFirst + 1, kFirst + 2, kFirst + 3}));
  MR_ASSIGN_OR_RETURN(draws.sets, SetsOf(instance, kFirst, ParameterSets::kMost));
  const int64_t n = instance.outputs[0].shape.num_elements();
  if (n == 0) return Nothing(services);
  draws.numbers = draws.last_numbers = n / draws.sets.count;
  draws.set_stride = 1;
  draws.number_stride = draws.sets.count;
  MR_RETURN_IF_ERROR(ExpectFewSets(instance, draws));
  return DrawsOfSeed(services, instance, 1, 0, TruncatedOf(draws, kFirst));
}

// (shape, means, deviations, lower bounds, upper bounds): one batch after another. Where all parameters are scalars a batch is 100
// numbers, whatever the shape.
KernelOr MakeTruncatedBatches(DeviceServices& services, const OpInstance& instance) {
  constexpr int kFirst = 1;
  constexpr int64_t kNumbersAtOnce = 100, kTriesPerNumber = 1000;
  TruncatedDraws draws;
  MR_ASSIGN_OR_RETURN(draws.type, TruncatedTypeOf(instance));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {kFirst, kFirst + 1, kFirst + 2, kFirst + 3}));
  const Shape& shape = instance.outputs[0].shape;
  const int64_t n = shape.num_elements();
  const bool scalars = std::all_of(instance.inputs.begin() + 1, instance.inputs.end(), [](const TensorType& type) { return type.shape.rank() == 0; });
  const int64_t batch = scalars || shape.dim(0) == 0 ? kNumbersAtOnce : n / shape.dim(0);
  const int64_t batches = scalars ? (n + batch - 1) / batch : shape.dim(0);
  draws.sets.rank = 1;
  draws.sets.count = draws.sets.dims[0] = batches;
  for (int k = 0; k < ParameterSets::kMost; ++k) draws.sets.strides[k][0] = instance.inputs[kFirst + k].shape.num_elements() == 1 ? 0 : 1;
  draws.numbers = draws.set_stride = batch;
  draws.last_numbers = n - (batches - 1) * batch;
  draws.number_stride = 1;
  MR_RETURN_IF_ERROR(ExpectFewSets(instance, draws));
  const Draw draw = n == 0 ? Draw([](const Queue&, const KernelContext&, const RandomSource&, void*) {}) : TruncatedOf(draws, kFirst);
  return DrawsOfNode(services, instance, ReservedSamples(batches, batch, kTriesPerNumber), 0, draw);
}

// (logits, num_samples[, seed])
KernelOr MakeClassDraws(DeviceServices& services, const OpInstance& instance) {
  ClassDraws draws;
  MR_ASSIGN_OR_RETURN(draws.type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  draws.wide = instance.outputs[0].dtype == DataType::kInt64;
  draws.rows = instance.inputs[0].shape.dim(0);
  draws.classes = instance.inputs[0].shape.dim(1);
  draws.samples = instance.outputs[0].shape.dim(1);
  if (draws.rows * draws.samples == 0) return Nothing(services);
  const int64_t bytes = ClassDrawsScratchBytes(draws);
  const Draw draw = [=](const Queue& queue, const KernelContext& context, const RandomSource& source, void* scratch) {
    LaunchClassDraws(queue, draws, source, context.inputs[0], context.outputs[0], scratch);
  };
  if (instance.op == "StatelessMultinomial") return DrawsOfSeed(services, instance, 2, bytes, draw);
  return DrawsOfNode(services, instance, static_cast<uint64_t>(draws.rows * ((draws.samples + 3) / 4 * 4) * 2) * kSamplesPerOutput, bytes, draw);
}

// Rows of the input in random order, by a stream of the node's own or (value, key, counter, alg).
KernelOr MakeRandomShuffle(DeviceServices& services, const OpInstance& instance) {
  constexpr int64_t kMostRows = int64_t{1} << 20;
  const TensorType& type = instance.inputs[0];
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  const int64_t total = type.size_bytes(), rows = type.shape.rank() == 0 ? 1 : type.shape.dim(0);
  if (rows > kMostRows) return Refused(instance, "so many rows");
  if (DataTypeSize(type.dtype) == 0) return Refused(instance, "elements without a size");
  const int bytes = static_cast<int>(std::min<int64_t>(DataTypeSize(type.dtype), 8));
  const bool keyed = instance.op == "StatelessShuffle";
  if (rows <= 1 || total == 0) {
    return MakeLaunch(services, [total](const Queue& queue, const KernelContext& context) {
      LaunchStridedCopy(queue, 1, WholeCopy(total), context.inputs[0], context.outputs[0]);
    });
  }
  RowIndex index;
  index.count = index.dims[0] = rows;
  index.strides[0] = 1;
  const Draw draw = [=](const Queue& queue, const KernelContext& context, const RandomSource& source, void* scratch) {
    int32_t* const order = static_cast<int32_t*>(scratch);
    LaunchShuffledOrder(queue, source, rows, order, order + rows);
    LaunchGatherRows(queue, bytes, index, total / rows / bytes, context.inputs[0], order, context.outputs[0]);
  };
  const int64_t scratch_bytes = 2 * rows * static_cast<int64_t>(sizeof(int32_t));
  if (keyed) return DrawsOfKey(services, instance, scratch_bytes, draw);
  constexpr int64_t kWords = PhiloxStream::kWords;
  return DrawsOfNode(services, instance, static_cast<uint64_t>((rows - 1 + kWords - 1) / kWords), scratch_bytes, draw);
}

// (index, seed [3] or [n,3], max_index)
KernelOr MakeIndexShuffle(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance));
  const DataType dtype = instance.outputs[0].dtype;
  const Shape& seeds = instance.inputs[1].shape;
  if (!IsInteger(dtype) || DataTypeSize(dtype) < 4) return Refused(instance, "integers of this type");
  IndexShuffle shuffle;
  shuffle.wide = DataTypeSize(dtype) == 8;
  shuffle.is_signed = IsIndex(dtype);
  shuffle.wide_seed = DataTypeSize(instance.inputs[1].dtype) == 8;
  shuffle.count = instance.outputs[0].shape.num_elements();
  shuffle.rounds = instance.attrs.GetOr<int64_t>("rounds", 4);
  shuffle.index_step = instance.inputs[0].shape.rank() > 0 ? 1 : 0;
  shuffle.seed_step = seeds.rank() > 1 ? 3 : 0;
  shuffle.most_step = instance.inputs[2].shape.rank() > 0 ? 1 : 0;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchIndexShuffle(queue, shuffle, context.inputs[0], context.inputs[1], context.inputs[2], context.outputs[0]);
  });
}

}  // namespace

void RegisterRandomRare(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3", "RandomPoissonV2", "StatelessRandomPoisson"}) {
    Add(registry, services, op, MakeByParameter);
  }
  for (const char* op : {"StatelessRandomBinomial", "StatefulRandomBinomial"}) Add(registry, services, op, MakeBinomial);
  Add(registry, services, "StatelessParameterizedTruncatedNormal", MakeTruncated);
  Add(registry, services, "ParameterizedTruncatedNormal", MakeTruncatedBatches);
  for (const char* op : {"Multinomial", "StatelessMultinomial"}) Add(registry, services, op, MakeClassDraws);
  for (const char* op : {"RandomShuffle", "StatelessShuffle"}) Add(registry, services, op, MakeRandomShuffle);
  Add(registry, services, "RandomIndexShuffle", MakeIndexShuffle);
}

}  // namespace millrace::cuda
