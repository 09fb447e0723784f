// Training that stops and goes on from a checkpoint gives the bits of training that does not stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace millrace {
namespace {

// w gains noise of every stateful random op at each step: with seeds, without, of other lengths, shuffled.
constexpr char kGraph[] = R"(
node { name: "w" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 6 } } } } }
node { name: "zeros" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 6 } } float_val: 0 } } } }
node { name: "init" op: "Assign" input: "w" input: "zeros" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "six" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 6 } } } }
node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } } }
node { name: "seeded" op: "RandomUniform" input: "six" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "T" value { type: DT_INT32 } } attr { key: "seed" value { i: 3 } } }
node { name: "unseeded" op: "RandomStandardNormal" input: "six" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "truncated" op: "TruncatedNormal" input: "six" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "T" value { type: DT_INT32 } } }
node { name: "sum" op: "AddN" input: "seeded" input: "unseeded" input: "truncated"
       attr { key: "N" value { i: 3 } } attr { key: "T" value { type: DT_FLOAT } } }
node { name: "shuffled" op: "RandomShuffle" input: "sum" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "train" op: "AssignAdd" input: "w" input: "shuffled" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "loss" op: "Sum" input: "train" input: "axis" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "Tidx" value { type: DT_INT32 } } }
)";

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override { program_.Write("graph.pbtxt", kGraph); }

  // The digest of all variables after `steps` steps.
  std::string Digest(int steps, const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {"run", "--graph=" + program_.Path("graph.pbtxt"), "--fetches=loss:0",
                                          "--targets=train", "--steps=" + std::to_string(steps), "--seed=5",
                                          "--report_out=" + program_.Path("report.json")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = program_.Run(arguments);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
    const std::string report = program_.Read("report.json"), key = "\"variables_digest\": \"";
    const size_t at = report.find(key);
    EXPECT_NE(at, std::string::npos) << report;
    return report.substr(at + key.size(), 16);
  }

  TestedProgram program_;
};

TEST_F(ResumeTest, StreamsOfRandomOpsGoOnFromACheckpoint) {
  const std::string checkpoint = program_.Path("checkpoint");
  const std::string whole = Digest(5, {"--init_targets=init"});
  const std::string first = Digest(3, {"--init_targets=init", "--checkpoint_out=" + checkpoint});
  EXPECT_NE(first, whole);
  EXPECT_EQ(Digest(2, {"--checkpoint_in=" + checkpoint}), whole);
}

TEST_F(ResumeTest, InitialisersThatRunBeforeACheckpointIsReadDoNotCount) {
  const std::string checkpoint = program_.Path("checkpoint");
  Digest(3, {"--init_targets=init", "--checkpoint_out=" + checkpoint});
  EXPECT_EQ(Digest(2, {"--init_targets=init", "--checkpoint_in=" + checkpoint}), Digest(5, {"--init_targets=init"}));
}

}  // namespace
}  // namespace millrace
