// A kernel that runs others one after another over one result: the first writes it, each other one goes over it in place.
#ifndef MILLRACE_SRC_GRAPH_STAGED_KERNEL_H_
#define MILLRACE_SRC_GRAPH_STAGED_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "millrace/kernel.h"
#include "millrace/status.h"

namespace millrace {

class StagedKernel final : public Kernel {
 public:
  static constexpr int kResult = -1;
  struct Stage {
    OpInstance node;
    std::vector<int> operands;  // of the whole node's inputs; kResult is what the stage before left
    std::unique_ptr<Kernel> kernel;
  };

  // What the first stage chose is the choice of all.
  explicit StagedKernel(std::vector<Stage> stages, std::string choice_prefix = "")
      : stages_(std::move(stages)), choice_prefix_(std::move(choice_prefix)) {}

  int64_t scratch_bytes() const override {
    int64_t most = 0;
    for (const Stage& stage : stages_) most = std::max(most, stage.kernel->scratch_bytes());
    return most;
  }
  std::string choice() const override {
    const std::string first = stages_.front().kernel->choice();
    return first.empty() ? "" : choice_prefix_ + first;
  }
  absl::Status Run(const KernelContext& context) const override {
    for (const Stage& stage : stages_) {
      absl::InlinedVector<void*, 4> operands;
      for (int operand : stage.operands) operands.push_back(operand == kResult ? context.outputs[0] : context.inputs[operand]);
      KernelContext part = context;
      part.instance = &stage.node;
      part.inputs = operands.data();
      MR_RETURN_IF_ERROR(stage.kernel->Run(part));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Stage> stages_;
  const std::string choice_prefix_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_STAGED_KERNEL_H_
