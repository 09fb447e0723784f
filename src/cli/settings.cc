#include "cli/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/exit_status.h"
#include "graph/device_spec.h"
#include "millrace/profile.h"
#include "millrace/status.h"
#include "passes/strategy.h"
#include "passes/swaps/swap_tflms.h"
#include "plan/resolve_options.h"

namespace millrace::cli {
namespace {

constexpr int32_t kMostThreads = 4096;
constexpr char kNone[] = "none";  // of budgets: no limit
constexpr char kMachineExtension[] = ".pbtxt";

absl::StatusOr<int64_t> SizeFlag(const char* flag, const std::string& text) {
  if (text.empty()) return 0;
  const auto size = ParseSize(text);
  if (!size.ok()) return UsageError(absl::StrCat("--", flag, "=", text, ": ", std::string(size.status().message())));
  return *size;
}

// "scope/" is a name prefix, "type:Conv2D" an op type.
TflmsOptions::Filter FilterOf(const std::vector<std::string>& entries) {
  TflmsOptions::Filter filter;
  for (const std::string& entry : entries) {
    if (absl::StartsWith(entry, "type:")) {
      filter.types.push_back(entry.substr(5));
    } else {
      filter.scopes.push_back(entry);
    }
  }
  return filter;
}

// The parts of single strategies.
absl::Status SetParts(const StrategyOptions& options, PlanningOptions& planning) {
  planning.place_variables_on_host = planning.swap_activations = false;
  for (const std::string& part : options.parts) {
    if (part == "placement") {
      planning.place_variables_on_host = true;
    } else if (part == "swap") {
      planning.swap_activations = true;
    } else if (part != "none") {
      return UsageError(absl::StrCat("--parts: ", part, " is not one of placement, swap, none"));
    } else if (options.parts.size() > 1) {
      return UsageError("--parts: none and others, expected one or the other");
    }
  }
  planning.early_start = options.early_start;
  planning.occupancy_threshold = options.occupancy_threshold;
  if (!(planning.occupancy_threshold > 0) || planning.occupancy_threshold > 1) {
    return UsageError("--occupancy_threshold: expected more than 0 and at most 1");
  }
  planning.tflms = options.tflms;
  MR_ASSIGN_OR_RETURN(planning.tflms.serialization_by_size_bytes,
                      SizeFlag("serialization_by_size", options.serialization_by_size));
  planning.tflms.exclude_outputs = FilterOf(options.filters.exclude_outputs);
  planning.tflms.exclude_inputs = FilterOf(options.filters.exclude_inputs);
  planning.tflms.include_outputs = FilterOf(options.filters.include_outputs);
  planning.tflms.include_inputs = FilterOf(options.filters.include_inputs);
  return AsUsageError(CheckTflmsOptions(planning.tflms, "--"));
}

absl::StatusOr<ReplanOptions::Mode> ReplanMode(const std::string& text) {
  if (text == "auto") return ReplanOptions::Mode::kAuto;
  if (text == "wait") return ReplanOptions::Mode::kWait;
  if (text == "off") return ReplanOptions::Mode::kOff;
  return UsageError(absl::StrCat("--replan=", text, ": expected auto, wait or off"));
}

}  // namespace

absl::StatusOr<Budget> ParseBudget(const char* flag, const std::string& text) {
  const auto refused = [&](const std::string& why) { return UsageError(absl::StrCat("--", flag, "=", text, ": ", why)); };
  Budget budget;
  budget.text = text;
  if (text.empty() || text == kNone) return budget;
  if (absl::StrContains(text, ',')) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const auto size = ParseSize(std::string(part));
      if (!size.ok()) return refused(absl::StrCat(std::string(size.status().message()), ", one for each device"));
      if (*size == 0) return refused("0 bytes hold nothing; expected a size for each device");
      budget.bytes_of.push_back(*size);
    }
    return budget;
  }
  if (absl::EndsWith(text, "%")) {
    const bool number = absl::SimpleAtod(text.substr(0, text.size() - 1), &budget.percent);
    if (number && budget.percent > 0 && budget.percent <= 1000) return budget;
    return refused("expected more than 0% and at most 1000%");
  }
  const auto size = ParseSize(text);
  if (!size.ok()) return refused(absl::StrCat(std::string(size.status().message()), ", or a percentage like 50%"));
  if (*size == 0) return refused("0 bytes hold nothing; leave the flag out for no limit");
  budget.bytes = *size;
  return budget;
}

