#include "cli/partitioned_variables.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/text.h"

namespace millrace::cli {
namespace {

// A line per part: variable, key, whole, begin, shape.
std::string PartsOf(std::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  if (!graph.ok()) return std::string(graph.status().message());
  std::string lines;
  for (const auto& [name, part] : PartitionedVariables(*graph)) {
    absl::StrAppend(&lines, name, " ", part.key, part.slice.whole.ToString(), " from ", absl::StrJoin(part.slice.begin, ","), " ",
                    part.slice.shape.ToString(), "\n");
  }
  return lines;
}

TEST(PartitionedVariables, PartsAreWhatTheSaverSaves) {
  EXPECT_EQ(PartsOf(R"(
file = Placeholder() {dtype=string}
names = Const() {dtype=string, value=string[4]{"saved", "saved", "plain/part_0", "one"}}
slices = Const() {dtype=string, value=string[4]{"4 6 -:0,2", "4 6 0,4:2,4", "", "5 0,5"}}
emb/part_0 = VariableV2() {dtype=float, shape=shape[4,2]}
emb/part_0/read = Identity(emb/part_0)
emb/part_1 = VarHandleOp() {dtype=float, shape=shape[4,4], shared_name="emb/part_1"}
read = ReadVariableOp(emb/part_1) {dtype=float}
copy = Identity(read)
plain/part_0 = VariableV2() {dtype=float, shape=shape[3]}
one/part_0 = VariableV2() {dtype=float, shape=shape[5]}
save = SaveV2(file, names, slices, emb/part_0/read, copy, plain/part_0, one/part_0)
)"),
            "emb/part_0 saved[4,6] from 0,0 [4,2]\n"
            "emb/part_1 saved[4,6] from 0,2 [4,4]\n"
            "one/part_0 one[5] from 0 [5]\n");
}

TEST(PartitionedVariables, WithoutASaverPartsAreKnownByTheirNamesAndShapes) {
  EXPECT_EQ(PartsOf(R"(
net/emb/part_0 = VariableV2() {dtype=float, shape=shape[4,2]}
net/emb/part_1 = VariableV2() {dtype=float, shape=shape[3,2]}
net/emb/part_0/Adam = VariableV2() {dtype=float, shape=shape[4,2]}
net/emb/part_1/Adam = VariableV2() {dtype=float, shape=shape[3,2]}
net/emb/part_0/count = VariableV2() {dtype=float, shape=shape[7]}
net/emb/part_1/count = VariableV2() {dtype=float, shape=shape[7]}
rows/part_0 = VarHandleOp() {dtype=float, shape=shape[2,2]}
rows/part_1 = VarHandleOp() {dtype=float, shape=shape[2,2]}
columns/part_0 = VarHandleOp() {dtype=float, shape=shape[2,2]}
columns/part_1 = VarHandleOp() {dtype=float, shape=shape[2,1]}
)"),
            "columns/part_0 columns[2,3] from 0,0 [2,2]\n"
            "columns/part_1 columns[2,3] from 0,2 [2,1]\n"
            "net/emb/part_0 net/emb[7,2] from 0,0 [4,2]\n"
            "net/emb/part_0/Adam net/emb/Adam[7,2] from 0,0 [4,2]\n"
            "net/emb/part_1 net/emb[7,2] from 4,0 [3,2]\n"
            "net/emb/part_1/Adam net/emb/Adam[7,2] from 4,0 [3,2]\n"
            "rows/part_0 rows[4,2] from 0,0 [2,2]\n"
            "rows/part_1 rows[4,2] from 2,0 [2,2]\n");
}

TEST(PartitionedVariables, OtherVariablesWithSuchNamesAreLeftAlone) {
  EXPECT_EQ(PartsOf(R"(
part_0/w = VariableV2() {dtype=float, shape=shape[4]}
net/part_0/w = VariableV2() {dtype=float, shape=shape[4]}
a/part_1 = VariableV2() {dtype=float, shape=shape[4]}
a/part_2 = VariableV2() {dtype=float, shape=shape[4]}
b/part_0 = VariableV2() {dtype=float, shape=shape[4,2]}
b/part_1 = VariableV2() {dtype=float, shape=shape[3,1]}
c/part_00 = VariableV2() {dtype=float, shape=shape[4]}
d/part_0 = VariableV2() {dtype=float, shape=shape[]}
e/party_0 = VariableV2() {dtype=float, shape=shape[4]}
)"),
            "");
}

}  // namespace
}  // namespace millrace::cli
