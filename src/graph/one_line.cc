#include "graph/one_line.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "graph/with_message.h"

namespace millrace {
namespace {

void AppendPrintable(char c, std::string& text) {
  const unsigned char byte = static_cast<unsigned char>(c);
  if (byte < 0x80 && !absl::ascii_isprint(byte)) {
    absl::StrAppendFormat(&text, "\\x%02x", byte);
  } else {
    text.push_back(c);
  }
}

}  // namespace

std::string OnOneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) AppendPrintable(c, line);
  return line;
}

absl::Status OneLine(const absl::Status& status) {
  constexpr size_t kMaxBytes = 500;
  if (status.ok()) return status;
  std::string text;
  for (const char c : status.message()) {
    AppendPrintable(c, text);
    if (text.size() > kMaxBytes) {
      text.append("…");
      break;
    }
  }
  return WithMessage(status, text);
}

}  // namespace millrace
