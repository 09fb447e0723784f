#include "passes/control_flow/harmless_inputs.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

enum class Fails { kAlways, kForIntegers };

struct Row {
  int input;
  const char* type;  // attribute, if there is one
  HarmlessValue value = HarmlessValue::kZeros;
  Fails fails = Fails::kAlways;  // by the attribute
  DataType untyped = DataType::kInt32;  // without an attribute
};
using Table = std::unordered_map<std::string, std::vector<Row>>;

void AddScatters(Table& table) {
  for (const char* kind : {"Add", "Sub", "Mul", "Div", "Min", "Max", "Update"}) {
    for (const char* family : {"Scatter", "ResourceScatter", "ScatterNd", "ResourceScatterNd", "TensorScatter"}) {
      table[std::string(family) + kind] = {{1, "Tindices"}};
    }
  }
  table["ScatterNd"] = {{0, "Tindices"}};
  table["ScatterNdNonAliasingAdd"] = {{1, "Tindices"}};
  table["ScatterDiv"].push_back({2, "T", HarmlessValue::kOnes, Fails::kForIntegers});
  table["ResourceScatterDiv"].push_back({2, "dtype", HarmlessValue::kOnes, Fails::kForIntegers});
}

void AddSegments(Table& table) {
  for (const char* kind : {"Sum", "Mean", "Prod", "Min", "Max"}) {
    table[std::string("Segment") + kind] = {{1, "Tindices"}};
    table[std::string("UnsortedSegment") + kind] = {{1, "Tindices"}};
  }
  for (const char* kind : {"Sum", "Mean", "SqrtN"}) {
    for (const char* form : {"", "Grad", "GradV2", "WithNumSegments"}) {
      table[std::string("SparseSegment") + kind + form] = {{1, "Tidx"}, {2, "Tsegmentids"}};
    }
  }
}

void AddSparseUpdates(Table& table) {
  const std::pair<const char*, int> indices[] = {
      {"Adadelta", 7}, {"Adagrad", 4},       {"AdagradDA", 4},        {"AdagradV2", 5}, {"CenteredRMSProp", 9},
      {"Ftrl", 4},     {"FtrlV2", 4},        {"KerasMomentum", 4},    {"Momentum", 4},  {"ProximalAdagrad", 6},
      {"RMSProp", 8},  {"ProximalGradientDescent", 5}};
  for (const auto& [rule, input] : indices) {
    table[std::string("SparseApply") + rule] = {{input, "Tindices"}};
    table[std::string("ResourceSparseApply") + rule] = {{input, "Tindices"}};
  }
}

// Numbers of algorithms, of which 1 is one, and bounds, the lower one first.
void AddRandomNumbers(Table& table) {
  for (const char* op : {"StatelessRandomNormalV2", "StatelessRandomUniformFullIntV2", "StatelessRandomUniformIntV2", "StatelessRandomUniformV2",
                         "StatelessTruncatedNormalV2"}) {
    table[op] = {{3, nullptr, HarmlessValue::kOnes}};
  }
  const std::tuple<const char*, int, const char*> bounds[] = {{"RandomUniformInt", 1, "Tout"},
                                                              {"StatefulUniformInt", 3, "dtype"},
                                                              {"StatelessRandomUniformInt", 2, "dtype"},
                                                              {"StatelessRandomUniformIntV2", 4, "dtype"}};
  for (const auto& [op, first, type] : bounds) {
    table[op].push_back({first, type});
    table[op].push_back({first + 1, type, HarmlessValue::kOnes});
  }
}

