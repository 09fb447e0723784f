// Steps of random networks in which a kernel fails, on any device and under any plan: the error names the node, and a variable that the report does
// not name as changed is as before the step. See README.md.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/op.h"
#include "millrace/session.h"
#include "random/random_nets.h"
#include "random/training.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

NodeId Add(Graph& graph, const std::string& name, const std::string& op, std::vector<OutputRef> inputs, AttrMap attrs) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.attrs = std::move(attrs);
  const absl::StatusOr<NodeId> id = graph.AddNode(std::move(node));
  EXPECT_TRUE(id.ok()) << id.status();
  return *id;
}

// By id: whether the node is `seed`, follows from it or, not forwards, comes before it.
std::vector<bool> Closure(const Graph& graph, const std::string& seed, bool forwards) {
  std::vector<bool> within(graph.num_ids(), false);
  for (bool more = true; more;) {
    more = false;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      std::vector<int32_t> sources;
      for (const OutputRef& input : node.inputs) sources.push_back(input.node.value);
      for (const NodeId control : node.control_inputs) sources.push_back(control.value);
      const auto enters = [&](int32_t id) {
        more = more || !within[id];
        within[id] = true;
      };
      if (node.name == seed) enters(i);
      for (const int32_t source : sources) {
        if (forwards && within[source]) enters(i);
        if (!forwards && within[i]) enters(source);
      }
    }
  }
  return within;
}

