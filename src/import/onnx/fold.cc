#include "onnx/fold.h"

#include "millrace/device.h"
#include "runtime/op_evaluator.h"

namespace millrace::onnx {

GraphBuilder::Evaluate HostEvaluator() {
  return [](const OpDef& def, const OpInstance& instance, std::vector<Tensor> inputs) {
    return EvaluateOp(def, CpuKernels(), instance, std::move(inputs));
  };
}

}  // namespace millrace::onnx
