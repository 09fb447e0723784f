#include "passes/rewrite/layout_forms.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "millrace/guard.h"
#include "millrace/tensor.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

const std::map<std::string, LayoutForm>& FormattedOps() {
  static const auto* const forms = [] {
    auto* all = new std::map<std::string, LayoutForm>;
    const auto add = [&](std::initializer_list<const char*> ops, LayoutForm form) {
      form.formatted = true;
      for (const char* op : ops) all->emplace(op, form);
    };
    add({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "BiasAdd", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D", "FusedBatchNorm",
         "FusedBatchNormV2", "FusedBatchNormV3"},
        {.images = {0}, .result = true});
    add({"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"},
        {.images = {2}, .result = true, .sizes = {0}});
    add({"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"}, {.images = {0, 2}});
    add({"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"}, {.images = {0, 1}, .result = true});
    add({"MaxPoolGrad", "MaxPool3DGrad"}, {.images = {0, 1, 2}, .result = true});
    add({"AvgPoolGrad", "AvgPool3DGrad"}, {.images = {1}, .result = true, .sizes = {0}});
    add({"BiasAddGrad"}, {.images = {0}});
    return all;
  }();
  return *forms;
}

bool IsImage(const Shape& shape) { return shape.rank() == 4 || shape.rank() == 5; }

bool Reduces(const std::string& op) { return op == "Sum" || op == "Mean" || op == "Max" || op == "Min" || op == "Prod"; }

class FormFinder {
 public:
  FormFinder(const Graph& graph, const OpRegistry& ops, const Fanout& fanout) : graph_(graph), ops_(ops), fanout_(fanout) {}

  std::optional<LayoutForm> FormOf(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.removed || node.outputs.empty() || node.dynamic_outputs != 0 || node.run_time_values != 0 ||
        node.attrs.GetOr(kGuarded, false)) {
      return std::nullopt;
    }
    for (OutputRef input : node.inputs) {
      if (graph_.node(input.node).dynamic_output(input.index) || !ShapeOf(input).fully_known()) return std::nullopt;
    }
    std::optional<LayoutForm> form = AnyForm(node);
    if (!form || (node.outputs.size() > 1 && IsFetched(graph_, fanout_, id)) || !Holds(node, *form)) return std::nullopt;
    return form;
  }

 private:
  const Shape& ShapeOf(OutputRef ref) const { return graph_.type(ref).shape; }

  std::optional<LayoutForm> AnyForm(const Node& node) const {
    const auto formatted = FormattedOps().find(node.op);
    if (formatted != FormattedOps().end()) {
      const auto format = node.attrs.GetOr<std::string>("data_format", "NHWC");
      return format == "NHWC" || format == "NDHWC" ? std::optional<LayoutForm>(formatted->second) : std::nullopt;
    }
    if (node.op == "Slice") return LayoutForm{.images = {0}, .result = true, .sizes = {1, 2}};
    if (node.op == "Pad" || node.op == "PadV2" || node.op == "MirrorPad") {
      return LayoutForm{.images = {0}, .result = true, .sizes = {1}, .each = 2};
    }
    if (node.op == "Tile") return LayoutForm{.images = {0}, .result = true, .sizes = {1}};
    if (node.op == "BroadcastTo") {
      const bool of_images = ShapeOf(node.inputs[0]).rank() == node.outputs[0].shape.rank();
      return of_images ? std::optional<LayoutForm>({.images = {0}, .result = true, .sizes = {1}}) : std::nullopt;
    }
    if (node.op == "ConcatV2") {
      const int parts = static_cast<int>(node.inputs.size()) - 1;
      LayoutForm form{.result = true, .axes = {parts}};
      for (int i = 0; i < parts; ++i) form.images.push_back(i);
      return form;
    }
    if (Reduces(node.op)) return ReductionForm(node);
    return node.outputs.size() == 1 && IsElementwise(node.op) ? ElementwiseForm(node) : std::nullopt;
  }

  // What is left of the dimensions after a reduction over all of space is in the same order either way.
  std::optional<LayoutForm> ReductionForm(const Node& node) const {
    const int rank = ShapeOf(node.inputs[0]).rank();
    if (node.attrs.GetOr("keep_dims", false)) return LayoutForm{.images = {0}, .result = true, .axes = {1}};
    const std::optional<Ints> axes = NumbersOf(graph_, node.inputs[1]);
    if (!axes) return std::nullopt;
    std::set<int64_t> reduced;
    for (int64_t axis : *axes) reduced.insert(axis < 0 ? axis + rank : axis);
    for (int i = 1; i + 1 < rank; ++i) {
      if (reduced.count(i) == 0) return std::nullopt;
    }
    return LayoutForm{.images = {0}, .axes = {1}};
  }

  // Operands of the result's dimensions, repeated or not; vectors; one number; of Select a condition for each of the batch.
  std::optional<LayoutForm> ElementwiseForm(const Node& node) const {
    LayoutForm form{.result = true};
    const int rank = node.outputs[0].shape.rank();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Shape& shape = ShapeOf(node.inputs[i]);
      const auto& dims = shape.dims();
      if (shape.num_elements() == 1 || (node.op == "Select" && shape.rank() == 1)) continue;
      if (shape.rank() == rank) {
        form.images.push_back(static_cast<int>(i));
      } else if (std::count(dims.begin(), dims.end(), 1) + 1 >= shape.rank()) {
        form.vectors.push_back(static_cast<int>(i));
      } else {
        return std::nullopt;
      }
    }
    return form.images.empty() ? std::nullopt : std::optional<LayoutForm>(form);
  }

  // Images are images, and what goes by dimensions is known.
  bool Holds(const Node& node, const LayoutForm& form) const {
    const auto fits = [](const Shape& shape) { return shape.fully_known() && IsImage(shape) && shape.num_elements() > 0; };
    for (int i : form.images) {
      if (!fits(ShapeOf(node.inputs[i])) || ReferenceOf(graph_, ops_, node.inputs[i]).valid()) return false;
    }
    if (form.result && !fits(node.outputs[0].shape)) return false;
    const int rank = ShapeOf(node.inputs[form.images[0]]).rank();
    for (int i : form.sizes) {
      const std::optional<Ints> numbers = NumbersOf(graph_, node.inputs[i]);
      if (!numbers || static_cast<int>(numbers->size()) != rank * form.each) return false;
    }
    return std::all_of(form.axes.begin(), form.axes.end(), [&](int i) { return NumbersOf(graph_, node.inputs[i]).has_value(); });
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const Fanout& fanout_;
};

}  // namespace

