// Writes the graph of every gradient case into a folder, for make_gradients.py: NAME.pb with nodes x0 …, y, loss. With a seed
// and a count, of random cases instead, with our gradients in them as nodes gradient0 …, for check_random_gradients.py.
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "millrace/import.h"

namespace millrace::testing {
namespace {

absl::Status Write(const GradientCase& c, const std::string& folder, bool with_gradients) {
  GraphBuilder b;
  const std::vector<Output> inputs = BuildCase(c, b);
  if (with_gradients && b.ok()) {
    const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {b.OutputOf({b.graph().Find("loss"), 0})}, inputs);
    if (!gradients.ok()) return gradients.status();
    for (size_t i = 0; i < gradients->size(); ++i) {
      if ((*gradients)[i].valid()) ops::Identity((*gradients)[i], absl::StrCat("gradient", i));
    }
  }
  const absl::StatusOr<Graph> graph = std::move(b).Build();
  return graph.ok() ? SaveGraph(*graph, absl::StrCat(folder, "/", c.name, ".pb")) : graph.status();
}

int Main(int argc, char** argv) {
  uint64_t seed = 0;
  int count = 0;
  const bool random = argc == 4 && absl::SimpleAtoi(argv[2], &seed) && absl::SimpleAtoi(argv[3], &count);
  if (argc != 2 && !random) {
    std::cerr << "usage: write_gradient_cases FOLDER [SEED COUNT]\n";
    return 2;
  }
  int failures = 0;
  for (const GradientCase& c : random ? RandomGradientCases(seed, count) : GradientCases()) {
    const absl::Status status = Write(c, argv[1], random);
    if (status.ok()) continue;
    std::cerr << c.name << ": " << status << "\n";
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) { return millrace::testing::Main(argc, argv); }
