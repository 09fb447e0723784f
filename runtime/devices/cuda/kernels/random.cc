// Random numbers. How much of its stream a node has used is its state, in host memory; it is on the device while the node
// runs, so that a captured step goes on from where the last one ended.
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/random.h"
#include "millrace/stream_name.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Samples that a run reserves for each output element, as the CPU's kernels do.
constexpr uint64_t kSamplesPerOutput = 256;

RandomKind KindOf(const std::string& op) {
  if (absl::StrContains(op, "TruncatedNormal")) return RandomKind::kTruncatedNormal;
  return absl::StrContains(op, "Normal") ? RandomKind::kNormal : RandomKind::kUniform;
}

// FNV-1a: a node without seeds draws from a stream of its own name.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

KernelOr MakeRandom(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const RandomKind kind = KindOf(instance.op);
  const int64_t n = instance.outputs[0].shape.num_elements();
  const auto seed = static_cast<uint64_t>(instance.attrs.GetOr<int64_t>("seed", 0));
  const auto seed2 = static_cast<uint64_t>(instance.attrs.GetOr<int64_t>("seed2", 0));
  constexpr int64_t kStateBytes = 8;
  return MakeLaunch(
      services,
      [=, &services](const Queue& queue, const KernelContext& context) -> absl::Status {
        if (n == 0) return absl::OkStatus();
        const bool given = seed != 0 || seed2 != 0;
        RandomSource source;
        source.given_key = given ? seed : context.seed;
        source.given_high = given ? seed2 : HashName(StreamName(*context.instance));
        source.counter = context.scratch;
        MR_RETURN_IF_ERROR(services.LoadState(queue, context.scratch, context.state, kStateBytes));
        LaunchRandom(queue, kind, type, source, context.outputs[0], n);
        LaunchAdvance(queue, static_cast<uint64_t*>(context.scratch), static_cast<uint64_t>(n) * kSamplesPerOutput);
        return services.StoreState(queue, context.state, context.scratch, kStateBytes);
      },
      kStateBytes);
}

bool IsSeed(const OpInstance& instance, size_t i) {
  const DataType dtype = instance.inputs[i].dtype;
  return dtype == DataType::kInt32 || dtype == DataType::kInt64;
}

KernelOr MakeStateless(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const bool keyed = absl::EndsWith(instance.op, "V2");
  for (size_t i = 1; i < instance.inputs.size(); ++i) {
    if (ValueOf(instance, i) != nullptr && i < 3) return Refused(instance, "a seed that is on the host");
  }
  if (!keyed && !IsSeed(instance, 1)) return Refused(instance, "a seed of this type");
  const RandomKind kind = KindOf(instance.op);
  const int64_t n = instance.outputs[0].shape.num_elements();
  const bool wide = instance.inputs[1].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    RandomSource source;
    source.kind = keyed ? RandomSource::Kind::kKeyed : RandomSource::Kind::kSeed;
    source.counter = context.inputs[keyed ? 2 : 1];
    source.key = keyed ? context.inputs[1] : nullptr;
    source.wide_seed = wide;
    LaunchRandom(queue, kind, type, source, context.outputs[0], n);
  });
}

// Without the number of the algorithm, which is written on the host.
KernelOr MakeKeyCounter(DeviceServices& services, const OpInstance& instance) {
  if (ValueOf(instance, 0) != nullptr || !IsSeed(instance, 0)) return Refused(instance, "this seed");
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
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) Add(registry, services, op, MakeRandom);
  for (const char* op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal",
                         "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"}) {
    Add(registry, services, op, MakeStateless);
  }
  Add(registry, services, "StatelessRandomGetKeyCounter", MakeKeyCounter);
}

}  // namespace millrace::cuda
