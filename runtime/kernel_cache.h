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
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"

namespace millrace {

class KernelCache {
 public:
  // `registry` outlives the cache and serves all devices.
  explicit KernelCache(const KernelRegistry& registry) : registries_({&registry}) {}
  // One registry per device; they outlive the cache. Kernels hold what is their device's and are not shared.
  explicit KernelCache(std::vector<const KernelRegistry*> registries) : registries_(std::move(registries)) {}
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // Unimplemented when the registry has no kernel of the op; the factory's error otherwise. Both name the node.
  absl::StatusOr<std::shared_ptr<const Kernel>> Get(const OpInstance& instance, int32_t device = 0);

  // A kernel that is not kept.
  absl::StatusOr<std::shared_ptr<const Kernel>> Make(const OpInstance& instance, int32_t device = 0) const;

  // Drops the kernels that nobody holds.
  void ForgetUnused();

  int64_t num_kernels() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(kernels_.size());
  }

 private:
  const KernelRegistry& RegistryOf(int32_t device) const {
    return *registries_[registries_.size() == 1 ? 0 : static_cast<size_t>(device)];
  }

  const std::vector<const KernelRegistry*> registries_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_KERNEL_CACHE_H_
