#include "files/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace millrace {
namespace {

using testing::HasSubstr;

std::string PathOf(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / (name + std::to_string(getpid()))).string();
}

TEST(MappedFileTest, ReadsFilesAndPipesWhole) {
  const std::string file = PathOf("mapped_file"), pipe = PathOf("mapped_pipe");
  std::ofstream(file) << "some bytes";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "bytes of a pipe"; });
  const auto of_pipe = MappedFile::Open(pipe);
  writer.join();
  const auto of_file = MappedFile::Open(file);
  ASSERT_TRUE(of_file.ok() && of_pipe.ok());
  EXPECT_EQ((*of_file)->bytes(), "some bytes");
  EXPECT_EQ((*of_pipe)->bytes(), "bytes of a pipe");
  unlink(file.c_str());
  unlink(pipe.c_str());
}

// Such as /dev/zero would be read until memory ends.
TEST(MappedFileTest, RefusesFoldersAndDevices) {
  EXPECT_THAT(MappedFile::Open(testing::TempDir()).status().ToString(), HasSubstr("is a folder, expected a file"));
  EXPECT_THAT(MappedFile::Open("/dev/zero").status().ToString(), HasSubstr("/dev/zero is a device, expected a file or a pipe"));
  EXPECT_THAT(MappedFile::Open(PathOf("not_there")).status().ToString(), HasSubstr("NOT_FOUND: cannot read"));
}

}  // namespace
}  // namespace millrace
