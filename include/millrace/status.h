// Errors are values. Their codes:
//   InvalidArgument     the input is wrong; OutOfRange: an index in it
//   NotFound            a name; AlreadyExists: a name that is taken
//   Unimplemented       an op or dtype that is not covered
//   FailedPrecondition  an uninitialised variable, a step that a given plan is not for
//   ResourceExhausted   does not fit the budget
//   Cancelled           interrupted
//   Unavailable         a device that is lost or does not answer
//   DataLoss            a copy on disk that is not what was written
//   PermissionDenied    and others that the system gave for a file
//   Internal            our bug
//
// A ResourceExhausted of planning says in its payload kNeededBytesPayload, in decimal, how many bytes would do: a working set, which no plan
// can go below, or what the best plan found would take. It is absent where that is not known.
#ifndef MILLRACE_STATUS_H_
#define MILLRACE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

inline constexpr char kNeededBytesPayload[] = "millrace/needed_bytes";

}  // namespace millrace

#define MILLRACE_CONCAT_IMPL_(a, b) a##b
#define MILLRACE_CONCAT_(a, b) MILLRACE_CONCAT_IMPL_(a, b)

// Returns from the function when `expression` is an error.
#define MR_RETURN_IF_ERROR(expression)               \
  do {                                               \
    absl::Status mr_status_ = (expression);          \
    if (!mr_status_.ok()) return mr_status_;         \
  } while (false)

// MR_ASSIGN_OR_RETURN(auto x, F()): x = the value of F(), or returns its error.
#define MR_ASSIGN_OR_RETURN(declaration, expression) \
  MR_ASSIGN_OR_RETURN_IMPL_(MILLRACE_CONCAT_(mr_or_, __LINE__), declaration, expression)
#define MR_ASSIGN_OR_RETURN_IMPL_(or_value, declaration, expression) \
  auto or_value = (expression);                                      \
  if (!or_value.ok()) return or_value.status();                      \
  declaration = std::move(or_value).value()

#endif  // MILLRACE_STATUS_H_
