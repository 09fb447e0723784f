#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/lazy_fanout.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "passes/access/does_not_fit.h"
#include "passes/at_once.h"
#include "passes/emit/build_plan.h"
#include "passes/emit/tier_host_memory.h"
#include "passes/frugal_plans.h"
#include "passes/host_budget.h"
#include "passes/less_memory.h"
#include "passes/order/order_levels.h"
#include "passes/order/partition.h"
#include "passes/plan_devices.h"
#include "passes/plan_found.h"
#include "passes/plan_search.h"
#include "passes/rewrite/whole_update_times.h"
#include "passes/strategy.h"
#include "passes/swaps/choose_swaps.h"
#include "passes/swaps/swap_tflms.h"
#include "passes/swaps/tflms_values.h"
#include "passes/urgent_copies.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"

namespace millrace {
namespace {

// Partition sizes tried when none is asked for: the largest plans fastest to run come from few cuts, the smallest
// memory from many.
constexpr int64_t kPartitionSizes[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
// Without a budget there is nothing to choose by; the size at which the paper's figures start.
constexpr int64_t kDefaultPartitionSize = 20;

void NoteLargestNode(const Graph& graph, const DeviceGraph& device, GraphSummary& summary) {
  for (int32_t i = 0; i < device.access.num_operations(); ++i) {
    int64_t bytes = device.access.aligned_scratch(i);
    for (const Access& access : device.access.of(i)) bytes += device.access.aligned_bytes(access.storage);
    if (bytes <= summary.largest_node_bytes) continue;
    summary.largest_node_bytes = bytes;
    summary.largest_node = graph.node(device.operations[i].node()).name;
  }
}

// The rewritten graph says where each node was placed; what has its home in host memory asks for what it asked.
void NameDevices(const CompileRequest& request, Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    if (!node.removed && node.device != kHostDevice) node.requested_device = absl::StrCat("/", DeviceName(request, node.device));
  }
}

// A prepared graph, which several orders may share.
struct SharedGraph {
  explicit SharedGraph(Prepared& prepared)
      : graph(std::make_shared<Graph>(std::move(prepared.graph))),
        inferred(std::make_shared<InferenceResult>(std::move(prepared.inferred))),
        fanout(std::in_place, *graph) {}
  void GiveBackTo(Prepared& prepared) {
    prepared.graph = std::move(*graph);
    prepared.inferred = std::move(*inferred);
  }
  // The last order is made: its plan has the graph alone.
  void Leave() {
    fanout.reset();
    graph.reset();
  }
  std::shared_ptr<Graph> graph;
  std::shared_ptr<InferenceResult> inferred;
  std::optional<LazyFanout> fanout;
};

// The graph in the order of one partition size; 0 keeps creation order in one partition.
absl::StatusOr<OrderedGraph> OrderOnce(const CompileRequest& request, Strategy::Order order, SharedGraph& shared,
                                       int64_t partition_size) {
  const PlanningOptions& options = request.options;
  const PassClock::Run run(request.clock, "order");
  OrderedGraph ordered;
  ordered.graph = shared.graph;
  ordered.inferred = shared.inferred;
  ordered.partition_size = partition_size;
  if (order == Strategy::Order::kLevels) {
    MR_ASSIGN_OR_RETURN(LevelPartitioning levels, PartitionByLevels(*ordered.graph, options.tflms));
    ordered.partitioning = std::move(levels.partitioning);
    ordered.notes = std::move(levels.notes);
  } else if (partition_size > 0) {
    MR_ASSIGN_OR_RETURN(ordered.partitioning,
                        PartitionDepthFirst(*ordered.graph, options.num_devices(), partition_size, *shared.fanout));
  } else {
    MR_ASSIGN_OR_RETURN(ordered.partitioning, KeepCreationOrder(*ordered.graph, *shared.fanout));
  }
  return ordered;
}

// Graph and types of what was prepared, to be changed: they themselves when nothing looks at them after this, else copies.
Prepared OwnGraph(Prepared& prepared, bool last) {
  Prepared own;
  own.graph = last ? std::move(prepared.graph) : prepared.graph.Clone();
  own.inferred = last ? std::move(prepared.inferred) : prepared.inferred;
  return own;
}

// The only order of what was prepared, or one of a copy.
absl::StatusOr<OrderedGraph> OrderAlone(const CompileRequest& request, Strategy::Order order, Prepared& prepared, bool last) {
  Prepared own = OwnGraph(prepared, last);
  SharedGraph shared(own);
  return OrderOnce(request, order, shared, 0);
}

bool AnyBudget(const PlanningOptions& options) {
  for (int32_t d = 0; d < options.num_devices(); ++d) {
    if (options.BudgetOf(d) > 0) return true;
  }
  return false;
}

// The plan of a graph whose order is chosen: it decides all lifetimes, so everything here is about memory.
absl::StatusOr<Compiled> PlanOrdered(const CompileRequest& request, const Prepared& prepared, const Strategy& strategy,
                                     OrderedGraph ordered, const PlanLimits& limits,
                                     std::vector<DevicePlan> looked = {}) {
  const PlanningOptions& options = request.options;
  MR_RETURN_IF_ERROR(VerifyPartitioning(*ordered.graph, ordered.partitioning));
  Compiled compiled;
  compiled.summary = prepared.summary;
  compiled.placement_notes = prepared.placement_notes;
  MR_ASSIGN_OR_RETURN(std::vector<DevicePlan> devices,
                      DecideDevices(request, strategy, ordered.partitioning, *ordered.inferred, limits, *ordered.graph, std::move(looked)));
  // Copies are for this plan alone.
  compiled.graph = ordered.graph.use_count() > 1 ? ordered.graph->Clone() : std::move(*ordered.graph);
  MR_RETURN_IF_ERROR(InsertCopies(request, devices, compiled.graph));
  for (const DevicePlan& device : devices) NoteLargestNode(compiled.graph, device.device, compiled.summary);
  // Lanes: what runs and what it waits for. Without a limit the host pool has room enough that devices do not wait for its slots.
  {
    const PassClock::Run run(request.clock, "build plan");
    const bool late_start = strategy.name == "tensorflowmem" && !options.early_start;
    std::vector<std::vector<CopyTimes>> times;
    if (devices.size() > 1 && options.host_memory_bytes == 0) {
      times = ReplayDevices(compiled.graph, ordered.partitioning.order, request.machine, devices).items;
    }
    compiled.plan = BuildPlan({compiled.graph, request.ops, request.signature, request.machine,
                               ordered.partitioning.order, devices, late_start, std::move(times)});
  }
  compiled.plan.strategy = strategy.name;
  compiled.plan.notes = std::move(ordered.notes);
  compiled.plan.partition_size = ordered.partition_size;
  compiled.plan.counts.recomputed_nodes = ordered.recomputed_nodes;
  double lower_bound_seconds = 0;
  for (size_t d = 0; d < devices.size(); ++d) {
    std::vector<std::string>& told = devices[d].choice.notes;
    std::move(told.begin(), told.end(), std::back_inserter(compiled.plan.notes));
    compiled.plan.devices[d].name = DeviceName(request, static_cast<int32_t>(d));
    compiled.plan.devices[d].budget_bytes = options.BudgetOf(static_cast<int32_t>(d));
    lower_bound_seconds = std::max(lower_bound_seconds, devices[d].lower_bound_seconds);
  }
  if (devices.size() > 1) NameDevices(request, compiled.graph);
  // The host's budget is planned from the finished copies: by the same policy with a disk below it, else refused.
  if (request.disk_tier && options.host_memory_bytes > 0) {
    if (strategy.name == "planned" && AnyBudget(options) && CheckHostMemory(compiled.plan, options.host_memory_bytes).ok()) {
      compiled.plan.notes.push_back("host memory is enough without a disk tier, beside which updates stay whole and variables that stay on a device "
                                    "do not leave it in mid-step: without it the step may be shorter");
    }
    MR_RETURN_IF_ERROR(TierHostMemory(request.machine, options.host_memory_bytes, StatesOf(request.graph, request.ops), &compiled.plan));
  } else {
    MR_RETURN_IF_ERROR(CheckHostMemory(compiled.plan, options.host_memory_bytes));
  }
  const PassClock::Run run(request.clock, "simulate");
  MR_RETURN_IF_ERROR(FillPredictions(request.machine, &compiled.plan));
  if (compiled.plan.tiered) {
    const int64_t disk_bytes = std::max(compiled.plan.bytes_to_disk, compiled.plan.bytes_from_disk);
    lower_bound_seconds =
        std::max(lower_bound_seconds, static_cast<double>(disk_bytes) / request.machine.disk_bytes_per_second);
  }
  compiled.plan.lower_bound_seconds = lower_bound_seconds;
  return compiled;
}

// Partition sizes to try, 0 for creation order uncut. The fastest plan wins.
std::vector<int64_t> PartitionSizes(const Strategy& strategy, const PlanningOptions& options) {
  if (strategy.order == Strategy::Order::kCreation || strategy.order == Strategy::Order::kLevels) return {0};
  if (options.partition_size != 0) return {options.partition_size};
  if (!AnyBudget(options)) return {kDefaultPartitionSize};
  return {std::begin(kPartitionSizes), std::end(kPartitionSizes)};
}

// Plans every partition size, the largest first: it has fewest copies, and what has so many that they alone take longer
// than its step need not be planned. Of errors the smallest size's says most about what is missing. What does not fit is
// no error here. With `last`, nothing is tried after this.
absl::Status TrySizes(const CompileRequest& request, Prepared& prepared, const Strategy& strategy,
                      const PlanLimits& limits, bool last, absl::StatusOr<Compiled>& best) {
  std::vector<int64_t> sizes = PartitionSizes(strategy, request.options);
  std::reverse(sizes.begin(), sizes.end());
  SharedGraph shared(prepared);
  double last_seconds = 0;
  for (int64_t size : sizes) {
    // The next size takes about what the last one took.
    if (best.ok() && limits.deadline.passed(last_seconds)) break;
    const double left = limits.deadline.seconds_left();
    MR_ASSIGN_OR_RETURN(OrderedGraph ordered, OrderOnce(request, strategy.order, shared, size));
    if (last && size == sizes.back()) shared.Leave();
    PlanLimits faster = limits;
    if (best.ok()) faster.known_seconds = best->plan.predicted_step_seconds;
    absl::StatusOr<Compiled> compiled = PlanOrdered(request, prepared, strategy, std::move(ordered), faster);
    if (std::isfinite(left)) last_seconds = left - limits.deadline.seconds_left();
    if (absl::IsAborted(compiled.status())) continue;
    if (!compiled.ok() && !absl::IsResourceExhausted(compiled.status())) return compiled.status();
    const bool slower =
        !compiled.ok() || (best.ok() && compiled->plan.predicted_step_seconds > best->plan.predicted_step_seconds);
    if (!best.ok() || !slower) best = std::move(compiled);
  }
  if (!last) shared.GiveBackTo(prepared);
  return absl::OkStatus();
}

// Of the work that another variant of a graph is worth: for its search. The same, for the second look at several devices.
constexpr double kWorkForOthers = 0.3, kWorkForWaits = 0.5;

// Writing the plan down and verifying it takes one to two times what the passes before the search took, graphs of 10,000 nodes to a
// million: storages' names, addresses, instances, steps. They measure the machine and its load, too.
constexpr double kWritingDown = 2;

double MachineSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Says so where the time for planning ended the search. `left`: to it, seconds, when the passes before it were done.
void NoteDeadline(const CompileRequest& request, const PlanLimits& limits, double left, Compiled& compiled) {
  if (!limits.deadline.told()) return;
  const auto milliseconds = [](double seconds) { return absl::StrCat(std::llround(1e3 * seconds), " ms"); };
  const std::string asked = milliseconds(request.options.plan_seconds);
  compiled.plan.notes.push_back(
      left > 0 ? absl::StrCat("the search ended after ", milliseconds(left), ": the rest of the ", asked, " for planning is for the passes before and after it")
               : absl::StrCat("the ", asked, " for planning leave no time for a search beside the passes before and after it: the first plan that fits"));
}

// What was asked for and is not done here. (kAuto asks for what is worth it, which nothing is then.)
void NoteWhatIsLeftOut(const CompileRequest& request, ExecutionPlan& plan) {
  const PlanningOptions& options = request.options;
  if (options.strategy != "planned") return;
  const char* whole = request.disk_tier ? "with a disk tier" : !AnyBudget(options) ? "without a budget" : nullptr;
  if (options.update_part_bytes > 0 && whole != nullptr) plan.notes.push_back(absl::StrCat("update parts: updates stay whole ", whole));
}

WorkBudget PartOfWork(const Prepared& prepared, double part) {
  return WorkBudget(static_cast<int64_t>(part * static_cast<double>(SearchWork(prepared.graph.num_nodes()))));
}

// The search plans quickly; what it finds is planned in full, for which it leaves half of the time.
PlanLimits LimitsOfSearch(const PlanningOptions& options, const PlanLimits& limits, WorkBudget& work) {
  PlanLimits search = limits;
  search.work = &work;
  if (options.plan_seconds > 0) search.deadline = limits.deadline.Earlier(std::max(0.0, limits.deadline.seconds_left()) / 2);
  return search;
}

// A graph as prepared for a request.
struct Variant {
  const CompileRequest* request = nullptr;
  Prepared* prepared = nullptr;
};

// The fastest plan of what the search finds for the variants of one graph, on one device with a budget. The first is worth all the work, and
// its errors count.
absl::StatusOr<Compiled> FindFastest(const std::vector<Variant>& variants, const Strategy& strategy, const PlanLimits& limits) {
  const PlanningOptions& options = variants[0].request->options;
  const int64_t worth = SearchWork(variants[0].prepared->graph.num_nodes());
  WorkBudget work(worth);
  std::vector<absl::StatusOr<std::vector<FoundOrder>>> searched;
  for (size_t v = 0; v < variants.size(); ++v) searched.push_back(absl::ResourceExhaustedError("there was no time to search this"));
  std::vector<int64_t> spent(variants.size(), 0);
  RunWithin(limits.deadline, variants.size(), [&](size_t v) {
    const auto& [request, prepared] = variants[v];
    WorkBudget own = PartOfWork(*prepared, v == 0 ? 1 : kWorkForOthers);
    const int64_t before = own.left();
    searched[v] = SearchOrders(*request, *prepared, strategy, LimitsOfSearch(options, limits, own));
    spent[v] = before - own.left();
    return searched[v].ok();
  });
  // They ran beside each other.
  work.Spend(*std::max_element(spent.begin(), spent.end()));
  std::vector<FoundOrder> found;
  std::vector<size_t> variant_of;
  for (size_t v = 0; v < variants.size(); ++v) {
    if (v > 0 && absl::IsResourceExhausted(searched[v].status())) continue;
    MR_RETURN_IF_ERROR(searched[v].status());
    std::move(searched[v]->begin(), searched[v]->end(), std::back_inserter(found));
    variant_of.resize(found.size(), v);
  }
  PlanLimits plans = limits;
  plans.work = &work;
  plans.residents_leave = !variants[0].request->disk_tier;
  std::vector<size_t> fastest;
  {
    const PassClock::Run run(variants[0].request->clock, "choose swaps");
    fastest = PlanFound(options.BudgetOf(0), plans, worth, static_cast<int64_t>((1 - variants[0].request->work) * static_cast<double>(worth)), found);
  }
  if (limits.work != nullptr) limits.work->Spend(worth - work.left());
  absl::StatusOr<Compiled> best = absl::InternalError("nothing was found");
  if (fastest.empty() && std::isfinite(limits.known_seconds)) best = absl::AbortedError("a faster plan is known");
  for (size_t k = 0; k < fastest.size() && !best.ok(); ++k) {
    auto& [ordered, looked] = found[fastest[k]];
    const auto& [request, prepared] = variants[variant_of[fastest[k]]];
    best = PlanOrdered(*request, *prepared, strategy, std::move(ordered), limits, std::move(looked));
    if (!best.ok() && !absl::IsResourceExhausted(best.status())) return best;
  }
  return best;
}

// One search for what is to be planned over several devices, or without a budget, and its plan.
struct View {
  View(const Variant& planned, bool waits_hide, double part, bool last, OrdersOfSeveral which = OrdersOfSeveral::kFew)
      : of(planned), own(OwnGraph(*planned.prepared, last)), waits_hide_copies(waits_hide), orders(which), part_of_work(part), work(PartOfWork(own, part)) {}

