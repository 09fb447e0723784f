// Generators kept in variables (tf.random.Generator): the variable holds counter and key of a Philox stream, which ops
// read and move on.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/random_stream.h"
#include "cpu/kernels/values.h"
#include "graph/random_algorithm.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeSkip(const OpInstance& node) {
  const bool reads = node.op == "RngReadAndSkip";
  return MakeKernel([reads](const KernelContext& context) -> absl::Status {
    MR_ASSIGN_OR_RETURN(const Philox philox, StreamOfVariable(context, ReadInt(context.input_type(2).dtype, context.inputs[2], 0)));
    if (reads) {
      context.output<int64_t>(0)[0] = static_cast<int64_t>(philox.counter_low());
      context.output<int64_t>(0)[1] = static_cast<int64_t>(philox.counter_high());
      context.output<int64_t>(0)[2] = static_cast<int64_t>(philox.key());
    }
    return absl::OkStatus();
  });
}

template <RandomKind kKind>
absl::StatusOr<std::unique_ptr<Kernel>> MakeGenerator(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const RandomFill fill, FindRandomFill(kKind, node));
  const int64_t elements = node.outputs[0].shape.num_elements();
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    int64_t low = 0, high = 0;
    if (kKind == RandomKind::kUniformInt) MR_RETURN_IF_ERROR(ReadBounds(context, 3, &low, &high));
    MR_ASSIGN_OR_RETURN(const Philox philox, StreamOfVariable(context, elements));
    if (elements > 0) fill(context, philox, elements, low, high);
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<Philox> StreamOfVariable(const KernelContext& context, uint64_t outputs) {
  MR_ASSIGN_OR_RETURN(const int64_t algorithm, ValueReader(context).scalar(1));
  if (!IsPhilox(algorithm)) {
    return absl::InvalidArgumentError(absl::StrCat("Unsupported algorithm id: ", algorithm, ", expected ", kAlgorithmPhilox,
                                                   " (Philox) or ", kAlgorithmAuto, " (auto)"));
  }
  int64_t* state = context.variable<int64_t>(0);
  const Philox philox(static_cast<uint64_t>(state[2]), static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1]));
  const Philox after = philox.After(outputs * kSamplesPerOutput);
  state[0] = static_cast<int64_t>(after.counter_low());
  state[1] = static_cast<int64_t>(after.counter_high());
  return philox;
}

void RegisterRandomGeneratorKernels(KernelRegistry& registry) {
  AddKernel(registry, "RngReadAndSkip", MakeSkip);
  AddKernel(registry, "RngSkip", MakeSkip);
  AddKernel(registry, "StatefulUniform", MakeGenerator<RandomKind::kUniform>);
  AddKernel(registry, "StatefulStandardNormalV2", MakeGenerator<RandomKind::kNormal>);
  AddKernel(registry, "StatefulTruncatedNormal", MakeGenerator<RandomKind::kTruncatedNormal>);
  AddKernel(registry, "StatefulUniformInt", MakeGenerator<RandomKind::kUniformInt>);
  AddKernel(registry, "StatefulUniformFullInt", MakeGenerator<RandomKind::kUniformFullInt>);
}

}  // namespace millrace::cpu
