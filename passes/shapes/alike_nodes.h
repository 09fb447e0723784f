// Nodes that are alike, differing in name and place alone: an unrolled network is the same few operations thousands of times,
// and what follows from an op, its attributes and types is found once for all of them.
#ifndef MILLRACE_PASSES_SHAPES_ALIKE_NODES_H_
#define MILLRACE_PASSES_SHAPES_ALIKE_NODES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/types.h"

namespace millrace {

// Attributes are compared by what their maps share (copies of a map until they change), so nodes whose equal attributes were
// made one by one are not alike: they are looked at one by one. Of one thread.
template <typename Found>
class AlikeNodes {
 public:
  // `types` outlive what is done with the key.
  struct Key {
    const std::string& op;
    const AttrMap& attrs;
    absl::Span<const TensorType* const> types;
    int32_t place = 0;  // nodes of other places are not alike
  };

  // What was added for a node that is alike; nullptr when there is none.
  const Found* Find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    const int32_t kind = slots_[SlotOf(key)];
    return kind == kFree ? nullptr : &kinds_[kind].found;
  }

  // Needs: nothing was found. Of more than a few thousand kinds nothing is kept.
  void Add(const Key& key, Found found) {
    if (kinds_.size() == kMostKinds) return;
    if (slots_.empty()) slots_.assign(kSlots, kFree);
    slots_[SlotOf(key)] = static_cast<int32_t>(kinds_.size());
    Kind& kind = kinds_.emplace_back(Kind{key.op, key.attrs, {}, key.place, std::move(found)});
    for (const TensorType* type : key.types) kind.types.push_back(*type);
  }

 private:
  static constexpr int32_t kFree = -1;
  static constexpr size_t kMostKinds = 4096, kSlots = 4 * kMostKinds;

  struct Kind {
    std::string op;
    AttrMap attrs;  // kept alive, so that no other map's entries are at the same place
    std::vector<TensorType> types;
    int32_t place = 0;
    Found found;
  };

  static const void* EntriesOf(const AttrMap& attrs) { return attrs.empty() ? nullptr : &*attrs.begin(); }

  static bool Matches(const Kind& kind, const Key& key, const void* entries) {
    if (EntriesOf(kind.attrs) != entries || kind.place != key.place || kind.op != key.op || kind.types.size() != key.types.size()) return false;
    for (size_t i = 0; i < key.types.size(); ++i) {
      if (!(kind.types[i] == *key.types[i])) return false;
    }
    return true;
  }

  // Of an alike node's kind, or the free one that ends the search for it.
  size_t SlotOf(const Key& key) const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    const void* const entries = EntriesOf(key.attrs);
    uint64_t hash = reinterpret_cast<uintptr_t>(entries) + key.op.size();
    const auto mix = [&hash](int64_t number) { hash = (hash ^ hash >> 29 ^ static_cast<uint64_t>(number)) * kOdd; };
    for (const TensorType* type : key.types) {
      mix(static_cast<int64_t>(type->dtype));
      for (const int64_t dim : type->shape.dims()) mix(dim);
    }
    mix(key.place);
    size_t slot = (hash >> 32) % kSlots;
    while (slots_[slot] != kFree && !Matches(kinds_[slots_[slot]], key, entries)) slot = (slot + 1) % kSlots;
    return slot;
  }

  std::vector<Kind> kinds_;
  std::vector<int32_t> slots_;  // into kinds_; none at first
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_ALIKE_NODES_H_
