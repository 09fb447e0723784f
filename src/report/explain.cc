#include "report/explain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/near_names.h"
#include "graph/one_line.h"
#include "plan/plan_text.h"
#include "plan/step_order.h"
#include "report/decisions.h"
#include "report/text_table.h"

namespace millrace {
namespace {

// One use of a tensor's memory.
struct Use {
  int64_t position = 0;
  int32_t partition = 0;
  std::string node;
  std::string op;
  bool reads = false;
  bool writes = false;
};

class Explainer {
 public:
  Explainer(const ExecutionPlan& plan, const PlanningOptions& options, const Machine& machine)
      : plan_(plan), options_(options), machine_(machine), order_(StepsInOrder(plan)) {}

  absl::StatusOr<std::string> Run(const std::string& name) {
    std::string text;
    for (const StepRef& step : order_) {
      if (NameOf(plan_, step.lane, step.index) == name) text += StepWords(step);
    }
    for (int32_t owner : OwnersOf(name)) text += TensorWords(owner, name);
    text += PartsWords(name);
    if (!text.empty()) return text;
    return absl::NotFoundError(absl::StrCat("no node or tensor '", name, "' in the plan", Similar(name)));
  }

 private:
  // Of a variable that is there in parts: each of them.
  std::string PartsWords(const std::string& name) const {
    std::string text;
    int parts = 0;
    for (const PlanVariable& variable : plan_.variables) {
      if (variable.whole != name) continue;
      ++parts;
      for (int32_t owner : OwnersOf(variable.name)) text += TensorWords(owner, variable.name);
    }
    return parts == 0 ? "" : absl::StrCat(name, " is updated in ", parts, " parts, each with a plan of its own:\n", text);
  }

  const Lane& LaneOf(const StepRef& step) const { return plan_.lanes[step.lane]; }

  // Tensors whose memory a name means: its own, and those that its node's outputs lie in.
  std::vector<int32_t> OwnersOf(const std::string& name) const {
    std::vector<int32_t> owners;
    const auto add = [&](int32_t owner) {
      if (owner >= 0 && std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
    };
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (plan_.tensors[t] == name) add(static_cast<int32_t>(t));
    }
    for (const Lane& lane : plan_.lanes) {
      for (const ComputeStep& step : lane.compute) {
        const std::string& node = plan_.instances[step.instance].name;
        if (!absl::StartsWith(name, node)) continue;
        for (size_t o = 0; o < step.output_owners.size(); ++o) {
          if (name == node || name == absl::StrCat(node, ":", o)) add(step.output_owners[o]);
        }
      }
    }
    return owners;
  }

  // Names that hold the asked one, the shortest first; where none does, names of a few other letters.
  std::string Similar(const std::string& name) const {
    constexpr size_t kMost = 5;
    const std::string base = name.substr(0, name.rfind(':'));
    const size_t most = std::max<size_t>(base.size() / 4, 1);
    std::vector<std::pair<size_t, std::string>> holding, close;
    for (const std::string& tensor : plan_.tensors) {
      if (absl::StrContains(tensor, base)) holding.push_back({tensor.size(), tensor});
    }
    for (size_t t = 0; t < plan_.tensors.size() && holding.empty(); ++t) {
      const std::string& tensor = plan_.tensors[t];
      const size_t letters = DifferingLetters(base, std::string_view(tensor).substr(0, tensor.rfind(':')), most);
      if (letters <= most) close.push_back({letters, tensor});
    }
    std::vector<std::pair<size_t, std::string>>& names = holding.empty() ? close : holding;
    std::sort(names.begin(), names.end());
    names.resize(std::min(names.size(), kMost));
    std::string text = names.empty() ? "; it may have been folded or not be needed" : "; there are";
    for (const auto& [distance, each] : names) absl::StrAppend(&text, " ", OnOneLine(each));
    return text;
  }

