// What a fuzzer runs of the importers: each takes any bytes and aborts (CHECK) when an accepted input is not what the
// importer promises. Returns whether the input was accepted. Refusing is right; crashing, hanging and sanitizer reports are not.
#ifndef MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_
#define MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_

#include <string_view>

namespace millrace {

// GraphDef and MetaGraphDef, binary and text: an accepted graph is verified, and the same when written and read.
bool FuzzGraphFile(std::string_view bytes);
// The text form of a graph: printing what was parsed and parsing it again changes nothing.
bool FuzzGraphText(std::string_view bytes);
// .npz and .npy.
bool FuzzArrays(std::string_view bytes);

// saved_model.pb or .pbtxt: an accepted model has a verified graph, and signatures that name its tensors.
bool FuzzSavedModel(std::string_view bytes);
// ONNX models: an accepted one has a verified graph, and names that are in it.
bool FuzzOnnx(std::string_view bytes);
// The index of a checkpoint.
bool FuzzCheckpointIndex(std::string_view bytes);
// One entry of an index and its data file: the entry's bytes, preceded by their number (one byte), then the data.
bool FuzzCheckpointEntry(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_IMPORT_TARGETS_H_
