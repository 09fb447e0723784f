#include "passes/rewrite/channels_first.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/tensor.h"
#include "passes/control_flow/creation_places.h"
#include "passes/rewrite/choose_layouts.h"
#include "passes/rewrite/layout_forms.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

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

// With ones in front, up to `rank` dimensions.
Shape Widened(const Shape& shape, int rank) {
  Shape wide;
  for (int i = shape.rank(); i < rank; ++i) wide.AddDim(1);
  for (int64_t dim : shape.dims()) wide.AddDim(dim);
  return wide;
}

Ints DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

class Turner {
 public:
  Turner(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value)
      : graph_(graph),
        by_value_(by_value),
        fanout_(ComputeFanout(graph)),
        forms_(LayoutFormsOf(graph, ops, fanout_)),
        chosen_(ChooseChannelsFirst(graph, fanout_, forms_)) {}

  int64_t Run() {
    const int64_t turned = std::count(chosen_.begin(), chosen_.end(), true);
    if (turned == 0) return 0;
    const int32_t before = graph_.num_ids();
    by_value_.resize(before, 0);
    for (int32_t i = 0; i < before; ++i) {
      if (chosen_[i] && forms_[i]->result) given_.emplace(i, graph_.node(NodeId{i}).outputs[0].shape);
    }
    for (int32_t i = 0; i < before; ++i) {
      if (chosen_[i]) TurnNode(NodeId{i});
    }
    for (int32_t i = 0; i < before; ++i) {
      if (graph_.alive(NodeId{i})) ConnectNode(NodeId{i});
    }
    if (!places_.empty()) places_.Renumber(graph_, by_value_);
    return turned;
  }

 private:
  const TensorType& TypeOf(OutputRef ref) const { return graph_.type(ref); }
  bool IsTurned(NodeId id) const { return id.value < static_cast<int32_t>(chosen_.size()) && chosen_[id.value]; }

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
    const LayoutForm& form = *forms_[id.value];
    const int rank = TypeOf(graph_.node(id).inputs[form.images[0]]).shape.rank();
    for (int i : form.sizes) ReplaceNumbers(id, i, Turned(*NumbersOf(graph_, graph_.node(id).inputs[i]), rank, form.each));
    for (int i : form.axes) {
      Ints axes = *NumbersOf(graph_, graph_.node(id).inputs[i]);
      for (int64_t& axis : axes) axis = TurnedAxis(axis, rank);
      ReplaceNumbers(id, i, axes);
    }
    for (int i : form.vectors) graph_.mutable_node(id).inputs[i] = TurnedVector(graph_.node(id).inputs[i], rank, id);
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

  // As it was before anything turned. A vector has the same bytes either way.
  const Shape& GivenShape(OutputRef ref) const {
    const auto given = ref.index == 0 ? given_.find(ref.node.value) : given_.end();
    return given == given_.end() ? TypeOf(ref).shape : given->second;
  }

  // The vector in dimensions of its own, one for all who take it.
  OutputRef TurnedVector(OutputRef vector, int rank, NodeId consumer) {
    const auto [known, added] = vectors_.insert({{vector, rank}, NodeId{}});
    if (added) {
      const auto add = [&](Node node) { return places_.AddBefore(graph_, consumer, std::move(node)); };
      const Node& from = graph_.node(vector.node);
      const std::string name = absl::StrCat(from.name, vector.index > 0 ? absl::StrCat("/", vector.index) : "", "/channels_first", rank);
      known->second = AddView(add, name, vector, TurnedShape(Widened(GivenShape(vector), rank)), graph_.node(consumer).requested_device);
    }
    return {known->second, 0};
  }

