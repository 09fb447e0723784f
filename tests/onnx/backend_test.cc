// A slice of ONNX's backend node tests: models, inputs and outputs as its package has them.
#include <cmath>

#include <gtest/gtest.h>

#include "millrace/import.h"
#include "model_maker.h"

namespace millrace::testing {
namespace {

constexpr double kRelative = 1e-3, kAbsolute = 1e-7;  // ONNX's own
constexpr double kRelativeOfHalves = 1.0 / 512;       // two units in the last place

struct BackendCase {
  std::string model;
  Arrays inputs, outputs;
};

// Members are called TEST/model, TEST/in/NAME, TEST/out/NAME.
const std::map<std::string, BackendCase>& Cases() {
  static const auto& cases = *[] {
    auto* read = new std::map<std::string, BackendCase>();
    const absl::StatusOr<Arrays> arrays = LoadArrays(MILLRACE_SOURCE_DIR "/tests/onnx/backend.npz");
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    for (const auto& [member, value] : *arrays) {
      const size_t slash = member.find('/');
      BackendCase& one = (*read)[member.substr(0, slash)];
      const std::string rest = member.substr(slash + 1);
      if (rest == "model") {
        one.model.assign(static_cast<const char*>(value.data()), value.num_elements());
      } else if (rest.rfind("in/", 0) == 0) {
        one.inputs[rest.substr(3)] = value;
      } else {
        one.outputs[rest.substr(4)] = value;
      }
    }
    return read;
  }();
  return cases;
}

void ExpectClose(const std::string& name, const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.type().ToString(), want.type().ToString()) << name;
  const double relative = want.dtype() == DataType::kHalf ? kRelativeOfHalves : kRelative;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double a = got.DoubleAt(i), b = want.DoubleAt(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::abs(a - b), kAbsolute + relative * std::abs(b)) << name << "[" << i << "]: " << a << " and " << b;
  }
}

TEST(OnnxBackend, ASliceOfOnnxsOwnNodeTestsPasses) {
  for (const auto& [name, one] : Cases()) {
    SCOPED_TRACE(name);
    const absl::StatusOr<Arrays> got = RunOnce(one.model, one.inputs);
    ASSERT_TRUE(got.ok()) << got.status();
    for (const auto& [output, want] : one.outputs) {
      ASSERT_EQ(got->count(output), 1) << output;
      ExpectClose(output, got->at(output), want);
    }
  }
  EXPECT_GT(Cases().size(), 200);
}

}  // namespace
}  // namespace millrace::testing
