#include "graph/spread.h"

#include <vector>

namespace millrace {
namespace {

// Neighbouring dimensions that the operand has, or repeats over, as one.
struct Run {
  bool repeats = false;
  int64_t size = 1;
};

std::optional<std::vector<Run>> RunsOf(const Shape& operand, const Shape& shape) {
  std::vector<Run> runs;
  const int extra = shape.rank() - operand.rank();
  if (extra < 0) return std::nullopt;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t own = d < extra ? 1 : operand.dim(d - extra), size = shape.dim(d);
    if (own != size && own != 1) return std::nullopt;
    if (size == 1) continue;
    if (runs.empty() || runs.back().repeats != (own == 1)) runs.push_back({own == 1, 1});
    runs.back().size *= size;
  }
  return runs;
}

}  // namespace

std::optional<Spread> SpreadOver(const Shape& operand, const Shape& shape) {
  std::optional<std::vector<Run>> runs = RunsOf(operand, shape);
  if (!runs) return std::nullopt;
  // A repetition around everything is `count`'s doing.
  if (!runs->empty() && runs->front().repeats) runs->erase(runs->begin());
  switch (runs->size()) {
    case 0: return Spread{shape.num_elements(), 1, 1};
    case 1: return Spread{(*runs)[0].size, 1, (*runs)[0].size};
    case 2: return Spread{(*runs)[1].size, (*runs)[0].size, 1};
    case 3: return Spread{(*runs)[1].size * (*runs)[2].size, (*runs)[0].size, (*runs)[2].size};
    default: return std::nullopt;
  }
}

Spread SpreadOfInput(const AttrMap& attrs, size_t i) {
  const auto numbers = attrs.GetOr<std::vector<int64_t>>("spreads", {});
  if (3 * i + 2 >= numbers.size()) return {};
  return {numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]};
}

bool SpreadFits(const Spread& spread, int64_t operand_elements, int64_t elements) {
  return spread.each > 0 && spread.count > 0 && spread.width > 0 && spread.each % spread.width == 0 &&
         elements % spread.each == 0 && operand_elements % spread.width == 0 &&
         operand_elements / spread.width == spread.count;
}

}  // namespace millrace
