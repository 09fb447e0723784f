// What is logged while it lives.
#ifndef MILLRACE_TESTS_TESTLIB_LOGGED_H_
#define MILLRACE_TESTS_TESTLIB_LOGGED_H_

#include <glog/logging.h>

#include <string>
#include <vector>

namespace millrace {

class Logged : public google::LogSink {
 public:
  explicit Logged(google::LogSeverity severity) : severity_(severity) { google::AddLogSink(this); }
  ~Logged() override { google::RemoveLogSink(this); }
  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&, const char* message,
            size_t size) override {
    if (severity == severity_) lines.emplace_back(message, size);
  }
  std::vector<std::string> lines;

 private:
  const google::LogSeverity severity_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_LOGGED_H_
