// Conformance cases with something else in them: what a shape rule or a kernel does not take is refused, and what it takes stays in
// its memory (conformance/harness.h puts bytes behind every buffer that nobody may write). On the CPU's kernels and on the CUDA device's,
// launched on the host.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"
#include "cpu/kernels/register.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"
#include "glog/logging.h"
#include "graph/exceptions.h"
#include "random/random_graph.h"
#include "random/training.h"

namespace millrace {
namespace {

using conformance::Case;

constexpr DataType kTypes[] = {
    DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kUint8, DataType::kInt16, DataType::kInt8, DataType::kString,
    DataType::kComplex64, DataType::kInt64, DataType::kBool, DataType::kBfloat16, DataType::kUint16, DataType::kComplex128, DataType::kHalf,
    DataType::kUint32, DataType::kUint64};

// All cases, without what is expected of them.
std::vector<Case> AllCases() {
  absl::StatusOr<std::vector<Case>> all = conformance::LoadAllCases(MILLRACE_SOURCE_DIR "/tests/conformance/data");
  CHECK(all.ok()) << all.status();
  std::erase_if(*all, [](const Case& one) { return one.error.has_value(); });
  for (Case& one : *all) {
    one.outputs.clear();
    one.variables.clear();
  }
  return *std::move(all);
}

// The first one of every op with these attributes, or all of them where MILLRACE_RANDOM_EVERY_CASE is set.
const std::vector<Case>& Cases() {
  static const std::vector<Case>& cases = *[] {
    auto* const chosen = new std::vector<Case>(AllCases());
    // Those that are large for the device's sake are chosen where no other family has one.
    std::stable_partition(chosen->begin(), chosen->end(), [](const Case& one) { return one.family != "device_sizes"; });
    std::set<std::string> seen;
    const auto again = [&](const Case& one) {
      std::string forms = one.op;
      for (const auto& [name, value] : one.attrs) absl::StrAppend(&forms, " ", name);
      return !seen.insert(forms).second;
    };
    if (FromEnvironment("MILLRACE_RANDOM_EVERY_CASE", 0) == 0) std::erase_if(*chosen, again);
    return chosen;
  }();
  return cases;
}

// A dimension more, one fewer, or of another size.
std::vector<Shape> ShapesBeside(const Shape& shape) {
  const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  std::vector<Shape> shapes;
  for (size_t d = 0; d < dims.size(); ++d) {
    for (const int64_t size : {int64_t{0}, int64_t{1}, dims[d] - 1, dims[d] + 1, 2 * dims[d] + 1}) {
      std::vector<int64_t> other = dims;
      other[d] = std::max<int64_t>(size, 0);
      shapes.emplace_back(other);
    }
    std::vector<int64_t> fewer = dims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(d));
    shapes.emplace_back(fewer);
  }
  for (const int64_t size : {0, 1, 3}) {
    std::vector<int64_t> front = dims, back = dims;
    front.insert(front.begin(), size);
    back.push_back(size);
    shapes.emplace_back(front);
    shapes.emplace_back(back);
  }
  return shapes;
}

class EditedCases : public testing::TestWithParam<const char*> {
 protected:
  EditedCases() : services_(/*written_out=*/true) {
    if (on_cuda()) {
      cuda::RegisterCudaKernels(kernels_, services_);
    } else {
      cpu::RegisterCpuKernels(kernels_);
    }
    device_ = conformance::MakeHostDevice(kernels_);
  }
  ~EditedCases() override {
    std::printf("%lld ran, %lld were refused\n", static_cast<long long>(ran_), static_cast<long long>(refused_));
    EXPECT_GT(ran_, 100);
    EXPECT_GT(refused_, 100);
  }
  static bool on_cuda() { return std::string(GetParam()) == "cuda"; }

  void Run(const Case& edited, const std::string& what) {
    if (kernels_.Find(edited.op) == nullptr) return;
    if (std::getenv("MILLRACE_RANDOM_TRACE") != nullptr) std::fprintf(stderr, "%s, %s\n", edited.name.c_str(), what.c_str());
    // Sessions pass on what libraries throw, too: memory that there is none of.
    const absl::Status status = WithoutExceptions([&] { return conformance::CheckCase(edited, OpRegistry::Builtin(), *device_); });
    ++(status.ok() ? ran_ : refused_);
    EXPECT_FALSE(absl::IsInternal(status)) << edited.op << " (" << edited.name << "), " << what << ": " << status;
  }

 private:
  cuda::HostServices services_;
  KernelRegistry kernels_;
  std::unique_ptr<conformance::TestDevice> device_;
  int64_t ran_ = 0, refused_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Devices, EditedCases, testing::Values("cpu", "cuda"), [](const auto& device) { return std::string(device.param); });

TEST_P(EditedCases, AttributesOfOtherTypes) {
  for (const Case& one : Cases()) {
    for (const auto& [name, value] : one.attrs) {
      if (!std::holds_alternative<DataType>(value)) continue;
      for (const DataType type : kTypes) {
        Case edited = one;
        edited.attrs.Set(name, type);
        Run(edited, absl::StrCat(name, " is ", std::string(DataTypeName(type))));
      }
    }
  }
}

TEST_P(EditedCases, InputsOfOtherTypes) {
  for (const Case& one : Cases()) {
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      for (const DataType type : kTypes) {
        Case edited = one;
        edited.inputs[i] = Filled(one.inputs[i], type, one.inputs[i].shape());
        Run(edited, absl::StrCat("input ", i, " is ", std::string(DataTypeName(type))));
      }
    }
  }
}

TEST_P(EditedCases, InputsOfOtherShapes) {
  for (const Case& one : Cases()) {
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      for (const Shape& shape : ShapesBeside(one.inputs[i].shape())) {
        Case edited = one;
        edited.inputs[i] = Filled(one.inputs[i], one.inputs[i].dtype(), shape);
        Run(edited, absl::StrCat("input ", i, " is ", shape.ToString()));
      }
    }
  }
}

// Several things at once, of all cases.
TEST_P(EditedCases, EditsByChance) {
  const int64_t edits = FromEnvironment("MILLRACE_RANDOM_EDITS", 3000);
  const auto first = static_cast<uint64_t>(FromEnvironment("MILLRACE_RANDOM_SEED", 1));
  const std::vector<Case> cases = AllCases();
  const CasePicker picker(cases);
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(edits); ++seed) {
    std::mt19937_64 random(seed);
    Run(EditCase(picker.Pick(random), random), absl::StrCat("seed ", seed));
  }
}

}  // namespace
}  // namespace millrace
