// What flags of devices and disks say, and errors of wrong usage.
#include "cli/settings.h"

#include <limits>
#include <string>

#include "cli/exit_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseDevices, NamesAndKindsOfThem) {
  const auto parsed = [](const std::string& names, const std::string& device) {
    const auto devices = ParseDevices(names, device);
    EXPECT_TRUE(devices.ok()) << devices.status();
    return devices.value_or(Devices{});
  };
  EXPECT_THAT(parsed("", "cuda").names, IsEmpty());
  EXPECT_THAT(parsed("2", "cuda").names, ElementsAre("cuda:0", "cuda:1"));
  EXPECT_EQ(parsed("gpu:0,GPU:1", "cpu").kind, "cuda");
  EXPECT_EQ(parsed("gpu:0,cuda:1", "cpu").kind, "cuda");
  EXPECT_EQ(parsed("gpu:0,gpu:1", "cuda_emulated").kind, "cuda_emulated");
  // Planned for, whatever they are.
  EXPECT_EQ(parsed("cpu:0,gpu:1", "null").kind, "null");
  EXPECT_THAT(parsed("cpu:0,gpu:1", "null").names, ElementsAre("cpu:0", "gpu:1"));
}

TEST(ParseDevices, OfTwoKindsIsWrongUsage) {
  for (const char* const names : {"cpu:0,gpu:1", "gpu:0,cpu:1", "null:0,cpu:1"}) {
    const absl::Status status = ParseDevices(names, "cpu").status();
    EXPECT_EQ(ExitStatus(status), kExitUsage) << names;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are of two kinds, expected one"));
  }
  EXPECT_THAT(std::string(ParseDevices("cpu:0,tpu:1", "cpu").status().message()), HasSubstr("tpu:1 is none of cpu, gpu, cuda and null"));
}

TEST(MakeSessionOptions, ADeviceIsWaitedForAsLongAsTheFlagSays) {
  Options options;
  EXPECT_EQ(MakeSessionOptions(options, "planned")->device_timeout_seconds, SessionOptions().device_timeout_seconds);
  for (const double seconds : {0.0, 2.5}) {
    options.engine.device_timeout = seconds;
    EXPECT_EQ(MakeSessionOptions(options, "planned")->device_timeout_seconds, seconds);
  }
  for (const double seconds : {-1.0, std::numeric_limits<double>::infinity()}) {
    options.engine.device_timeout = seconds;
    const absl::Status status = MakeSessionOptions(options, "planned").status();
    EXPECT_EQ(ExitStatus(status), kExitUsage);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 0 (no limit) or more seconds"));
  }
}

TEST(CheckRuns, ADiskIsAFolder) {
  SessionOptions session;
  session.device = "cpu";
  EXPECT_TRUE(CheckRuns(session).ok());
  session.disk = testing::TempDir();
  EXPECT_TRUE(CheckRuns(session).ok());
  for (const char* const none : {"/no/such/folder", "/dev/null"}) {
    session.disk = none;
    const absl::Status status = CheckRuns(session);
    EXPECT_EQ(ExitStatus(status), kExitUsage);
    EXPECT_THAT(std::string(status.message()), HasSubstr(none));
  }
}

TEST(AddError, KeepsTheFirstKindAndAllMessages) {
  absl::Status status;
  AddError(absl::OkStatus(), status);
  EXPECT_TRUE(status.ok());
  AddError(UsageError("a"), status);
  AddError(absl::OkStatus(), status);
  AddError(absl::InternalError("b"), status);
  EXPECT_EQ(status.message(), "a; b");
  EXPECT_EQ(ExitStatus(status), kExitUsage);
}

}  // namespace
}  // namespace millrace::cli