Table MakeTable() {
  Table table;
  for (const char* op : {"Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod"}) {
    table[op] = {{1, "T", HarmlessValue::kOnes, Fails::kForIntegers}};
  }
  table["Pow"] = {{1, "T", HarmlessValue::kZeros, Fails::kForIntegers}};
  for (const char* op : {"CheckNumerics", "CheckNumericsV2"}) table[op] = {{0, "T"}};
  for (const char* op : {"Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd"}) {
    table[op] = {{1, "Tindices"}};
  }
  for (const char* op : {"Cholesky", "Eig", "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "SelfAdjointEigV2", "Lu"}) {
    table[op] = {{0, "T", HarmlessValue::kIdentity}};
  }
  table["BandedTriangularSolve"] = {{0, "T", HarmlessValue::kOnes}};
  table["InvertPermutation"] = {{0, "T", HarmlessValue::kPositions}};
  for (const char* op : {"AllCandidateSampler", "FixedUnigramCandidateSampler", "LogUniformCandidateSampler", "UniformCandidateSampler"}) {
    table[op] = {{0, nullptr, HarmlessValue::kZeros, Fails::kAlways, DataType::kInt64}};
  }
  // Means, deviations, then bounds, of which the lower one must be lower.
  table["StatelessParameterizedTruncatedNormal"] = {{2, "dtype"}, {3, "dtype", HarmlessValue::kOnes}, {4, "dtype"}, {5, "dtype", HarmlessValue::kOnes}};
  table["ParameterizedTruncatedNormal"] = {{1, "dtype"}, {2, "dtype", HarmlessValue::kOnes}, {3, "dtype"}, {4, "dtype", HarmlessValue::kOnes}};
  for (const char* op : {"CudnnRNNV3", "CudnnRNNBackpropV3"}) table[op] = {{4, nullptr}};
  for (const char* op : {"CropAndResize", "CropAndResizeGradImage"}) table[op] = {{2, nullptr}};
  table["CropAndResize"].push_back({1, nullptr, HarmlessValue::kZeros, Fails::kAlways, DataType::kFloat});
  table["CropAndResizeGradBoxes"] = {{3, nullptr}};
  table["SparseTensorDenseMatMul"] = {{0, "Tindices"}};
  for (const char* op : {"BlockLSTM", "BlockLSTMV2", "BlockLSTMGrad", "BlockLSTMGradV2"}) {
    table[op] = {{0, nullptr, HarmlessValue::kZeros, Fails::kAlways, DataType::kInt64}};
  }
  table["MatrixBandPart"] = {{1, "Tindex"}, {2, "Tindex"}};
  table["Slice"] = {{1, "Index"}};
  table["UnravelIndex"] = {{0, "Tidx"}, {1, "Tidx", HarmlessValue::kOnes}};
  table["SparseSoftmaxCrossEntropyWithLogits"] = {{1, "Tlabels"}};
  table["DynamicPartition"] = {{1, nullptr}};
  table["ReverseSequence"] = {{1, "Tlen"}};
  table["Bincount"] = {{0, nullptr}};
  table["DenseBincount"] = {{0, "Tidx"}};
  AddRandomNumbers(table);
  AddScatters(table);
  AddSegments(table);
  AddSparseUpdates(table);
  return table;
}

// Of the type attributes above where a graph leaves them to TensorFlow's defaults.
DataType DefaultOf(const std::string& op, const std::string& attribute) {
  if (attribute == "T") return op == "InvertPermutation" ? DataType::kInt32 : DataType::kFloat;
  if (op == "StatelessParameterizedTruncatedNormal" || op == "ParameterizedTruncatedNormal") return DataType::kFloat;
  if (attribute == "Tindices" && op == "SparseTensorDenseMatMul") return DataType::kInt64;
  if (op == "MatrixBandPart" || op == "StatefulUniformInt") return DataType::kInt64;
  return attribute == "Tlabels" || attribute == "Tlen" ? DataType::kInt64 : DataType::kInt32;
}

// Of these those that the node has.
std::vector<size_t> InputsOf(const Node& node, std::vector<size_t> inputs) {
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), [&](size_t input) { return input >= node.inputs.size(); }), inputs.end());
  return inputs;
}

}  // namespace

std::vector<HarmlessInput> HarmlessInputsOf(const Node& node) {
  static const Table& table = *new Table(MakeTable());
  std::vector<HarmlessInput> inputs;
  const auto found = table.find(node.op);
  if (found == table.end()) return inputs;
  for (const Row& row : found->second) {
    if (row.input >= static_cast<int>(node.inputs.size())) continue;
    const DataType type =
        row.type == nullptr ? row.untyped : node.attrs.GetOr<DataType>(row.type, DefaultOf(node.op, row.type));
    if (row.fails == Fails::kForIntegers && !IsInteger(type)) continue;
    inputs.push_back({row.input, type, row.value});
  }
  return inputs;
}