  std::string StepWords(const StepRef& ref) const {
    const Lane& lane = LaneOf(ref);
    std::string text;
    if (lane.kind == LaneKind::kCompute) {
      const ComputeStep& step = lane.compute[ref.index];
      const OpInstance& instance = plan_.instances[step.instance];
      absl::StrAppend(&text, instance.name, " (", instance.op, ") runs at position ", step.position, " of ",
                      order_.size(), " on ", plan_.devices[lane.device].name, ", in partition ", step.partition, " of ",
                      plan_.devices[lane.device].num_partitions, ", for ", FormatSeconds(step.predicted_seconds),
                      " as predicted", step.scratch_bytes > 0 ? absl::StrCat(", with ", FormatBytes(step.scratch_bytes), " of scratch") : "",
                      ".\n", CutWords(lane, ref.index));
    } else {
      const CopyStep& copy = lane.copies[ref.index];
      absl::StrAppend(&text, OnOneLine(copy.name), " copies ", OnOneLine(copy.tensor.str()), " (", FormatBytes(copy.bytes), ") ",
                      lane.kind == LaneKind::kToHost ? "to " : "from ", HostRefToText(plan_, copy.host), " in ",
                      FormatSeconds(copy.predicted_seconds), " as predicted, at position ", copy.position, ": ", OnOneLine(copy.reason.str()), ".\n");
    }
    for (const Wait& wait : WaitsOf(lane, ref.index)) {
      const Lane& other = plan_.lanes[wait.lane];
      if (wait.count <= 0 || wait.count > other.num_steps()) continue;
      absl::StrAppend(&text, "  It waits for ", OnOneLine(NameOf(plan_, wait.lane, wait.count - 1)), " on lane ",
                      LaneName(plan_, wait.lane), ".\n");
    }
    return text;
  }

  // Where its partition begins or ends, and why there.
  std::string CutWords(const Lane& lane, int64_t index) const {
    const bool first = BeginsPartition(lane, index);
    const bool last = index + 1 == lane.num_steps() || BeginsPartition(lane, index + 1);
    if ((!first && !last) || plan_.devices[lane.device].num_partitions <= 1) return "";
    return absl::StrCat("  It is the ", first ? "first" : "", first && last ? " and " : "", last ? "last" : "",
                        " of its partition: ", CutReasons(plan_).Why(lane, index), ".\n");
  }

  std::vector<Use> UsesOf(int32_t owner) const {
    std::vector<Use> uses;
    for (const StepRef& ref : order_) {
      const Lane& lane = LaneOf(ref);
      if (lane.kind != LaneKind::kCompute) continue;
      const ComputeStep& step = lane.compute[ref.index];
      const auto has = [&](const StepIndices& owners) {
        return std::find(owners.begin(), owners.end(), owner) != owners.end();
      };
      const auto is_it = [&](int32_t variable) { return plan_.variables[variable].name == plan_.tensors[owner]; };
      const bool reads = has(step.input_owners);
      const bool writes = has(step.output_owners) || std::any_of(step.writes_variables.begin(), step.writes_variables.end(), is_it);
      if (!writes && !reads) continue;
      const OpInstance& instance = plan_.instances[step.instance];
      uses.push_back({step.position, step.partition, instance.name, instance.op, reads, writes});
    }
    return uses;
  }

  std::string TensorWords(int32_t owner, const std::string& asked) const {
    const std::string& tensor = plan_.tensors[owner];
    std::vector<const Residence*> stays;
    for (const Residence& residence : plan_.residences) {
      if (residence.tensor == tensor && residence.kind != Residence::Kind::kScratch) stays.push_back(&residence);
    }
    if (stays.empty()) return absl::StrCat(OnOneLine(tensor), " has no device memory of its own.\n");
    std::string text = absl::StrCat(OnOneLine(tensor), ", ", FormatBytes(stays[0]->bytes));
    if (asked != tensor && !absl::StartsWith(tensor, absl::StrCat(asked, ":"))) {
      absl::StrAppend(&text, " (", asked, " lies in its memory: a view of it, or computed in place)");
    }
    text += ":\n";
    const std::vector<Use> uses = UsesOf(owner);
    for (size_t s = 0; s < stays.size(); ++s) {
      const Residence& stay = *stays[s];
      absl::StrAppend(&text, "  on the device from position ", stay.first, " to ", stay.last, ", at address ", stay.offset, ": ",
                      OnOneLine(stay.reason.str()), "\n");
      for (const Use& use : uses) {
        if (use.position < stay.first || use.position > stay.last) continue;
        absl::StrAppend(&text, "    ", use.reads && use.writes ? "read and written" : use.writes ? "written" : "read", " by ", use.node, " (", use.op, ") at ", use.position,
                        ", partition ", use.partition, "\n");
      }
      text += CopiesWithin(tensor, stay.first, s + 1 < stays.size() ? stays[s + 1]->first : INT64_MAX);
    }
    const std::string again = AgainWords(tensor);
    if (again.empty() && stays.size() == 1 && !Copied(tensor)) text += KeptWords(*stays[0], uses);
    return text + again;
  }