absl::Status CheckSizePerDevice(const Budget& budget, int32_t devices) {
  const size_t sizes = budget.bytes_of.size();
  if (sizes == 0 || static_cast<int32_t>(sizes) == devices) return absl::OkStatus();
  return UsageError(absl::StrCat("--device_memory=", budget.text, ": ", sizes, " sizes for ", devices, devices == 1 ? " device" : " devices",
                                 ", expected one each, or one for all"));
}

int64_t DeviceBudgets::total(int32_t devices) const {
  return of.empty() ? bytes * devices : std::accumulate(of.begin(), of.end(), int64_t{0});
}

PlanningOptions BaselineOf(const PlanningOptions& planning) {
  PlanningOptions baseline = planning;
  baseline.strategy = "baseline";
  baseline.partition_size = 0;
  baseline.device_memory_bytes = baseline.host_memory_bytes = PlanningOptions::kNoLimit;
  baseline.device_memory_bytes_of.clear();
  return baseline;
}

bool CutsBySize(const std::string& strategy) {
  const auto found = FindStrategy(strategy);
  return !found.ok() || (*found)->order == Strategy::Order::kDepthFirst || (*found)->order == Strategy::Order::kBest;
}

absl::StatusOr<std::vector<std::string>> ParseDeviceNames(const std::string& text, const std::string& kind) {
  constexpr int kMostDevices = 1024;
  std::vector<std::string> devices;
  int count = 0;
  if (text.empty()) return devices;
  if (absl::SimpleAtoi(text, &count)) {
    if (count < 1 || count > kMostDevices) return UsageError(absl::StrCat("--devices=", text, ": expected 1 to ", kMostDevices));
    for (int i = 0; i < count; ++i) devices.push_back(absl::StrCat(kind, ":", i));
    return devices;
  }
  std::set<DeviceSpec> seen;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    const auto spec = ParseDeviceSpec(name);
    if (!spec.ok() || spec->type.empty()) {
      return UsageError(absl::StrCat("--devices=", text, ": '", name, "' is not a device, expected cpu:0,cpu:1 or how many"));
    }
    DeviceSpec device = *spec;
    device.index = std::max(device.index, 0);
    if (!seen.insert(device).second) {
      return UsageError(absl::StrCat("--devices=", text, ": ", name, " is there twice"));
    }
    devices.push_back(name);
  }
  return devices;
}

