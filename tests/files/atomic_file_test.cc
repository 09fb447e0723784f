#include "files/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("atomic_file_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  size_t NumFiles() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyAtCommit) {
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("first ").ok());
  ASSERT_TRUE((*file)->Append("second").ok());
  EXPECT_FALSE(fs::exists(Path("out")));
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Read("out"), "first second");
  file->reset();
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, WhatADescriptorWasOpenedOnIsWrittenOn) {
  const int descriptor = open(Path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ASSERT_EQ(write(descriptor, "before ", 7), 7);
  fs::create_symlink("/proc/self/fd/" + std::to_string(descriptor), Path("link"));
  for (const std::string& path : {"/dev/fd/" + std::to_string(descriptor), Path("link")}) {
    EXPECT_TRUE(WriteFileAtomically(path, "this ").ok());
  }
  ASSERT_EQ(write(descriptor, "after", 5), 5);
  close(descriptor);
  EXPECT_EQ(Read("log"), "before this this after");
  const int reader = open(Path("log").c_str(), O_RDONLY);
  EXPECT_FALSE(AtomicFile::Create("/dev/fd/" + std::to_string(reader)).ok());
  close(reader);
  EXPECT_FALSE(AtomicFile::Create("/dev/fd/" + std::to_string(reader)).ok()) << "it is closed";
}

TEST_F(AtomicFileTest, AbandonedWriteLeavesTheFormerFileAndNoTemporary) {
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "former").ok());
  {
    auto file = AtomicFile::Create(Path("out"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("half of").ok());
  }
  EXPECT_EQ(Read("out"), "former");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, HasNoNameBeforeCommit) {
  const int probe = open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (probe < 0) GTEST_SKIP() << "a file system without nameless files";
  close(probe);
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("half of").ok());
  EXPECT_EQ(NumFiles(), 0);  // nothing for a killed process to leave
}

TEST_F(AtomicFileTest, TwoWritersOfOneNameDoNotMix) {
  auto one = AtomicFile::Create(Path("out"));
  auto two = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE((*one)->Append("one").ok());
  ASSERT_TRUE((*two)->Append("two").ok());
  ASSERT_TRUE((*two)->Commit().ok());
  ASSERT_TRUE((*one)->Commit().ok());
  EXPECT_EQ(Read("out"), "one");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, WritesThroughASymbolicLink) {
  ASSERT_TRUE(WriteFileAtomically(Path("real"), "old").ok());
  fs::create_symlink(Path("real"), Path("link"));
  ASSERT_TRUE(WriteFileAtomically(Path("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read("real"), "new");
}

TEST_F(AtomicFileTest, WritesThroughALinkToWhatIsNotThereYet) {
  fs::create_directories(Path("folder"));
  fs::create_symlink("folder/real", Path("link"));
  ASSERT_TRUE(WriteFileAtomically(Path("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read("folder/real"), "new");
}

TEST_F(AtomicFileTest, LinksInACircleAreAnError) {
  fs::create_symlink("b", Path("a"));
  fs::create_symlink("a", Path("b"));
  EXPECT_FALSE(AtomicFile::Create(Path("a")).ok());
  EXPECT_TRUE(fs::is_symlink(Path("a")));
}

TEST_F(AtomicFileTest, KeepsTheModeOfWhatItReplaces) {
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "old").ok());
  const auto private_mode = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(Path("out"), private_mode);
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "new").ok());
  EXPECT_EQ(fs::status(Path("out")).permissions(), private_mode);
  EXPECT_EQ(Read("out"), "new");
}

TEST_F(AtomicFileTest, DoesNotReplaceWhatItMayNotWrite) {
  ASSERT_TRUE(WriteFileAtomically(Path("out"), "old").ok());
  fs::permissions(Path("out"), fs::perms::owner_read);
  if (access(Path("out").c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write everything";
  EXPECT_FALSE(AtomicFile::Create(Path("out")).ok());
  EXPECT_EQ(Read("out"), "old");
}

TEST_F(AtomicFileTest, NamesAsLongAsTheyCanBe) {
  const std::string longest(255, 'n');
  ASSERT_TRUE(WriteFileAtomically(Path(longest), "x").ok());
  EXPECT_EQ(Read(longest), "x");
  // Found before anything is written.
  EXPECT_FALSE(AtomicFile::Create(Path(longest + "n")).ok());
}

TEST_F(AtomicFileTest, NamesAFolderThatIsNotThere) {
  const absl::Status status = WriteFileAtomically(Path("missing/out"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find(Path("missing/out")), std::string::npos) << status;
  EXPECT_FALSE(WriteFileAtomically(folder_.string(), "x").ok());
}

TEST_F(AtomicFileTest, APipeWaitsForItsReaderUntilNobodyWaitsForIt) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  int asked = 0;
  const absl::Status status = AtomicFile::Create(Path("pipe"), [&] { return ++asked == 3; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(asked, 3);
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(WriteFileAtomically(Path("pipe"), "read").ok());
  char bytes[5] = {};
  EXPECT_EQ(read(reader, bytes, 4), 4);
  EXPECT_STREQ(bytes, "read");
  close(reader);
}

TEST_F(AtomicFileTest, TheNameMayBeSettledAtTheEnd) {
  auto file = AtomicFile::Create(Path("one"));
  ASSERT_TRUE(file.ok() && (*file)->Append("x").ok());
  ASSERT_TRUE((*file)->CommitAs(Path("two")).ok());
  EXPECT_EQ(Read("two"), "x");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(AtomicFileTest, ReportsADeviceThatIsFull) {
  EXPECT_EQ(WriteFileAtomically("/dev/full", "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "x").ok());
}

}  // namespace
}  // namespace millrace
