// Random numbers of the usual distributions.
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/random_state.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/random_rare.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

RandomKind KindOf(const std::string& op) {
  if (absl::StrContains(op, "TruncatedNormal")) return RandomKind::kTruncatedNormal;
  return absl::StrContains(op, "Normal") ? RandomKind::kNormal : RandomKind::kUniform;
}

// Fills output 0 from a stream.
using Fill = std::function<void(const Queue& queue, const KernelContext& context, const RandomSource& source)>;

// `bounds`: the input that is the lower one of integers, where the op has them.
absl::StatusOr<Fill> IntegersOf(const OpInstance& instance, size_t bounds) {
  const DataType dtype = instance.outputs[0].dtype;
  RandomIntegers integers;
  integers.wide = DataTypeSize(dtype) == 8;
  integers.is_signed = dtype == DataType::kInt32 || dtype == DataType::kInt64;
  integers.bounded = !absl::StrContains(instance.op, "FullInt") && instance.op != "NonDeterministicInts";
  if (!IsInteger(dtype) || DataTypeSize(dtype) < 4) return Refused(instance, "integers of this type");
  const int64_t n = instance.outputs[0].shape.num_elements();
  const Tensor* const low = ValueOf(instance, bounds);
  const Tensor* const high = ValueOf(instance, bounds + 1);
  if (integers.bounded && low != nullptr) integers.low = static_cast<uint64_t>(low->IntAt(0));
  if (integers.bounded && high != nullptr) integers.high = static_cast<uint64_t>(high->IntAt(0));
  return [=, low_known = low != nullptr, high_known = high != nullptr](const Queue& queue, const KernelContext& context,
                                                                      const RandomSource& source) {
    RandomIntegers now = integers;
    if (now.bounded && !low_known) now.low_at = context.inputs[bounds];
    if (now.bounded && !high_known) now.high_at = context.inputs[bounds + 1];
    LaunchRandomIntegers(queue, now, source, context.outputs[0], n);
  };
}

absl::StatusOr<Fill> FillOf(const OpInstance& instance, size_t bounds) {
  if (absl::StrContains(instance.op, "Int")) return IntegersOf(instance, bounds);
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const RandomKind kind = KindOf(instance.op);
  const int64_t n = instance.outputs[0].shape.num_elements();
  return [=](const Queue& queue, const KernelContext& context, const RandomSource& source) {
    LaunchRandom(queue, kind, type, source, context.outputs[0], n);
  };
}

KernelOr MakeRandom(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Fill fill, FillOf(instance, 1));
  const int64_t n = instance.outputs[0].shape.num_elements();
  const StreamSeeds seeds(instance);
  return MakeLaunch(
      services,
      [=, &services](const Queue& queue, const KernelContext& context) -> absl::Status {
        if (n == 0) return absl::OkStatus();
        return DrawOfState(services, queue, context, seeds, static_cast<uint64_t>(n) * kSamplesPerOutput,
                           [&](const RandomSource& source) { fill(queue, context, source); });
      },
      kStateBytes);
}

KernelOr MakeStateless(DeviceServices& services, const OpInstance& instance) {
  const bool keyed = absl::EndsWith(instance.op, "V2");
  MR_ASSIGN_OR_RETURN(const Fill fill, FillOf(instance, keyed ? 4 : 2));
  for (size_t i = 1; i < (keyed ? 3 : 2); ++i) {
    if (ValueOf(instance, i) != nullptr) return Refused(instance, "a seed that is on the host");
  }
  if (!keyed && !IsIndex(instance.inputs[1].dtype)) return Refused(instance, "a seed of this type");
  bool checks = false;
  if (keyed) {
    MR_ASSIGN_OR_RETURN(checks, ChecksAlgorithm(instance));
  }
  checks = checks && instance.outputs[0].shape.num_elements() > 0;
  const bool wide = instance.inputs[1].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    if (checks) LaunchCheckAlgorithm(queue, kAlgorithmInput, context.input<int32_t>(kAlgorithmInput));
    RandomSource source;
    source.kind = keyed ? RandomSource::Kind::kKeyed : RandomSource::Kind::kSeed;
    source.counter = context.inputs[keyed ? kCounterInput : 1];
    source.key = keyed ? context.inputs[kKeyInput] : nullptr;
    source.wide_seed = wide;
    fill(queue, context, source);
  });
}

// Of a generator that is kept in variable 0 (tf.random.Generator).
KernelOr MakeOfGenerator(DeviceServices& services, const OpInstance& instance) {
  // The op's rule refuses all but Philox.
  if (ValueOf(instance, 1) == nullptr) return Refused(instance, "an algorithm that is not known when planning");
  MR_ASSIGN_OR_RETURN(const Fill fill, FillOf(instance, 3));
  const auto samples = static_cast<uint64_t>(instance.outputs[0].shape.num_elements()) * kSamplesPerOutput;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    RandomSource source;
    source.kind = RandomSource::Kind::kVariable;
    source.counter = context.inputs[0];
    fill(queue, context, source);
    LaunchAdvanceVariable(queue, context.variable<uint64_t>(0), samples, nullptr, nullptr);
  });
}

// RngReadAndSkip(generator, algorithm, delta) and RngSkip.
KernelOr MakeSkip(DeviceServices& services, const OpInstance& instance) {
  // The op's rule refuses all but Philox.
  if (ValueOf(instance, 1) == nullptr) return Refused(instance, "an algorithm that is not known when planning");
  const bool reads = instance.op == "RngReadAndSkip";
  const Tensor* const delta = ValueOf(instance, 2);
  if (delta == nullptr && DataTypeSize(instance.inputs[2].dtype) != 8) return Refused(instance, "a distance of this type");
  const uint64_t known = delta != nullptr ? static_cast<uint64_t>(delta->IntAt(0)) * kSamplesPerOutput : 0;
  return MakeLaunch(services, [=, is_known = delta != nullptr](const Queue& queue, const KernelContext& context) {
    LaunchAdvanceVariable(queue, context.variable<uint64_t>(0), is_known ? known : kSamplesPerOutput,
                          is_known ? nullptr : context.input<uint64_t>(2), reads ? context.output<uint64_t>(0) : nullptr);
  });
}

// Without the number of the algorithm, which is written on the host.
KernelOr MakeKeyCounter(DeviceServices& services, const OpInstance& instance) {
  if (ValueOf(instance, 0) != nullptr || !IsIndex(instance.inputs[0].dtype)) return Refused(instance, "this seed");
  const bool wide = instance.inputs[0].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    RandomSource source;
    source.kind = RandomSource::Kind::kSeed;
    source.counter = context.inputs[0];
    source.wide_seed = wide;
    LaunchKeyOfSeed(queue, source, context.output<uint64_t>(0), context.output<uint64_t>(1));
  });
}

}  // namespace

void RegisterRandom(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "NonDeterministicInts"}) {
    Add(registry, services, op, MakeRandom);
  }
  for (const char* op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt",
                         "StatelessRandomUniformFullInt"}) {
    Add(registry, services, op, MakeStateless);
    Add(registry, services, absl::StrCat(op, "V2"), MakeStateless);
  }
  for (const char* op : {"StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformInt",
                         "StatefulUniformFullInt"}) {
    Add(registry, services, op, MakeOfGenerator);
  }
  for (const char* op : {"RngReadAndSkip", "RngSkip"}) Add(registry, services, op, MakeSkip);
  Add(registry, services, "StatelessRandomGetKeyCounter", MakeKeyCounter);
}

}  // namespace millrace::cuda
