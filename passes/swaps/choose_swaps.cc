#include "passes/swaps/choose_swaps.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/options.h"
#include "millrace/types.h"
#include "passes/access/access_lists.h"

namespace millrace {
namespace {

// Walks the accesses of one storage and decides gap by gap, after TensorFlowMem.
class DistanceWalker {
 public:
  DistanceWalker(const AccessGraph& graph, const DistancePolicy& policy, std::vector<SwapDecision>& out)
      : graph_(graph), policy_(policy), out_(out) {}

  void Walk(int32_t storage, absl::Span<const TimedAccess> accesses) {
    storage_ = storage;
    const StorageInfo& info = graph_.storages[storage];
    const bool at_home = info.kind != StorageKind::kActivation;
    const bool small = info.size_bytes < policy_.min_swap_bytes;
    if (accesses.empty() || info.pinned || (small && info.kind != StorageKind::kFeed)) return;
    const bool lives_on_device = info.kind == StorageKind::kVariable || info.kind == StorageKind::kConstant;
    if (lives_on_device && !policy_.place_variables_on_host) return;
    if (info.kind == StorageKind::kActivation && !policy_.swap_activations) return;
    host_is_current_ = at_home;
    fetched_for_ = -1;
    if (at_home) FetchFirst(accesses[0]);
    for (size_t k = 0; k < accesses.size(); ++k) {
      Note(accesses[k], k == 0);
      if (k + 1 < accesses.size() && !small) DecideGap(accesses[k], accesses[k + 1]);
    }
    if (info.kind == StorageKind::kVariable && !host_is_current_) {
      out_.push_back({storage_, accesses.back().operation, SwapDecision::kToHost, 0, false, true, last_write_,
                      "the variable's home is in host memory and this step wrote it"});
    } else if (at_home) {
      out_.push_back({storage_, accesses.back().operation, SwapDecision::kToHost, 0, false, false, 0,
                      "the host has the same bytes"});
    }
  }

 private:
  int32_t PartitionOf(int32_t operation) const { return graph_.partition[operation]; }

  // First operation of the partition before the consumer's, but after `after`.
  int32_t Anchor(int32_t after, int32_t consumer) const {
    if (!policy_.early_in) return consumer;
    const auto begin = graph_.partition.begin();
    const int32_t first = static_cast<int32_t>(
        std::lower_bound(begin, begin + consumer, PartitionOf(consumer) - 1) - begin);
    return std::max(first, after + 1);
  }

  void FetchFirst(const TimedAccess& first) {
    const bool overwritten = first.access.writes && !first.access.reads;
    out_.push_back({storage_, SwapDecision::kFromHost, first.operation,
                    overwritten ? first.operation : Anchor(-1, first.operation), !overwritten, false, 0,
                    overwritten ? "overwritten as a whole" : "its home is in host memory"});
    fetched_for_ = PartitionOf(first.operation);
  }

  void Note(const TimedAccess& access, bool first) {
    if (!access.access.writes) return;
    last_write_ = access.operation;
    host_is_current_ = false;
    if (!first || fetched_for_ < 0) fetched_for_ = -1;
  }

  void DecideGap(const TimedAccess& from, const TimedAccess& to) {
    const int32_t to_partition = PartitionOf(to.operation);
    const bool shares = fetched_for_ >= 0 && !from.access.writes;
    const int64_t distance = shares ? to_partition - fetched_for_ : to_partition - PartitionOf(ValueMadeAt(from));
    if (distance <= (shares ? policy_.share_distance : policy_.swap_distance)) return;
    const bool overwritten = to.access.writes && !to.access.reads;
    const bool copy_out = !overwritten && !host_is_current_;
    out_.push_back({storage_, from.operation, to.operation,
                    overwritten ? to.operation : Anchor(from.operation, to.operation), !overwritten, copy_out,
                    copy_out ? last_write_ : 0,
                    absl::StrCat("next used ", distance, " partitions later")});
    host_is_current_ = host_is_current_ || copy_out;
    fetched_for_ = to_partition;
  }

  int32_t ValueMadeAt(const TimedAccess& from) const { return host_is_current_ ? from.operation : last_write_; }

  const AccessGraph& graph_;
  const DistancePolicy& policy_;
  std::vector<SwapDecision>& out_;
  int32_t storage_ = 0;
  bool host_is_current_ = false;
  int32_t last_write_ = 0;
  int32_t fetched_for_ = -1;  // partition of the consumer for which the bytes came in, or -1 if made here
};

}  // namespace

AccessLists ListAccesses(const AccessGraph& graph) {
  AccessLists lists;
  lists.begin.assign(graph.storages.size() + 1, 0);
  for (const Access& access : graph.accesses) ++lists.begin[access.storage + 1];
  std::partial_sum(lists.begin.begin(), lists.begin.end(), lists.begin.begin());
  lists.accesses.resize(graph.accesses.size());
  std::vector<int64_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    for (const Access& access : graph.of(i)) lists.accesses[next[access.storage]++] = {i, access};
  }
  return lists;
}

