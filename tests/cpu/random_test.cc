// The expected numbers were made with TensorFlow 2.21: tf.raw_ops with seed=87654321, seed2=12, two runs of a session.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cpu/kernels/philox.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

// A node that keeps its state from run to run, as in a session.
class StatefulNode {
 public:
  StatefulNode(const NodeRun& run, std::string name = "node", uint64_t seed = 0)
      : instance_(Infer(run).value()), inputs_(run.inputs), state_(8, 0), seed_(seed) {
    instance_.name = std::move(name);
    kernel_ = (*CpuKernels().Find(run.op))(instance_).value();
  }
  Tensor Run(int threads = 1) {
    Tensor output(instance_.outputs[0].dtype, instance_.outputs[0].shape);
    Tensor scratch(DataType::kUint8, Shape({kernel_->scratch_bytes()}));
    std::vector<void*> in, out = {output.mutable_data()};
    for (Tensor& input : inputs_) in.push_back(input.mutable_data());
    ThreadsRunner runner(threads);
    KernelContext context;
    context.instance = &instance_;
    context.inputs = in.data();
    context.outputs = out.data();
    context.scratch = scratch.mutable_data();
    context.state = state_.data();
    context.parallel = &runner;
    context.seed = seed_;
    const absl::Status status = kernel_->Run(context);
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }

 private:
  OpInstance instance_;
  std::vector<Tensor> inputs_;
  std::vector<char> state_;
  uint64_t seed_;
  std::unique_ptr<Kernel> kernel_;
};

AttrMap Seeded(DataType dtype = DataType::kFloat) {
  AttrMap attrs;
  attrs.Set("seed", int64_t{87654321});
  attrs.Set("seed2", int64_t{12});
  attrs.Set("dtype", dtype);
  return attrs;
}

NodeRun OfShape(const char* op, const AttrMap& attrs, int32_t elements) {
  return {op, attrs, {Tensor::Vector<int32_t>({elements})}, {true}};
}

constexpr int32_t kMany = 70001;

// Elements 0, 1, 2, 33333 and the last two of a tensor of kMany.
std::vector<double> Picks(const Tensor& tensor) {
  std::vector<double> picks;
  for (int64_t i : {0, 1, 2, 33333, kMany - 2, kMany - 1}) picks.push_back(tensor.DoubleAt(i));
  return picks;
}

using testing::ElementsAre;
using testing::Pointwise;

MATCHER(NearToRounding, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-6; }

TEST(Philox, GivesTheWordsOfItsAuthors) {
  uint32_t words[4];
  Philox().GenerateOne(words);
  EXPECT_THAT(words, ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  Philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}).GenerateOne(words);
  EXPECT_THAT(words, ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
}

TEST(Philox, BatchesAreTheSamplesOneByOneAcrossTheCarry) {
  const Philox philox(7, ~uint64_t{0} - 5, 3);
  uint32_t batch[Philox::kBatchWords], one[4];
  philox.Generate(batch);
  for (int i = 0; i < Philox::kBatch; ++i) {
    philox.After(i).GenerateOne(one);
    EXPECT_EQ(std::memcmp(one, batch + 4 * i, sizeof(one)), 0) << i;
  }
}

TEST(StatefulRandom, UniformStreamsAreTensorFlowsBitForBit) {
  StatefulNode floats(OfShape("RandomUniform", Seeded(), kMany));
  EXPECT_THAT(Picks(floats.Run()), ElementsAre(0x1.45b5c8p-1, 0x1.d92284p-1, 0x1.5a4104p-1, 0x1.568fp-1, 0x1.6e5a2cp-1,
                                               0x1.7ab11p-2));
  EXPECT_THAT(Picks(floats.Run()), ElementsAre(0x1.2d407p-2, 0x1.9a09p-1, 0x1.5b5b7p-1, 0x1.1eee2cp-1, 0x1.979708p-2,
                                               0x1.41b76p-2));
  StatefulNode doubles(OfShape("RandomUniform", Seeded(DataType::kDouble), kMany));
  EXPECT_THAT(Picks(doubles.Run()),
              ElementsAre(0x1.6d720c7648a10p-4, 0x1.a41078301168cp-2, 0x1.60de74ee2bb6ap-1, 0x1.d52433cd43608p-1,
                          0x1.d08d99e86bf36p-1, 0x1.62bc11b7a9e54p-1));
  EXPECT_THAT(Picks(doubles.Run()),
              ElementsAre(0x1.6a038d99a0900p-2, 0x1.b5b7326c73e20p-2, 0x1.bbb9bdc7d1cd8p-2, 0x1.1a37c7b72dd76p-1,
                          0x1.90a974a13a3c6p-1, 0x1.4617361c593b8p-1));
}

