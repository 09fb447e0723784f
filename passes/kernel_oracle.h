// What the passes ask of a device without knowing it: scratch sizes, and values of constant nodes.
#ifndef MILLRACE_PASSES_KERNEL_ORACLE_H_
#define MILLRACE_PASSES_KERNEL_ORACLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

class KernelOracle {
 public:
  virtual ~KernelOracle() = default;
  // Scratch that the device's kernel of this node takes. Unimplemented when the device has no such kernel.
  virtual absl::StatusOr<int64_t> ScratchBytes(const OpInstance& instance) = 0;
  // Seconds that the node took when it was measured; nullopt: its cost rule has to do.
  virtual std::optional<double> MeasuredSeconds(const OpInstance&) { return std::nullopt; }
  // Whether what it says of two nodes may differ though they differ in name alone, as measured times do.
  virtual bool GoesByName() const { return true; }
  // Outputs of a stateless node on known inputs, computed on the host.
  virtual absl::StatusOr<std::vector<Tensor>> Evaluate(const OpDef& def, const OpInstance& instance,
                                                       std::vector<Tensor> inputs) = 0;
  // Cancelled when planning is to end: asked whenever a new order is looked at.
  virtual absl::Status MayGoOn() { return absl::OkStatus(); }
  // Whether the device of this index has a kernel of the op.
  virtual bool Supports(const std::string& op, int32_t device) {
    static_cast<void>(op);
    static_cast<void>(device);
    return true;
  }
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_KERNEL_ORACLE_H_
