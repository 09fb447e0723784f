// What a fuzzer runs of the importers: each takes any bytes and aborts (CHECK) when an accepted input is not what the
// importer promises. Refusing is right; crashing, hanging and sanitizer reports are not.
#ifndef MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_
#define MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_

#include <string_view>

namespace millrace {

// GraphDef and MetaGraphDef, binary and text: an accepted graph is verified, and the same when written and read.
void FuzzGraphFile(std::string_view bytes);
// The text form of a graph: printing what was parsed and parsing it again changes nothing.
void FuzzGraphText(std::string_view bytes);
// .npz and .npy.
void FuzzArrays(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_
