#include "graph/fused_conv.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

// Behind the bias, which is the first input of it.
constexpr int kBias = 2, kSide = 3;

bool ChannelsFirst(const OpInstance& node) {
  const auto format = node.attrs.GetOr<std::string>("data_format", "NHWC");
  return format == "NCHW" || format == "NCDHW";
}

OpInstance Over(const OpInstance& node, const char* op) {
  OpInstance over;
  over.name = node.name;
  over.op = op;
  over.inputs = over.outputs = node.outputs;
  return over;
}

}  // namespace

absl::StatusOr<ConvEpilogue> ConvEpilogueOf(const AttrMap& attrs) {
  const auto ops = attrs.GetOr<std::vector<std::string>>("fused_ops", {});
  for (const bool side : {false, true}) {
    for (const bool relu : {false, true}) {
      const ConvEpilogue epilogue{side, relu};
      if (ops == FusedOpsOf(epilogue)) return epilogue;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("fused_ops is [", absl::StrJoin(ops, ", "), "], expected BiasAdd, then perhaps Add, then perhaps Relu"));
}

std::vector<std::string> FusedOpsOf(const ConvEpilogue& epilogue) {
  std::vector<std::string> ops{"BiasAdd"};
  if (epilogue.side) ops.push_back("Add");
  if (epilogue.relu) ops.push_back("Relu");
  return ops;
}

OpInstance ConvolutionOf(const OpInstance& node) {
  OpInstance convolution = node;
  convolution.op = node.op == "_FusedConv3D" ? "Conv3D" : "Conv2D";
  convolution.inputs.resize(2);
  convolution.input_values.clear();
  for (const char* name : {"fused_ops", "num_args"}) convolution.attrs.Erase(name);
  return convolution;
}

std::vector<EpilogueNode> EpilogueNodesOf(const OpInstance& node, const ConvEpilogue& epilogue) {
  std::vector<EpilogueNode> nodes;
  const TensorType& result = node.outputs[0];
  EpilogueNode group{Over(node, "_Fused"), {}};
  std::vector<FunctionRef> ops;
  std::vector<int64_t> operands;
  // Of what the op before gave, and `other`, an input of the whole node.
  const auto add = [&](const char* op, int other = 0) {
    ops.push_back({op, std::make_shared<AttrMap>()});
    operands.push_back(other > 0 ? 2 : 1);
    operands.push_back(ops.size() > 1 ? 1 - static_cast<int64_t>(ops.size()) : 0);
    if (other == 0) return;
    group.others.push_back(other);
    group.node.inputs.push_back(node.inputs[other]);
    operands.push_back(static_cast<int64_t>(group.others.size()));
  };
  // Groups add rows to the last dimension.
  const bool apart = ChannelsFirst(node);
  if (apart) {
    EpilogueNode bias{Over(node, "BiasAdd"), {kBias}};
    bias.node.inputs.push_back(node.inputs[kBias]);
    bias.node.attrs = AttrMap({{"T", result.dtype}, {"data_format", std::string("NCHW")}});
    nodes.push_back(std::move(bias));
  } else {
    add("BiasAdd", kBias);
  }
  if (epilogue.side) add("AddV2", kSide);
  if (epilogue.relu) add("Relu");
  if (ops.empty()) return nodes;
  const int64_t row = apart ? 0 : result.shape.dim(result.shape.rank() - 1);
  std::vector<DataType> types(ops.size(), result.dtype);
  group.node.attrs = AttrMap({{"ops", std::move(ops)}, {"operands", std::move(operands)}, {"types", std::move(types)}, {"row", row}});
  nodes.push_back(std::move(group));
  return nodes;
}

}  // namespace millrace