  Variant of;
  Prepared own;  // graph and types
  bool waits_hide_copies;
  OrdersOfSeveral orders;
  double part_of_work;
  WorkBudget work;
  absl::StatusOr<Compiled> plan = absl::ResourceExhaustedError("there was no time to plan this");
  double seconds = std::numeric_limits<double>::infinity();  // of the plan's step
};

// It does not fit, or a faster one is known.
bool IsNoPlan(const absl::Status& status) { return absl::IsResourceExhausted(status) || absl::IsAborted(status); }

// A faster plan. Of failures, that a faster one is known says more than that one does not fit.
bool IsBetter(const absl::StatusOr<Compiled>& plan, const absl::StatusOr<Compiled>& best) {
  if (!plan.ok()) return absl::IsAborted(plan.status()) && absl::IsResourceExhausted(best.status());
  return !best.ok() || plan->plan.predicted_step_seconds < best->plan.predicted_step_seconds;
}

// Plans in full what the search finds: what looks fastest, and what that was before values were computed again.
absl::StatusOr<Compiled> PlanEachInFull(View& view, const Strategy& strategy, const PlanLimits& limits, std::vector<FoundOrder> found) {
  constexpr size_t kMost = 2;
  found.resize(std::min(found.size(), kMost));
  const int64_t each = view.work.left() / static_cast<int64_t>(std::max<size_t>(found.size(), 1));
  absl::StatusOr<Compiled> best = absl::InternalError("nothing was found");
  for (FoundOrder& order : found) {
    if (best.ok() && limits.deadline.passed()) break;
    WorkBudget own(each);
    PlanLimits full = limits;
    full.work = &own;
    absl::StatusOr<Compiled> compiled =
        PlanOrdered(*view.of.request, *view.of.prepared, strategy, std::move(order.ordered), full, std::move(order.looked));
    view.work.Spend(each - own.left());
    if (!compiled.ok() && !IsNoPlan(compiled.status())) return compiled.status();
    if (absl::IsInternal(best.status()) || IsBetter(compiled, best)) best = std::move(compiled);
  }
  return best;
}

absl::StatusOr<Compiled> PlanView(View& view, const Strategy& strategy, const PlanLimits& limits) {
  PlanLimits of_view = limits;
  of_view.waits_hide_copies = view.waits_hide_copies;
  absl::StatusOr<std::vector<FoundOrder>> found =
      SearchOrders(*view.of.request, view.own, strategy, LimitsOfSearch(view.of.request->options, of_view, view.work), view.orders);
  MR_RETURN_IF_ERROR(found.status());
  return PlanEachInFull(view, strategy, of_view, *std::move(found));
}

// The fastest of them and of `best`. What does not fit is an error only where nothing does, and then the first one's.
absl::Status PlanViews(std::vector<View>& views, const Strategy& strategy, const PlanLimits& limits, std::optional<absl::StatusOr<Compiled>>& best) {
  std::vector<int64_t> spent(views.size(), 0);
  RunWithin(limits.deadline, views.size(), [&](size_t v) {
    const int64_t before = views[v].work.left();
    views[v].plan = PlanView(views[v], strategy, limits);
    spent[v] = before - views[v].work.left();
    if (views[v].plan.ok()) views[v].seconds = views[v].plan->plan.predicted_step_seconds;
    return views[v].plan.ok();
  });
  if (limits.work != nullptr && !spent.empty()) limits.work->Spend(*std::max_element(spent.begin(), spent.end()));
  for (View& view : views) {
    if (!view.plan.ok() && !IsNoPlan(view.plan.status())) return view.plan.status();
    if (!best || IsBetter(view.plan, *best)) best = std::move(view.plan);
  }
  return absl::OkStatus();
}

// Some device waits for copies or other devices, or computes again.
bool MayBeFaster(const ExecutionPlan& plan) {
  constexpr double kWaits = 1.02;
  return plan.counts.recomputed_nodes > 0 || plan.predicted_step_seconds > kWaits * plan.predicted_compute_seconds;
}

// Of the variant that has the fastest plan, each of its views again.
absl::Status TryAllOrders(std::vector<View>& views, const Strategy& strategy, const PlanLimits& limits, std::optional<absl::StatusOr<Compiled>>& best) {
  const Variant fastest = std::min_element(views.begin(), views.end(), [](const View& a, const View& b) { return a.seconds < b.seconds; })->of;
  std::vector<View> again;
  for (const View& view : views) {
    if (view.of.request == fastest.request) again.emplace_back(fastest, view.waits_hide_copies, view.part_of_work, false, OrdersOfSeveral::kAll);
  }
  PlanLimits faster = limits;
  if (best->ok()) faster.known_seconds = (*best)->plan.predicted_step_seconds;
  return PlanViews(again, strategy, faster, best);
}

// Over several devices, or without a budget. A step over several devices, with all that they wait for each other, is what full plans alone
// tell; whether copies are hidden while a device waits, too. So both are tried, the second of the variants that are about as fast by the first.
// Behind them, of graphs that are not large, one search among all orders, for what is faster than their plan.
absl::StatusOr<Compiled> FindFastestOfSeveral(const std::vector<Variant>& variants, const Strategy& strategy, const PlanLimits& limits) {
  constexpr double kAboutAsFast = 1.1;
  constexpr int32_t kMostNodesOfAllOrders = 15'000;
  const PlanningOptions& options = variants[0].request->options;
  const bool waits = options.num_devices() > 1 && AnyBudget(options), alone = variants.size() == 1;
  const bool all_orders =
      options.num_devices() > 1 && std::isinf(limits.known_seconds) && variants[0].prepared->graph.num_nodes() <= kMostNodesOfAllOrders;
  const double work = variants[0].request->work;
  const auto is_over = [&limits](const absl::StatusOr<Compiled>& best) { return best.ok() && limits.deadline.passed(); };
  std::vector<View> views;
  for (const Variant& variant : variants) views.emplace_back(variant, false, work, !waits && !all_orders);
  if (waits && alone) views.emplace_back(variants[0], true, kWorkForWaits * work, !all_orders);
  std::optional<absl::StatusOr<Compiled>> best;
  MR_RETURN_IF_ERROR(PlanViews(views, strategy, limits, best));
  if (waits && !alone && !is_over(*best)) {
    double fastest = std::numeric_limits<double>::infinity();
    for (const View& view : views) fastest = std::min(fastest, view.seconds);
    std::vector<View> others;
    for (const View& view : views) {
      if (view.seconds <= kAboutAsFast * fastest) others.emplace_back(view.of, true, kWorkForWaits * work, !all_orders);
    }
    MR_RETURN_IF_ERROR(PlanViews(others, strategy, limits, best));
    std::move(others.begin(), others.end(), std::back_inserter(views));
  }
  if (all_orders && !is_over(*best) && (!best->ok() || MayBeFaster((*best)->plan))) MR_RETURN_IF_ERROR(TryAllOrders(views, strategy, limits, best));
  return *std::move(best);
}

// What tflms says of a graph whose levels do not fit, told of the levels all the same.
absl::StatusOr<std::vector<std::string>> NotesOfLevels(const CompileRequest& request, const Strategy& tflms, Prepared& prepared,
                                                       const PlanLimits& limits, const std::string& why) {
  CompileRequest unbounded = request;
  unbounded.options.device_memory_bytes = 0;
  unbounded.options.device_memory_bytes_of.clear();
  Strategy describe = tflms;
  describe.swaps = [&why](const SwapRequest& swaps) -> absl::StatusOr<SwapChoice> {
    SwapChoice choice = KeepEverything(swaps.graph);
    choice.notes = DescribeUnswapped(swaps, why);
    return choice;
  };
  PlanLimits quick = limits;
  quick.effort = PlanEffort::kQuick;
  quick.deadline = Deadline();
  MR_ASSIGN_OR_RETURN(OrderedGraph ordered, OrderAlone(unbounded, Strategy::Order::kLevels, prepared, true));
  MR_ASSIGN_OR_RETURN(std::vector<DevicePlan> devices,
                      DecideDevices(unbounded, describe, ordered.partitioning, *ordered.inferred, quick, *ordered.graph));
  std::vector<std::string> notes = std::move(ordered.notes);
  for (DevicePlan& device : devices) std::move(device.choice.notes.begin(), device.choice.notes.end(), std::back_inserter(notes));
  return notes;
}

// Levels hold everything that could run at once. Where nothing goes backwards (initialisers), creation order may fit as it
// is: the original leaves such graphs alone. `missing`: what levels lack.
absl::StatusOr<Compiled> PlanAsCreated(const CompileRequest& request, Prepared& prepared, const Strategy& tflms,
                                       const PlanLimits& limits, const absl::Status& missing) {
  Strategy as_created = tflms;
  as_created.order = Strategy::Order::kCreation;
  as_created.swaps = [](const SwapRequest& swaps) -> absl::StatusOr<SwapChoice> { return KeepEverything(swaps.graph); };
  MR_ASSIGN_OR_RETURN(OrderedGraph ordered, OrderAlone(request, as_created.order, prepared, false));
  absl::StatusOr<Compiled> compiled = PlanOrdered(request, prepared, as_created, std::move(ordered), limits);
  const int64_t levels_bytes = NeededBytes(missing);
  if (compiled.ok()) {
    MR_ASSIGN_OR_RETURN(compiled->plan.notes,
                        NotesOfLevels(request, tflms, prepared, limits,
                                      absl::StrCat("levels need ", FormatBytes(levels_bytes),
                                                   " and do not fit, creation order does: swapping is not needed")));
    return compiled;
  }
  // The message is about the order that needs less.
  const int64_t created_bytes = NeededBytes(compiled.status());
  const bool of_the_same = IsOfHostMemory(compiled.status()) == IsOfHostMemory(missing);
  if (of_the_same && created_bytes > 0 && created_bytes < levels_bytes) {
    return WithMessage(compiled.status(), absl::StrCat(compiled.status().message(), "; that is in creation order, without swapping: levels need ",
                                                       levels_bytes, " (", FormatBytes(levels_bytes), ")"));
  }
  return missing;
}

absl::StatusOr<Compiled> FindPlan(const CompileRequest& request, Prepared& prepared, const PlanLimits& limits) {
  MR_ASSIGN_OR_RETURN(const Strategy* strategy, FindStrategy(request.options.strategy));
  const bool best_order = strategy->order == Strategy::Order::kBest;
  if (best_order && request.options.num_devices() == 1 && request.options.BudgetOf(0) > 0) {
    return FindFastest({{&request, &prepared}}, *strategy, limits);
  }
  if (strategy->order == Strategy::Order::kLevels) {
    MR_RETURN_IF_ERROR(CheckTflmsFilters(request.graph, prepared.graph, request.options.tflms));
  }
  if (best_order) return FindFastestOfSeveral({{&request, &prepared}}, *strategy, limits);
  absl::StatusOr<Compiled> best = absl::InternalError("no partition size was tried");
  const bool may_tighten = strategy->last_resort && request.options.partition_size == 0;
  const bool levels = strategy->order == Strategy::Order::kLevels;
  MR_RETURN_IF_ERROR(TrySizes(request, prepared, *strategy, limits, !may_tighten && !levels, best));
  if (absl::IsResourceExhausted(best.status()) && may_tighten) {
    Strategy tight = *strategy;
    tight.swaps = strategy->last_resort;
    const absl::Status missing = best.status();
    MR_RETURN_IF_ERROR(TrySizes(request, prepared, tight, limits, !levels, best));
    if (!best.ok()) best = missing;
  }
  if (levels && absl::IsResourceExhausted(best.status())) return PlanAsCreated(request, prepared, *strategy, limits, best.status());
  return best;
}

// Updates in parts may be the wrong choice: whole ones leave fewer nodes to search among, and where both orders come near their
// bounds one bound may be lower; of single ops it is more of them. So both are planned, and the faster taken.
absl::StatusOr<Compiled> FindPlanOfParts(const CompileRequest& request, Prepared& prepared, const PlanLimits& limits) {
  if (limits.deadline.passed()) return FindPlan(request, prepared, limits);
  MR_ASSIGN_OR_RETURN(const Strategy* strategy, FindStrategy(request.options.strategy));
  WholeUpdateTimes times(prepared.graph, request.ops, request.oracle);
  CompileRequest whole_request{request.graph,   request.ops,            times,
                               request.signature, request.options,      request.machine,
                               request.variable_types, request.disk_tier, request.clock};
  whole_request.options.update_part_bytes = 0;
  whole_request.now = request.now;
  whole_request.copy_price = request.copy_price;
  whole_request.work = request.work;
  whole_request.verify_phases = request.verify_phases;
  MR_ASSIGN_OR_RETURN(Prepared prepared_whole, Prepare(whole_request));
  const std::vector<Variant> variants = {{&request, &prepared}, {&whole_request, &prepared_whole}};
  return request.options.num_devices() == 1 ? FindFastest(variants, *strategy, limits) : FindFastestOfSeveral(variants, *strategy, limits);
}

// `nodes`: of the graph as prepared.
absl::StatusOr<Compiled> CompileOnce(CompileRequest request, Wanted wanted, PlanLimits limits, int32_t& nodes) {
  const bool first = wanted == Wanted::kFirst, limited = request.options.plan_seconds > 0 && !first;
  if (!request.now) request.now = MachineSeconds;
  if (first) limits.deadline = Deadline(request.now, request.now());
  if (limited) limits.deadline = Deadline(request.now, request.now() + request.options.plan_seconds);
  MR_ASSIGN_OR_RETURN(Prepared prepared, Prepare(request));
  nodes = prepared.graph.num_nodes();
  if (limited) {
    limits.deadline = limits.deadline.Earlier(kWritingDown * (request.options.plan_seconds - limits.deadline.seconds_left()));
  }
  const double left = limits.deadline.seconds_left();
  if (request.signature.ask) {
    request.signature.fetches = prepared.asked;
    request.signature.targets.clear();
  }
  const bool chosen_parts = prepared.sliced_updates > 0 && request.options.update_part_bytes == PlanningOptions::kAutoBytes;
  MR_ASSIGN_OR_RETURN(Compiled compiled, chosen_parts ? FindPlanOfParts(request, prepared, limits)
                                                      : FindPlan(request, prepared, limits));
  compiled.stopped = prepared.stopped;
  if (limited) NoteDeadline(request, limits, left, compiled);
  NoteWhatIsLeftOut(request, compiled.plan);
  return compiled;
}

}  // namespace

absl::StatusOr<Compiled> Compile(CompileRequest request) {
  MR_ASSIGN_OR_RETURN(const Strategy* const strategy, FindStrategy(request.options.strategy));
  const PlanClock now = request.now ? request.now : MachineSeconds;
  const double begun = now();
  int32_t nodes = 0;
  const auto compile = [&nodes](CompileRequest of, Wanted wanted) { return CompileOnce(std::move(of), wanted, {}, nodes); };
  absl::StatusOr<Compiled> compiled = compile(request, Wanted::kFastest);
  if (IsOfHostMemory(compiled.status()) && strategy->order == Strategy::Order::kBest) {
    compiled = FindFrugalPlan(request, nodes, compiled.status(), compile);
  } else if (compiled.ok() && strategy->order == Strategy::Order::kBest) {
    MR_ASSIGN_OR_RETURN(compiled, FindPlanBesideDisk(request, nodes, *std::move(compiled), compile));
    const auto compile_for_less = [](CompileRequest of, const PlanLimits& limits) {
      int32_t same = 0;
      return CompileOnce(std::move(of), Wanted::kFastest, limits, same);
    };
    const Deadline deadline = request.options.plan_seconds > 0 ? Deadline(now, begun + request.options.plan_seconds) : Deadline();
    compiled = FindPlanForLess(request, nodes, *std::move(compiled), now() - begun, deadline, compile_for_less);
  }
  MR_RETURN_IF_ERROR(compiled.status());
  // The plan is checked from its steps alone, by code that shares nothing with the passes.
  const PassClock::Run run(request.clock, "verify plan");
  MR_RETURN_IF_ERROR(VerifyPlan(compiled->plan));
  return compiled;
}

}  // namespace millrace
