// Shape rules meet nodes that no checked graph holds: each op with too few inputs, of every small rank.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/guard.h"
#include "millrace/op.h"

namespace millrace {
namespace {

std::vector<TensorType> Inputs(int count, DataType dtype, int rank) {
  return std::vector<TensorType>(count, {dtype, Shape(std::vector<int64_t>(rank, 2))});
}

// A rule may accept fewer inputs than TensorFlow's op has, but it must not read beyond them.
TEST(ShapeRulesTest, EveryOpRefusesOrAcceptsTooFewInputs) {
  const OpRegistry& registry = OpRegistry::Builtin();
  int refused = 0;
  for (const std::string& name : registry.Names()) {
    SCOPED_TRACE(name);
    for (int count = 0; count <= 4; ++count) {
      for (int rank : {0, 1, 4}) {
        for (DataType dtype : {DataType::kFloat, DataType::kInt32}) {
          const std::vector<TensorType> inputs = Inputs(count, dtype, rank);
          const std::vector<const Tensor*> values(count, nullptr);
          const AttrMap attrs;
          InferenceContext context("node", name, attrs, inputs, values);
          const absl::Status status = registry.Find(name)->InferShapes(context);
          if (!status.ok()) ++refused;
          EXPECT_TRUE(context.ExpectInputsRead().ok() || !status.ok());
        }
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(registry.Names().size()));
}

// A node as a damaged or hostile graph may hold it: sizes, axes and attributes of any value. The same ones on every run.
class AbsurdNode {
 public:
  explicit AbsurdNode(uint64_t seed) : state_(seed) {
    for (const char* name : {"N", "axis", "batch_dims", "begin_mask", "block_size", "depth_radius", "ellipsis_mask", "end_mask", "k",
                             "new_axis_mask", "num", "num_bits", "num_split", "shrink_axis_mask"}) {
      if (Pick(4) != 0) attrs.Set(name, Number());
    }
    for (const char* name : {"dilations", "explicit_paddings", "ksize", "ksizes", "rates", "squeeze_dims", "strides"}) {
      if (Pick(4) != 0) attrs.Set(name, Numbers());
    }
    const char* paddings[] = {"SAME", "VALID", "EXPLICIT"};
    attrs.Set("padding", std::string(paddings[Pick(3)]));
    attrs.Set("data_format", std::string(Pick(2) == 0 ? "NHWC" : "NCHW"));
    attrs.Set("T", Type());
    for (int i = Pick(5); i >= 0; --i) AddInput();
    for (const Tensor& tensor : tensors_) values.push_back(tensor.empty() ? nullptr : &tensor);
  }

  AttrMap attrs;
  std::vector<TensorType> inputs;
  std::vector<const Tensor*> values;

 private:
  void AddInput() {
    const DataType dtype = Type();
    tensors_.emplace_back();
    if (dtype == DataType::kInt64 && Pick(2) == 0) {
      tensors_.back() = Pick(2) == 0 ? Tensor::Scalar(Number()) : Tensor::Vector<int64_t>(Numbers());
      inputs.push_back({dtype, tensors_.back().shape()});
    } else {
      std::vector<int64_t> dims(Pick(6));
      for (int64_t& dim : dims) dim = std::max<int64_t>(Number(), -1);
      inputs.push_back({dtype, Shape(dims)});
    }
  }
  int64_t Number() {
    static constexpr int64_t kNumbers[] = {0, 1, 1, 2, 2, 3, 4, 7, -1, -2, INT32_MAX, int64_t{1} << 40, int64_t{1} << 62, INT64_MAX, INT64_MIN};
    return kNumbers[Pick(std::size(kNumbers))];
  }
  std::vector<int64_t> Numbers() {
    std::vector<int64_t> numbers(Pick(6));
    for (int64_t& number : numbers) number = Number();
    return numbers;
  }
  DataType Type() {
    static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kFloat, DataType::kInt64, DataType::kInt64, DataType::kBool};
    return kTypes[Pick(std::size(kTypes))];
  }
  int Pick(size_t count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % count);
  }

  uint64_t state_;
  std::deque<Tensor> tensors_;
};

TEST(ShapeRulesTest, AbsurdNumbersAreRefusedOrGiveSizes) {
  const OpRegistry& registry = OpRegistry::Builtin();
  int accepted = 0;
  for (const std::string& name : registry.Names()) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const AbsurdNode node(seed);
      InferenceContext context("node", name, node.attrs, node.inputs, node.values);
      if (!registry.Find(name)->InferShapes(context).ok()) continue;
      ++accepted;
      for (const TensorType& output : context.outputs()) {
        for (int d = 0; d < output.shape.rank(); ++d) {
          ASSERT_GE(output.shape.dim(d), -1) << name << " of seed " << seed << " gives " << output.ToString();
        }
      }
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(ShapeRulesTest, ABlockWhoseSquareIsNoNumberDividesNothing) {
  AttrMap attrs;
  attrs.Set("block_size", int64_t{1} << 40);
  const std::vector<TensorType> inputs = {{DataType::kFloat, Shape({1, 4, 4, 4})}};
  const std::vector<const Tensor*> values(1, nullptr);
  InferenceContext context("n", "DepthToSpace", attrs, inputs, values);
  EXPECT_THAT(std::string(OpRegistry::Builtin().Find("DepthToSpace")->InferShapes(context).message()),
              testing::HasSubstr("is not divisible by the block size 1099511627776 squared in depth"));
}

TEST(ShapeRulesTest, SparseSegmentsNeedRowsAndAScalarCount) {
  const Tensor count = Tensor::Scalar<int32_t>(4);
  for (const char* reduction : {"Sum", "Mean", "SqrtN"}) {
    for (const char* form : {"WithNumSegments", "Grad", "GradV2"}) {
      const std::string name = absl::StrCat("SparseSegment", reduction, form);
      SCOPED_TRACE(name);
      const auto infer = [&](Shape data, Shape rows) {
        const TensorType ids{DataType::kInt32, Shape({3})};
        const std::vector<TensorType> inputs = {{DataType::kFloat, data}, ids, ids, {DataType::kInt32, rows}};
        const std::vector<const Tensor*> values = {nullptr, nullptr, nullptr, &count};
        const AttrMap attrs;
        InferenceContext context("node", name, attrs, inputs, values);
        return std::string(OpRegistry::Builtin().Find(name)->InferShapes(context).message());
      };
      EXPECT_EQ(infer({2, 5}, {}), "");
      EXPECT_THAT(infer({}, {}), ::testing::HasSubstr("data must be at least a vector"));
      EXPECT_THAT(infer({2, 5}, {0}), ::testing::HasSubstr("input 3 is int32[0], expected a scalar number of rows"));
    }
  }
}

TEST(ShapeRulesTest, GatheredRowsBeyondTheValuesAreRefusedWhatTheyHold) {
  const int64_t split_values[] = {0, int64_t{1} << 33, 3};
  const Tensor splits = Tensor::Vector<int64_t>(split_values), row = Tensor::Vector<int64_t>(absl::Span<const int64_t>(split_values, 1));
  const std::vector<TensorType> inputs = {splits.type(), {DataType::kFloat, Shape({3})}, row.type()};
  const std::vector<const Tensor*> values = {&splits, nullptr, &row};
  const AttrMap attrs;
  InferenceContext context("node", "RaggedGather", attrs, inputs, values);
  EXPECT_THAT(std::string(OpRegistry::Builtin().Find("RaggedGather")->InferShapes(context).message()),
              ::testing::HasSubstr("Ragged splits must be sorted, begin with 0 and not exceed the number of values"));
}

TEST(ShapeRulesTest, RecurrentLayersAreCountedAtOnce) {
  const auto infer = [](int64_t layers, int64_t weights) {
    const TensorType state{DataType::kFloat, Shape({layers, 3, 2})};
    const std::vector<TensorType> inputs = {{DataType::kFloat, Shape({5, 3, 4})}, state, state, {DataType::kFloat, Shape({weights})}};
    const std::vector<const Tensor*> values(4, nullptr);
    const AttrMap attrs;
    InferenceContext context("node", "CudnnRNN", attrs, inputs, values);
    return std::string(OpRegistry::Builtin().Find("CudnnRNN")->InferShapes(context).message());
  };
  // Four gates of two units: from 4 inputs in the first layer, 2 in the others, from 2 units and with two biases.
  EXPECT_EQ(infer(3, 8 * (4 + 2 + 2) + 2 * 8 * (2 + 2 + 2)), "");
  EXPECT_THAT(infer(int64_t{1} << 36, 1), ::testing::HasSubstr("params has 1 elements, expected 3298534883344"));
  EXPECT_THAT(infer(int64_t{1} << 60, 1), ::testing::HasSubstr("expected 9223372036854775807"));
}

TEST(ShapeRulesTest, WeightsOfLayersWithoutEndAreNotListed) {
  const Tensor layers = Tensor::Scalar<int32_t>(1 << 30), size = Tensor::Scalar<int32_t>(2);
  const std::vector<TensorType> inputs = {layers.type(), size.type(), size.type(), {DataType::kFloat, Shape::UnknownRank()}};
  const std::vector<const Tensor*> values = {&layers, &size, &size, nullptr};
  AttrMap attrs;
  attrs.Set("num_params", int64_t{8} << 30);
  InferenceContext context("node", "CudnnRNNParamsToCanonical", attrs, inputs, values);
  EXPECT_THAT(std::string(OpRegistry::Builtin().Find("CudnnRNNParamsToCanonical")->InferShapes(context).message()),
              ::testing::HasSubstr("num_layers is 1073741824, expected at most 65536"));
}

TEST(ShapeRulesTest, ARuleThatMarksABoundOfNoOutputIsRefused) {
  for (int output : {-1, 1, 3}) {
    OpDef def;
    def.shape = [output](InferenceContext& context) {
      context.AddOutput(DataType::kFloat, Shape({2}));
      context.MarkBound(output);
      return absl::OkStatus();
    };
    const AttrMap attrs;
    InferenceContext context("node", "Own", attrs, {}, {});
    EXPECT_THAT(std::string(def.InferShapes(context).message()), ::testing::HasSubstr("marks a bound of output"));
  }
}

TEST(ShapeRulesTest, ARuleThatReadsAMissingInputIsRefusedWhateverItReturns) {
  OpDef def;
  def.name = "Careless";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(1));
    return context.value(1) == nullptr ? absl::OkStatus() : context.Error("has a value from nowhere");
  };
  const std::vector<TensorType> inputs = Inputs(1, DataType::kFloat, 1);
  const AttrMap attrs;
  const std::vector<const Tensor*> values(1, nullptr);
  InferenceContext context("n", def.name, attrs, inputs, values);
  const absl::Status status = def.InferShapes(context);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("node 'n' (Careless): has 1 inputs, expected an input 1"));
  EXPECT_EQ(context.by_value(), 0u);
}

