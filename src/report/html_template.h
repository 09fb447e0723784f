// The fixed parts of the HTML page: style and body before the data, the script after it.
#ifndef MILLRACE_SRC_REPORT_HTML_TEMPLATE_H_
#define MILLRACE_SRC_REPORT_HTML_TEMPLATE_H_

namespace millrace {

extern const char kHtmlHead[];
extern const char kHtmlScript[];

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_HTML_TEMPLATE_H_
