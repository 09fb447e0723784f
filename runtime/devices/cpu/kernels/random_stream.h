// The stream of a stateful random op: it follows from the node's seeds and goes on from run to run. How much of it
// earlier runs have reserved is the node's state (8 bytes, OpDef::state_bytes).
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_STREAM_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_STREAM_H_

#include <cstring>
#include <string>

#include "cpu/kernels/philox.h"
#include "millrace/kernel.h"
#include "millrace/stream_name.h"

namespace millrace::cpu {

class RandomStream {
 public:
  explicit RandomStream(const OpInstance& node)
      : seed_(node.attrs.GetOr<int64_t>("seed", 0)), seed2_(node.attrs.GetOr<int64_t>("seed2", 0)) {}

  // The stream from where this run begins, which keeps `samples` of it for itself.
  Philox Reserve(const KernelContext& context, uint64_t samples) const {
    const bool given = seed_ != 0 || seed2_ != 0;
    Philox philox = given ? Philox::FromSeeds(seed_, seed2_)
                          : Philox::FromSeeds(context.seed, HashName(StreamName(*context.instance)));
    uint64_t used;
    std::memcpy(&used, context.state, sizeof(used));
    philox.Skip(used);
    used += samples;
    std::memcpy(context.state, &used, sizeof(used));
    return philox;
  }

 private:
  // FNV-1a: a node without seeds draws from a stream of its own name.
  static uint64_t HashName(const std::string& name) {
    uint64_t hash = 14695981039346656037u;
    for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    return hash;
  }

  uint64_t seed_, seed2_;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RANDOM_STREAM_H_
