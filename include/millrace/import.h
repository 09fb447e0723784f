// Files in and out: TensorFlow graphs, SavedModels and checkpoints, NumPy arrays.
//
// Every function reads or writes files on the caller's thread and may be called from any. Errors are one line and
// name the file, what is wrong and what was expected. Output files are written under a temporary name and renamed:
// they are whole or not there.
#ifndef MILLRACE_IMPORT_H_
#define MILLRACE_IMPORT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/tensor.h"

namespace millrace {

// A GraphDef or MetaGraphDef, binary or text, told apart by content. At most 2 GiB, protobuf's limit.
absl::StatusOr<Graph> LoadGraph(const std::string& path);

// Writes a GraphDef that TensorFlow reads: text when the path ends in .pbtxt, else binary; Graphviz's dot, for a
// picture, when it ends in .dot. What the passes decided is in attributes: _partition, _device (-1: host memory),
// _reason, _output_shapes. A graph that they rewrote (Session::RewrittenGraph) is for reading, not for running: it has
// ops of theirs (_Feed, _Fetch, SwapOut, SwapIn, Send, Recv), which TensorFlow does not know and sessions refuse.
absl::Status SaveGraph(const Graph& graph, const std::string& path);

// Arrays by name of an .npz (members without ".npy"), or the one array of an .npy, under the file's name. Plain
// numbers, bools, and strings; Fortran order and either byte order.
absl::StatusOr<std::map<std::string, Tensor>> LoadArrays(const std::string& path);
// Writes an .npz that numpy.load reads. bfloat16 is written as NumPy's 2-byte void, the way ml_dtypes does, types of float8 as its
// 1-byte void, which does not tell which, so LoadArrays does not take them.
absl::Status SaveArrays(const std::map<std::string, Tensor>& arrays, const std::string& path);

// Every tensor of a TensorFlow checkpoint by its key, checksums compared. PREFIX.index and PREFIX.data-… are read, or, of format V1, the file
// PREFIX or PREFIX-00000-of-0000N and its kin.
absl::StatusOr<std::map<std::string, Tensor>> ReadCheckpoint(const std::string& prefix);
// Writes a checkpoint that TensorFlow reads. At any moment the files of `prefix` are the former checkpoint or the new
// one, whole. The data file may be named -00000-of-00001 or -00000-of-00002, in turn.
absl::Status WriteCheckpoint(const std::string& prefix, const std::map<std::string, Tensor>& tensors);

// A box of a tensor: `shape` elements from `begin` on of one of shape `whole`. Checkpoints hold the parts of a partitioned
// variable so, all under the name of the whole.
struct TensorSlice {
  Shape whole;
  Shape::Dims begin;
  Shape shape;
};

// The same, tensor by tensor, for more than memory holds. One thread at a time.
class TensorReader {
 public:
  virtual ~TensorReader() = default;
  virtual const std::vector<std::string>& names() const = 0;  // sorted
  // NotFound: there is no such tensor; otherwise the file's errors, found when the tensor is read.
  virtual absl::StatusOr<Tensor> Read(const std::string& name) = 0;
  // The slice of that tensor, in whatever slices or whole the file has it. InvalidArgument when it does not lie within the tensor or the
  // file's slices overlap; Unimplemented where there are no slices.
  virtual absl::StatusOr<Tensor> ReadSlice(const std::string& name, const TensorSlice& /*slice*/) {
    return absl::UnimplementedError("no slices of tensors, asked for one of " + name);
  }
};
absl::StatusOr<std::unique_ptr<TensorReader>> OpenCheckpointReader(const std::string& prefix);  // ReadCheckpoint

// The same files, tensor by tensor. One thread at a time. Destroyed before Finish, or after an
// error, it leaves the former files as they were.
class TensorWriter {
 public:
  virtual ~TensorWriter() = default;
  // Every name once, in any order. The tensor may go when this returns.
  virtual absl::Status Add(const std::string& name, const Tensor& tensor) = 0;
  // A slice of tensor `name`, which is not added otherwise. InvalidArgument when it does not lie within the tensor or has elements that
  // another slice has; Unimplemented where there are no slices.
  virtual absl::Status AddSlice(const std::string& name, const TensorSlice& /*slice*/, const Tensor& /*part*/) {
    return absl::UnimplementedError("no slices of tensors, given one of " + name);
  }
  // The files appear, whole. Nothing may be added afterwards.
  virtual absl::Status Finish() = 0;
};
absl::StatusOr<std::unique_ptr<TensorWriter>> OpenArrays(const std::string& path);        // SaveArrays
absl::StatusOr<std::unique_ptr<TensorWriter>> OpenCheckpoint(const std::string& prefix);  // WriteCheckpoint

// Under which keys a checkpoint holds what a mutable table has.
struct SavedTable {
  std::string keys, values;
};

// What the checkpoints of a saver call the variables and the mutable tables of its graph, each by its shared_name or node name.
struct CheckpointNames {
  std::map<std::string, std::string> variables;
  std::map<std::string, SavedTable> tables;
};
// LoadGraph, with the names of the saver that a MetaGraphDef tells of; in other files, and where the graph lacks that saver, those of
// tables alone, as whatever restores them has them.
struct MetaGraph {
  MetaGraph(Graph of) : graph(std::move(of)) {}  // NOLINT(google-explicit-constructor): a graph is one without a saver
  Graph graph;
  CheckpointNames names;
};
absl::StatusOr<MetaGraph> LoadMetaGraph(const std::string& path);

// A function of a SavedModel that can be run: keys as the model's author named them -> tensors of the graph. A sparse tensor KEY is
// three: KEY/indices, KEY/values and KEY/dense_shape.
struct SavedSignature {
  struct Info {
    std::string tensor;  // "serve_x:0"
    TensorType type;
  };
  std::map<std::string, Info> inputs;   // to feed
  std::map<std::string, Info> outputs;  // to fetch; without outputs, run the targets
  std::vector<std::string> targets;     // operations among the outputs: run for their effect
  std::map<std::string, absl::Status> unread_inputs, unread_outputs;  // that are no tensors, and what they are instead
};

// Variables that a model's functions take: which of its objects they are, and its objects as TensorFlow writes them into checkpoints
// (TrackableObjectGraph), among which those of a checkpoint are found.
struct BoundVariables {
  std::map<std::string, int32_t> objects;  // by variable name
  std::string object_graph;
};

struct SavedModel {
  Graph graph;
  std::map<std::string, SavedSignature> signatures;
  std::map<std::string, absl::Status> unread_signatures;  // why these are not among them: they name what the graph does not have
  // The model's checkpoint, nullptr where it has none, and under which key it holds each of the graph's variables, by variable name
  // (shared_name or node name). WriteCheckpoint under these keys makes a checkpoint that TensorFlow restores into the model. Where the graph
  // has several variables that functions take or the saver restores for one key, they are one, and of one name here.
  std::shared_ptr<TensorReader> checkpoint;
  std::map<std::string, std::string> checkpoint_keys;
  std::map<std::string, SavedTable> checkpoint_tables;  // the same of mutable tables
  BoundVariables bound;
  // Other entries of the checkpoint that its reader needs (TensorFlow's object graph), by key.
  std::map<std::string, Tensor> checkpoint_extras;
  // What of the model's own initialisation is to be run once the variables have their values, as TensorFlow's loaders do: what uses variables
  // or mutable tables.
  std::vector<std::string> init_targets;
};

// The graph of `dir`/saved_model.pb (or .pbtxt) that has exactly these tags, its variables from `dir`/variables. Nodes that name
// the model's assets become constants, their paths in `dir`/assets.
absl::StatusOr<SavedModel> LoadSavedModel(const std::string& dir, const std::vector<std::string>& tags = {"serve"});

// Adds to the model's keys those that the checkpoint at `prefix` has of variables that functions take and the saver does not restore.
// LoadSavedModel does so with the model's own; another is needed where it has none.
absl::Status AddBoundKeys(const std::string& prefix, TensorReader& checkpoint, SavedModel* model);

}  // namespace millrace

#endif  // MILLRACE_IMPORT_H_