std::vector<size_t> CheckedInputsOf(const Node& node) {
  // Where a slice begins; where it ends cannot be wrong, but for what takes the slice's size.
  if (node.op == "StridedSlice") return node.attrs.GetOr<int64_t>("shrink_axis_mask", 0) != 0 ? InputsOf(node, {1}) : std::vector<size_t>();
  static const auto& some = *new std::unordered_map<std::string, std::vector<size_t>>{
      {"All", {1}},  {"Any", {1}},  {"EuclideanNorm", {1}}, {"Max", {1}}, {"Mean", {1}}, {"Min", {1}},
      {"Prod", {1}}, {"Sum", {1}},  {"ResourceStridedSliceAssign", {1, 2, 3}}, {"StridedSliceAssign", {1, 2, 3}},
      {"StridedSliceGrad", {0, 1, 2, 3}}, {"TensorStridedSliceUpdate", {1, 2, 3}}};
  if (const auto found = some.find(node.op); found != some.end()) return InputsOf(node, found->second);
  static const auto& ops = *new std::unordered_set<std::string>{
      "BroadcastArgs", "CTCBeamSearchDecoder", "CTCGreedyDecoder", "CTCLoss", "CTCLossV2", "CombinedNonMaxSuppression", "ConcatOffset", "CountUpTo",
      "DataFormatDimMap", "DenseCountSparseOutput", "DenseToDenseSetOperation", "DenseToSparseSetOperation", "EditDistance",
      "FractionalAvgPoolGrad", "FractionalMaxPoolGrad", "HistogramFixedWidth", "InplaceAdd", "InplaceSub", "InplaceUpdate",
      "MatrixDiagPartV2", "MatrixDiagPartV3", "MatrixDiagV2", "MatrixDiagV3", "MatrixSetDiagV2", "MatrixSetDiagV3", "MatrixSolveLs",
      "MaxPoolGradWithArgmax", "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
      "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps", "NthElement", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3",
      "QuantizeAndDequantizeV4", "QuantizeAndDequantizeV4Grad", "QuantizeV2", "RaggedBincount", "RaggedCountSparseOutput",
      "RaggedCross", "RaggedFillEmptyRows", "RaggedFillEmptyRowsGrad", "RaggedGather", "RaggedRange", "RaggedTensorToSparse",
      "RaggedTensorToTensor", "RandomIndexShuffle", "ResourceCountUpTo", "Roll", "ScaleAndTranslate", "ScaleAndTranslateGrad", "SetSize",
      "SparseAdd", "SparseAddGrad", "SparseBincount", "SparseConcat", "SparseCountSparseOutput", "SparseCross", "SparseCrossHashed",
      "SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul", "SparseFillEmptyRows", "SparseFillEmptyRowsGrad", "SparseReduceMax",
      "SparseReduceMaxSparse", "SparseReduceSum", "SparseReduceSumSparse", "SparseReshape", "SparseSlice", "SparseSliceGrad", "SparseSoftmax",
      "SparseSparseMaximum", "SparseSparseMinimum", "SparseSplit", "SparseTensorDenseAdd", "SparseToDense", "SparseToSparseSetOperation",
      "StatelessSampleDistortedBoundingBox", "_AccumulatorTake", "_QueueClose", "_QueueDequeue", "_QueueEnqueue", "_SparseAccumulatorApply",
      "_SparseAccumulatorTake", "_SparseMatrixProduct", "_TableFind", "_TableInsert", "_TableRemove"};
  std::vector<size_t> all;
  for (size_t i = 0; ops.count(node.op) > 0 && i < node.inputs.size(); ++i) all.push_back(i);
  return all;
}

bool KnownWhenPlanned::Holds(OutputRef ref) {
  std::vector<int32_t> open = {ref.node.value};
  while (!open.empty()) {
    const int32_t id = open.back();
    if (known_.count(id) > 0) {
      open.pop_back();
      continue;
    }
    const Node& node = graph_.node(NodeId{id});
    const OpDef* def = ops_.Find(node.op);
    if (node.op == "Const" || (def != nullptr && def->from_types)) {
      known_[id] = true;
      continue;
    }
    if ((def == nullptr && !IsSwitch(node)) || (def != nullptr && def->stateful) || IsMerge(node) || node.inputs.empty()) {
      known_[id] = false;
      continue;
    }
    const size_t count = IsSwitch(node) ? 1 : node.inputs.size();  // a Switch passes on its first input
    bool known = true, asked = false;
    for (size_t i = 0; i < count && known; ++i) {
      const auto input = known_.find(node.inputs[i].node.value);
      if (input != known_.end()) {
        known = input->second;
      } else {
        open.push_back(node.inputs[i].node.value);
        asked = true;
      }
    }
    if (!known) known_[id] = false;
    if (known && !asked) known_[id] = true;
  }
  return known_.at(ref.node.value);
}

}  // namespace millrace
