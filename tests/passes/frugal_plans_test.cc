// Host memory that is too small for the fastest plan holds another one.
#include "passes/frugal_plans.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "graph/text.h"
#include "passes/access/does_not_fit.h"
#include "passes/pass_clock.h"
#include "passes/pipeline.h"
#include "plan/plan_text.h"
#include "plan/simulator.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// On one or two devices, with a budget that makes many of them swap; the request refers to the others.
struct Drawn {
  explicit Drawn(uint32_t seed)
      : devices(1 + static_cast<int>(seed) % 2),
        ops(TestOps()),
        random(5'000'000 + seed, devices == 1 ? 0 : devices),
        request(RequestOf(random, ops, oracle, devices)) {
    request.options.device_memory_bytes = 64 * (8 + random.Below(90));
  }
  int devices;
  OpRegistry ops;
  RandomGraph random;
  StubOracle oracle;
  CompileRequest request;
};

// A chain forward and back, whose values wait long: links are so fast that all of them could leave the device, and most can be computed again.
// `unused`: nodes beside it.
absl::StatusOr<Graph> Chain(int length, int unused = 0) {
  std::string text = "f0 = Op()\n";
  for (int i = 1; i < length; ++i) absl::StrAppend(&text, "f", i, " = Op(f", i - 1, ")\n");
  absl::StrAppend(&text, "b", length - 1, " = Op(f", length - 1, ")\n");
  for (int i = length - 2; i >= 0; --i) absl::StrAppend(&text, "b", i, " = Op(b", i + 1, ", f", i, ")\n");
  for (int i = 0; i < unused; ++i) absl::StrAppend(&text, "unused", i, " = Op()\n");
  return ParseGraphText(text);
}

TEST(FrugalPlans, MoreIsComputedAgainWhereHostMemoryIsShort) {
  const absl::StatusOr<Graph> graph = Chain(24);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.machine.to_host_bytes_per_second = request.machine.to_device_bytes_per_second = 160;
  request.signature.fetches = {"b0:0"};
  request.options.device_memory_bytes = int64_t{12} * 64;
  const absl::StatusOr<Compiled> fastest = Compile(request);
  ASSERT_TRUE(fastest.ok()) << fastest.status();
  request.options.host_memory_bytes = fastest->plan.host_bytes / 4;
  ASSERT_GT(request.options.host_memory_bytes, 0);
  const absl::StatusOr<Compiled> frugal = Compile(request), again = Compile(request);
  ASSERT_TRUE(frugal.ok()) << frugal.status();
  EXPECT_LE(frugal->plan.host_bytes, request.options.host_memory_bytes);
  EXPECT_GT(frugal->plan.counts.recomputed_nodes, fastest->plan.counts.recomputed_nodes);
  EXPECT_EQ(frugal->plan.strategy, "planned");
  EXPECT_TRUE(IsFrugal(frugal->plan) && !IsFrugal(fastest->plan));
  EXPECT_THAT(absl::StrJoin(frugal->plan.notes, "\n"), HasSubstr("host memory holds no plan that the search found: what is fastest where copies take"));
  EXPECT_EQ(PlanToText(frugal->plan), PlanToText(again->plan));
  // What is predicted are the times of the machine's own links.
  const absl::StatusOr<Simulation> simulation = SimulatePlan(frugal->plan, request.machine);
  ASSERT_TRUE(simulation.ok());
  EXPECT_DOUBLE_EQ(frugal->plan.predicted_step_seconds, simulation->step_seconds);
  EXPECT_LE(frugal->plan.lower_bound_seconds, simulation->step_seconds * (1 + 1e-6));
  EXPECT_LE(simulation->step_seconds, 2 * fastest->plan.predicted_step_seconds);
}

TEST(FrugalPlans, HostMemoryThatIsEnoughIsEnoughWithinAnyTime) {
  int needed = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Drawn drawn(seed);
    const absl::StatusOr<Compiled> fastest = Compile(drawn.request);
    if (!fastest.ok() || fastest->plan.host_bytes == 0) continue;
    drawn.request.options.host_memory_bytes = fastest->plan.host_bytes;
    if (!Compile(drawn.request).ok()) continue;  // states of nodes
    drawn.request.options.plan_seconds = 1e-9;
    const absl::StatusOr<Compiled> quick = Compile(drawn.request);
    ASSERT_TRUE(quick.ok()) << quick.status();
    EXPECT_LE(quick->plan.host_bytes, drawn.request.options.host_memory_bytes);
    needed += absl::StrContains(absl::StrJoin(quick->plan.notes, "\n"), "without a limit of time") ? 1 : 0;
  }
  EXPECT_GT(needed, 0);
}

