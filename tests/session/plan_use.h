// What it takes to run a plan of one session in another, for tests.
#ifndef MILLRACE_TESTS_SESSION_PLAN_USE_H_
#define MILLRACE_TESTS_SESSION_PLAN_USE_H_

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "millrace/plan_file.h"
#include "millrace/session.h"

namespace millrace::testing {

inline Session::FeedTypes TypesOf(const Session::Feeds& feeds) {
  Session::FeedTypes types;
  for (const auto& [name, tensor] : feeds) types.emplace(name, tensor.type());
  return types;
}

// As it is after a file of it was written and read.
inline std::shared_ptr<const ExecutionPlan> Reread(const ExecutionPlan& plan) {
  const absl::StatusOr<std::string> bytes = PlanToBytes(plan, false);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  absl::StatusOr<ExecutionPlan> read = PlanFromBytes(*bytes);
  EXPECT_TRUE(read.ok()) << read.status();
  return std::make_shared<const ExecutionPlan>(*std::move(read));
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_PLAN_USE_H_
