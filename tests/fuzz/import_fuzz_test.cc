// A bounded, deterministic slice of fuzzing: the same inputs every time, as many as fit the time.
#include <fstream>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "import/checkpoint.h"
#include "millrace/import.h"
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

// Edits that are all refused at the door would test nothing behind it.
void ExpectSomeAccepted(const FuzzCounts& counts) {
  EXPECT_GT(counts.inputs, 50);
  EXPECT_GT(counts.accepted, counts.inputs / 200) << "of " << counts.inputs;
  EXPECT_LT(counts.accepted, counts.inputs);
}

TEST(ImportFuzz, BinaryGraphsAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("every_attr.pb"), ReadData("every_attr.pb"),
                                           ReadData("functions.pb"), ReadData("small.meta"), ReadData("mlp_ref.pb")};
  ExpectSomeAccepted(Fuzz(corpus, 1, kInputs, kSeconds, FuzzGraphFile));
}

TEST(ImportFuzz, TextGraphsAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("every_attr.pbtxt"), ReadData("functions.pbtxt")};
  ExpectSomeAccepted(Fuzz(corpus, 2, kInputs, kSeconds, FuzzGraphFile));
}

TEST(ImportFuzz, OnnxModelsAreReadOrRefused) {
  const auto members = LoadArrays(absl::StrCat(MILLRACE_SOURCE_DIR, "/tests/onnx/backend.npz"));
  ASSERT_TRUE(members.ok()) << members.status();
  std::vector<std::string> corpus;
  for (const auto& [name, value] : *members) {
    if (absl::EndsWith(name, "/model")) corpus.emplace_back(static_cast<const char*>(value.data()), value.num_elements());
  }
  ExpectSomeAccepted(Fuzz(corpus, 7, kInputs, kSeconds, FuzzOnnx));
}

TEST(ImportFuzz, ArraysAreReadOrRefused) {
  const std::string stored = ReadData("numpy_stored.npz");
  constexpr size_t kFirstArrayBytes = 131;  // of three bools
  const std::vector<std::string> corpus = {stored, ReadData("numpy_deflated.npz"), ReadData("odd.npz"),
                                           stored.substr(stored.find("\x93NUMPY"), kFirstArrayBytes)};
  ExpectSomeAccepted(Fuzz(corpus, 3, kInputs, kSeconds, FuzzArrays));
}

TEST(ImportFuzz, TheTextFormIsReadOrRefused) {
  const std::vector<std::string> corpus = {
      "function f {n=1} ^e\n  a = _Arg() {T=float, index=0}\n  e = NoOp()\n  r = _Retval(a) {T=$T, index=0}\nend\n"
      "y = AddV2(x, x:1) ^f {T=float, v=float[2]{0.5, 1.0}, g=&f{T=int32}} : float[2] @p3 on \"/cpu:0\" # why\n"
      "x = Op() {s=shape[2,?], l=[\"a\", \"\\x01\"], c=complex64[]{(1.0, 2.0)}, h=half[3]{0.5 ...}, t=type(101)}\n"
      "f = NoOp() {b=[true, false], i=-3, n=none}\n"};
  ExpectSomeAccepted(Fuzz(corpus, 4, kInputs, kSeconds, FuzzGraphText));
}

TEST(ImportFuzz, SavedModelsAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("saved_model_mlp/saved_model.pb"), ReadData("small.meta")};
  ExpectSomeAccepted(Fuzz(corpus, 5, kInputs, kSeconds, FuzzSavedModel));
}

TEST(ImportFuzz, CheckpointIndexesAreReadOrRefused) {
  const std::vector<std::string> corpus = {ReadData("tensorflow.index"), ReadData("millrace.index"),
                                           ReadData("saved_model_mlp/variables/variables.index")};
  ExpectSomeAccepted(Fuzz(corpus, 6, kInputs, kSeconds, FuzzCheckpointIndex));
}

// The index's checksums keep edits of an index away from the entries, so these are edited by themselves.
TEST(ImportFuzz, CheckpointEntriesAreReadOrRefused) {
  const absl::StatusOr<CheckpointIndex> index = ParseCheckpointIndex(ReadData("tensorflow.index"));
  ASSERT_TRUE(index.ok());
  const std::string data = ReadData("tensorflow.data-00000-of-00001");
  std::vector<std::string> corpus;
  for (const auto& [key, entry] : index->entries) {
    const std::string bytes = entry.SerializeAsString();
    ASSERT_LT(bytes.size(), 256);
    corpus.push_back(std::string(1, static_cast<char>(bytes.size())) + bytes + data);
  }
  ExpectSomeAccepted(Fuzz(corpus, 7, kInputs, kSeconds, FuzzCheckpointEntry));
}

}  // namespace
}  // namespace millrace
