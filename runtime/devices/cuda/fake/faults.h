// Faults of a device, thrown into the faked CUDA by tests. The library that has it offers them two functions:
//
//   extern "C" const char* millrace_fake_fault(const char* text);     nullptr, or what is wrong with the text
//   extern "C" int64_t millrace_fake_count(const char* kind);         since then; "object": user objects that live
//
// `text` is a list with commas between, "" for none. It replaces what was asked for before; a device that was lost is back, as in
// a new process, and counts begin anew. One that hung has given back all that it held: no session of it may be open.
//
//   driver=12040    what the driver says that it supports; 0: there is no driver
//   devices=0       how many there are, four otherwise
//   init=3          asking for their number is this error
//   capability=80   of the device; the code in the library is for 9.0
//   code=2          code that is compiled at run time is refused with this error, 801 (not supported) otherwise
//   KIND@2          the third call of this kind is refused, once; KIND@2+: and all behind it
//   ecc@17          the eighteenth operation that a stream or a graph runs is an uncorrectable error of memory
//   crash@17        it is a kernel that fails
//   lost@40         the forty-first call of all finds the device gone
//   hang@17         it never ends, nor begins what waits for it; a call that would wait for ever then aborts the program
//
// Kinds are alloc (of device memory), hostalloc, pin, stream, event, instantiate (of a graph), graph (its launch), launch (of a
// kernel or a host function), copy and library (code that is loaded). After ecc, crash and lost every call that reaches the
// device returns that error, and what streams and graphs have left to do is dropped. "call" and "operation" can be counted, too;
// "bytes" are the most of device memory that allocations have had at once, "ahead" the most operations that a stream had before it,
// "stray" the calls on an event, a graph or memory by a thread that has another device set: where CUDA takes them it makes a context there.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FAULTS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FAULTS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace millrace::cuda::fake {

// What a call of this kind returns; cudaSuccess: it goes on. nullptr: of no kind that is refused by itself. Any thread.
cudaError_t Enter(const char* kind = nullptr);
// What becomes of the next operation of a stream or a graph.
enum class Turn { kRuns, kIsDropped, kNeverEnds };
Turn NextTurn();
// An operation never ended.
bool Hangs();
// Aborts where the device hangs: a call that CUDA does not return from before the device has done what it has.
void Block(const char* call);
// The error of the device that was lost; cudaSuccess where none was.
cudaError_t LostWith();
// The number given by NAME=, or `otherwise`.
int Setting(const char* name, int otherwise);
// Of `kind`, so far.
int64_t Count(const char* kind);
// The count of `kind` is at least so much.
void CountMost(const char* kind, int64_t count);
// A call on what is of `device`.
void CountStray(int device);
// Another one after each millrace_fake_fault.
int64_t Process();
// User objects that are there: +1, -1.
void CountObject(int change);

}  // namespace millrace::cuda::fake

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_FAULTS_H_
