// Fused kernels of one device: compiled for it, loaded, and kept by their text.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/launch/fused_reduce_body.h"
#include "cuda/plugin/cuda_errors.h"
#include "cuda/plugin/cuda_services.h"
#include "cuda/plugin/run_time_compiler.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

class LoadedFusion final : public CompiledFusion {
 public:
  LoadedFusion(const CudaServices& services, CompiledText text, bool has_rest)
      : services_(services), text_(std::move(text)), has_rest_(has_rest) {}
  ~LoadedFusion() override {
    if (library_ != nullptr && !services_.watch().given_up()) cudaLibraryUnload(library_);
  }

  absl::Status Load() {
    const auto check = [&](cudaError_t error, const char* call) { return CudaStatus(error, services_.device(), call); };
    MR_RETURN_IF_ERROR(services_.Use());
    MR_RETURN_IF_ERROR(check(cudaLibraryLoadData(&library_, text_.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                             "cudaLibraryLoadData"));
    MR_RETURN_IF_ERROR(check(cudaLibraryGetKernel(&kernel_, library_, "millrace_fused"), "cudaLibraryGetKernel"));
    if (!has_rest_) return absl::OkStatus();
    return check(cudaLibraryGetKernel(&rest_, library_, "millrace_fused_rest"), "cudaLibraryGetKernel");
  }

  absl::Status Launch(const Queue& queue, const FusedArguments& arguments) const override {
    if (arguments.elements <= 0) return absl::OkStatus();
    constexpr int64_t kEach = int64_t{kFusedThreads} * kFusedUnroll, kMostBlocks = 132 * 16;
    const int64_t blocks = std::min((arguments.elements + kEach - 1) / kEach, kMostBlocks);
    return Launch(queue, kernel_, blocks, kFusedThreads, arguments);
  }

  absl::Status LaunchReduce(const Queue& queue, const FusedReduceArguments& arguments) const override {
    if (arguments.rows <= 0) return absl::OkStatus();
    const SumGrid grid = SumGridOf(arguments.rows, arguments.terms, arguments.columns);
    MR_RETURN_IF_ERROR(Launch(queue, kernel_, grid.blocks, kThreads, arguments));
    return grid.chunks == 1 ? absl::OkStatus() : Launch(queue, rest_, grid.rest_blocks, kThreads, arguments);
  }

 private:
  template <typename Arguments>
  absl::Status Launch(const Queue& queue, cudaKernel_t kernel, int64_t blocks, int threads, Arguments arguments) const {
    void* pointers[] = {&arguments};
    return CudaStatus(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                       dim3(static_cast<unsigned>(threads)), pointers, 0, static_cast<cudaStream_t>(queue.stream)),
                      services_.device(), "cudaLaunchKernel");
  }

  const CudaServices& services_;
  const CompiledText text_;  // loaded code may refer to it
  cudaLibrary_t library_ = nullptr;
  const bool has_rest_;  // what adds up chunks
  cudaKernel_t kernel_ = nullptr, rest_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledFusion>> CudaServices::CompileFusion(const std::string& source) {
  std::lock_guard<std::mutex> lock(fusions_mutex_);
  const auto known = fusions_.find(source);
  if (known != fusions_.end()) return known->second;
  const auto refused = refused_fusions_.find(source);
  if (refused != refused_fusions_.end()) return refused->second;
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<const CompiledFusion>> {
    MR_RETURN_IF_ERROR(Use());
    int major = 0, minor = 0;
    MR_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_), device_,
                                  "cudaDeviceGetAttribute"));
    MR_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index_), device_,
                                  "cudaDeviceGetAttribute"));
    MR_ASSIGN_OR_RETURN(CompiledText text, CompileAtRunTime(source, absl::StrCat("sm_", major, minor)));
    auto fusion = std::make_shared<LoadedFusion>(*this, std::move(text), absl::StrContains(source, "MR_FUSED_REST_KERNEL"));
    MR_RETURN_IF_ERROR(fusion->Load());
    return std::shared_ptr<const CompiledFusion>(std::move(fusion));
  };
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> made = make();
  if (!made.ok()) {
    // Slower kernels are there for the same work; said once for each reason.
    if (!absl::IsUnavailable(made.status())) {
      if (fusion_errors_.insert(std::string(made.status().message())).second) {
        LOG(WARNING) << device_ << ": fused kernels are not compiled: " << made.status().message();
      }
      made = refused_fusions_[source] = absl::UnimplementedError(made.status().message());
    }
    return made;
  }
  fusions_[source] = *made;
  return made;
}

}  // namespace millrace::cuda
