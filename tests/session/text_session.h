// A session of a graph in text form (graph/text.h), and what is in a tensor, for tests.
#ifndef MILLRACE_TESTS_SESSION_TEXT_SESSION_H_
#define MILLRACE_TESTS_SESSION_TEXT_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace::testing {

inline std::unique_ptr<Session> SessionOf(const std::string& text, SessionOptions options = {}) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), std::move(options));
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

inline std::vector<int64_t> Ints(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.IntAt(i));
  return values;
}

inline std::vector<double> Numbers(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(IsFloating(tensor.dtype()) ? tensor.DoubleAt(i) : tensor.IntAt(i));
  return values;
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_TEXT_SESSION_H_
