#include "passes/planner/gaps.h"

#include <algorithm>
#include <limits>

#include "millrace/types.h"
#include "passes/access/radix_sort.h"
#include "plan/simulator.h"

namespace millrace {
namespace {

void ListGapsOf(int32_t storage, absl::Span<const TimedAccess> accesses, const AccessGraph& graph, GapGraph& result) {
  if (accesses.empty()) return;
  const StorageInfo& info = graph.storages[storage];
  const int64_t bytes = graph.aligned_bytes(storage);
  const bool at_home = info.kind != StorageKind::kActivation;
  auto overwrites = [](const TimedAccess& a) { return a.access.writes && !a.access.reads; };
  int32_t last_write = -1;
  for (size_t k = 0; k < accesses.size(); ++k) {
    if (accesses[k].access.writes) last_write = accesses[k].operation;
    if (k + 1 == accesses.size()) break;
    result.gaps.push_back({storage, accesses[k].operation, accesses[k + 1].operation, bytes, last_write, false,
                           overwrites(accesses[k + 1]), false});
  }
  if (!at_home) return;
  result.gaps.push_back({storage, accesses.back().operation, accesses[0].operation, bytes, last_write, true,
                         overwrites(accesses[0]), info.kind == StorageKind::kFeed});
}

// Seconds that variables and constants alone ask for: those that do not stay over the step's end come in before their
// first access and go home after their last write. What comes in for the operations up to i and what goes home from i on
// are one after the other, with operation i between them, and what stays shares the budget. `fed[i]`: bytes of feeds
// that operation i is the first to need.
double HomeBound(const GapGraph& gaps, int64_t budget_bytes, const std::vector<int64_t>& fed) {
  const int32_t n = gaps.num_operations();
  // Bytes, around operation i, of what must come in before it and go home after it, of what must only come in, and of
  // what must only go home.
  std::vector<int64_t> both(n + 1, 0), comes(n + 1, 0), goes(n + 1, 0);
  for (const Gap& gap : gaps.gaps) {
    if (!gap.home || gap.feed) continue;
    const int64_t bytes = gaps.graph->storages[gap.storage].size_bytes;
    const int32_t first = gap.overwritten ? n : gap.before;  // on the device from then on
    const int32_t end = gap.last_write + 1;                  // may be home from then on
    if (first < end) {
      both[first] += bytes;
      both[end] -= bytes;
    }
    comes[std::max(first, end)] += first < n ? bytes : 0;
    goes[0] += end > 0 ? bytes : 0;
    goes[std::min(first, end)] -= end > 0 ? bytes : 0;
  }
  const double in = gaps.seconds_per_byte_in, out = gaps.seconds_per_byte_out;
  double bound = 0;
  int64_t both_now = 0, comes_now = 0, goes_now = 0, fed_now = 0;
  for (int32_t i = 0; i < n; ++i) {
    both_now += both[i];
    comes_now += comes[i];
    goes_now += goes[i];
    fed_now += fed[i];
    // What saves most stays first, by the byte.
    int64_t room = budget_bytes;
    const auto left_of = [&room](int64_t bytes) {
      const int64_t stays = std::min(bytes, room);
      room -= stays;
      return static_cast<double>(bytes - stays);
    };
    const double both_left = left_of(both_now);
    const double first_left = left_of(in >= out ? comes_now : goes_now);
    const double second_left = left_of(in >= out ? goes_now : comes_now);
    const double copies = both_left * (in + out) + first_left * std::max(in, out) + second_left * std::min(in, out);
    const double all_in = static_cast<double>(std::max<int64_t>(0, both_now + comes_now - budget_bytes)) * in;
    const double all_out = static_cast<double>(std::max<int64_t>(0, both_now + goes_now - budget_bytes)) * out;
    const double fed_in = static_cast<double>(fed_now) * in;
    bound = std::max({bound, fed_in + copies + gaps.graph->seconds[i], gaps.start[i + 1] + all_out,
                      fed_in + all_in + gaps.compute_seconds() - gaps.start[i]});
  }
  return bound;
}

}  // namespace

int32_t GapGraph::OperationAt(double t) const {
  const int32_t n = num_operations();
  if (t < start[0]) return 0;
  const size_t last = operation_of_slot.size() - 1;
  const double exact = t * slots_per_second;
  const size_t slot = exact < static_cast<double>(last) ? static_cast<size_t>(exact) : last;
  // Rounding may have put t into a neighbour of its slot.
  int32_t begin = operation_of_slot[slot], end = slot < last ? std::min(operation_of_slot[slot + 1] + 1, n) : n;
  if (start[begin] > t) begin = 0;
  if (end < n && start[end] <= t) end = n;
  return static_cast<int32_t>(std::upper_bound(start.begin() + begin, start.begin() + end + 1, t) - start.begin()) - 1;
}

GapGraph FindGaps(const AccessGraph& graph, const Machine& machine) {
  GapGraph result;
  result.graph = &graph;
  result.lists = ListAccesses(graph);
  const int32_t n = graph.num_operations();
  result.working_set.assign(n, 0);
  result.start.assign(n + 1, 0);
  for (int32_t i = 0; i < n; ++i) {
    result.working_set[i] = graph.aligned_scratch(i);
    for (const Access& access : graph.of(i)) {
      result.working_set[i] += graph.aligned_bytes(access.storage);
    }
    result.start[i + 1] = result.start[i] + graph.seconds[i];
  }
  result.gaps.reserve(graph.accesses.size());
  result.first_gap.reserve(graph.storages.size() + 1);
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    result.first_gap.push_back(static_cast<int64_t>(result.gaps.size()));
    ListGapsOf(static_cast<int32_t>(s), result.lists.of(s), graph, result);
  }
  result.first_gap.push_back(static_cast<int64_t>(result.gaps.size()));
  std::vector<int64_t> change(n + 1, 0);
  for (const Gap& gap : result.gaps) {
    if (gap.feed) continue;
    if (gap.home) {
      change[0] += gap.bytes;
      change[gap.before] -= gap.bytes;
      change[gap.after + 1] += gap.bytes;
    } else {
      change[gap.after + 1] += gap.bytes;
      change[gap.before] -= gap.bytes;
    }
  }
  result.full = result.working_set;
  int64_t kept = 0;
  for (int32_t i = 0; i < n; ++i) {
    kept += change[i];
    result.full[i] += kept;
  }
  result.seconds_per_byte_out = 1.0 / machine.to_host_bytes_per_second;
  result.seconds_per_byte_in = 1.0 / machine.to_device_bytes_per_second;
  result.copy_latency = machine.copy_latency_seconds;
  result.copy_launch = machine.copy_launch_seconds;
  return result;
}

