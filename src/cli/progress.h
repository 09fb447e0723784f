// The progress bar: one line on the terminal, redrawn; nothing at all where stderr is not a terminal that takes escape codes.
#ifndef MILLRACE_SRC_CLI_PROGRESS_H_
#define MILLRACE_SRC_CLI_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "cli/environment.h"

namespace millrace::cli {

class Progress {
 public:
  // `environment` must outlive this.
  explicit Progress(const Environment& environment) : environment_(environment), out_(environment.err_is_terminal ? environment.err : nullptr) {}
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // "label [#####.....] 2/3 note", cut off at the terminal's width: a line that wraps is not wiped.
  void Show(const std::string& label, int64_t done, int64_t total, const std::string& note);

 private:
  const Environment& environment_;
  std::ostream* out_;
  bool shown_ = false;
};

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_PROGRESS_H_
