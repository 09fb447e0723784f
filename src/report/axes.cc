#include "report/axes.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

constexpr double kMostTicks = 8;

// The smallest of 1, 2, 5 times a power of ten that gives at most kMostTicks steps.
double RoundStep(double most) {
  const double exact = most / kMostTicks;
  const double power = std::pow(10, std::floor(std::log10(exact)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= exact * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> Ticks(double most, double unit, const char* unit_name) {
  std::vector<Tick> ticks;
  if (!(most > 0)) return ticks;
  const double step = RoundStep(most / unit);
  for (int i = 0; i * step * unit <= most * (1 + 1e-9); ++i) {
    ticks.push_back({i * step * unit, absl::StrCat(absl::StrFormat("%g", i * step), " ", unit_name)});
  }
  return ticks;
}

}  // namespace

std::vector<Tick> ByteTicks(double most) {
  constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;
  if (most >= kGiB) return Ticks(most, kGiB, "GiB");
  if (most >= kMiB) return Ticks(most, kMiB, "MiB");
  if (most >= kKiB) return Ticks(most, kKiB, "KiB");
  return Ticks(most, 1, "B");
}

std::vector<Tick> SecondTicks(double most) {
  if (most >= 1) return Ticks(most, 1, "s");
  if (most >= 1e-3) return Ticks(most, 1e-3, "ms");
  return Ticks(most, 1e-6, "us");
}

void DrawYAxis(Svg& svg, const Scale& y, const std::vector<Tick>& ticks, double left, double right) {
  for (const Tick& tick : ticks) {
    const double at = y.At(tick.value);
    svg.Line({left, at}, {right, at}, {.color = colors::kPale});
    svg.Text({left - 6, at + 4}, tick.label, Anchor::kEnd, 11);
  }
}

void DrawXAxis(Svg& svg, const Scale& x, const std::vector<Tick>& ticks, double bottom) {
  svg.Line({x.At(0), bottom}, {x.At(x.most), bottom}, {});
  for (const Tick& tick : ticks) {
    const double at = x.At(tick.value);
    svg.Line({at, bottom}, {at, bottom + 4}, {});
    svg.Text({at, bottom + 17}, tick.label, Anchor::kMiddle, 11);
  }
}

}  // namespace millrace
