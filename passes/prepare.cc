#include "passes/prepare.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/graph_summary.h"
#include "millrace/status.h"
#include "passes/access/storage.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/guard_failures.h"
#include "passes/control_flow/inline_functions.h"
#include "passes/control_flow/keep_predicates.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/control_flow/lower_collectives.h"
#include "passes/control_flow/lower_conditionals.h"
#include "passes/control_flow/lower_function_ops.h"
#include "passes/control_flow/lower_sparse_matrices.h"
#include "passes/control_flow/lower_switches.h"
#include "passes/control_flow/symbolic_gradients.h"
#include "passes/control_flow/xla_ops.h"
#include "passes/devices/add_send_recv.h"
#include "passes/devices/place_devices.h"
#include "passes/initial_shapes.h"
#include "passes/rewrite/accumulate_products.h"
#include "passes/rewrite/accumulate_reductions.h"
#include "passes/rewrite/bypass_identities.h"
#include "passes/rewrite/bypass_unused.h"
#include "passes/rewrite/channels_first.h"
#include "passes/rewrite/fold_pads.h"
#include "passes/rewrite/fuse_averages.h"
#include "passes/rewrite/fuse_biases.h"
#include "passes/rewrite/fuse_elementwise.h"
#include "passes/rewrite/fuse_norms.h"
#include "passes/rewrite/gather_updates.h"
#include "passes/rewrite/keep_accumulators.h"
#include "passes/rewrite/keep_stages.h"
#include "passes/rewrite/known_words.h"
#include "passes/rewrite/lower_prints.h"
#include "passes/rewrite/lower_strings.h"
#include "passes/rewrite/lower_xla.h"
#include "passes/rewrite/negate_last.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/pack_rows.h"
#include "passes/rewrite/slice_updates.h"
#include "passes/shapes/effects.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/needed_feeds.h"
#include "passes/shapes/per_op.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/verify_graph.h"

namespace millrace {
namespace {

PlaceOptions PlaceOptionsOf(const CompileRequest& request) {
  PlaceOptions options;
  for (int32_t d = 0; d < request.options.num_devices(); ++d) options.devices.push_back(DeviceName(request, d));
  options.supports = [&request](const std::string& op, int32_t device) { return request.oracle.Supports(op, device); };
  return options;
}

absl::Status Place(const CompileRequest& request, Prepared& prepared) {
  const PlaceOptions place = PlaceOptionsOf(request);
  MR_ASSIGN_OR_RETURN(DevicePlacement placement, PlaceDevices(prepared.graph, request.ops, place));
  prepared.placement_notes = std::move(placement.notes);
  if (place.devices.size() == 1) return absl::OkStatus();
  // What crosses between devices becomes nodes before there is an order: they take part in it.
  // A tensor that came once may leave and come again: planned decides which is faster.
  const bool share = request.options.share_recv || request.options.strategy == "planned";
  AddSendRecv(prepared.graph, request.ops, placement, {place.devices, share},
              prepared.inferred.by_value);
  return VerifySendRecv(prepared.graph, request.ops, placement);
}

absl::StatusOr<UnrollResult> Expand(Graph& graph, const OpRegistry& ops, KernelOracle* oracle, UnrollOptions unroll,
                                    std::vector<GuardedNode>& guarded);

struct Branches {
  bool choose = false;      // those that are known not to be taken are left out
  bool any_shapes = false;  // the others may give tensors of different sizes
  bool exact_sizes = false;  // sizes that follow from values are asked for
};

// XLA's ops have shapes now, so that they can be other ops, whose shapes are inferred in turn.
absl::Status LowerXlaOps(const CompileRequest& request, Prepared& prepared, std::vector<GuardedNode>& guarded) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> now, LowerXla(prepared.graph, request.ops));
  if (now.empty()) return absl::OkStatus();
  for (GuardedNode& node : guarded) {
    node.node = now[node.node.value];
    node.guard.node = now[node.guard.node.value];
  }
  MR_ASSIGN_OR_RETURN(prepared.inferred, InferShapesAndFold(prepared.graph, request.ops, request.oracle, request.variable_types));
  return absl::OkStatus();
}