namespace {

// What a flag of off, on and auto says.
absl::StatusOr<bool> OffOnAuto(const char* flag, const std::string& value, bool where_auto) {
  if (value != "off" && value != "on" && value != "auto") {
    return UsageError(absl::StrCat("--", flag, " is '", value, "', expected off, on or auto"));
  }
  return value == "on" || (value == "auto" && where_auto);
}

absl::StatusOr<Recompute> ParseRecompute(const std::string& text) {
  if (text == "off") return Recompute::kOff;
  if (text == "on") return Recompute::kOn;
  if (text == "auto") return Recompute::kAuto;
  return UsageError(absl::StrCat("--recompute=", text, ": expected off, on or auto"));
}

constexpr const char* kDevices[] = {"cpu", "cuda", "null", "cuda_emulated"};

bool IsDevice(const std::string& kind) { return std::find(std::begin(kDevices), std::end(kDevices), kind) != std::end(kDevices); }

// How steps are planned, but for memory and devices. Some rewritings pay on the kernels of `device`.
absl::Status SetStrategy(const StrategyOptions& options, const std::string& device, bool tf32, const std::string& strategy,
                         PlanningOptions& planning) {
  if (options.partition_size < 0) return UsageError("--partition_size: expected 0 (chosen) or more nodes");
  if (options.swap_distance < 0) return UsageError("--swap_distance: expected 0 or more partitions");
  if (!strategy.empty()) planning.strategy = strategy;
  MR_RETURN_IF_ERROR(AsUsageError(FindStrategy(planning.strategy).status()));
  planning.partition_size = options.partition_size;
  planning.swap_distance = options.swap_distance;
  MR_ASSIGN_OR_RETURN(planning.recompute, ParseRecompute(options.recompute));
  if (!std::isfinite(options.plan_seconds) || options.plan_seconds < 0) {
    return UsageError("--plan_seconds: expected 0 (no limit) or more seconds");
  }
  planning.plan_seconds = options.plan_seconds;
  MR_ASSIGN_OR_RETURN(planning.min_swap_bytes, SizeFlag("min_swap_bytes", options.min_swap_bytes));
  const bool pays = device == "cuda" || device == "cuda_emulated";
  MR_ASSIGN_OR_RETURN(planning.fuse, OffOnAuto("fuse", options.fuse, pays));
  MR_ASSIGN_OR_RETURN(planning.channels_first, OffOnAuto("channels_first", options.channels_first, pays && !tf32));
  MR_ASSIGN_OR_RETURN(planning.pack_rows, OffOnAuto("pack_rows", options.pack_rows, pays));
  planning.accumulate_products = options.accumulate_products;
  planning.share_recv = options.share_recv;
  if (options.update_parts == "off") {
    planning.update_part_bytes = 0;
  } else if (options.update_parts != "auto") {
    MR_ASSIGN_OR_RETURN(planning.update_part_bytes, SizeFlag("update_parts", options.update_parts));
  }
  planning.max_unrolled_nodes = options.max_unrolled_nodes;
  if (planning.max_unrolled_nodes < 1) return UsageError("--max_unrolled_nodes must be at least 1");
  return SetParts(options, planning);
}

// "a100, titanx": the machines whose files are in a folder.
std::string MachinesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == kMachineExtension) names.insert(entry.path().stem().string());
  }
  return absl::StrJoin(names, ", ");
}

// Host memory, disk and links, which may be slowed.
absl::Status SetMemory(const EngineOptions& engine, SessionOptions& session) {
  int64_t host_bytes = PlanningOptions::kNoLimit;
  if (engine.host_memory != kNone) {
    MR_ASSIGN_OR_RETURN(host_bytes, SizeFlag("host_memory", engine.host_memory));
    if (!engine.host_memory.empty() && host_bytes == 0) {
      return UsageError("--host_memory: 0 bytes hold nothing; leave the flag out, or give none for no limit");
    }
  }
  session.planning.host_memory_bytes = LimitOf(host_bytes, session.machine.host_memory_bytes);
  MR_RETURN_IF_ERROR(AsUsageError(CheckPace("--link_gbps", engine.link_gbps)));
  MR_RETURN_IF_ERROR(AsUsageError(CheckPace("--disk_gbps", engine.disk_gbps)));
  if (engine.disk_gbps > 0 && engine.disk.empty()) return UsageError("--disk_gbps slows a --disk, which is not given");
  if (!engine.disk.empty() && session.planning.host_memory_bytes == PlanningOptions::kNoLimit) {
    return UsageError("--disk holds what --host_memory has no room for, and no limit is given");
  }
  session.link_gbps = engine.link_gbps;
  session.disk = engine.disk;
  session.disk_gbps = engine.disk_gbps;
  session.machine = PacedMachine(session);  // as reports tell it
  return absl::OkStatus();
}

// How steps run on devices.
void SetRunning(const EngineOptions& engine, SessionOptions& session) {
  session.cuda_graph = engine.cuda_graph;
  session.tf32 = engine.tf32;
  session.measure_convolutions = engine.measure_convolutions;
  session.device_timeout_seconds = engine.device_timeout;
  session.threads = engine.threads;
}

