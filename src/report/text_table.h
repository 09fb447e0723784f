// Columns of text, aligned: what is printed to a person.
#ifndef MILLRACE_SRC_REPORT_TEXT_TABLE_H_
#define MILLRACE_SRC_REPORT_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace millrace {

// The first and the last column are left-aligned, the others right-aligned; a rule follows the header. Rows may be
// shorter than the header. Widths count UTF-8 characters.
std::string TextTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// "1.234 s", "12.3 ms", "4.5 us".
std::string FormatSeconds(double seconds);
// 7016 -> "7,016".
std::string FormatCount(int64_t count);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_TEXT_TABLE_H_
