#include "passes/rewrite/row_packs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "millrace/guard.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/rewrite/positions.h"
#include "passes/shapes/variables.h"

namespace millrace {
namespace {

// Families that are looked for, each in one walk over the part of the graph that holds its members.
constexpr int kMostFamilies = 64;
// Of a member's results, what else it takes by rows: that has to be put together for the pack.
constexpr int64_t kSideParts = 4;

bool IsProduct(const std::string& op) { return op == "MatMul"; }

// Ops whose results' rows come from the same rows of all their inputs, in any number of columns.
bool TakesRows(const std::string& op) {
  static const auto* ops = new std::set<std::string>{"SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "Softmax", "LogSoftmax"};
  return ops->count(op) > 0;
}

class Finder {
 public:
  Finder(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order, const std::vector<std::string>& targets)
      : graph_(graph),
        ops_(ops),
        order_(order),
        targets_(targets.begin(), targets.end()),
        fanout_(ComputeFanout(graph)),
        position_(PositionsIn(order, graph.num_ids())),
        pack_of_(graph.num_ids(), -1),
        generation_(graph.num_ids(), 0),
        is_member_(graph.num_ids(), false) {}

  std::vector<RowPack> Run() {
    FindWrites();
    std::map<std::string, std::vector<NodeId>> products;
    std::vector<const std::vector<NodeId>*> families;  // by their first members
    for (NodeId id : order_) {
      if (!BeginsPack(id)) continue;
      auto [family, added] = products.try_emplace(KeyOf(id, {true, false}));
      if (added) families.push_back(&family->second);
      family->second.push_back(id);
    }
    for (const std::vector<NodeId>* family : families) {
      std::vector<NodeId> left;
      for (NodeId id : *family) {
        if (pack_of_[id.value] < 0) left.push_back(id);
      }
      if (left.size() < static_cast<size_t>(kFewestPacked) || families_++ >= kMostFamilies) continue;
      for (auto& [generation, members] : ByGeneration(left)) Begin(members);
    }
    return std::move(packs_);
  }

 private:
  bool IsStatic(const Node& node) const {
    const auto known = [](const TensorType& type) { return type.shape.fully_known() && type.shape.num_elements() > 0; };
    return node.dynamic_outputs == 0 && node.run_time_values == 0 && !node.outputs.empty() &&
           std::all_of(node.outputs.begin(), node.outputs.end(), known) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
             return known(graph_.type(input)) && !graph_.node(input.node).dynamic_output(input.index);
           });
  }

  // Where reference variables are written first.
  void FindWrites() {
    for (NodeId id : order_) {
      const Node& node = graph_.node(id);
      const OpDef* def = ops_.Find(node.op);
      for (size_t i = 0; def != nullptr && i < node.inputs.size(); ++i) {
        if (!def->Writes(static_cast<int>(i))) continue;
        const NodeId variable = ReferenceOf(graph_, ops_, node.inputs[i]);
        if (variable.valid()) first_write_.emplace(VariableName(graph_.node(variable)), position_[id.value]);
      }
    }
  }

  // Which of a reference variable's values that is depends on the node's own edges, and a pack has those of all members.
  bool TakesWhatWasWritten(NodeId id) const {
    const auto& inputs = graph_.node(id).inputs;
    return !first_write_.empty() && std::any_of(inputs.begin(), inputs.end(), [&](OutputRef input) {
      const NodeId variable = ReferenceOf(graph_, ops_, input);
      const auto write = variable.valid() ? first_write_.find(VariableName(graph_.node(variable))) : first_write_.end();
      return write != first_write_.end() && write->second < position_[id.value];
    });
  }

