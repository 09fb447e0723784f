#include "cpu/cpu_device.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "cpu/copy_past_caches.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"
#include "runtime/mapped_region.h"
#include "runtime/thread_lane_engine.h"

namespace millrace::cpu {
namespace {

void Copy(void* destination, const void* source, int64_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

class CpuDevice final : public RuntimeDevice {
 public:
  CpuDevice(int index, std::shared_ptr<const KernelRegistry> kernels)
      : name_(absl::StrCat("cpu:", index)), kernels_(std::move(kernels)) {}

  const std::string& name() const override { return name_; }
  int64_t memory_bytes() const override { return 0; }
  const KernelRegistry& kernels() const override { return *kernels_; }
  bool has_data() const override { return true; }

  absl::StatusOr<void*> ReserveArena(int64_t bytes) override {
    if (arena_.data() == nullptr || bytes > arena_.size_bytes()) {
      arena_ = MappedRegion();  // given back first: two arenas together could be more than there is
      MR_ASSIGN_OR_RETURN(arena_, MappedRegion::Create(bytes, "the device arena"));
    }
    return arena_.data();
  }

  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) override {
    Copy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* host, const void* device, int64_t bytes) override {
    Copy(host, device, bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) override {
    return MakeThreadLaneEngine(program, options, &CopyPastCaches);
  }

 private:
  const std::string name_;
  const std::shared_ptr<const KernelRegistry> kernels_;
  MappedRegion arena_;
};

}  // namespace

std::unique_ptr<RuntimeDevice> MakeCpuDevice(int index, std::shared_ptr<const KernelRegistry> kernels) {
  return std::make_unique<CpuDevice>(index, std::move(kernels));
}

std::unique_ptr<RuntimeDevice> MakeCpuDevice(int index) {
  // The built-in registry lives as long as the process: nothing to own.
  return MakeCpuDevice(index, std::shared_ptr<const KernelRegistry>(std::shared_ptr<void>(), &CpuKernels()));
}

}  // namespace millrace::cpu

namespace millrace {

const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* r = new KernelRegistry();
    cpu::RegisterCpuKernels(*r);
    return r;
  }();
  return *registry;
}

}  // namespace millrace
