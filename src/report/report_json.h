// The report file that scripts read (src/proto/report.proto).
#ifndef MILLRACE_SRC_REPORT_REPORT_JSON_H_
#define MILLRACE_SRC_REPORT_REPORT_JSON_H_

#include <string>

#include "millrace/report.h"

namespace millrace {

// Protobuf JSON of proto.Report, every field present, snake_case names. It departs from protobuf's printer in one
// point: 64-bit integers are JSON numbers, exact. NaN and infinities are the strings "NaN" and "Infinity", as in
// protobuf. protobuf's own parser reads the result back.
std::string ReportToJson(const Report& report);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_REPORT_JSON_H_
