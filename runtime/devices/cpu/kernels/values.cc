#include "cpu/kernels/values.h"

namespace millrace::cpu {

absl::StatusOr<Ints> ValueReader::ints(int input) const {
  const TensorType& type = instance_.inputs[input];
  const int64_t count = type.shape.num_elements();
  Ints values(count);
  const void* bytes = data(input);
  if (type.dtype == DataType::kInt32) {
    std::copy_n(static_cast<const int32_t*>(bytes), count, values.begin());
  } else if (type.dtype == DataType::kInt64) {
    std::copy_n(static_cast<const int64_t*>(bytes), count, values.begin());
  } else if (type.dtype == DataType::kInt16) {
    std::copy_n(static_cast<const int16_t*>(bytes), count, values.begin());
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input, " is ", type.ToString(), ", expected int16, int32 or int64"));
  }
  return values;
}

absl::StatusOr<int64_t> ValueReader::scalar(int input) const {
  MR_ASSIGN_OR_RETURN(const Ints values, ints(input));
  if (values.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input, " is ", instance_.inputs[input].ToString(), ", expected one element"));
  }
  return values[0];
}

KernelFactory ForAnyType(KernelFactory factory) {
  return [factory = std::move(factory)](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    if (!instance.outputs.empty() && instance.outputs[0].dtype == DataType::kString) {
      return MakeKernel([](const KernelContext&) { return absl::OkStatus(); });
    }
    return factory(instance);
  };
}

absl::StatusOr<int> ResolveAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is out of range, expected [", -rank, ", ", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::Status ExpectPlannedShape(const Shape& planned, const Shape& found) {
  if (planned == found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the output has shape ", found.ToString(), " at run time, planned was ", planned.ToString()));
}

}  // namespace millrace::cpu
