#include "testlib/random_plan.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

constexpr int kNumLanes = 3;

// Which steps of each lane touched some bytes since they were last written, and which wrote them.
struct Uses {
  int64_t readers[kNumLanes] = {0, 0, 0};
  int writer_lane = -1;
  int64_t writer_count = 0;
};

struct TensorState {
  std::string name;
  int slot = -1;       // on the device, or -1
  int pool_slot = -1;  // in the host pool, or -1
};

class Generator {
 public:
  Generator(const RandomPlanOptions& options)
      : options_(options),
        random_(options.seed * 7919 + 17),
        bytes_(options.elements * sizeof(float)),
        stride_(AlignUp(bytes_)),
        builder_(stride_ * (options.slots + options.variables)),
        slots_(options.slots) {
    for (int v = 0; v < options.variables; ++v) {
      const bool resident = Chance(2);
      const std::string name = absl::StrCat("v", v);
      const int64_t offset = stride_ * (options.slots + v);
      builder_.Variable(name, options.elements, resident ? offset : kNoAddress);
      PlanVariable& variable = builder_.plan().variables.back();
      variable.read_before_write = variable.written = true;
      variable.first_reader = "any";
    }
    variable_uses_.resize(options.variables);
    home_uses_.resize(options.variables);
  }

  RandomPlan Run(int steps) {
    builder_.Feed("x", options_.elements);
    for (int64_t k = 0; k < options_.elements; ++k) result_.feed.push_back(static_cast<float>(k) / 4 - 1);
    LoadFeed();
    for (int v = 0; v < options_.variables; ++v) {
      if (IsResident(v) && Chance(2)) LeaveWithLastValue(v);
    }
    for (int i = 0; i < options_.nodes; ++i) {
      if (options_.variables > 0 && Chance(6)) {
        Update(i);
      } else {
        Mix(i);
      }
    }
    for (int v = 0; v < options_.variables; ++v) ComeBack(v);
    FetchSome();
    result_.plan = builder_.Build();
    for (PlanVariable& variable : result_.plan.variables) CHECK(variable.written);
    Evaluate(steps);
    return std::move(result_);
  }

 private:
  // What a step reads and writes, for grouping.
  struct Touched {
    std::set<int64_t> reads, writes;
  };

  int Pick(int n) { return static_cast<int>(random_() % n); }
  bool Chance(int one_in) { return Pick(one_in) == 0; }
  int64_t Offset(int slot) const { return stride_ * slot; }
  int64_t NextCount(int lane) { return builder_.plan().lanes[lane].num_steps() + 1; }

  void Read(Uses& uses, int lane, std::vector<int64_t>& needed) {
    if (uses.writer_lane >= 0) {
      needed[uses.writer_lane] = std::max(needed[uses.writer_lane], uses.writer_count);
    }
    uses.readers[lane] = NextCount(lane);
  }
  void Write(Uses& uses, int lane, std::vector<int64_t>& needed) {
    if (uses.writer_lane >= 0) {
      needed[uses.writer_lane] = std::max(needed[uses.writer_lane], uses.writer_count);
    }
    for (int l = 0; l < kNumLanes; ++l) needed[l] = std::max(needed[l], uses.readers[l]);
    uses = Uses();
    uses.writer_lane = lane;
    uses.writer_count = NextCount(lane);
  }
  StepWaits WaitsFor(int lane, const std::vector<int64_t>& needed) const {
    StepWaits waits;
    for (int l = 0; l < kNumLanes; ++l) {
      if (l != lane && needed[l] > 0) waits.push_back({l, needed[l]});
    }
    return waits;
  }

  // A slot without a tensor; throws one of the others out, to the host pool if it may be needed again.
  int FreeSlot(const std::set<int>& keep) {
    std::vector<int> candidates;
    for (int s = 0; s < options_.slots; ++s) {
      if (slots_[s].tensor < 0) return s;
      if (keep.count(slots_[s].tensor) == 0) candidates.push_back(s);
    }
    CHECK(!candidates.empty());
    const int slot = candidates[Pick(static_cast<int>(candidates.size()))];
    const int tensor = slots_[slot].tensor;
    if (tensors_[tensor].pool_slot < 0) {
      const int lane = PlanBuilder::kToHost;
      std::vector<int64_t> needed(kNumLanes, 0);
      Read(slots_[slot].uses, lane, needed);
      tensors_[tensor].pool_slot = static_cast<int>(pool_.size());
      pool_.push_back(Uses());
      Write(pool_.back(), lane, needed);
      builder_.Out(tensors_[tensor].name, Offset(slot), bytes_, builder_.PoolRef(stride_ * tensors_[tensor].pool_slot),
                   WaitsFor(lane, needed));
    }
    tensors_[tensor].slot = -1;
    slots_[slot].tensor = -1;
    return slot;
  }

