#include "passes/memory/skyline.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "glog/logging.h"
#include "passes/access/radix_sort.h"

namespace millrace {
namespace {
// Units of WorkBudget: of a block that is ranked, of one that is placed, and of a node of the tree that is searched.
constexpr int64_t kBlockWork = 20, kPlacedWork = 200, kSearchWork = 8;
}  // namespace

SkylinePacker::SkylinePacker(const std::vector<MemoryBlock>& blocks, const std::vector<PlacedBlock>& floor)
    : blocks_(blocks), block_of_item_(blocks.size()), item_of_block_(blocks.size()), leaf_of_block_(blocks.size()) {
  int64_t end = 1;
  for (const MemoryBlock& block : blocks) end = std::max(end, block.last + 1);
  for (const PlacedBlock& placed : floor) end = std::max(end, placed.block.last + 1);
  CHECK_LT(end, kPlaced);
  end_ = static_cast<int32_t>(end);
  std::iota(block_of_item_.begin(), block_of_item_.end(), 0);
  while (static_cast<size_t>(leaves_) * kLeafSize < blocks.size()) leaves_ *= 2;
  leaf_begin_.assign(leaves_ + 1, static_cast<int32_t>(blocks.size()));
  Build(1, 0, static_cast<int32_t>(blocks.size()), true);
  items_.resize(blocks.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    const MemoryBlock& block = blocks[block_of_item_[i]];
    item_of_block_[block_of_item_[i]] = static_cast<int32_t>(i);
    items_[i] = {static_cast<int32_t>(block.first), static_cast<int32_t>(block.last), kPlaced};
  }
  nodes_.resize(2 * leaves_);
  FindEdge(floor);
}

void SkylinePacker::FindEdge(const std::vector<PlacedBlock>& floor) {
  std::map<int32_t, std::pair<std::vector<int64_t>, std::vector<int64_t>>> changes;  // tops that begin and end there
  for (const PlacedBlock& placed : floor) {
    const int64_t top = placed.offset + placed.block.bytes;
    changes[static_cast<int32_t>(placed.block.first)].first.push_back(top);
    changes[static_cast<int32_t>(placed.block.last) + 1].second.push_back(top);
  }
  std::multiset<int64_t> tops{0};
  edge_.assign(1, {0, end_, -1, -1, 0});
  for (const auto& [position, change] : changes) {
    tops.insert(change.first.begin(), change.first.end());
    for (int64_t top : change.second) tops.erase(tops.find(top));
    const int64_t height = *tops.rbegin();
    Piece& last = edge_.back();
    if (position == end_ || height == last.height) continue;
    if (position == last.begin) {
      last.height = height;
      continue;
    }
    const auto at = static_cast<int32_t>(edge_.size());
    last.end = position;
    last.next = at;
    edge_.push_back({position, end_, at - 1, -1, height});
  }
}

void SkylinePacker::Build(int32_t node, int32_t begin, int32_t end, bool by_first) {
  if (node >= leaves_) {
    leaf_begin_[node - leaves_] = begin;
    for (int32_t i = begin; i < end; ++i) leaf_of_block_[block_of_item_[i]] = node;
    return;
  }
  const int32_t middle = begin + (end - begin) / 2;
  const auto items = block_of_item_.begin();
  std::nth_element(items + begin, items + middle, items + end, [&](int32_t a, int32_t b) {
    const int64_t left = by_first ? blocks_[a].first : blocks_[a].last;
    const int64_t right = by_first ? blocks_[b].first : blocks_[b].last;
    return left != right ? left < right : a < b;
  });
  Build(2 * node, begin, middle, !by_first);
  Build(2 * node + 1, middle, end, !by_first);
}

void SkylinePacker::RankBy(const std::vector<double>& keys) {
  std::vector<Keyed> sorted(keys.size());
  for (size_t b = 0; b < keys.size(); ++b) sorted[b] = {KeyOf(-keys[b]), static_cast<int32_t>(b)};
  SortByKey(sorted);
  block_of_rank_.resize(keys.size());
  for (size_t rank = 0; rank < sorted.size(); ++rank) {
    block_of_rank_[rank] = sorted[rank].index;
    items_[item_of_block_[sorted[rank].index]].rank = static_cast<int32_t>(rank);
  }
  for (int32_t node = 2 * leaves_ - 1; node > 0; --node) {
    nodes_[node] = node >= leaves_ ? SumOfLeaf(node) : SumOfChildren(node);
  }
}

SkylinePacker::TreeNode SkylinePacker::SumOfLeaf(int32_t node) const {
  TreeNode sum;
  for (int32_t i = leaf_begin_[node - leaves_]; i < leaf_begin_[node - leaves_ + 1]; ++i) {
    const Item& item = items_[i];
    if (item.rank == kPlaced) continue;
    sum.min_first = std::min(sum.min_first, item.first);
    sum.max_first = std::max(sum.max_first, item.first);
    sum.min_last = std::min(sum.min_last, item.last);
    sum.max_last = std::max(sum.max_last, item.last);
    sum.best = std::min(sum.best, item.rank);
  }
  return sum;
}

SkylinePacker::TreeNode SkylinePacker::SumOfChildren(int32_t node) const {
  const TreeNode& a = nodes_[2 * node];
  const TreeNode& b = nodes_[2 * node + 1];
  return {std::min(a.min_first, b.min_first), std::max(a.max_first, b.max_first), std::min(a.min_last, b.min_last),
          std::max(a.max_last, b.max_last), std::min(a.best, b.best)};
}

void SkylinePacker::Search(int32_t node) {
  ++searched_;
  if (node >= leaves_) {
    for (int32_t i = leaf_begin_[node - leaves_]; i < leaf_begin_[node - leaves_ + 1]; ++i) {
      const Item& item = items_[i];
      if (item.rank < found_ && item.first >= first_ && item.last <= last_) found_ = item.rank;
    }
    return;
  }
  int32_t child = 2 * node + (nodes_[2 * node].best < nodes_[2 * node + 1].best ? 0 : 1);
  for (int k = 0; k < 2; ++k, child ^= 1) {
    const TreeNode& below = nodes_[child];
    if (below.best >= found_ || below.max_first < first_ || below.min_last > last_) continue;
    if (below.min_first >= first_ && below.max_last <= last_) {
      found_ = below.best;
    } else {
      Search(child);
    }
  }
}

void SkylinePacker::Remove(int32_t block) {
  items_[item_of_block_[block]].rank = kPlaced;
  int32_t node = leaf_of_block_[block];
  TreeNode sum = SumOfLeaf(node);
  while (sum != nodes_[node]) {
    nodes_[node] = sum;
    node /= 2;
    if (node == 0) return;
    sum = SumOfChildren(node);
  }
}

void SkylinePacker::PushValley(int32_t piece) {
  valleys_.push_back({pieces_[piece].height, pieces_[piece].begin, piece});
  std::push_heap(valleys_.begin(), valleys_.end(), std::greater<>());
}

int32_t SkylinePacker::TakeLowest() {
  if (!split_.empty()) {
    const int32_t piece = split_.back();
    split_.pop_back();
    return piece;
  }
  while (true) {
    const Valley lowest = valleys_.front();
    std::pop_heap(valleys_.begin(), valleys_.end(), std::greater<>());
    valleys_.pop_back();
    const Piece& piece = pieces_[lowest.piece];
    if (piece.height == lowest.height && piece.begin == lowest.begin) return lowest.piece;
  }
}

int32_t SkylinePacker::AddPiece(const Piece& piece) {
  if (free_pieces_.empty()) {
    pieces_.push_back(piece);
    return static_cast<int32_t>(pieces_.size()) - 1;
  }
  const int32_t added = free_pieces_.back();
  free_pieces_.pop_back();
  pieces_[added] = piece;
  return added;
}

void SkylinePacker::JoinNext(int32_t piece) {
  const int32_t gone = pieces_[piece].next;
  pieces_[piece].end = pieces_[gone].end;
  pieces_[piece].next = pieces_[gone].next;
  if (pieces_[piece].next >= 0) pieces_[pieces_[piece].next].previous = piece;
  pieces_[gone].height = -1;
  free_pieces_.push_back(gone);
}

void SkylinePacker::Fill(int32_t piece) {
  const int32_t previous = pieces_[piece].previous, next = pieces_[piece].next;
  const int64_t left = previous >= 0 ? pieces_[previous].height : std::numeric_limits<int64_t>::max();
  const int64_t right = next >= 0 ? pieces_[next].height : std::numeric_limits<int64_t>::max();
  pieces_[piece].height = std::min(left, right);
  if (right <= left) JoinNext(piece);
  if (left <= right) {
    JoinNext(previous);
  } else {
    PushValley(piece);
  }
}

void SkylinePacker::Place(int32_t piece, int32_t begin, int32_t end, int64_t bytes) {
  if (bytes == 0) return split_.push_back(piece);
  const Piece old = pieces_[piece];
  const int64_t height = old.height + bytes;
  // The rest on the right, then the block itself; the piece is what is left.
  int32_t after = old.next;
  if (end < old.end) {
    after = AddPiece({end, old.end, piece, old.next, old.height});
    if (old.next >= 0) pieces_[old.next].previous = after;
    pieces_[piece].next = after;
    pieces_[piece].end = end;
    split_.push_back(after);
  }
  int32_t placed = piece;
  if (begin > old.begin) {
    placed = AddPiece({begin, end, piece, after, height});
    if (after >= 0) pieces_[after].previous = placed;
    pieces_[piece].next = placed;
    pieces_[piece].end = begin;
    split_.push_back(piece);
  } else {
    pieces_[piece].height = height;
  }
  if (after >= 0 && pieces_[after].height == height) JoinNext(placed);
  const int32_t before = pieces_[placed].previous;
  if (before >= 0 && pieces_[before].height == height) {
    JoinNext(before);
  } else {
    PushValley(placed);
  }
}

Packing SkylinePacker::Pack(const std::vector<double>& keys, int64_t give_up_bytes) {
  Packing packing;
  packing.offsets.assign(blocks_.size(), 0);
  const int64_t searched = searched_;
  const auto work = [&](size_t placed) {
    return kBlockWork * static_cast<int64_t>(blocks_.size()) + kPlacedWork * static_cast<int64_t>(placed) + kSearchWork * (searched_ - searched);
  };
  RankBy(keys);
  pieces_ = edge_;
  free_pieces_.clear();
  valleys_.clear();
  split_.clear();
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    PushValley(static_cast<int32_t>(piece));
    packing.heap_bytes = std::max(packing.heap_bytes, pieces_[piece].height);
  }
  for (size_t placed = 0; placed < blocks_.size();) {
    const int32_t valley = TakeLowest();
    first_ = pieces_[valley].begin;
    last_ = pieces_[valley].end - 1;
    found_ = kPlaced;
    Search(1);
    if (found_ == kPlaced) {
      Fill(valley);
      continue;
    }
    const int32_t b = block_of_rank_[found_];
    Remove(b);
    ++placed;
    packing.offsets[b] = pieces_[valley].height;
    packing.heap_bytes = std::max(packing.heap_bytes, packing.offsets[b] + blocks_[b].bytes);
    if (packing.heap_bytes >= give_up_bytes) {
      packing.work = work(placed);
      return packing;
    }
    Place(valley, static_cast<int32_t>(blocks_[b].first), static_cast<int32_t>(blocks_[b].last) + 1, blocks_[b].bytes);
  }
  packing.work = work(blocks_.size());
  return packing;
}

}  // namespace millrace
