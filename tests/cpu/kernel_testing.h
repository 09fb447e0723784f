// Runs one node on tensors, on several thread counts.
#ifndef MILLRACE_TESTS_CPU_KERNEL_TESTING_H_
#define MILLRACE_TESTS_CPU_KERNEL_TESTING_H_

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include "cpu/kernels/register.h"
#include "millrace/status.h"
#include "runtime/op_evaluator.h"

namespace millrace::cpu {

// Takes the shards in reverse order on one thread, or on `threads` threads, whichever comes first.
class ThreadsRunner final : public ParallelRunner {
 public:
  explicit ThreadsRunner(int threads) : threads_(threads) {}
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    if (threads_ == 1) {
      for (int64_t i = shards - 1; i >= 0; --i) fn(i);
      return;
    }
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_; ++t) {
      threads.emplace_back([&] {
        for (int64_t i = next++; i < shards; i = next++) fn(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int threads_;
};

inline const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry;
    RegisterCpuKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

struct NodeRun {
  std::string op;
  AttrMap attrs;
  std::vector<Tensor> inputs;
  std::vector<bool> known = {};  // inputs known when planning; none by default
};

inline absl::StatusOr<OpInstance> Infer(const NodeRun& run) {
  const OpDef* def = OpRegistry::Builtin().Find(run.op);
  if (def == nullptr) return absl::NotFoundError(run.op);
  OpInstance instance{.name = "node", .op = run.op, .attrs = run.attrs};
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    instance.inputs.push_back(run.inputs[i].type());
    instance.input_values.push_back(i < run.known.size() && run.known[i] ? run.inputs[i] : Tensor());
  }
  MR_RETURN_IF_ERROR(InferOutputs(*def, instance));
  return instance;
}

inline absl::StatusOr<std::vector<Tensor>> Evaluate(const NodeRun& run, ParallelRunner* parallel = nullptr,
                                                    const KernelRegistry& kernels = CpuKernels()) {
  MR_ASSIGN_OR_RETURN(const OpInstance instance, Infer(run));
  return EvaluateOp(*OpRegistry::Builtin().Find(run.op), kernels, instance, run.inputs, parallel);
}

// Output 0. All outputs must have the same bits however the shards are run.
inline Tensor EvaluateOnThreads(const NodeRun& run, const KernelRegistry& kernels = CpuKernels()) {
  const auto serial = Evaluate(run, nullptr, kernels);
  if (!serial.ok()) {
    ADD_FAILURE() << serial.status();
    return Tensor();
  }
  for (int threads : {1, 2, 4}) {
    ThreadsRunner runner(threads);
    const auto parallel = Evaluate(run, &runner, kernels);
    for (size_t k = 0; k < serial->size(); ++k) {
      EXPECT_TRUE(parallel.ok() && (*parallel)[k].BitEqual((*serial)[k])) << threads << " threads, output " << k;
    }
  }
  return (*serial)[0];
}

// Small numbers with fractions, the same for the same seed.
inline Tensor TestValues(DataType dtype, const Shape& shape, uint32_t seed) {
  Tensor values(DataType::kFloat, shape);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values.mutable_as<float>()) {
    state = state * 1664525u + 1013904223u;
    const int integer = static_cast<int>(state >> 24) - 128;
    value = IsInteger(dtype) ? static_cast<float>(integer % 8) : static_cast<float>(integer) / 64.0f;
  }
  if (dtype == DataType::kFloat) return values;
  Tensor converted(dtype, shape);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const float value = values.as<float>()[i];
    if (dtype == DataType::kDouble) converted.mutable_as<double>()[i] = value;
    if (dtype == DataType::kInt32) converted.mutable_as<int32_t>()[i] = static_cast<int32_t>(value);
    if (dtype == DataType::kInt64) converted.mutable_as<int64_t>()[i] = static_cast<int64_t>(value);
    if (dtype == DataType::kHalf) static_cast<Eigen::half*>(converted.mutable_data())[i] = Eigen::half(value);
    if (dtype == DataType::kBfloat16) static_cast<Eigen::bfloat16*>(converted.mutable_data())[i] = Eigen::bfloat16(value);
  }
  return converted;
}

// Elements agree to `tolerance` times the scale of the expected values.
inline void ExpectClose(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.num_elements(), static_cast<int64_t>(expected.size()));
  double scale = 1e-6;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(got.DoubleAt(i), expected[i], tolerance * scale) << "element " << i;
  }
}

inline double Tolerance(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat: return 2e-6;
    case DataType::kDouble: return 1e-14;
    case DataType::kHalf: return 1e-3;
    case DataType::kBfloat16: return 8e-3;
    default: return 0;
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_TESTS_CPU_KERNEL_TESTING_H_
