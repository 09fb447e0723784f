#include "models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

struct Published {
  const char* model;
  ModelOptions options;
  double parameters;
  double relative;  // how far the count may be away: 0 for counts published to the last parameter
  const char* source;
};

void PrintTo(const Published& entry, std::ostream* out) { *out << entry.model << ", " << entry.source; }

const Published kPublished[] = {
    {"resnet", {.batch = 1, .depth = 50}, 25557032, 0, "He et al. 2015, 25.6 M; torchvision resnet50"},
    {"resnet", {.batch = 1, .depth = 101}, 44549160, 0, "torchvision resnet101"},
    {"resnet", {.batch = 1, .depth = 152}, 60192808, 0, "torchvision resnet152"},
    {"resnet",
     {.batch = 1, .image_size = 32, .classes = 10, .depth = 1001, .variant = "cifar"},
     10.2e6,
     0.02,
     "He et al. 2016, ResNet-1001 on CIFAR-10"},
    {"mlp", {}, 669706, 0, "Keras example mnist_mlp: 784-512-512-10"},
    {"vgg", {.batch = 1, .depth = 11, .dropout = 0}, 132863336, 0, "torchvision vgg11"},
    {"vgg", {.batch = 1, .depth = 13, .dropout = 0}, 133047848, 0, "torchvision vgg13"},
    {"vgg", {.batch = 1, .depth = 16}, 138357544, 0, "Simonyan and Zisserman 2014, 138 M; torchvision vgg16"},
    {"vgg", {.batch = 1, .depth = 19}, 143667240, 0, "torchvision vgg19"},
    {"googlenet", {.batch = 1}, 13378280, 0, "BVLC GoogLeNet: 6,998,552 and two auxiliary heads of 6,379,728"},
    {"googlenet", {.batch = 1, .image_size = 2240, .dropout = 0}, 13378280, 0, "the same at any image size"},
    {"densenet", {.batch = 1, .depth = 121}, 7978856, 0, "torchvision densenet121"},
    {"densenet", {.batch = 1, .depth = 161}, 28681000, 0, "torchvision densenet161"},
    {"densenet", {.batch = 1, .depth = 169}, 14149480, 0, "torchvision densenet169"},
    {"densenet", {.batch = 1, .depth = 201}, 20013928, 0, "torchvision densenet201"},
    {"deeplab",
     {.batch = 1, .image_size = 64, .variant = "resnet50"},
     26682725,
     0,
     "segmentation_models.pytorch DeepLabV3Plus, issue 819"},
    {"deeplab", {.batch = 1, .image_size = 64, .variant = "xception"}, 41.0e6, 0.02, "Chen et al. 2018, Xception-65"},
    {"unet3d", {.batch = 1}, 19069955, 0, "Cicek et al. 2016, 19069955 parameters"},
    {"lstm",
     {.batch = 20, .layers = 2, .hidden = 1500, .steps_unrolled = 5},
     66022000,
     0,
     "Zaremba et al. 2014, large: 66 M"},
    {"lstm", {.layers = 2, .hidden = 650, .steps_unrolled = 5}, 19775200, 0, "Zaremba et al. 2014, medium: 20 M"},
    {"bert", {.batch = 1}, 110106428, 0, "Devlin et al. 2018, 110 M; Hugging Face BertForPreTraining, base"},
    {"bert",
     {.batch = 1, .layers = 24, .hidden = 1024, .heads = 16},
     336226108,
     0,
     "Hugging Face BertForPreTraining, large"},
    {"gpt", {.batch = 1}, 124439808, 0, "Hugging Face gpt2"},
    {"gpt", {.batch = 1, .layers = 48, .hidden = 1600, .heads = 25}, 1557611200, 0, "Hugging Face gpt2-xl"},
    {"moe_transformer", {.batch = 1, .experts = 12}, 0.66e9, 0.01, "TensorFlowMem, MoE with 12 experts"},
    {"moe_transformer", {.batch = 1, .experts = 48}, 2.5e9, 0.01, "TensorFlowMem, MoE with 48 experts"},
};

class PublishedModel : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasAsManyParameters) {
  const Published& entry = GetParam();
  const absl::StatusOr<Graph> graph = BuildModel(entry.model, entry.options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NEAR(static_cast<double>(CountParameters(*graph)), entry.parameters, entry.relative * entry.parameters)
      << entry.source;
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModel, ::testing::ValuesIn(kPublished));

class GeneratedModel : public ::testing::TestWithParam<std::string> {};

TEST_P(GeneratedModel, HasLossTrainInitFullShapesAndNoWeightsInTheFile) {
  const absl::StatusOr<Graph> graph = BuildModel(GetParam(), {.batch = 2});
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* name : {"loss", "train", "init"}) EXPECT_TRUE(graph->Find(name).valid()) << name;
  EXPECT_EQ(graph->type({graph->Find("loss"), 0}), (TensorType{DataType::kFloat, Shape()}));
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    for (const TensorType& type : node.outputs) {
      EXPECT_TRUE(type.shape.fully_known()) << node.name << " " << type.ToString();
    }
    if (node.op != "Const") continue;
    EXPECT_LE(node.outputs[0].size_bytes(), 65536) << node.name;
  }
}