// Pruned, inlined and typed. `needed`: the signature, with nodes whose effects must happen.
absl::Status PrepareTypes(const CompileRequest& request, Branches branches, Prepared& prepared, Signature& needed) {
  const bool holds_xla = HoldsXlaOps(request.graph);
  const OpRegistry with_xla = holds_xla ? WithXlaOps(request.ops) : OpRegistry();
  const OpRegistry& ops = holds_xla ? with_xla : request.ops;
  // Prune first: nothing later should look at nodes that do not run.
  {
    const PassClock::Run run(request.clock, "prune");
    MR_ASSIGN_OR_RETURN(prepared.graph, Prune(request.graph, request.signature));
  }
  // Calls before types: shape rules know ops only. Every call left is needed, so its effects are, too.
  std::vector<GuardedNode> guarded;
  {
    const PassClock::Run run(request.clock, "inline functions");
    UnrollOptions unroll;
    unroll.whole = &request.graph;
    unroll.max_nodes = request.options.max_unrolled_nodes;
    unroll.variable_types = request.variable_types;
    unroll.choose_branches = branches.choose;
    unroll.any_shapes = branches.any_shapes;
    unroll.exact_sizes = branches.exact_sizes;
    unroll.targets = request.signature.targets;
    unroll.questions = {request.signature.answers, request.signature.ask, request.signature.guesses};
    MR_ASSIGN_OR_RETURN(UnrollResult expanded, Expand(prepared.graph, ops, &request.oracle, std::move(unroll), guarded));
    needed = request.signature;
    if (request.signature.ask) needed.targets.clear();
    needed.targets.insert(needed.targets.end(), expanded.effects.begin(), expanded.effects.end());
    prepared.asked = std::move(expanded.asked);
    prepared.stopped = expanded.stopped;
  }
  // Types next: every later pass counts bytes. Shape arithmetic is folded on the way, because rules need its values.
  const PassClock::Run run(request.clock, "infer shapes");
  MR_ASSIGN_OR_RETURN(prepared.inferred, InferShapesAndFold(prepared.graph, ops, request.oracle, request.variable_types));
  if (holds_xla) MR_RETURN_IF_ERROR(LowerXlaOps(request, prepared, guarded));
  // Types say which nodes of branches have shapes that may be wrong where the branch is not taken; rules have seen them all.
  GuardFailures(prepared.graph, guarded);
  // What only fed the folded nodes is gone now.
  RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  return absl::OkStatus();
}

// Loops or calls make the graph larger than allowed. Where that is so of the branches taken alone, no other form is smaller.
bool IsTooLarge(const absl::Status& status) { return absl::IsOutOfRange(status); }

// A branch that is never taken may have shapes that are impossible. Where both sides cannot be typed, those that are known
// not to be taken go first.
absl::Status PrepareTypesOfTaken(const CompileRequest& request, Prepared& prepared, Signature& needed) {
  const absl::Status both = PrepareTypes(request, {}, prepared, needed);
  const bool may_ask_more = both.ok() && request.signature.ask && !prepared.stopped;
  if ((both.ok() && !may_ask_more) || !HoldsConditionals(request.graph) || NeedsAnswer(both)) return both;
  Prepared chosen;
  const absl::Status taken = PrepareTypes(request, {.choose = true}, chosen, needed);
  if (may_ask_more && !(taken.ok() && chosen.stopped)) return both;
  if (IsTooLarge(taken)) return taken;
  if (!taken.ok() && NeededFeeds(both).empty() && NeededFeeds(taken).empty() && !NeedsAnswer(taken)) {
    // What is left depends on the step's own values: shapes that are known when running, which costs more.
    Prepared either;
    Signature needed_by_either;
    if (PrepareTypes(request, {.choose = true, .any_shapes = true}, either, needed_by_either).ok()) {
      prepared = std::move(either);
      needed = std::move(needed_by_either);
      return absl::OkStatus();
    }
  }
  if (taken.ok()) prepared = std::move(chosen);
  return taken.ok() || (NeededFeeds(both).empty() && !NeededFeeds(taken).empty()) ? taken : both;
}

bool Settled(const absl::Status& status) {
  return status.ok() || IsTooLarge(status) || NeedsAnswer(status) || !NeededFeeds(status).empty();
}

