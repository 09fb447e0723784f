#include "cli/vocabularies.h"

#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

// The graph after a table of these types was read from a file of this text.
std::string Read(const std::string& text, const std::string& types, const std::string& attrs) {
  const std::string path = absl::StrCat(testing::TempDir(), "/vocabulary_", getpid());
  std::ofstream(path, std::ios::binary) << text;
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat("table = HashTableV2() {", types, "}\nfile = Const() {dtype=string, value=string[]{\"", path,
                                                            "\"}}\ninit = InitializeTableFromTextFileV2(table, file) {", attrs, "}\n"));
  if (!graph.ok()) return std::string(graph.status().message());
  const absl::Status read = ReadVocabularies(*graph);
  unlink(path.c_str());
  if (!read.ok()) return std::string(read.message());
  const std::string printed = GraphToText(*graph);
  return printed.substr(printed.find("init = "));
}

TEST(Vocabularies, WordsAndTheNumbersOfTheirLines) {
  EXPECT_EQ(Read("the\r\na b\n<unk>\nlast", "key_dtype=string, value_dtype=int64", "key_index=-2, value_index=-1"),
            "init = LookupTableImportV2(table, init/keys, init/values) {Tin=string, Tout=int64}\n"
            "init/keys = Const() {dtype=string, value=string[4]{\"the\", \"a b\", \"<unk>\", \"last\"}}\n"
            "init/values = Const() {dtype=int64, value=int64[4]{0, 1, 2, 3}}\n");
}

TEST(Vocabularies, ColumnsOfSomeLines) {
  EXPECT_EQ(Read("7,a,0.5\n8,b,2\n9,c,3\n", "key_dtype=int64, value_dtype=float", "key_index=0, value_index=2, vocab_size=2, delimiter=\",\""),
            "init = LookupTableImportV2(table, init/keys, init/values) {Tin=int64, Tout=float}\n"
            "init/keys = Const() {dtype=int64, value=int64[2]{7, 8}}\n"
            "init/values = Const() {dtype=float, value=float[2]{0.5, 2.0}}\n");
}

TEST(Vocabularies, LinesMayBeCountedFromAnotherNumber) {
  EXPECT_THAT(Read("a\nb", "key_dtype=string, value_dtype=int64", "key_index=-2, value_index=-1, offset=5"), HasSubstr("int64[2]{5, 6}"));
}

TEST(Vocabularies, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Read("a\nb\n", "key_dtype=string, value_dtype=int64", "key_index=-2, value_index=-1, vocab_size=3"),
              HasSubstr("Invalid vocab_size: expected 3 but got 2"));
  EXPECT_THAT(Read("a\t1\nb\n", "key_dtype=string, value_dtype=int64", "key_index=0, value_index=1"),
              testing::AllOf(HasSubstr("node 'init' (InitializeTableFromTextFileV2)"), HasSubstr("line 1 has 1 columns, expected more than 1")));
  EXPECT_THAT(Read("a\n\nb\n", "key_dtype=string, value_dtype=int64", "key_index=-2, value_index=-1"), HasSubstr("Invalid content: line 1 is empty"));
  EXPECT_THAT(Read("a\tx\n", "key_dtype=string, value_dtype=int64", "key_index=0, value_index=1"), HasSubstr("line 0: 'x' is no int64"));
}

// As TensorFlow 2 exports tables: the path is in a variable, and a function of a function reads the file.
TEST(Vocabularies, FilesThatFunctionsReadComeToNodesBesideThem) {
  const std::string path = absl::StrCat(testing::TempDir(), "/vocabulary_of_functions_", getpid());
  std::ofstream(path) << "the\ncat\n";
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(R"(
function initialize
  table = _Arg() {T=resource, index=0}
  file = _Arg() {T=string, index=1}
  init = InitializeTableFromTextFileV2(table, file) {key_index=-2, value_index=-1}
end
function outer
  table = _Arg() {T=resource, index=0}
  file = _Arg() {T=string, index=1}
  call = StatefulPartitionedCall(table, file) {f=&initialize}
end
x = Placeholder() {dtype=string, shape=shape[?]}
path = Const() {dtype=string, value=string[]{")", path, R"("}}
asset = VarHandleOp() {dtype=string, shape=shape[], shared_name="asset"}
assign = AssignVariableOp(asset, path) {dtype=string}
read = ReadVariableOp(asset) ^assign {dtype=string}
words = HashTableV2() {key_dtype=string, value_dtype=int64}
call = StatefulPartitionedCall(words, read) {f=&outer}
)"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status read = ReadVocabularies(*graph);
  unlink(path.c_str());
  ASSERT_TRUE(read.ok()) << read;
  const std::string printed = GraphToText(*graph);
  EXPECT_THAT(printed, HasSubstr("words_1 = HashTableV2() {key_dtype=string, shared_name=\"words\", value_dtype=int64}\n"));
  EXPECT_THAT(printed, HasSubstr("LookupTableImportV2(words_1, "));
  EXPECT_THAT(printed, HasSubstr("value=string[2]{\"the\", \"cat\"}"));
}

// What planning is told of a table from the file of this path.
std::string WhyUnread(const std::string& path) {
  absl::StatusOr<Graph> graph = ParseGraphText(absl::StrCat(R"(
table = HashTableV2() {key_dtype=string, value_dtype=int64}
file = Const() {dtype=string, value=string[]{")", path, R"("}}
init = InitializeTableFromTextFileV2(table, file) {key_index=-2, value_index=-1, vocab_size=2}
)"));
  EXPECT_EQ(ReadVocabularies(*graph), absl::OkStatus());
  const Node& init = graph->node(graph->Find("init"));
  EXPECT_EQ(init.op, "InitializeTableFromTextFileV2");
  return init.attrs.GetOr<std::string>("_why_unread", "");
}

TEST(Vocabularies, AFileWithoutWordsIsLeftToPlanning) {
  EXPECT_EQ(WhyUnread("/nowhere/words.txt"), "/nowhere/words.txt: No such file or directory");
  EXPECT_EQ(WhyUnread("/"), "/: Is a directory");
  EXPECT_EQ(WhyUnread("/dev/null"), "/dev/null: the file is empty");
}

}  // namespace
}  // namespace millrace::cli