TEST(StatefulRandom, IntegersAreTensorFlowsBitForBit) {
  const NodeRun run{"RandomUniformInt",
                    Seeded(DataType::kInt32),
                    {Tensor::Vector<int32_t>({kMany}), Tensor::Scalar<int32_t>(-7), Tensor::Scalar<int32_t>(100)},
                    {true}};
  StatefulNode node(run);
  EXPECT_THAT(Picks(node.Run()), ElementsAre(11, -2, 66, 75, 77, 15));
  EXPECT_THAT(Picks(node.Run()), ElementsAre(12, 36, 84, 74, 44, 2));
}

TEST(StatefulRandom, NormalStreamsAreTensorFlowsToRounding) {
  StatefulNode normal(OfShape("RandomStandardNormal", Seeded(), kMany));
  EXPECT_THAT(Picks(normal.Run()), Pointwise(NearToRounding(), {-0.43663138151168823, 0.8449774980545044,
                                                                -0.011809858493506908, -0.3044925034046173,
                                                                -0.08344508707523346, -0.9186021089553833}));
  EXPECT_THAT(Picks(normal.Run()), Pointwise(NearToRounding(), {-1.4851402044296265, 0.4913349449634552,
                                                                0.5651258230209351, -0.8532976508140564,
                                                                -1.2910315990447998, 0.766811728477478}));
  StatefulNode truncated(OfShape("TruncatedNormal", Seeded(), kMany));
  EXPECT_THAT(Picks(truncated.Run()), Pointwise(NearToRounding(), {-0.43663138151168823, 0.8449774980545044,
                                                                   -0.011809858493506908, -1.1016473770141602,
                                                                   -0.4289003014564514, -0.18307508528232574}));
  EXPECT_THAT(Picks(truncated.Run()), Pointwise(NearToRounding(), {-1.4851402044296265, 0.4913349449634552,
                                                                   0.5651258230209351, 0.07302701473236084,
                                                                   1.1484266519546509, -0.7775557041168213}));
}

// The first layer's dropout of a recurrent layer, by `kernel`, for a node of this name.
Tensor DropoutOf(const Kernel& kernel, OpInstance instance, std::vector<Tensor> inputs, std::string name) {
  instance.name = std::move(name);
  Tensor scratch(DataType::kUint8, Shape({kernel.scratch_bytes()}));
  std::vector<Tensor> outputs;
  for (const TensorType& type : instance.outputs) outputs.emplace_back(type.dtype, type.shape);
  std::vector<void*> in, out;
  for (Tensor& input : inputs) in.push_back(input.mutable_data());
  for (Tensor& output : outputs) out.push_back(output.mutable_data());
  uint64_t state = 0;
  ThreadsRunner runner(1);
  KernelContext context;
  context.instance = &instance;
  context.inputs = in.data();
  context.outputs = out.data();
  context.scratch = scratch.mutable_data();
  context.state = &state;
  context.parallel = &runner;
  const absl::Status status = kernel.Run(context);
  EXPECT_TRUE(status.ok()) << status;
  return outputs[3];
}

TEST(StatefulRandom, NodesThatShareAKernelOfHalvesDrawFromStreamsOfTheirOwn) {
  constexpr int64_t kSteps = 20, kBatch = 4, kUnits = 3, kParams = 2 * (2 * kUnits * kUnits + 2 * kUnits);
  const auto zeros = [](const Shape& shape) {
    Tensor tensor(DataType::kHalf, shape);
    std::memset(tensor.mutable_data(), 0, tensor.size_bytes());
    return tensor;
  };
  const NodeRun run{"CudnnRNN",
                    {{"T", DataType::kHalf}, {"rnn_mode", std::string("rnn_tanh")}, {"dropout", 0.5f}},
                    {zeros(Shape({kSteps, kBatch, kUnits})), zeros(Shape({2, kBatch, kUnits})), zeros(Shape({})), zeros(Shape({kParams}))}};
  const OpInstance instance = Infer(run).value();
  const auto kernel = (*CpuKernels().Find(run.op))(instance).value();
  const Tensor first = DropoutOf(*kernel, instance, run.inputs, "first"), other = DropoutOf(*kernel, instance, run.inputs, "other");
  EXPECT_TRUE(first.BitEqual(DropoutOf(*kernel, instance, run.inputs, "first")));
  EXPECT_FALSE(first.BitEqual(other));
}

