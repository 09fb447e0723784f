// Fed ids that leave gaps: as many rows as TensorFlow has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text_session.h"

namespace millrace {
namespace {

using testing::Numbers;
using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GapFeeds, SegmentsAreAsManyAsTheLastIdSays) {
  const auto session = SessionOf(R"(
x = Const() {dtype=float, value=float[2]{3, 5}}
ids = Placeholder() {dtype=int32, shape=shape[2]}
wide = Cast(ids) {SrcT=int32, DstT=int64}
rows = Const() {dtype=int32, value=int32[2]{1, 0}}
sum = SegmentSum(x, wide) {T=float, Tindices=int64}
sparse = SparseSegmentMean(x, rows, ids) {T=float, Tidx=int32, Tsegmentids=int32}
)");
  std::vector<Tensor> out;
  const auto run = [&](int32_t a, int32_t b) {
    const absl::Status status = session->Run({{"ids", Tensor::Vector<int32_t>({a, b})}}, {"sum", "sparse"}, {}, &out);
    ASSERT_TRUE(status.ok()) << status;
  };
  run(0, 1);
  EXPECT_THAT(Numbers(out[0]), ElementsAre(3, 5));
  run(1, 3);
  EXPECT_THAT(Numbers(out[0]), ElementsAre(0, 3, 0, 5));
  EXPECT_THAT(Numbers(out[1]), ElementsAre(0, 5, 0, 3));
  run(0, 0);
  EXPECT_THAT(Numbers(out[0]), ElementsAre(8));
}

TEST(GapFeeds, StitchedRowsAreAsManyAsTheLargestIndexSays) {
  const auto session = SessionOf(R"(
x = Const() {dtype=float, value=float[3]{3, 5, 7}}
y = Const() {dtype=float, value=float[1]{9}}
first = Placeholder() {dtype=int32, shape=shape[3]}
second = Const() {dtype=int32, value=int32[1]{0}}
stitched = DynamicStitch(first, second, x, y) {N=2, T=float}
)");
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"first", Tensor::Vector<int32_t>({5, 3, 2})}}, {"stitched"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Numbers(out[0]), ElementsAre(9, 0, 7, 5, 0, 3));
}

TEST(GapFeeds, IdsThatAStepComputesAreRefused) {
  const auto session = SessionOf(R"(
x = Const() {dtype=float, value=float[2]{3, 5}}
ids = Placeholder() {dtype=int32, shape=shape[2]}
twice = AddV2(ids, ids) {T=int32}
sum = SegmentSum(x, twice) {T=float, Tindices=int32}
)");
  std::vector<Tensor> out;
  EXPECT_THAT(session->Run({{"ids", Tensor::Vector<int32_t>({0, 1})}}, {"sum"}, {}, &out).ToString(),
              HasSubstr("its output was planned with at most 2 rows"));
}

}  // namespace
}  // namespace millrace
