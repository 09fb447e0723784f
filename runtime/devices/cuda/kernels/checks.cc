// Checks of values, which pass what they check on.
#include "cuda/launch/check.h"

#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckNumerics(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const int64_t n = instance.inputs[0].shape.num_elements();
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCheckNumerics(queue, type, context.inputs[0], context.outputs[0], n, context.scratch);
      },
      kCheckNumericsScratchBytes);
}

// (condition, data ...)
absl::StatusOr<std::unique_ptr<Kernel>> MakeAssert(DeviceServices& services, const OpInstance& instance) {
  if (ValueOf(instance, 0) != nullptr) return Refused(instance, "a condition that is on the host");
  struct Shown {
    int input, bytes;
    int64_t offset;
  };
  std::vector<Shown> elements;
  for (const auto& [input, count] : ShownInputs(instance)) {
    if (count > kMostInTuple) return Refused(instance, "so many elements to show");
    const int bytes = static_cast<int>(DataTypeSize(instance.inputs[input].dtype));
    if (bytes > static_cast<int>(sizeof(int64_t))) return Refused(instance, "elements of this size");
    for (int64_t k = 0; k < count; ++k) elements.push_back({input, bytes, k * bytes});
  }
  if (elements.size() > kMostInTuple) return Refused(instance, "so many elements to show");
  return MakeLaunch(services, [elements = std::move(elements)](const Queue& queue, const KernelContext& context) {
    ShownElement shown[kMostInTuple];
    int count = 0;
    for (const auto& [input, bytes, offset] : elements) shown[count++] = {context.input<char>(input) + offset, bytes};
    LaunchAssert(queue, context.input<bool>(0), shown, count);
  });
}

}  // namespace

void RegisterChecks(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"CheckNumerics", "CheckNumericsV2"}) Add(registry, services, op, MakeCheckNumerics);
  Add(registry, services, "Assert", MakeAssert);
}

}  // namespace millrace::cuda