  // Whether the node may go into a pack at all.
  bool MayGo(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto uses = fanout_.of(id);
    return pack_of_[id.value] < 0 && node.control_inputs.empty() && !node.attrs.GetOr(kGuarded, false) && IsStatic(node) &&
           IsFloating(node.outputs[0].dtype) && targets_.count(node.name) == 0 && !TakesWhatWasWritten(id) &&
           std::all_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
             return use.input >= 0 && graph_.node(use.consumer).op != "_Fetch";
           });
  }

  bool BeginsPack(NodeId id) const {
    const Node& node = graph_.node(id);
    return IsProduct(node.op) && !node.attrs.GetOr("transpose_a", false) && MayGo(id) && MostMembers(node) >= kFewestPacked;
  }

  // Of a pack of such products.
  int64_t MostMembers(const Node& product) const {
    const TensorType& left = graph_.type(product.inputs[0]);
    const int64_t bytes = left.size_bytes() + product.outputs[0].size_bytes();
    return std::min({kMaxPackedMembers, kMaxPackedRows / left.shape.dim(0),
                     std::max(kPackedBytes, graph_.type(product.inputs[1]).size_bytes()) / bytes});
  }

  // What nodes have in common that can be one.
  std::string KeyOf(NodeId id, const std::vector<bool>& by_rows) const {
    const Node& node = graph_.node(id);
    std::string key = absl::StrCat(node.op, " ", node.requested_device.str());
    for (const auto& [name, value] : node.attrs) absl::StrAppend(&key, " ", name, "=", AttrToString(value));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (by_rows[i]) {
        absl::StrAppend(&key, " ", graph_.type(node.inputs[i]).ToString());
      } else {
        absl::StrAppend(&key, " =", node.inputs[i].node.value, ":", node.inputs[i].index);
      }
    }
    return key;
  }

  // Those of the same number do not need one another: the number grows on every way from one member to another.
  std::map<int32_t, std::vector<NodeId>> ByGeneration(const std::vector<NodeId>& members) {
    int32_t first = position_[members[0].value], last = first;
    for (NodeId id : members) {
      is_member_[id.value] = true;
      first = std::min(first, position_[id.value]);
      last = std::max(last, position_[id.value]);
    }
    for (int32_t p = first; p <= last; ++p) {
      const NodeId id = order_[p];
      const Node& node = graph_.node(id);
      int32_t generation = 0;
      const auto take = [&](NodeId from) {
        if (position_[from.value] >= first) generation = std::max(generation, generation_[from.value]);
      };
      for (OutputRef input : node.inputs) take(input.node);
      for (NodeId control : node.control_inputs) take(control);
      generation_[id.value] = generation + is_member_[id.value];
    }
    std::map<int32_t, std::vector<NodeId>> generations;
    for (NodeId id : members) {
      generations[generation_[id.value]].push_back(id);
      is_member_[id.value] = false;
    }
    return generations;
  }

  int32_t Add(std::vector<NodeId> members, std::vector<bool> by_rows, int32_t base) {
    const auto pack = static_cast<int32_t>(packs_.size());
    for (NodeId id : members) pack_of_[id.value] = pack;
    packs_.push_back({std::move(members), std::move(by_rows), base});
    return pack;
  }

  // Packs of about equal size of a family of products, and all that follows them.
  void Begin(const std::vector<NodeId>& family) {
    const auto size = static_cast<int64_t>(family.size()), most = MostMembers(graph_.node(family[0]));
    const int64_t count = (size + most - 1) / most;
    if (size / count < kFewestPacked) return;
    std::vector<std::vector<NodeId>> chunks(static_cast<size_t>(count));
    for (int64_t i = 0; i < size; ++i) chunks[static_cast<size_t>(i * count / size)].push_back(family[static_cast<size_t>(i)]);
    std::vector<std::vector<int32_t>> open(1);
    for (std::vector<NodeId>& chunk : chunks) open[0].push_back(Add(std::move(chunk), {true, false}, -1));
    while (!open.empty()) {
      const std::vector<int32_t> packs = std::move(open.back());
      open.pop_back();
      Follow(packs, open);
    }
  }

  // Which inputs of the node its rows come from, one by one; nothing where they come from more than the same rows.
  std::optional<std::vector<bool>> ByRows(NodeId id, int64_t rows) const {
    const Node& node = graph_.node(id);
    const auto has_rows = [&](const TensorType& type) { return type.shape.rank() > 0 && type.shape.dim(0) == rows; };
    if (!std::all_of(node.outputs.begin(), node.outputs.end(), has_rows)) return std::nullopt;
    const Shape& result = node.outputs[0].shape;
    if (IsProduct(node.op)) {
      return node.attrs.GetOr("transpose_a", false) ? std::nullopt : std::optional(std::vector<bool>{true, false});
    }
    if (node.op == "BiasAdd" || node.op == "BiasAddV1") {
      const bool last = node.attrs.GetOr<std::string>("data_format", "NHWC") == "NHWC";
      return last && result.rank() >= 2 ? std::optional(std::vector<bool>{true, false}) : std::nullopt;
    }
    std::vector<bool> by_rows;
    for (OutputRef input : node.inputs) {
      const TensorType& type = graph_.type(input);
      by_rows.push_back(has_rows(type) && (TakesRows(node.op) || type.shape.rank() == result.rank()));
    }
    const bool all = std::all_of(by_rows.begin(), by_rows.end(), [](bool each) { return each; });
    if (TakesRows(node.op)) {
      const bool same = node.op != "SoftmaxCrossEntropyWithLogits" || graph_.type(node.inputs[0]) == graph_.type(node.inputs[1]);
      return all && same && graph_.type(node.inputs[0]).shape.rank() >= 2 ? std::optional(by_rows) : std::nullopt;
    }
    if (!IsElementwise(node.op) || (node.op == "Select" && graph_.type(node.inputs[0]).shape != result)) return std::nullopt;
    return by_rows;
  }

  // Whether all take the same result of the members of one pack, in its order.
  bool FromOnePack(const std::vector<NodeId>& nodes, size_t input) const {
    const OutputRef first = graph_.node(nodes[0]).inputs[input];
    const int32_t pack = pack_of_[first.node.value];
    if (pack < 0 || packs_[static_cast<size_t>(pack)].members.size() != nodes.size()) return false;
    for (size_t m = 0; m < nodes.size(); ++m) {
      const OutputRef each = graph_.node(nodes[m]).inputs[input];
      if (each.node != packs_[static_cast<size_t>(pack)].members[m] || each.index != first.index) return false;
    }
    return true;
  }

  // Whether what they take by rows is put together already, or small.
  bool SidesAreCheap(const std::vector<NodeId>& nodes, const std::vector<bool>& by_rows) const {
    const Node& first = graph_.node(nodes[0]);
    int64_t result_bytes = 0;
    for (const TensorType& type : first.outputs) result_bytes += type.size_bytes();
    for (size_t i = 0; i < by_rows.size(); ++i) {
      if (by_rows[i] && !FromOnePack(nodes, i) && graph_.type(first.inputs[i]).size_bytes() > result_bytes / kSideParts) return false;
    }
    return true;
  }

  // Nodes that are alike and take the same result of every member of a base, in its order, by base.
  struct Followers {
    std::vector<bool> by_rows;
    std::map<int32_t, std::vector<NodeId>> of;
  };

  std::vector<Followers> FollowersOf(const std::vector<int32_t>& bases) const {
    std::map<std::string, size_t> known;
    std::vector<Followers> found;
    for (int32_t base : bases) {
      const std::vector<NodeId>& members = packs_[static_cast<size_t>(base)].members;
      for (size_t m = 0; m < members.size(); ++m) {
        std::map<std::string, int> seen;  // several of one member are told apart by their order
        for (const Fanout::Use& use : fanout_.of(members[m])) {
          if (!MayGo(use.consumer)) continue;
          const auto by_rows = ByRows(use.consumer, graph_.node(members[m]).outputs[0].shape.dim(0));
          if (!by_rows || !(*by_rows)[static_cast<size_t>(use.input)]) continue;
          std::string key = absl::StrCat(use.output, " ", use.input, " ", KeyOf(use.consumer, *by_rows));
          absl::StrAppend(&key, " ", seen[key]++);
          const auto [at, added] = known.try_emplace(key, found.size());
          if (added) found.push_back({*by_rows, {}});
          std::vector<NodeId>& nodes = found[at->second].of[base];
          nodes.resize(m);  // invalid where a member has none
          nodes.push_back(use.consumer);
        }
      }
    }
    for (Followers& followers : found) {
      std::erase_if(followers.of, [&](const auto& pack) {
        const auto& [base, nodes] = pack;
        return nodes.size() != packs_[static_cast<size_t>(base)].members.size() ||
               !std::all_of(nodes.begin(), nodes.end(), [](NodeId id) { return id.valid(); }) ||
               !SidesAreCheap(nodes, followers.by_rows);
      });
    }
    return found;
  }

  // The packs of nodes that take the rows of these, to `open`.
  void Follow(const std::vector<int32_t>& bases, std::vector<std::vector<int32_t>>& open) {
    for (auto& [by_rows, followers] : FollowersOf(bases)) {
      std::vector<NodeId> members;
      for (const auto& [base, nodes] : followers) members.insert(members.end(), nodes.begin(), nodes.end());
      if (members.empty() || families_++ >= kMostFamilies) continue;
      ByGeneration(members);
      std::vector<int32_t> packs;
      for (auto& [base, nodes] : followers) {
        const auto goes = [&, first = nodes[0]](NodeId id) {
          return pack_of_[id.value] < 0 && generation_[id.value] == generation_[first.value];
        };
        if (std::all_of(nodes.begin(), nodes.end(), goes)) packs.push_back(Add(std::move(nodes), by_rows, base));
      }
      if (!packs.empty()) open.push_back(std::move(packs));
    }
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<NodeId>& order_;
  const std::set<std::string> targets_;
  const Fanout fanout_;
  const std::vector<int32_t> position_;
  std::map<std::string, int32_t> first_write_;  // of reference variables, by name
  std::vector<int32_t> pack_of_;     // by node id
  std::vector<int32_t> generation_;  // by node id; of the last walk
  std::vector<bool> is_member_;      // by node id; of the walk that is going on
  std::vector<RowPack> packs_;
  int families_ = 0;
};

