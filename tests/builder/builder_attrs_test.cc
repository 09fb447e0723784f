// Attributes that a program gives: what TensorFlow would refuse is an error, and what follows from the inputs need not be given.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/gradients.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// The message of what an op on float[2,2] is refused for.
std::string RefusedFor(const char* op, AttrMap attrs) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {2, 2});
  b.Op(op, {x}, std::move(attrs), "n");
  return std::string(b.status().message());
}

// Attributes of node n as text.
std::string Attrs(const std::function<void(GraphBuilder&, const Output& x)>& emit) {
  GraphBuilder b;
  emit(b, b.Placeholder("x", DataType::kDouble, {2, 2}));
  EXPECT_TRUE(b.ok()) << b.status();
  const NodeId id = b.graph().Find("n");
  if (!id.valid()) return "no node";
  std::string text;
  for (const auto& [name, value] : b.graph().node(id).attrs) text += (text.empty() ? "" : ", ") + name + "=" + AttrToString(value);
  return text;
}

TEST(BuilderAttrs, OfAnotherKindOrNameAreErrors) {
  const struct {
    const char* op;
    AttrMap attrs;
    const char* message;
  } cases[] = {
      {"LeakyRelu", {{"alpha", "0.5"}}, "node 'n' (LeakyRelu): attribute 'alpha' is string \"0.5\", expected float"},
      {"LeakyRelu", {{"alpah", 0.5f}}, "node 'n' (LeakyRelu): has no attribute 'alpah', only T, alpha"},
      {"Softmax", {{"T", 1}}, "node 'n' (Softmax): attribute 'T' is int 1, expected type"},
      {"MatrixInverse", {{"adjoint", 1}}, "node 'n' (MatrixInverse): attribute 'adjoint' is int 1, expected bool"},
      {"MaxPool",
       {{"ksize", std::vector<int64_t>{1, 2, 2, 1}}, {"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "SAMEE"}},
       "node 'n' (MaxPool): attribute 'padding' is string \"SAMEE\", expected one of \"SAME\", \"VALID\", \"EXPLICIT\""},
      {"Cast", {}, "node 'n' (Cast): attribute 'DstT' is missing, expected type"},
      // The type is the input's.
      {"Invert", {}, "node 'n' (Invert): attribute 'T' is type float, expected one of int32, uint8, int16, int8, int64, uint16, uint32, uint64"},
  };
  for (const auto& test : cases) EXPECT_EQ(RefusedFor(test.op, test.attrs), test.message);
  EXPECT_EQ(RefusedFor("Relu", {{"_note", 1}}), "");
}

TEST(BuilderAttrs, AnIntForAFloatBecomesOne) {
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("LeakyRelu", {x}, {{"alpha", 1}}, "n"); }), "T=type double, alpha=float 1");
}

TEST(BuilderAttrs, ThatFollowFromTheInputsAreFilledIn) {
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("Relu", {x}, {}, "n"); }), "T=type double");
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("AddN", {x, x, x}, {}, "n"); }), "N=int 3, T=type double");
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("ConcatV2", {x, x, b.Int(1)}, {}, "n"); }), "N=int 2, T=type double, Tidx=type int32");
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("IdentityN", {x, b.Int(1)}, {}, "n"); }), "T=list(type) [double,int32]");
  // A handle is of a type of its own, whatever its variable holds.
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output&) { b.Op("Identity", {b.AddVariable("v", {2}, init::Zeros()).handle()}, {}, "n"); }),
            "T=type resource");
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output&) {
              const Output handle = b.AddVariable("v", {2}, init::Zeros()).handle();
              b.Op("Identity", {ops::Identity(ops::Identity(handle))}, {}, "n");
            }),
            "T=type resource");
  // What is given stays.
  EXPECT_EQ(Attrs([](GraphBuilder& b, const Output& x) { b.Op("Relu", {x}, {{"T", DataType::kDouble}}, "n"); }), "T=type double");
}

TEST(BuilderAttrs, OfOpsThatTensorFlowDoesNotHavePass) {
  auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef def;
  def.name = "Own";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  ASSERT_TRUE(ops->Register(def).ok());
  GraphBuilder b(ops);
  b.Op("Own", {b.Placeholder("x", DataType::kFloat, {2})}, {{"T", 1}, {"anything", "at all"}}, "n");
  EXPECT_TRUE(b.ok()) << b.status();
}

// TensorFlow writes a MaxPool's pads where it has none; MaxPoolGradGrad has no such attribute.
TEST(BuilderAttrs, OfAPoolAreThoseOfItsSecondGradient) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {1, 4, 4, 1});
  const std::vector<int64_t> window{1, 2, 2, 1};
  const Output y = b.Op("MaxPool", {x}, {{"ksize", window}, {"strides", window}, {"padding", "VALID"}, {"explicit_paddings", std::vector<int64_t>{}}}, "y");
  const auto first = AddGradients(b, {ops::Mul(y, y)}, {x});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = AddGradients(b, {ops::Mul((*first)[0], (*first)[0])}, {x});
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(BuilderAttrs, DimensionsOfPlaceholdersAreKnownOrUnknown) {
  GraphBuilder b;
  EXPECT_THAT(b.Placeholder("open", DataType::kFloat, {-1, 2}).shape().dims(), ElementsAre(-1, 2));
  b.Placeholder("x", DataType::kFloat, {-2, 2});
  EXPECT_EQ(b.status().message(), "node 'x' (Placeholder): a dimension of -2, expected -1 (unknown) or more");
}

}  // namespace
}  // namespace millrace
