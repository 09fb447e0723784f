#include "cpu/kernels/widened.h"

#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

bool IsNarrow(DataType dtype) { return dtype == DataType::kHalf || dtype == DataType::kBfloat16; }

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const OpInstance& wide, DataType narrow, std::unique_ptr<Kernel> kernel)
      : wide_(wide), to_float_(WideningOf(narrow)), kernel_(std::move(kernel)), scratch_(AlignUp(kernel_->scratch_bytes())) {}

  // Marks an input or output as one that is converted, and makes room for it.
  void Convert(bool output, int index) {
    (output ? outputs_ : inputs_).push_back({index, scratch_});
    scratch_ += AlignUp((output ? wide_.outputs : wide_.inputs)[index].size_bytes());
  }

  int64_t scratch_bytes() const override { return scratch_; }

  absl::Status Run(const KernelContext& context) const override {
    std::vector<void*> inputs(context.inputs, context.inputs + wide_.inputs.size());
    std::vector<void*> outputs(context.outputs, context.outputs + wide_.outputs.size());
    const auto at = [&](const Place& place) { return static_cast<char*>(context.scratch) + place.offset; };
    for (const Place& place : inputs_) {
      to_float_.load(context.inputs[place.index], at(place), wide_.inputs[place.index].shape.num_elements());
      inputs[place.index] = at(place);
    }
    for (const Place& place : outputs_) outputs[place.index] = at(place);
    KernelContext wide = context;
    wide.instance = &wide_;
    OpInstance node;
    if (context.state != nullptr) {
      // A kernel may be of several nodes, whose streams of random numbers go by their names.
      node = wide_;
      node.name = context.instance->name;
      wide.instance = &node;
    }
    wide.inputs = inputs.data();
    wide.outputs = outputs.data();
    MR_RETURN_IF_ERROR(kernel_->Run(wide));
    for (const Place& place : outputs_) {
      to_float_.store(at(place), context.outputs[place.index], wide_.outputs[place.index].shape.num_elements());
    }
    return absl::OkStatus();
  }

 private:
  struct Place {
    int index;
    int64_t offset;  // in scratch, behind the kernel's own
  };
  OpInstance wide_;
  Widening to_float_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Place> inputs_, outputs_;
  int64_t scratch_;
};

}  // namespace

KernelFactory Widened(KernelFactory factory) {
  return [factory = std::move(factory)](const OpInstance& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const DataType narrow = node.outputs[0].dtype;
    if (!IsNarrow(narrow)) return factory(node);
    OpInstance wide = node;
    for (TensorType& type : wide.inputs) type.dtype = type.dtype == narrow ? DataType::kFloat : type.dtype;
    for (TensorType& type : wide.outputs) type.dtype = type.dtype == narrow ? DataType::kFloat : type.dtype;
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(wide));
    auto widened = std::make_unique<WidenedKernel>(wide, narrow, std::move(kernel));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].dtype == narrow) widened->Convert(false, static_cast<int>(i));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].dtype == narrow) widened->Convert(true, static_cast<int>(i));
    }
    return widened;
  };
}

}  // namespace millrace::cpu
