// Whether this CPU has the instructions that the kernels were compiled for (MILLRACE_ARCH): without them the first kernel would end the
// process with SIGILL. Nothing here is compiled for them.
#ifndef MILLRACE_SRC_SESSION_CPU_CHECK_H_
#define MILLRACE_SRC_SESSION_CPU_CHECK_H_

#include <string_view>

#include "absl/status/status.h"

namespace millrace {

// Names as __builtin_cpu_supports has them, ended by nullptr: what the compiler may use with the kernels' flags.
extern const char* const kBuiltFor[];

bool CpuHas(std::string_view feature);

// FailedPrecondition names what is missing and how to build without it.
absl::Status CheckCpu(const char* const* built_for = kBuiltFor, bool (*has)(std::string_view feature) = CpuHas);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_CPU_CHECK_H_
