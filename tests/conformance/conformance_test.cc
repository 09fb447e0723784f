// Every case of data/*.pb.gz on the CPU device: one test per case, named Conformance_FAMILY.CASE.
#include <cstdio>

#include <gtest/gtest.h>

#include "conformance/harness.h"
#include "cpu/kernels/register.h"

namespace millrace::conformance {
namespace {

const KernelRegistry& CpuKernels() {
  static const KernelRegistry& registry = *[] {
    auto* built = new KernelRegistry();
    cpu::RegisterCpuKernels(*built);
    return built;
  }();
  return registry;
}

class CaseTest : public testing::Test {
 public:
  explicit CaseTest(Case test) : test_(std::move(test)) {}
  void TestBody() override {
    const std::unique_ptr<TestDevice> device = MakeHostDevice(CpuKernels());
    const absl::Status status = CheckCase(test_, OpRegistry::Builtin(), *device);
    if (!status.ok()) ADD_FAILURE() << test_.op << " " << test_.name << ": " << status.ToString();
  }

 private:
  Case test_;
};

int RegisterCases() {
  absl::StatusOr<std::vector<Case>> cases = LoadAllCases(MILLRACE_SOURCE_DIR "/tests/conformance/data");
  if (!cases.ok()) {
    std::fprintf(stderr, "%s\n", cases.status().ToString().c_str());
    return -1;
  }
  for (Case& one : *cases) {
    const std::string suite = "Conformance_" + one.family, name = one.name;
    testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [one = std::move(one)]() -> CaseTest* { return new CaseTest(one); });
  }
  return static_cast<int>(cases->size());
}

}  // namespace
}  // namespace millrace::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (millrace::conformance::RegisterCases() <= 0) {
    std::fprintf(stderr, "no conformance cases were loaded\n");
    return 1;
  }
  return RUN_ALL_TESTS();
}
