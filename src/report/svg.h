// A small writer of SVG: the shapes that our plots are made of. Coordinates are pixels, y downwards.
#ifndef MILLRACE_SRC_REPORT_SVG_H_
#define MILLRACE_SRC_REPORT_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Colours that people with any colour vision tell apart (Okabe and Ito), dark enough to print.
namespace colors {
inline constexpr char kBlack[] = "#000000";
inline constexpr char kOrange[] = "#E69F00";
inline constexpr char kSky[] = "#56B4E9";
inline constexpr char kGreen[] = "#009E73";
inline constexpr char kBlue[] = "#0072B2";
inline constexpr char kVermillion[] = "#D55E00";
inline constexpr char kPurple[] = "#CC79A7";
inline constexpr char kGrey[] = "#767676";
inline constexpr char kPale[] = "#E4E4E4";
}  // namespace colors

struct Stroke {
  const char* color = colors::kBlack;
  double width = 1;
  const char* dash = "";  // SVG's stroke-dasharray
};

enum class Anchor { kStart, kMiddle, kEnd };

class Svg {
 public:
  using Point = std::pair<double, double>;

  Svg(double width, double height);

  void Line(Point from, Point to, const Stroke& stroke);
  void Polyline(const std::vector<Point>& points, const Stroke& stroke);
  // A closed area without an outline.
  void Area(const std::vector<Point>& points, const char* fill, double opacity);
  void Rect(double x, double y, double width, double height, const char* fill);
  // Rectangles of one colour and height as one element.
  void Rects(const std::vector<std::pair<double, double>>& x_ranges, double y, double height, const char* fill);
  void Text(Point at, std::string_view text, Anchor anchor, double size = 12);
  // Bold and coloured, on a white rim that keeps it readable over curves.
  void Label(Point at, std::string_view text, Anchor anchor, double size, const char* color);
  // A mark on a data point; `shape` runs over a few distinct ones.
  void Marker(Point at, int shape, const char* color);

  std::string Finish() const;

 private:
  double width_;
  double height_;
  std::string body_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_SVG_H_
