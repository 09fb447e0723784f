// TensorLists and, for TensorFlow 1, TensorArrays and stacks, while the loops that fill them are taken apart: which tensor
// is where is known by then, so a read is an edge and only what stacks or concatenates makes a node.
#ifndef MILLRACE_PASSES_UNROLL_LISTS_H_
#define MILLRACE_PASSES_UNROLL_LISTS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/unroll/guards.h"
#include "passes/unroll/straight_graph.h"
#include "passes/unroll/value.h"

namespace millrace {

// A node of the graph with loops, with what its inputs stand for.
struct NodeCall {
  const Node& node;
  std::vector<Value> inputs;
  StraightGraph::Origin origin;
};

// Errors with the node's name, op and `message`.
absl::Status CallError(const NodeCall& call, const std::string& message);
// Whether a While has one condition and as many results as variables, and whether its variables keep their types from turn to turn:
// a loop that another type does not end would run long before something else refuses it. `arguments`: how many its functions take.
absl::Status CheckWhile(const NodeCall& call, size_t arguments, size_t conditions, size_t results);
absl::Status CheckTurn(const StraightGraph& out, const NodeCall& call, absl::Span<const Value> before, absl::Span<const Value> after);
// A fetch of what no run makes.
absl::Status NothingToFetch(const std::string& tensor);
// A number or numbers that must be known when planning. The error says what they depend on.
absl::StatusOr<std::vector<int64_t>> KnownNumbers(StraightGraph& out, const NodeCall& call, size_t input, const char* what);
// The same of any tensor.
absl::StatusOr<Tensor> KnownTensor(StraightGraph& out, const NodeCall& call, size_t input, const char* what);
// The error itself, with the feeds that would help (needed_feeds.h): a search through all that comes before.
absl::Status NotKnown(const StraightGraph& out, const Node& node, OutputRef ref, const std::string& what);
// The same for a question, or OK where feeds do not settle it and it is not refused: each turn comes after all those before it.
absl::Status NotKnownUnlessAsked(StraightGraph& out, const Node& node, const std::string& question, OutputRef ref, const std::string& what);

// The answer to a question that `name` names, where feeds alone do not settle it (unroll/questions.h).
absl::StatusOr<Tensor> AskFor(StraightGraph& out, const Node& node, const std::string& name, OutputRef ref, const Tensor& guess,
                              const std::string& what);

// The tensor that a value stands for.
absl::StatusOr<OutputRef> TensorOf(StraightGraph& out, const NodeCall& call, const Value& value);
// The sum of two items; a missing one counts as nothing.
absl::StatusOr<Value> AddItems(StraightGraph& out, const NodeCall& call, const Value& a, const Value& b);

// The items of a list or array, one by one. OutOfRange for more than there may be nodes if some were never set: these took no memory so far.
absl::Status CheckNumber(const StraightGraph& out, const NodeCall& call, const Items& items);
absl::StatusOr<std::vector<Value>> AllItems(const StraightGraph& out, const NodeCall& call, const Items& items);
// Whether a list or array may have so many. They may follow from values that a file gives.
absl::Status CheckMostItems(const NodeCall& call, int64_t size);
// Whether the lengths into which rows are split are those of all of them, as far as it is known how many there are.
absl::Status CheckLengths(const NodeCall& call, absl::Span<const int64_t> lengths, std::optional<int64_t> rows);

// Rows as one tensor: itself again where they are all the rows of one.
absl::StatusOr<OutputRef> PackItems(StraightGraph& out, const NodeCall& call, std::vector<Value> items, DataType dtype,
                                    Shape element_shape);
// All items one behind the other along dimension 0, and how many rows each has (int64).
absl::StatusOr<std::pair<OutputRef, Tensor>> ConcatItems(StraightGraph& out, const NodeCall& call, const std::vector<Value>& items,
                                                         DataType dtype, Shape element_shape);
// A missing item: zeros of the shape.
absl::StatusOr<Value> MissingItem(StraightGraph& out, const NodeCall& call, DataType dtype, const Shape& shape);

// Ragged tensors as variants, each row an item of a list, which is how loops over rows take them (ragged_variants.cc).
absl::StatusOr<std::vector<Value>> RunRaggedVariantOp(StraightGraph& out, const NodeCall& call);
// Whether the items are rows that are ragged themselves, as far as the first one tells.
bool HoldsRaggedRows(const Items& items);

// TensorMaps, lists of pairs (map_ops.cc).
absl::StatusOr<std::vector<Value>> RunMapOp(StraightGraph& out, const NodeCall& call);
// Values of one key are added.
absl::StatusOr<ListValue> AddMaps(StraightGraph& out, const NodeCall& call, const ListValue& a, const ListValue& b);
// Of two maps of as many: in one order.
bool HaveSameKeys(const StraightGraph& out, const ListValue& a, const ListValue& b);
bool IsKey(const ListValue& list, int64_t item);

// Sparse tensors as variants, each a list of indices, values and shape (sparse_variants.cc).
absl::StatusOr<std::vector<Value>> RunSparseVariantOp(StraightGraph& out, const NodeCall& call);
// Whether the list is a batch of them.
bool IsSparseBatch(const ListValue& list);

// Whether input `input` becomes an item of a list as it is.
bool IsKeptItem(const Node& node, size_t input);

// Outputs of a list op.
absl::StatusOr<std::vector<Value>> RunListOp(StraightGraph& out, const NodeCall& call);
// Of an op of any kind that takes lists: Identity, AddN, ZerosLike. Unimplemented for others.
absl::StatusOr<std::vector<Value>> RunOnLists(StraightGraph& out, const NodeCall& call);
// The sum of two Optionals, or of one of two: both hold values, or neither does.
absl::StatusOr<Value> AddOptionals(StraightGraph& out, const NodeCall& call, const Value& a, const Value& b);
// The list whose items are those of `taken` where the literal holds, else those of `other`; both are lists.
absl::StatusOr<Value> MergeLists(StraightGraph& out, const NodeCall& call, const Literal& literal, const Value& other,
                                 const Value& taken);

// Arrays and stacks by number (Value::Kind::kObject): they change where they are.
class ArrayStore {
 public:
  ArrayStore(StraightGraph& out, Guards& guards) : out_(out), guards_(guards) {}
  absl::StatusOr<std::vector<Value>> Run(const NodeCall& call);

