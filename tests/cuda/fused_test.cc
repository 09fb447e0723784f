// Trees of elementwise ops as one kernel: the kernel that reads the tree, and the text that is compiled for it, give the
// bits of the ops one by one; the device's compiler takes the text of every op and type without a word.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cpu/kernels/register.h"
#include "cuda/kernels/elementwise_names.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/fused.h"
#include "fused_kernels.h"
#ifdef MILLRACE_HAS_CUDA_PLUGIN
#include "cuda/plugin/run_time_compiler.h"
#endif

namespace millrace::cuda {
namespace {

constexpr int64_t kRows = 37, kRow = 29;

// root = then(op(inputs), x0), so that something passes between two ops.
struct Tree {
  std::string name;
  OpInstance node;
};

const char* ThenOf(DataType dtype) { return dtype == DataType::kBool ? "LogicalOr" : "Maximum"; }

Tree MakeTree(const std::string& op, const std::vector<DataType>& inputs, DataType output, AttrMap attrs = {}) {
  Tree tree;
  tree.name = absl::StrCat(op, "_", std::string(DataTypeName(inputs.back())), "_", std::string(DataTypeName(output)));
  std::vector<int64_t> operands{static_cast<int64_t>(inputs.size())};
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The operands of an op: full, a row, one for all.
    const Shape shape = i == 0 ? Shape({kRows, kRow}) : i == 1 ? Shape({kRow}) : Shape({});
    const bool select = op == "SelectV2" || op == "AddN";
    tree.node.inputs.push_back({inputs[i], select ? Shape({kRows, kRow}) : shape});
    operands.push_back(static_cast<int64_t>(i));
  }
  tree.node.inputs.push_back({output, Shape({kRows, kRow})});
  operands.insert(operands.end(), {2, -1, static_cast<int64_t>(inputs.size())});
  tree.node.name = tree.name;
  tree.node.op = "_Fused";
  tree.node.outputs.push_back({output, Shape({kRows, kRow})});
  const std::vector<FunctionRef> ops{{op, std::make_shared<AttrMap>(attrs)}, {ThenOf(output), std::make_shared<AttrMap>()}};
  tree.node.attrs = AttrMap({{"operands", operands}, {"ops", ops}, {"row", kRow}, {"types", std::vector<DataType>{output, output}}});
  return tree;
}

std::vector<Tree> Trees(DataType type) {
  std::vector<Tree> trees;
  const DataType boolean = DataType::kBool;
  for (const auto& [name, op] : UnaryOps()) trees.push_back(MakeTree(name, {type}, type));
  for (const auto& [name, op] : BinaryOps()) trees.push_back(MakeTree(name, {type, type}, type));
  for (const auto& [name, op] : CompareOps()) trees.push_back(MakeTree(name, {type, type}, boolean));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float alpha : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    trees.push_back(MakeTree("LeakyRelu", {type}, type, AttrMap({{"alpha", alpha}})));
    trees.push_back(MakeTree("LeakyReluGrad", {type, type}, type, AttrMap({{"alpha", alpha}})));
  }
  trees.push_back(MakeTree("SelectV2", {boolean, type, type}, type));
  trees.push_back(MakeTree("BiasAdd", {type, type}, type));
  trees.push_back(MakeTree("AddN", {type, type, type}, type));
  trees.push_back(MakeTree("ZerosLike", {type}, type));
  for (DataType to : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16, boolean}) {
    trees.push_back(MakeTree("Cast", {type}, to));
  }
  trees.push_back(MakeTree("Cast", {boolean}, type));
  trees.push_back(MakeTree("LogicalNot", {boolean}, boolean));
  trees.push_back(MakeTree("LogicalAnd", {boolean, boolean}, boolean));
  return trees;
}

