// Kernels shared by the nodes that need equal ones: same op, attributes, types and known input values. Planning asks
// it for scratch sizes, executors for kernels to run; a large graph has some hundred distinct ones.
//
// Any thread may call: a plan is made beside the steps of another.
#ifndef MILLRACE_RUNTIME_KERNEL_CACHE_H_
#define MILLRACE_RUNTIME_KERNEL_CACHE_H_

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"

namespace millrace {

class KernelCache {
 public:
  // `registry` outlives the cache.
  explicit KernelCache(const KernelRegistry& registry) : registry_(registry) {}
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // Unimplemented when the registry has no kernel of the op; the factory's error otherwise. Both name the node.
  absl::StatusOr<std::shared_ptr<const Kernel>> Get(const OpInstance& instance);

  int64_t num_kernels() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(kernels_.size());
  }

 private:
  const KernelRegistry& registry_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_KERNEL_CACHE_H_
