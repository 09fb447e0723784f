#include "millrace/copy_on_write.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/graph.h"
#include "millrace/plan.h"
#include "millrace/types.h"

namespace millrace {
namespace {

TEST(CopyOnWrite, CopiesShareUntilOneChanges) {
  CopyOnWrite<std::string> first("a");
  CopyOnWrite<std::string> second = first;
  EXPECT_TRUE(first.SharesWith(second));
  second.Own() += "b";
  EXPECT_FALSE(first.SharesWith(second));
  EXPECT_EQ(*first, "a");
  EXPECT_EQ(*second, "ab");
  const std::string* address = &*second;
  second.Own() += "c";  // nobody else has it
  EXPECT_EQ(&*second, address);
}

TEST(CopyOnWrite, TheDefaultIsTheValuesDefault) {
  CopyOnWrite<std::vector<int>> none;
  EXPECT_TRUE(none->empty());
  const CopyOnWrite<std::vector<int>> copy = none;
  none.Own().push_back(1);
  EXPECT_TRUE(copy->empty());
  EXPECT_EQ(none->size(), 1);
}

TEST(CopyOnWrite, MovedFromIsTheDefaultAndOwnAssignmentKeepsTheValue) {
  CopyOnWrite<std::string> from("a");
  const CopyOnWrite<std::string> to = std::move(from);
  EXPECT_EQ(*to, "a");
  EXPECT_EQ(*from, "");
  from = to;
  from = *&from;
  EXPECT_EQ(*from, "a");
}

TEST(CopyOnWrite, CopiesAreMadeAndChangedByThreadsAtOnce) {
  const CopyOnWrite<std::vector<int>> shared(std::vector<int>(100, 1));
  std::vector<int> sums(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 1000; ++round) {
        CopyOnWrite<std::vector<int>> mine = shared;
        const CopyOnWrite<std::vector<int>> kept = mine;
        mine.Own()[0] = t;
        sums[t] += mine->at(0) + kept->at(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, (std::vector<int>{1000, 2000, 3000, 4000}));
  EXPECT_EQ(shared->at(0), 1);
}

TEST(SharedText, ReadsAsAStringDoes) {
  const SharedText text = "cpu:0", same = std::string("cpu:0"), none;
  EXPECT_TRUE(text == same);
  EXPECT_TRUE(text != none);
  EXPECT_TRUE(text == "cpu:0" && "cpu:0" == text && text == std::string("cpu:0"));
  EXPECT_TRUE(none.empty() && none == "");
  SharedText longer = text;
  longer += "!";
  EXPECT_EQ(longer.str(), "cpu:0!");
  EXPECT_EQ(text.str(), "cpu:0");
}

TEST(SharedVector, ReadsAsAListDoes) {
  SharedVector<int> list = {1, 2};
  const SharedVector<int> copy = list;
  list.set(0, 3);
  list.push_back(4);
  EXPECT_EQ(std::vector<int>(list.begin(), list.end()), (std::vector<int>{3, 2, 4}));
  EXPECT_TRUE(copy == (SharedVector<int>{1, 2}));
  list.clear();
  EXPECT_TRUE(list.empty() && list == SharedVector<int>());
}

TEST(Shape, ACopyKeepsItsDimensions) {
  Shape shape = {2, 3};
  const Shape copy = shape;
  shape.set_dim(1, 4);
  shape.AddDim(5);
  EXPECT_EQ(shape.ToString(), "[2,4,5]");
  EXPECT_EQ(copy.ToString(), "[2,3]");
}

// Plans and graphs of millions of nodes are spread over gigabytes, whose pages take a part of the time to plan.
TEST(Size, OfWhatThereAreMillionsOf) {
  EXPECT_LE(sizeof(Shape), 16);
  EXPECT_LE(sizeof(TensorType), 24);
  EXPECT_LE(sizeof(Node), 232);
  EXPECT_LE(sizeof(ComputeStep), 216);
  EXPECT_LE(sizeof(Residence), 56);
}

}  // namespace
}  // namespace millrace