// Times of earlier steps to plan with, and those of this run's.
absl::Status SetTimes(const EngineOptions& engine, SessionOptions& session) {
  MR_ASSIGN_OR_RETURN(session.replan.mode, ReplanMode(engine.replan));
  if (engine.profile_in.empty()) return absl::OkStatus();
  auto profile = LoadProfile(engine.profile_in);
  if (!profile.ok()) return AsUsageError(profile.status());
  session.profile = std::make_shared<const Profile>(*std::move(profile));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Devices> ParseDevices(const std::string& names, const std::string& device) {
  if (!IsDevice(device)) return UsageError(absl::StrCat("--device=", device, ": expected cpu, cuda, null or cuda_emulated"));
  Devices devices{.kind = device};
  MR_ASSIGN_OR_RETURN(devices.names, ParseDeviceNames(names, device));
  int32_t count = 0;
  if (devices.names.empty() || absl::SimpleAtoi(names, &count) || device == "null") return devices;
  for (const std::string& name : devices.names) {
    const std::string type = absl::AsciiStrToLower(ParseDeviceSpec(name)->type);
    const std::string kind = type != "gpu" ? type : device == "cuda_emulated" ? device : "cuda";
    if (!IsDevice(kind)) return UsageError(absl::StrCat("--devices=", names, ": ", name, " is none of cpu, gpu, cuda and null"));
    if (&name == &devices.names.front()) devices.kind = kind;
    if (kind != devices.kind) {
      return UsageError(absl::StrCat("--devices=", names, ": ", devices.names.front(), " and ", name, " are of two kinds, expected one"));
    }
  }
  return devices;
}

absl::StatusOr<std::string> MachineFile(const EngineOptions& engine) {
  if (engine.machine.empty()) return "";
  std::error_code error;
  if (std::filesystem::exists(engine.machine, error) || absl::StrContains(engine.machine, '/')) return engine.machine;
  for (const std::string& folder : engine.machine_folders) {
    for (const char* const extension : {"", kMachineExtension}) {
      const std::string path = absl::StrCat(folder, "/", engine.machine, extension);
      if (std::filesystem::is_regular_file(path, error)) return path;
    }
  }
  for (const std::string& folder : engine.machine_folders) {
    const std::string names = MachinesIn(folder);
    if (!names.empty()) return UsageError(absl::StrCat("--machine=", engine.machine, ": no such file, and none of the machines in ", folder, ": ", names));
  }
  return engine.machine;
}

absl::Status CheckRuns(const SessionOptions& session) {
  if (session.device == "null") {
    return UsageError("the null device runs nothing: millrace plan shows what it would do, sweep plans several strategies; --device=cpu runs");
  }
  if (session.disk.empty()) return absl::OkStatus();
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(session.disk, error);
  if (is_folder && access(session.disk.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  if (is_folder) error = std::error_code(errno, std::generic_category());
  return UsageError(absl::StrCat("--disk=", session.disk, ": ", error ? error.message() : "not a folder", ", expected a folder to write in"));
}

absl::StatusOr<SessionOptions> MakeSessionOptions(const Options& options, const std::string& strategy) {
  const EngineOptions& engine = options.engine;
  if (engine.threads < 0 || engine.threads > kMostThreads) {
    return UsageError(absl::StrCat("--threads: expected 0 (one per core) to ", kMostThreads));
  }
  if (engine.cuda_graph != "auto" && engine.cuda_graph != "on" && engine.cuda_graph != "off") {
    return UsageError(absl::StrCat("--cuda_graph=", engine.cuda_graph, ": expected auto, on or off"));
  }
  if (!std::isfinite(engine.device_timeout) || engine.device_timeout < 0) {
    return UsageError(absl::StrCat("--device_timeout=", engine.device_timeout, ": expected 0 (no limit) or more seconds"));
  }
  SessionOptions session;
  MR_ASSIGN_OR_RETURN(Devices devices, ParseDevices(engine.devices, engine.device));
  session.device = std::move(devices.kind);
  session.planning.devices = std::move(devices.names);
  if (!engine.machine.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string path, MachineFile(engine));
    auto machine = LoadMachine(path);
    if (!machine.ok()) return AsUsageError(machine.status());
    session.machine = *machine;
  }
  MR_RETURN_IF_ERROR(SetStrategy(options.strategy, session.device, engine.tf32, strategy, session.planning));
  MR_RETURN_IF_ERROR(SetMemory(engine, session));
  SetRunning(engine, session);
  MR_RETURN_IF_ERROR(SetTimes(engine, session));
  session.seed = options.input.seed;
  session.trace = !options.output.trace_out.empty() || !options.output.plot_out.empty() || !options.output.html_out.empty();
  return session;
}

absl::StatusOr<SessionOptions> MakePlanningOptions(const Options& options) {
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options, options.strategy.strategy));
  if (!options.engine.machine.empty() || session.device != "cpu") session.device = "null";
  return session;
}

}  // namespace millrace::cli
