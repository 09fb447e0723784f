// The committed cases cover every cell of coverage.md that TensorFlow has an answer for, and the document says which.
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "conformance/case.h"
#include "millrace/op.h"

namespace millrace::conformance {
namespace {

const std::string kFolder = MILLRACE_SOURCE_DIR "/tests/conformance/";
using Words = std::vector<std::string>;

// A line of cells.txt; coverage.py says what its fields are.
struct Cells {
  Words inputs, types, axes;
  std::string data_format;
  Words cells;
};

Words Split(const std::string& text, char by) {
  if (text.empty()) return {};
  return absl::StrSplit(text, by);
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::map<std::string, Cells> ReadCells() {
  std::map<std::string, Cells> table;
  for (const std::string& line : LinesOf(kFolder + "cells.txt")) {
    const Words fields = absl::StrSplit(line, '|');
    table[fields[0]] = {Split(fields[1], ','), Split(fields[2], ','), Split(fields[3], ','), fields[4], Split(fields[5], ',')};
  }
  return table;
}

// "OP CELL: why" by OP and CELL.
std::map<std::string, std::map<std::string, std::string>> ReadReasons(const std::string& file) {
  std::map<std::string, std::map<std::string, std::string>> reasons;
  for (const std::string& line : LinesOf(kFolder + file)) {
    const std::pair<std::string, std::string> halves = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    const std::pair<std::string, std::string> names = absl::StrSplit(halves.first, absl::MaxSplits(' ', 1));
    reasons[names.first][names.second] = halves.second;
  }
  return reasons;
}

struct Kind {
  std::string kind;
  int argument = 0;  // of the definition
};

// The kind of every input of a case: lists have as many of theirs as their attribute says.
std::vector<Kind> KindsOf(const Cells& cells, const Case& test) {
  std::vector<Kind> kinds;
  for (int argument = 0; argument < static_cast<int>(cells.inputs.size()); ++argument) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(cells.inputs[argument], absl::MaxSplits('*', 1));
    int64_t count = 1;
    if (!parts.second.empty()) {
      const auto types = test.attrs.Get<std::vector<DataType>>(parts.second);
      count = types.ok() ? static_cast<int64_t>(types->size()) : test.attrs.GetOr<int64_t>(parts.second, 1);
    }
    kinds.insert(kinds.end(), count, {parts.first, argument});
  }
  return kinds;
}

bool HasSpecial(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (!std::isfinite(tensor.DoubleAt(i))) return true;
  }
  return false;
}

bool HasNegative(const Tensor& tensor) {
  if (!IsInteger(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.IntAt(i) < 0) return true;
  }
  return false;
}

void CoverShape(const Shape& shape, std::set<std::string>& covered) {
  if (shape.num_elements() == 0) covered.insert("empty");
  if (shape.rank() >= 8) covered.insert("rank8");
}

void CoverInputs(const Cells& cells, const Case& test, std::set<std::string>& covered) {
  const std::vector<Kind> kinds = KindsOf(cells, test);
  int first = -1;  // argument of data, if there is one
  for (const Kind& kind : kinds) {
    if (first < 0 && (kind.kind.back() == 'd' || kind.kind == "f" || kind.kind == "rf")) first = kind.argument;
  }
  std::set<std::string> shapes;
  for (size_t i = 0; i < kinds.size() && i < test.inputs.size(); ++i) {
    const Tensor& input = test.inputs[i];
    const std::string& kind = kinds[i].kind;
    if (kind == "a" && HasNegative(input)) covered.insert("negative_axis");
    if (kind == "-" || kind == "a") continue;
    CoverShape(input.shape(), covered);
    if (HasSpecial(input)) covered.insert("nan");
    if ((first < 0 || kinds[i].argument == first) && input.shape().rank() == 0) covered.insert("scalar");
    if (kind.back() == 'd') shapes.insert(input.shape().ToString());
  }
  if (shapes.size() > 1) covered.insert("broadcast");
}

std::set<std::string> CoveredBy(const Cells& cells, const Case& test) {
  std::set<std::string> covered;
  if (test.error) return covered;
  for (size_t i = 0; i < cells.types.size(); ++i) {
    const std::pair<std::string, std::string> attribute = absl::StrSplit(cells.types[i], absl::MaxSplits(':', 1));
    const auto given = test.attrs.Get<DataType>(attribute.first);
    const std::map<std::string, std::string> numpy = {{"float", "float32"}, {"double", "float64"}, {"half", "float16"}};
    std::string name = given.ok() ? std::string(DataTypeName(*given)) : attribute.second;
    if (const auto other = numpy.find(name); other != numpy.end()) name = other->second;
    covered.insert(i == 0 ? name : absl::StrCat(attribute.first, "=", name));
  }
  CoverInputs(cells, test, covered);
  for (const auto& [i, expected] : test.outputs) CoverShape(expected.type.shape, covered);
  for (const std::string& axis : cells.axes) {
    const std::vector<int64_t> many = test.attrs.GetOr<std::vector<int64_t>>(axis, {test.attrs.GetOr<int64_t>(axis, 0)});
    for (const int64_t value : many) {
      if (value < 0) covered.insert("negative_axis");
    }
  }
  covered.insert(test.attrs.GetOr<std::string>("padding", ""));
  for (const char* name : {"strides", "dilations"}) {
    for (const int64_t value : test.attrs.GetOr<std::vector<int64_t>>(name, {})) {
      if (value > 1) covered.insert(name);
    }
  }
  covered.insert(test.attrs.GetOr<std::string>("data_format", cells.data_format));
  return covered;
}

struct Coverage {
  int cases = 0;
  std::set<std::string> covered;
};

std::map<std::string, Coverage> CoverageOfCases(const std::map<std::string, Cells>& cells) {
  std::map<std::string, Coverage> result;
  for (const std::string& path : CaseFiles(kFolder + "data")) {
    const auto cases = LoadCases(path);
    EXPECT_TRUE(cases.ok()) << cases.status();
    if (!cases.ok()) continue;
    for (const Case& test : *cases) {
      const auto found = cells.find(test.op);
      EXPECT_NE(found, cells.end()) << test.op << " has cases but no line in cells.txt; run coverage.py";
      if (found == cells.end()) continue;
      Coverage& coverage = result[test.op];
      ++coverage.cases;
      coverage.covered.merge(CoveredBy(found->second, test));
    }
  }
  return result;
}

// The table of coverage.md, behind its introduction.
std::string Document(const std::map<std::string, Cells>& cells, const std::map<std::string, Coverage>& coverage) {
  const auto refused = ReadReasons("refused.txt");
  std::string text = "| op | cases | covered | no answer (refused.txt says why) |\n|---|---|---|---|\n";
  for (const auto& [op, of] : cells) {
    Words yes, no;
    const auto reasons = refused.find(op);
    for (const std::string& cell : of.cells) {
      const bool explained = reasons != refused.end() && reasons->second.contains(cell);
      (explained ? no : yes).push_back(cell);
    }
    absl::StrAppend(&text, "| ", op, " | ", coverage.at(op).cases, " | ", absl::StrJoin(yes, " "), " | ", absl::StrJoin(no, " "), " |\n");
  }
  absl::StrAppend(&text, "\nOps without cases:\n\n");
  for (const std::string& line : LinesOf(kFolder + "without_cases.txt")) absl::StrAppend(&text, "- ", line, "\n");
  return text;
}

TEST(ConformanceCoverage, EveryCellOfEveryOpIsCoveredOrTensorFlowHasNoAnswer) {
  const auto cells = ReadCells();
  const auto coverage = CoverageOfCases(cells);
  auto refused = ReadReasons("refused.txt");
  for (const auto& [op, of] : cells) {
    const auto found = coverage.find(op);
    ASSERT_NE(found, coverage.end()) << op << " is in cells.txt and has no cases";
    for (const std::string& cell : of.cells) {
      const bool covered = found->second.covered.contains(cell), explained = refused[op].contains(cell);
      EXPECT_TRUE(covered || explained) << op << " " << cell << " is not covered";
      EXPECT_FALSE(covered && explained) << op << " " << cell << " is covered, refused.txt has a line too many";
    }
  }
}

TEST(ConformanceCoverage, EveryRegisteredOpHasCasesOrAReasonForNone) {
  const auto cells = ReadCells();
  std::set<std::string> without;
  for (const std::string& line : LinesOf(kFolder + "without_cases.txt")) without.insert(Words(absl::StrSplit(line, ':'))[0]);
  for (const std::string& op : OpRegistry::Builtin().Names()) {
    EXPECT_NE(cells.contains(op), without.contains(op)) << op << " must be in exactly one of cells.txt and without_cases.txt";
  }
}

TEST(ConformanceCoverage, TheDocumentIsWhatTheCasesSay) {
  const auto cells = ReadCells();
  const std::string path = kFolder + "coverage.md", first_line = "| op | cases |";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string found = text.str(), table = Document(cells, CoverageOfCases(cells));
  const std::string wanted = found.substr(0, found.find(first_line)) + table;
  if (std::getenv("MILLRACE_UPDATE_GOLDENS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_TRUE(found == wanted || std::getenv("MILLRACE_UPDATE_GOLDENS") != nullptr)
      << "coverage.md is out of date; run this test with MILLRACE_UPDATE_GOLDENS=1";
}

}  // namespace
}  // namespace millrace::conformance