// A plan that is asked for, by what was asked; "3x" and the like are prices of copies.
using Fits = std::function<absl::StatusOr<Compiled>(const std::string& asked)>;

// What FindFrugalPlan asks for in turn, and what it returns.
struct Asked {
  Asked(double plan_seconds, int32_t prepared_nodes, const Fits& fits, int64_t update_part_bytes = 0) {
    const Graph graph;
    const OpRegistry ops = TestOps();
    StubOracle oracle;
    CompileRequest request{graph, ops, oracle, {}, {}, UnitMachine(), {}};
    request.options.plan_seconds = plan_seconds;
    request.options.update_part_bytes = update_part_bytes;
    found = FindFrugalPlan(request, prepared_nodes, OfHostMemory(DoesNotFitError(100, "100")), [&](const CompileRequest& asked, Wanted wanted) {
      EXPECT_EQ(asked.options.plan_seconds, 0);
      std::string what = wanted == Wanted::kFirst ? "first" : asked.options.strategy;
      if (asked.copy_price != 1) what = absl::StrCat(asked.copy_price, "x");
      in_turn.push_back(what);
      return fits(what);
    });
  }
  std::vector<std::string> in_turn;
  absl::StatusOr<Compiled> found;
};

Fits Only(const std::string& fitting) {
  return [fitting](const std::string& asked) -> absl::StatusOr<Compiled> {
    if (asked == fitting) return Compiled();
    return OfHostMemory(DoesNotFitError(200, "200"));
  };
}