  // Of a tensor that is computed a second time: where and why.
  std::string AgainWords(const std::string& tensor) const {
    const std::string again = absl::StrCat(tensor.substr(0, tensor.find(':')), "/recompute");
    std::string text;
    for (const Lane& lane : plan_.lanes) {
      for (const ComputeStep& step : lane.compute) {
        const std::string& node = plan_.instances[step.instance].name;
        if (!absl::StartsWith(node, again) || (node.size() > again.size() && node[again.size()] != '_')) continue;
        absl::StrAppend(&text, "  computed again at ", step.position, " by ", node, ReasonOf(node), "\n");
      }
    }
    return text;
  }

  // ": why", of what a node makes.
  std::string ReasonOf(const std::string& node) const {
    for (const Residence& stay : plan_.residences) {
      if (absl::StartsWith(stay.tensor.str(), absl::StrCat(node, ":"))) return absl::StrCat(": ", OnOneLine(stay.reason.str()));
    }
    return "";
  }

  bool Copied(const std::string& tensor) const {
    for (const Lane& lane : plan_.lanes) {
      for (const CopyStep& copy : lane.copies) {
        if (copy.tensor == tensor && copy.host.kind != HostRef::Kind::kFetch) return true;
      }
    }
    return false;
  }

  std::string CopiesWithin(const std::string& tensor, int64_t begin, int64_t end) const {
    std::string text;
    for (const StepRef& ref : order_) {
      const Lane& lane = LaneOf(ref);
      if (lane.kind == LaneKind::kCompute || ref.position < begin || ref.position >= end) continue;
      const CopyStep& copy = lane.copies[ref.index];
      if (copy.tensor != tensor) continue;
      absl::StrAppend(&text, "    ", lane.kind == LaneKind::kToHost ? "copied to " : "copied in from ",
                      HostRefToText(plan_, copy.host), " at ", copy.position, " in ", FormatSeconds(copy.predicted_seconds),
                      ": ", OnOneLine(copy.reason.str()), "\n");
    }
    return text;
  }

  // Whether its value lies on the device from one step to the next.
  bool StaysOverTheEnd(const std::string& tensor) const {
    const auto is_resident = [&](const auto& each) { return each.name == tensor && each.resident_offset != kNoAddress; };
    return std::any_of(plan_.variables.begin(), plan_.variables.end(), is_resident) ||
           std::any_of(plan_.constants.begin(), plan_.constants.end(), is_resident);
  }

  // Whether the first use in a step needs what the last one of the step before left.
  bool IsOverwrittenFirst(const std::string& tensor) const {
    return std::any_of(plan_.variables.begin(), plan_.variables.end(),
                       [&](const PlanVariable& variable) { return variable.name == tensor && !variable.read_before_write; });
  }

  // Two uses that follow one another; `over_end`: the second is in the next step.
  struct Gap {
    const Use* from = nullptr;
    const Use* to = nullptr;
    bool over_end = false;
  };

  // The gap of most positions. Requires uses, or two that are in one step.
  Gap LongestGap(const std::vector<Use>& uses, bool over_end) const {
    Gap longest;
    int64_t most = -1;
    for (size_t k = over_end ? 0 : 1; k < uses.size(); ++k) {
      const Gap gap{&uses[k == 0 ? uses.size() - 1 : k - 1], &uses[k], k == 0};
      const int64_t positions = gap.to->position - gap.from->position + (gap.over_end ? order_.back().position + 1 : 0);
      if (positions > most) longest = gap;
      most = std::max(most, positions);
    }
    return longest;
  }

