#include "cuda/kernels/services.h"

#include "absl/strings/str_cat.h"
#include "stream/driver_errors.h"

namespace millrace::cuda {

absl::Status FaultStatus(const Fault& fault) {
  switch (fault.code) {
    case FaultCode::kNone: return absl::OkStatus();
    case FaultCode::kOnHost: break;
    case FaultCode::kElsewhere: return FailedElsewhere();
    case FaultCode::kIndexOutOfRange:
      return absl::InvalidArgumentError(
          absl::StrCat("input ", fault.detail, ": ", fault.value, " is not in [0, ", fault.limit, ")"));
    case FaultCode::kNotFinite:
      return absl::InvalidArgumentError(absl::StrCat("tensor had ", fault.detail == 0 ? "Inf" : "NaN", " values"));
    case FaultCode::kDivisionByZero: return absl::InvalidArgumentError("Integer division by zero");
    case FaultCode::kBadLabel:
      return absl::InvalidArgumentError(absl::StrCat("label ", fault.value, " is not in [0, ", fault.limit, ")"));
  }
  return absl::InternalError("a kernel reported a fault of an unknown kind");
}

}  // namespace millrace::cuda
