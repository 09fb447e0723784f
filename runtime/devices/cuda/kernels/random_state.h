// Streams of random numbers that go on from run to run. How much of its stream a node has used is its state, in host memory; it is on
// the device while the node runs, so that a captured step goes on from where the last one ended.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RANDOM_STATE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RANDOM_STATE_H_

#include <string>

#include "cuda/kernels/common.h"
#include "cuda/launch/random.h"
#include "graph/philox.h"
#include "graph/random_algorithm.h"
#include "millrace/stream_name.h"

namespace millrace::cuda {

// Of a node's state, which is what its kernel's scratch begins with.
inline constexpr int64_t kStateBytes = 8;

// Of ops that are given a stream.
inline constexpr int kKeyInput = 1, kCounterInput = 2, kAlgorithmInput = 3;
// Whether the algorithm is to be checked when running.
inline absl::StatusOr<bool> ChecksAlgorithm(const OpInstance& instance) {
  const Tensor* const algorithm = ValueOf(instance, kAlgorithmInput);
  if (algorithm != nullptr && !IsPhilox(algorithm->IntAt(0))) return Refused(instance, "this algorithm");
  if (instance.inputs[kAlgorithmInput].dtype != DataType::kInt32) return Refused(instance, "an algorithm of this type");
  return algorithm == nullptr;
}

struct StreamSeeds {
  explicit StreamSeeds(const OpInstance& instance)
      : seed(static_cast<uint64_t>(instance.attrs.GetOr<int64_t>("seed", 0))),
        seed2(static_cast<uint64_t>(instance.attrs.GetOr<int64_t>("seed2", 0))) {}
  uint64_t seed, seed2;
};

// FNV-1a: a node without seeds draws from a stream of its own name.
inline uint64_t HashName(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

// draw(source) launches what draws from the node's stream, of which this run takes `samples`.
template <typename Draw>
absl::Status DrawOfState(DeviceServices& services, const Queue& queue, const KernelContext& context, const StreamSeeds& seeds,
                         uint64_t samples, const Draw& draw) {
  const bool given = seeds.seed != 0 || seeds.seed2 != 0;
  RandomSource source;
  source.given_key = given ? seeds.seed : context.seed;
  source.given_high = given ? seeds.seed2 : HashName(StreamName(*context.instance));
  source.counter = context.scratch;
  MR_RETURN_IF_ERROR(services.LoadState(queue, context.scratch, context.state, kStateBytes));
  draw(source);
  LaunchAdvance(queue, static_cast<uint64_t*>(context.scratch), samples);
  return services.StoreState(queue, context.state, context.scratch, kStateBytes);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RANDOM_STATE_H_
