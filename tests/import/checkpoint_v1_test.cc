// Checkpoints of format V1, as TensorFlow wrote them (make_checkpoint.py), and damaged ones.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "import/checkpoint_v1.h"
#include "millrace/import.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const char kData[] = MILLRACE_SOURCE_DIR "/tests/import/data/";

std::string BytesIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

class CheckpointV1 : public ::testing::Test {
 protected:
  CheckpointV1() { std::filesystem::create_directories(folder_); }
  ~CheckpointV1() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/checkpoint_v1_", getpid());
};

TEST_F(CheckpointV1, HasTheTensorsOfV2) {
  const auto old = ReadCheckpoint(absl::StrCat(kData, "v1")), now = ReadCheckpoint(absl::StrCat(kData, "tensorflow"));
  ASSERT_TRUE(old.ok()) << old.status();
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(old->size(), now->size() - 3);  // V1 does not have all types
  for (const auto& [name, tensor] : *old) {
    SCOPED_TRACE(name);
    EXPECT_EQ(AttrValueToText(tensor), AttrValueToText(now->at(name)));
  }
}

TEST_F(CheckpointV1, SlicesOfSeveralFilesAreThoseOfV2) {
  const auto now = ReadCheckpoint(absl::StrCat(kData, "sliced"));
  ASSERT_TRUE(now.ok()) << now.status();
  for (const char* name : {"v1_sliced", "v1_sliced-?????" "-of-00002", "v1_sliced-00001-of-00002"}) {
    SCOPED_TRACE(name);
    const auto old = ReadCheckpoint(absl::StrCat(kData, name));
    ASSERT_TRUE(old.ok()) << old.status();
    ASSERT_EQ(old->size(), now->size());
    for (const auto& [key, tensor] : *old) EXPECT_EQ(AttrValueToText(tensor), AttrValueToText(now->at(key))) << key;
  }
}

TEST_F(CheckpointV1, ASliceIsReadFromOthers) {
  const auto reader = OpenCheckpointReader(absl::StrCat(kData, "v1_sliced"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::StatusOr<Tensor> part = (*reader)->ReadSlice("net/emb", {Shape({10, 4}), {3, 1}, Shape({2, 2})});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_THAT(part->as<float>(), ElementsAre(13, 14, 17, 18));
  EXPECT_THAT(std::string((*reader)->ReadSlice("net/emb", {Shape({10, 5}), {0, 0}, Shape({1, 1})}).status().message()),
              HasSubstr("tensor 'net/emb': is float[10,4], expected [10,5]"));
  EXPECT_EQ((*reader)->Read("stranger").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointV1, AMissingFileOrSliceIsNamed) {
  const std::string shard = BytesIn(absl::StrCat(kData, "v1_sliced-00000-of-00002"));
  const std::string path = Write("half-00000-of-00002", shard);
  EXPECT_THAT(std::string(ReadCheckpoint(absl::StrCat(folder_, "/half")).status().message()), HasSubstr("half-00001-of-00002"));
  const auto alone = ReadCheckpoint(Write("alone", shard));
  EXPECT_THAT(std::string(alone.status().message()), HasSubstr("its slices hold"));
}

std::vector<std::string> Files(const std::string& given) { return CheckpointV1Files(given).value_or(std::vector<std::string>{"error"}); }

TEST_F(CheckpointV1, FilesAreThoseWithoutAnIndex) {
  EXPECT_THAT(Files(absl::StrCat(kData, "tensorflow")), IsEmpty());
  EXPECT_THAT(Files(absl::StrCat(kData, "none")), IsEmpty());
  EXPECT_THAT(Files(absl::StrCat(kData, "v1")), ElementsAre(absl::StrCat(kData, "v1")));
  EXPECT_THAT(Files("p-?????" "-of-00002"), ElementsAre("p-00000-of-00002", "p-00001-of-00002"));
  for (const char* name : {"kind-of-00002", "run-x0001-of-00002", "run-00000-of-00000"}) {
    const std::string path = Write(name, "");
    EXPECT_THAT(Files(path), ElementsAre(path));
  }
}

TEST_F(CheckpointV1, APrefixOfTwoCheckpointsIsAnError) {
  Write("twice-00000-of-00002", "");
  const std::string prefix = absl::StrCat(folder_, "/twice");
  EXPECT_THAT(Files(prefix), ElementsAre(prefix + "-00000-of-00002", prefix + "-00001-of-00002"));
  Write("twice-00000-of-00003", "");
  EXPECT_THAT(std::string(ReadCheckpoint(prefix).status().message()), HasSubstr("there are checkpoints of 2, of 3 files, expected one, or "));
  EXPECT_THAT(Files(absl::StrCat(folder_, "/twice-?????" "-of-00002")), SizeIs(2));
}

TEST_F(CheckpointV1, WholeTensorsOfTwoFilesAreAnError) {
  const std::string whole = BytesIn(absl::StrCat(kData, "v1"));
  Write("both-00000-of-00002", whole);
  Write("both-00001-of-00002", whole);
  EXPECT_THAT(std::string(ReadCheckpoint(absl::StrCat(folder_, "/both")).status().message()), HasSubstr("two of its slices hold the same elements"));
}

// Of every byte that is damaged: an error, or the tensors as they were (a byte that nothing depends on).
TEST_F(CheckpointV1, DamageIsAnError) {
  const std::string whole = BytesIn(absl::StrCat(kData, "v1"));
  int refused = 0;
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    refused += ReadCheckpoint(Write("damaged", damaged)).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, static_cast<int>(whole.size() / 3 * 9 / 10));
  for (size_t size = 0; size < whole.size(); size += 97) EXPECT_FALSE(ReadCheckpoint(Write("short", whole.substr(0, size))).ok()) << size;
}

}  // namespace
}  // namespace millrace
