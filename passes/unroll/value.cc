#include "passes/unroll/value.h"

#include <algorithm>

namespace millrace {

Waits Together(const Waits& a, const Waits& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  std::vector<NodeId> all = *a;
  all.insert(all.end(), b->begin(), b->end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() == a->size()) return a;
  return std::make_shared<const std::vector<NodeId>>(std::move(all));
}

bool SameValue(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Value::Kind::kMissing:
      return true;
    case Value::Kind::kTensor:
      return a.ref == b.ref;
    case Value::Kind::kRow:
      return a.ref == b.ref && a.index == b.index;
    case Value::Kind::kList:
      return a.list == b.list;
    case Value::Kind::kObject:
      return a.index == b.index;
    case Value::Kind::kOptional:
      return a.list == b.list;
    case Value::Kind::kEither:
      return a.either == b.either;
  }
  return false;
}

const Value& Items::at(int64_t i) const {
  static const Value& missing = *new Value();
  const Chunk* const chunk = ChunkOf(i);
  return chunk == nullptr ? missing : (*chunk)[i % kChunk];
}

std::shared_ptr<Items::Chunk>& Items::OwnChunk(int64_t i) {
  std::shared_ptr<Block>& block = blocks_[i / kBlock];
  if (block == nullptr) {
    block = std::make_shared<Block>(kBlock / kChunk);
  } else if (block.use_count() > 1) {
    block = std::make_shared<Block>(*block);
  }
  return (*block)[i % kBlock / kChunk];
}

void Items::Set(int64_t i, Value value) {
  if (value.missing() && ChunkOf(i) == nullptr) return;
  std::shared_ptr<Chunk>& chunk = OwnChunk(i);
  if (chunk == nullptr) {
    chunk = std::make_shared<Chunk>(kChunk);
  } else if (chunk.use_count() > 1) {
    chunk = std::make_shared<Chunk>(*chunk);
  }
  (*chunk)[i % kChunk] = std::move(value);
}

void Items::Resize(int64_t size) {
  const auto up_to = [size](int64_t multiple) { return (size + multiple - 1) / multiple * multiple; };
  for (int64_t i = size; i < size_ && i < up_to(kChunk); ++i) Set(i, Value());
  for (int64_t i = up_to(kChunk); i < size_ && i < up_to(kBlock); i += kChunk) {
    if (!LacksChunk(i)) OwnChunk(i) = nullptr;
  }
  blocks_.resize((size + kBlock - 1) / kBlock);
  size_ = size;
}

void AddOnce(NodeId id, std::vector<NodeId>& nodes) {
  if (id.valid() && std::find(nodes.begin(), nodes.end(), id) == nodes.end()) nodes.push_back(id);
}

void AddAll(const Waits& waits, std::vector<NodeId>& nodes) {
  if (waits == nullptr) return;
  for (NodeId id : *waits) AddOnce(id, nodes);
}

Waits ToWaits(std::vector<NodeId> nodes) {
  return nodes.empty() ? nullptr : std::make_shared<const std::vector<NodeId>>(std::move(nodes));
}

}  // namespace millrace
