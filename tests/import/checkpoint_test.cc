#include "import/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "files/crc32c.h"
#include "graph/text.h"
#include "import/tensor_slice.h"
#include "millrace/import.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, Tensor>;

std::string DataPath(const std::string& name) { return MILLRACE_SOURCE_DIR "/tests/import/data/" + name; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string TextOf(const absl::StatusOr<Tensors>& tensors) {
  if (!tensors.ok()) return std::string(tensors.status().message());
  std::string text;
  for (const auto& [name, tensor] : *tensors) text += name + " " + AttrValueToText(tensor) + "\n";
  return text;
}

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() { std::filesystem::create_directories(folder_); }
  ~Checkpoint() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // A copy of what TensorFlow wrote, to be damaged.
  std::string CopyOfTensorFlows() const {
    for (const char* suffix : {".index", ".data-00000-of-00001"}) {
      WriteFile(Path("copy") + suffix, ReadFile(DataPath("tensorflow") + suffix));
    }
    return Path("copy");
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/millrace_checkpoint_", getpid());
};

TEST(Crc32c, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(ExtendCrc32c(0, "123456789"), 0xe3069283u);
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(ExtendCrc32c(ExtendCrc32c(0, "1234567"), "89"), 0xe3069283u) << "in pieces";
}

TEST_F(Checkpoint, ReadsEveryTypeThatTensorFlowWrites) {
  std::string long_string(300, 'x');
  std::string ramp;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&ramp, i > 0 ? ", " : "", i, ".0");
  EXPECT_EQ(TextOf(ReadCheckpoint(DataPath("tensorflow"))),
            absl::StrCat("bfloat16 bfloat16[2]{1.0, -2.0}\n"
                         "bool bool[3]{true, false, true}\n"
                         "complex128 complex128[1]{(-0.0, -1.5)}\n"
                         "complex64 complex64[1]{(1.0, 2.0)}\n"
                         "double double[2]{0.1, 1e+300}\n"
                         "empty float[0,3]{}\n"
                         "half half[2]{0.5, -65504.0}\n"
                         "int16 int16[2]{-32768, 32767}\n"
                         "int32 int32[2,3]{1, 2, 3, 4, 5, 6}\n"
                         "int64 int64[]{-9223372036854775808}\n"
                         "int8 int8[2]{-128, 127}\n"
                         "layer/kernel float[2]{0.1, -inf}\n"
                         "layer/kernel/Adam float[300]{", ramp, "}\n"
                         "string string[2,2]{\"abc\", \"\", \"\\xff\\x01\", \"", long_string, "\"}\n"
                         "uint16 uint16[2]{0, 65535}\n"
                         "uint32 uint32[1]{4294967295}\n"
                         "uint64 uint64[1]{18446744073709551615}\n"
                         "uint8 uint8[2]{0, 255}\n"));
}

// TensorFlow was seen to read data/millrace.index: make_checkpoint.py --check.
TEST_F(Checkpoint, WritesTheBytesThatTensorFlowWasSeenToRead) {
  const absl::StatusOr<Tensors> tensors = ReadCheckpoint(DataPath("tensorflow"));
  ASSERT_TRUE(tensors.ok());
  ASSERT_TRUE(WriteCheckpoint(Path("written"), *tensors).ok());
  EXPECT_EQ(TextOf(ReadCheckpoint(Path("written"))), TextOf(tensors));
  EXPECT_TRUE(ReadFile(Path("written.index")) == ReadFile(DataPath("millrace.index")));
  EXPECT_TRUE(ReadFile(Path("written.data-00000-of-00001")) == ReadFile(DataPath("tensorflow.data-00000-of-00001")));
}