// A guard is an input that the op does not know.
TEST(ShapeRulesTest, AGuardIsNoneOfTheInputsThatAnOpNames) {
  OpDef def;
  def.shape = [](InferenceContext&) { return absl::OkStatus(); };
  def.variables = {{1, VariableAccess::kReadWrite}};
  const std::vector<const Tensor*> values(3, nullptr);
  AttrMap attrs;
  attrs.Set(kGuarded, true);
  for (int count : {2, 3}) {
    const std::vector<TensorType> inputs = Inputs(count, DataType::kFloat, 1);
    InferenceContext context("n", "Own", attrs, inputs, absl::MakeConstSpan(values).first(count));
    const absl::Status status = def.InferShapes(context);
    EXPECT_EQ(status.ok(), count == 3) << status;
    if (count == 2) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("has 1 inputs, expected at least 2"));
    }
  }
}

// What TensorFlow has no answer for on a CPU; conformance cases "errors" have the others.
TEST(ShapeRulesTest, RecurrentLayersTakeSizesAsScalarsAndGradientsLikeTheirOutputs) {
  const auto infer = [](const char* op, const std::vector<TensorType>& inputs) {
    const std::vector<const Tensor*> values(inputs.size(), nullptr);
    const AttrMap attrs;  // an LSTM in one direction
    InferenceContext context("node", op, attrs, inputs, values);
    return std::string(OpRegistry::Builtin().Find(op)->InferShapes(context).message());
  };
  const TensorType size{DataType::kInt32, Shape()}, none{DataType::kInt32, Shape({0})}, unknown{DataType::kInt32, Shape::UnknownRank()};
  EXPECT_EQ(infer("CudnnRNNParamsSize", {size, unknown, size}), "");
  EXPECT_THAT(infer("CudnnRNNParamsSize", {size, none, size}), ::testing::HasSubstr("num_units must be a scalar, input 1 is int32[0]"));

  const TensorType input{DataType::kFloat, Shape({5, 3, 4})}, state{DataType::kFloat, Shape({1, 3, 2})}, output{DataType::kFloat, Shape({5, 3, 2})};
  const TensorType weights{DataType::kFloat, Shape({8 * (4 + 2 + 2)})}, kept{DataType::kFloat, Shape::UnknownRank()};
  std::vector<TensorType> inputs = {input, state, state, weights, output, state, state, output, state, state, kept};
  EXPECT_EQ(infer("CudnnRNNBackprop", inputs), "");
  for (int i : {4, 5, 6, 7, 8, 9}) {
    const TensorType right = std::exchange(inputs[i], {DataType::kFloat, Shape({0})});
    EXPECT_THAT(infer("CudnnRNNBackprop", inputs), ::testing::HasSubstr(absl::StrCat("input ", i, " is [0], expected ", right.shape.ToString())));
    inputs[i] = right;
  }
}

