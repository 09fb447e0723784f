#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/profile.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string PathOf(const std::string& name) { return absl::StrCat(::testing::TempDir(), "/", name); }

absl::Status LoadText(const std::string& text) {
  const std::string path = PathOf("profile_of_a_test.pbtxt");
  std::ofstream(path) << text;
  return LoadProfile(path).status();
}

TEST(ProfileFileTest, WhatIsSavedIsLoaded) {
  Profile profile;
  profile.threads = 2;
  profile.steps = 5;
  profile.link_gbps = 4;
  profile.to_host_bytes_per_second = 3.9e9;
  profile.wake_seconds = 1.0 / 3;
  profile.nodes["a/b"] = {"MatMul", "float[2,3];float[3,4]->float[2,4]", 1e-7 / 3};
  const std::string path = PathOf("saved_profile.pbtxt");
  ASSERT_TRUE(SaveProfile(profile, path).ok());
  const auto loaded = LoadProfile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->threads, 2);
  EXPECT_EQ(loaded->steps, 5);
  EXPECT_EQ(loaded->link_gbps, 4);
  EXPECT_EQ(loaded->to_host_bytes_per_second, 3.9e9);
  EXPECT_EQ(loaded->to_device_bytes_per_second, 0);
  EXPECT_EQ(loaded->wake_seconds, 1.0 / 3);
  ASSERT_EQ(loaded->nodes.size(), 1u);
  EXPECT_EQ(loaded->nodes.at("a/b").types, "float[2,3];float[3,4]->float[2,4]");
  EXPECT_EQ(loaded->nodes.at("a/b").seconds, 1e-7 / 3);
}

TEST(ProfileFileTest, WrongFilesAreErrorsThatSayWhatIsWrong) {
  EXPECT_THAT(LoadProfile(PathOf("not_there")).status().ToString(), HasSubstr("cannot read"));
  EXPECT_THAT(LoadText("name: \"titanx\"").ToString(), HasSubstr("not a profile: line 1"));
  EXPECT_THAT(LoadText("steps: 5").ToString(), HasSubstr("times of no node"));
  EXPECT_THAT(LoadText("node { name: \"a\" op: \"Relu\" seconds: -1 }").ToString(), HasSubstr("a: -1, expected 0 to 1e+09 seconds"));
  EXPECT_THAT(LoadText("node { name: \"a\" op: \"Relu\" } node { name: \"a\" op: \"Relu\" }").ToString(), HasSubstr("twice"));
  EXPECT_THAT(LoadText("node { name: \"a\" op: \"Relu\" } link_gbps: nan").ToString(), HasSubstr("link_gbps"));
}

// Their sums would be infinite, and pictures of such steps without an end.
TEST(ProfileFileTest, FiguresBeyondAnyMachineAreRefused) {
  const std::string node = "node { name: \"a\" op: \"Relu\" seconds: 1 } ";
  EXPECT_TRUE(LoadText(node + "steps: 1 link_gbps: 0.001 to_host_bytes_per_second: 1 to_device_bytes_per_second: 1e30 wake_seconds: 1e9").ok());
  EXPECT_THAT(LoadText("node { name: \"a\" op: \"Relu\" seconds: 1e308 }").ToString(), HasSubstr("a: 1e+308, expected 0 to 1e+09 seconds"));
  for (const char* figure : {"copy_latency_seconds: 1e308", "wake_seconds: 1.1e9", "step_overhead_seconds: inf", "to_host_bytes_per_second: 1e31",
                             "to_device_bytes_per_second: 1e-300", "link_gbps: 1e22", "steps: -1", "threads: -1"}) {
    const std::string field = std::string(figure).substr(0, std::string(figure).find(':'));
    EXPECT_THAT(LoadText(node + figure).ToString(), HasSubstr(absl::StrCat(field, ": "))) << figure;
  }
}

}  // namespace
}  // namespace millrace
