// Runs conformance cases on a device. A device's test makes a TestDevice and calls CheckCase for every case.
#ifndef MILLRACE_TESTS_CONFORMANCE_HARNESS_H_
#define MILLRACE_TESTS_CONFORMANCE_HARNESS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "conformance/case.h"
#include "millrace/kernel.h"
#include "millrace/op.h"

namespace millrace::conformance {

// Memory, queue and kernels of the device under test. Used by one thread.
class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual const KernelRegistry& kernels() const = 0;
  // Aligned to kTensorAlignment.
  virtual void* Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual void CopyToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, int64_t bytes) = 0;
  virtual void* stream() { return nullptr; }
  // Waits for the kernels of `node` that were started.
  virtual absl::Status Synchronize(const OpInstance& node) {
    static_cast<void>(node);
    return absl::OkStatus();
  }
  // Results must be the same bits under each of these, the first one serial.
  virtual std::vector<std::pair<std::string, ParallelRunner*>> runners() = 0;
  // Units in the last place that results may be off where the case demands equal floats: a device's own functions
  // (exp, sin) round otherwise than the host's.
  virtual double ulps() const { return 0; }
  // How far its results of `test` may be off beside what the case allows, whatever their size.
  virtual double slack(const Case& test) const {
    static_cast<void>(test);
    return 0;
  }
  // Whether the kernels' memory is the host's, so that EvaluateOp works with them.
  virtual bool is_host() const = 0;
};

// Memory of the host, shards in order, in reverse order, and on four threads.
std::unique_ptr<TestDevice> MakeHostDevice(const KernelRegistry& kernels);

// Checks everything that the case says and that every op promises:
//  - the shape rule gives the outputs' types, without the values of inputs where it can, and with them;
//  - the kernel gives the expected values from either, never reads by-value inputs from memory, depends neither on
//    what was in its outputs and scratch before nor on the order of its shards, writes nothing beyond its outputs,
//    scratch and variables;
//  - the declared in-place pairs give the same bits;
//  - EvaluateOp agrees;
//  - where an error is expected, there is one and it says so.
absl::Status CheckCase(const Case& test, const OpRegistry& ops, TestDevice& device);

}  // namespace millrace::conformance

#endif  // MILLRACE_TESTS_CONFORMANCE_HARNESS_H_
