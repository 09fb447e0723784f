// What the program does with input that is wrong: one line that says what, where and what was expected; exit
// status 1 or 2; no crash, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "millrace/import.h"
#include "program.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kX[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "attr { key: 'shape' value { shape { dim { size: 2 } dim { size: 3 } } } } }\n";

std::string UnaryNode(const std::string& name, const std::string& op, const std::string& input) {
  return "node { name: '" + name + "' op: '" + op + "' input: '" + input +
         "' attr { key: 'T' value { type: DT_FLOAT } } }\n";
}

std::string BinaryNode(const std::string& name, const std::string& op, const std::string& a, const std::string& b) {
  return "node { name: '" + name + "' op: '" + op + "' input: '" + a + "' input: '" + b +
         "' attr { key: 'T' value { type: DT_FLOAT } } }\n";
}

class BadInputTest : public testing::Test {
 protected:
  // Runs `graph` (a file that was written before) with every output asked for.
  Outcome Run(const std::string& graph, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"run", "--graph=" + program_.Path(graph),
                                          "--variables_out=" + program_.Path("variables.npz"),
                                          "--fetches_out=" + program_.Path("fetches.npz"),
                                          "--trace_out=" + program_.Path("trace.json")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return program_.Run(arguments);
  }

  // One line on stderr, and hints below it; nothing on stdout, no results.
  void ExpectRefused(const Outcome& outcome, int exit_status, const testing::Matcher<std::string>& message) {
    EXPECT_EQ(outcome.exit_status, exit_status) << outcome.err;
    const std::string below = outcome.err.substr(std::min(outcome.err.find('\n') + 1, outcome.err.size()));
    EXPECT_THAT(below, testing::MatchesRegex("(hint: [^\n]*\n)*")) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(testing::StartsWith("millrace: "), message));
    for (const std::string& file : program_.Files()) {
      EXPECT_TRUE(file.find("variables") == file.npos && file.find("fetches") == file.npos &&
                  file.find(".part") == file.npos)
          << file;
    }
  }

  // A graph of the text `nodes`, of which y is fetched with synthetic feeds.
  void ExpectGraphRefused(const std::string& nodes, const testing::Matcher<std::string>& message) {
    program_.Write("graph.pbtxt", nodes);
    ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds"}), 1, message);
  }

  // x, fed from `feeds`, to y = Relu(x).
  void ExpectFeedsRefused(const std::map<std::string, Tensor>& feeds, const testing::Matcher<std::string>& message) {
    program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
    ASSERT_TRUE(SaveArrays(feeds, program_.Path("feeds.npz")).ok());
    ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--feeds=" + program_.Path("feeds.npz")}), 1, message);
  }

  void WriteModel(const std::string& name) {
    const Outcome outcome =
        program_.Run({"model", "resnet", "--depth=50", "--image_size=32", "--batch=1", "--out=" + program_.Path(name)});
    ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  }

  TestedProgram program_;
};

TEST_F(BadInputTest, AGoodGraphRuns) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  const Outcome outcome = Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST_F(BadInputTest, NumbersOfAnotherTypeAreConverted) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  Tensor integers(DataType::kInt32, {2, 3});
  std::fill(integers.mutable_as<int32_t>().begin(), integers.mutable_as<int32_t>().end(), 7);
  ASSERT_TRUE(SaveArrays({{"x", integers}}, program_.Path("feeds.npz")).ok());
  const Outcome outcome = Run("graph.pbtxt", {"--fetches=y:0", "--feeds=" + program_.Path("feeds.npz")});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("feed x is int32[2,3] in the file, and is converted to float"));
  const auto fetched = LoadArrays(program_.Path("fetches.npz"));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ(fetched->size(), 1u);
  EXPECT_THAT(fetched->begin()->second.as<float>(), testing::Each(7.0f));
}

