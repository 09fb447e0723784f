// Convolutions by cuDNN: the plan that a step's plan names, or the first that runs by cuDNN's ranking, or the fastest measured.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/launch/pace.h"
#include "cuda/plugin/cuda_services.h"
#include "cuda/plugin/dnn_plan.h"
#include "cuda/plugin/dnn_trial.h"
#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace::cuda {
namespace {

class DnnConvolution final : public Convolution {
 public:
  DnnConvolution(CudaServices& services, std::shared_ptr<const ConvolutionChoice> choice)
      : services_(services), choice_(std::move(choice)) {}

  std::string algorithm() const override { return choice_->plan.name; }
  double seconds() const override { return choice_->seconds; }
  int64_t scratch_bytes() const override { return AlignUp(choice_->plan.scratch_bytes, kLibraryAlignment); }

  absl::Status Run(const Queue& queue, const ConvTensors& tensors, void* scratch) const override {
    if (!MayLaunch(queue)) return absl::UnavailableError("the device does not answer");
    MR_ASSIGN_OR_RETURN(const cudnnHandle_t handle, services_.DnnOn(static_cast<cudaStream_t>(queue.stream)));
    return ExecuteDnnPlan(handle, choice_->plan, tensors, scratch);
  }

 private:
  CudaServices& services_;
  const std::shared_ptr<const ConvolutionChoice> choice_;
};

// Everything that tells one convolution from another.
std::string KeyOf(const ConvShape& shape) {
  constexpr const char* kParts[] = {"forward", "input gradient", "filter gradient"};
  const char* const layout = shape.channels_first ? ", channels first" : ", channels last";
  std::string key = absl::StrCat(kParts[static_cast<int>(shape.part)], layout, ", type ", static_cast<int>(shape.type), ", batch ",
                                 shape.batch, ", ", shape.in_channels, " to ", shape.out_channels, " channels in ",
                                 shape.groups, " groups");
  const std::pair<const char*, const ConvShape::Sizes*> all[] = {{", in", &shape.in},         {", out", &shape.out},
                                                                 {", window", &shape.kernel}, {", stride", &shape.stride},
                                                                 {", dilation", &shape.dilation}, {", padding", &shape.pad},
                                                                 {", behind", &shape.pad_after}};
  for (const auto& [name, sizes] : all) {
    absl::StrAppend(&key, name);
    for (int i = 0; i < shape.spatial; ++i) absl::StrAppend(&key, " ", (*sizes)[i]);
  }
  if (shape.epilogue != Epilogue::kNone) {
    absl::StrAppend(&key, ", with a bias", shape.side ? ", a sum" : "", shape.epilogue == Epilogue::kBiasRelu ? " and Relu" : "");
  }
  return shape.algorithm.empty() ? key : absl::StrCat(key, ", as ", shape.algorithm);
}

}  // namespace

absl::StatusOr<ConvolutionChoice> CudaServices::ChooseFor(const ConvShape& shape, const DnnTarget& target) const {
  const DnnLimits limits{.tf32 = choices_.tf32};
  ConvolutionChoice choice;
  if (!shape.algorithm.empty()) {
    MR_ASSIGN_OR_RETURN(choice.plan, NamedDnnPlan(shape, limits, target, shape.algorithm));
    return choice;
  }
  MR_ASSIGN_OR_RETURN(std::vector<DnnPlan> plans, RankDnnPlans(shape, limits, target));
  MR_ASSIGN_OR_RETURN(const DnnTrial trial, TryDnnPlans(plans, shape, choices_.measure_convolutions,
                                                        {planning_dnn_, planning_stream_, *watch_, trial_memory_}, device_));
  choice.plan = std::move(plans[trial.best]);
  LOG_IF(WARNING, !trial.tried)
      << device_ << ": convolution " << KeyOf(shape) << " is computed by " << choice.plan.name << ", untried: a trial takes "
      << trial.needed_bytes << " bytes, and " << trial.free_bytes
      << (trial_memory_.limited ? " of the budget are free for it" : " are free");
  choice.seconds = trial.seconds;
  return choice;
}

absl::StatusOr<ConvolutionChoice> CudaServices::Choose(const ConvShape& shape) const {
  absl::StatusOr<ConvolutionChoice> choice = ChooseFor(shape, {.handle = planning_dnn_});
  if (choice.ok() || absl::IsUnavailable(choice.status()) || dnn_device_.get() == nullptr) return choice;
  absl::StatusOr<ConvolutionChoice> described = ChooseFor(shape, {.device = &dnn_device_});
  VLOG_IF(1, described.ok()) << device_ << ": for the device as described, since by its handle: " << choice.status();
  return described.ok() || absl::IsUnavailable(described.status()) ? std::move(described) : std::move(choice);
}

absl::StatusOr<std::unique_ptr<Convolution>> CudaServices::PlanConvolution(const ConvShape& shape) {
  MR_RETURN_IF_ERROR(Use());
  std::lock_guard<std::mutex> lock(planning_mutex_);
  const std::string key = KeyOf(shape);
  auto known = convolutions_.find(key);
  if (known == convolutions_.end()) {
    absl::StatusOr<ConvolutionChoice> choice = Choose(shape);
    // A lost device says nothing about the convolution.
    if (absl::IsUnavailable(choice.status())) return choice.status();
    // Whatever cuDNN has against it, there are other ways to compute it; but a plan that names one means that one.
    if (!choice.ok() && !shape.algorithm.empty()) return choice.status();
    std::shared_ptr<const ConvolutionChoice> kept;
    if (choice.ok()) {
      kept = std::make_shared<const ConvolutionChoice>(*std::move(choice));
      VLOG(1) << device_ << ": convolution " << key << " by " << kept->plan.name << ", " << kept->plan.scratch_bytes
              << " bytes of scratch, " << kept->seconds << " s";
    } else {
      VLOG(1) << device_ << ": convolution " << key << ": " << choice.status();
      // Not for want of an engine, but a library that is missing, or does not go with the others: said once for each reason.
      LOG_IF(WARNING, !absl::IsUnimplemented(choice.status()) && dnn_errors_.insert(choice.status().ToString()).second)
          << device_ << ": slower kernels take the place of cuDNN's convolutions: " << choice.status();
    }
    known = convolutions_.emplace(key, std::move(kept)).first;
  }
  if (known->second == nullptr) return absl::UnimplementedError("cuDNN has no plan for this convolution");
  return std::make_unique<DnnConvolution>(*this, known->second);
}

}  // namespace millrace::cuda
