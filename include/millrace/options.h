// Options of a Session: strategy and its parts, budgets, device, machine. Each field says what it means, its
// default, and when to touch it. The command line's flags have the same names.
#ifndef MILLRACE_OPTIONS_H_
#define MILLRACE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

class OpRegistry;
class KernelRegistry;

// Rates of a machine, for planning; configs/machines/*.pbtxt in memory.
struct Machine {
  std::string name = "cpu";
  int64_t device_memory_bytes = 0;      // 0: unlimited
  int64_t host_memory_bytes = 0;        // 0: unlimited
  double flops_per_second = 100e9;      // float32 multiply-adds count two
  double memory_bytes_per_second = 10e9;
  double to_host_bytes_per_second = 5e9;
  double to_device_bytes_per_second = 5e9;
  double copy_latency_seconds = 2e-6;   // per copy
  double launch_seconds = 0.3e-6;       // per kernel
};

struct PlanningOptions {
  // One of StrategyNames() (passes/strategy.h). The other fields override its parts.
  std::string strategy = "planned";
  // Nodes per device and partition; 0: the strategy's default (for tensorflowmem the size that fits the budget
  // with the shortest predicted step).
  int64_t partition_size = 0;
  // Tensors whose producer and consumer are more than this many partitions apart are swapped.
  int64_t swap_distance = 2;
  // Tensors smaller than this stay on the device; raise it when thousands of tiny copies cost more than they save.
  int64_t min_swap_bytes = 0;
  // Most bytes the device may hold at any instant, scratch included; 0: no limit.
  int64_t device_memory_bytes = 0;
  // Most bytes of host memory for variables, constants and swapped tensors; 0: no limit.
  int64_t host_memory_bytes = 0;
};

struct SessionOptions {
  PlanningOptions planning;
  Machine machine;
  std::string device = "cpu";  // cpu, null (plans and simulates only)
  int threads = 0;             // of kernels; 0: one per core
  uint64_t seed = 0;           // for random ops that have none of their own
  double link_gbps = 0;        // slows copies to this many GB/s each way; 0: as fast as memory copies
  bool trace = false;          // record when every step ran (report.h)
  // nullptr: the built-in ops and kernels.
  std::shared_ptr<const OpRegistry> ops;
  std::shared_ptr<const KernelRegistry> kernels;
};

// Reads configs/machines/*.pbtxt. Errors name the file and the line or field.
absl::StatusOr<Machine> LoadMachine(const std::string& path);

// "12GiB", "512MB", "1000000" -> bytes. InvalidArgument for negative, absurd (over 2^60) or malformed sizes.
absl::StatusOr<int64_t> ParseSize(const std::string& text);
// "1.50 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace millrace

#endif  // MILLRACE_OPTIONS_H_