TEST_F(BadInputTest, FilesThatAreNoGraph) {
  program_.Write("empty.pb", "");
  ExpectRefused(Run("empty.pb", {"--fetches=y:0"}), 1, HasSubstr("empty.pb"));
  program_.Write("noise.pb", std::string("\xff\x00\x13\x37 noise", 10));
  ExpectRefused(Run("noise.pb", {"--fetches=y:0"}), 1, HasSubstr("noise.pb"));
  program_.Write("text.pbtxt", "node { name: 'x' op }");
  ExpectRefused(Run("text.pbtxt", {"--fetches=y:0"}), 1, HasSubstr("text.pbtxt"));
  ExpectRefused(Run(".", {"--fetches=y:0"}), 2, HasSubstr("folder"));
}

TEST_F(BadInputTest, TruncatedGraphs) {
  WriteModel("good.pb");
  const std::string good = program_.Read("good.pb");
  ASSERT_GT(good.size(), 10000);
  for (const size_t size : {size_t{1}, size_t{1000}, good.size() / 2, good.size() - 1}) {
    program_.Write("cut.pb", good.substr(0, size));
    ExpectRefused(Run("cut.pb", {"--fetches=loss:0", "--synthetic_feeds"}), 1, testing::Not(HasSubstr("INTERNAL")));
  }
}

TEST_F(BadInputTest, CorruptGraphsNeverCrash) {
  WriteModel("good.pb");
  const std::string good = program_.Read("good.pb");
  ASSERT_GT(good.size(), 10000);
  uint64_t state = 1;
  for (int i = 0; i < 10; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[(state >> 20) % bytes.size()] = static_cast<char>(state >> 50);
    }
    program_.Write("corrupt.pb", bytes);
    const Outcome outcome = program_.Run({"plan", "--graph=" + program_.Path("corrupt.pb"), "--fetches=loss:0",
                                          "--targets=train", "--synthetic_feeds"});
    EXPECT_GE(outcome.exit_status, 0) << "case " << i << ": " << outcome.err;
  }
}

TEST_F(BadInputTest, GraphsThatMakeNoSense) {
  ExpectGraphRefused(UnaryNode("y", "Relu", "z") + UnaryNode("z", "Relu", "y"), HasSubstr("cycle"));
  ExpectGraphRefused(UnaryNode("y", "Relu", "gone"), AllOf(HasSubstr("y"), HasSubstr("gone")));
  ExpectGraphRefused(kX + UnaryNode("z", "Relu", "x") + UnaryNode("y", "Relu", "z:7"),
                     AllOf(HasSubstr("'y'"), HasSubstr("output 7 of 'z'")));
  ExpectGraphRefused(kX + UnaryNode("y", "Frobnicate", "x"), AllOf(HasSubstr("Frobnicate"), HasSubstr("'y'")));
  ExpectGraphRefused(std::string(kX) + kX + UnaryNode("y", "Relu", "x"), HasSubstr("x"));
  ExpectGraphRefused(kX + BinaryNode("y", "MatMul", "x", "x"), AllOf(HasSubstr("y"), HasSubstr("[2,3]")));
}

TEST_F(BadInputTest, DataTypesThatDoNotAgree) {
  const std::string cast =
      "node { name: 'i' op: 'Cast' input: 'x' attr { key: 'SrcT' value { type: DT_FLOAT } } "
      "attr { key: 'DstT' value { type: DT_INT32 } } }\n";
  ExpectGraphRefused(kX + cast + BinaryNode("y", "AddV2", "x", "i"),
                     AllOf(HasSubstr("y"), HasSubstr("float"), HasSubstr("int32")));
}

TEST_F(BadInputTest, FetchesTargetsAndShapesThatAreNotThere) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=why:0", "--synthetic_feeds"}), 1, HasSubstr("why"));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:3", "--synthetic_feeds"}), 1, HasSubstr("fetch 'y:3': the node 'y' has 1 output"));
  ExpectRefused(Run("graph.pbtxt", {"--targets=train", "--synthetic_feeds"}), 1, HasSubstr("train"));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0"}), 2, HasSubstr("not fed, but needed by the fetches and targets: x float[2,3]; "));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds", "--feed_shapes=z:2"}), 1, HasSubstr("z"));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds", "--feed_shapes=x:2x2"}), 1,
                AllOf(HasSubstr("x"), HasSubstr("[2,3]"), HasSubstr("[2,2]")));
}