// Walks the order with packs as nodes: what is ready runs, the first created first; a pack is when all its members are.
class Walk {
 public:
  Walk(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order, std::vector<RowPack>& packs)
      : graph_(graph),
        ops_(ops),
        order_(order),
        packs_(packs),
        fanout_(ComputeFanout(graph)),
        position_(PositionsIn(order, graph.num_ids())),
        pack_of_(graph.num_ids(), -1),
        needs_(graph.num_ids(), 0),
        waiting_(packs.size()) {
    for (size_t p = 0; p < packs.size(); ++p) {
      for (NodeId id : packs[p].members) pack_of_[id.value] = static_cast<int32_t>(p);
    }
    for (NodeId id : order) {
      needs_[id.value] += static_cast<int32_t>(graph.node(id).inputs.size() + graph.node(id).control_inputs.size());
    }
    OrderAccesses();
  }

  std::vector<PackedPlace> Run() {
    for (NodeId id : order_) {
      if (needs_[id.value] == 0) BecomesReady(id);
    }
    while (!ready_.empty() || TakeOneApart()) {
      const PackedPlace place = ready_.begin()->second;
      ready_.erase(ready_.begin());
      result_.push_back(place);
      if (place.pack < 0) {
        Done(place.node);
      } else {
        for (NodeId id : packs_[static_cast<size_t>(place.pack)].members) Done(id);
      }
    }
    return std::move(result_);
  }

