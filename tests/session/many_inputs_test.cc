// Nodes with more inputs than a mask has bits: the axis after many tensors is still taken by value.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "millrace/session.h"
#include "testlib/open_session.h"

namespace millrace {
namespace {

using testing::OpenSession;

// Concatenates `count` placeholders of one row, x0 first, and runs it.
absl::StatusOr<Tensor> Concatenated(int count, const std::string& axis) {
  std::string text, inputs;
  Session::Feeds feeds;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "x", i, " = Placeholder() {dtype=float, shape=shape[1,2]}\n");
    absl::StrAppend(&inputs, "x", i, ", ");
    Tensor row(DataType::kFloat, Shape({1, 2}));
    row.mutable_as<float>()[0] = static_cast<float>(i);
    row.mutable_as<float>()[1] = static_cast<float>(-i);
    feeds.emplace(absl::StrCat("x", i), std::move(row));
  }
  absl::StrAppend(&text, axis, "z = ConcatV2(", inputs, "axis) {N=", count, ", T=float, Tidx=int32}\n");
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  if (!graph.ok()) return graph.status();
  absl::StatusOr<std::unique_ptr<Session>> session = OpenSession(*std::move(graph), {});
  if (!session.ok()) return session.status();
  std::vector<Tensor> out;
  const absl::Status status = (*session)->Run(feeds, {"z"}, {}, &out);
  if (!status.ok()) return status;
  return out.at(0);
}

TEST(ManyInputs, AnAxisBehindSixtyFourTensorsIsKnownWhenPlanning) {
  for (int count : {62, 63, 64, 65, 130}) {
    const absl::StatusOr<Tensor> rows = Concatenated(count, "axis = Const() {dtype=int32, value=int32[]{0}}\n");
    ASSERT_TRUE(rows.ok()) << count << ": " << rows.status();
    ASSERT_EQ(rows->shape(), Shape({count, 2}));
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(rows->as<float>()[2 * i], static_cast<float>(i));
      ASSERT_EQ(rows->as<float>()[2 * i + 1], static_cast<float>(-i));
    }
  }
}

TEST(ManyInputs, AnAxisThatIsFedIsRefusedByName) {
  for (int count : {2, 130}) {
    const absl::StatusOr<Tensor> rows = Concatenated(count, "axis = Placeholder() {dtype=int32, shape=shape[]}\n");
    ASSERT_FALSE(rows.ok());
    EXPECT_NE(rows.status().message().find("axis"), std::string::npos) << rows.status();
  }
}

}  // namespace
}  // namespace millrace