// What nodes made by hand, or by a damaged file, may hold, and TensorFlow ends the process for, or never sees.
TEST(ShapeRulesTest, LayersTakeFiltersOfTheirRankWindowsOfSomeSizeAndTheFormatsThereAre) {
  const auto infer = [](const char* op, const std::vector<Tensor>& known, const std::vector<TensorType>& more, const AttrMap& attrs) {
    std::vector<TensorType> inputs;
    std::vector<const Tensor*> values;
    for (const Tensor& tensor : known) {
      inputs.push_back(tensor.type());
      values.push_back(&tensor);
    }
    inputs.insert(inputs.end(), more.begin(), more.end());
    values.resize(inputs.size(), nullptr);
    InferenceContext context("node", op, attrs, inputs, values);
    return std::string(OpRegistry::Builtin().Find(op)->InferShapes(context).message());
  };
  const auto floats = [](std::vector<int64_t> dims) { return TensorType{DataType::kFloat, Shape(absl::MakeConstSpan(dims))}; };
  AttrMap layer;
  layer.Set("strides", std::vector<int64_t>{1, 1, 1, 1});
  layer.Set("padding", std::string("SAME"));
  const std::vector<Tensor> sizes = {Tensor::Vector<int32_t>({5, 6})};
  EXPECT_EQ(infer("Conv2DBackpropInput", sizes, {floats({3, 3, 2, 4}), floats({2, 5, 6, 4})}, layer), "");
  for (const std::vector<int64_t>& filter : std::vector<std::vector<int64_t>>{{}, {0}, {4, 3}}) {
    EXPECT_THAT(infer("Conv2DBackpropInput", sizes, {floats(filter), floats({2, 5, 6, 4})}, layer), testing::HasSubstr("the filter has shape"));
  }
  layer.Set("dilations", std::vector<int64_t>{1, 2147483647, 1, 1});
  EXPECT_THAT(infer("Conv2D", {}, {floats({2, 7, 8, 3}), floats({2, 3, 3, 4})}, layer), testing::HasSubstr("reaches over more than"));
  AttrMap third;
  third.Set("data_format", std::string("VALID"));
  EXPECT_THAT(infer("BiasAddGrad", {}, {floats({2, 3, 4, 5})}, third), testing::HasSubstr("data_format is 'VALID', expected NHWC or NCHW"));
  EXPECT_THAT(infer("BiasAdd", {}, {floats({2, 3, 4, 5}), floats({5})}, third), testing::HasSubstr("data_format is 'VALID', expected NHWC or NCHW"));
  EXPECT_THAT(infer("MirrorPadGrad", {}, {floats({2}), {DataType::kInt32, Shape({1, 2})}}, {}), testing::Not(""));
}

