// The smallest JSON vocabulary: what report and trace writers share.
#ifndef MILLRACE_SRC_REPORT_JSON_H_
#define MILLRACE_SRC_REPORT_JSON_H_

#include <string>
#include <string_view>

namespace millrace {

// `text` in quotes, escaped; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
// The shortest text that reads back as `value`; "NaN", "Infinity" and "-Infinity" as strings.
std::string JsonNumber(double value);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_JSON_H_
