// Kernels of which several may be one launch: updates of variables that follow one another in a lane.
#ifndef MILLRACE_RUNTIME_STREAM_GROUPED_KERNEL_H_
#define MILLRACE_RUNTIME_STREAM_GROUPED_KERNEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"

namespace millrace {

class GroupedKernel;

struct GroupMember {
  const GroupedKernel* kernel = nullptr;
  KernelContext context;
};

class GroupedKernel : public Kernel {
 public:
  // Kernels of one driver with equal numbers go together.
  virtual int64_t group() const = 0;
  // Inputs [0, written_inputs()) are variables that it writes; it writes nothing else.
  virtual int written_inputs() const = 0;
  // Does what Run does for every member, with the same bits. No member reads or writes what another one writes.
  virtual absl::Status RunTogether(absl::Span<const GroupMember> members) const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_GROUPED_KERNEL_H_
