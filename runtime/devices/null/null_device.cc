#include "null/null_device.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/thread_lane_engine.h"

namespace millrace {
namespace {

class NullDevice final : public RuntimeDevice {
 public:
  NullDevice(int index, int64_t memory_bytes, std::shared_ptr<const KernelRegistry> kernels)
      : name_(absl::StrCat("null:", index)), memory_bytes_(memory_bytes), kernels_(std::move(kernels)) {}

  const std::string& name() const override { return name_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  const KernelRegistry& kernels() const override { return *kernels_; }
  bool has_data() const override { return false; }

  absl::StatusOr<void*> ReserveArena(int64_t bytes) override {
    if (memory_bytes_ > 0 && bytes > memory_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name_, " has ", memory_bytes_, " bytes of memory, the plan needs ", bytes));
    }
    return nullptr;
  }
  absl::Status CopyToDevice(void*, const void*, int64_t) override { return absl::OkStatus(); }
  absl::Status CopyToHost(void*, const void*, int64_t) override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) override {
    return MakeThreadLaneEngine(program, options, nullptr);
  }

 private:
  const std::string name_;
  const int64_t memory_bytes_;
  const std::shared_ptr<const KernelRegistry> kernels_;
};

}  // namespace

std::unique_ptr<RuntimeDevice> MakeNullDevice(int index, int64_t memory_bytes,
                                              std::shared_ptr<const KernelRegistry> kernels) {
  return std::make_unique<NullDevice>(index, memory_bytes, std::move(kernels));
}

}  // namespace millrace