TEST(StatefulRandom, WhatGeneratorsBeginWithFollowsFromTheSessionsSeed) {
  const NodeRun run{"NonDeterministicInts", {}, {Tensor::Vector<int32_t>({3})}, {true}};
  StatefulNode node(run, "node", 5), same(run, "node", 5), other_seed(run, "node", 6), other_name(run, "other", 5);
  const Tensor first = node.Run();
  EXPECT_EQ(first.dtype(), DataType::kInt64);
  const std::vector<int64_t> begin(first.as<int64_t>().begin(), first.as<int64_t>().end());
  EXPECT_NE(begin[0], begin[1]);
  EXPECT_THAT(same.Run().as<int64_t>(), testing::ElementsAreArray(begin));
  for (StatefulNode* different : {&node, &other_seed, &other_name}) EXPECT_NE(different->Run().as<int64_t>()[0], begin[0]);
}

TEST(StatefulRandom, NoiseAroundAnImageIsOfItsNumbersAndAnotherInEveryRun) {
  Tensor image(DataType::kFloat, Shape({1, 2, 2, 2})), place(DataType::kFloat, Shape({1, 2}));
  std::ranges::copy(std::vector<float>{1, 10, 2, 20, 3, 30, 4, 40}, image.mutable_as<float>().begin());
  std::ranges::fill(place.mutable_as<float>(), 0.0f);
  for (const std::string noise : {"uniform", "gaussian"}) {
    AttrMap attrs;
    attrs.Set("noise", noise);
    attrs.Set("uniform_noise", noise == "uniform");
    StatefulNode node({"ExtractGlimpseV2", attrs, {image, Tensor::Vector<int32_t>({40, 40}), place}, {false, true}});
    const Tensor first = node.Run(), second = node.Run();
    EXPECT_NE(first.as<float>()[0], second.as<float>()[0]);
    float least[2] = {100, 100}, largest[2] = {};
    for (size_t i = 0; i < first.as<float>().size(); ++i) {
      least[i % 2] = std::min(least[i % 2], first.as<float>()[i]);
      largest[i % 2] = std::max(largest[i % 2], first.as<float>()[i]);
    }
    const bool uniform = noise == "uniform";
    constexpr float kNear = 0.1f;
    EXPECT_NEAR(least[0], 1, kNear);
    EXPECT_NEAR(largest[0], uniform ? 40 : 4, kNear);
    EXPECT_NEAR(least[1], uniform ? 1 : 10, kNear);
    EXPECT_NEAR(largest[1], 40, kNear);
    const size_t middle = (19 * 40 + 19) * 2;
    EXPECT_EQ(first.as<float>()[middle], 1);  // where the image is
  }
}

TEST(StatefulRandom, ShufflesAndDrawsClassesAsTensorFlow) {
  StatefulNode shuffle({"RandomShuffle", Seeded(), {Tensor::Vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8})}});
  EXPECT_THAT(shuffle.Run().as<int32_t>(), ElementsAre(8, 2, 6, 1, 7, 3, 0, 4, 5));
  EXPECT_THAT(shuffle.Run().as<int32_t>(), ElementsAre(0, 1, 8, 6, 2, 5, 7, 3, 4));
  Tensor logits(DataType::kFloat, Shape({2, 3}));
  const float weights[] = {1, 2, 3, 5, 1, 1};
  for (int i = 0; i < 6; ++i) logits.mutable_as<float>()[i] = std::log(weights[i]);
  StatefulNode draw({"Multinomial", Seeded(), {logits, Tensor::Scalar<int32_t>(6)}, {false, true}});
  EXPECT_THAT(draw.Run().as<int64_t>(), ElementsAre(0, 1, 2, 1, 2, 2, 2, 0, 0, 0, 0, 1));
  EXPECT_THAT(draw.Run().as<int64_t>(), ElementsAre(1, 0, 1, 2, 2, 1, 0, 0, 2, 0, 0, 0));
}

TEST(StatefulRandom, BitsDoNotDependOnThreads) {
  for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
    for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
      StatefulNode serial(OfShape(op, Seeded(dtype), 5003)), parallel(OfShape(op, Seeded(dtype), 5003));
      EXPECT_TRUE(serial.Run().BitEqual(parallel.Run(4))) << op;
      EXPECT_TRUE(serial.Run(3).BitEqual(parallel.Run(1))) << op;
    }
  }
}

