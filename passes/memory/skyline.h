// The skyline of pack_blocks.h: one set of blocks, packed under as many orders of preference as one likes.
#ifndef MILLRACE_PASSES_MEMORY_SKYLINE_H_
#define MILLRACE_PASSES_MEMORY_SKYLINE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "passes/memory/pack_blocks.h"

namespace millrace {

// Keeps a reference to the blocks. What does not depend on the keys is made once: a k-d tree over the blocks' first and
// last positions, whose nodes know the bounds of what is not placed yet below them and the best of it.
class SkylinePacker {
 public:
  // Positions lie in [0, 2^31 - 1).
  // Blocks come to lie above `floor`.
  explicit SkylinePacker(const std::vector<MemoryBlock>& blocks, const std::vector<PlacedBlock>& floor = {});

  // Blocks of greater keys are preferred, of equal ones the first. Stops as soon as the heap is known to reach
  // `give_up_bytes`: then heap_bytes is at least that, and offsets are not complete.
  Packing Pack(const std::vector<double>& keys, int64_t give_up_bytes = std::numeric_limits<int64_t>::max());

 private:
  static constexpr int32_t kLeafSize = 8;
  static constexpr int32_t kPlaced = std::numeric_limits<int32_t>::max();  // the rank of what is placed, or not there
  struct TreeNode {
    int32_t min_first = kPlaced, max_first = -1, min_last = kPlaced, max_last = -1;
    int32_t best = kPlaced;  // rank
    bool operator==(const TreeNode&) const = default;
  };
  struct Item {
    int32_t first = 0, last = 0;
    int32_t rank = kPlaced;
  };
  // A part of the upper edge of what is placed, of equal height. Neighbours differ in height.
  struct Piece {
    int32_t begin = 0, end = 0;
    int32_t previous = -1, next = -1;
    int64_t height = -1;  // -1: joined to another
  };
  // The pieces by height, then begin. Of pieces that are no more, or are other ones by now, entries may be left.
  struct Valley {
    int64_t height = 0;
    int32_t begin = 0;
    int32_t piece = 0;
    bool operator>(const Valley& other) const {
      return height != other.height ? height > other.height : begin > other.begin;
    }
  };

  // The upper edge of the floor, as pieces.
  void FindEdge(const std::vector<PlacedBlock>& floor);
  void Build(int32_t node, int32_t begin, int32_t end, bool by_first);
  void RankBy(const std::vector<double>& keys);
  TreeNode SumOfLeaf(int32_t node) const;
  TreeNode SumOfChildren(int32_t node) const;
  // The best rank of what lies within [first_, last_], into found_.
  void Search(int32_t node);
  void Remove(int32_t block);

  // The lowest piece, the leftmost of equals.
  int32_t TakeLowest();
  void PushValley(int32_t piece);
  int32_t AddPiece(const Piece& piece);
  // Fills the piece up to its lower neighbour, which it joins.
  void Fill(int32_t piece);
  // Puts something of `bytes` over [begin, end) on the piece.
  void Place(int32_t piece, int32_t begin, int32_t end, int64_t bytes);
  void JoinNext(int32_t piece);

  const std::vector<MemoryBlock>& blocks_;
  int32_t end_ = 1;     // of all positions
  std::vector<Piece> edge_;  // before anything is placed
  int32_t leaves_ = 1;  // a power of two; nodes [leaves_, 2 * leaves_) are leaves
  std::vector<int32_t> block_of_item_;
  std::vector<int32_t> item_of_block_;
  std::vector<int32_t> leaf_of_block_;
  std::vector<int32_t> leaf_begin_;  // into items_
  // Of the packing under way.
  std::vector<Item> items_;
  std::vector<TreeNode> nodes_;  // the children of i are 2i and 2i + 1, the root is 1
  std::vector<int32_t> block_of_rank_;
  std::vector<Piece> pieces_;
  std::vector<int32_t> free_pieces_;
  std::vector<Valley> valleys_;  // a heap, but for
  std::vector<int32_t> split_;   // what was left of the lowest piece, the leftmost last: still the lowest
  int32_t first_ = 0, last_ = 0, found_ = kPlaced;
  int64_t searched_ = 0;         // nodes, in all packings
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_SKYLINE_H_