  int NewTensor(const std::string& name, int slot) {
    tensors_.push_back({name, slot, -1});
    slots_[slot].tensor = static_cast<int>(tensors_.size()) - 1;
    return slots_[slot].tensor;
  }

  void LoadFeed() {
    std::vector<int64_t> needed(kNumLanes, 0);
    const int slot = FreeSlot({});
    Write(slots_[slot].uses, PlanBuilder::kToDevice, needed);
    builder_.In("x:0", builder_.FeedRef("x"), Offset(slot), bytes_);
    const int tensor = NewTensor("x:0", slot);
    evaluate_.push_back([tensor](Values& values) { values.tensors[tensor] = values.feed; });
  }

  // Makes sure that the tensor is on the device.
  void BringIn(int tensor, const std::set<int>& keep) {
    if (tensors_[tensor].slot >= 0) return;
    const int lane = PlanBuilder::kToDevice;
    const int slot = FreeSlot(keep);
    std::vector<int64_t> needed(kNumLanes, 0);
    Read(pool_[tensors_[tensor].pool_slot], lane, needed);
    Write(slots_[slot].uses, lane, needed);
    builder_.In(tensors_[tensor].name, builder_.PoolRef(stride_ * tensors_[tensor].pool_slot), Offset(slot), bytes_,
                WaitsFor(lane, needed));
    tensors_[tensor].slot = slot;
    slots_[slot].tensor = tensor;
  }

  int AnyTensor() {
    // Mostly recent ones, sometimes old ones.
    const int n = static_cast<int>(tensors_.size());
    return Chance(3) ? Pick(n) : n - 1 - Pick(std::min(n, 4));
  }

  void Mix(int i) {
    std::set<int> keep;
    std::vector<int> inputs;
    for (int k = Pick(3) + 1; k > 0; --k) inputs.push_back(AnyTensor());
    keep.insert(inputs.begin(), inputs.end());
    for (int tensor : keep) BringIn(tensor, keep);
    const int slot = FreeSlot(keep);
    const int lane = PlanBuilder::kCompute;
    std::vector<int64_t> needed(kNumLanes, 0);
    std::vector<At> at;
    Touched touched;
    for (int tensor : inputs) {
      Read(slots_[tensors_[tensor].slot].uses, lane, needed);
      at.push_back({Offset(tensors_[tensor].slot), options_.elements, tensors_[tensor].name});
      touched.reads.insert(tensors_[tensor].slot);
    }
    Write(slots_[slot].uses, lane, needed);
    touched.writes.insert(slot);
    const std::string name = absl::StrCat("n", i);
    ComputeStep& step =
        builder_.Compute(name, "Mix", at, {{Offset(slot), options_.elements}}, WaitsFor(lane, needed));
    step.group = GroupFor(touched);
    const int out = NewTensor(name + ":0", slot);
    evaluate_.push_back([inputs, out](Values& values) {
      std::vector<float> result(values.feed.size());
      for (size_t k = 0; k < result.size(); ++k) {
        float sum = 1;
        for (size_t j = 0; j < inputs.size(); ++j) {
          sum += static_cast<float>(j + 1) * values.tensors.at(inputs[j])[k] / 2;
        }
        // As the kernel: one rounding per operation.
        result[k] = sum;
      }
      values.tensors[out] = result;
    });
  }

  bool IsResident(int v) { return builder_.plan().variables[v].resident_offset != kNoAddress; }

  // What the last step left in the variable's place goes home, and something else is written there.
  void LeaveWithLastValue(int v) {
    const PlanVariable& variable = builder_.plan().variables[v];
    std::vector<int64_t> home(kNumLanes, 0), needed(kNumLanes, 0);
    Read(variable_uses_[v], PlanBuilder::kToHost, home);
    Write(home_uses_[v], PlanBuilder::kToHost, home);
    builder_.Out(variable.name, variable.resident_offset, bytes_, builder_.VariableRef(variable.name),
                 WaitsFor(PlanBuilder::kToHost, home));
    Write(variable_uses_[v], PlanBuilder::kCompute, needed);
    builder_.Compute(absl::StrCat("in_place_of_", variable.name), "Mix", {}, {{variable.resident_offset, options_.elements}},
                     WaitsFor(PlanBuilder::kCompute, needed)).group = ++group_number_;
    group_ = {{}, {options_.slots + v}};
    away_.insert(v);
  }

  void ComeBack(int v) {
    if (away_.erase(v) == 0) return;
    const PlanVariable& variable = builder_.plan().variables[v];
    std::vector<int64_t> needed(kNumLanes, 0);
    Read(home_uses_[v], PlanBuilder::kToDevice, needed);
    Write(variable_uses_[v], PlanBuilder::kToDevice, needed);
    builder_.In(variable.name, builder_.VariableRef(variable.name), variable.resident_offset, bytes_,
                WaitsFor(PlanBuilder::kToDevice, needed));
  }