std::string RunKernel(const Kernel& kernel, const OpInstance& instance, const std::vector<const Tensor*>& inputs) {
  std::vector<void*> in;
  for (const Tensor* tensor : inputs) in.push_back(const_cast<void*>(tensor->data()));
  std::string out(instance.outputs[0].size_bytes(), '\0');
  std::string scratch(kernel.scratch_bytes() + 1, '\0');
  void* to = out.data();
  KernelContext context;
  context.instance = &instance;
  context.inputs = in.data();
  context.outputs = &to;
  context.scratch = scratch.data();
  EXPECT_TRUE(kernel.Run(context).ok());
  return out;
}

// The two ops by their own kernels.
std::string OneByOne(const KernelRegistry& kernels, const Tree& tree, const std::vector<Tensor>& inputs) {
  const auto refs = *tree.node.attrs.Get<std::vector<FunctionRef>>("ops");
  OpInstance first, second;
  first.op = refs[0].name;
  first.attrs = *refs[0].attrs;
  first.inputs.assign(tree.node.inputs.begin(), tree.node.inputs.end() - 1);
  first.outputs = tree.node.outputs;
  second.op = refs[1].name;
  second.inputs = {tree.node.outputs[0], tree.node.inputs.back()};
  second.outputs = tree.node.outputs;
  auto a = (*kernels.Find(first.op))(first), b = (*kernels.Find(second.op))(second);
  EXPECT_TRUE(a.ok() && b.ok()) << tree.name << a.status() << b.status();
  std::vector<const Tensor*> of_first;
  for (size_t i = 0; i + 1 < inputs.size(); ++i) of_first.push_back(&inputs[i]);
  Tensor between(tree.node.outputs[0].dtype, tree.node.outputs[0].shape);
  const std::string bytes = RunKernel(**a, first, of_first);
  std::memcpy(between.mutable_data(), bytes.data(), bytes.size());
  return RunKernel(**b, second, {&between, &inputs.back()});
}

class FusedTest : public ::testing::TestWithParam<DataType> {
 protected:
  FusedTest() { RegisterCudaKernels(kernels_, services_); }
  std::unique_ptr<Kernel> MakeFused(const Tree& tree) {
    auto kernel = (*kernels_.Find("_Fused"))(tree.node);
    EXPECT_TRUE(kernel.ok()) << tree.name << kernel.status();
    return *std::move(kernel);
  }
  // One text with a kernel per tree, k-th: millrace_fused<k>.
  std::string AllTexts(const std::vector<Tree>& trees) {
    services_.texts.clear();
    std::string all;
    for (size_t k = 0; k < trees.size(); ++k) {
      MakeFused(trees[k]);
      EXPECT_EQ(services_.texts.size(), k + 1) << trees[k].name;
      absl::StrAppend(&all, "#define FusedBody FusedBody", k, "\n#define millrace_fused millrace_fused", k, "\n",
                      services_.texts.back(), "#undef FusedBody\n#undef millrace_fused\n");
    }
    return all;
  }
  // The CPU's kernel, the kernel that reads the ops and the text agree, and the text that such sizes of 2^31 and more have.
  void ExpectAllAlike(const OpInstance& node);
  TextServices services_;
  KernelRegistry kernels_;
};

TEST_P(FusedTest, TheKernelThatReadsTheTreeHasTheBitsOfTheOps) {
  for (const Tree& tree : Trees(GetParam())) {
    const std::vector<Tensor> inputs = InputsOf(tree.node);
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    EXPECT_TRUE(RunKernel(*MakeFused(tree), tree.node, pointers) == OneByOne(kernels_, tree, inputs)) << tree.name;
  }
}

TEST_P(FusedTest, TheTextCompiledForTheHostHasTheBitsOfTheOps) {
  const std::vector<Tree> trees = Trees(GetParam());
  void* library = Compiled(AllTexts(trees), absl::StrCat(static_cast<int>(GetParam())));
  ASSERT_NE(library, nullptr);
  for (size_t k = 0; k < trees.size(); ++k) {
    services_.kernel = dlsym(library, absl::StrCat("millrace_fused", k).c_str());
    ASSERT_NE(services_.kernel, nullptr) << trees[k].name;
    const std::vector<Tensor> inputs = InputsOf(trees[k].node);
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    EXPECT_TRUE(RunKernel(*MakeFused(trees[k]), trees[k].node, pointers) == OneByOne(kernels_, trees[k], inputs)) << trees[k].name;
  }
  dlclose(library);
}

