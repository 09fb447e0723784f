// What WriteFile writes: in the branch that is taken, in the order of turns, once, under every plan alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::SessionOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WrittenFiles : public ::testing::Test {
 protected:
  WrittenFiles() : folder_(NewFolder()) {}
  ~WrittenFiles() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Content(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return file.is_open() ? content.str() : "none";
  }
  std::string InFolder(const std::string& text) const { return absl::StrReplaceAll(text, {{"FOLDER", folder_.string()}}); }

 private:
  // The tests may run beside themselves, on another device.
  static std::filesystem::path NewFolder() {
    std::string name = absl::StrCat(::testing::TempDir(), "/written_files.XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }

  const std::filesystem::path folder_;
};

absl::Status Runs(const std::string& text, std::map<std::string, Tensor> feeds, const std::string& target, const char* strategy = "planned") {
  SessionOptions options;
  options.planning.strategy = strategy;
  return SessionOf(text, options)->Run(std::move(feeds), {}, {target}, nullptr);
}

constexpr char kTexts[] = R"(
x = Placeholder() {dtype=float, shape=shape[2]}
name = Const() {dtype=string, value=string[]{"FOLDER/deep/down/a.txt"}}
words = Const() {dtype=string, value=string[]{"hello"}}
known = WriteFile(name, words)
format = StringFormat(x) {template="x is {}", placeholder="{}", summarize=3}
formatted = WriteFile(name, format)
tensor = SerializeTensor(x) {T=float}
serialized = WriteFile(name, tensor)
fed = Placeholder() {dtype=string, shape=shape[]}
to = WriteFile(fed, words)
v = VarHandleOp() {dtype=int64, shape=shape[]}
one = Const() {dtype=int64, value=int64[]{1}}
count = AssignAddVariableOp(v, one) {dtype=int64}
read = ReadVariableOp(v) ^count {dtype=int64}
number = AsString(read) {T=int64}
in_turn = StringJoin(name, number) {N=2}
numbered = WriteFile(in_turn, format)
)";

TEST_F(WrittenFiles, HoldWhatPlanningKnowsOrOneOpMakesOfValues) {
  const std::string text = InFolder(kTexts);
  const std::map<std::string, Tensor> x = {{"x", Tensor::Vector<float>({1, 2.5})}};
  ASSERT_TRUE(Runs(text, {}, "known").ok());
  EXPECT_EQ(Content("deep/down/a.txt"), "hello");
  const absl::Status formatted = Runs(text, x, "formatted");
  ASSERT_TRUE(formatted.ok()) << formatted;
  EXPECT_EQ(Content("deep/down/a.txt"), "x is [1 2.5]");
  ASSERT_TRUE(Runs(text, x, "serialized").ok());
  EXPECT_THAT(Content("deep/down/a.txt"), HasSubstr(std::string("\0\0\x80?\0\0 @", 8)));
  Tensor name(DataType::kString, Shape());
  name.mutable_strings()[0] = Path("b");
  const absl::Status fed = Runs(text, {{"fed", name}}, "to");
  ASSERT_TRUE(fed.ok()) << fed;
  EXPECT_EQ(Content("b"), "hello");
}

// A name may say which step it is: each step's is known when it is planned.
TEST_F(WrittenFiles, HaveNamesThatStepsCompute) {
  const auto session = SessionOf(InFolder(kTexts));
  ASSERT_TRUE(session->SetVariable("v", Tensor::Scalar<int64_t>(6)).ok());
  for (const float x : {1.0f, 2.0f}) {
    const absl::Status status = session->Run({{"x", Tensor::Vector<float>({x, 0})}}, {}, {"numbered"}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Content("deep/down/a.txt7"), "x is [1 0]");
  EXPECT_EQ(Content("deep/down/a.txt8"), "x is [2 0]");
}

TEST_F(WrittenFiles, WhatCannotBeWrittenIsAnError) {
  const std::string text = InFolder(kTexts);
  Tensor name(DataType::kString, Shape());
  name.mutable_strings()[0] = "/dev/null/a/b";
  EXPECT_THAT(Runs(text, {{"fed", name}}, "to").ToString(), AllOf(HasSubstr("'to'"), HasSubstr("cannot make folder /dev/null/a")));
}

constexpr char kBranches[] = R"(
function yes ^write
  x = _Arg() {T=float, index=0}
  name = Const() {dtype=string, value=string[]{"FOLDER/yes"}}
  text = StringFormat(x) {template="{}", placeholder="{}", summarize=3}
  write = WriteFile(name, text)
  r = _Retval(x) ^write {T=float, index=0}
end
function no ^write
  x = _Arg() {T=float, index=0}
  name = Const() {dtype=string, value=string[]{"FOLDER/no"}}
  text = Const() {dtype=string, value=string[]{"no"}}
  write = WriteFile(name, text)
  r = _Retval(x) ^write {T=float, index=0}
end
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
c = If(p, x) {Tcond=bool, then_branch=&yes, else_branch=&no}
y = Identity(c) {T=float}
)";

TEST_F(WrittenFiles, BranchesThatAreNotTakenWriteNone) {
  for (const char* strategy : {"baseline", "planned"}) {
    for (const bool p : {true, false}) {
      std::filesystem::remove_all(Path(""));
      const absl::Status status = Runs(InFolder(kBranches), {{"p", Tensor::Scalar(p)}, {"x", Tensor::Scalar(3.0f)}}, "y", strategy);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(Content("yes"), p ? "3" : "none") << strategy;
      EXPECT_EQ(Content("no"), p ? "none" : "no") << strategy;
    }
  }
}

constexpr char kTurns[] = R"(
function less
  i = _Arg() {T=int32, index=0}
  three = Const() {dtype=int32, value=int32[]{3}}
  c = Less(i, three) {T=int32}
  r = _Retval(c) {T=bool, index=0}
end
function turn ^write
  i = _Arg() {T=int32, index=0}
  name = Const() {dtype=string, value=string[]{"FOLDER/turn"}}
  text = AsString(i) {T=int32}
  write = WriteFile(name, text)
  one = Const() {dtype=int32, value=int32[]{1}}
  next = AddV2(i, one) ^write {T=int32}
  r = _Retval(next) {T=int32, index=0}
end
start = Placeholder() {dtype=int32, shape=shape[]}
loop = While(start) {T=[int32], cond=&less, body=&turn}
y = Identity(loop) {T=int32}
)";

TEST_F(WrittenFiles, TheLastTurnsStays) {
  for (const char* strategy : {"baseline", "planned"}) {
    std::filesystem::remove_all(Path(""));
    const absl::Status status = Runs(InFolder(kTurns), {{"start", Tensor::Scalar(0)}}, "y", strategy);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Content("turn"), "2") << strategy;
  }
}

}  // namespace
}  // namespace millrace
