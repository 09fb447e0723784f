// Pack blocks: offsets for blocks of memory whose lives are known beforehand.
//
// Offline dynamic storage allocation, by a skyline: positions run to the right, addresses upwards, and a block is a
// rectangle whose left and right are fixed. The lowest valley of what is placed so far takes the block that fits between
// its walls and comes first by a key (largest, longest, most of both); a valley in which nothing fits is filled up to its
// lower wall. That is the best-fit heuristic for strips of Burke, Kendall and Whitwell (2004) with fixed abscissas, as
// Sekiyama et al. use it for tensors ("Profile-guided memory optimization for deep neural networks", 2018).
#ifndef MILLRACE_PASSES_MEMORY_PACK_BLOCKS_H_
#define MILLRACE_PASSES_MEMORY_PACK_BLOCKS_H_

#include <cstdint>
#include <vector>

namespace millrace {

// Something that needs `bytes` over the positions [first, last].
struct MemoryBlock {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct Packing {
  std::vector<int64_t> offsets;  // per block
  int64_t heap_bytes = 0;        // highest end
  int64_t peak_bytes = 0;        // most bytes live at one position: no packing needs less
  int64_t work = 0;              // of a skyline, in units of WorkBudget
};

int64_t PeakBytes(const std::vector<MemoryBlock>& blocks);

// Packs blocks: in order of time with a best-fit allocator, then by the skyline under one key after the other. Stops at
// the first packing of at most `budget_bytes` (0: near the peak); of those that exceed it the smallest. About n log n.
Packing PackBlocks(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes);

// A block that has its place already; what lies below it is not used.
struct PlacedBlock {
  MemoryBlock block;
  int64_t offset = 0;
};

enum class SkylineKey : uint8_t { kBytes, kArea, kLife, kAny };

// The skyline's packing alone (skyline.h), of blocks that come to lie above `floor`, the largest by the key preferred; kAny: under each key
// in turn (many blocks: by bytes alone), until a packing is at most `budget_bytes`, else the smallest, and `key` becomes the one that made it.
Packing PackSkylines(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes, SkylineKey& key,
                     const std::vector<PlacedBlock>& floor = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_PACK_BLOCKS_H_
