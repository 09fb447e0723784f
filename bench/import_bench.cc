// Time and memory of reading a GraphDef: a generated graph of NODES nodes (1,000,000) is written, then read.
//
//   build/bin/import_bench [NODES]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "millrace/import.h"

namespace millrace {
namespace {

// Layers of eight nodes with names, attributes and edges as long as those of TensorFlow's exports.
Graph MakeGraph(int64_t nodes) {
  Graph graph;
  graph.Reserve(nodes);
  NodeId last;
  for (int64_t i = 0; i < nodes; ++i) {
    Node node;
    node.name = absl::StrCat("gradients/stage", i / 1000, "/block", i / 8, "/unit_", i % 8, "/conv/BiasAdd_grad");
    node.op = i % 8 == 0 ? "Const" : "AddV2";
    node.attrs.Set("T", DataType::kFloat);
    node.attrs.Set("_output_shapes", std::vector<Shape>{Shape({8, 56, 56, 64})});
    node.attrs.Set("_class", std::vector<std::string>{absl::StrCat("loc:@stage", i / 1000, "/block")});
    if (i % 8 == 0) node.attrs.Set("value", Tensor::Scalar(static_cast<float>(i)));
    if (i % 8 != 0) node.inputs = {{last, 0}, {NodeId{static_cast<int32_t>(i - i % 8)}, 0}};
    last = graph.AddUnique(std::move(node));
  }
  return graph;
}

int Run(int64_t nodes) {
  const std::string path =
      (std::filesystem::temp_directory_path() / absl::StrCat("import_bench.", getpid(), ".pb")).string();
  // Written by another process, so that the peak below is the reader's alone.
  if (const pid_t child = fork(); child == 0) {
    _exit(SaveGraph(MakeGraph(nodes), path).ok() ? 0 : 1);
  } else {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<Graph> graph = LoadGraph(path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  if (!graph.ok()) std::fprintf(stderr, "%s\n", graph.status().ToString().c_str());
  const double user = usage.ru_utime.tv_sec + 1e-6 * usage.ru_utime.tv_usec;
  std::printf("%lld nodes, %.1f MB: %.2f s (%.2f s of one core's user time), peak %.2f GB\n",
              static_cast<long long>(nodes), std::filesystem::file_size(path) / 1e6, seconds, user,
              usage.ru_maxrss / 1e6);
  std::filesystem::remove(path);
  return graph.ok() ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int64_t nodes = 1'000'000;
  const std::string given = argc > 1 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && (!absl::SimpleAtoi(given, &nodes) || nodes < 1 || nodes > INT32_MAX))) {
    const bool help = given == "-h" || given == "--help";
    std::fprintf(help ? stdout : stderr, "usage: import_bench [NODES]\nTime and memory of reading a GraphDef of NODES (1000000) nodes.\n");
    return help ? 0 : 2;
  }
  return millrace::Run(nodes);
}
