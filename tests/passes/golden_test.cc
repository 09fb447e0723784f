// Golden tests of the passes: graph text in, graph or plan text out (tests/golden/FOLDER).
#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "gtest/gtest.h"
#include "passes/devices/place_devices.h"
#include "passes/order/order_frees_first.h"
#include "passes/order/order_levels.h"
#include "passes/order/partition.h"
#include "passes/pipeline.h"
#include "passes/rewrite/accumulate_products.h"
#include "passes/rewrite/accumulate_reductions.h"
#include "passes/rewrite/channels_first.h"
#include "passes/rewrite/fold_pads.h"
#include "passes/rewrite/fuse_averages.h"
#include "passes/rewrite/fuse_biases.h"
#include "passes/rewrite/fuse_elementwise.h"
#include "passes/rewrite/fuse_norms.h"
#include "passes/rewrite/bypass_identities.h"
#include "passes/rewrite/bypass_unused.h"
#include "passes/rewrite/gather_updates.h"
#include "passes/rewrite/negate_last.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/pack_rows.h"
#include "passes/rewrite/slice_updates.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/verify_graph.h"
#include "plan/plan_text.h"
#include "testlib/golden.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

std::string ErrorText(const absl::Status& status) { return status.ToString(absl::StatusToStringMode::kWithNoExtraData) + "\n"; }

std::string Partition(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  const int32_t devices = static_cast<int32_t>(golden.Int("devices", 1));
  absl::StatusOr<Partitioning> partitioning =
      PartitionDepthFirst(*graph, devices, golden.Int("partition_size", 2));
  if (!partitioning.ok()) return ErrorText(partitioning.status());
  const absl::Status verified = VerifyPartitioning(*graph, *partitioning);
  if (!verified.ok()) return ErrorText(verified);
  std::string text = absl::StrCat("partitions ", partitioning->num_partitions, "\n");
  for (NodeId id : partitioning->order) absl::StrAppend(&text, NodeToText(*graph, id, {.attrs = false}), "\n");
  return text;
}

std::string Levels(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  absl::StatusOr<LevelPartitioning> levels =
      PartitionByLevels(*graph, {.serialization = golden.List("serialization"),
                                 .serialization_by_size_bytes = golden.Int("serialization_by_size", 0)});
  if (!levels.ok()) return ErrorText(levels.status());
  const absl::Status verified = VerifyPartitioning(*graph, levels->partitioning);
  if (!verified.ok()) return ErrorText(verified);
  std::string text = levels->notes[0] + "\n";
  for (NodeId id : levels->partitioning.order) absl::StrAppend(&text, NodeToText(*graph, id, {.attrs = false}), "\n");
  return text;
}

std::string FreesFirstOrder(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const auto inferred = InferShapesAndFold(*graph, ops, oracle, {});
  if (!inferred.ok()) return ErrorText(inferred.status());
  absl::StatusOr<Partitioning> created = KeepCreationOrder(*graph);
  if (!created.ok()) return ErrorText(created.status());
  const Partitioning partitioning = FreesFirst(*graph, ops, created->order);
  EXPECT_EQ(partitioning.order.size(), created->order.size());
  const absl::Status verified = VerifyPartitioning(*graph, partitioning);
  if (!verified.ok()) return ErrorText(verified);
  std::string text;
  for (NodeId id : partitioning.order) absl::StrAppend(&text, NodeToText(*graph, id, {.attrs = false, .types = false}), "\n");
  return text;
}

// The graph as a pass leaves it, under `title(changes)`. `pass(graph, inferred)` says how many nodes it changed; with `ops`
// types are inferred before it, and `phase` holds after it.
template <typename Title, typename Pass>
std::string Rewrite(const GoldenCase& golden, const OpRegistry* ops, Title title, Pass pass, GraphPhase phase = GraphPhase::kTyped) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  StubOracle oracle;
  absl::StatusOr<InferenceResult> inferred = InferenceResult();
  if (ops != nullptr) inferred = InferShapesAndFold(*graph, *ops, oracle, {});
  if (!inferred.ok()) return ErrorText(inferred.status());
  const std::string before = GraphToText(*graph);
  const absl::StatusOr<int64_t> changes = pass(*graph, *inferred);
  if (!changes.ok()) return ErrorText(changes.status());
  EXPECT_EQ(*changes > 0, before != GraphToText(*graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(CreationOrder(*graph).ok());
  const absl::Status verified = ops != nullptr ? VerifyPhase(*graph, *ops, phase, "the pass") : VerifyGraph(*graph);
  EXPECT_TRUE(verified.ok()) << verified;
  return absl::StrCat(title(*changes), "\n", GraphToText(*graph, {.attrs = false, .types = false}));
}

std::string OrderVariables(const GoldenCase& golden) {
  const OpRegistry ops = TestOps();
  const auto title = [](int64_t changes) { return changes > 0 ? "changed" : "unchanged"; };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult&) -> absl::StatusOr<int64_t> {
    const absl::StatusOr<bool> changed = OrderVariableAccesses(graph, ops);
    if (!changed.ok()) return changed.status();
    return *changed ? 1 : 0;
  }, GraphPhase::kOrdered);
}