TEST_F(Checkpoint, TensorByTensorItIsTheSameAndTheFormerIsThereUntilItIsFinished) {
  const absl::StatusOr<Tensors> tensors = ReadCheckpoint(DataPath("tensorflow"));
  ASSERT_TRUE(tensors.ok());
  ASSERT_TRUE(WriteCheckpoint(Path("c"), {{"step", Tensor::Scalar<int32_t>(1)}}).ok());
  for (const bool finished : {false, true}) {
    auto writer = OpenCheckpoint(Path("c"));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (auto at = tensors->rbegin(); at != tensors->rend(); ++at) ASSERT_TRUE((*writer)->Add(at->first, at->second).ok());
    if (!finished) {
      // What could not be added would be missing: the writer is of no use any more.
      const absl::Status twice = (*writer)->Add("half", Tensor::Scalar(1.0f));
      EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ((*writer)->Add("other", Tensor::Scalar(1.0f)), twice);
      EXPECT_EQ((*writer)->Finish(), twice);
    }
    EXPECT_EQ(TextOf(ReadCheckpoint(Path("c"))), "step int32[]{1}\n");
    if (finished) {
      ASSERT_TRUE((*writer)->Finish().ok());
    }
    writer->reset();
    EXPECT_EQ(Files().size(), 2);
  }
  EXPECT_EQ(TextOf(ReadCheckpoint(Path("c"))), TextOf(tensors));
}

TEST_F(Checkpoint, SavingAgainReplacesTheFormerAndLeavesNoOtherFile) {
  for (int32_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(WriteCheckpoint(Path("c"), {{"step", Tensor::Scalar(step)}}).ok());
    EXPECT_EQ(TextOf(ReadCheckpoint(Path("c"))), absl::StrCat("step int32[]{", step, "}\n"));
    EXPECT_THAT(Files(), ::testing::ElementsAre(step % 2 == 1 ? "c.data-00000-of-00001" : "c.data-00000-of-00002",
                                                "c.index"));
  }
}

Tensors LargeTensors(float value) {
  Tensors tensors;
  for (const char* name : {"a", "b"}) {
    Tensor tensor(DataType::kFloat, Shape({1 << 18}));
    for (float& x : tensor.mutable_as<float>()) x = value;
    tensors[name] = tensor;
  }
  return tensors;
}

TEST_F(Checkpoint, ACrashWhileSavingLeavesTheFormerOrTheNewOneWhole) {
  constexpr int kCrashes = 40;
  std::mt19937 random(3);
  ASSERT_TRUE(WriteCheckpoint(Path("c"), LargeTensors(0)).ok());
  float former = 0;
  int crashed_before_the_end = 0;
  for (int i = 1; i <= kCrashes; ++i) {
    const float value = static_cast<float>(i);
    const pid_t child = fork();
    if (child == 0) _exit(WriteCheckpoint(Path("c"), LargeTensors(value)).ok() ? 0 : 1);
    ASSERT_GT(child, 0);
    usleep(random() % 12000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    crashed_before_the_end += WIFSIGNALED(status);
    const absl::StatusOr<Tensors> now = ReadCheckpoint(Path("c"));
    ASSERT_TRUE(now.ok()) << now.status();
    const float a = now->at("a").as<float>()[0];
    ASSERT_EQ(a, now->at("b").as<float>()[0]);
    ASSERT_TRUE(a == former || a == value) << a << " is neither " << former << " nor " << value;
    former = a;
  }
  EXPECT_GT(crashed_before_the_end, 0);
}

TEST_F(Checkpoint, OfTwoThatAreSavedAtOnceTheLaterOneIsThereWhole) {
  for (const bool former : {false, true}) {
    if (former) {
      ASSERT_TRUE(WriteCheckpoint(Path("c"), LargeTensors(0)).ok());
    }
    auto one = OpenCheckpoint(Path("c")), two = OpenCheckpoint(Path("c"));
    ASSERT_TRUE(one.ok() && two.ok());
    for (const auto& [name, tensor] : LargeTensors(1)) ASSERT_TRUE((*one)->Add(name, tensor).ok());
    ASSERT_TRUE((*two)->Add("step", Tensor::Scalar<int32_t>(2)).ok());
    ASSERT_TRUE((*one)->Finish().ok());
    ASSERT_TRUE((*two)->Finish().ok());
    EXPECT_EQ(TextOf(ReadCheckpoint(Path("c"))), "step int32[]{2}\n");
    EXPECT_EQ(Files().size(), 2);
  }
}

TEST_F(Checkpoint, ProcessesThatSaveUnderOnePrefixDoNotMix) {
  constexpr int kRounds = 10, kProcesses = 4, kSaves = 3;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (int process = 1; process <= kProcesses; ++process) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      const Tensor value = Tensor::Scalar<int32_t>(process);
      for (int i = 0; i < kSaves; ++i) {
        if (!WriteCheckpoint(Path("c"), {{"a", value}, {"b", value}}).ok()) _exit(1);
      }
      _exit(0);
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      ASSERT_EQ(status, 0);
    }
    const absl::StatusOr<Tensors> now = ReadCheckpoint(Path("c"));
    ASSERT_TRUE(now.ok()) << now.status();
    ASSERT_TRUE(now->at("a").BitEqual(now->at("b")));
    ASSERT_EQ(Files().size(), 2);
  }
}