// Two inputs read by rows out of one tensor, a bias of theirs, and results written whole and by rows.
OpInstance RowsNode(DataType type) {
  constexpr int64_t kParts = 3;
  OpInstance node;
  node.name = "rows";
  node.op = "_Fused";
  const Shape part({kRows, kRow}), whole({kRows, kParts * kRow});
  node.inputs = {{type, whole}, {type, Shape({kParts * kRow})}, {type, whole}, {type, part}};
  node.outputs = {{type, Shape({kRows, 2 * kRow})}, {type, part}, {DataType::kBool, part}};
  const auto no_attrs = std::make_shared<AttrMap>();
  const std::vector<FunctionRef> ops{{"BiasAdd", no_attrs}, {"Mul", no_attrs}, {"Sub", no_attrs}, {"Less", no_attrs}};
  node.attrs = AttrMap({{"ops", ops},
                        {"types", std::vector<DataType>{type, type, type, DataType::kBool}},
                        {"operands", std::vector<int64_t>{2, 0, 1, 2, -1, 2, 2, -2, 3, 2, -3, -1}},
                        {"row", kRow},
                        {"shape", part},
                        {"pitches", std::vector<int64_t>{kParts * kRow, 0, kParts * kRow, -1}},
                        {"offsets", std::vector<int64_t>{2 * kRow, 2 * kRow, kRow, 0}},
                        {"results", std::vector<int64_t>{0, 0, 2 * kRow, kRow, 1, 0, 2 * kRow, 0, 2, 1, -1, 0, 3, 2, -1, 0}},
                        {"output_shapes", std::vector<Shape>{node.outputs[0].shape, part, part}}});
  return node;
}

// Inputs of every kind of repetition: one for each run, for runs that come again, parts of several elements.
OpInstance SpreadNode(DataType type) {
  constexpr int64_t kImages = 3, kChannels = 5, kPixels = 11;
  OpInstance node;
  node.name = "spread";
  node.op = "_Fused";
  const Shape whole({kImages, kChannels, kPixels});
  node.inputs = {{type, whole}, {type, Shape({kImages, kChannels, 1})}, {type, Shape({kChannels, 1})}, {type, Shape({kImages, 1, kPixels})}};
  node.outputs = {{type, whole}};
  const auto no_attrs = std::make_shared<AttrMap>();
  const std::vector<FunctionRef> ops{{"Sub", no_attrs}, {"Mul", no_attrs}, {"Maximum", no_attrs}};
  node.attrs = AttrMap({{"ops", ops},
                        {"types", std::vector<DataType>{type, type, type}},
                        {"operands", std::vector<int64_t>{2, 0, 1, 2, -1, 2, 2, 3, -2}},
                        {"row", int64_t{0}},
                        {"shape", whole},
                        {"spreads", std::vector<int64_t>{0, 0, 0, kPixels, kImages * kChannels, 1, kPixels, kChannels, 1,
                                                         kChannels * kPixels, kImages, kPixels}}});
  return node;
}

void FusedTest::ExpectAllAlike(const OpInstance& node) {
  const std::vector<Tensor> inputs = InputsOf(node);
  KernelRegistry cpu;
  cpu::RegisterCpuKernels(cpu);
  auto expected = (*cpu.Find("_Fused"))(node);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::string bytes = RunAll(**expected, node, inputs);
  auto reads = (*kernels_.Find("_Fused"))(node);
  ASSERT_TRUE(reads.ok()) << reads.status();
  EXPECT_TRUE(RunAll(**reads, node, inputs) == bytes);
  ASSERT_EQ(services_.texts.size(), 1);
  const std::string small = services_.texts[0], large = absl::StrReplaceAll(small, {{", true>", ", false>"}});
  ASSERT_NE(small, large);
  void* library = Compiled(absl::StrCat(small, "#define FusedBody Large\n#define millrace_fused millrace_large\n", large), node.name);
  ASSERT_NE(library, nullptr);
  for (const char* name : {"millrace_fused", "millrace_large"}) {
    services_.kernel = dlsym(library, name);
    ASSERT_NE(services_.kernel, nullptr) << name;
    auto compiled = (*kernels_.Find("_Fused"))(node);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_TRUE(RunAll(**compiled, node, inputs) == bytes) << name;
  }
  dlclose(library);
}

