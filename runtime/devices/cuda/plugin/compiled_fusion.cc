// Fused kernels of one device: compiled for it beside the planner, loaded before memory and graphs are made of them, and kept by their text.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/match.h"
#include "cuda/launch/fused_reduce_body.h"
#include "cuda/plugin/cuda_errors.h"
#include "cuda/plugin/cuda_services.h"
#include "cuda/plugin/run_time_compiler.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

class LoadedFusion final : public CompiledFusion {
 public:
  LoadedFusion(CudaServices& services, Compilation compilation, bool has_rest)
      : services_(services), compilation_(std::move(compilation)), has_rest_(has_rest) {}
  ~LoadedFusion() override {
    if (!services_.watch().given_up()) Unload();
  }

  absl::Status Ready() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return short_of_memory_ ? LoadOrRefuse() : Loaded();
  }

  absl::Status Launch(const Queue& queue, const FusedArguments& arguments) const override {
    MR_RETURN_IF_ERROR(AsItIs());
    if (arguments.elements <= 0) return absl::OkStatus();
    constexpr int64_t kEach = int64_t{kFusedThreads} * kFusedUnroll, kMostBlocks = 132 * 16;
    const int64_t blocks = std::min((arguments.elements + kEach - 1) / kEach, kMostBlocks);
    return Launch(queue, kernel_, blocks, kFusedThreads, arguments);
  }

  absl::Status LaunchReduce(const Queue& queue, const FusedReduceArguments& arguments) const override {
    MR_RETURN_IF_ERROR(AsItIs());
    if (arguments.rows <= 0) return absl::OkStatus();
    const SumGrid grid = SumGridOf(arguments.rows, arguments.terms, arguments.columns);
    MR_RETURN_IF_ERROR(Launch(queue, kernel_, grid.blocks, kThreads, arguments));
    return grid.chunks == 1 ? absl::OkStatus() : Launch(queue, rest_, grid.rest_blocks, kThreads, arguments);
  }

 private:
  // What was refused is not asked for again: a step that is captured may not do that.
  absl::Status AsItIs() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Loaded();
  }
  // The rest is under the mutex.
  absl::Status Loaded() const { return asked_ ? ready_ : LoadOrRefuse(); }
  absl::Status LoadOrRefuse() const {
    asked_ = true;
    ready_ = Load();
    short_of_memory_ = absl::IsResourceExhausted(ready_);
    if (ready_.ok()) return ready_;
    if (!services_.watch().given_up()) Unload();
    return ready_ = services_.FusionRefused(ready_);
  }
  void Unload() const {
    if (library_ != nullptr) cudaLibraryUnload(library_);
    library_ = nullptr;
  }
  absl::Status Load() const {
    const absl::StatusOr<CompiledText>& text = compilation_.get();  // loaded code may refer to it
    MR_RETURN_IF_ERROR(text.status());
    MR_RETURN_IF_ERROR(services_.Use());
    MR_RETURN_IF_ERROR(CudaStatus(cudaLibraryLoadData(&library_, text->code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                                  services_.device(), "cudaLibraryLoadData"));
    MR_RETURN_IF_ERROR(LoadKernel("millrace_fused", kernel_));
    return has_rest_ ? LoadKernel("millrace_fused_rest", rest_) : absl::OkStatus();
  }
  // CUDA loads the code of a kernel when it is first asked of, which without the question is its first launch.
  absl::Status LoadKernel(const char* name, cudaKernel_t& kernel) const {
    MR_RETURN_IF_ERROR(CudaStatus(cudaLibraryGetKernel(&kernel, library_, name), services_.device(), "cudaLibraryGetKernel"));
    cudaFuncAttributes attributes;
    return CudaStatus(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), services_.device(), "cudaFuncGetAttributes");
  }

  template <typename Arguments>
  absl::Status Launch(const Queue& queue, cudaKernel_t kernel, int64_t blocks, int threads, Arguments arguments) const {
    void* pointers[] = {&arguments};
    return CudaStatus(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                       dim3(static_cast<unsigned>(threads)), pointers, 0, static_cast<cudaStream_t>(queue.stream)),
                      services_.device(), "cudaLaunchKernel");
  }

  CudaServices& services_;
  const Compilation compilation_;
  const bool has_rest_;  // what adds up chunks
  mutable std::mutex mutex_;
  mutable bool asked_ = false, short_of_memory_ = false;
  mutable absl::Status ready_;
  mutable cudaLibrary_t library_ = nullptr;
  mutable cudaKernel_t kernel_ = nullptr, rest_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledFusion>> CudaServices::CompileFusion(const std::string& source) {
  const auto start = [&]() -> absl::StatusOr<Compilation> {
    MR_RETURN_IF_ERROR(Use());
    int major = 0, minor = 0;
    MR_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_), device_,
                                  "cudaDeviceGetAttribute"));
    MR_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index_), device_,
                                  "cudaDeviceGetAttribute"));
    MR_ASSIGN_OR_RETURN(const std::string architecture, ArchitectureFor(10 * major + minor));
    return StartCompiling(source, architecture);
  };
  absl::Status refused;
  {
    std::lock_guard<std::mutex> lock(fusions_mutex_);
    const auto known = fusions_.find(source);
    if (known != fusions_.end()) return known->second;
    absl::StatusOr<Compilation> started = start();
    if (started.ok()) {
      return fusions_[source] = std::make_shared<LoadedFusion>(*this, *std::move(started), absl::StrContains(source, "MR_FUSED_REST_KERNEL"));
    }
    refused = started.status();
  }
  return FusionRefused(refused);
}

absl::Status CudaServices::LoadFusions() {
  std::vector<std::shared_ptr<const CompiledFusion>> fusions;
  {
    std::lock_guard<std::mutex> lock(fusions_mutex_);
    for (const auto& [text, fusion] : fusions_) fusions.push_back(fusion);
  }
  for (const auto& fusion : fusions) {
    const absl::Status ready = fusion->Ready();
    if (!ready.ok() && !absl::IsUnimplemented(ready)) return ready;
  }
  return absl::OkStatus();
}

absl::Status CudaServices::FusionRefused(const absl::Status& why) {
  if (absl::IsUnavailable(why)) return why;
  std::lock_guard<std::mutex> lock(fusions_mutex_);
  if (fusion_errors_.insert(std::string(why.message())).second) {
    LOG(WARNING) << device_ << ": fused kernels are not compiled: " << why.message();
  }
  return absl::UnimplementedError(why.message());
}

}  // namespace millrace::cuda