TEST(FrugalPlans, WithinATimeWhatNeedsNoSearchIsTriedFirst) {
  EXPECT_THAT(Asked(1, 10, Only("first")).in_turn, ElementsAre("first"));
  EXPECT_THAT(Asked(1, 10, Only("lru")).in_turn, ElementsAre("first", "lru"));
  EXPECT_THAT(Asked(1, 10, Only("200x")).in_turn, ElementsAre("first", "lru", "planned", "200x"));
  EXPECT_THAT(Asked(1, 10, Only("none")).in_turn, ElementsAre("first", "lru", "planned", "200x", "tensorflowmem"));
  EXPECT_THAT(Asked(1, 20'000, Only("none")).in_turn, ElementsAre("first", "lru", "planned", "200x"));
}

TEST(FrugalPlans, CopiesAreTakenForLessDearOnlyWhereTheDearestFit) {
  EXPECT_THAT(Asked(0, 10, Only("200x")).in_turn, ElementsAre("200x", "3x", "12x", "50x"));
  EXPECT_THAT(Asked(0, 20'000, Only("200x")).in_turn, ElementsAre("200x"));
  EXPECT_THAT(Asked(0, 10, Only("lru")).in_turn, ElementsAre("200x", "first", "lru"));
  EXPECT_THAT(Asked(0, 10, Only("none")).in_turn, ElementsAre("200x", "first", "lru", "tensorflowmem"));
}

TEST(FrugalPlans, TheRefusalIsOfWhatNeedsLeastHostMemory) {
  const auto refused = [](int64_t first, int64_t lru) {
    const Fits none = [=](const std::string& asked) -> absl::StatusOr<Compiled> {
      if (asked == "200x") return DoesNotFitError(1, "of a device");
      const int64_t needed = asked == "first" ? first : asked == "lru" ? lru : 300;
      return OfHostMemory(DoesNotFitError(needed, absl::StrCat(needed)));
    };
    return std::string(Asked(0, 10, none).found.status().message());
  };
  EXPECT_EQ(refused(90, 80), "80");
  EXPECT_EQ(refused(70, 80), "70");
  EXPECT_EQ(refused(110, 120), "100");
}

TEST(FrugalPlans, WholeUpdatesAreNotedWherePartsWereAskedFor) {
  constexpr char kWhole[] = "update parts: updates stay whole with lru";
  EXPECT_THAT(Asked(0, 10, Only("lru"), 64).found->plan.notes, Contains(kWhole));
  EXPECT_THAT(Asked(0, 10, Only("lru"), PlanningOptions::kAutoBytes).found->plan.notes, Not(Contains(kWhole)));
  EXPECT_THAT(Asked(0, 10, Only("first"), 64).found->plan.notes, Not(Contains(HasSubstr("update parts"))));
}

// What is not asked for makes no graph large.
TEST(FrugalPlans, AGraphIsLargeByWhatIsLeftOfIt) {
  const absl::StatusOr<Graph> chain = Chain(24), padded = Chain(24, 16'000);
  ASSERT_TRUE(chain.ok() && padded.ok()) << chain.status() << padded.status();
  const OpRegistry ops = TestOps();
  const auto prepared = [&](const Graph& graph) {
    StubOracle oracle;
    CompileRequest request{graph, ops, oracle, {}, {}, UnitMachine(), {}};
    request.machine.to_host_bytes_per_second = request.machine.to_device_bytes_per_second = 160;
    request.signature.fetches = {"b0:0"};
    request.options.device_memory_bytes = int64_t{12} * 64;
    request.options.host_memory_bytes = 1;
    int times = 0;
    PassClock clock([&](const std::string& pass) { times += pass == "prune" ? 1 : 0; });
    request.clock = &clock;
    EXPECT_TRUE(Compile(request).ok());
    return times;
  };
  EXPECT_EQ(prepared(*padded), prepared(*chain));
}

// Beside a disk its buffer alone is more than one byte.
TEST(FrugalPlans, NoneIsLookedForWhereVariablesAloneAreTooMany) {
  int refused = 0, beside_disks = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Drawn drawn(seed);
    drawn.request.disk_tier = seed >= 20;
    int prepared = 0;
    PassClock clock([&](const std::string& pass) { prepared += pass == "prune" ? 1 : 0; });
    drawn.request.clock = &clock;
    const absl::StatusOr<Compiled> fastest = Compile(drawn.request);
    if (!fastest.ok() || (fastest->plan.variables.empty() && !drawn.request.disk_tier)) continue;
    const int once = prepared;
    prepared = 0;
    drawn.request.options.host_memory_bytes = 1;
    EXPECT_TRUE(absl::IsResourceExhausted(Compile(drawn.request).status()));
    const bool variables_alone = fastest->plan.host_bytes - fastest->plan.host_pool_bytes > 64 * static_cast<int64_t>(fastest->plan.variables.size()) + 1;
    EXPECT_TRUE(!(variables_alone || drawn.request.disk_tier) || prepared == once) << prepared;
    refused += variables_alone && !drawn.request.disk_tier ? 1 : 0;
    beside_disks += drawn.request.disk_tier ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(beside_disks, 0);
}

TEST(FrugalPlans, ADiskThatIsNotNeededIsNoted) {
  int not_needed = 0;
  const auto notes = [](const absl::StatusOr<Compiled>& compiled) { return absl::StrJoin(compiled->plan.notes, "\n"); };
  constexpr char kEnough[] = "host memory is enough without a disk tier";
  for (uint32_t seed = 0; seed < 100; seed += 2) {
    SCOPED_TRACE(seed);
    Drawn drawn(seed);
    drawn.request.disk_tier = true;
    drawn.request.options.host_memory_bytes = int64_t{1} << 30;
    const absl::StatusOr<Compiled> roomy = Compile(drawn.request);
    if (!roomy.ok()) continue;
    EXPECT_THAT(notes(roomy), HasSubstr(kEnough));
    drawn.request.options.strategy = "lru";
    const absl::StatusOr<Compiled> other = Compile(drawn.request);
    if (other.ok()) {
      EXPECT_THAT(notes(other), Not(HasSubstr(kEnough))) << "which plans the same beside a disk";
    }
    ++not_needed;
  }
  EXPECT_GT(not_needed, 10);
}

// A plan beside a disk.
Compiled Beside(double step_seconds, int64_t bytes_to_disk = 1) {
  Compiled compiled;
  compiled.plan.tiered = true;
  compiled.plan.predicted_step_seconds = step_seconds;
  compiled.plan.lower_bound_seconds = 1;
  compiled.plan.bytes_to_disk = bytes_to_disk;
  return compiled;
}

// FindPlanBesideDisk: the prices that are tried, and the step that is left. `steps`: of the plan that is there, then by price; 0 is `refused`. A byte
// to the disk takes half of the bound.
struct BesideDisk {
  explicit BesideDisk(const std::vector<double>& steps, int64_t bytes_to_disk = 1, const std::function<void(CompileRequest&)>& change = {},
                      int32_t prepared_nodes = 10, const absl::Status& refused = OfHostMemory(DoesNotFitError(1, "host memory"))) {
    const Graph graph;
    const OpRegistry ops = TestOps();
    StubOracle oracle;
    CompileRequest request{graph, ops, oracle, {}, {}, UnitMachine(), {}};
    request.disk_tier = true;
    request.machine.disk_bytes_per_second = 2;
    if (change) change(request);
    const auto made = [&](const CompileRequest& asked, Wanted wanted) -> absl::StatusOr<Compiled> {
      EXPECT_TRUE(wanted == Wanted::kFastest);
      EXPECT_TRUE(asked.work > 0 && asked.work < 1);
      prices.push_back(asked.copy_price);
      const double step = prices.size() < steps.size() ? steps[prices.size()] : 0;
      if (step == 0) return refused;
      return Beside(step);
    };
    found = FindPlanBesideDisk(request, prepared_nodes, Beside(steps[0], bytes_to_disk), made);
  }
  double step_seconds() const { return found->plan.predicted_step_seconds; }
  std::vector<double> prices;
  absl::StatusOr<Compiled> found;
};

TEST(FrugalPlans, BesideADiskCopiesAreTakenForDearAsLongAsThatGains) {
  const BesideDisk gains({4, 3, 2, 1.5});
  EXPECT_THAT(gains.prices, ElementsAre(2, 4, 8));
  EXPECT_EQ(gains.step_seconds(), 1.5);
  EXPECT_THAT(gains.found->plan.notes, ElementsAre("beside the disk this is faster: what is fastest where copies take 8 times as long"));
  const BesideDisk once({4, 3, 3.5});
  EXPECT_THAT(once.prices, ElementsAre(2, 4));
  EXPECT_EQ(once.step_seconds(), 3);
  const BesideDisk never({4, 5});
  EXPECT_THAT(never.prices, ElementsAre(2));
  EXPECT_EQ(never.step_seconds(), 4);
  const BesideDisk near({4, 1.01});
  EXPECT_THAT(near.prices, ElementsAre(2)) << "there is nothing left to gain";
  EXPECT_EQ(BesideDisk({4}).step_seconds(), 4) << "another that does not fit is no error";
  const BesideDisk dearer({4, 0, 3});
  EXPECT_THAT(dearer.prices, ElementsAre(2, 4, 8)) << "what takes copies for dearer may fit";
  EXPECT_EQ(dearer.step_seconds(), 3);
  EXPECT_THAT(BesideDisk({1, 1}, 2).prices, ElementsAre(2)) << "the bound is what the disk takes for this plan alone";
}

TEST(FrugalPlans, WhatIsNotAMatterOfRoomIsToldBesideADisk) {
  for (const absl::Status& refused : {absl::CancelledError("stopped"), absl::InternalError("a bug")}) {
    const BesideDisk none({4, 0, 3}, 1, {}, 10, refused);
    EXPECT_EQ(none.found.status(), refused);
    EXPECT_THAT(none.prices, ElementsAre(2));
  }
  EXPECT_EQ(BesideDisk({4, 0, 3}, 1, {}, 10, absl::AbortedError("nothing faster")).step_seconds(), 3);
}

TEST(FrugalPlans, NothingIsTakenForDearWhereNoDiskIsWaitedFor) {
  using testing::IsEmpty;
  EXPECT_THAT(BesideDisk({4, 3}, 0).prices, IsEmpty());
  EXPECT_THAT(BesideDisk({1.01, 1}).prices, IsEmpty());
  EXPECT_THAT(BesideDisk({4, 3}, 1, [](CompileRequest& request) { request.disk_tier = false; }).prices, IsEmpty());
  EXPECT_THAT(BesideDisk({4, 3}, 1, [](CompileRequest& request) { request.options.plan_seconds = 1; }).prices, IsEmpty());
  EXPECT_THAT(BesideDisk({4, 3}, 1, [](CompileRequest& request) { request.work = 0.5; }).prices, IsEmpty());
  EXPECT_THAT(BesideDisk({4, 3}, 1, {}, 20'000).prices, IsEmpty());
}

}  // namespace
}  // namespace millrace
