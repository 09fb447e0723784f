#include "testlib/test_kernels.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <glog/logging.h>

namespace millrace::testing {
namespace {

using Body = absl::Status (*)(const KernelContext&);

class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(Body body) : body_(body) {}
  absl::Status Run(const KernelContext& context) const override { return body_(context); }

 private:
  const Body body_;
};

absl::Status Mix(const KernelContext& context) {
  const OpInstance& instance = *context.instance;
  for (size_t o = 0; o < instance.outputs.size(); ++o) {
    float* out = context.output<float>(o);
    for (int64_t k = 0; k < instance.outputs[o].shape.num_elements(); ++k) {
      float sum = static_cast<float>(o + 1);
      for (size_t i = 0; i < instance.inputs.size(); ++i) {
        if (k < instance.inputs[i].shape.num_elements()) {
          sum += static_cast<float>(i + 1) * context.input<float>(i)[k] / 2;
        }
      }
      out[k] = sum;
    }
  }
  return absl::OkStatus();
}

absl::Status FailIfNegative(const KernelContext& context) {
  if (context.input<float>(0)[0] < 0) return absl::InvalidArgumentError("input 0 starts with a negative element");
  return Mix(context);
}

absl::Status ThrowIfNegative(const KernelContext& context) {
  if (context.input<float>(0)[0] < 0) throw std::runtime_error("boom");
  return Mix(context);
}

absl::Status AddTo(const KernelContext& context) {
  float* variable = context.variable<float>(0);
  for (int64_t k = 0; k < context.input_type(0).shape.num_elements(); ++k) variable[k] += context.input<float>(1)[k];
  return absl::OkStatus();
}

absl::Status Assign(const KernelContext& context) {
  std::memcpy(context.variable<float>(0), context.inputs[1], context.input_type(1).size_bytes());
  return absl::OkStatus();
}

absl::Status Count(const KernelContext& context) {
  const int64_t runs = ++*static_cast<int64_t*>(context.state);
  context.output<float>(0)[0] = static_cast<float>(runs);
  return absl::OkStatus();
}

absl::Status IsSet(const KernelContext& context) {
  context.output<float>(0)[0] = *context.initialized[0] ? 1 : 0;
  return absl::OkStatus();
}

absl::Status HalfOf(const KernelContext& context) {
  const int64_t half = context.input_type(0).shape.num_elements() / 2;
  std::memcpy(context.outputs[0], context.inputs[0], half * sizeof(float));
  if (context.output_shapes != nullptr) context.output_shapes[0] = Shape({half});
  return absl::OkStatus();
}

absl::Status Nothing(const KernelContext&) { return absl::OkStatus(); }

}  // namespace

KernelRegistry TestKernels() {
  KernelRegistry registry;
  const std::pair<const char*, Body> kernels[] = {{"Mix", Mix},       {"FailIfNegative", FailIfNegative},
                                                  {"ThrowIfNegative", ThrowIfNegative},
                                                  {"AddTo", AddTo},   {"Assign", Assign},
                                                  {"Count", Count},   {"IsSet", IsSet},
                                                  {"HalfOf", HalfOf}, {"Nothing", Nothing}};
  for (const auto& [name, body] : kernels) {
    CHECK(registry
              .Register(name,
                        [body = body](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                          return std::make_unique<FunctionKernel>(body);
                        })
              .ok());
  }
  return registry;
}

std::shared_ptr<const KernelRegistry> SharedTestKernels() { return std::make_shared<KernelRegistry>(TestKernels()); }

}  // namespace millrace::testing
