// Machine files, configs/machines/*.pbtxt (src/proto/machine.proto).
#ifndef MILLRACE_SRC_REPORT_MACHINE_FILE_H_
#define MILLRACE_SRC_REPORT_MACHINE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/options.h"

namespace millrace {

// What the text does not say keeps Machine's default. InvalidArgument names the line, or the field with its value
// and what was expected.
absl::StatusOr<Machine> ParseMachine(const std::string& text);

// Text that ParseMachine reads back; rates to four digits, memory in bytes where there is a limit; the disk's rates (which nothing
// measures) and the alignment where they are not Machine's defaults.
std::string MachineToText(const Machine& machine);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_MACHINE_FILE_H_