// Sixteen bits between the layers; variables, and so checkpoints and parameters, are those of float32.
TEST(Precision, IsOfActivationsAndProducts) {
  const absl::StatusOr<Graph> wide = BuildModel("resnet", {.batch = 1, .image_size = 32, .depth = 11, .variant = "cifar"});
  const absl::StatusOr<Graph> narrow =
      BuildModel("resnet", {.batch = 1, .image_size = 32, .depth = 11, .variant = "cifar", .precision = "bfloat16"});
  ASSERT_TRUE(wide.ok() && narrow.ok()) << wide.status() << narrow.status();
  EXPECT_EQ(CountParameters(*narrow), CountParameters(*wide));
  int convolutions = 0;
  for (int32_t i = 0; i < narrow->num_ids(); ++i) {
    const Node& node = narrow->node(NodeId{i});
    if (absl::StartsWith(node.op, "Conv2D")) {
      EXPECT_EQ(node.outputs[0].dtype, DataType::kBfloat16) << node.name;
      ++convolutions;
    }
    if (node.op == "VarHandleOp") {
      EXPECT_EQ(node.attrs.GetOr("dtype", DataType::kInvalid), DataType::kFloat) << node.name;
    }
  }
  EXPECT_GT(convolutions, 20);
}

TEST(Precision, IsRefusedByNameWhereAModelHasNoOther) {
  EXPECT_EQ(BuildModel("lstm", {.precision = "bfloat16"}).status().message(), "model lstm: precision is 'bfloat16', expected float32");
  EXPECT_EQ(BuildModel("mlp", {.precision = "int8"}).status().message(),
            "model mlp: precision is 'int8', expected float32, bfloat16, float16");
  EXPECT_TRUE(BuildModel("lstm", {.batch = 1, .hidden = 4, .steps_unrolled = 2, .precision = "float32"}).ok());
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ModelInfo& info : Models()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, GeneratedModel, ::testing::ValuesIn(ModelNames()),
                         [](const ::testing::TestParamInfo<std::string>& info) { return info.param; });

TEST(Models, SameOptionsGiveTheSameGraphAndSeedsDiffer) {
  const auto seeds = [](int64_t seed) {
    const Graph graph = *BuildModel("resnet", {.batch = 1, .image_size = 64, .seed = seed});
    std::string text;
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (!node.attrs.Has("seed")) continue;
      text += node.name + AttrToString(*node.attrs.Find("seed")) + AttrToString(*node.attrs.Find("seed2"));
    }
    return text;
  };
  EXPECT_EQ(seeds(1), seeds(1));
  EXPECT_NE(seeds(1), seeds(2));
}

TEST(Models, UnknownModelNamesTheModelsThereAre) {
  const absl::Status status = BuildModel("alexnet", {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no model 'alexnet', expected one of resnet"));
}

TEST(Models, AbsurdOptionsAreErrors) {
  struct Absurd {
    const char* model;
    ModelOptions options;
    const char* error;
  };
  for (const Absurd& absurd : std::initializer_list<Absurd>{
           {"resnet", {.batch = -1}, "batch is -1, expected 1 to"},
           {"resnet", {.depth = 999'999'999}, "depth is 999999999, expected 1 to 100000"},
           {"resnet", {.image_size = int64_t{1} << 31}, "image_size is 2147483648"},
           {"resnet", {.optimizer = "lion"}, "optimizer 'lion', expected sgd"},
           {"lstm", {.hidden = 2'000'000'000, .steps_unrolled = 2}, "a size of "},
           {"mlp", {.dropout = 1}, "dropout is 1, expected at least 0 and below 1"},
           {"mlp", {.dropout = -0.5}, "dropout is -0.5"},
           {"mlp", {.learning_rate = -1}, "learning_rate is -1, expected at least 0"},
           {"mlp", {.weight_decay = -5}, "weight_decay is -5"},
           {"mlp", {.hidden = 2147483647, .channels = 2147483647}, "model mlp: 9.22337e+18 numbers in variables, expected at most 1e+15"},
           {"mlp", {.classes = 1}, "classes is 1, expected at least 2"},
           {"deepspeech", {.classes = 1}, "classes is 1, expected at least 2"},
           {"deepspeech", {.batch = 2147483647}, "batch is 2147483647, expected 1 to 335544 for 400 steps"},
           {"unet3d", {.levels = 60}, "levels is 60, expected 1 to 30"},
           {"moe_transformer", {.experts = 1}, "experts is 1, expected at least 2"},
           {"bert", {.hidden = 10, .heads = 3}, "hidden 10 is not divisible by 3 heads"}}) {
    const absl::Status status = BuildModel(absurd.model, absurd.options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absurd.error));
  }
}

}  // namespace
}  // namespace millrace
