#include "passes/rewrite/channels_first.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/control_flow/creation_places.h"
#include "passes/rewrite/fuse_elementwise.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

// What of a node depends on where the channels are: inputs and the first result that are images, inputs that give a number, or
// two, for each of an image's dimensions, inputs that name dimensions.
struct Form {
  std::vector<int> images;
  bool result = false;
  std::vector<int> sizes, axes;
  bool formatted = false;  // by the attribute data_format
  int each = 1;            // numbers for a dimension
};

const std::map<std::string, Form>& FormattedOps() {
  static const auto* const forms = [] {
    auto* all = new std::map<std::string, Form>;
    const auto add = [&](std::initializer_list<const char*> ops, Form form) {
      form.formatted = true;
      for (const char* op : ops) all->emplace(op, form);
    };
    add({"Conv2D", "Conv3D", "BiasAdd", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D", "FusedBatchNorm", "FusedBatchNormV2",
         "FusedBatchNormV3"},
        {{0}, true, {}, {}});
    add({"Conv2DBackpropInput", "Conv3DBackpropInputV2"}, {{2}, true, {0}, {}});
    add({"Conv2DBackpropFilter", "Conv3DBackpropFilterV2"}, {{0, 2}, false, {}, {}});
    add({"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"}, {{0, 1}, true, {}, {}});
    add({"MaxPoolGrad", "MaxPool3DGrad"}, {{0, 1, 2}, true, {}, {}});
    add({"AvgPoolGrad", "AvgPool3DGrad"}, {{1}, true, {0}, {}});
    add({"BiasAddGrad"}, {{0}, false, {}, {}});
    return all;
  }();
  return *forms;
}

// Which of the dimensions with channels last comes where: first[i] = last[Turn(rank)[i]].
Ints Turn(int rank) {
  Ints turn{0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) turn.push_back(i);
  return turn;
}
Ints TurnBack(int rank) {
  Ints back{0};
  for (int i = 2; i < rank; ++i) back.push_back(i);
  back.push_back(1);
  return back;
}

// Of a list with `each` entries per dimension.
Ints Turned(const Ints& list, int rank, int each) {
  Ints turned;
  for (int64_t dim : Turn(rank)) turned.insert(turned.end(), list.begin() + dim * each, list.begin() + (dim + 1) * each);
  return turned;
}

int64_t TurnedAxis(int64_t axis, int rank) {
  const Ints turn = Turn(rank);
  if (axis < 0) axis += rank;
  return std::find(turn.begin(), turn.end(), axis) - turn.begin();
}

Shape TurnedShape(const Shape& shape) {
  Shape turned;
  for (int64_t dim : Turn(shape.rank())) turned.AddDim(shape.dim(static_cast<int>(dim)));
  return turned;
}

