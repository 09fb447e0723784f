#include "random/training.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "plan/disk_layout.h"

namespace millrace {
namespace {

// What the first pair is of which `difference` says something, and that.
std::string FirstDifference(const TrainingGraph& random, const TrainingResult& found, const TrainingResult& expected,
                            const std::function<std::string(const Tensor&, const Tensor&)>& difference) {
  for (size_t i = 0; i < expected.fetched.size(); ++i) {
    const std::string what = difference(found.fetched[i], expected.fetched[i]);
    if (!what.empty()) {
      return absl::StrCat("fetch ", random.fetches[i % random.fetches.size()], " of step ", i / random.fetches.size(), what);
    }
  }
  for (const auto& [name, value] : expected.variables) {
    const auto other = found.variables.find(name);
    if (other == found.variables.end()) return absl::StrCat("no variable ", name);
    const std::string what = difference(other->second, value);
    if (!what.empty()) return absl::StrCat("variable ", name, what);
  }
  return "";
}

std::string Distance(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.type() != b.type()) return absl::StrCat(": ", a.type().ToString(), " instead of ", b.type().ToString());
  double largest = 1;
  for (int64_t i = 0; i < b.num_elements(); ++i) largest = std::max(largest, std::abs(b.DoubleAt(i)));
  for (int64_t i = 0; i < b.num_elements(); ++i) {
    if (std::abs(a.DoubleAt(i) - b.DoubleAt(i)) <= tolerance * largest) continue;
    return absl::StrCat(": ", a.DoubleAt(i), " instead of ", b.DoubleAt(i), " at ", i, ", largest ", largest);
  }
  return "";
}

absl::Status RunSteps(const TrainingGraph& random, int steps, Session& session, TrainingResult& result) {
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor> fetched;
    MR_RETURN_IF_ERROR(session.Run({}, random.fetches, {"train"}, &fetched));
    result.fetched.insert(result.fetched.end(), fetched.begin(), fetched.end());
  }
  result.run = session.last_run();
  MR_ASSIGN_OR_RETURN(result.variables, session.Variables());
  return absl::OkStatus();
}

}  // namespace

int64_t FromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

absl::StatusOr<TrainingResult> Train(const TrainingGraph& random, const SessionOptions& options, int steps) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(random.graph.Clone(), options));
  MR_RETURN_IF_ERROR(session->Run({}, {}, {"init"}, nullptr));
  TrainingResult result;
  MR_RETURN_IF_ERROR(RunSteps(random, steps, *session, result));
  return result;
}

absl::StatusOr<TrainingResult> TrainHandedOver(const TrainingGraph& random, const SessionOptions& first, const SessionOptions& others) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(random.graph.Clone(), first));
  MR_RETURN_IF_ERROR(session->Run({}, {}, {"init"}, nullptr));
  TrainingResult result;
  MR_RETURN_IF_ERROR(RunSteps(random, 1, *session, result));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> next, Session::Create(random.graph.Clone(), others));
  for (const auto& [name, value] : result.variables) MR_RETURN_IF_ERROR(next->SetVariable(name, value));
  MR_ASSIGN_OR_RETURN(const auto states, session->NodeStates());
  for (const auto& [node, state] : states) MR_RETURN_IF_ERROR(next->SetNodeState(node, state));
  MR_RETURN_IF_ERROR(RunSteps(random, kRandomSteps - 1, *next, result));
  return result;
}

std::string Difference(const TrainingGraph& random, const TrainingResult& found, const TrainingResult& expected) {
  return FirstDifference(random, found, expected, [](const Tensor& a, const Tensor& b) { return a.BitEqual(b) ? "" : " in its bits"; });
}

std::string FarApart(const TrainingGraph& random, const TrainingResult& found, const TrainingResult& expected, double tolerance) {
  return FirstDifference(random, found, expected, [&](const Tensor& a, const Tensor& b) { return Distance(a, b, tolerance); });
}

TrainingGraph Spread(const TrainingGraph& whole, const std::string& device, std::mt19937_64& random) {
  TrainingGraph spread{whole.graph.Clone(), whole.fetches, whole.made_of, whole.in_low_precision};
  for (int32_t i = 0; i < spread.graph.num_ids(); ++i) {
    const uint64_t index = random() % 3;
    if (index < 2) spread.graph.mutable_node(NodeId{i}).requested_device = absl::StrCat(device == "cpu" ? "/cpu:" : "/gpu:", index);
  }
  return spread;
}

SessionOptions RandomOptions(const std::string& device, int64_t peak, std::mt19937_64& random) {
  const std::vector<std::string> strategies = StrategyNames();
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 20};
  SessionOptions options;
  options.device = device;
  options.threads = 1 + static_cast<int>(random() % 3);
  // Now and then the plan changes behind the first step, whatever the simulator thinks of it.
  options.replan = {.mode = ReplanOptions::Mode::kOff, .skipped_steps = 0, .replayed_steps = 0, .measured_steps = 1, .least_gain = -100};
  if (random() % 3 == 0) options.replan.mode = ReplanOptions::Mode::kWait;
  if (device != "cpu" && random() % 3 == 0) options.cuda_graph = "off";
  options.planning.strategy = strategies[random() % strategies.size()];
  options.planning.partition_size = kSizes[random() % std::size(kSizes)];
  options.planning.swap_distance = static_cast<int64_t>(random() % 4);
  options.planning.fuse = random() % 2 == 0;
  constexpr Recompute kRecompute[] = {Recompute::kOff, Recompute::kOn, Recompute::kAuto};
  options.planning.recompute = kRecompute[random() % std::size(kRecompute)];
  if (random() % 4 != 0) options.planning.device_memory_bytes = std::max<int64_t>(1, peak * static_cast<int64_t>(30 + random() % 80) / 100);
  if (random() % 4 == 0) options.planning.update_part_bytes = static_cast<int64_t>(64 << random() % 6);
  if (random() % 3 == 0) {
    const int64_t pages = static_cast<int64_t>(1 + random() % 3) << (2 * (random() % 4));
    options.planning.host_memory_bytes = kDiskBounceBytes + kStateReserveBytes + pages * kDiskPageBytes;
    options.disk = ::testing::TempDir();
  } else if (random() % 4 == 0) {
    options.planning.devices = {device + ":0", device + ":1"};
    options.planning.share_recv = random() % 2 == 0;
  }
  return options;
}

std::string Describe(const SessionOptions& options) {
  const PlanningOptions& planning = options.planning;
  const auto flag = [](bool given, const char* text) { return given ? text : ""; };
  return absl::StrCat(options.device, ", ", planning.strategy, " partition_size=", planning.partition_size, " swap_distance=",
                      planning.swap_distance, " device_memory=", planning.device_memory_bytes, flag(planning.fuse, " fuse"),
                      flag(planning.pack_rows, " pack_rows"), flag(planning.channels_first, " channels_first"),
                      flag(!planning.accumulate_products, " noaccumulate_products"), flag(options.cuda_graph == "off", " cuda_graph=off"),
                      flag(options.replan.mode == ReplanOptions::Mode::kWait, " replan"),
                      " recompute=", static_cast<int>(planning.recompute), " update_parts=", planning.update_part_bytes,
                      options.disk.empty() ? "" : absl::StrCat(" disk below host_memory=", planning.host_memory_bytes),
                      flag(!planning.devices.empty(), " two devices"), flag(!planning.devices.empty() && planning.share_recv, ", sharing"), " threads=", options.threads);
}

}  // namespace millrace