TEST_P(FusedTest, RowsOfLargerTensorsAreReadAndWrittenAlike) { ExpectAllAlike(RowsNode(GetParam())); }

TEST_P(FusedTest, SpreadOperandsAreReadAlike) { ExpectAllAlike(SpreadNode(GetParam())); }

TEST_P(FusedTest, OperandsThatDoNotSpreadSoAreRefused) {
  OpInstance node = SpreadNode(GetParam());
  auto spreads = *node.attrs.Get<std::vector<int64_t>>("spreads");
  spreads[4] += 1;
  node.attrs.Set("spreads", spreads);
  KernelRegistry cpu;
  cpu::RegisterCpuKernels(cpu);
  for (const KernelRegistry* kernels : {&cpu, &kernels_}) {
    EXPECT_EQ((*kernels->Find("_Fused"))(node).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

#ifdef MILLRACE_HAS_CUDA_PLUGIN
TEST_P(FusedTest, TheDevicesCompilerTakesEveryText) {
  std::string text = AllTexts(Trees(GetParam()));
  for (const OpInstance& node : {RowsNode(GetParam()), SpreadNode(GetParam())}) {
    EXPECT_TRUE((*kernels_.Find("_Fused"))(node).ok());
    absl::StrAppend(&text, "#define FusedBody FusedBody_", node.name, "\n#define millrace_fused millrace_fused_", node.name, "\n",
                    services_.texts.back(), "#undef FusedBody\n#undef millrace_fused\n");
  }
  for (const char* architecture : {"compute_80", "sm_90", "compute_100"}) {
    const auto compiled = CompileAtRunTime(text, architecture);
    if (absl::IsUnimplemented(compiled.status())) GTEST_SKIP() << compiled.status().message();
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->log, "") << architecture;
    EXPECT_GT(compiled->code.size(), 1000) << architecture;
  }
}

// In a process whose loader looks into no list of libraries: what lies beside NVRTC is found by NVRTC's folder alone, as in a
// Python package's.
TEST(RunTimeCompilerTest, CompilesWhereTheLoaderKnowsNvrtcsFolderOnlyFromNvrtc) {
  constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
  if (!std::filesystem::exists(kLoader)) GTEST_SKIP() << "no " << kLoader;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers start programs their own way";
#endif
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = absl::StrCat("env -u LD_LIBRARY_PATH ", kLoader, " --inhibit-cache ", self,
                                           " --gtest_filter=RunTimeCompilerTest.Compiles 2>&1");
  FILE* const child = popen(command.c_str(), "r");
  ASSERT_NE(child, nullptr);
  std::string said;
  for (int c = fgetc(child); c != EOF; c = fgetc(child)) said.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(child), 0) << said;
  EXPECT_THAT(said, ::testing::HasSubstr("RunTimeCompilerTest.Compiles"));
}

TEST(RunTimeCompilerTest, Compiles) {
  const auto compiled = CompileAtRunTime("__global__ void Nothing() {}", "sm_90");
  if (absl::IsUnimplemented(compiled.status())) GTEST_SKIP() << compiled.status().message();
  EXPECT_TRUE(compiled.ok()) << compiled.status();
}

TEST(RunTimeCompilerTest, DevicesThatTheCompilerDoesNotKnowAreGivenPtxOfTheLastOneBeforeThem) {
  const std::vector<int> known = {75, 80, 86, 87, 90, 100};
  for (const auto& [capability, architecture] : {std::pair(80, "sm_80"), std::pair(90, "sm_90"), std::pair(89, "compute_87"), std::pair(103, "compute_100"),
                                                 std::pair(130, "compute_100"), std::pair(70, "sm_70")}) {
    EXPECT_EQ(ArchitectureFor(capability, known), architecture);
  }
  const auto own = ArchitectureFor(90), newer = ArchitectureFor(990);
  if (absl::IsUnimplemented(newer.status())) GTEST_SKIP() << newer.status().message();
  ASSERT_TRUE(own.ok() && newer.ok()) << own.status() << newer.status();
  EXPECT_EQ(*own, "sm_90");
  const auto compiled = CompileAtRunTime("__global__ void Nothing() {}", *newer);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->code, ::testing::HasSubstr(absl::StrReplaceAll(*newer, {{"compute_", ".target sm_"}})));
}