SwapChoice KeepEverything(const AccessGraph& graph) {
  SwapChoice choice;
  const AccessLists lists = ListAccesses(graph);
  for (size_t s = 0; s < graph.storages.size(); ++s) {
    if (graph.storages[s].kind != StorageKind::kFeed || lists.of(s).empty()) continue;
    const int32_t storage = static_cast<int32_t>(s);
    choice.decisions.push_back({storage, SwapDecision::kFromHost, lists.of(s).front().operation, 0, true, false, 0,
                                "a feed"});
    choice.decisions.push_back({storage, lists.of(s).back().operation, SwapDecision::kToHost, 0, false, false, 0,
                                "a feed, no longer needed"});
  }
  return choice;
}

SwapChoice SwapByDistance(const AccessGraph& graph, const DistancePolicy& policy) {
  SwapChoice choice;
  const AccessLists lists = ListAccesses(graph);
  DistanceWalker walker(graph, policy, choice.decisions);
  for (size_t s = 0; s < graph.storages.size(); ++s) walker.Walk(static_cast<int32_t>(s), lists.of(s));
  return choice;
}

absl::Status CheckWorkingSets(const AccessGraph& graph, int64_t budget_bytes, OperationName operation_name,
                              AtHome variables) {
  const auto stays = [&](int32_t storage) {
    const StorageKind kind = graph.storages[storage].kind;
    return variables == AtHome::kStays && (kind == StorageKind::kVariable || kind == StorageKind::kConstant);
  };
  int64_t staying_bytes = 0;
  std::vector<bool> counted(graph.storages.size(), false);
  for (const Access& access : graph.accesses) {
    if (!stays(access.storage) || counted[access.storage]) continue;
    counted[access.storage] = true;
    staying_bytes += graph.aligned_bytes(access.storage);
  }
  int32_t worst = -1;
  int64_t worst_bytes = budget_bytes;
  for (int32_t i = 0; i < graph.num_operations(); ++i) {
    int64_t bytes = staying_bytes + graph.aligned_scratch(i);
    for (const Access& access : graph.of(i)) {
      if (!stays(access.storage)) bytes += graph.aligned_bytes(access.storage);
    }
    if (bytes > worst_bytes) {
      worst = i;
      worst_bytes = bytes;
    }
  }
  if (worst < 0) return absl::OkStatus();
  std::vector<Access> accesses(graph.of(worst).begin(), graph.of(worst).end());
  std::stable_sort(accesses.begin(), accesses.end(), [&](const Access& a, const Access& b) {
    return graph.storages[a.storage].size_bytes > graph.storages[b.storage].size_bytes;
  });
  accesses.resize(std::min<size_t>(accesses.size(), 5));
  const std::string largest = absl::StrJoin(accesses, ", ", [&](std::string* out, const Access& access) {
    absl::StrAppend(out, graph.name_of(access.storage), " ", FormatBytes(graph.storages[access.storage].size_bytes));
  });
  return DoesNotFitError(worst_bytes, absl::StrCat(
      "does not fit: node '", operation_name(worst), staying_bytes > 0 ? "' needs " : "' alone needs ", worst_bytes, " bytes (",
      FormatBytes(worst_bytes),
      staying_bytes > 0 ? absl::StrCat(", of them ", FormatBytes(staying_bytes), " of variables and constants, which stay on the device") : "",
      "), ", BudgetWords(worst_bytes, budget_bytes), "; its largest tensors: ", largest, "; scratch ",
      FormatBytes(graph.scratch_bytes[worst])));
}

absl::Status VerifySwaps(const AccessGraph& graph, const SwapChoice& choice) {
  for (size_t k = 0; k < choice.decisions.size(); ++k) {
    const SwapDecision& d = choice.decisions[k];
    const std::string& name = graph.name_of(d.storage);
    if (d.before != SwapDecision::kToHost && (d.anchor > d.before || d.anchor <= d.after)) {
      return absl::InternalError(absl::StrCat("'", name, "' is anchored at ", d.anchor, " outside its gap (", d.after,
                                              ", ", d.before, ")"));
    }
    const bool first = k == 0 || choice.decisions[k - 1].storage != d.storage;
    if (d.leaves_from_last_step() &&
        (!first || graph.storages[d.storage].kind != StorageKind::kVariable || d.out_after >= 0 || !d.copy_in)) {
      return absl::InternalError(absl::StrCat("'", name, "' is copied out before its first use, but cannot have stayed "
                                              "on the device since the last step"));
    }
    if (first) continue;
    if (choice.decisions[k - 1].before > d.after) {
      return absl::InternalError(absl::StrCat("the gaps of '", name, "' overlap at operation ", d.after));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