 private:
  // Accesses of a variable since it was written last.
  struct Accesses {
    NodeId write;
    std::vector<NodeId> reads;
  };

  // Who reads what a node wrote before stays behind it, and who writes what others read before behind those.
  void OrderAccesses() {
    std::map<std::string, Accesses> accesses;
    for (NodeId id : order_) {
      const Node& node = graph_.node(id);
      const OpDef* def = ops_.Find(node.op);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const NodeId variable = VariableBehind(graph_, ops_, node.inputs[i].node);
        if (!variable.valid()) continue;
        Accesses& before = accesses[VariableName(graph_.node(variable))];
        if (def == nullptr || !def->Writes(static_cast<int>(i))) {
          if (before.write.valid()) ComesAfter(id, before.write);
          before.reads.push_back(id);
          continue;
        }
        for (NodeId read : before.reads) ComesAfter(id, read);
        if (before.write.valid()) ComesAfter(id, before.write);
        before = {id, {}};
      }
    }
  }

  void ComesAfter(NodeId id, NodeId before) {
    if (id == before) return;
    after_[before.value].push_back(id);
    ++needs_[id.value];
  }

  void BecomesReady(NodeId id) {
    const int32_t pack = pack_of_[id.value];
    if (pack < 0) {
      ready_.insert({position_[id.value], {id, -1}});
      return;
    }
    std::vector<NodeId>& waiting = waiting_[static_cast<size_t>(pack)];
    waiting.push_back(id);
    held_.insert({position_[id.value], pack});
    if (waiting.size() < packs_[static_cast<size_t>(pack)].members.size()) return;
    ready_.insert({position_[LetGo(pack)[0].value], {NodeId{}, pack}});
  }

  // The pack's members that waited.
  std::vector<NodeId> LetGo(int32_t pack) {
    std::vector<NodeId> waited = std::move(waiting_[static_cast<size_t>(pack)]);
    for (NodeId id : waited) held_.erase({position_[id.value], pack});
    return waited;
  }

  void Done(NodeId id) {
    const auto reached = [&](NodeId next) {
      if (--needs_[next.value] == 0) BecomesReady(next);
    };
    for (const Fanout::Use& use : fanout_.of(id)) reached(use.consumer);
    const auto after = after_.find(id.value);
    if (after == after_.end()) return;
    for (NodeId next : after->second) reached(next);
  }

  // Where nothing is ready, packs wait for one another: the first one that is waited for goes, and all that follow it.
  bool TakeOneApart() {
    if (held_.empty()) return false;
    std::vector<int32_t> apart = {held_.begin()->second};
    for (size_t a = 0; a < apart.size(); ++a) {
      RowPack& pack = packs_[static_cast<size_t>(apart[a])];
      for (NodeId id : pack.members) pack_of_[id.value] = -1;
      pack.members.clear();
      for (NodeId id : LetGo(apart[a])) BecomesReady(id);
      for (size_t p = 0; p < packs_.size(); ++p) {
        if (packs_[p].base == apart[a] && !packs_[p].members.empty()) apart.push_back(static_cast<int32_t>(p));
      }
    }
    return true;
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<NodeId>& order_;
  std::vector<RowPack>& packs_;
  const Fanout fanout_;
  const std::vector<int32_t> position_;
  std::vector<int32_t> pack_of_;             // by node id
  std::vector<int32_t> needs_;               // edges that are still to come, by node id
  std::map<int32_t, std::vector<NodeId>> after_;  // accesses that come after a node's, by its id
  std::map<int32_t, PackedPlace> ready_;     // by position
  std::set<std::pair<int32_t, int32_t>> held_;  // positions of members that wait for others, and their packs
  std::vector<std::vector<NodeId>> waiting_;  // the same, by pack
  std::vector<PackedPlace> result_;
};

}  // namespace

std::vector<RowPack> FindRowPacks(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order,
                                  const std::vector<std::string>& targets) {
  return Finder(graph, ops, order, targets).Run();
}

std::vector<PackedPlace> OrderPacked(const Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& order,
                                     std::vector<RowPack>& packs) {
  return Walk(graph, ops, order, packs).Run();
}

}  // namespace millrace
