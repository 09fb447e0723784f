// What a queue keeps, in a block of bytes that is all zero in the beginning: a ring of elements, each its components one behind the other.
// Checkpoints hold such blocks.
//
//   bytes   [QueueHeader][elements, as many as there is room for]
//
// A queue that shuffles has its elements in front, in the order that TensorFlow has them in; one that goes by priority, too, as a heap: the
// first component is the priority, and the least one leaves first.
#ifndef MILLRACE_SRC_GRAPH_QUEUE_LAYOUT_H_
#define MILLRACE_SRC_GRAPH_QUEUE_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "millrace/attr.h"
#include "millrace/types.h"

namespace millrace {

struct QueueHeader {
  int64_t first = 0;  // where the first element is; of a queue that shuffles: how many random numbers it drew
  int64_t count = 0;  // how many elements there are; once it is closed, ~ of it
};

struct QueueLayout {
  std::vector<DataType> dtypes;  // attribute "component_types"
  std::vector<Shape> shapes;     // "component_shapes": fully known
  bool shuffles = false;         // "shuffles"
  bool by_priority = false;      // "by_priority"
  int64_t stay = 0;              // "min_after_dequeue": so many elements stay, if it shuffles and is not closed
  int64_t seed = 0, seed2 = 0;
  int64_t capacity = -1;  // "capacity": how many elements TensorFlow has room for; -1 for any number

  static QueueLayout Of(const AttrMap& attrs) {
    return {attrs.GetOr<std::vector<DataType>>("component_types", {}),
            attrs.GetOr<std::vector<Shape>>("component_shapes", {}),
            attrs.GetOr<bool>("shuffles", false),
            attrs.GetOr<bool>("by_priority", false),
            attrs.GetOr<int64_t>("min_after_dequeue", 0),
            attrs.GetOr<int64_t>("seed", 0),
            attrs.GetOr<int64_t>("seed2", 0),
            attrs.GetOr<int64_t>("capacity", -1)};
  }
  void WriteTo(AttrMap& attrs) const {
    attrs.Set("component_types", dtypes);
    attrs.Set("component_shapes", shapes);
    attrs.Set("shuffles", shuffles);
    attrs.Set("by_priority", by_priority);
    attrs.Set("min_after_dequeue", stay);
    attrs.Set("seed", seed);
    attrs.Set("seed2", seed2);
    attrs.Set("capacity", capacity);
  }

  // Whether all components have known sizes, and none is larger than any memory.
  bool sized() const {
    constexpr int64_t kMost = int64_t{1} << 48;
    bool all = !dtypes.empty() && shapes.size() == dtypes.size();
    for (size_t i = 0; all && i < dtypes.size(); ++i) {
      all = shapes[i].fully_known() && DataTypeSize(dtypes[i]) > 0 && shapes[i].num_elements() <= kMost / DataTypeSize(dtypes[i]);
    }
    return all;
  }
  // The first component of such a queue is a single int64.
  bool has_priorities() const { return !dtypes.empty() && dtypes[0] == DataType::kInt64 && !shapes.empty() && shapes[0] == Shape(); }
  bool in_order() const { return !shuffles && !by_priority; }
  // Single whole numbers that leave in their order: tokens.
  bool of_tokens() const { return in_order() && dtypes.size() == 1 && IsInteger(dtypes[0]) && shapes.size() == 1 && shapes[0] == Shape(); }

  // These require that it is sized.
  int64_t component_bytes(size_t i) const { return shapes[i].num_elements() * DataTypeSize(dtypes[i]); }
  // One at least, so that elements of nothing count.
  int64_t element_bytes() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < dtypes.size(); ++i) bytes += component_bytes(i);
    return std::max<int64_t>(bytes, 1);
  }
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_QUEUE_LAYOUT_H_
