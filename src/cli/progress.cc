#include "cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

constexpr int64_t kBarWidth = 30;
constexpr char kStartOfLine[] = "\r\x1b[K";  // and wipe it

}  // namespace

Progress::~Progress() {
  if (shown_) *out_ << kStartOfLine << std::flush;
}

void Progress::Show(const std::string& label, int64_t done, int64_t total, const std::string& note) {
  if (out_ == nullptr) return;
  const int64_t filled = total > 0 ? std::clamp<int64_t>(kBarWidth * done / total, 0, kBarWidth) : 0;
  const std::string line = absl::StrCat(label, " [", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ", done, "/", total,
                                        note.empty() ? "" : " ", note);
  const int columns = environment_.err_columns();
  *out_ << kStartOfLine << line.substr(0, std::max(columns - 1, 1)) << std::flush;  // in the last column some terminals wrap
  shown_ = true;
}

}  // namespace millrace::cli