class Turner {
 public:
  Turner(Graph& graph, std::vector<uint64_t>& by_value)
      : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)), forms_(graph.num_ids()), region_(graph.num_ids()) {}

  int64_t Run() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) forms_[i] = FormOf(NodeId{i});
    FindRegions();
    ChooseRegions();
    int64_t turned = 0;
    const int32_t before = graph_.num_ids();
    by_value_.resize(before, 0);
    for (int32_t i = 0; i < before; ++i) {
      if (!IsTurned(NodeId{i})) continue;
      TurnNode(NodeId{i});
      ++turned;
    }
    for (int32_t i = 0; i < before; ++i) {
      if (graph_.alive(NodeId{i})) ConnectNode(NodeId{i});
    }
    if (!places_.empty()) Renumber();
    return turned;
  }

 private:
  const TensorType& TypeOf(OutputRef ref) const { return graph_.type(ref); }

  static bool IsImage(const Shape& shape) { return shape.rank() == 4 || shape.rank() == 5; }

  // The numbers of a constant input; none where it is not one.
  std::optional<Ints> NumbersOf(OutputRef ref) const {
    const Node& node = graph_.node(ref.node);
    if (node.op != "Const") return std::nullopt;
    const auto value = node.attrs.Get<Tensor>("value");
    if (!value.ok() || (value->dtype() != DataType::kInt32 && value->dtype() != DataType::kInt64)) return std::nullopt;
    Ints numbers;
    for (int64_t i = 0; i < value->num_elements(); ++i) {
      numbers.push_back(value->dtype() == DataType::kInt32 ? value->as<int32_t>()[i] : value->as<int64_t>()[i]);
    }
    return numbers;
  }

  // What is left of the dimensions after a sum over space is in the same order either way.
  bool SumsOverSpace(const Node& node) const {
    if ((node.op != "Sum" && node.op != "Mean") || node.attrs.GetOr("keep_dims", false)) return false;
    const int rank = TypeOf(node.inputs[0]).shape.rank();
    const std::optional<Ints> axes = NumbersOf(node.inputs[1]);
    if (!axes) return false;
    std::set<int64_t> summed;
    for (int64_t axis : *axes) summed.insert(axis < 0 ? axis + rank : axis);
    for (int i = 1; i + 1 < rank; ++i) {
      if (summed.count(i) == 0) return false;
    }
    return true;
  }

  // Every operand an image of the result's size, or one number.
  std::optional<Form> ElementwiseForm(const Node& node) const {
    Form form{{}, true, {}, {}};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Shape& shape = TypeOf(node.inputs[i]).shape;
      if (shape == node.outputs[0].shape) {
        form.images.push_back(static_cast<int>(i));
      } else if (shape.num_elements() != 1) {
        return std::nullopt;
      }
    }
    return form.images.empty() ? std::nullopt : std::optional<Form>(form);
  }

  std::optional<Form> AnyForm(const Node& node) const {
    const auto formatted = FormattedOps().find(node.op);
    if (formatted != FormattedOps().end()) {
      const auto format = node.attrs.GetOr<std::string>("data_format", "NHWC");
      return format == "NHWC" || format == "NDHWC" ? std::optional<Form>(formatted->second) : std::nullopt;
    }
    if (node.op == "Slice") return Form{{0}, true, {1, 2}, {}};
    if (node.op == "Pad" || node.op == "PadV2" || node.op == "MirrorPad") return Form{{0}, true, {1}, {}, false, 2};
    if (node.op == "ConcatV2") {
      const int parts = static_cast<int>(node.inputs.size()) - 1;
      Form form{{}, true, {}, {parts}};
      for (int i = 0; i < parts; ++i) form.images.push_back(i);
      return form;
    }
    if (node.inputs.size() == 2 && IsImage(TypeOf(node.inputs[0]).shape) && SumsOverSpace(node)) return Form{{0}, false, {}, {1}};
    return node.outputs.size() == 1 && IsElementwise(node.op) ? ElementwiseForm(node) : std::nullopt;
  }

  std::optional<Form> FormOf(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.removed || node.outputs.empty() || node.dynamic_outputs != 0 || node.run_time_values != 0 ||
        node.attrs.GetOr(kGuarded, false)) {
      return std::nullopt;
    }
    for (OutputRef input : node.inputs) {
      if (graph_.node(input.node).dynamic_output(input.index) || !TypeOf(input).shape.fully_known()) return std::nullopt;
    }
    std::optional<Form> form = AnyForm(node);
    if (!form || (node.outputs.size() > 1 && IsFetched(id))) return std::nullopt;
    const auto fits = [](const TensorType& type) { return type.shape.fully_known() && IsImage(type.shape) && type.shape.num_elements() > 0; };
    for (int i : form->images) {
      if (!fits(TypeOf(node.inputs[i]))) return std::nullopt;
    }
    if (form->result && !fits(node.outputs[0])) return std::nullopt;
    const int rank = RankOf(node, *form);
    for (int i : form->sizes) {
      const std::optional<Ints> numbers = NumbersOf(node.inputs[i]);
      if (!numbers || static_cast<int>(numbers->size()) != rank * form->each) return std::nullopt;
    }
    for (int i : form->axes) {
      if (!NumbersOf(node.inputs[i])) return std::nullopt;
    }
    return form;
  }

  // Fetched are tensors by their names. Where the only result of a node is, the Transpose behind it takes its name.
  bool IsFetched(NodeId id) const {
    const auto uses = fanout_.of(id);
    return std::any_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
      return use.input >= 0 && use.output == 0 && graph_.node(use.consumer).op == "_Fetch";
    });
  }

  int RankOf(const Node& node, const Form& form) const { return TypeOf(node.inputs[form.images[0]]).shape.rank(); }

  // The node that makes the image, where it can make it either way.
  bool MadeInRegion(OutputRef image) const {
    const std::optional<Form>& form = forms_[image.node.value];
    return form && form->result && image.index == 0;
  }
  bool IsImageOf(NodeId consumer, int input) const {
    const std::optional<Form>& form = forms_[consumer.value];
    return form && std::find(form->images.begin(), form->images.end(), input) != form->images.end();
  }

  int32_t RegionOf(int32_t id) {
    while (region_[id] != id) id = region_[id] = region_[region_[id]];
    return id;
  }

  void FindRegions() {
    std::iota(region_.begin(), region_.end(), 0);
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!forms_[i]) continue;
      for (int input : forms_[i]->images) {
        const OutputRef image = graph_.node(NodeId{i}).inputs[input];
        if (MadeInRegion(image)) region_[RegionOf(i)] = RegionOf(image.node.value);
      }
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) region_[i] = RegionOf(i);
  }

  // Bytes that copies of input and output move when the channels are last, less those when they are first.
  double SavedBytes(const Node& node) const {
    const bool filter = node.op == "Conv2DBackpropFilter" || node.op == "Conv3DBackpropFilterV2";
    const bool image = node.op == "Conv2D" || node.op == "Conv3D" || node.op == "Conv2DBackpropInput" || node.op == "Conv3DBackpropInputV2";
    if (!filter && !image) return 0;
    const OutputRef one = node.inputs[filter ? 0 : FormattedOps().at(node.op).images[0]];
    const TensorType& other = filter ? TypeOf(node.inputs[2]) : node.outputs[0];
    const double moved = 2.0 * static_cast<double>(TypeOf(one).size_bytes() + other.size_bytes());
    const bool gains = image && node.outputs[0].dtype == DataType::kFloat;
    return gains ? moved : -moved;
  }

  static double TransposeBytes(const TensorType& type) { return 2.0 * static_cast<double>(type.size_bytes()); }

  void ChooseRegions() {
    std::map<int32_t, double> gain;
    std::set<std::pair<int32_t, OutputRef>> entering;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!forms_[i]) continue;
      const Node& node = graph_.node(NodeId{i});
      gain[region_[i]] += SavedBytes(node);
      for (int input : forms_[i]->images) {
        if (!MadeInRegion(node.inputs[input])) entering.insert({region_[i], node.inputs[input]});
      }
      if (Leaves(NodeId{i})) gain[region_[i]] -= TransposeBytes(node.outputs[0]);
    }
    for (const auto& [region, image] : entering) gain[region] -= TransposeBytes(TypeOf(image));
    for (const auto& [region, bytes] : gain) {
      if (bytes > 0) chosen_.insert(region);
    }
  }

  // Whether somebody takes the image who cannot do so either way.
  bool Leaves(NodeId id) const {
    if (!forms_[id.value]->result) return false;
    const auto uses = fanout_.of(id);
    return std::any_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
      return use.input >= 0 && use.output == 0 && !IsImageOf(use.consumer, use.input);
    });
  }

  bool IsTurned(NodeId id) const {
    return id.value < static_cast<int32_t>(forms_.size()) && forms_[id.value] && chosen_.count(region_[id.value]) > 0;
  }

  // `add` puts it into creation order.
  template <typename Add>
  NodeId AddConst(Add&& add, const std::string& name, DataType dtype, const Shape& shape, const Ints& numbers) {
    Tensor value(dtype, shape);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (dtype == DataType::kInt32) {
        value.mutable_as<int32_t>()[i] = static_cast<int32_t>(numbers[i]);
      } else {
        value.mutable_as<int64_t>()[i] = numbers[i];
      }
    }
    Node node;
    node.name = name;
    node.op = "Const";
    node.outputs = {{dtype, shape}};
    node.attrs = AttrMap({{"dtype", dtype}, {"value", std::move(value)}});
    const NodeId id = add(std::move(node));
    by_value_.push_back(0);
    return id;
  }

  // Attributes, types and constants of a node whose images have their channels first from now on.
  void TurnNode(NodeId id) {
    const Form& form = *forms_[id.value];
    const int rank = RankOf(graph_.node(id), form);
    for (int i : form.sizes) ReplaceNumbers(id, i, Turned(*NumbersOf(graph_.node(id).inputs[i]), rank, form.each));
    for (int i : form.axes) {
      Ints axes = *NumbersOf(graph_.node(id).inputs[i]);
      for (int64_t& axis : axes) axis = TurnedAxis(axis, rank);
      ReplaceNumbers(id, i, axes);
    }
    Node& node = graph_.mutable_node(id);
    if (form.result) node.outputs[0].shape = TurnedShape(node.outputs[0].shape);
    node.reason = "channels first";
    if (!form.formatted) return;
    // TensorFlow names four dimensions for biases, whatever there are.
    const bool bias = node.op == "BiasAdd" || node.op == "BiasAddGrad";
    node.attrs.Set("data_format", std::string(rank == 5 && !bias ? "NCDHW" : "NCHW"));
    for (const auto& [name, each] : {std::pair<const char*, int>{"strides", 1}, {"dilations", 1}, {"ksize", 1}, {"explicit_paddings", 2}}) {
      const Ints list = node.attrs.GetOr<Ints>(name, {});
      if (static_cast<int>(list.size()) == rank * each) node.attrs.Set(name, Turned(list, rank, each));
    }
  }

  void ReplaceNumbers(NodeId id, int input, const Ints& numbers) {
    const OutputRef old = graph_.node(id).inputs[input];
    const TensorType type = TypeOf(old);
    const auto before = [&](Node node) { return places_.AddBefore(graph_, id, std::move(node)); };
    const NodeId added = AddConst(before, absl::StrCat(graph_.node(old.node).name, "/channels_first"), type.dtype, type.shape, numbers);
    graph_.mutable_node(id).inputs[input] = {added, 0};
  }

  // Images that come from, or go to, a place where the channels are otherwise pass through a Transpose.
  void ConnectNode(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const OutputRef image = graph_.node(id).inputs[i];
      const bool from_first = IsTurned(image.node) && MadeInRegion(image);
      const bool to_first = IsTurned(id) && IsImageOf(id, static_cast<int>(i));
      if (from_first == to_first) continue;
      graph_.mutable_node(id).inputs[i] = Transposed(image, to_first, id);
    }
  }

  // One for all who take it: with the channels first it stands before the first of them, else behind the image.
  OutputRef Transposed(OutputRef image, bool to_first, NodeId consumer) {
    const auto known = transposed_.find(image);
    if (known != transposed_.end()) return {known->second, 0};
    const TensorType type = TypeOf(image);
    const int rank = type.shape.rank();
    const Ints order = to_first ? Turn(rank) : TurnBack(rank);
    const std::string image_name = graph_.node(image.node).name;
    std::string name = absl::StrCat(image_name, to_first ? "/channels_first" : "/channels_last");
    if (!to_first && IsFetched(image.node)) {
      graph_.Rename(image.node, absl::StrCat(image_name, "/channels_first"));
      name = image_name;
    }
    Node node;
    node.name = name;
    node.op = "Transpose";
    node.requested_device = graph_.node(to_first ? consumer : image.node).requested_device;
    node.attrs = AttrMap({{"T", type.dtype}, {"Tperm", DataType::kInt32}});
    node.reason = to_first ? "channels first" : "channels last";
    Shape shape;
    for (int64_t dim : order) shape.AddDim(type.shape.dim(static_cast<int>(dim)));
    node.outputs = {{type.dtype, shape}};
    const auto add = [&](Node added) {
      return to_first ? places_.AddBefore(graph_, consumer, std::move(added)) : places_.AddAfter(graph_, image.node, std::move(added));
    };
    node.inputs = {image, {AddConst(add, absl::StrCat(name, "/perm"), DataType::kInt32, Shape({rank}), order), 0}};
    const NodeId id = add(std::move(node));
    by_value_.push_back(uint64_t{1} << 1);  // the permutation
    transposed_.emplace(image, id);
    return {id, 0};
  }

  // As the nodes stand in creation order.
  void Renumber() {
    const std::vector<NodeId> now = places_.Renumber(graph_);
    std::vector<uint64_t> by_value(graph_.num_ids(), 0);
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i].valid()) by_value[now[i].value] = by_value_[i];
    }
    by_value_ = std::move(by_value);
  }

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<std::optional<Form>> forms_;  // of nodes that compute either way
  std::vector<int32_t> region_;
  std::set<int32_t> chosen_;
  CreationPlaces places_;
  std::map<OutputRef, NodeId> transposed_;
};

}  // namespace

absl::StatusOr<int64_t> ChannelsFirst(Graph& graph, std::vector<uint64_t>& by_value) { return Turner(graph, by_value).Run(); }

}  // namespace millrace
