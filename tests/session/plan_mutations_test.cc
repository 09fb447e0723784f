// Messages of plans with fields that were changed at random, behind the digest: each is refused, or runs with the same bits.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "import/plan_proto.h"
#include "millrace/proto/plan.pb.h"
#include "model_run.h"
#include "plan_use.h"
#include "text_session.h"
#include "value_graphs.h"

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

// Plans of `rest` and what becomes of `part`: `open` gives a session, `use` a plan to it, and `expect_right` runs it.
template <typename Open, typename Use, typename ExpectRight>
void ExpectRefusedOrRight(const proto::Plan& rest, const proto::Plan& part, int mutations, Open open, Use use, ExpectRight expect_right) {
  int refused = 0;
  decltype(open()) session;  // a refused plan leaves it as it was: it is there for the next one
  for (int seed = 0; seed < mutations; ++seed) {
    proto::Plan message = part;
    Mutator mutator(seed);
    const std::string what = absl::StrCat("mutation ", seed, ": ", mutator.Change(message));
    SCOPED_TRACE(what);
    message.MergeFrom(rest);
    const absl::StatusOr<ExecutionPlan> plan = PlanFromProto(message);
    if (!plan.ok()) {
      ++refused;
      continue;
    }
    if (session == nullptr) session = open();
    const absl::Status used = use(*session, *plan);
    if (!used.ok()) {
      EXPECT_NE(used.message(), "");
      ++refused;
      continue;
    }
    expect_right(*session);
    session = nullptr;
  }
  EXPECT_GT(refused, mutations / 4);
}

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
  const auto open = [&] { return std::make_unique<ModelRun>(*graph, UnderBudget("baseline", 0)); };
  const auto use = [](ModelRun& run, const ExecutionPlan& plan) {
    return run.session().UsePlan(std::make_shared<const ExecutionPlan>(plan), TypesOf(run.feeds()), {"loss:0"}, {"train"});
  };
  const auto expect_right = [&](ModelRun& run) {
    const auto found = run.Steps(2);
    if (!run.status().ok()) return;
    EXPECT_EQ(found, losses);
    EXPECT_TRUE(run.Variables() == variables);
  };
  ExpectRefusedOrRight({}, whole, 400, open, use, expect_right);
}

// Changes only the values that the plan is for.
void ExpectValuesRefusedOrRight(const ExecutionPlan& plan, const std::string& graph, const Session::Feeds& feeds,
                                absl::FunctionRef<void(Session&)> prepare, const Tensor& right) {
  proto::Plan rest, values;
  PlanToProto(plan, &rest);
  values.mutable_feed_values()->Swap(rest.mutable_feed_values());
  values.mutable_answers()->Swap(rest.mutable_answers());
  const auto open = [&] {
    auto session = SessionOf(graph);
    prepare(*session);
    return session;
  };
  const auto use = [&](Session& session, const ExecutionPlan& changed) {
    return session.UsePlan(std::make_shared<const ExecutionPlan>(changed), TypesOf(feeds), {"y:0"}, {});
  };
  const auto expect_right = [&](Session& session) {
    std::vector<Tensor> out;
    if (!session.Run(feeds, {"y:0"}, {}, &out).ok()) return;
    EXPECT_TRUE(out[0].BitEqual(right));
  };
  ExpectRefusedOrRight(rest, values, 100, open, use, expect_right);
}

TEST(PlanValueMutations, FedValuesAreRefusedOrGiveTheSameBits) {
  Session::Feeds feeds = {{"x", Tensor(DataType::kFloat, Shape({6}))}, {"dims", Tensor::Vector<int32_t>({2, 3})}};
  for (int i = 0; i < 6; ++i) feeds["x"].mutable_as<float>()[i] = static_cast<float>(i);
  const auto makes = SessionOf(kFedSizes);
  makes->PlanWithFeeds(feeds);
  const auto plan = makes->Plan(TypesOf(feeds), {"y:0"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectValuesRefusedOrRight(**plan, kFedSizes, feeds, [](Session&) {}, feeds["x"].Reshaped(Shape({2, 3})));
}

TEST(PlanValueMutations, AnswersAreRefusedOrGiveTheSameBits) {
  const auto prepare = [](Session& session) { EXPECT_TRUE(session.SetVariable("turns", Tensor::Scalar<int32_t>(3)).ok()); };
  const auto makes = SessionOf(kCountedTurns);
  prepare(*makes);
  std::vector<Tensor> out;
  const absl::Status ran = makes->Run({}, {"y:0"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  ExpectValuesRefusedOrRight(*makes->last_run().plan, kCountedTurns, {}, prepare, out[0]);
}

INSTANTIATE_TEST_SUITE_P(Strategies, PlanMutations, ::testing::Values("tensorflowmem", "planned"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::testing
