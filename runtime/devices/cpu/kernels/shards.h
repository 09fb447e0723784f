// Shards that may fail.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SHARDS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SHARDS_H_

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

// Keeps the error of the lowest shard, so that the message does not depend on timing.
class FirstError {
 public:
  void Note(int64_t shard, absl::Status status) {
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok() && shard_ <= shard) return;
    shard_ = shard;
    status_ = std::move(status);
  }
  absl::Status Take() { return std::move(status_); }

 private:
  std::mutex mutex_;
  int64_t shard_ = 0;
  absl::Status status_;
};

// fn(0) … fn(shards-1) -> absl::Status side by side; the error of the lowest failed shard.
template <typename Fn>
absl::Status RunShards(const KernelContext& context, int64_t shards, Fn&& fn) {
  if (shards == 1) return fn(int64_t{0});
  FirstError error;
  context.parallel->For(shards, [&](int64_t shard) { error.Note(shard, fn(shard)); });
  return error.Take();
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SHARDS_H_