TEST_F(BadInputTest, FeedsOfAWrongNameShapeOrType) {
  const Tensor good = Tensor(DataType::kFloat, {2, 3});
  ExpectFeedsRefused({{"x", good}, {"typo", good}}, HasSubstr("typo"));
  ExpectFeedsRefused({{"typo", good}}, HasSubstr("no node 'typo'"));
  ExpectFeedsRefused({{"x", good.Reshaped({3, 2})}}, AllOf(HasSubstr("x"), HasSubstr("[2,3]"), HasSubstr("[3,2]")));
  ExpectFeedsRefused({{"x", Tensor(DataType::kComplex64, {2, 3})}}, AllOf(HasSubstr("x"), HasSubstr("float"), HasSubstr("complex64")));
}

TEST_F(BadInputTest, ArraysThatLieAboutTheirSize) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }";
  std::string npy = "\x93NUMPY\x01";
  npy += '\0';
  npy += static_cast<char>(118);
  npy += '\0';
  npy += header + std::string(117 - header.size(), ' ') + "\n" + "few bytes";
  program_.Write("x.npy", npy);
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--feeds=" + program_.Path("x.npy")}), 1, HasSubstr("x.npy"));
  program_.Write("cut.npz", "PK\x03\x04 not an archive");
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--feeds=" + program_.Path("cut.npz")}), 1, HasSubstr("cut.npz"));
}

TEST_F(BadInputTest, AbsurdFlagsAreWrongUsage) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  for (const char* flag : {"--device_memory=-1", "--device_memory=", "--device_memory=9999999TiB", "--device_memory=0%", "--host_memory=many",
                           "--steps=-1", "--steps=1.5", "--threads=-1", "--link_gbps=nan", "--partition_size=-1",
                           "--strategy=magic", "--device=abacus", "--devices=cpu:0,/device:CPU:0", "--no_such_flag", "--plot_out=a.tiff",
                           "--report_out=/no/such/folder/report.json", "--machine=/no/such/machine.pbtxt"}) {
    ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds", flag}), 2, HasSubstr(""));
  }
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--strategy=tensorflowmem", "--swap_distance=-1"}), 2, HasSubstr("--swap_distance"));
  ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", "--device=cuda", "--device_timeout=-1"}), 2, HasSubstr("--device_timeout=-1: expected 0"));
  program_.Write("itself", "--flagfile=" + program_.Path("itself"));
  ExpectRefused(Run("graph.pbtxt", {"--flagfile=" + program_.Path("itself")}), 2, HasSubstr("flag files that name one another"));
  program_.Write("batch", "--batch=0");
  ExpectRefused(Run("graph.pbtxt", {"--flagfile=" + program_.Path("batch")}), 2, HasSubstr("--batch=0: expected at least 1"));
  ExpectRefused(program_.Run({"fit", "mlp", "--batch=-3", "--vary=budget"}), 2, HasSubstr("--batch=-3: expected at least 1"));
  for (const char* flag : {"--flagfileX=f", "--versions", "--helpfull", "--undefok=steps"}) {
    ExpectRefused(Run("graph.pbtxt", {"--fetches=y:0", flag}), 2, HasSubstr("unknown flag --"));
  }
  ExpectRefused(program_.Run({"run", "--fetches=y:0", "--saved_model=" + std::string(300, 'x')}), 2, HasSubstr("File name too long"));
  ExpectRefused(program_.Run({"frobnicate"}), 2, HasSubstr("frobnicate"));
  ExpectRefused(program_.Run({}), 2, HasSubstr("--help"));
}

TEST_F(BadInputTest, MoreThanTheMachineHolds) {
  const std::string dims =
      "node { name: 'd' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' value { tensor { "
      "dtype: DT_INT64 tensor_shape { dim { size: 1 } } int64_val: 4398046511104 } } } }\n"
      "node { name: 'v' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { "
      "dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }\n";
  ExpectGraphRefused(dims + "node { name: 'y' op: 'Fill' input: 'd' input: 'v' attr { key: 'T' value { type: DT_FLOAT } } "
                            "attr { key: 'index_type' value { type: DT_INT64 } } }\n",
                     AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("needs 16384.0 GiB of this machine's memory")));
}