TEST(ShapeRulesTest, TopKRefusesRowsThatItsIndicesDoNotReach) {
  const auto infer = [](DataType index, int64_t columns) {
    AttrMap attrs;
    attrs.Set("index_type", index);
    const Tensor k = Tensor::Scalar<int32_t>(1);
    const std::vector<TensorType> inputs = {{DataType::kFloat, Shape({2, columns})}, k.type()};
    const std::vector<const Tensor*> values = {nullptr, &k};
    InferenceContext context("node", "TopKV2", attrs, inputs, values);
    return std::string(OpRegistry::Builtin().Find("TopKV2")->InferShapes(context).message());
  };
  EXPECT_EQ(infer(DataType::kInt16, 32767), "");
  EXPECT_EQ(infer(DataType::kInt16, -1), "");
  EXPECT_THAT(infer(DataType::kInt16, 32768), testing::HasSubstr("must be <= 32767, got 32768"));
  EXPECT_EQ(infer(DataType::kInt32, 2147483647), "");
  EXPECT_THAT(infer(DataType::kInt32, 2147483648), testing::HasSubstr("must be <= 2147483647, got 2147483648"));
  EXPECT_EQ(infer(DataType::kInt64, 2147483648), "");
}

// The shapes of what a node of these inputs gives, "[3] [2,5]", or its error. An input of no elements told is one whose value is not known.
std::string ShapesOrError(const char* op, const std::vector<std::pair<Tensor, TensorType>>& inputs, const AttrMap& attrs = {}) {
  std::vector<TensorType> types;
  std::vector<const Tensor*> values;
  for (const auto& [value, type] : inputs) {
    types.push_back(value.empty() ? type : value.type());
    values.push_back(value.empty() ? nullptr : &value);
  }
  InferenceContext context("node", op, attrs, types, values);
  const absl::Status status = OpRegistry::Builtin().Find(op)->InferShapes(context);
  if (!status.ok()) return std::string(status.message());
  std::vector<std::string> shapes;
  for (const TensorType& output : context.outputs()) shapes.push_back(output.shape.ToString());
  return absl::StrJoin(shapes, " ");
}
std::pair<Tensor, TensorType> Known(Tensor value) { return {std::move(value), TensorType()}; }
std::pair<Tensor, TensorType> Typed(DataType dtype, std::vector<int64_t> dims) { return {Tensor(), {dtype, Shape(absl::MakeConstSpan(dims))}}; }
std::pair<Tensor, TensorType> Vector64(std::vector<int64_t> values) { return Known(Tensor::Vector<int64_t>(values)); }

