// A node whose shapes are known only when it runs. The plan gives it memory for the largest ones; each run infers the
// real ones from its inputs', and takes a kernel made for them. Kernels of the latest shapes are kept, so that shapes
// that come again cost a comparison.
//
// One thread at a time runs a node; what one node stores of a tensor's shape, nodes that wait for it may read.
#ifndef MILLRACE_RUNTIME_DYNAMIC_OP_H_
#define MILLRACE_RUNTIME_DYNAMIC_OP_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/kernel.h"
#include "millrace/plan.h"
#include "runtime/kernel_cache.h"
#include "runtime/runtime_device.h"

namespace millrace {

// Runs the shape rule of instance.op: fills in `outputs` from inputs, attributes and input_values.
using ShapeFunction = std::function<absl::Status(OpInstance& instance)>;

class DynamicOp {
 public:
  // Shapes for which kernels are kept, per node.
  static constexpr size_t kKeptShapes = 8;

  // `planned` has the bounds. All outlive the op.
  DynamicOp(const OpInstance& planned, const ComputeStep& step, const ShapeFunction& infer, const KernelCache& kernels,
            int32_t device_index, RuntimeDevice& device)
      : planned_(planned), step_(step), infer_(infer), kernels_(kernels), device_index_(device_index), device_(device) {}

  // Runs a kernel and returns when it is done.
  using Launch = absl::FunctionRef<absl::Status(const Kernel& kernel, const KernelContext& context)>;

  // `context` has the addresses of inputs that have been computed; `shapes` are those of plan.dynamic_tensors in this
  // step. Errors: the shape rule's, the kernel's, and ResourceExhausted when an output or the scratch is larger than
  // planned; the caller adds the node.
  absl::Status Run(const KernelContext& context, std::vector<Shape>& shapes, Launch launch);
  // As it ran last; as planned where it has not run.
  const OpInstance& instance() const { return made_.empty() ? planned_ : made_.front()->instance; }

 private:
  struct Instanced {
    OpInstance instance;
    std::shared_ptr<const Kernel> kernel;  // nullptr for a view
  };

  absl::Status Add(std::vector<Tensor> values, const std::vector<Shape>& shapes);
  bool Fits(const Instanced& made, const std::vector<Tensor>& values, const std::vector<Shape>& shapes) const;
  const Shape& InputShape(size_t i, const std::vector<Shape>& shapes) const {
    return step_.input_shapes[i] < 0 ? planned_.inputs[i].shape : shapes[step_.input_shapes[i]];
  }
  absl::Status CheckOutputs(const std::vector<TensorType>& outputs) const;

  const OpInstance& planned_;
  const ComputeStep& step_;
  const ShapeFunction& infer_;
  const KernelCache& kernels_;
  const int32_t device_index_;
  RuntimeDevice& device_;
  std::vector<std::unique_ptr<Instanced>> made_;  // the latest first
  std::vector<Shape> output_shapes_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DYNAMIC_OP_H_