  // Seconds of compute between the two.
  double WaitOf(const Gap& gap) const {
    double wait = 0;
    for (const StepRef& ref : order_) {
      const bool after = ref.position > gap.from->position, before = ref.position < gap.to->position;
      if ((gap.over_end ? after || before : after && before) && LaneOf(ref).kind == LaneKind::kCompute) wait += SecondsOf(LaneOf(ref), ref.index);
    }
    return wait;
  }

  // Why a tensor that never leaves stays.
  std::string KeptWords(const Residence& stay, const std::vector<Use>& uses) const {
    const std::string& tensor = stay.tensor.str();
    const bool stays = StaysOverTheEnd(tensor), over_end = stays && !IsOverwrittenFirst(tensor);
    if (uses.empty() || (uses.size() == 1 && !over_end)) {
      return stays ? "  kept: it stays for the next step\n" : "  kept: it is used at once and gone\n";
    }
    const Gap gap = LongestGap(uses, over_end);
    const double wait = WaitOf(gap);
    const int64_t partitions = int64_t{gap.to->partition} - gap.from->partition + (gap.over_end ? plan_.devices[stay.device].num_partitions : 0);
    const auto bytes = static_cast<double>(stay.bytes);
    const double copies = 2 * machine_.copy_latency_seconds + bytes / machine_.to_host_bytes_per_second +
                          bytes / machine_.to_device_bytes_per_second;
    std::string text = absl::StrCat("  kept: ", stays ? "it stays for the next step; " : "", "its longest wait is ", FormatSeconds(wait),
                                    " of compute from ", gap.from->node, gap.over_end ? " over the step's end" : "", " to ", gap.to->node, ", ",
                                    partitions, " partitions; a copy out and back takes ", FormatSeconds(copies), ". ");
    const auto distance = [&] { return absl::StrCat(gap.to->partition - uses[0].partition); };
    if (plan_.strategy == "baseline") return text + "baseline moves nothing.\n";
    const bool lasts = stay.kind == Residence::Kind::kVariable || stay.kind == Residence::Kind::kConstant;
    if (plan_.strategy == "tflms" && lasts) return text + "tflms keeps variables and constants on the device.\n";
    if (plan_.strategy == "tensorflowmem" && !(lasts ? options_.place_variables_on_host : options_.swap_activations)) {
      return text + "--parts leaves such values where they are.\n";
    }
    if (plan_.strategy == "tensorflowmem") {
      return absl::StrCat(text, "tensorflowmem swaps values used more than ", options_.swap_distance, " partitions later",
                          options_.min_swap_bytes > 0 ? absl::StrCat(", of at least ", FormatBytes(options_.min_swap_bytes)) : "", ".\n");
    }
    if (plan_.strategy == "tflms") {
      return absl::StrCat(text, "tflms swaps matrices and larger made more than its threshold of levels above their use (what was chosen "
                          "is among the plan's notes) that the filters allow; here ", distance(), " levels.\n");
    }
    if (plan_.strategy == "lru" || plan_.strategy == "reactive") return text + "There was room for it until its last use.\n";
    return absl::StrCat(text, plan_.counts.swap_outs + plan_.counts.swap_ins == 0
                                  ? "Everything fits, so nothing moves.\n"
                              : copies > wait ? "Copies would take longer than it waits.\n"
                              : stay.bytes * kSmallPart < options_.BudgetOf(stay.device) ? "It is too small beside the budget to be worth copies.\n"
                                  : "Others give more room per byte copied.\n");
  }

  static constexpr int64_t kSmallPart = 1000;  // of the budget

  const ExecutionPlan& plan_;
  const PlanningOptions& options_;
  const Machine& machine_;
  const std::vector<StepRef> order_;
};

}  // namespace

absl::StatusOr<std::string> Explain(const ExecutionPlan& plan, const PlanningOptions& options, const Machine& machine,
                                    const std::string& name) {
  return Explainer(plan, options, machine).Run(name);
}

}  // namespace millrace
