// An H100 or an H200 for which cuDNN makes its plans, and which is not here: its kernels have the scratch that they would have
// and cannot run.
#ifndef MILLRACE_TESTS_CUDA_PLANNED_DEVICE_H_
#define MILLRACE_TESTS_CUDA_PLANNED_DEVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/services.h"
#include "cuda/plugin/dnn_plan.h"
#include "millrace/session.h"
#include "models/models.h"

namespace millrace::cuda {

// As cuDNN writes them, with the figures of data sheets.
inline std::string Hopper(const std::string& name, int64_t memory_bytes, int memory_khz) {
  return absl::StrCat(
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
      R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)",
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)",
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":)", memory_bytes,
      R"(,"smClockRateKHz":1980000,"memClockRateKHz":)", memory_khz,
      R"(,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"deviceName":")", name, "\"}");
}
inline std::string H100() { return Hopper("NVIDIA H100 80GB HBM3", int64_t{85} << 30, 2619000); }
inline std::string H200() { return Hopper("NVIDIA H200", int64_t{140} << 30, 3201000); }

class PlannedConvolution final : public Convolution {
 public:
  explicit PlannedConvolution(const DnnPlan& plan) : name_(plan.name), scratch_bytes_(plan.scratch_bytes) {}
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::string algorithm() const override { return name_; }
  absl::Status Run(const Queue&, const ConvTensors&, void*) const override { return absl::UnimplementedError("no device"); }

 private:
  const std::string name_;
  const int64_t scratch_bytes_;
};

// As much scratch as cuBLASLt may have (plugin/blas_product.cc).
class PlannedProduct final : public Product {
 public:
  int64_t scratch_bytes() const override { return int64_t{32} << 20; }
  absl::Status Run(const Queue&, const void*, const void*, const void*, const void*, void*, void*) const override {
    return absl::UnimplementedError("no device");
  }
};

class PlannedFusion final : public CompiledFusion {
 public:
  absl::Status Launch(const Queue&, const FusedArguments&) const override { return absl::UnimplementedError("no device"); }
  absl::Status LaunchReduce(const Queue&, const FusedReduceArguments&) const override { return absl::UnimplementedError("no device"); }
};

class PlannedDevice : public DeviceServices {
 public:
  explicit PlannedDevice(const DnnDescriptor& device, DnnLimits limits = {}) : device_(device), limits_(limits) {}

  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override {
    const auto plans = RankDnnPlans(shape, limits_, {.device = &device_});
    if (!plans.ok()) return plans.status();
    return std::make_unique<PlannedConvolution>(plans->front());
  }
  bool tf32() const override { return limits_.tf32; }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape&) override { return std::make_unique<PlannedProduct>(); }
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string&) override {
    return std::make_shared<const PlannedFusion>();
  }
  // Kernels launched on the host, which fold constants.
  Queue QueueOf(const KernelContext&) override { return {nullptr, &fault_, 0}; }
  absl::Status Launched(const Queue&, const OpInstance&) override { return absl::OkStatus(); }
  absl::Status LoadState(const Queue&, void*, const void*, int64_t) override { return absl::UnimplementedError("no device"); }
  absl::Status StoreState(const Queue&, void*, const void*, int64_t) override { return absl::UnimplementedError("no device"); }

 protected:
  const DnnDescriptor& device_;
  const DnnLimits limits_;

 private:
  Fault fault_;
};

// The plan of a training step of a model.
inline absl::StatusOr<std::shared_ptr<const ExecutionPlan>> PlanStep(const std::string& model, const ModelOptions& model_options,
                                                                     const SessionOptions& options) {
  auto graph = BuildModel(model, model_options);
  if (!graph.ok()) return graph.status();
  Session::FeedTypes feeds;
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    if (node.op == "Placeholder") feeds[node.name] = node.outputs[0];
  }
  auto session = Session::Create(*std::move(graph), options);
  if (!session.ok()) return session.status();
  return (*session)->Plan(feeds, {"loss:0"}, {"train"});
}

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_PLANNED_DEVICE_H_
