#include "report/svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace millrace {
namespace {

constexpr int kShapes = 4;

// Two digits are finer than a printer's dots at these sizes.
std::string Number(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Points(const std::vector<Svg::Point>& points) {
  std::string text;
  for (const auto& [x, y] : points) absl::StrAppend(&text, text.empty() ? "" : " ", Number(x), ",", Number(y));
  return text;
}

std::string StrokeAttributes(const Stroke& stroke) {
  return absl::StrCat(" stroke=\"", stroke.color, "\" stroke-width=\"", Number(stroke.width), "\"",
                      *stroke.dash == '\0' ? "" : absl::StrCat(" stroke-dasharray=\"", stroke.dash, "\""));
}

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(std::string(text), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// A text element up to the end of its first attributes.
std::string TextStart(Svg::Point at, Anchor anchor, double size) {
  const char* anchor_name = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  return absl::StrCat("<text x=\"", Number(at.first), "\" y=\"", Number(at.second), "\" text-anchor=\"", anchor_name,
                      "\" font-size=\"", Number(size), "\"");
}

}  // namespace

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::Line(Point from, Point to, const Stroke& stroke) {
  absl::StrAppend(&body_, "<line x1=\"", Number(from.first), "\" y1=\"", Number(from.second), "\" x2=\"",
                  Number(to.first), "\" y2=\"", Number(to.second), "\"", StrokeAttributes(stroke), "/>\n");
}

void Svg::Polyline(const std::vector<Point>& points, const Stroke& stroke) {
  if (points.empty()) return;
  absl::StrAppend(&body_, "<polyline fill=\"none\" stroke-linejoin=\"round\"", StrokeAttributes(stroke), " points=\"",
                  Points(points), "\"/>\n");
}

void Svg::Area(const std::vector<Point>& points, const char* fill, double opacity) {
  if (points.empty()) return;
  absl::StrAppend(&body_, "<polygon fill=\"", fill, "\" fill-opacity=\"", Number(opacity), "\" points=\"", Points(points),
                  "\"/>\n");
}

void Svg::Rect(double x, double y, double width, double height, const char* fill) {
  absl::StrAppend(&body_, "<rect x=\"", Number(x), "\" y=\"", Number(y), "\" width=\"", Number(width), "\" height=\"",
                  Number(height), "\" fill=\"", fill, "\"/>\n");
}

void Svg::Rects(const std::vector<std::pair<double, double>>& x_ranges, double y, double height, const char* fill) {
  if (x_ranges.empty()) return;
  absl::StrAppend(&body_, "<path fill=\"", fill, "\" d=\"");
  for (const auto& [from, to] : x_ranges) {
    absl::StrAppend(&body_, "M", Number(from), " ", Number(y), "H", Number(to), "v", Number(height), "H", Number(from),
                    "z");
  }
  body_ += "\"/>\n";
}

void Svg::Text(Point at, std::string_view text, Anchor anchor, double size) {
  absl::StrAppend(&body_, TextStart(at, anchor, size), ">", Escaped(text), "</text>\n");
}

void Svg::Label(Point at, std::string_view text, Anchor anchor, double size, const char* color) {
  absl::StrAppend(&body_, TextStart(at, anchor, size), " fill=\"", color,
                  "\" font-weight=\"bold\" stroke=\"#FFFFFF\" stroke-width=\"3\" paint-order=\"stroke\">", Escaped(text),
                  "</text>\n");
}

void Svg::Marker(Point at, int shape, const char* color) {
  constexpr double r = 4;
  const auto [x, y] = at;
  switch (shape % kShapes) {
    case 0:
      absl::StrAppend(&body_, "<circle cx=\"", Number(x), "\" cy=\"", Number(y), "\" r=\"", Number(r), "\" fill=\"", color,
                      "\"/>\n");
      return;
    case 1: return Rect(x - r, y - r, 2 * r, 2 * r, color);
    case 2: return Area({{x, y - r}, {x + r, y + r}, {x - r, y + r}}, color, 1);
    default: return Area({{x, y - r}, {x + r, y}, {x, y + r}, {x - r, y}}, color, 1);
  }
}

std::string Svg::Finish() const {
  const std::string width = Number(width_);
  const std::string height = Number(height_);
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
                      width, "\" height=\"", height, "\" viewBox=\"0 0 ", width, " ", height,
                      "\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
                      "fill=\"#FFFFFF\"/>\n",
                      body_, "</svg>\n");
}

}  // namespace millrace
