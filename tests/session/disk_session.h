// Sessions with a disk below a host budget that is too small.
#ifndef MILLRACE_TESTS_SESSION_DISK_SESSION_H_
#define MILLRACE_TESTS_SESSION_DISK_SESSION_H_

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model_run.h"
#include "plan/disk_layout.h"

namespace millrace::testing {

inline constexpr int64_t kDeviceBudget = 60000;

inline SessionOptions Options(const std::string& strategy, int64_t device_budget = kDeviceBudget) {
  SessionOptions options;
  options.threads = 1;
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = device_budget;
  options.replan.mode = ReplanOptions::Mode::kOff;
  return options;
}

inline int64_t ConstantBytes(const ExecutionPlan& plan) {
  int64_t bytes = 0;
  for (const PlanConstant& constant : plan.constants) bytes += AlignUp(constant.value.size_bytes());
  return bytes;
}

// The budget at which this part of what the host pool would hold in whole pages fits, and the largest tensor.
inline int64_t HostBudget(ModelRun& run, double part) {
  const auto plan = run.TrainPlan();
  const ExecutionPlan& untiered = *plan;
  const int64_t fixed =
      kDiskBounceBytes + kStateReserveBytes + std::max(ConstantBytes(untiered), ConstantBytes(*run.InitPlan()));
  int64_t pages = 0, largest = 0;
  for (const PlanVariable& variable : untiered.variables) {
    const int64_t bytes = AlignUp(variable.type.size_bytes(), kDiskPageBytes);
    largest = std::max(largest, bytes);
    pages += bytes;
  }
  for (const Lane& lane : untiered.lanes) {
    for (const CopyStep& copy : lane.copies) {
      if (copy.host.kind == HostRef::Kind::kPool) largest = std::max(largest, AlignUp(copy.bytes, kDiskPageBytes));
    }
  }
  const int64_t pool_bytes = untiered.host_pool_bytes;
  return fixed + std::max(largest, static_cast<int64_t>(part * static_cast<double>(pages + pool_bytes)));
}

inline SessionOptions WithDisk(SessionOptions options, int64_t host_budget) {
  options.planning.host_memory_bytes = host_budget;
  options.disk = ::testing::TempDir();
  return options;
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_DISK_SESSION_H_
