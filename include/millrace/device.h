// A device as an embedding program sees it: its name, its memory, and the kernels it runs.
#ifndef MILLRACE_DEVICE_H_
#define MILLRACE_DEVICE_H_

#include <cstdint>
#include <string>

#include "millrace/kernel.h"

namespace millrace {

class Device {
 public:
  virtual ~Device() = default;
  // "cpu:0"; the part before the colon is the kind of device.
  virtual const std::string& name() const = 0;
  // Memory that the device has; 0 when nothing but the host's memory limits it.
  virtual int64_t memory_bytes() const = 0;
  // What it runs; a node of another op cannot be placed here.
  virtual const KernelRegistry& kernels() const = 0;
  // False: the device has a clock and a capacity but no data (plans and simulates only).
  virtual bool has_data() const = 0;
};

// The built-in kernels of the CPU device; copy them to add kernels of one's own.
const KernelRegistry& CpuKernels();

}  // namespace millrace

#endif  // MILLRACE_DEVICE_H_
