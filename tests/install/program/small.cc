// The smallest program: a graph of one operation, run.
#include <cstdio>
#include <vector>

#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/session.h"

int main() {
  using namespace millrace;
  GraphBuilder b;
  ops::Square(b.Placeholder("x", DataType::kFloat, {1}), "y");
  absl::StatusOr<Graph> graph = std::move(b).Build();
  if (!graph.ok()) return 1;
  const auto session = Session::Create(*std::move(graph), {});
  std::vector<Tensor> out;
  if (!session.ok() || !(*session)->Run({{"x", Tensor::Vector<float>({3})}}, {"y"}, {}, &out).ok()) return 1;
  std::printf("%g\n", static_cast<double>(out[0].as<float>()[0]));
  return out[0].as<float>()[0] == 9 ? 0 : 1;
}
