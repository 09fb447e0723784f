// A session on the faked CUDA.
#ifndef MILLRACE_TESTS_CUDA_FAKE_SESSION_H_
#define MILLRACE_TESTS_CUDA_FAKE_SESSION_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/text.h"
#include "millrace/session.h"

namespace millrace::testing {

// Of a graph as text, with calls in one order: nothing is planned again on a thread of its own.
inline absl::StatusOr<std::unique_ptr<Session>> OpenOnFake(const std::string& text, const std::string& cuda_graph, double timeout,
                                                           std::vector<std::string> devices = {}) {
  EXPECT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  auto graph = ParseGraphText(text);
  if (!graph.ok()) return graph.status();
  SessionOptions options;
  options.device = "cuda";
  options.planning.devices = std::move(devices);
  options.cuda_graph = cuda_graph;
  options.device_timeout_seconds = timeout;
  options.threads = 1;
  options.replan.mode = ReplanOptions::Mode::kOff;
  return Session::Create(*std::move(graph), options);
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_CUDA_FAKE_SESSION_H_