std::string Negated(const GoldenCase& golden) {
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " sums negated"); };
  return Rewrite(golden, &OpRegistry::Builtin(), title, [&](Graph& graph, InferenceResult& inferred) -> absl::StatusOr<int64_t> {
    return NegateLast(graph, golden.List("targets"), inferred.by_value);
  });
}

std::string Gathered(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " updates moved"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) { return GatherUpdates(graph, ops, inferred.by_value); });
}

std::string Unused(const GoldenCase& golden) {
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " nodes gone"); };
  return Rewrite(golden, nullptr, title, [&](Graph& graph, InferenceResult&) {
    return BypassUnused(graph, OpRegistry::Builtin(), golden.List("targets"));
  });
}

std::string Identities(const GoldenCase& golden) {
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " identities gone"); };
  return Rewrite(golden, nullptr, title, [&](Graph& graph, InferenceResult& inferred) {
    return BypassIdentities(graph, OpRegistry::Builtin(), golden.List("targets"), inferred.by_value);
  });
}

std::string Accumulate(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " products added"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) {
    inferred.by_value.resize(graph.num_ids(), 0);
    return AccumulateProducts(graph, ops, inferred.by_value);
  });
}

std::string Reductions(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " reductions taken in"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) {
    inferred.by_value.resize(graph.num_ids(), 0);
    return AccumulateReductions(graph, ops, inferred.by_value);
  });
}

std::string Rows(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " nodes packed"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) {
    return PackRows(graph, ops, golden.List("targets"), inferred.by_value);
  });
}

std::string Biases(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " products with their bias"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) {
    inferred.by_value.resize(graph.num_ids(), 0);
    return FuseBiases(graph, inferred.by_value);
  });
}

std::string Averages(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " averages moved by one node"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) -> absl::StatusOr<int64_t> {
    const absl::StatusOr<bool> ordered = OrderVariableAccesses(graph, ops);
    if (!ordered.ok()) return ordered.status();
    return FuseAverages(graph, ops, golden.List("targets"), inferred.by_value);
  });
}

std::string Norms(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " batch norms with what follows"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) {
    return FuseNorms(graph, ops, golden.List("targets"), inferred.by_value);
  });
}

std::string Fused(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " nodes gone"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) -> absl::StatusOr<int64_t> {
    const absl::StatusOr<bool> ordered = OrderVariableAccesses(graph, ops);
    if (!ordered.ok()) return ordered.status();
    inferred.by_value.resize(graph.num_ids(), 0);
    return FuseElementwise(graph, inferred.by_value);
  });
}

std::string Pads(const GoldenCase& golden) {
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " nodes gone"); };
  return Rewrite(golden, &OpRegistry::Builtin(), title, [&](Graph& graph, InferenceResult& inferred) {
    return FoldPads(graph, OpRegistry::Builtin(), golden.List("targets"), inferred.by_value);
  });
}

std::string Turned(const GoldenCase& golden) {
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " nodes with channels first"); };
  return Rewrite(golden, &OpRegistry::Builtin(), title, [&](Graph& graph, InferenceResult& inferred) {
    return ChannelsFirst(graph, OpRegistry::Builtin(), inferred.by_value);
  });
}

std::string Slice(const GoldenCase& golden) {
  const OpRegistry& ops = OpRegistry::Builtin();
  const auto title = [](int64_t changes) { return absl::StrCat(changes, " updates sliced"); };
  return Rewrite(golden, &ops, title, [&](Graph& graph, InferenceResult& inferred) -> absl::StatusOr<int64_t> {
    const int64_t bytes = golden.Int("part_bytes", 4096);
    const PartBytes part{bytes, bytes};
    const absl::StatusOr<SliceableUpdates> updates = FindSliceableUpdates(graph, ops, part);
    if (!updates.ok()) return updates.status();
    return SliceUpdates(graph, ops, *updates, part, inferred.by_value);
  });
}

