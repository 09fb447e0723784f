// Memory of a process that plans and ends.
#ifndef MILLRACE_SRC_CLI_REUSE_MEMORY_H_
#define MILLRACE_SRC_CLI_REUSE_MEMORY_H_

namespace millrace::cli {

// From now on what is freed stays with the process for what it allocates next: pages given back and asked for again are
// cleared each time. For commands that run no steps: what planning leaves behind would stay beside them. Does nothing where
// the C library has no such switch.
void ReuseFreedMemory();

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_REUSE_MEMORY_H_
