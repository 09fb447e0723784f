// Names and the numbers they have: 0, 1, 2, … in the order in which they came.
#ifndef MILLRACE_SRC_PLAN_NAME_IDS_H_
#define MILLRACE_SRC_PLAN_NAME_IDS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace millrace {

// Keeps views of the names, not the names. Open addressing, at most half full: one look per name, and nothing allocated
// for it.
class NameIds {
 public:
  explicit NameIds(size_t expected_names = 0) { Resize(expected_names); }

  // The name's number, which it has from now on if it had none.
  int32_t Add(std::string_view name) {
    if (2 * (names_.size() + 1) > slots_.size()) Resize(2 * names_.size());
    int32_t& id = slots_[SlotOf(name)];
    if (id < 0) {
      id = static_cast<int32_t>(names_.size());
      names_.push_back(name);
    }
    return id;
  }
  bool Has(std::string_view name) const { return slots_[SlotOf(name)] >= 0; }
  std::string_view name(int32_t id) const { return names_[id]; }

 private:
  // The slot of that name, or the free one that ends the search for it.
  size_t SlotOf(std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = std::hash<std::string_view>()(name) & mask;
    while (slots_[slot] >= 0 && names_[slots_[slot]] != name) slot = (slot + 1) & mask;
    return slot;
  }
  void Resize(size_t names) {
    constexpr size_t kFewest = 16;
    names_.reserve(names);
    slots_.assign(std::bit_ceil(2 * names + kFewest), -1);
    for (size_t id = 0; id < names_.size(); ++id) slots_[SlotOf(names_[id])] = static_cast<int32_t>(id);
  }

  std::vector<std::string_view> names_;
  std::vector<int32_t> slots_;  // ids, or -1
};

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_NAME_IDS_H_