 private:
  struct Array {
    DataType dtype = DataType::kInvalid;
    Shape element_shape = Shape::UnknownRank();
    bool grows = false;
    int64_t gradient_of = -1;
    Guard guard;  // where it is made, and nothing else takes anything of it
    Items items;
    std::map<std::string, int64_t> gradients;  // by source
  };

  absl::StatusOr<Array*> ArrayOf(const NodeCall& call);
  absl::StatusOr<Value> Read(const NodeCall& call, const Array& array, int64_t index);
  Guard BranchOf(const NodeCall& call, const Array& array);
  // `branch`: holds where it is written.
  absl::Status Write(const NodeCall& call, Array& array, int64_t index, Value value, const Guard& branch);
  absl::StatusOr<Value> WrittenOnSides(const NodeCall& call, const Array& array, const Value& there, Value value, Guard::const_iterator at,
                                       const Guard& branches);
  absl::StatusOr<std::vector<Value>> RunGradient(const NodeCall& call);
  absl::StatusOr<std::vector<Value>> RunRead(const NodeCall& call, Array& array);
  absl::Status ScatterList(const NodeCall& call, Array& array, const ListValue& list, const Guard& branch);
  absl::StatusOr<Value> RunWrite(const NodeCall& call, Array& array);
  absl::Status CheckWritten(const NodeCall& call, const Array& array, const Value& value) const;
  absl::Status CheckRows(const NodeCall& call, const Array& array, OutputRef rows, absl::Span<const int64_t> numbers) const;
  absl::StatusOr<Value> Flow();

  StraightGraph& out_;
  Guards& guards_;
  std::vector<Array> arrays_;  // and stacks
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_LISTS_H_