TEST_F(BadInputTest, AFileThatCannotBeReadIsWrongUsageAndBadContentsAreAFailedRunButForSettings) {
  program_.Write("graph.pbtxt", kX + UnaryNode("y", "Relu", "x"));
  program_.Write("noise", "no such format");
  program_.Write("noise.index", "no such format");
  std::filesystem::create_directory(program_.Path("model"));
  program_.Write("model/saved_model.pb", "no such format");
  const struct {
    const char* flag;
    const char* bad;
    int exit_status;
  } kinds[] = {{"--graph=", "noise", 1},       {"--onnx=", "noise", 1},   {"--saved_model=", "model", 1}, {"--feeds=", "noise", 1},    {"--checkpoint_in=", "noise", 1},
               {"--plan_in=", "noise", 1},     {"--machine=", "noise", 2}, {"--profile_in=", "noise", 2},  {"--flagfile=", "noise", 2}};
  for (const auto& [flag, bad, exit_status] : kinds) {
    const bool is_graph = flag == std::string("--onnx=") || flag == std::string("--saved_model=");
    const auto with = [&, flag = flag](const std::string& path) {
      return is_graph ? program_.Run({"run", flag + path}) : Run("graph.pbtxt", {"--fetches=y:0", "--synthetic_feeds", flag + path});
    };
    ExpectRefused(with(program_.Path("missing")), 2, AllOf(HasSubstr("missing"), HasSubstr("No such file")));
    ExpectRefused(with(program_.Path(bad)), exit_status, HasSubstr(bad));
    if (flag == std::string("--saved_model=") || flag == std::string("--checkpoint_in=")) continue;  // which name folders and prefixes
    ExpectRefused(with(program_.Path("")), 2, HasSubstr("is a folder, expected a file"));
    ExpectRefused(with("/dev/zero"), 2, HasSubstr("/dev/zero is a device, expected a file or a pipe"));
  }
}

TEST_F(BadInputTest, OutputsOverwriteNeitherInputsNorOneAnother) {
  const std::string graph = kX + UnaryNode("y", "Relu", "x");
  program_.Write("graph.pbtxt", graph);
  const std::vector<std::string> flags = {"--fetches=y:0", "--synthetic_feeds"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> all = flags;
    all.push_back(flag);
    return Run("graph.pbtxt", all);
  };
  ExpectRefused(with("--report_out=" + program_.Path("./graph.pbtxt")), 2, AllOf(HasSubstr("--report_out="), HasSubstr("--graph")));
  EXPECT_EQ(program_.Read("graph.pbtxt"), graph);
  ExpectRefused(with("--html_out=" + program_.Path("trace.json")), 2, AllOf(HasSubstr("--html_out="), HasSubstr("--trace_out")));
}

TEST_F(BadInputTest, AVariableWithoutAValueIsNamed) {
  WriteModel("model.pb");
  const std::vector<std::string> flags = {"--fetches=loss:0", "--targets=train", "--synthetic_feeds"};
  ExpectRefused(Run("model.pb", flags), 1, AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("has no value")));
}

TEST_F(BadInputTest, WhatDoesNotFitIsRefusedWithTheFigures) {
  WriteModel("model.pb");
  const Outcome outcome =
      Run("model.pb", {"--fetches=loss:0", "--targets=train", "--init_targets=init", "--synthetic_feeds",
                       "--device_memory=200KiB", "--report_out=" + program_.Path("report.json")});
  ExpectRefused(outcome, 3, AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("budget"), HasSubstr("200.00 KiB")));
  EXPECT_THAT(program_.Read("report.json"), HasSubstr("\"status\": \"RESOURCE_EXHAUSTED\""));
  EXPECT_THAT(program_.Read("report.json"), HasSubstr("\"step_seconds\": []"));
}

}  // namespace
}  // namespace millrace
