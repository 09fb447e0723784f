// Stateless random ops: the stream is an input, as a seed of two integers or as key, counter and algorithm.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/register.h"
#include "graph/random_algorithm.h"
#include "millrace/status.h"

namespace millrace::cpu {

Philox StreamOfSeed(const KernelContext& context, int input) {
  const DataType dtype = context.input_type(input).dtype;
  return Philox::FromStatelessSeed(ReadInt(dtype, context.inputs[input], 0), ReadInt(dtype, context.inputs[input], 1));
}

absl::StatusOr<Philox> StreamOfKey(const KernelContext& context) {
  const int64_t algorithm = ReadInt(context.input_type(3).dtype, context.inputs[3], 0);
  if (!IsPhilox(algorithm)) {
    return absl::InvalidArgumentError(absl::StrCat("random algorithm ", algorithm, " is not supported, expected ",
                                                   kAlgorithmPhilox, " (Philox) or ", kAlgorithmAuto, " (auto)"));
  }
  const uint64_t* counter = context.input<uint64_t>(2);
  return Philox(*context.input<uint64_t>(1), counter[0], counter[1]);
}

namespace {

template <RandomKind kKind, bool kKeyed>
absl::StatusOr<std::unique_ptr<Kernel>> MakeStateless(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const RandomFill fill, FindRandomFill(kKind, node));
  const int64_t elements = node.outputs[0].shape.num_elements();
  return MakeKernel([=](const KernelContext& context) {
    if (elements == 0) return absl::OkStatus();
    Philox philox;
    if (kKeyed) {
      MR_ASSIGN_OR_RETURN(philox, StreamOfKey(context));
    } else {
      philox = StreamOfSeed(context, 1);
    }
    int64_t low = 0, high = 0;
    if (kKind == RandomKind::kUniformInt) MR_RETURN_IF_ERROR(ReadBounds(context, kKeyed ? 4 : 2, &low, &high));
    fill(context, philox, elements, low, high);
    return absl::OkStatus();
  });
}

template <RandomKind kKind>
void AddStateless(KernelRegistry& registry, const char* name) {
  AddKernel(registry, name, MakeStateless<kKind, false>);
  AddKernel(registry, absl::StrCat(name, "V2"), MakeStateless<kKind, true>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeGetKeyCounter(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    const Philox philox = StreamOfSeed(context, 0);
    *context.output<uint64_t>(0) = philox.key();
    context.output<uint64_t>(1)[0] = philox.counter_low();
    context.output<uint64_t>(1)[1] = philox.counter_high();
    if (context.instance->outputs.size() > 2) *context.output<int32_t>(2) = kAlgorithmPhilox;
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeGetAlg(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    *context.output<int32_t>(0) = kAlgorithmPhilox;
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterStatelessRandomKernels(KernelRegistry& registry) {
  AddStateless<RandomKind::kUniform>(registry, "StatelessRandomUniform");
  AddStateless<RandomKind::kNormal>(registry, "StatelessRandomNormal");
  AddStateless<RandomKind::kTruncatedNormal>(registry, "StatelessTruncatedNormal");
  AddStateless<RandomKind::kUniformInt>(registry, "StatelessRandomUniformInt");
  AddStateless<RandomKind::kUniformFullInt>(registry, "StatelessRandomUniformFullInt");
  AddKernel(registry, "StatelessRandomGetKeyCounter", MakeGetKeyCounter);
  AddKernel(registry, "StatelessRandomGetKeyCounterAlg", MakeGetKeyCounter);
  AddKernel(registry, "StatelessRandomGetAlg", MakeGetAlg);
}

}  // namespace millrace::cpu
