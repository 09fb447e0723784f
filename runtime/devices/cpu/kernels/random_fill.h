// Fills tensors with random numbers: the layout of samples in memory is TensorFlow's, whatever the shards.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_FILL_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_FILL_H_

#include "absl/status/statusor.h"
#include "cpu/kernels/philox.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

enum class RandomKind { kUniform, kNormal, kTruncatedNormal, kUniformInt, kUniformFullInt };

// Fills output 0 (of `elements` elements) from the stream. `low` and `high` bound kUniformInt.
using RandomFill = void (*)(const KernelContext& context, const Philox& philox, int64_t elements, int64_t low, int64_t high);

// The fill of this kind and element type; Unimplemented when TensorFlow has none.
absl::StatusOr<RandomFill> FindRandomFill(RandomKind kind, const OpInstance& node);

// The stream of a stateless op: of the seed in that input, or of the key, counter and algorithm in inputs 1 to 3.
Philox StreamOfSeed(const KernelContext& context, int input);
absl::StatusOr<Philox> StreamOfKey(const KernelContext& context);
// That of a generator kept in variable 0, which is moved on by what `outputs` numbers may need. Input 1 is the algorithm.
absl::StatusOr<Philox> StreamOfVariable(const KernelContext& context, uint64_t outputs);

// Element `i` of a tensor of integers in memory.
int64_t ReadInt(DataType dtype, const void* data, int64_t i);
// minval and maxval of kUniformInt (inputs `first` and `first` + 1), checked.
absl::Status ReadBounds(const KernelContext& context, int first, int64_t* low, int64_t* high);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_FILL_H_
