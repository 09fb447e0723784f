// What a tensor of the graph with loops stands for while the loops are taken apart (unroll_loops): a tensor of the graph
// that is being made, a row of one, a list of such, an array or stack, an Optional, or one of two of these.
#ifndef MILLRACE_PASSES_UNROLL_VALUE_H_
#define MILLRACE_PASSES_UNROLL_VALUE_H_

#include <memory>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "passes/control_flow/guard_effects.h"

namespace millrace {

class ListValue;
struct Either;
// Nodes to wait for, in place of a node that is not made.
using Waits = std::shared_ptr<const std::vector<NodeId>>;
Waits Together(const Waits& a, const Waits& b);
Waits ToWaits(std::vector<NodeId> nodes);  // null for none
// Adds what is valid and not there yet.
void AddOnce(NodeId id, std::vector<NodeId>& nodes);
void AddAll(const Waits& waits, std::vector<NodeId>& nodes);

struct Value {
  enum class Kind : uint8_t {
    kMissing,  // not set, in a list
    kTensor,   // `ref`
    kRow,      // row `index` of `ref`
    kList,     // `list`
    kObject,   // array or stack number `index`; on side `side` of a Switch by `ref`, where that is valid
    kOptional,  // what it holds are the items of `list`; nullptr: nothing
    kEither,    // `either`
  };
  Kind kind = Kind::kMissing;
  bool dead = false;  // of a branch that is known not to be taken
  OutputRef ref;
  int64_t index = 0;
  int32_t side = 0;
  std::shared_ptr<const ListValue> list;
  std::shared_ptr<Either> either;
  Waits waits;

  bool missing() const { return kind == Kind::kMissing; }
  static Value Of(OutputRef ref) {
    Value value;
    value.kind = Kind::kTensor;
    value.ref = ref;
    return value;
  }
  static Value Row(OutputRef of, int64_t index) {
    Value value = Of(of);
    value.kind = Kind::kRow;
    value.index = index;
    return value;
  }
  static Value Object(int64_t index) {
    Value value;
    value.kind = Kind::kObject;
    value.index = index;
    return value;
  }
  static Value Dead() {
    Value value;
    value.dead = true;
    return value;
  }
};

// The same tensor, by name.
bool SameValue(const Value& a, const Value& b);

// Values by index. Copies share what they have in common, in blocks of chunks: a loop changes one of many in every turn.
class Items {
 public:
  int64_t size() const { return size_; }
  const Value& at(int64_t i) const;
  void Set(int64_t i, Value value);
  void Resize(int64_t size);
  void PushBack(Value value) {
    Resize(size_ + 1);
    Set(size_ - 1, std::move(value));
  }
  // Whether the kChunk values from `first` on are those of `other`, or missing here.
  bool SharesChunk(int64_t first, const Items& other) const { return ChunkOf(first) == other.ChunkOf(first); }
  bool LacksChunk(int64_t first) const { return ChunkOf(first) == nullptr; }
  static constexpr int64_t kChunk = 32;

 private:
  using Chunk = std::vector<Value>;
  using Block = std::vector<std::shared_ptr<Chunk>>;
  static constexpr int64_t kBlock = 64 * kChunk;
  const Chunk* ChunkOf(int64_t i) const {
    const std::shared_ptr<Block>& block = blocks_[i / kBlock];
    return block == nullptr ? nullptr : (*block)[i % kBlock / kChunk].get();
  }
  std::shared_ptr<Chunk>& OwnChunk(int64_t i);  // in a block that no copy shares
  int64_t size_ = 0;
  std::vector<std::shared_ptr<Block>> blocks_;  // nullptr, there and in blocks: all missing
};

// A TensorList, or variants (ragged_variants.cc, sparse_variants.cc).
class ListValue {
 public:
  DataType dtype = DataType::kInvalid;
  Shape element_shape = Shape::UnknownRank();
  bool ragged = false;        // rows of a ragged tensor
  bool ragged_batch = false;  // no TensorList but a tensor of ragged ones as variants
  bool is_map = false;        // a TensorMap: its keys, each before its value (map_ops.cc)
  Items items;
  Guard guard;  // of the Switches that the list went through whose ways are known only when running
};

// What a conditional gives that is no tensor: one value where the predicate holds, another one where it does not. It is known only
// when running which, but a Switch by the same predicate tells them apart again, as that of the conditional's gradient does.
struct Either {
  OutputRef predicate;
  Value other, taken;
  Value merged;  // what became of it where both were needed as one; missing until then
};

inline Value EitherOf(OutputRef predicate, Value other, Value taken) {
  Value value;
  value.kind = Value::Kind::kEither;
  value.either = std::make_shared<Either>(Either{predicate, std::move(other), std::move(taken), Value()});
  return value;
}

inline Value ListOf(ListValue list) {
  Value value;
  value.kind = Value::Kind::kList;
  value.list = std::make_shared<const ListValue>(std::move(list));
  return value;
}

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_VALUE_H_
