// Writes the graph of every gradient case into a folder, for make_gradients.py: NAME.pb with nodes x0 …, y, loss.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/import.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_gradient_cases FOLDER\n";
    return 2;
  }
  int failures = 0;
  for (const millrace::testing::GradientCase& c : millrace::testing::GradientCases()) {
    millrace::GraphBuilder b;
    millrace::testing::BuildCase(c, b);
    const absl::StatusOr<millrace::Graph> graph = std::move(b).Build();
    absl::Status status = graph.status();
    if (status.ok()) status = millrace::SaveGraph(*graph, absl::StrCat(argv[1], "/", c.name, ".pb"));
    if (status.ok()) continue;
    std::cerr << c.name << ": " << status << "\n";
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}
