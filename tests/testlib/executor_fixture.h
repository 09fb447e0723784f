// What a session owns, for tests of the runtime.
#ifndef MILLRACE_TESTS_TESTLIB_EXECUTOR_FIXTURE_H_
#define MILLRACE_TESTS_TESTLIB_EXECUTOR_FIXTURE_H_

#include <memory>
#include <utility>

#include "cpu/cpu_device.h"
#include "runtime/executor.h"
#include "testlib/test_kernels.h"

namespace millrace::testing {

struct Runtime {
  explicit Runtime(int threads = 1, int64_t host_limit = 0) : Runtime(MakeTbbTaskRunner(threads), nullptr, host_limit) {}
  Runtime(std::unique_ptr<TaskRunner> task_runner, std::unique_ptr<RuntimeDevice> a_device, int64_t host_limit = 0)
      : kernel_registry(SharedTestKernels()),
        runner(std::move(task_runner)),
        device(a_device != nullptr ? std::move(a_device) : cpu::MakeCpuDevice(0, kernel_registry)),
        kernels(device->kernels()),
        host(host_limit),
        variables(&host) {}

  // The shape rule of ops with dynamic shapes.
  static absl::Status OutputsLikeFirstInput(OpInstance& instance) {
    for (TensorType& output : instance.outputs) output.shape = instance.inputs[0].shape;
    return absl::OkStatus();
  }
  RuntimeContext context() {
    return {.devices = {device.get()},
            .runner = runner.get(),
            .kernels = &kernels,
            .host = &host,
            .variables = &variables,
            .infer_shapes = OutputsLikeFirstInput};
  }
  absl::StatusOr<std::unique_ptr<Executor>> Make(ExecutionPlan plan, const ExecutorOptions& options = {}) {
    return Executor::Create(std::make_shared<ExecutionPlan>(std::move(plan)), context(), options);
  }

  std::shared_ptr<const KernelRegistry> kernel_registry;
  std::unique_ptr<TaskRunner> runner;
  std::unique_ptr<RuntimeDevice> device;
  KernelCache kernels;
  HostMemory host;
  VariableStore variables;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_EXECUTOR_FIXTURE_H_
