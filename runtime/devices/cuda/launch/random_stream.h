// The stream that a source of random numbers names (random.h). Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_STREAM_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_STREAM_H_

#include "cuda/launch/portable.h"
#include "cuda/launch/random.h"
#include "graph/philox.h"

namespace millrace::cuda {

MR_DEVICE inline PhiloxStream StreamOf(const RandomSource& source) {
  const uint64_t* const words = static_cast<const uint64_t*>(source.counter);
  switch (source.kind) {
    case RandomSource::Kind::kState: return {source.given_key, words[0], source.given_high};
    case RandomSource::Kind::kKeyed: return {*static_cast<const uint64_t*>(source.key), words[0], words[1]};
    case RandomSource::Kind::kVariable: return {words[2], words[0], words[1]};
    case RandomSource::Kind::kSeed: break;
  }
  const auto seed = [&](int64_t i) { return static_cast<uint64_t>(IndexAt(source.counter, source.wide_seed, i)); };
  return PhiloxStream::FromStatelessSeed(seed(0), seed(1));
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_RANDOM_STREAM_H_
