// A session of a graph in text form (graph/text.h), for tests.
#ifndef MILLRACE_TESTS_SESSION_TEXT_SESSION_H_
#define MILLRACE_TESTS_SESSION_TEXT_SESSION_H_

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "millrace/session.h"

namespace millrace::testing {

inline std::unique_ptr<Session> SessionOf(const std::string& text, SessionOptions options = {}) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*std::move(graph), std::move(options));
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_TEXT_SESSION_H_
