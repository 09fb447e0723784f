// A session's runtime on a device that is a driver on threads.
#ifndef MILLRACE_TESTS_STREAM_STREAM_FIXTURE_H_
#define MILLRACE_TESTS_STREAM_STREAM_FIXTURE_H_

#include <memory>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "stream/emulated_driver.h"
#include "stream/stream_device.h"
#include "testlib/executor_fixture.h"
#include "testlib/random_plan.h"

namespace millrace::testing {

inline std::unique_ptr<StreamDevice> EmulatedDevice(const EmulatedOptions& options,
                                                    GraphCapture capture = GraphCapture::kOff) {
  auto driver = MakeEmulatedDriver(SharedTestKernels(), options);
  CHECK(driver.ok()) << driver.status();
  return MakeStreamDevice("emulated", 0, *std::move(driver), capture);
}

// Its host memory is page-locked while the device is there.
struct StreamRuntime : Runtime {
  explicit StreamRuntime(const EmulatedOptions& options, GraphCapture capture = GraphCapture::kOff, int threads = 1)
      : Runtime(MakeTbbTaskRunner(threads), EmulatedDevice(options, capture)) {
    host.set_listener(device->host_memory_listener());
  }
  ~StreamRuntime() { host.set_listener(nullptr); }
  StreamDevice& stream_device() { return static_cast<StreamDevice&>(*device); }
};

inline std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.as<float>();
  return {span.begin(), span.end()};
}

inline void ZeroVariables(const ExecutionPlan& plan, VariableStore& store) {
  for (const PlanVariable& variable : plan.variables) {
    CHECK(store.Set(variable.name, Tensor(variable.type.dtype, variable.type.shape)).ok());
  }
}

inline RandomPlanOptions PlanOptionsFor(uint64_t seed) {
  RandomPlanOptions options;
  options.seed = seed;
  options.nodes = 20 + static_cast<int>(seed % 5) * 25;
  options.slots = 4 + static_cast<int>(seed % 4) * 3;
  options.variables = static_cast<int>(seed % 3) * 2;
  options.elements = 1 + static_cast<int64_t>(seed % 7) * 9;
  return options;
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_STREAM_STREAM_FIXTURE_H_
