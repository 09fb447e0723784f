// Axes of a plot: where a value lies, and round numbers to label it with.
#ifndef MILLRACE_SRC_REPORT_AXES_H_
#define MILLRACE_SRC_REPORT_AXES_H_

#include <string>
#include <utility>
#include <vector>

#include "report/svg.h"

namespace millrace {

// Values from 0 to `most` on pixels from `begin` to `end` (either may be the larger).
struct Scale {
  double most = 1;
  double begin = 0;
  double end = 1;
  double At(double value) const { return begin + (end - begin) * value / most; }
};

struct Tick {
  double value = 0;
  std::string label;
};

// Four to nine round values from 0 to `most`: bytes in binary units, seconds in s, ms or us.
std::vector<Tick> ByteTicks(double most);
std::vector<Tick> SecondTicks(double most);

// Horizontal grid lines with labels left of `left`.
void DrawYAxis(Svg& svg, const Scale& y, const std::vector<Tick>& ticks, double left, double right);
// Tick marks and labels below `bottom`.
void DrawXAxis(Svg& svg, const Scale& x, const std::vector<Tick>& ticks, double bottom);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_AXES_H_