// The step assigns the largest element of `value` to a variable of its own.
void AssignLargest(Graph& graph, const std::string& name, OutputRef value) {
  const auto add = [&](const std::string& suffix, const std::string& op, std::vector<OutputRef> inputs, AttrMap attrs) {
    return OutputRef{Add(graph, absl::StrCat(name, suffix), op, std::move(inputs), std::move(attrs)), 0};
  };
  const auto assign = [&](const std::string& suffix, OutputRef variable, OutputRef assigned, const std::string& target) {
    const OutputRef node = add(suffix, "AssignVariableOp", {variable, assigned}, {{"dtype", DataType::kFloat}});
    graph.mutable_node(graph.Find(target)).control_inputs.push_back(node.node);
  };
  const OutputRef all = add("/all", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Vector<int32_t>({-1})}});
  const OutputRef axis = add("/axis", "Const", {}, {{"dtype", DataType::kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
  const OutputRef zero = add("/zero", "Const", {}, {{"dtype", DataType::kFloat}, {"value", Tensor::Scalar<float>(0)}});
  const OutputRef flat = add("/flat", "Reshape", {value, all}, {{"T", DataType::kFloat}, {"Tshape", DataType::kInt32}});
  const OutputRef largest = add("/largest", "Max", {flat, axis}, {{"T", DataType::kFloat}, {"Tidx", DataType::kInt32}});
  const OutputRef variable = add("", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shape", Shape({})}, {"shared_name", name}});
  assign("/begin", variable, zero, "init");
  assign("/assign", variable, largest, "train");
}

// All that takes a float result of some node takes it from one that fails where the feed `fault` is not finite.
TrainingGraph WithFault(TrainingGraph failing, std::mt19937_64& random) {
  static const auto* const ops = new std::set<std::string>{"MatMul", "AddV2", "Mul", "Sub", "Tanh", "Sigmoid", "Relu", "Square", "Neg", "BatchMatMulV2"};
  Graph& graph = failing.graph;
  std::vector<NodeId> candidates;
  const std::vector<bool> in_step = Closure(graph, "train", /*forwards=*/false);
  const int32_t nodes = graph.num_ids();
  for (int32_t i = 0; i < nodes; ++i) {
    const Node& node = graph.node(NodeId{i});
    if (in_step[i] && ops->count(node.op) > 0 && node.attrs.GetOr<DataType>("T", DataType::kBool) == DataType::kFloat) candidates.push_back(NodeId{i});
  }
  const OutputRef tensor{candidates[random() % candidates.size()], 0};
  absl::StrAppend(&failing.made_of, ", failing behind ", graph.node(tensor.node).name);
  const OutputRef fault{Add(graph, "fault", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", Shape({})}}), 0};
  const OutputRef sum{Add(graph, "fault/sum", "AddV2", {tensor, fault}, {{"T", DataType::kFloat}}), 0};
  const OutputRef checked{Add(graph, "fault/checked", "CheckNumerics", {sum}, {{"T", DataType::kFloat}, {"message", std::string("here")}}), 0};
  for (int32_t i = 0; i < nodes; ++i) {
    for (OutputRef& input : graph.mutable_node(NodeId{i}).inputs) {
      if (input == tensor) input = checked;
    }
  }
  AssignLargest(graph, "fault/before", tensor);
  AssignLargest(graph, "fault/behind", checked);
  return failing;
}

// Variables that the step writes by nodes alone that follow from the one that fails. Of those that it assigns as a whole none, if not `whole`: on
// devices with streams they may be overwritten, which the report says.
std::set<std::string> UpdatedBehindTheFault(const Graph& graph, bool whole) {
  const std::vector<bool> follows = Closure(graph, "fault/checked", /*forwards=*/true), in_step = Closure(graph, "train", /*forwards=*/false);
  std::set<std::string> behind, others;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const OpDef* const def = OpRegistry::Builtin().Find(node.op);
    if (def == nullptr || !in_step[i]) continue;
    for (const VariableUse& use : def->variables) {
      const bool counts = whole || use.access == VariableAccess::kReadWrite;
      if (use.writes()) (counts && follows[i] ? behind : others).insert(graph.node(node.inputs[use.input].node).name);
    }
  }
  for (const std::string& name : others) behind.erase(name);
  return behind;
}

absl::Status Step(Session& session, float fault) { return session.Run({{"fault", Tensor::Scalar(fault)}}, {}, {"train"}, nullptr); }

struct Tally {
  int64_t failed = 0, refused = 0, changed = 0, behind = 0, spread = 0, tiered = 0;
  int64_t peak_bytes = 0;  // of the last plan that ran
};

void ExpectOthersAsBefore(const TrainingGraph& net, const SessionOptions& options, int good_steps, Tally& tally) {
  auto session = Session::Create(net.graph.Clone(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  absl::Status status = (*session)->Run({}, {}, {"init"}, nullptr);
  for (int step = 0; step < good_steps && status.ok(); ++step) status = Step(**session, 0);
  if (absl::IsResourceExhausted(status)) {
    ++tally.refused;
    return;
  }
  ASSERT_TRUE(status.ok()) << status;
  tally.peak_bytes = (*session)->last_run().predicted_peak_device_bytes;
  const auto before = (*session)->Variables();
  ASSERT_TRUE(before.ok()) << before.status();
  tally.tiered += (*session)->last_run().bytes_to_disk > 0;
  status = Step(**session, std::numeric_limits<float>::infinity());
  if (status.ok()) return;  // a pass has found that the step does not need it
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fault/checked"));
  const std::vector<std::string>& changed = (*session)->last_run().changed_variables;
  const std::set<std::string> named(changed.begin(), changed.end());
  const auto after = (*session)->Variables();
  ASSERT_TRUE(after.ok()) << after.status();
  const std::set<std::string> behind = UpdatedBehindTheFault(net.graph, /*whole=*/options.device == "cpu");
  for (const std::string& name : behind) EXPECT_EQ(named.count(name), 0) << name << ": " << status;
  tally.behind += static_cast<int64_t>(behind.size());
  for (const auto& [name, value] : *before) {
    const auto now = after->find(name);
    ASSERT_NE(now, after->end()) << name << ": " << status;
    EXPECT_TRUE(named.count(name) > 0 || now->second.BitEqual(value)) << name << ": " << status;
  }
  ++tally.failed;
  tally.changed += !named.empty();
  status = Step(**session, 0);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(FailingSteps, LeaveVariablesAsTheyWereOrNameThem) {
  const int64_t nets = FromEnvironment("MILLRACE_RANDOM_NETS", 60);
  const uint64_t first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  Tally tally;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(nets); ++seed) {
    std::mt19937_64 random(seed);
    constexpr TrainingGraph (*kMakers[])(std::mt19937_64&) = {RandomRecurrentNet, RandomImageNet, RandomSequenceNet};
    TrainingGraph net = WithFault(kMakers[random() % std::size(kMakers)](random), random);
    std::string device = random() % 3 == 0 ? "cpu" : kEmulated;
    if (const char* const named = std::getenv("MILLRACE_RANDOM_DEVICE")) device = named;
    const int64_t gpus = FromEnvironment("MILLRACE_RANDOM_GPUS", device == "cuda" ? 1 : 2);
    const bool spread = gpus > 1 && random() % 2 == 0;
    if (spread) net = Spread(net, device, random);
    tally.spread += spread;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", net.made_of));
    constexpr int kVariants = 3;
    int64_t peak_bytes = 0;  // of the first, which has no budget
    for (int variant = 0; variant < kVariants; ++variant) {
      SessionOptions options = RandomOptions(device, variant == 0 ? 0 : peak_bytes, random);
      options.planning.devices.clear();
      if (spread) options.planning.devices = {device + ":0", device + ":1"};
      if (variant == 0) options.planning.device_memory_bytes = options.planning.host_memory_bytes = 0, options.disk.clear();
      SCOPED_TRACE(Describe(options));
      ExpectOthersAsBefore(net, options, 1 + static_cast<int>(random() % 3), tally);
      if (variant == 0) peak_bytes = tally.peak_bytes;
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  std::printf("%s\n", absl::StrCat(nets, " nets, ", tally.spread, " over two devices: ", tally.failed, " steps failed, ", tally.changed,
                                   " with variables changed, ", tally.behind, " updates stopped, ", tally.tiered, " beside a disk; ", tally.refused, " plans refused").c_str());
  if (nets >= 40) {
    EXPECT_GT(tally.failed, nets);
    EXPECT_GT(tally.changed, nets / 10);
    EXPECT_GT(tally.behind, nets);
    EXPECT_GT(tally.tiered, 0);
  }
}

}  // namespace
}  // namespace millrace
