#include "stream/stream_device.h"

#include <fstream>
#include <set>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "runtime/mapped_region.h"
#include "stream/stream_lane_engine.h"

namespace millrace {
namespace {

class StreamDeviceImpl final : public StreamDevice, private HostMemoryListener {
 public:
  StreamDeviceImpl(const std::string& kind, int index, std::unique_ptr<DeviceDriver> driver, GraphCapture graph_capture)
      : name_(absl::StrCat(kind, ":", index)), graph_capture_(graph_capture), driver_(std::move(driver)) {}
  ~StreamDeviceImpl() override {
    if (arena_ != nullptr) driver_->FreeDevice(arena_);
    if (stream_ != nullptr) driver_->DestroyStream(stream_);
  }

  const std::string& name() const override { return name_; }
  int64_t memory_bytes() const override { return driver_->info().total_bytes; }
  const KernelRegistry& kernels() const override { return driver_->kernels(); }
  bool has_data() const override { return true; }
  bool tries_kernels() const override { return true; }
  DeviceDriver& driver() override { return *driver_; }
  const DeviceDriver& driver() const override { return *driver_; }
  GraphCapture graph_capture() const override { return graph_capture_; }
  const absl::Status& pinning() const override { return pinning_; }

  absl::StatusOr<int64_t> ContextBytes() override {
    MR_ASSIGN_OR_RETURN(const int64_t free_bytes, driver_->FreeBytes());
    return driver_->info().total_bytes - free_bytes - (arena_ != nullptr ? arena_bytes_ : 0);
  }

  absl::Status OfferArena(int64_t bytes) override {
    MR_ASSIGN_OR_RETURN(void* const arena, ReserveArena(bytes));
    driver_->LendForTrials(arena, arena_bytes_);
    lends_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<void*> ReserveArena(int64_t bytes) override {
    if (lends_) driver_->LendForTrials(nullptr, 0);
    // Those that were refused for want of memory, too: there may be some before all of it is taken.
    MR_RETURN_IF_ERROR(driver_->LoadKernels());
    if (arena_ != nullptr && bytes <= arena_bytes_) return arena_;
    // Before there are values on the device that only a stream could bring home.
    MR_RETURN_IF_ERROR(EnsureStream());
    // Given back first: two arenas together could be more than there is.
    if (arena_ != nullptr) driver_->FreeDevice(arena_);
    arena_ = nullptr;
    arena_bytes_ = std::max<int64_t>(bytes, kTensorAlignment);
    MR_ASSIGN_OR_RETURN(arena_, driver_->AllocateDevice(arena_bytes_));
    return arena_;
  }

  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    MR_RETURN_IF_ERROR(EnsureStream());
    MR_RETURN_IF_ERROR(driver_->CopyToDevice(device, host, bytes, stream_));
    return driver_->Synchronize(stream_);
  }
  absl::Status CopyToHost(void* host, const void* device, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    MR_RETURN_IF_ERROR(EnsureStream());
    MR_RETURN_IF_ERROR(driver_->CopyToHost(host, device, bytes, stream_));
    return driver_->Synchronize(stream_);
  }

  HostMemoryListener* host_memory_listener() override { return this; }
  absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) override {
    // Before the first step, whose time this is not.
    for (const ProgramLane& lane : program.lanes()) {
      if (auto* const device = dynamic_cast<StreamDevice*>(lane.device)) MR_RETURN_IF_ERROR(device->driver().LoadKernels());
    }
    return MakeStreamLaneEngine(program, options, *this);
  }

 private:
  void Mapped(void* data, int64_t bytes) override {
    const absl::Status pinned = driver_->PinHost(data, bytes);
    if (pinned.ok()) {
      pinned_.insert(data);
      LogPages(data, bytes);
      return;
    }
    if (pinning_.ok()) LOG(WARNING) << name_ << ": " << pinned.message();
    pinning_ = pinned;
  }
  bool Unmapped(void* data) override { return pinned_.erase(data) == 0 || driver_->UnpinHost(data); }
  void LogPages(const void* data, int64_t bytes) const {
    if (!VLOG_IS_ON(2)) return;  // reading the maps of much memory takes long
    std::ifstream smaps("/proc/self/smaps");
    VLOG(2) << name_ << ": " << bytes << " bytes of host memory are page-locked, " << HugePageBytes(smaps, data, bytes)
            << " of them or of their neighbours' on huge pages";
  }
  absl::Status EnsureStream() {
    if (stream_ != nullptr) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(stream_, driver_->CreateStream());
    return absl::OkStatus();
  }

  const std::string name_;
  const GraphCapture graph_capture_;
  const std::unique_ptr<DeviceDriver> driver_;
  void* arena_ = nullptr;
  int64_t arena_bytes_ = 0;
  bool lends_ = false;  // there is a budget, which kernels are tried within
  DeviceStream stream_ = nullptr;  // of copies outside of steps
  std::set<void*> pinned_;
  absl::Status pinning_;
};

}  // namespace

absl::StatusOr<GraphCapture> ParseGraphCapture(const std::string& text) {
  if (text == "auto") return GraphCapture::kAuto;
  if (text == "on") return GraphCapture::kOn;
  if (text == "off") return GraphCapture::kOff;
  return absl::InvalidArgumentError(absl::StrCat("cuda_graph is '", text, "', expected auto, on or off"));
}

std::unique_ptr<StreamDevice> MakeStreamDevice(const std::string& kind, int index, std::unique_ptr<DeviceDriver> driver,
                                               GraphCapture graph_capture) {
  return std::make_unique<StreamDeviceImpl>(kind, index, std::move(driver), graph_capture);
}

}  // namespace millrace
