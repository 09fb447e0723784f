// Updates of several variables in one launch have the bits of the updates one by one.
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/update.h"

namespace millrace::cuda {
namespace {

constexpr int kRules = static_cast<int>(UpdateRule::kPowerSign) + 1;

struct Variables {
  std::vector<std::vector<char>> memory;  // per update: slots one after another, then the gradient; of every third, none aligned
  std::vector<UpdateArguments> updates;
};

Variables MakeVariables(Type type, int bytes, int count, const void* scalar) {
  std::mt19937 random(7);
  Variables made;
  for (int v = 0; v < count; ++v) {
    const int64_t n = v % 4 == 3 ? 5000 + v : 1 + v, stride = (n + 15) / 16 * 16, shift = v % 3 == 0 ? 1 : 0;
    std::vector<char> memory(((kMaxSlots + 1) * stride + shift) * bytes);
    for (int64_t i = 0; i < (kMaxSlots + 1) * stride + shift; ++i) {
      // About 0.5 to 1, and a sign for the variable and the gradient.
      const bool sign = (i < stride || i >= kMaxSlots * stride + shift) && random() % 2 == 0;
      const uint64_t noise = random();
      uint64_t word = 0;
      if (type == Type::kDouble) word = 0x3fe0000000000000 | noise << 20 | uint64_t{sign} << 63;
      if (type == Type::kFloat) word = 0x3f000000 | (noise & 0x7fffff) | uint64_t{sign} << 31;
      if (type == Type::kHalf) word = 0x3800 | (noise & 0x3ff) | uint64_t{sign} << 15;
      if (type == Type::kBfloat16) word = 0x3f00 | (noise & 0x7f) | uint64_t{sign} << 15;
      std::memcpy(memory.data() + i * bytes, &word, bytes);
    }
    made.memory.push_back(std::move(memory));
    UpdateArguments update;
    for (int s = 0; s < kMaxSlots; ++s) update.slots[s] = made.memory.back().data() + (s * stride + shift) * bytes;
    for (int s = 0; s < kMaxScalars; ++s) {
      update.scalars[s] = s % 2 == 0 ? scalar : nullptr;
      update.values[s] = 0.25;
      update.scalar_types[s] = Type::kFloat;
    }
    update.gradient = made.memory.back().data() + (kMaxSlots * stride + shift) * bytes;
    update.elements = n;
    made.updates.push_back(update);
  }
  return made;
}

TEST(UpdatesTogetherTest, HaveTheBitsOfUpdatesOneByOneForEveryRuleAndType) {
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  const float scalar = 0.125f;
  for (const auto& [type, bytes] : {std::pair(Type::kFloat, 4), std::pair(Type::kDouble, 8), std::pair(Type::kHalf, 2),
                                    std::pair(Type::kBfloat16, 2)}) {
    for (int rule = 0; rule < kRules; ++rule) {
      const Variables before = MakeVariables(type, bytes, 40, &scalar);
      Variables together = MakeVariables(type, bytes, 40, &scalar), alone = MakeVariables(type, bytes, 40, &scalar);
      LaunchUpdates(queue, static_cast<UpdateRule>(rule), type, kMaxSlots, together.updates.data(), 40);
      for (const UpdateArguments& update : alone.updates) {
        LaunchUpdate(queue, static_cast<UpdateRule>(rule), type, kMaxSlots, update);
      }
      EXPECT_TRUE(together.memory == alone.memory) << "rule " << rule << " type " << static_cast<int>(type);
      EXPECT_FALSE(together.memory == before.memory) << "rule " << rule;
    }
  }
}

// With more slots than they have, rules are read while they run, an element at a time; the slots beyond stay as they are.
TEST(UpdatesTogetherTest, RulesThatAreKnownWhenCompilingHaveTheBitsOfThoseReadWhileTheyRun) {
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  const float scalar = 0.125f;
  for (const auto& [type, bytes] : {std::pair(Type::kFloat, 4), std::pair(Type::kDouble, 8), std::pair(Type::kHalf, 2),
                                    std::pair(Type::kBfloat16, 2)}) {
    for (const auto& [rule, slots] : {std::pair(UpdateRule::kAssign, 1), std::pair(UpdateRule::kAssignAdd, 1), std::pair(UpdateRule::kAssignSub, 1),
                                      std::pair(UpdateRule::kMovingAverage, 1),
                                      std::pair(UpdateRule::kGradientDescent, 1), std::pair(UpdateRule::kMomentum, 2),
                                      std::pair(UpdateRule::kAdam, 3)}) {
      Variables known = MakeVariables(type, bytes, 40, &scalar), read = MakeVariables(type, bytes, 40, &scalar);
      LaunchUpdates(queue, rule, type, slots, known.updates.data(), 40);
      LaunchUpdates(queue, rule, type, kMaxSlots, read.updates.data(), 40);
      EXPECT_TRUE(known.memory == read.memory) << "slots " << slots << " type " << static_cast<int>(type);
    }
  }
}

TEST(UpdatesTogetherTest, DoNothingAfterAFault) {
  Fault fault;
  fault.code = FaultCode::kIndexOutOfRange;
  const float scalar = 0.5f;
  const Variables before = MakeVariables(Type::kFloat, 4, 3, &scalar);
  Variables after = MakeVariables(Type::kFloat, 4, 3, &scalar);
  LaunchUpdates({nullptr, &fault, 0}, UpdateRule::kGradientDescent, Type::kFloat, 1, after.updates.data(), 3);
  EXPECT_TRUE(after.memory == before.memory);
}

}  // namespace
}  // namespace millrace::cuda
