#include "runtime/kernel_cache.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "runtime/kernel_checks.h"

namespace millrace {
namespace {

void AppendTypes(const std::vector<TensorType>& types, std::string* key) {
  for (const TensorType& type : types) absl::StrAppend(key, type.ToString(), ",");
  key->push_back('|');
}

// Equal keys, equal kernels: everything a factory sees but the name.
std::string KernelKey(const OpInstance& instance) {
  std::string key = absl::StrCat(instance.op, "|");
  AppendTypes(instance.inputs, &key);
  AppendTypes(instance.outputs, &key);
  for (const auto& [name, value] : instance.attrs) absl::StrAppend(&key, name, "=", AttrToString(value), ";");
  for (size_t i = 0; i < instance.input_values.size(); ++i) {
    const Tensor& value = instance.input_values[i];
    if (!value.empty()) absl::StrAppend(&key, "|", i, ":", AttrToString(AttrValue(value)));
  }
  return key;
}

absl::Status NameNode(const OpInstance& instance, const absl::Status& status) {
  if (absl::StrContains(status.message(), absl::StrCat("'", instance.name, "'"))) return status;
  return WithPrefix(status, absl::StrCat("node '", instance.name, "' (", instance.op, ")"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Kernel>> KernelCache::Get(const OpInstance& instance, int32_t device) {
  std::string key = KernelKey(instance);
  if (registries_.size() > 1) absl::StrAppend(&key, "@", device);
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const Kernel>& kernel = kernels_[key];
  if (kernel == nullptr) {
    MR_ASSIGN_OR_RETURN(kernel, Make(instance, device));
  }
  return kernel;
}

void KernelCache::ForgetUnused() {
  std::lock_guard<std::mutex> lock(mutex_);
  // New holders come from Get alone, which waits.
  std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() <= 1; });
}

absl::StatusOr<std::shared_ptr<const Kernel>> KernelCache::Make(const OpInstance& instance, int32_t device) const {
  const KernelFactory* factory = RegistryOf(device).Find(instance.op);
  if (factory == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("node '", instance.name, "': this device has no kernel of op '", instance.op, "'"));
  }
  absl::StatusOr<std::unique_ptr<Kernel>> made = MakeKernel(*factory, instance);
  if (!made.ok()) return NameNode(instance, made.status());
  return std::shared_ptr<const Kernel>(*std::move(made));
}

}  // namespace millrace