TEST(ShapeRulesTest, RangesOfFloatsAreCountedInTheirOwnPrecision) {
  const auto floats = [](float limit, float delta) {
    return ShapesOrError("Range", {Known(Tensor::Scalar(0.0f)), Known(Tensor::Scalar(limit)), Known(Tensor::Scalar(delta))});
  };
  EXPECT_EQ(floats(0.3f, 0.1f), "[3]");
  EXPECT_EQ(floats(0.6f, 0.2f), "[3]");
  EXPECT_EQ(floats(1.0f, 0.1f), "[10]");
  EXPECT_THAT(floats(std::numeric_limits<float>::infinity(), 0.1f), testing::HasSubstr("has no countable size"));
  const auto sixteen = [](DataType dtype, uint16_t limit, uint16_t delta) {
    const auto scalar = [dtype](uint16_t bits) {
      Tensor tensor(dtype, Shape());
      *static_cast<uint16_t*>(tensor.mutable_data()) = bits;
      return Known(std::move(tensor));
    };
    return ShapesOrError("Range", {scalar(0), scalar(limit), scalar(delta)});
  };
  EXPECT_EQ(sixteen(DataType::kBfloat16, 0x3e9a, 0x3dcd), "[3]");  // 0.3 and 0.1
  EXPECT_EQ(sixteen(DataType::kHalf, 0x34cd, 0x2e66), "[4]");      // 0.30005 and 0.09998
}

