// Millrace's own errors are statuses. Code of an embedding program (kernels, their factories, shape rules) may throw all
// the same, and lanes that wait for each other would then wait for ever.
#ifndef MILLRACE_SRC_GRAPH_EXCEPTIONS_H_
#define MILLRACE_SRC_GRAPH_EXCEPTIONS_H_

#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

// What `call` returns, a Status or a StatusOr; where it throws, Internal with the exception's words, ResourceExhausted for memory that no
// machine has, whether it was asked for (bad_alloc) or is more than can be (length_error).
template <typename Call>
std::invoke_result_t<Call> WithoutExceptions(Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("there is no memory for it");
  } catch (const std::length_error&) {
    return absl::ResourceExhaustedError("there is no memory for it");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("threw an exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("threw something that is no std::exception");
  }
}

// The same of a kernel's Run, which the plan gives its memory: a length_error is a mistake like others.
template <typename Call>
absl::Status WithoutKernelExceptions(Call&& call) {
  return WithoutExceptions([&]() -> absl::Status {
    try {
      return call();
    } catch (const std::length_error& error) {
      return absl::InternalError(absl::StrCat("threw an exception: ", error.what()));
    }
  });
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_EXCEPTIONS_H_