  // Images that come from, or go to, a place where the channels are otherwise pass through a Transpose.
  void ConnectNode(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const OutputRef image = graph_.node(id).inputs[i];
      const bool from_first = IsTurned(image.node) && MadeEitherWay(forms_, image);
      const bool to_first = IsTurned(id) && IsImageOf(forms_, id, static_cast<int>(i));
      if (from_first == to_first) continue;
      graph_.mutable_node(id).inputs[i] = Transposed(image, to_first, id);
    }
  }

  // One for all who take it: with the channels first it stands before the first of them, else behind the image.
  OutputRef Transposed(OutputRef image, bool to_first, NodeId consumer) {
    const auto known = transposed_.find(image);
    if (known != transposed_.end()) return {known->second, 0};
    const Shape& from = TypeOf(image).shape;
    const Ints order = to_first ? Turn(from.rank()) : TurnBack(from.rank());
    Shape shape;
    for (int64_t dim : order) shape.AddDim(from.dim(static_cast<int>(dim)));
    const std::string image_name = graph_.node(image.node).name;
    std::string name = absl::StrCat(image_name, to_first ? "/channels_first" : "/channels_last");
    if (!to_first && IsFetched(graph_, fanout_, image.node)) {
      graph_.Rename(image.node, absl::StrCat(image_name, "/channels_first"));
      name = image_name;
    }
    const std::string device = graph_.node(to_first ? consumer : image.node).requested_device;
    const auto add = [&](Node added) {
      return to_first ? places_.AddBefore(graph_, consumer, std::move(added)) : places_.AddAfter(graph_, image.node, std::move(added));
    };
    const NodeId id = TurnsInPlace(to_first ? from : shape) ? AddView(add, name, image, shape, device)
                                                            : AddTranspose(add, name, image, shape, order, device);
    graph_.mutable_node(id).reason = to_first ? "channels first" : "channels last";
    transposed_.emplace(image, id);
    return {id, 0};
  }

  template <typename Add>
  NodeId AddTranspose(Add&& add, const std::string& name, OutputRef image, const Shape& shape, const Ints& order, const std::string& device) {
    const DataType dtype = TypeOf(image).dtype;
    const AttrMap attrs({{"T", dtype}, {"Tperm", DataType::kInt32}});
    return AddNumbered(add, name, "Transpose", "/perm", image, order, attrs, shape, device);
  }
  template <typename Add>
  NodeId AddView(Add&& add, const std::string& name, OutputRef image, const Shape& shape, const std::string& device) {
    const DataType dtype = TypeOf(image).dtype;
    const AttrMap attrs({{"T", dtype}, {"Tshape", DataType::kInt32}});
    return AddNumbered(add, name, "Reshape", "/shape", image, DimsOf(shape), attrs, shape, device);
  }

  // A node of a tensor and numbers that are known by value.
  template <typename Add>
  NodeId AddNumbered(Add&& add, const std::string& name, const char* op, const char* suffix, OutputRef image, const Ints& numbers,
                     const AttrMap& attrs, const Shape& shape, const std::string& device) {
    Node node;
    node.name = name;
    node.op = op;
    node.requested_device = device;
    node.attrs = attrs;
    node.reason = "channels first";
    node.outputs = {{TypeOf(image).dtype, shape}};
    const Shape list({static_cast<int64_t>(numbers.size())});
    node.inputs = {image, {AddConst(add, absl::StrCat(name, suffix), DataType::kInt32, list, numbers), 0}};
    const NodeId id = add(std::move(node));
    by_value_.push_back(uint64_t{1} << 1);
    return id;
  }

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  const std::vector<std::optional<LayoutForm>> forms_;  // of nodes that compute either way
  const std::vector<bool> chosen_;
  CreationPlaces places_;
  std::map<int32_t, Shape> given_;  // of results that are turned, by node
  std::map<OutputRef, NodeId> transposed_;
  std::map<std::pair<OutputRef, int>, NodeId> vectors_;
};

}  // namespace

absl::StatusOr<int64_t> ChannelsFirst(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value) {
  return Turner(graph, ops, by_value).Run();
}

}  // namespace millrace