TEST_F(Checkpoint, AFullDiskLeavesTheFormerOneWhole) {
  ASSERT_TRUE(WriteCheckpoint(Path("c"), LargeTensors(1)).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(WriteCheckpoint(Path("c"), LargeTensors(2)).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1) << "the error must be reported";
  EXPECT_EQ(ReadCheckpoint(Path("c"))->at("a").as<float>()[0], 1);
  EXPECT_THAT(Files(), ::testing::ElementsAre("c.data-00000-of-00001", "c.index"));
}

TEST_F(Checkpoint, DamageIsFoundAndNamed) {
  const std::string prefix = CopyOfTensorFlows();
  const std::string data = ReadFile(prefix + ".data-00000-of-00001");
  std::string flipped = data;
  flipped[100] ^= 1;
  WriteFile(prefix + ".data-00000-of-00001", flipped);
  EXPECT_THAT(TextOf(ReadCheckpoint(prefix)), AllOf(HasSubstr("copy.data-00000-of-00001: tensor '"),
                                                    HasSubstr("corrupt: its checksum is wrong")));
  WriteFile(prefix + ".data-00000-of-00001", data.substr(0, 1000));
  EXPECT_THAT(TextOf(ReadCheckpoint(prefix)), HasSubstr("truncated: bytes "));
  std::filesystem::remove(prefix + ".data-00000-of-00001");
  EXPECT_THAT(TextOf(ReadCheckpoint(prefix)), HasSubstr("copy.data-00000-of-00001"));
  EXPECT_THAT(TextOf(ReadCheckpoint(Path("nowhere"))), HasSubstr("nowhere.index"));
}

TEST_F(Checkpoint, ATensorIsReadWithoutTheOthers) {
  const std::string prefix = CopyOfTensorFlows();
  const std::string data_path = prefix + ".data-00000-of-00001";
  const absl::StatusOr<CheckpointIndex> index = ParseCheckpointIndex(ReadFile(prefix + ".index"));
  ASSERT_TRUE(index.ok());
  std::string data = ReadFile(data_path);
  data[index->entries.at("uint8").offset()] ^= 1;
  WriteFile(data_path, data);
  const auto reader = OpenCheckpointReader(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->names().size(), index->entries.size());
  EXPECT_EQ((*reader)->Read("uint64")->type().ToString(), "uint64[1]");
  EXPECT_THAT(std::string((*reader)->Read("uint8").status().message()), HasSubstr("tensor 'uint8': corrupt: its checksum is wrong"));
  EXPECT_EQ((*reader)->Read("stranger").status().code(), absl::StatusCode::kNotFound);
}

// What make_checkpoint.py saved in slices, whole.
constexpr char kEmbedding[] = "0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, "
                              "20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0";

Tensor Bytes(int64_t count, int8_t value) {
  Tensor tensor(DataType::kInt8, Shape({count}));
  for (int8_t& x : tensor.mutable_as<int8_t>()) x = value;
  return tensor;
}

TEST_F(Checkpoint, SlicesThatTensorFlowWroteAreOneTensor) {
  absl::StatusOr<Tensors> tensors = ReadCheckpoint(DataPath("sliced"));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const Tensor bytes = tensors->extract("long").mapped();
  EXPECT_EQ(TextOf(tensors), absl::StrCat(std::string("a\0b\xff bool[2]{true, false}\n", 26),
                                          "columns int32[2,6]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                                          "net/emb float[10,4]{", kEmbedding, "}\n"
                                          "one int64[3]{1, 2, 3}\n"));
  ASSERT_EQ(bytes.type().ToString(), "int8[9000]");
  for (int64_t i = 0; i < 9000; ++i) ASSERT_EQ(bytes.IntAt(i), i < 64 ? 1 : i < 8200 ? 2 : 3) << i;
}

TEST_F(Checkpoint, OtherSlicesThanThoseSavedAreRead) {
  const auto reader = OpenCheckpointReader(DataPath("sliced"));
  ASSERT_TRUE(reader.ok());
  const Shape whole({10, 4});
  const absl::StatusOr<Tensor> middle = (*reader)->ReadSlice("net/emb", {whole, {3, 1}, Shape({5, 2})});
  ASSERT_TRUE(middle.ok()) << middle.status();
  EXPECT_EQ(AttrValueToText(*middle), "float[5,2]{13.0, 14.0, 17.0, 18.0, 21.0, 22.0, 25.0, 26.0, 29.0, 30.0}");
  EXPECT_EQ(AttrValueToText(*(*reader)->ReadSlice("one", {Shape({3}), {1}, Shape({2})})), "int64[2]{2, 3}") << "saved whole";
  EXPECT_THAT(std::string((*reader)->ReadSlice("net/emb", {Shape({12, 4}), {0, 0}, Shape({6, 4})}).status().message()),
              HasSubstr("tensor 'net/emb': is float[10,4], expected [12,4]"));
  EXPECT_EQ((*reader)->ReadSlice("stranger", {whole, {0, 0}, whole}).status().code(), absl::StatusCode::kNotFound);
}

// The same keys and entries, so TensorFlow reads it.
TEST_F(Checkpoint, SlicesAreWrittenAsTensorFlowWritesThem) {
  const auto reader = OpenCheckpointReader(DataPath("sliced"));
  auto writer = OpenCheckpoint(Path("c"));
  ASSERT_TRUE(reader.ok() && writer.ok());
  const std::vector<std::pair<std::string, TensorSlice>> slices = {
      {"net/emb", {Shape({10, 4}), {0, 0}, Shape({4, 4})}}, {"net/emb", {Shape({10, 4}), {4, 0}, Shape({3, 4})}},
      {"net/emb", {Shape({10, 4}), {7, 0}, Shape({3, 4})}}, {"long", {Shape({9000}), {0}, Shape({64})}},
      {"long", {Shape({9000}), {64}, Shape({8136})}},       {"long", {Shape({9000}), {8200}, Shape({800})}},
      {"one", {Shape({3}), {0}, Shape({3})}},               {std::string("a\0b\xff", 4), {Shape({2}), {0}, Shape({1})}},
      {std::string("a\0b\xff", 4), {Shape({2}), {1}, Shape({1})}}};
  for (const auto& [name, slice] : slices) {
    const absl::StatusOr<Tensor> part = (*reader)->ReadSlice(name, slice);
    ASSERT_TRUE(part.ok()) << part.status();
    const absl::Status added = (*writer)->AddSlice(name, slice, *part);
    ASSERT_TRUE(added.ok()) << added;
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const absl::StatusOr<CheckpointIndex> ours = ParseCheckpointIndex(ReadFile(Path("c.index")));
  absl::StatusOr<CheckpointIndex> theirs = ParseCheckpointIndex(ReadFile(DataPath("sliced.index")));
  ASSERT_TRUE(ours.ok() && theirs.ok());
  std::erase_if(theirs->entries, [](const auto& entry) { return absl::StrContains(entry.first, "columns"); });  // with whole extents
  ASSERT_EQ(ours->entries.size(), theirs->entries.size());
  for (const auto& [key, entry] : theirs->entries) {
    ASSERT_EQ(ours->entries.count(key), 1) << key;
    proto::BundleEntryProto with_their_place = ours->entries.at(key);
    with_their_place.set_offset(entry.offset());
    EXPECT_EQ(with_their_place.SerializeAsString(), entry.SerializeAsString()) << key;
  }
}

TEST_F(Checkpoint, WhatIsNoSliceOfTheTensorIsRefused) {
  const TensorSlice first{Shape({9000}), {0}, Shape({64})};
  const auto refused = [&](const std::string& name, const TensorSlice& slice, int64_t bytes) {
    auto writer = OpenCheckpoint(Path("c"));
    EXPECT_TRUE(writer.ok() && (*writer)->AddSlice("long", first, Bytes(64, 0)).ok() && (*writer)->Add("one", Bytes(3, 0)).ok());
    return std::string((*writer)->AddSlice(name, slice, Bytes(bytes, 0)).message());
  };
  EXPECT_THAT(refused("long", {Shape({9001}), {0}, Shape({9})}, 9), HasSubstr("int8[9] is no slice of tensor 'long' of shape [9001], which was added otherwise"));
  EXPECT_THAT(refused("one", {Shape({3}), {0}, Shape({2})}, 2), HasSubstr("which was added otherwise"));
  EXPECT_THAT(refused("short", {Shape({9}), {0}, Shape({3})}, 2), HasSubstr("int8[2] is no slice of tensor 'short'"));
}

TEST_F(Checkpoint, SlicesThatAreNotWithinTheirTensorAreRefused) {
  ASSERT_TRUE(WriteCheckpoint(Path("c"), {{"one", Bytes(4, 1)}}).ok());
  const auto reader = OpenCheckpointReader(Path("c"));
  ASSERT_TRUE(reader.ok());
  const TensorSlice outside[] = {{Shape({4}), {3}, Shape({2})},        {Shape({4}), {-1}, Shape({2})},     {Shape({4}), {5}, Shape({0})},
                                 {Shape({4}), {0}, Shape({-1})},       {Shape({4}), {0}, Shape({2, 1})},   {Shape({4}), {0, 0}, Shape({2})},
                                 {Shape({4}), {}, Shape({})},          {Shape({-1}), {0}, Shape({2})},     {Shape({4}), {INT64_MAX}, Shape({2})},
                                 {Shape({4}), {1}, Shape({INT64_MAX})}, {Shape::UnknownRank(), {}, Shape({2})}};
  for (const TensorSlice& slice : outside) {
    const absl::Status read = (*reader)->ReadSlice("one", slice).status();
    EXPECT_TRUE(absl::IsInvalidArgument(read)) << read;
    EXPECT_THAT(std::string(read.message()), AllOf(HasSubstr("tensor 'one'"), HasSubstr("does not lie within")));
    const auto writer = OpenCheckpoint(Path("d"));
    ASSERT_TRUE(writer.ok());
    const absl::Status written = (*writer)->AddSlice("one", slice, Bytes(2, 1));
    EXPECT_TRUE(absl::IsInvalidArgument(written)) << written;
    EXPECT_THAT(std::string(written.message()), AllOf(HasSubstr("tensor 'one'"), HasSubstr("does not lie within")));
  }
  const auto writer = OpenCheckpoint(Path("d"));
  EXPECT_THAT(std::string((*writer)->AddSlice("one", {Shape({4}), {0}, Shape({4})}, Bytes(3, 1)).message()), HasSubstr("int8[3] is no slice"));
}

// As many elements as the tensor has, one of them twice and one not at all.
TEST_F(Checkpoint, SlicesThatOverlapAreRefused) {
  const auto writer = OpenCheckpoint(Path("c"));
  ASSERT_TRUE(writer.ok() && (*writer)->AddSlice("one", {Shape({4}), {0}, Shape({3})}, Bytes(3, 1)).ok());
  EXPECT_THAT(std::string((*writer)->AddSlice("one", {Shape({4}), {2}, Shape({1})}, Bytes(1, 1)).message()),
              HasSubstr("tensor 'one': two of its slices hold the same elements"));
  const Shape whole({4, 4});
  const TensorSlice left{whole, {0, 0}, Shape({4, 2})}, right{whole, {0, 2}, Shape({4, 2})}, low{whole, {3, 0}, Shape({1, 4})};
  const TensorSlice none{whole, {0, 0}, Shape({0, 4})};
  EXPECT_FALSE(AnyOverlap({right, left, none}));
  EXPECT_TRUE(AnyOverlap({right, low}));
  EXPECT_TRUE(AnyOverlap({low, left, right}));
  EXPECT_FALSE(AnyOverlap({}));
  EXPECT_TRUE(AnyOverlap({WholeSlice(Shape({})), WholeSlice(Shape({}))}));
}

TEST_F(Checkpoint, ASliceThatIsMissingIsNamed) {
  auto writer = OpenCheckpoint(Path("c"));
  ASSERT_TRUE((*writer)->AddSlice("long", {Shape({9}), {0}, Shape({3})}, Bytes(3, 1)).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = OpenCheckpointReader(Path("c"));
  EXPECT_THAT(std::string((*reader)->Read("long").status().message()),
              HasSubstr("c: tensor 'long': its slices hold 3 of the 9 elements that are asked for"));
  EXPECT_EQ((*reader)->ReadSlice("long", {Shape({9}), {1}, Shape({2})})->num_elements(), 2);
}

TEST_F(Checkpoint, EveryTruncationOfTheIndexIsAnError) {
  const std::string whole = ReadFile(DataPath("tensorflow.index"));
  ASSERT_TRUE(ParseCheckpointIndex(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_FALSE(ParseCheckpointIndex(whole.substr(0, length)).ok()) << length;
  }
}

TEST_F(Checkpoint, EveryFlippedByteOfTheIndexIsAnErrorOrHarmless) {
  const std::string whole = ReadFile(DataPath("tensorflow.index"));
  const absl::StatusOr<CheckpointIndex> expected = ParseCheckpointIndex(whole);
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 0x55;
    const absl::StatusOr<CheckpointIndex> index = ParseCheckpointIndex(damaged);
    refused += !index.ok();
    if (!index.ok()) continue;
    ASSERT_EQ(index->entries.size(), expected->entries.size()) << i;
    for (const auto& [key, entry] : expected->entries) {
      ASSERT_EQ(index->entries.at(key).SerializeAsString(), entry.SerializeAsString()) << i;
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) * 3 / 4) << "only the footer's padding may change unseen";
}

TEST_F(Checkpoint, WhatIsNoPrefixIsNamed) {
  const auto message = [](const std::string& prefix) { return std::string(OpenCheckpointReader(prefix).status().message()); };
  const std::string prefix = CopyOfTensorFlows();
  EXPECT_TRUE(OpenCheckpointReader(prefix + ".index").ok());
  EXPECT_EQ(message(folder_), folder_ + " is a folder, expected the prefix of a checkpoint, PREFIX of PREFIX.index");
  WriteFile(Path("old"), "text");
  EXPECT_THAT(message(Path("old")), HasSubstr("old: truncated or corrupt (it does not end as a table does), expected a TensorFlow "
                                              "checkpoint (of format V1, or the prefix of one of format V2: PREFIX of PREFIX.index)"));
  EXPECT_THAT(message(Path("none")), HasSubstr("none.index"));
}

TEST_F(Checkpoint, TensorsWithoutBytesCannotBeSaved) {
  const absl::Status status = WriteCheckpoint(Path("c"), {{"h", Tensor(DataType::kResource, Shape())}});
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'h' of type resource[] cannot be saved"));
  EXPECT_TRUE(Files().empty());
}

}  // namespace
}  // namespace millrace
