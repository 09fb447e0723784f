// Sessions on the device that $MILLRACE_TEST_DEVICE names, so that what is written for the CPU is true of other devices, too.
#ifndef MILLRACE_TESTS_TESTLIB_OPEN_SESSION_H_
#define MILLRACE_TESTS_TESTLIB_OPEN_SESSION_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"

namespace millrace::testing {

// Of the tests that leave the device to this.
inline std::string TestDevice() {
  const char* const device = std::getenv("MILLRACE_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

// As Session::Create, but what would run on the CPU runs on the test's device, over its own link.
template <typename GraphOrShared>
absl::StatusOr<std::unique_ptr<Session>> OpenSession(GraphOrShared graph, SessionOptions options = {}) {
  if (options.device == "cpu" && TestDevice() != "cpu") {
    options.device = TestDevice();
    if (options.link_gbps > 0) options.link_gbps = 0;  // what is out of range stays, to be refused
    for (std::string& device : options.planning.devices) device = absl::StrReplaceAll(device, {{"cpu:", options.device + ":"}});
  }
  return Session::Create(std::move(graph), std::move(options));
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_OPEN_SESSION_H_