TEST(ShapeRulesTest, RangesOfRowsAreThoseOfTheKernel) {
  const auto ints = [](int64_t start, int64_t limit, int64_t delta) {
    return ShapesOrError("RaggedRange", {Vector64({start}), Vector64({limit}), Vector64({delta})});
  };
  constexpr int64_t kNoDouble = (int64_t{1} << 53) + 1;
  EXPECT_EQ(ints(kNoDouble, kNoDouble + 1, 1), "[2] [1]");
  EXPECT_EQ(ints(kNoDouble - 1, kNoDouble, 1), "[2] [1]");
  EXPECT_EQ(ints(INT64_MIN, INT64_MIN + 3, 2), "[2] [2]");
  EXPECT_EQ(ints(INT64_MIN, INT64_MAX, int64_t{1} << 62), "[2] [4]");
  EXPECT_EQ(ints(3, 1, 1), "[2] [0]");
  EXPECT_EQ(ints(1, 3, -1), "[2] [0]");
  EXPECT_THAT(ints(1, 3, 0), testing::HasSubstr("Requires delta != 0"));
  const auto row = [](float value) { return Known(Tensor::Vector<float>({value})); };
  EXPECT_EQ(ShapesOrError("RaggedRange", {row(0), row(0.3f), row(0.1f)}), "[2] [3]");
}

TEST(ShapeRulesTest, WindowsOfNoSizeAndOfTooMuchAreRefused) {
  AttrMap pool;
  pool.Set("padding", std::string("VALID"));
  pool.Set("ksize", std::vector<int64_t>{1, 1, 1, 0});
  pool.Set("strides", std::vector<int64_t>{1, 1, 1, 0});
  EXPECT_THAT(ShapesOrError("MaxPool", {Typed(DataType::kFloat, {1, 4, 4, 2})}, pool), testing::HasSubstr("Sliding window ksize and strides must be positive"));
  AttrMap patches;
  patches.Set("padding", std::string("SAME"));
  patches.Set("ksizes", std::vector<int64_t>{1, 4194304, 2097152, 2097152, 1});
  patches.Set("strides", std::vector<int64_t>{1, 1, 1, 1, 1});
  EXPECT_EQ(ShapesOrError("ExtractVolumePatches", {Typed(DataType::kFloat, {1, 1, 1, 1, 1})}, patches), "[1,1,1,1,9223372036854775807]");
  for (const char* list : {"ksizes", "strides", "rates"}) {
    AttrMap large;
    large.Set("padding", std::string("SAME"));
    for (const char* each : {"ksizes", "strides", "rates"}) large.Set(each, std::vector<int64_t>{1, 1, 1, 1});
    large.Set(list, std::vector<int64_t>{1, int64_t{1} << 40, 1, 1});
    EXPECT_THAT(ShapesOrError("ExtractImagePatches", {Typed(DataType::kFloat, {1, 3, 3, 1})}, large), testing::HasSubstr("must be at most 2147483647")) << list;
  }
}

TEST(ShapeRulesTest, SizesBelowZeroAreNamed) {
  const auto size = [](std::vector<int32_t> values) { return Known(Tensor::Vector<int32_t>(values)); };
  EXPECT_THAT(ShapesOrError("ResizeBilinear", {Typed(DataType::kFloat, {1, 2, 2, 1}), size({0, 2})}), testing::HasSubstr("size is [0,2]"));
  AttrMap crop;
  crop.Set("T", DataType::kFloat);
  EXPECT_THAT(ShapesOrError("CropAndResizeGradImage",
                            {Typed(DataType::kFloat, {1, 2, 2, 1}), Typed(DataType::kFloat, {1, 4}), Typed(DataType::kInt32, {1}), size({-1, 2, 2, 1})}, crop),
              testing::HasSubstr("image_size asks for -1 images"));
  EXPECT_THAT(ShapesOrError("SparseReduceSum", {Typed(DataType::kInt64, {0, 2}), Typed(DataType::kFloat, {0}), Vector64({-3, 5}), size({1})}),
              testing::HasSubstr("Expected shape dimensions to be non-negative, got -3"));
}