void OrderGaps(GapGraph& gaps) {
  const int32_t n = gaps.num_operations();
  std::vector<Keyed> keyed(gaps.gaps.size());
  const auto order_by = [&](auto key) {
    for (size_t k = 0; k < keyed.size(); ++k) keyed[k] = {key(gaps.gaps[k]), static_cast<int32_t>(k)};
    SortByKey(keyed);
    std::vector<int32_t> order(keyed.size());
    for (size_t k = 0; k < keyed.size(); ++k) order[k] = keyed[k].index;
    return order;
  };
  gaps.by_length = order_by([&](const Gap& gap) {
    return KeyOf(gap.home ? std::numeric_limits<double>::max() : gaps.start[gap.before] - gaps.start[gap.after]);
  });
  gaps.by_before = OrderByCounting(static_cast<int32_t>(gaps.gaps.size()), n, [&](int32_t k) { return gaps.gaps[k].before; });
  gaps.makes_room.assign(n, 0);
  for (int32_t i = 0; i < n; ++i) gaps.makes_room[i] = gaps.graph->scratch_bytes[i] > 0 ? 1 : 0;
  for (size_t s = 0; s < gaps.graph->storages.size(); ++s) {
    if (gaps.graph->storages[s].kind != StorageKind::kActivation || gaps.lists.of(s).empty()) continue;
    gaps.makes_room[gaps.lists.of(s).front().operation] = 1;
  }
  gaps.operation_of_slot.assign(n + 1, 0);
  gaps.slots_per_second = gaps.compute_seconds() > 0 ? n / gaps.compute_seconds() : 0;
  for (int32_t slot = 0, i = 0; slot <= n; ++slot) {
    while (i < n && gaps.start[i + 1] * gaps.slots_per_second <= slot) ++i;
    gaps.operation_of_slot[slot] = i;
  }
}

