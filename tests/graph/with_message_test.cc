#include "graph/with_message.h"

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(WithMessage, APrefixKeepsTheCodeAndTheMarks) {
  absl::Status status = absl::ResourceExhaustedError("full");
  status.SetPayload("millrace/bytes", absl::Cord("12"));
  const absl::Status named = WithPrefix(status, "host memory");
  EXPECT_TRUE(absl::IsResourceExhausted(named));
  EXPECT_EQ(named.message(), "host memory: full");
  EXPECT_EQ(named.GetPayload("millrace/bytes"), absl::Cord("12"));
}

TEST(WithMessage, WhatIsWellStaysSo) { EXPECT_EQ(WithPrefix(absl::OkStatus(), "host memory"), absl::OkStatus()); }

}  // namespace
}  // namespace millrace
