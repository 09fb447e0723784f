// What kernels of a step, on all its devices, have reported.
#ifndef MILLRACE_RUNTIME_STREAM_STEP_FAULTS_H_
#define MILLRACE_RUNTIME_STREAM_STEP_FAULTS_H_

#include <map>

#include "absl/status/statusor.h"
#include "stream/device_driver.h"
#include "stream/variable_marks.h"

namespace millrace {

// By driver: a kernel that fails stops those behind it on its device, and on others those that follow from it.
class StepFaults {
 public:
  // Takes the driver's, once, by any of its streams. All streams are idle.
  absl::Status Take(DeviceDriver& driver, DeviceStream stream, DeviceDriver::NodeAt node_at);
  bool empty() const { return faults_.empty(); }
  VariableMarks::Stop StopOf(const DeviceDriver* driver) const;

  struct First {
    const DeviceDriver* driver;
    KernelFault fault;
  };
  // What the others come from: lowest in the plan, of kernels that failed themselves. Not of none.
  First first() const;

 private:
  std::map<const DeviceDriver*, KernelFault> faults_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_STEP_FAULTS_H_
