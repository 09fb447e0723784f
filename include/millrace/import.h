// Files in and out: TensorFlow graphs, NumPy arrays.
//
// Every function reads or writes files on the caller's thread and may be called from any. Errors are one line and
// name the file, what is wrong and what was expected. Output files are written under a temporary name and renamed:
// they are whole or not there.
#ifndef MILLRACE_IMPORT_H_
#define MILLRACE_IMPORT_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/tensor.h"

namespace millrace {

// A GraphDef or MetaGraphDef, binary or text, told apart by content. At most 2 GiB, protobuf's limit.
absl::StatusOr<Graph> LoadGraph(const std::string& path);

// Writes a GraphDef that TensorFlow reads: text when the path ends in .pbtxt, else binary; Graphviz's dot, for a
// picture, when it ends in .dot. What the passes decided is in attributes: _partition, _device (-1: host memory),
// _reason, _output_shapes.
absl::Status SaveGraph(const Graph& graph, const std::string& path);

// Arrays by name of an .npz (members without ".npy"), or the one array of an .npy, under the file's name. Plain
// numbers, bools, and strings; Fortran order and either byte order.
absl::StatusOr<std::map<std::string, Tensor>> LoadArrays(const std::string& path);
// Writes an .npz that numpy.load reads. bfloat16 is written as NumPy's 2-byte void, the way ml_dtypes does.
absl::Status SaveArrays(const std::map<std::string, Tensor>& arrays, const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_IMPORT_H_