double GapGraph::LaunchSeconds(const std::vector<SwapDecision>& decisions) const {
  if (copy_launch == 0) return 0;
  double launches = 0;
  for (const SwapDecision& d : decisions) {
    const double one = CopyLaunches(graph->storages[d.storage].kind == StorageKind::kVariable);
    if (d.copy_out) launches += one;
    if (d.copy_in && d.before != SwapDecision::kToHost) launches += one;
  }
  return launches * copy_launch;
}

int64_t SmallBytes(const GapGraph& gaps, int64_t budget_bytes) {
  constexpr int64_t kParts[] = {100'000, 1'000'000};  // of the budget: of a small gap
  constexpr int64_t kPartsTogether = 1000;
  std::vector<int64_t> change;
  for (const int64_t parts : kParts) {
    change.assign(gaps.num_operations() + 1, 0);
    for (const Gap& gap : gaps.gaps) {
      if (gap.bytes >= budget_bytes / parts || gap.feed || gap.overwritten) continue;
      change[gap.home ? 0 : gap.after + 1] += gap.bytes;
      change[gap.before] -= gap.bytes;
      if (gap.home) change[gap.after + 1] += gap.bytes;
    }
    int64_t now = 0, most = 0;
    for (int64_t bytes : change) most = std::max(most, now += bytes);
    if (most <= budget_bytes / kPartsTogether) return budget_bytes / parts;
  }
  return 0;
}

bool HomesMatter(const GapGraph& gaps, int64_t budget_bytes) {
  constexpr int64_t kParts = 4;
  int64_t bytes = 0;
  for (const Gap& gap : gaps.gaps) bytes += gap.home && !gap.feed ? gap.bytes : 0;
  return bytes > budget_bytes / kParts;
}

double CutBound(const GapGraph& gaps, int64_t budget_bytes) {
  const int32_t n = gaps.num_operations();
  // Bytes that cross operation i and are already on the host (variables not written since the step began), and
  // those that need not come back in this step (the end of a home gap, and what is overwritten first).
  std::vector<int64_t> clean(n + 1, 0), done(n + 1, 0);
  // Of the bytes that cross operation i, those beyond the storages' own: they take room and are never copied.
  std::vector<int64_t> padding(n + 1, 0);
  // Feeds needed from operation i on: they come in when the step has begun.
  std::vector<int64_t> fed(n + 1, 0);
  for (const Gap& gap : gaps.gaps) {
    const int64_t size_bytes = gaps.graph->storages[gap.storage].size_bytes;
    if (gap.feed) fed[gap.before] += size_bytes;
    if (gap.home) padding[0] += gap.bytes - size_bytes;
    padding[gap.after + 1] += gap.bytes - size_bytes;
    padding[gap.before] -= gap.bytes - size_bytes;
    if (gap.overwritten) {
      if (gap.home) done[0] += gap.bytes;
      if (!gap.home) done[gap.after + 1] += gap.bytes;
      done[gap.before] -= gap.bytes;
    }
    if (gap.home) {
      clean[0] += gap.bytes;
      clean[gap.before] -= gap.bytes;
      done[gap.after + 1] += gap.bytes;
      if (gap.last_write < 0) clean[gap.after + 1] += gap.bytes;
    } else if (gap.last_write < 0 || gap.overwritten) {
      clean[gap.after + 1] += gap.bytes;
      clean[gap.before] -= gap.bytes;
    }
  }
  double bound = gaps.compute_seconds();
  int64_t clean_now = 0, done_now = 0, fed_now = 0, padding_now = 0;
  for (int32_t i = 0; i < n; ++i) {
    clean_now += clean[i];
    done_now += done[i];
    padding_now += padding[i];
    if (fed[i] > 0) {
      fed_now += fed[i];
      bound = std::max(bound, static_cast<double>(fed_now) * gaps.seconds_per_byte_in + gaps.compute_seconds() - gaps.start[i]);
    }
    const int64_t excess = gaps.full[i] - budget_bytes;
    if (excess <= 0) continue;
    const int64_t copied = excess - padding_now;
    const double out = static_cast<double>(std::max<int64_t>(0, copied - clean_now)) * gaps.seconds_per_byte_out;
    const double in = static_cast<double>(std::max<int64_t>(0, copied - done_now)) * gaps.seconds_per_byte_in;
    const double before = std::max(gaps.start[i], out);
    const double after = std::max(gaps.compute_seconds() - gaps.start[i], in);
    bound = std::max(bound, before + after);
  }
  return std::max(bound, HomeBound(gaps, budget_bytes, fed));
}

}  // namespace millrace
