// Messages of plans with fields that were changed at random, behind the digest: each is refused, or runs with the same bits.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "import/plan_proto.h"
#include "millrace/proto/plan.pb.h"
#include "model_run.h"

namespace millrace::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A field of a message; of a repeated one, an element.
struct Site {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;
};
// By the name of the field, so that those of few messages are changed as often as those of many.
using Sites = std::map<std::string, std::vector<Site>>;

void Collect(Message& message, Sites& sites) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    std::vector<Site>& of_field = sites[field->full_name()];
    if (!field->is_repeated()) {
      of_field.push_back({&message, field});
      if (nested) Collect(*reflection.MutableMessage(&message, field), sites);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      of_field.push_back({&message, field, i});
      if (nested) Collect(*reflection.MutableRepeatedMessage(&message, field, i), sites);
    }
  }
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  // Returns the name of what was changed.
  std::string Change(proto::Plan& plan) {
    Sites sites;
    Collect(plan, sites);
    auto chosen = sites.begin();
    std::advance(chosen, random_() % sites.size());
    const std::vector<Site>& alike = chosen->second;
    const Site& site = alike[random_() % alike.size()];
    const Reflection& reflection = *site.message->GetReflection();
    if (site.index >= 0 && random_() % 4 == 0) {
      const auto size = static_cast<uint32_t>(reflection.FieldSize(*site.message, site.field));
      reflection.SwapElements(site.message, site.field, site.index, static_cast<int>(random_() % size));
      return absl::StrCat(chosen->first, ", swapped");
    }
    if (site.index >= 0 && random_() % 8 == 0) {
      reflection.RemoveLast(site.message, site.field);
      return absl::StrCat(chosen->first, ", one less");
    }
    Set(site, alike[random_() % alike.size()]);
    return chosen->first;
  }

 private:
  int64_t Number(int64_t now, int64_t other, int64_t most) {
    const int64_t room = now < most / 2 ? now : 0;  // that sums have
    const int64_t choices[] = {0, 1, -1, now / 2, room - 1, room + 1, 2 * room, room + 64, other, other, other, most, -most - 1};
    return choices[random_() % std::size(choices)];
  }

  void Set(const Site& site, const Site& other) {
    Message* const message = site.message;
    const FieldDescriptor* const field = site.field;
    const Reflection& r = *message->GetReflection();
    const Reflection& o = *other.message->GetReflection();
    const bool element = site.index >= 0;
    constexpr int64_t kMost64 = std::numeric_limits<int64_t>::max();
    constexpr int32_t kMost32 = std::numeric_limits<int32_t>::max();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const int32_t now = element ? r.GetRepeatedInt32(*message, field, site.index) : r.GetInt32(*message, field);
        const int32_t there = element ? o.GetRepeatedInt32(*other.message, field, other.index) : o.GetInt32(*other.message, field);
        const auto value = static_cast<int32_t>(Number(now, there, kMost32));
        return element ? r.SetRepeatedInt32(message, field, site.index, value) : r.SetInt32(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const int64_t now = element ? r.GetRepeatedInt64(*message, field, site.index) : r.GetInt64(*message, field);
        const int64_t there = element ? o.GetRepeatedInt64(*other.message, field, other.index) : o.GetInt64(*other.message, field);
        const int64_t value = Number(now, there, kMost64);
        return element ? r.SetRepeatedInt64(message, field, site.index, value) : r.SetInt64(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_UINT64: return element ? void() : r.SetUInt64(message, field, random_());
      case FieldDescriptor::CPPTYPE_BOOL: return element ? void() : r.SetBool(message, field, !r.GetBool(*message, field));
      case FieldDescriptor::CPPTYPE_FLOAT: return element ? void() : r.SetFloat(message, field, r.GetFloat(*message, field) * 2);
      case FieldDescriptor::CPPTYPE_DOUBLE: return element ? void() : r.SetDouble(message, field, -2 * r.GetDouble(*message, field));
      case FieldDescriptor::CPPTYPE_ENUM: return element ? void() : r.SetEnumValue(message, field, static_cast<int>(random_() % 8));
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string now = element ? r.GetRepeatedString(*message, field, site.index) : r.GetString(*message, field);
        std::string value = element ? o.GetRepeatedString(*other.message, field, other.index) : o.GetString(*other.message, field);
        if (!now.empty() && random_() % 2 == 0) {
          value = now;
          value[random_() % value.size()] ^= 1;
        }
        return element ? r.SetRepeatedString(message, field, site.index, value) : r.SetString(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const Message& from = element ? o.GetRepeatedMessage(*other.message, field, other.index) : o.GetMessage(*other.message, field);
        std::unique_ptr<Message> copy(from.New());
        copy->CopyFrom(from);
        Message* const to = element ? r.MutableRepeatedMessage(message, field, site.index) : r.MutableMessage(message, field);
        return to->CopyFrom(*copy);
      }
      case FieldDescriptor::CPPTYPE_UINT32: return;
    }
  }

  std::mt19937 random_;
};

class PlanMutations : public ::testing::TestWithParam<const char*> {};

TEST_P(PlanMutations, AreRefusedOrGiveTheSameBits) {
  const auto graph = BuildModel("gpt", {.batch = 2, .layers = 1, .hidden = 8, .heads = 2, .steps_unrolled = 4, .vocab = 10,
                                        .dropout = 0.1, .optimizer = "momentum", .seed = 1});
  ASSERT_TRUE(graph.ok()) << graph.status();
  ModelRun right(*graph, UnderBudget("baseline", 0));
  const auto losses = right.Steps(2);
  const auto variables = right.Variables();
  ModelRun made(*graph, UnderBudget(GetParam(), right.report().predicted_peak_device_bytes * 3 / 4));
  proto::Plan whole;
  PlanToProto(*made.TrainPlan(), &whole);
  ASSERT_TRUE(made.status().ok()) << made.status();
  constexpr int kMutations = 400;
  int refused = 0;
  for (uint32_t seed = 0; seed < kMutations; ++seed) {
    proto::Plan message = whole;
    Mutator mutator(seed);
    const std::string what = absl::StrCat("mutation ", seed, ": ", mutator.Change(message));
    SCOPED_TRACE(what);
    const absl::StatusOr<ExecutionPlan> plan = PlanFromProto(message);
    if (!plan.ok()) {
      ++refused;
      continue;
    }
    ModelRun run(*graph, UnderBudget("baseline", 0));
    Session::FeedTypes types;
    for (const auto& [name, tensor] : run.feeds()) types.emplace(name, tensor.type());
    const absl::Status used = run.session().UsePlan(std::make_shared<const ExecutionPlan>(*plan), types, {"loss:0"}, {"train"});
    if (!used.ok()) {
      EXPECT_NE(used.message(), "");
      ++refused;
      continue;
    }
    const auto found = run.Steps(2);
    if (!run.status().ok()) continue;
    EXPECT_EQ(found, losses);
    EXPECT_TRUE(run.Variables() == variables);
  }
  EXPECT_GT(refused, kMutations / 4);
}

INSTANTIATE_TEST_SUITE_P(Strategies, PlanMutations, ::testing::Values("tensorflowmem", "planned"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::testing