std::string Plan(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.verify_phases = true;
  for (const std::string& feed : golden.List("feeds")) {
    request.signature.feeds[feed] = TensorType{DataType::kFloat, Shape({4})};
  }
  request.signature.fetches = golden.List("fetches");
  request.signature.targets = golden.List("targets");
  request.options.strategy = golden.options.count("strategy") ? golden.options.at("strategy") : "tensorflowmem";
  request.options.partition_size = golden.Int("partition_size", 1);
  request.options.swap_distance = golden.Int("swap_distance", 2);
  request.options.device_memory_bytes = golden.Int("budget", 0);
  request.options.place_variables_on_host = golden.Int("placement", 1) != 0;
  request.options.swap_activations = golden.Int("swap", 1) != 0;
  request.options.early_start = golden.Int("early_start", 1) != 0;
  if (golden.options.count("recompute")) {
    request.options.recompute = golden.options.at("recompute") == "on" ? Recompute::kOn : Recompute::kOff;
  }
  TflmsOptions& tflms = request.options.tflms;
  tflms.swapout_threshold = golden.Int("swapout_threshold", -1);
  tflms.swapin_ahead = golden.Int("swapin_ahead", -1);
  tflms.swapin_groupby = golden.Int("swapin_groupby", -1);
  tflms.sync_mode = static_cast<int32_t>(golden.Int("sync_mode", 0));
  const absl::StatusOr<Compiled> compiled = Compile(request);
  if (!compiled.ok()) return ErrorText(compiled.status());
  const absl::StatusOr<Compiled> again = Compile(request);
  EXPECT_EQ(PlanToText(compiled->plan), PlanToText(again->plan)) << "equal requests must give equal plans";
  return absl::StrCat(GraphToText(compiled->graph, {.attrs = false, .types = false}), "---\n",
                      PlanToText(compiled->plan));
}

TEST(Golden, PartitionsDepthFirst) {
  for (const std::string& file : GoldenFiles("partition")) CheckGolden(file, Partition);
}

TEST(Golden, OrdersByLevels) {
  for (const std::string& file : GoldenFiles("levels")) CheckGolden(file, Levels);
}

TEST(Golden, OrdersFreesFirst) {
  for (const std::string& file : GoldenFiles("frees_first")) CheckGolden(file, FreesFirstOrder);
}

TEST(Golden, OrdersVariableAccesses) {
  for (const std::string& file : GoldenFiles("variables")) CheckGolden(file, OrderVariables);
}

TEST(Golden, PlansRecompute) {
  for (const std::string& file : GoldenFiles("recompute")) CheckGolden(file, Plan);
}

TEST(Golden, BypassesUnusedNodes) {
  for (const std::string& file : GoldenFiles("unused")) CheckGolden(file, Unused);
}

TEST(Golden, BypassesIdentities) {
  for (const std::string& file : GoldenFiles("identities")) CheckGolden(file, Identities);
}

TEST(Golden, AccumulatesProducts) {
  for (const std::string& file : GoldenFiles("products")) CheckGolden(file, Accumulate);
}

TEST(Golden, AccumulatesReductions) {
  for (const std::string& file : GoldenFiles("reductions")) CheckGolden(file, Reductions);
}

TEST(Golden, PacksRows) {
  for (const std::string& file : GoldenFiles("rows")) CheckGolden(file, Rows);
}

TEST(Golden, GivesProductsTheirBias) {
  for (const std::string& file : GoldenFiles("biases")) CheckGolden(file, Biases);
}

TEST(Golden, NegatesAfterSums) {
  for (const std::string& file : GoldenFiles("negated")) CheckGolden(file, Negated);
}

TEST(Golden, GathersUpdates) {
  for (const std::string& file : GoldenFiles("gathered")) CheckGolden(file, Gathered);
}

TEST(Golden, MovesAveragesByOneNode) {
  for (const std::string& file : GoldenFiles("averages")) CheckGolden(file, Averages);
}

TEST(Golden, GivesBatchNormsTheirSumAndRelu) {
  for (const std::string& file : GoldenFiles("norms")) CheckGolden(file, Norms);
}

TEST(Golden, FusesElementwiseOpsWithTheirReductions) {
  for (const std::string& file : GoldenFiles("fused")) CheckGolden(file, Fused);
}

TEST(Golden, FoldsPads) {
  for (const std::string& file : GoldenFiles("pads")) CheckGolden(file, Pads);
}

TEST(Golden, TurnsRegionsOfConvolutionsAround) {
  for (const std::string& file : GoldenFiles("channels_first")) CheckGolden(file, Turned);
}

TEST(Golden, SlicesUpdates) {
  for (const std::string& file : GoldenFiles("updates")) CheckGolden(file, Slice);
}

TEST(Golden, PlansSwaps) {
  for (const std::string& file : GoldenFiles("swaps")) CheckGolden(file, Plan);
}

}  // namespace
}  // namespace millrace