// Where sizes have no bounds that do, they are found by running the step, as turns of loops are.
absl::Status PrepareTypesOfSizes(const CompileRequest& request, Prepared& prepared, Signature& needed) {
  const Branches with_sizes{.choose = true, .any_shapes = true, .exact_sizes = true};
  if (request.signature.answers.count(kAsksForSizes) > 0) return PrepareTypes(request, with_sizes, prepared, needed);
  absl::Status bounded = PrepareTypesOfTaken(request, prepared, needed);
  if (!request.signature.ask && Settled(bounded)) return bounded;
  // Where asking fails, it may be for a size that a question follows from.
  if (request.signature.ask && Settled(bounded)) {
    if (!NeededFeeds(bounded).empty() || IsTooLarge(bounded) || (bounded.ok() && prepared.stopped)) return bounded;
    // All else is answered. The plan asks for sizes only where it needs them.
    CompileRequest plan = request;
    plan.signature.ask = false;
    // What was guessed may be right, and then nothing more is asked.
    for (const std::string& fetch : prepared.asked) {
      for (const std::string& question : QuestionsOf(fetch)) plan.signature.answers.emplace(question, Tensor::Scalar<bool>(true));
    }
    Prepared planned;
    Signature needed_by_plan;
    if (Settled(PrepareTypesOfTaken(plan, planned, needed_by_plan))) return bounded;
  }
  Prepared exact;
  Signature needed_by_exact;
  const absl::Status asked = PrepareTypes(request, with_sizes, exact, needed_by_exact);
  if (!Settled(asked)) return bounded;
  if (NeedsAnswer(asked) && !bounded.ok()) {
    // Where nobody can answer, this is what stands in the way.
    bounded.SetPayload(kNeededAnswer, *asked.GetPayload(kNeededAnswer));
    return bounded;
  }
  if (asked.ok()) {
    prepared = std::move(exact);
    needed = std::move(needed_by_exact);
  }
  return asked;
}

// What a tensor is, given variables, without any feed; an error where that does not follow.
absl::StatusOr<TensorType> TypeOf(const CompileRequest& request, const std::string& tensor, const VariableTypesByName& variables) {
  CompileRequest fetch = request;
  fetch.signature = {};
  fetch.signature.fetches = {tensor};
  fetch.variable_types = variables;
  Prepared prepared;
  Signature needed;
  MR_RETURN_IF_ERROR(PrepareTypes(fetch, {}, prepared, needed));
  const Graph& graph = prepared.graph;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || node.op != "_Fetch") continue;
    const OutputRef fetched = node.inputs[0];
    if (graph.node(fetched.node).dynamic_output(fetched.index)) break;
    return graph.type(fetched);
  }
  return absl::InvalidArgumentError(absl::StrCat("the shape of ", tensor, " is known only when running"));
}

// Where types were refused: variables that do not exist yet and are declared without shape may be to blame.
absl::Status PrepareTypesOfVariables(const CompileRequest& request, Prepared& prepared, Signature& needed) {
  absl::Status declared = PrepareTypesOfSizes(request, prepared, needed);
  if (declared.ok() || IsTooLarge(declared)) return declared;
  CompileRequest initial = request;
  const auto type_of = [&request](const std::string& tensor, const VariableTypesByName& known) { return TypeOf(request, tensor, known); };
  AddInitialShapes(request.graph, request.ops, type_of, initial.variable_types);
  if (initial.variable_types.size() == request.variable_types.size()) return declared;
  prepared = {};
  needed = {};
  return PrepareTypesOfSizes(initial, prepared, needed);
}

// Of the budget: slots that fill less are not worth more nodes, and a part of a slot.
constexpr int64_t kSlotsPart = 4, kUpdateParts = 256;
constexpr int64_t kLeastPartBytes = int64_t{1} << 20;
constexpr int64_t kChainTimes = 2;  // larger parts where each is many nodes