TEST(StatefulRandom, WithoutSeedsTheStreamIsOfTheRunsSeedAndTheNodesName) {
  AttrMap attrs;
  attrs.Set("dtype", DataType::kFloat);
  const NodeRun run = OfShape("RandomUniform", attrs, 100);
  const Tensor first = StatefulNode(run, "dropout_1", 5).Run();
  EXPECT_TRUE(first.BitEqual(StatefulNode(run, "dropout_1", 5).Run()));
  EXPECT_FALSE(first.BitEqual(StatefulNode(run, "dropout_2", 5).Run()));
  EXPECT_FALSE(first.BitEqual(StatefulNode(run, "dropout_1", 6).Run()));
}

TEST(StatefulRandom, ValuesLieInTheirRange) {
  AttrMap attrs = Seeded();
  const Tensor truncated = StatefulNode(OfShape("TruncatedNormal", attrs, kMany)).Run();
  for (float value : truncated.as<float>()) {
    ASSERT_LT(std::abs(value), 2.0f);
  }
  const Tensor uniform = StatefulNode(OfShape("RandomUniform", attrs, kMany)).Run();
  for (float value : uniform.as<float>()) {
    ASSERT_TRUE(value >= 0 && value < 1) << value;
  }
}

NodeRun Keyed(const char* op, DataType dtype, int32_t alg) {
  const std::vector<Tensor> key = Evaluate({"StatelessRandomGetKeyCounter", {}, {Tensor::Vector<int32_t>({1, 2})}}).value();
  return {op, Seeded(dtype), {Tensor::Vector<int32_t>({1000}), key[0], key[1], Tensor::Scalar(alg)}, {true}};
}

TEST(StatelessRandom, SeedAndKeyFormsAgree) {
  for (const std::string op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}) {
    const NodeRun seeded{op, Seeded(), {Tensor::Vector<int32_t>({1000}), Tensor::Vector<int64_t>({1, 2})}, {true}};
    EXPECT_TRUE(EvaluateOnThreads(seeded).BitEqual(EvaluateOnThreads(Keyed((op + "V2").c_str(), DataType::kFloat, 3))));
  }
  EXPECT_EQ(Evaluate({"StatelessRandomGetAlg", {}, {}}).value()[0].IntAt(0), 1);
}

TEST(StatelessRandom, NumbersOfTriesThatAreNoNumberGiveNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int32_t shape_values[] = {4}, seed_values[] = {1, 2};
  const float count_values[] = {nan, nan, 5, nan}, prob_values[] = {0.25f, 0.75f, nan, 0};
  AttrMap attrs = {{"dtype", DataType::kFloat}};
  const auto drawn = Evaluate({"StatelessRandomBinomial", attrs,
                               {Tensor::Vector<int32_t>(shape_values), Tensor::Vector<int32_t>(seed_values), Tensor::Vector<float>(count_values),
                                Tensor::Vector<float>(prob_values)},
                               {true}});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan((*drawn)[0].as<float>()[i])) << i;
  EXPECT_EQ((*drawn)[0].as<float>()[3], 0) << "nothing succeeds";
}

TEST(StatelessRandom, RefusesWhatItCannotDo) {
  EXPECT_THAT(Evaluate(Keyed("StatelessRandomUniformV2", DataType::kFloat, 2)).status().ToString(),
              testing::HasSubstr("algorithm 2 is not supported"));
  EXPECT_FALSE(Evaluate(Keyed("StatelessRandomUniformV2", DataType::kInt32, 1)).ok());
  const Tensor shape = Tensor::Vector<int32_t>({4}), low = Tensor::Scalar<int32_t>(3);
  EXPECT_THAT(Evaluate({"RandomUniformInt", Seeded(DataType::kInt32), {shape, low, low}, {true}}).status().ToString(),
              testing::HasSubstr("expected minval < maxval"));
  EXPECT_FALSE(Evaluate({"StatelessRandomUniform", Seeded(), {shape, Tensor::Vector<int32_t>({1, 2, 3})}, {true}}).ok());
  EXPECT_FALSE(Evaluate({"RandomUniform", Seeded(), {Tensor::Vector<int32_t>({-4})}, {true}}).ok());
  EXPECT_FALSE(Evaluate({"RandomUniform", Seeded(), {shape}}).ok()) << "the shape is not known";
}

}  // namespace
}  // namespace millrace::cpu