TEST(ShapeRulesTest, RowsBeyondCountingAreTheMostThereAre) {
  constexpr char kMost[] = "9223372036854775807";
  const auto one = [](DataType dtype) { return Typed(dtype, {1}); };
  const auto fill = Typed(DataType::kFloat, {});
  EXPECT_EQ(ShapesOrError("SparseFillEmptyRows", {Typed(DataType::kInt64, {1, 2}), one(DataType::kFloat), Vector64({INT64_MAX, 1}), fill}),
            absl::StrCat("[", kMost, ",2] [", kMost, "] [", kMost, "] [1]"));
  EXPECT_EQ(ShapesOrError("RaggedFillEmptyRows", {one(DataType::kInt64), one(DataType::kFloat), Known(Tensor::Scalar<int64_t>(INT64_MAX)), fill}),
            absl::StrCat("[", kMost, "] [", kMost, "] [", kMost, "] [1]"));
  EXPECT_EQ(ShapesOrError("SegmentSum", {Typed(DataType::kFloat, {1, 2}), Vector64({INT64_MAX})}), absl::StrCat("[", kMost, ",2]"));
}

TEST(ShapeRulesTest, SparseRowsHaveColumnsAndRowIdsHaveRowsBefore) {
  const auto softmax = [](int64_t rank) {
    return ShapesOrError("SparseSoftmax", {Typed(DataType::kInt64, {1, rank}), Typed(DataType::kFloat, {1}), Typed(DataType::kInt64, {rank})});
  };
  EXPECT_EQ(softmax(2), "[1]");
  EXPECT_THAT(softmax(1), testing::HasSubstr("Input should have rank >= 2"));
  AttrMap ids;
  ids.Set("row_partition_types", std::vector<std::string>{"VALUE_ROWIDS"});
  ids.Set("num_row_partition_tensors", int64_t{1});
  EXPECT_THAT(ShapesOrError("RaggedTensorToTensor",
                            {Vector64({-1, -1}), Typed(DataType::kFloat, {3}), Typed(DataType::kFloat, {}), Typed(DataType::kInt64, {3})}, ids),
              testing::HasSubstr("Cannot handle VALUE_ROWIDS in first dimension."));
}

TEST(CostTest, FourierTransformsOfLargePrimesAreConvolutions) {
  const auto flops = [](const char* op, int64_t n) {
    const TensorType numbers = {DataType::kComplex64, Shape({3, n})};
    return OpRegistry::Builtin().Find(op)->cost({.name = "node", .op = op, .inputs = {numbers}, .outputs = {numbers}}).flops;
  };
  EXPECT_DOUBLE_EQ(flops("FFT", 64), 3 * 5 * 64 * 6);
  EXPECT_DOUBLE_EQ(flops("IFFT", 61), 3 * 61 * 8 * 61);
  EXPECT_DOUBLE_EQ(flops("FFT", 67), 3 * (2 * 5 * 256 * 8 + 6 * 256 + 12 * 67));
  EXPECT_DOUBLE_EQ(flops("FFT2D", 64), 5 * 3 * 64 * 6 + 64 * 3 * 5 * std::log2(3));
}

// Real lines of even length are half as many complex numbers.
TEST(CostTest, FourierTransformsOfRealNumbersTakeHalf) {
  const auto flops = [](const std::string& op, int64_t n) {
    const TensorType reals = {DataType::kFloat, Shape({3, n})}, spectra = {DataType::kComplex64, Shape({3, n / 2 + 1})};
    const TensorType length = {DataType::kInt32, Shape({1})};
    const bool backward = op == "IRFFT";
    return OpRegistry::Builtin()
        .Find(op)
        ->cost({.name = "node",
                .op = op,
                .inputs = {backward ? spectra : reals, length},
                .outputs = {backward ? reals : spectra},
                .input_values = {Tensor(), Tensor::Vector<int32_t>({static_cast<int32_t>(n)})}})
        .flops;
  };
  for (const char* op : {"RFFT", "IRFFT"}) {
    EXPECT_DOUBLE_EQ(flops(op, 64), 3 * 5 * 32 * 5) << op;
    EXPECT_DOUBLE_EQ(flops(op, 67), 3 * (2 * 5 * 256 * 8 + 6 * 256 + 12 * 67)) << op;
  }
}

}  // namespace
}  // namespace millrace
