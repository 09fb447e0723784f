// A bounded, deterministic slice of fuzzing: the same inputs every time, as many as fit the time.
#include <fstream>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "import_targets.h"
#include "mutator.h"

namespace millrace {
namespace {

constexpr int64_t kInputs = 20000;
constexpr double kSeconds = 3;

std::string ReadData(const std::string& name) {
  std::ifstream file(absl::StrCat(MILLRACE_SOURCE_DIR, "/tests/import/data/", name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

TEST(ImportFuzz, BinaryGraphsAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("every_attr.pb"), ReadData("every_attr.pb"),
                                           ReadData("functions.pb"), ReadData("small.meta"), ReadData("mlp_ref.pb")};
  EXPECT_GT(Fuzz(corpus, 1, kInputs, kSeconds, FuzzGraphFile), 50);
}

TEST(ImportFuzz, TextGraphsAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("every_attr.pbtxt"), ReadData("functions.pbtxt")};
  EXPECT_GT(Fuzz(corpus, 2, kInputs, kSeconds, FuzzGraphFile), 50);
}

TEST(ImportFuzz, ArraysAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("numpy_stored.npz"), ReadData("numpy_deflated.npz"),
                                           ReadData("odd.npz"), ReadData("numpy_stored.npz").substr(30, 200)};
  EXPECT_GT(Fuzz(corpus, 3, kInputs, kSeconds, FuzzArrays), 50);
}

TEST(ImportFuzz, TheTextFormIsReadOrRefused) {
  const std::vector<std::string> corpus = {
      "function f {n=1} ^e\n  a = _Arg() {T=float, index=0}\n  e = NoOp()\n  r = _Retval(a) {T=$T, index=0}\nend\n"
      "y = AddV2(x, x:1) ^f {T=float, v=float[2]{0.5, 1.0}, g=&f{T=int32}} : float[2] @p3 on \"/cpu:0\" # why\n"
      "x = Op() {s=shape[2,?], l=[\"a\", \"\\x01\"], c=complex64[]{(1.0, 2.0)}, h=half[3]{0.5 ...}, t=type(101)}\n"
      "f = NoOp() {b=[true, false], i=-3, n=none}\n"};
  EXPECT_GT(Fuzz(corpus, 4, kInputs, kSeconds, FuzzGraphText), 50);
}

}  // namespace
}  // namespace millrace