absl::Status SliceLargeUpdates(const CompileRequest& request, Prepared& prepared) {
  const PlanningOptions& options = request.options;
  const int64_t part_bytes = options.update_part_bytes;
  // Where there are several devices, who updates what is not known yet: the smallest must do with its parts.
  int64_t least_budget = std::numeric_limits<int64_t>::max(), all_budgets = 0;
  for (int32_t d = 0; d < options.num_devices(); ++d) {
    if (options.BudgetOf(d) == 0) continue;
    least_budget = std::min(least_budget, options.BudgetOf(d));
    all_budgets += options.BudgetOf(d);
  }
  if (options.strategy != "planned" || request.disk_tier || all_budgets == 0 || part_bytes == 0) return absl::OkStatus();
  const PassClock::Run run(request.clock, "slice updates");
  const bool automatic = part_bytes == PlanningOptions::kAutoBytes;
  PartBytes part{part_bytes, part_bytes};
  if (automatic) {
    part.of_op = std::max(kLeastPartBytes, least_budget / kUpdateParts);
    part.of_chain = kChainTimes * part.of_op;
  }
  MR_ASSIGN_OR_RETURN(const SliceableUpdates updates, FindSliceableUpdates(prepared.graph, request.ops, part));
  if (automatic && updates.slot_bytes < all_budgets / kSlotsPart) return absl::OkStatus();
  prepared.sliced_updates = SliceUpdates(prepared.graph, request.ops, updates, part, prepared.inferred.by_value);
  return absl::OkStatus();
}

}  // namespace

std::string DeviceName(const CompileRequest& request, int32_t device) {
  return request.options.devices.empty() ? absl::StrCat(request.machine.name, ":", device)
                                         : request.options.devices[device];
}

namespace {

// Whether there can be anything to expand, in one look at a large graph.
bool HoldsCallsOrControlFlow(const Graph& graph) {
  if (graph.library() != nullptr && !graph.library()->empty()) return true;
  const auto goes = [](const std::string& op) {
    Node node;
    node.op = op;
    return IsPlannedAway(op) || IsPartitionedCall(node) || op.rfind("StringToHashBucket", 0) == 0 || WritesText(node) || HoldsKeptResource(op);
  };
  PerOp<bool, decltype(goes)> goes_away(goes);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    if (goes_away(node.op) || SpeaksOfFunctions(node) || IsExpandedForInputs(node) || IsVariableOfWords(node)) return true;
  }
  return false;
}

// `guarded`: what may fail in a branch (LowerSwitches).
absl::StatusOr<UnrollResult> Expand(Graph& graph, const OpRegistry& ops, KernelOracle* oracle, UnrollOptions unroll,
                                    std::vector<GuardedNode>& guarded) {
  UnrollResult result;
  if (!unroll.choose_branches && !unroll.questions.ask && !HoldsCallsOrControlFlow(graph)) return result;
  std::vector<std::string> effects;
  const ConditionalForm form = unroll.choose_branches ? ConditionalForm::kSwitches : ConditionalForm::kSimplest;
  AddSymbolicGradients(graph);
  const auto writes = [&](const std::string& op) { return WritesVariables(ops, op); };
  LowerFunctionOps(graph, ops, writes);
  // Conditionals with pure branches become calls, and calls may hold conditionals.
  const int64_t max_inlined = MostInlinedNodes(graph, unroll.max_nodes);
  for (bool lowered = true; lowered;) {
    MR_ASSIGN_OR_RETURN(const InlineResult inlined, InlineFunctions(graph, ops, max_inlined));
    effects.insert(effects.end(), inlined.effects.begin(), inlined.effects.end());
    // Where these lay in functions with parameters they have their types and functions now.
    const bool called = LowerFunctionOps(graph, ops, writes);
    MR_ASSIGN_OR_RETURN(lowered, LowerConditionals(graph, ops, form));
    lowered = lowered || called;
  }
  DropPipelines(graph);
  // Calls gone, replicas' nodes are where they belong together, and what no device has a kernel for is other ops.
  MR_RETURN_IF_ERROR(LowerCollectives(graph).status());
  MR_RETURN_IF_ERROR(ExpandOps(graph).status());
  MR_RETURN_IF_ERROR(LowerSparseMatrices(graph).status());
  KeepPredicates(graph, ops);
  // Loops next, whole: what they hold of the above they do themselves, turn by turn, with what is known by then.
  if (oracle != nullptr) {
    unroll.targets.insert(unroll.targets.end(), effects.begin(), effects.end());
    MR_RETURN_IF_ERROR(LowerFoundWords(graph, unroll.whole == nullptr ? graph : *unroll.whole, ops, *oracle));
    MR_ASSIGN_OR_RETURN(result, UnrollLoops(graph, ops, *oracle, unroll));
    // Turns are nodes now, so what they look up is, too.
    MR_RETURN_IF_ERROR(LowerStrings(graph, unroll.whole == nullptr ? graph : *unroll.whole, ops, *oracle).status());
  }
  if (oracle != nullptr) MR_RETURN_IF_ERROR(DeclareStagingAreas(graph, unroll.whole == nullptr ? graph : *unroll.whole, ops, *oracle));
  MR_RETURN_IF_ERROR(KeepAccumulators(graph, unroll.whole == nullptr ? graph : *unroll.whole).status());
  if (unroll.questions.ask) {
    // What asks has no effects but those of the loops that lead to its questions, and the nodes of what was left undone may
    // lack the other half. It is run as often as it takes, for turns that are guessed, too.
    SilencePrints(graph);
    effects.clear();
    Signature needed;
    needed.targets = result.effects;
    std::vector<uint64_t> nothing(graph.num_ids(), 0);
    RemoveUnneeded(graph, needed, nothing);
  }
  result.effects.insert(result.effects.begin(), effects.begin(), effects.end());
  // Conditionals with effects are Switch and Merge now, as those of TensorFlow 1 were from the beginning.
  MR_RETURN_IF_ERROR(LowerSwitches(graph, ops, unroll.any_shapes, &guarded).status());
  LowerPrints(graph);
  return result;
}

}  // namespace