std::vector<std::optional<LayoutForm>> LayoutFormsOf(const Graph& graph, const OpRegistry& ops, const Fanout& fanout) {
  const FormFinder finder(graph, ops, fanout);
  std::vector<std::optional<LayoutForm>> forms(graph.num_ids());
  for (int32_t i = 0; i < graph.num_ids(); ++i) forms[i] = finder.FormOf(NodeId{i});
  return forms;
}

bool IsFetched(const Graph& graph, const Fanout& fanout, NodeId id) {
  const auto uses = fanout.of(id);
  return std::any_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
    return use.input >= 0 && use.output == 0 && graph.node(use.consumer).op == "_Fetch";
  });
}

std::optional<Ints> NumbersOf(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  if (node.op != "Const") return std::nullopt;
  const auto value = node.attrs.Get<Tensor>("value");
  if (!value.ok() || (value->dtype() != DataType::kInt32 && value->dtype() != DataType::kInt64)) return std::nullopt;
  Ints numbers;
  for (int64_t i = 0; i < value->num_elements(); ++i) {
    numbers.push_back(value->dtype() == DataType::kInt32 ? value->as<int32_t>()[i] : value->as<int64_t>()[i]);
  }
  return numbers;
}

bool MadeEitherWay(const std::vector<std::optional<LayoutForm>>& forms, OutputRef image) {
  const std::optional<LayoutForm>& form = forms[image.node.value];
  return form && form->result && image.index == 0;
}

bool IsImageOf(const std::vector<std::optional<LayoutForm>>& forms, NodeId consumer, int input) {
  const std::optional<LayoutForm>& form = forms[consumer.value];
  return form && std::find(form->images.begin(), form->images.end(), input) != form->images.end();
}

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

Shape TurnedShape(const Shape& shape) {
  Shape turned;
  for (int64_t dim : Turn(shape.rank())) turned.AddDim(shape.dim(static_cast<int>(dim)));
  return turned;
}

bool TurnsInPlace(const Shape& channels_last) {
  const auto& dims = channels_last.dims();
  return dims.back() == 1 || std::all_of(dims.begin() + 1, dims.end() - 1, [](int64_t dim) { return dim == 1; });
}

}  // namespace millrace
