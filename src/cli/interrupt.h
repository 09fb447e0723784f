// Ctrl-C: the first one asks the command to end after the step it is in, the second one ends the process.
#ifndef MILLRACE_SRC_CLI_INTERRUPT_H_
#define MILLRACE_SRC_CLI_INTERRUPT_H_

namespace millrace::cli {

// Installs the handler of SIGINT and SIGTERM for the rest of the process.
void CatchInterrupts();
bool Interrupted();

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_INTERRUPT_H_
