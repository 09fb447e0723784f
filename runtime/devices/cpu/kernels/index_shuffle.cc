// RandomIndexShuffle: a permutation of [0, max_index] that needs no memory (graph/index_shuffle.h).
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/random_fill.h"
#include "cpu/kernels/rarest.h"
#include "graph/index_shuffle.h"

namespace millrace::cpu {
namespace {

// (index, seed [3] or [n,3], max_index)
template <typename T>
absl::Status ShuffleIndices(const KernelContext& context, int64_t rounds) {
  const TensorType& seeds = context.input_type(1);
  const bool many[] = {context.input_type(0).shape.rank() > 0, seeds.shape.rank() > 1, context.input_type(2).shape.rank() > 0};
  for (int64_t i = 0; i < context.output_type(0).shape.num_elements(); ++i) {
    const T index = context.input<T>(0)[many[0] ? i : 0], most = context.input<T>(2)[many[2] ? i : 0];
    if (index < T(0)) return absl::InvalidArgumentError(absl::StrCat("index must be >= 0 but was ", index));
    if (most < index) return absl::InvalidArgumentError(absl::StrCat("max_index must be >= index, but ", most, " < ", index));
    IndexShuffleSeed seed;
    for (int k = 0; k < 3; ++k) seed.words[k] = static_cast<uint32_t>(ReadInt(seeds.dtype, context.inputs[1], (many[1] ? 3 * i : 0) + k));
    context.output<T>(0)[i] = static_cast<T>(ShuffledIndex(static_cast<uint64_t>(index), seed, static_cast<uint64_t>(most), rounds));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeIndexShuffle(const OpInstance& node) {
  return DispatchInteger(node, node.outputs[0].dtype, [rounds = node.attrs.GetOr<int64_t>("rounds", 4)](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([rounds](const KernelContext& context) { return ShuffleIndices<T>(context, rounds); });
  });
}

}  // namespace

void RegisterIndexShuffleKernels(KernelRegistry& registry) { AddKernel(registry, "RandomIndexShuffle", MakeIndexShuffle); }

}  // namespace millrace::cpu
