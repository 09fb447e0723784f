// Groups of ops with reductions of what they compute: the kernel that reads the ops and the text compiled for the host have the
// bits of group and reductions as nodes apart, also where what is written takes the place of an input; values whose sums are
// exact give the CPU's bits, on the grid, too. The device's compiler takes every text without a word.
#include "graph/fused_reduce.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "cpu/kernels/register.h"
#include "cuda/kernels/register.h"
#include "fused_kernels.h"
#include "graph/spread.h"
#ifdef MILLRACE_HAS_CUDA_PLUGIN
#include "cuda/plugin/run_time_compiler.h"
#endif

namespace millrace::cuda {
namespace {

struct Dims {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<int64_t> axes;
};

std::vector<Dims> Shapes() {
  return {
      {"all", {700}, {0}},
      {"rows_in_chunks", {3, 9001}, {1}},
      {"rows_of_warps", {110, 70}, {1}},
      {"columns_in_chunks", {1099, 37}, {0}},
      {"columns_of_matrices", {5, 50, 40}, {1}},
      {"planes", {7, 5, 300}, {0, 2}},
      {"planes_in_chunks", {3, 2, 5001}, {0, 2}},
      {"any_dims", {5, 3, 7, 2, 11}, {0, 2, 4}},
  };
}

// Of the shape with 1 in place of the dimensions that are, or are not, reduced.
Shape Part(const Dims& dims, bool of_reduced) {
  Shape part;
  for (size_t d = 0; d < dims.dims.size(); ++d) {
    const bool reduced = std::find(dims.axes.begin(), dims.axes.end(), static_cast<int64_t>(d)) != dims.axes.end();
    part.AddDim(reduced == of_reduced ? dims.dims[d] : 1);
  }
  return part;
}

// (x - m) and its product with g, smaller than y; the sum of the product, the largest of the smaller ones, the mean of y.
OpInstance NodeOf(const Dims& dims, DataType type, bool writes) {
  OpInstance node;
  node.name = absl::StrCat(dims.name, writes ? "_writes" : "");
  node.op = writes ? "_FusedMapReduce" : "_FusedReduce";
  const Shape whole(dims.dims), of_row = Part(dims, false), of_term = Part(dims, true);
  const auto repeated = [&](const Shape& part) { return SpreadOver(part, whole) ? part : Shape(); };
  node.inputs = {{type, whole}, {type, repeated(of_row)}, {type, repeated(of_term)}, {type, whole}, {type, Shape()}};
  std::vector<int64_t> spreads;
  for (const TensorType& input : node.inputs) {
    const bool repeats = input.shape.num_elements() > 1 && input.shape.num_elements() < whole.num_elements();
    const Spread spread = repeats ? *SpreadOver(input.shape, whole) : Spread{};
    spreads.insert(spreads.end(), {spread.each, spread.count, spread.width});
  }
  const auto no_attrs = std::make_shared<AttrMap>();
  const std::vector<FunctionRef> ops{{"Sub", no_attrs}, {"Mul", no_attrs}, {"Minimum", no_attrs}, {"AddV2", no_attrs}};
  Shape kept;
  for (int64_t dim : of_row.dims()) {
    if (dim > 1) kept.AddDim(dim);
  }
  std::vector<Shape> shapes;
  if (writes) shapes.push_back(whole);
  const int64_t first = writes ? 1 : 0;
  shapes.insert(shapes.end(), {kept, kept, kept});
  for (const Shape& shape : shapes) node.outputs.push_back({type, shape});
  node.attrs = AttrMap({{"ops", ops},
                        {"types", std::vector<DataType>(4, type)},
                        {"operands", std::vector<int64_t>{2, 0, 1, 2, -1, 2, 2, -2, 3, 2, -3, 4}},
                        {"row", int64_t{0}},
                        {"shape", whole},
                        {"spreads", spreads},
                        {"axes", dims.axes},
                        {"reductions", std::vector<std::string>{"Sum", "Max", "Mean"}},
                        {"reduced", std::vector<int64_t>{-2, first, -4, first + 1, 3, first + 2}},
                        {"output_shapes", shapes}});
  if (writes) node.attrs.Set("results", std::vector<int64_t>{2, 0, -1, 0});
  return node;
}

// All NaN alike: which one comes out of two is the compiler's choice.
std::string Canonical(const OpInstance& node, std::string bytes) {
  size_t at = 0;
  for (const TensorType& type : node.outputs) {
    const size_t size = DataTypeSize(type.dtype);
    for (int64_t i = 0; i < type.shape.num_elements(); ++i, at += size) {
      double value = 0;
      Half half;
      std::memcpy(&half, bytes.data() + at, sizeof half);
      if (type.dtype == DataType::kHalf) value = Widen(half);
      if (type.dtype == DataType::kBfloat16) value = Widen(Bfloat16{half.bits});
      float single;
      if (type.dtype == DataType::kFloat) std::memcpy(&single, bytes.data() + at, sizeof single), value = single;
      if (type.dtype == DataType::kDouble) std::memcpy(&value, bytes.data() + at, sizeof value);
      if (std::isnan(value)) bytes.replace(at, size, std::string(size, 'n'));
    }
  }
  return bytes;
}

class FusedReduceTest : public ::testing::TestWithParam<DataType> {
 protected:
  FusedReduceTest() {
    RegisterCudaKernels(kernels_, services_);
    cpu::RegisterCpuKernels(cpu_);
  }
  static std::unique_ptr<Kernel> Make(const KernelRegistry& kernels, const OpInstance& node) {
    auto kernel = (*kernels.Find(node.op))(node);
    EXPECT_TRUE(kernel.ok()) << node.name << kernel.status();
    return *std::move(kernel);
  }
  // By this device's kernels of the group and of each reduction.
  std::string Apart(const OpInstance& node, const std::vector<Tensor>& inputs) {
    const GroupWithReductions apart = *TakenApart(node);
    const std::string results = RunAll(*Make(kernels_, apart.group), apart.group, inputs);
    std::vector<Tensor> outputs;
    size_t at = 0;
    for (const TensorType& type : apart.group.outputs) {
      outputs.emplace_back(type.dtype, type.shape);
      std::memcpy(outputs.back().mutable_data(), results.data() + at, type.size_bytes());
      at += type.size_bytes();
    }
    std::string bytes;
    for (size_t o = 0; o < apart.written; ++o) bytes.append(static_cast<const char*>(outputs[o].data()), apart.group.outputs[o].size_bytes());
    for (const GroupWithReductions::Reduced& reduced : apart.reductions) {
      const Tensor& operand = reduced.of_input ? inputs[reduced.operand] : outputs[reduced.operand];
      bytes += RunAll(*Make(kernels_, reduced.node), reduced.node, {operand, Tensor::Vector<int64_t>({})});
    }
    return Canonical(node, bytes);
  }
  std::string Together(const OpInstance& node, const std::vector<Tensor>& inputs, bool in_place = false) {
    return Canonical(node, RunAll(*Make(kernels_, node), node, inputs, in_place));
  }
  std::vector<OpInstance> Nodes() const {
    std::vector<OpInstance> nodes;
    for (const Dims& dims : Shapes()) {
      for (bool writes : {false, true}) nodes.push_back(NodeOf(dims, GetParam(), writes));
    }
    return nodes;
  }
  // One text with a kernel per node, k-th: millrace_fused<k>.
  std::string AllTexts(const std::vector<OpInstance>& nodes, bool on_grid = false) {
    std::string all = on_grid ? "#include <cstdint>\n" : "";
    for (size_t k = 0; k < nodes.size(); ++k) {
      Make(kernels_, nodes[k]);
      for (const char* name : {"FusedRule", "FusedTerms", "FusedTerm", "FusedBody", "millrace_fused", "millrace_fused_rest", "millrace_run"}) {
        absl::StrAppend(&all, "#undef ", name, "\n#define ", name, " ", name, k, "\n");
      }
      // Half of them as for sizes of 2^31 and more.
      const std::string text = services_.texts.back();
      absl::StrAppend(&all, k % 4 < 2 ? text : absl::StrReplaceAll(text, {{", true>", ", false>"}}));
      if (!on_grid) continue;
      absl::StrAppend(&all, "extern \"C\" void millrace_run(const millrace::cuda::FusedReduceArguments* r, int64_t blocks, int64_t rest_blocks) {\n",
                      "  millrace::cuda::fake::RunGrid(blocks, millrace::cuda::kThreads, [=] { millrace_fused(*r); });\n");
      if (absl::StrContains(text, "MR_FUSED_REST_KERNEL")) {
        absl::StrAppend(&all, "  millrace::cuda::fake::RunGrid(rest_blocks, millrace::cuda::kThreads, [=] { millrace_fused_rest(*r); });\n");
      }
      absl::StrAppend(&all, "}\n");
    }
    return all;
  }
  // Whose sums are exact in any order.
  std::vector<Tensor> SmallIntegers(const OpInstance& node) const {
    std::vector<Tensor> inputs;
    for (const TensorType& type : node.inputs) {
      OpInstance cast;
      cast.op = "Cast";
      cast.inputs = {{DataType::kFloat, type.shape}};
      cast.outputs = {type};
      Tensor numbers(DataType::kFloat, type.shape), tensor(type.dtype, type.shape);
      for (int64_t i = 0; i < numbers.num_elements(); ++i) numbers.mutable_as<float>()[i] = static_cast<float>((i * 7 + 3) % 5 - 2);
      const std::string bytes = RunAll(*Make(cpu_, cast), cast, {numbers});
      std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }
  TextServices services_;
  KernelRegistry kernels_, cpu_;
};

TEST_P(FusedReduceTest, TheKernelThatReadsTheOpsHasTheBitsOfTheNodesApart) {
  for (const OpInstance& node : Nodes()) {
    const std::vector<Tensor> inputs = InputsOf(node);
    const std::string expected = Apart(node, inputs);
    EXPECT_TRUE(Together(node, inputs) == expected) << node.name;
    if (node.op == "_FusedReduce") continue;
    EXPECT_TRUE(Together(node, inputs, /*in_place=*/true) == expected) << node.name;
  }
}

TEST_P(FusedReduceTest, TheTextCompiledForTheHostHasTheBitsOfTheNodesApart) {
  const std::vector<OpInstance> nodes = Nodes();
  void* library = Compiled(AllTexts(nodes), absl::StrCat("reduce", static_cast<int>(GetParam())));
  ASSERT_NE(library, nullptr);
  for (size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<Tensor> inputs = InputsOf(nodes[k]);
    services_.kernel = nullptr;
    const std::string expected = Apart(nodes[k], inputs);
    services_.kernel = dlsym(library, absl::StrCat("millrace_fused", k).c_str());
    ASSERT_NE(services_.kernel, nullptr) << nodes[k].name;
    EXPECT_TRUE(Together(nodes[k], inputs) == expected) << nodes[k].name;
    if (nodes[k].op == "_FusedReduce") continue;
    EXPECT_TRUE(Together(nodes[k], inputs, /*in_place=*/true) == expected) << nodes[k].name;
  }
  dlclose(library);
}

TEST_P(FusedReduceTest, ExactSumsAreTheCpusInAnyPlace) {
  for (const OpInstance& node : Nodes()) {
    const std::vector<Tensor> inputs = SmallIntegers(node);
    const std::string expected = RunAll(*Make(kernels_, node), node, inputs);
    EXPECT_TRUE(RunAll(*Make(cpu_, node), node, inputs) == expected) << node.name;
    if (node.op == "_FusedReduce") continue;
    EXPECT_TRUE(RunAll(*Make(cpu_, node), node, inputs, /*in_place=*/true) == expected) << node.name;
  }
}

// As the device is given it: blocks, warps and columns, and the kernel that adds up chunks.
TEST_P(FusedReduceTest, TheTextOnTheGridHasTheCpusExactSums) {
  const std::vector<OpInstance> nodes = Nodes();
  void* library = Compiled(AllTexts(nodes, /*on_grid=*/true), absl::StrCat("grid", static_cast<int>(GetParam())), kOnGrid);
  ASSERT_NE(library, nullptr);
  services_.on_grid = true;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<Tensor> inputs = SmallIntegers(nodes[k]);
    services_.kernel = dlsym(library, absl::StrCat("millrace_run", k).c_str());
    ASSERT_NE(services_.kernel, nullptr) << nodes[k].name;
    EXPECT_TRUE(RunAll(*Make(kernels_, nodes[k]), nodes[k], inputs) == RunAll(*Make(cpu_, nodes[k]), nodes[k], inputs)) << nodes[k].name;
  }
}

TEST_P(FusedReduceTest, ReductionsThatDoNotGoWithTheGroupAreRefused) {
  const auto refused = [&](const char* attribute, auto value) {
    OpInstance node = NodeOf(Shapes()[1], GetParam(), false);
    node.attrs.Set(attribute, value);
    for (const KernelRegistry* kernels : {&cpu_, &kernels_}) {
      EXPECT_EQ((*kernels->Find(node.op))(node).status().code(), absl::StatusCode::kInvalidArgument) << attribute;
    }
  };
  refused("axes", std::vector<int64_t>{2});
  refused("reductions", std::vector<std::string>{"Sum", "Prod", "Mean"});
  refused("reduced", std::vector<int64_t>{-2, 0, -5, 1, 3, 2});    // no such op
  refused("reduced", std::vector<int64_t>{-2, 0, -4, 3, 3, 2});    // no such output
  refused("reduced", std::vector<int64_t>{-2, 0, -4, 1, 1, 2});    // an input of another shape
  refused("reduced", std::vector<int64_t>{-2, 0, -4, 1});
}

#ifdef MILLRACE_HAS_CUDA_PLUGIN
TEST_P(FusedReduceTest, TheDevicesCompilerTakesEveryText) {
  const std::string text = AllTexts(Nodes());
  const auto compiled = CompileAtRunTime(text, "sm_90");
  if (absl::IsUnimplemented(compiled.status())) GTEST_SKIP() << compiled.status().message();
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->log, "");
  EXPECT_GT(compiled->code.size(), 1000);
}
#endif

INSTANTIATE_TEST_SUITE_P(Types, FusedReduceTest,
                         ::testing::Values(DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16),
                         [](const auto& param) { return std::string(DataTypeName(param.param)); });

}  // namespace
}  // namespace millrace::cuda
