// From the command line's text to the engine's options.
#ifndef MILLRACE_SRC_CLI_SETTINGS_H_
#define MILLRACE_SRC_CLI_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options.h"
#include "millrace/options.h"

namespace millrace::cli {

// A device memory budget as it was given: bytes, a percentage of baseline's predicted peak, or none.
struct Budget {
  int64_t bytes = 0;   // 0: none, or not resolved yet
  double percent = 0;  // 0: given in bytes
  std::vector<int64_t> bytes_of;  // of each device, when several are given
  std::string text;    // as written
  bool given() const { return !text.empty(); }
};

// A budget in bytes of every device. 0: no limit.
struct DeviceBudgets {
  int64_t bytes = 0;            // of each device
  std::vector<int64_t> of;      // or one by one
  void Apply(PlanningOptions& planning) const {
    planning.device_memory_bytes = bytes == 0 ? PlanningOptions::kNoLimit : bytes;
    planning.device_memory_bytes_of = of;
  }
  int64_t total(int32_t devices) const;
};

// The same devices and rewriting of the graph, without any swapping, budgets or partitions.
PlanningOptions BaselineOf(const PlanningOptions& planning);

// Whether the strategy's order is cut into partitions of so many nodes. True of what is no strategy, which is an error elsewhere.
bool CutsBySize(const std::string& strategy);

// "cpu:0,cpu:1", or "2" of `kind`. Errors are wrong usage.
absl::StatusOr<std::vector<std::string>> ParseDeviceNames(const std::string& text, const std::string& kind);

// What a session runs on. `kind` of "null:0,null:1" is null, of "gpu:0" cuda or what stands for it in tests; without names and for a
// number of them it is what --device says, and for names of any kind the null device, which only plans, if --device says that.
struct Devices {
  std::string kind;
  std::vector<std::string> names;
};

// Of --devices and --device. Errors are wrong usage.
absl::StatusOr<Devices> ParseDevices(const std::string& names, const std::string& device);

// The file of --machine: as it is given, or one of that name among those that come with the program; "" for none. Errors are wrong usage.
absl::StatusOr<std::string> MachineFile(const EngineOptions& engine);

// What `flag` ("device_memory") says. Errors are wrong usage and name it. A budget of 0 bytes is refused: leave the flag out for no limit.
absl::StatusOr<Budget> ParseBudget(const char* flag, const std::string& text);

// Wrong usage where sizes of --device_memory are given one by one and are more or fewer than the devices.
absl::Status CheckSizePerDevice(const Budget& budget, int32_t devices);

// Everything but the device memory budget, which stays the machine's. Errors are wrong usage.
absl::StatusOr<SessionOptions> MakeSessionOptions(const Options& options, const std::string& strategy);

// Wrong usage where steps are to run and the device only plans, or the folder of --disk is none.
absl::Status CheckRuns(const SessionOptions& session);

// MakeSessionOptions for commands that run nothing and need no device. A --machine and devices other than this CPU are
// planned for by cost rules alone; without them scratch is that of the CPU's kernels, so what is found holds for `run`.
absl::StatusOr<SessionOptions> MakePlanningOptions(const Options& options);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_SETTINGS_H_
