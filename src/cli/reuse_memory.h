// Memory of a process that plans and ends.
#ifndef MILLRACE_SRC_CLI_REUSE_MEMORY_H_
#define MILLRACE_SRC_CLI_REUSE_MEMORY_H_

#include <cstdint>
#include <memory>

namespace millrace::cli {

// From now on what is freed stays with the process for what it allocates next: pages given back and asked for again are
// cleared each time. For commands that run no steps: what planning leaves behind would stay beside them. Does nothing where
// the C library has no such switch.
void ReuseFreedMemory();

// The next `bytes` that the heap grows by, up to some 16 GiB, lie on huge pages where the system has them for who asks: a hundredth of the page
// faults for a plan of a million nodes, which is spread over gigabytes (bench/results/planning.md). Takes addresses, no memory.
// The C library does so by itself with GLIBC_TUNABLES=glibc.malloc.hugetlb=1, which is read before main; jemalloc with thp:always was
// no faster. After ReuseFreedMemory; does nothing for little memory, or where the system cannot.
void UseHugePages(int64_t bytes);

// About so much memory is going to be allocated, and stays: asked for at once, its pages come in a third of the time that they
// take one by one. After ReuseFreedMemory; does nothing for little memory, or where the system cannot.
void ExpectToAllocate(int64_t bytes);

// A plan of a million nodes takes longer to take apart than to write: what ends with the process stays until then, or until
// the next ReuseFreedMemory.
void KeepUntilTheEnd(std::shared_ptr<const void> result);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_REUSE_MEMORY_H_