  void Update(int i) {
    const int v = Pick(options_.variables);
    const PlanVariable& variable = builder_.plan().variables[v];
    const bool resident = IsResident(v);
    ComeBack(v);
    const int64_t offset = stride_ * (options_.slots + v);
    const int tensor = AnyTensor();
    BringIn(tensor, {tensor});
    if (!resident) {
      const int lane = PlanBuilder::kToDevice;
      std::vector<int64_t> needed(kNumLanes, 0);
      Read(home_uses_[v], lane, needed);
      Write(variable_uses_[v], lane, needed);
      builder_.In(variable.name, builder_.VariableRef(variable.name), offset, bytes_, WaitsFor(lane, needed));
    }
    const int lane = PlanBuilder::kCompute;
    std::vector<int64_t> needed(kNumLanes, 0);
    Read(slots_[tensors_[tensor].slot].uses, lane, needed);
    Write(variable_uses_[v], lane, needed);
    ComputeStep& step = builder_.Compute(absl::StrCat("n", i), "AddTo",
                                         {{offset, options_.elements, variable.name},
                                          {Offset(tensors_[tensor].slot), options_.elements, tensors_[tensor].name}},
                                         {}, WaitsFor(lane, needed));
    step.input_variables = {v, -1};
    step.writes_variables = {v};
    step.group = GroupFor({{tensors_[tensor].slot}, {options_.slots + v}});
    if (!resident) {
      const int out = PlanBuilder::kToHost;
      std::vector<int64_t> home(kNumLanes, 0);
      Read(variable_uses_[v], out, home);
      Write(home_uses_[v], out, home);
      builder_.Out(variable.name, offset, bytes_, builder_.VariableRef(variable.name), WaitsFor(out, home));
    }
    evaluate_.push_back([tensor, name = variable.name](Values& values) {
      std::vector<float>& value = values.variables[name];
      for (size_t k = 0; k < value.size(); ++k) value[k] += values.tensors.at(tensor)[k];
    });
  }

  void FetchSome() {
    for (int f = 0; f < 3; ++f) {
      const int tensor = AnyTensor();
      BringIn(tensor, {tensor});
      const std::string name = absl::StrCat("f", f);
      builder_.Fetch(name, options_.elements);
      std::vector<int64_t> needed(kNumLanes, 0);
      Read(slots_[tensors_[tensor].slot].uses, PlanBuilder::kToHost, needed);
      builder_.Out(tensors_[tensor].name, Offset(tensors_[tensor].slot), bytes_, builder_.FetchRef(name),
                   WaitsFor(PlanBuilder::kToHost, needed));
      fetched_.push_back(tensor);
    }
  }

  // The last step's group when this step is independent of all of it, else a new one.
  int32_t GroupFor(const Touched& touched) {
    if (!options_.groups) return 0;
    const auto meet = [](const std::set<int64_t>& a, const std::set<int64_t>& b) {
      return std::any_of(a.begin(), a.end(), [&](int64_t x) { return b.count(x) > 0; });
    };
    if (meet(touched.writes, group_.reads) || meet(touched.writes, group_.writes) ||
        meet(touched.reads, group_.writes) || Chance(5)) {
      ++group_number_;
      group_ = Touched();
    }
    group_.reads.insert(touched.reads.begin(), touched.reads.end());
    group_.writes.insert(touched.writes.begin(), touched.writes.end());
    return group_number_;
  }

  struct Values {
    std::vector<float> feed;
    std::map<int, std::vector<float>> tensors;
    std::map<std::string, std::vector<float>> variables;
  };

  void Evaluate(int steps) {
    Values values;
    values.feed = result_.feed;
    for (const PlanVariable& variable : result_.plan.variables) {
      values.variables[variable.name].assign(options_.elements, 0);
    }
    for (int step = 0; step < steps; ++step) {
      for (const auto& evaluate : evaluate_) evaluate(values);
      RandomPlan::Results results;
      for (int tensor : fetched_) results.fetches.push_back(values.tensors.at(tensor));
      results.variables = values.variables;
      result_.expected.push_back(std::move(results));
    }
  }

  struct Slot {
    int tensor = -1;
    Uses uses;
  };

  const RandomPlanOptions options_;
  std::mt19937_64 random_;
  const int64_t bytes_;
  const int64_t stride_;
  PlanBuilder builder_;
  std::vector<Slot> slots_;
  std::vector<Uses> pool_, variable_uses_, home_uses_;
  std::vector<TensorState> tensors_;
  std::vector<int> fetched_;
  std::set<int> away_;  // resident variables that are not on the device
  std::vector<std::function<void(Values&)>> evaluate_;  // in order: a serial run of the plan
  Touched group_;
  int32_t group_number_ = 1;
  RandomPlan result_;
};

}  // namespace

RandomPlan MakeRandomPlan(const RandomPlanOptions& options, int steps) { return Generator(options).Run(steps); }

}  // namespace millrace::testing
