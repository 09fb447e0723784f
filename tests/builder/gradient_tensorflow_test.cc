// Every gradient rule against TensorFlow's own gradient (gradients.txt, made by make_gradients.py).
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/gradients.h"
#include "testlib/graph_interpreter.h"

namespace millrace::testing {
namespace {

struct Expected {
  bool none = false;  // TensorFlow gives no gradient
  std::vector<double> values;
};
using ExpectedByInput = std::map<std::pair<std::string, int>, Expected>;

const ExpectedByInput& ExpectedGradients() {
  static const ExpectedByInput& expected = *[] {
    auto* read = new ExpectedByInput();
    std::ifstream file(absl::StrCat(MILLRACE_SOURCE_DIR, "/tests/builder/gradients.txt"));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name, word;
      int index = 0;
      words >> name >> index;
      Expected& entry = (*read)[{name, index}];
      while (words >> word) {
        if (word == "none") {
          entry.none = true;
        } else {
          entry.values.push_back(std::stod(word));
        }
      }
    }
    return read;
  }();
  return expected;
}

class TensorFlowGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(TensorFlowGradient, IsOurs) {
  const GradientCase& c = GetParam();
  GraphBuilder b;
  const std::vector<Output> inputs = BuildCase(c, b);
  ASSERT_TRUE(b.ok()) << b.status();
  const absl::StatusOr<std::vector<Output>> gradients =
      AddGradients(b, {b.OutputOf({b.graph().Find("loss"), 0})}, inputs);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  GraphInterpreter interpreter(b.graph());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto expected = ExpectedGradients().find({c.name, static_cast<int>(i)});
    ASSERT_NE(expected, ExpectedGradients().end()) << "gradients.txt has no line for input " << i;
    if (expected->second.none) continue;
    ASSERT_TRUE((*gradients)[i].valid());
    const absl::StatusOr<std::vector<Tensor>> values = interpreter.Run({}, {b.TensorName((*gradients)[i])});
    ASSERT_TRUE(values.ok()) << values.status();
    ASSERT_EQ(values->front().num_elements(), static_cast<int64_t>(expected->second.values.size()));
    for (int64_t k = 0; k < values->front().num_elements(); ++k) {
      const double want = expected->second.values[k];
      EXPECT_NEAR(values->front().DoubleAt(k), want, 1e-5 * std::max(1.0, std::abs(want))) << "x" << i << "[" << k << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TensorFlowGradient, ::testing::ValuesIn(GradientCases()),
                         [](const ::testing::TestParamInfo<GradientCase>& info) { return info.param.name; });

}  // namespace
}  // namespace millrace::testing
