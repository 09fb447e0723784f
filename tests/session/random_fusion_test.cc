// Random graphs of elementwise ops, of what repeats or reduces their tensors, and of what reads them otherwise: however groups are
// made of them, every fetch has the bits that it has without groups, under every strategy and with little memory.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

// Tensors of [kRows, kColumns], and parts of that shape that repeat over it.
constexpr int kRows = 64, kColumns = 128;

class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {}

  std::string Make(int ops) {
    text_ = absl::StrCat("rows = Const() {dtype=int32, value=int32[1]{0}}\ncolumns = Const() {dtype=int32, value=int32[1]{1}}\n",
                         "both = Const() {dtype=int32, value=int32[2]{0,1}}\naxis = Const() {dtype=int32, value=int32[]{1}}\n",
                         "dims = Const() {dtype=int32, value=int32[2]{", kRows, ",", kColumns, "}}\n");
    for (int i = 0; i < 3; ++i) Whole(absl::StrCat("x", i, " = Placeholder() {dtype=float, shape=shape[", kRows, ",", kColumns, "]}"));
    Small(absl::StrCat("m = Placeholder() {dtype=float, shape=shape[", kRows, ",1]}"));
    Small(absl::StrCat("c = Placeholder() {dtype=float, shape=shape[", kColumns, "]}"));
    for (int i = 0; i < ops; ++i) AddOp();
    return text_;
  }
  const std::vector<std::string>& whole() const { return whole_; }
  const std::vector<std::string>& small() const { return small_; }

 private:
  static std::string NameIn(const std::string& line) { return line.substr(0, line.find(' ')); }
  void Whole(const std::string& line) {
    absl::StrAppend(&text_, line, "\n");
    whole_.push_back(NameIn(line));
  }
  void Small(const std::string& line) {
    absl::StrAppend(&text_, line, "\n");
    small_.push_back(NameIn(line));
  }
  // Later ones rather than earlier ones, so that chains come about.
  const std::string& Any(const std::vector<std::string>& of) {
    const size_t back = std::min(random_() % of.size(), random_() % of.size());
    return of[of.size() - 1 - back];
  }
  std::string Name() { return absl::StrCat("n", next_++); }
  const char* OneOf(std::vector<const char*> names) { return names[random_() % names.size()]; }

  void AddOp() {
    const std::string name = Name();
    switch (random_() % 9) {
      case 0: return Whole(absl::StrCat(name, " = ", OneOf({"Neg", "Square", "Tanh", "Sigmoid", "Relu"}), "(", Any(whole_), ") {T=float}"));
      case 1:
      case 2: return Whole(absl::StrCat(name, " = ", OneOf({"Sub", "Mul", "AddV2"}), "(", Any(whole_), ", ", Any(small_), ") {T=float}"));
      case 3:
        return Whole(absl::StrCat(name, " = ", OneOf({"Sub", "Mul", "AddV2", "Maximum", "ReluGrad"}), "(", Any(whole_), ", ", Any(whole_),
                                  ") {T=float}"));
      case 4:
      case 5:
        return Small(absl::StrCat(name, " = ", OneOf({"Sum", "Mean", "Max", "Min"}), "(", Any(whole_), ", ", OneOf({"rows", "columns", "both"}),
                                  ") {T=float, Tidx=int32, keep_dims=true}"));
      case 6: return Small(absl::StrCat(name, " = BiasAddGrad(", Any(whole_), ") {T=float}"));
      case 7: return AddCopies(name);
      default: return Whole(absl::StrCat(name, " = ReverseV2(", Any(whole_), ", columns) {T=float, Tidx=int32}"));
    }
  }

  // Of a repeated tensor, or of halves in the other order.
  void AddCopies(const std::string& name) {
    if (random_() % 2 == 0) return Whole(absl::StrCat(name, " = BroadcastTo(", Any(small_), ", dims) {T=float, Tidx=int32}"));
    const std::string half = absl::StrCat(name, "h");
    absl::StrAppend(&text_, name, "s = Split(axis, ", Any(whole_), ") {num_split=2, T=float}\n");
    absl::StrAppend(&text_, half, " = ", OneOf({"Tanh", "Neg"}), "(", name, "s:0) {T=float}\n");
    absl::StrAppend(&text_, half, "s = Sum(", half, ", columns) {T=float, Tidx=int32, keep_dims=true}\n");
    small_.push_back(half + "s");
    Whole(absl::StrCat(name, " = ConcatV2(", half, ", ", name, "s:", OneOf({"0", "1"}), ", axis) {N=2, T=float, Tidx=int32}"));
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<std::string> whole_, small_;
  int next_ = 0;
};

Tensor Numbers(Shape shape, uint32_t seed) {
  Tensor tensor(DataType::kFloat, std::move(shape));
  std::mt19937 random(seed);
  for (float& value : tensor.mutable_as<float>()) value = static_cast<float>(random() % 20001) / 10000 - 1;
  return tensor;
}

struct Made {
  std::string text;
  std::vector<std::string> fetches;
};

Made MakeRandom(uint32_t seed) {
  std::mt19937 random(seed);
  RandomText graph(seed);
  Made made{graph.Make(6 + static_cast<int>(random() % 30)), {graph.whole().back(), graph.small().back()}};
  for (const auto* names : {&graph.whole(), &graph.small()}) {
    const std::string& name = (*names)[random() % names->size()];
    if (std::count(made.fetches.begin(), made.fetches.end(), name) == 0) made.fetches.push_back(name);
  }
  return made;
}

TEST(RandomFusion, GroupsHaveTheBitsOfTheirOpsUnderEveryPlan) {
  const Session::Feeds feeds = {{"x0", Numbers(Shape({kRows, kColumns}), 1)}, {"x1", Numbers(Shape({kRows, kColumns}), 2)},
                                {"x2", Numbers(Shape({kRows, kColumns}), 3)}, {"m", Numbers(Shape({kRows, 1}), 4)},
                                {"c", Numbers(Shape({kColumns}), 5)}};
  int64_t reduced = 0;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const Made made = MakeRandom(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", fetches ", absl::StrJoin(made.fetches, " "), "\n", made.text));
    std::vector<Tensor> expected;
    int64_t peak = 0;
    for (const char* strategy : {"baseline", "baseline", "planned", "tensorflowmem"}) {
      SessionOptions options;
      options.threads = expected.empty() ? 1 : 3;
      options.planning.strategy = strategy;
      options.planning.fuse = !expected.empty();
      if (strategy == std::string("planned")) options.planning.device_memory_bytes = peak * 8 / 10;
      const std::unique_ptr<Session> session = testing::SessionOf(made.text, std::move(options));
      std::vector<Tensor> found;
      const absl::Status status = session->Run(feeds, made.fetches, {}, &found);
      if (absl::IsResourceExhausted(status)) continue;
      ASSERT_TRUE(status.ok()) << status;
      if (expected.empty()) {
        expected = found;
        continue;
      }
      for (size_t i = 0; i < found.size(); ++i) ASSERT_TRUE(found[i].BitEqual(expected[i])) << made.fetches[i] << ", " << strategy;
      peak = std::max(peak, session->last_run().plan->devices[0].peak_live_bytes);
      for (const OpInstance& node : session->last_run().plan->instances) reduced += node.attrs.Has("reductions") ? 1 : 0;
    }
  }
  EXPECT_GT(reduced, 500);
}

}  // namespace
}  // namespace millrace
