// Outputs never take the places of inputs or of one another, by whatever names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputNamesTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Make(const std::string& name, std::string_view bytes = "bytes") const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string VerdictOnReport(const std::string& path) {
    options_.output.report_out = path;
    const absl::Status status = CheckOutputNames(options_);
    EXPECT_EQ(ExitStatus(status), status.ok() ? kExitDone : kExitUsage);
    return std::string(status.message());
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / absl::StrCat("output_names_", getpid());
  Options options_;
};

TEST_F(OutputNamesTest, ALinkToNothingIsTheFileThatItLeadsTo) {
  fs::create_symlink("target", Path("first"));
  fs::create_symlink("first", Path("second"));
  options_.output.trace_out = Path("target");
  EXPECT_THAT(VerdictOnReport(Path("first")), HasSubstr("would overwrite the file of --report_out"));
  EXPECT_THAT(VerdictOnReport(Path("second")), HasSubstr("would overwrite the file of --report_out"));
  EXPECT_EQ(VerdictOnReport(Path("third")), "");
}

TEST_F(OutputNamesTest, FilesOfASavedModelAreInputs) {
  options_.input.saved_model = Path("model");
  for (const char* file : {"model/saved_model.pb", "model/variables/variables.index", "model/variables/variables.data-00001-of-00002", "model/assets/words"}) {
    EXPECT_THAT(VerdictOnReport(Make(file)), HasSubstr("would overwrite the file of --saved_model")) << file;
  }
  EXPECT_EQ(VerdictOnReport(Make("model/report.json")), "");
}

TEST_F(OutputNamesTest, ACheckpointMayReplaceThatOfTheSavedModel) {
  options_.input.saved_model = Path("model");
  Make("model/variables/variables.index");
  Make("model/variables/variables.data-00000-of-00001");
  options_.output.checkpoint_out = Path("model/../model/variables/variables");
  EXPECT_EQ(CheckOutputNames(options_), absl::OkStatus());
  options_.output.checkpoint_out = Make("model/assets/words");
  Make("model/assets/words.index");
  EXPECT_THAT(std::string(CheckOutputNames(options_).message()), HasSubstr("would overwrite the file of --saved_model"));
}

TEST_F(OutputNamesTest, EveryPartOfACheckpointIsAnInput) {
  options_.input.checkpoint_in = Path("ck");
  EXPECT_THAT(VerdictOnReport(Make("ck.data-00001-of-00002")), HasSubstr("would overwrite the file of --checkpoint_in"));
  EXPECT_EQ(VerdictOnReport(Make("ck.json")), "");
}

TEST_F(OutputNamesTest, ExternalDataOfAnOnnxModelIsAnInput) {
  options_.input.onnx = Make("model.onnx");
  options_.output.variables_out = Make("weights.bin");
  EXPECT_TRUE(CheckOutputNames(options_).ok());
  const absl::Status status = CheckOutputNames(options_, {Path("weights.bin")});
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("would overwrite the file of --onnx"));
}

TEST_F(OutputNamesTest, TheGraphOfASavedModelMayBeText) {
  options_.input.saved_model = Path("model");
  EXPECT_THAT(VerdictOnReport(Make("model/saved_model.pbtxt")), HasSubstr("would overwrite the file of --saved_model"));
}

}  // namespace
}  // namespace millrace::cli
