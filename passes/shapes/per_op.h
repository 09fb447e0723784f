// What is to be known of an op, looked for once for each of the few ops that a large graph is made of.
#ifndef MILLRACE_PASSES_SHAPES_PER_OP_H_
#define MILLRACE_PASSES_SHAPES_PER_OP_H_

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "millrace/op.h"

namespace millrace {

// `Find` takes an op's name and gives what is known of it, the same whenever it is asked. Of one thread.
template <typename Known, typename Find>
class PerOp {
 public:
  explicit PerOp(Find find) : find_(std::move(find)) {}

  const Known& operator()(const std::string& op) {
    Slot& slot = slots_[SlotOf(op)];
    if (!slot.used || slot.op != op) slot = {true, op, find_(op)};
    return slot.known;
  }

 private:
  // A name that shares its slot takes it over.
  static constexpr size_t kSlots = 256;
  struct Slot {
    bool used = false;
    std::string op;
    Known known{};
  };

  static size_t SlotOf(const std::string& op) {
    constexpr size_t kOdd = 31;
    if (op.empty()) return 0;
    const auto letter = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(op[i])); };
    return ((letter(0) * kOdd + letter(op.size() / 2)) * kOdd + letter(op.size() - 1) * kOdd + op.size()) % kSlots;
  }

  Find find_;
  std::array<Slot, kSlots> slots_;
};

// Definitions of ops, of a registry that stays as it is; nullptr for unknown ops.
class OpFinder {
 public:
  explicit OpFinder(const OpRegistry& ops) : defs_(Find{&ops}) {}
  const OpDef* operator()(const std::string& op) { return defs_(op); }

 private:
  struct Find {
    const OpRegistry* ops;
    const OpDef* operator()(const std::string& op) const { return ops->Find(op); }
  };
  PerOp<const OpDef*, Find> defs_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_PER_OP_H_