absl::StatusOr<UnrollResult> ExpandCalls(Graph& graph, const OpRegistry& ops, KernelOracle* oracle,
                                         const UnrollOptions& unroll) {
  std::vector<GuardedNode> guarded;
  return Expand(graph, ops, oracle, unroll, guarded);
}

namespace {

// What need not be there, whatever strategy, budget and device.
absl::Status DropNeedless(const CompileRequest& request, const Signature& needed, Prepared& prepared) {
  // What only passes several values on would have each wait for all.
  {
    const PassClock::Run run(request.clock, "bypass identities");
    MR_RETURN_IF_ERROR(BypassIdentities(prepared.graph, request.ops, needed.targets, prepared.inferred.by_value).status());
  }
  // What is only waited for is as unneeded, but others must not lose their order by it; sums see who is left.
  {
    const PassClock::Run run(request.clock, "bypass unused");
    MR_ASSIGN_OR_RETURN(const int64_t gone, BypassUnused(prepared.graph, request.ops, needed.targets));
    if (gone > 0) RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  }
  // One pass over a tensor less, wherever it runs.
  const PassClock::Run run(request.clock, "negate last");
  NegateLast(prepared.graph, needed.targets, prepared.inferred.by_value);
  return absl::OkStatus();
}

// What time steps do alike, and sums over them.
absl::Status JoinTimeSteps(const CompileRequest& request, const Signature& needed, Prepared& prepared) {
  // Before their products are summed.
  if (request.options.pack_rows) {
    const PassClock::Run run(request.clock, "pack rows");
    MR_ASSIGN_OR_RETURN(const int64_t packed, PackRows(prepared.graph, request.ops, needed.targets, prepared.inferred.by_value));
    if (packed > 0) RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  }
  if (!request.options.accumulate_products) return absl::OkStatus();
  // Sums of products before any order, that of variable accesses included: some factors are read later than before.
  {
    const PassClock::Run run(request.clock, "accumulate products");
    MR_RETURN_IF_ERROR(AccumulateProducts(prepared.graph, request.ops, prepared.inferred.by_value).status());
  }
  // What these products take stays until then, so that biases' gradients can wait for it, too.
  const PassClock::Run run(request.clock, "accumulate reductions");
  return AccumulateReductions(prepared.graph, request.ops, prepared.inferred.by_value).status();
}

// Convolutions, with what lies around them.
absl::Status ArrangeImages(const CompileRequest& request, const Signature& needed, Prepared& prepared) {
  // Pads before layouts, which would have to turn them.
  if (request.options.fuse) {
    const PassClock::Run run(request.clock, "fold pads");
    MR_ASSIGN_OR_RETURN(const int64_t gone, FoldPads(prepared.graph, request.ops, needed.targets, prepared.inferred.by_value));
    if (gone > 0) RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  }
  // Layouts before variable accesses, which Transposes may be, and before biases, which convolutions take in either layout.
  if (request.options.channels_first) {
    const PassClock::Run run(request.clock, "channels first");
    MR_RETURN_IF_ERROR(ChannelsFirst(prepared.graph, request.ops, prepared.inferred.by_value).status());
  }
  if (!request.options.fuse) return absl::OkStatus();
  // Batch norms behind layouts, which turn them as they are; before variable accesses, since a gradient reads one more variable, and
  // before biases: of a convolution's result and a batch norm's the latter takes the sum.
  const PassClock::Run run(request.clock, "fuse norms");
  return FuseNorms(prepared.graph, request.ops, needed.targets, prepared.inferred.by_value).status();
}

// Fewer and larger nodes: only what is ordered may be taken together.
absl::Status Fuse(const CompileRequest& request, const Signature& needed, Prepared& prepared) {
  // Updates and products first, which take what would be a launch, or an operand, of what comes after.
  {
    const PassClock::Run run(request.clock, "fuse averages");
    const int64_t fused = FuseAverages(prepared.graph, request.ops, needed.targets, prepared.inferred.by_value);
    if (fused > 0) RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  }
  {
    const PassClock::Run run(request.clock, "fuse biases");
    MR_RETURN_IF_ERROR(FuseBiases(prepared.graph, prepared.inferred.by_value).status());
  }
  {
    const PassClock::Run run(request.clock, "fuse elementwise");
    MR_RETURN_IF_ERROR(FuseElementwise(prepared.graph, prepared.inferred.by_value).status());
  }
  // Where a node is a launch, updates that follow one another are one.
  const PassClock::Run run(request.clock, "gather updates");
  return GatherUpdates(prepared.graph, request.ops, prepared.inferred.by_value).status();
}

// All phases but the last, which is verified in any case.
absl::Status EndPhase(const CompileRequest& request, GraphPhase phase, const char* name, const Prepared& prepared) {
  return request.verify_phases ? VerifyPhase(prepared.graph, request.ops, phase, name) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Prepared> Prepare(const CompileRequest& request) {
  Prepared prepared;
  Signature needed;
  MR_RETURN_IF_ERROR(PrepareTypesOfVariables(request, prepared, needed));
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kTyped, "types", prepared));
  // The graph as its author knows it: what follows depends on strategy and budget.
  prepared.summary = SummaryOf(prepared.graph);
  MR_RETURN_IF_ERROR(DropNeedless(request, needed, prepared));
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kTyped, "what is needless", prepared));
  MR_RETURN_IF_ERROR(JoinTimeSteps(request, needed, prepared));
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kTyped, "time steps", prepared));
  MR_RETURN_IF_ERROR(ArrangeImages(request, needed, prepared));
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kTyped, "images", prepared));
  // Variables before any order: their reads and writes must come out the same under every one.
  {
    const PassClock::Run run(request.clock, "order variable accesses");
    MR_RETURN_IF_ERROR(OrderVariableAccesses(prepared.graph, request.ops).status());
  }
  prepared.inferred.by_value.resize(prepared.graph.num_ids(), 0);
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kOrdered, "order variable accesses", prepared));
  // Updates whose accesses are ordered: what waited for one waits for the last of its parts.
  MR_RETURN_IF_ERROR(SliceLargeUpdates(request, prepared));
  if (prepared.sliced_updates > 0) needed.targets = TargetsOfParts(prepared.graph, std::move(needed.targets));
  if (request.options.fuse) MR_RETURN_IF_ERROR(Fuse(request, needed, prepared));
  MR_RETURN_IF_ERROR(EndPhase(request, GraphPhase::kOrdered, "parts and groups", prepared));
  // Variables and constants have their home in host memory, the rest runs where it asks to, or where it fits.
  {
    const PassClock::Run run(request.clock, "place devices");
    MR_RETURN_IF_ERROR(Place(request, prepared));
  }
  {
    const PassClock::Run run(request.clock, "verify graph");
    MR_RETURN_IF_ERROR(VerifyPhase(prepared.graph, request.ops, GraphPhase::kPlaced, "place devices", request.options.num_devices()));
  }
  // What each node takes is the same in every order.
  const PassClock::Run run(request.clock, "estimate runs");
  MR_RETURN_IF_ERROR(EstimateRuns(prepared.graph, request.ops, request.oracle, request.machine, request.options,
                                  prepared.inferred));
  return prepared;
}

}  // namespace millrace