TEST(RunTimeCompilerTest, TextsAreCompiledOnceAndSideBySide) {
  const auto text = [](int i) { return absl::StrCat("__global__ void Nothing", i, "() {}"); };
  const auto first = StartCompiling(text(0), "sm_90");
  if (absl::IsUnimplemented(first.status())) GTEST_SKIP() << first.status().message();
  std::vector<Compilation> others;
  for (int i = 1; i < 4; ++i) others.push_back(*StartCompiling(text(i), "sm_90"));
  const auto again = StartCompiling(text(0), "sm_90"), elsewhere = StartCompiling(text(0), "compute_80");
  ASSERT_TRUE(first->get().ok()) << first->get().status();
  EXPECT_EQ(first->get()->code, CompileAtRunTime(text(0), "sm_90")->code);
  EXPECT_EQ(&first->get(), &again->get());
  EXPECT_THAT(elsewhere->get()->code, ::testing::HasSubstr(".target sm_80"));
  for (const Compilation& other : others) EXPECT_TRUE(other.get().ok()) << other.get().status();
}

TEST(RunTimeCompilerTest, ManyTextsTakeAsManyThreadsAsThereAreCoresAndThoseThatNobodyHoldsNoTime) {
  const auto text = [](int i) { return absl::StrCat("__global__ void Held", i, "() {}"); };
  const auto threads = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()); };
  const auto seconds = [](const auto& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto first = StartCompiling(text(0), "sm_90");  // sanitizers have a thread of their own from then on
  if (absl::IsUnimplemented(first.status())) GTEST_SKIP() << first.status().message();
  ASSERT_TRUE(first->get().ok()) << first->get().status();
  const double one = seconds([&] { CompileAtRunTime(text(0), "sm_90").IgnoreError(); });
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency())), texts = 64 * cores;
  const auto before = threads();
  std::vector<Compilation> held;
  for (int i = 1; i <= texts; ++i) held.push_back(*StartCompiling(text(i), "sm_90"));
  EXPECT_LE(threads(), before + cores);
  const double rest = seconds([&] {
    held.clear();
    WaitForCompilersThatNobodyNeeds();
  });
  EXPECT_LT(rest, (cores + 8) * one) << "those that are begun are waited for; one after another all of them would take " << texts * one << " s";
  EXPECT_TRUE(StartCompiling(text(texts), "sm_90")->get().ok()) << "it was not begun before";
}

TEST(RunTimeCompilerTest, SaysWhatIsWrongWithAText) {
  const auto compiled = StartCompiling("nonsense", "sm_90");
  if (absl::IsUnimplemented(compiled.status())) GTEST_SKIP() << compiled.status().message();
  for (const absl::Status& status : {compiled->get().status(), CompileAtRunTime("nonsense", "sm_90").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nonsense"));
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Types, FusedTest,
                         ::testing::Values(DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16),
                         [](const auto& param) { return std::string(DataTypeName(param.param)); });

}  // namespace
}  // namespace millrace::cuda
