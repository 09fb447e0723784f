#include "report/image.h"

#ifdef MILLRACE_HAVE_RSVG
#include <cairo.h>
#include <librsvg/rsvg.h>

#include <memory>
#endif

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

#ifdef MILLRACE_HAVE_RSVG

constexpr bool kHavePng = true;
constexpr double kPixelsPerUnit = 2;  // sharp on paper

cairo_status_t Append(void* text, const unsigned char* bytes, unsigned int size) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), size);
  return CAIRO_STATUS_SUCCESS;
}

absl::StatusOr<std::string> PngBytes(const std::string& svg) {
  const auto unref = [](RsvgHandle* handle) { g_object_unref(handle); };
  const std::unique_ptr<RsvgHandle, decltype(unref)> handle(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), svg.size(), nullptr), unref);
  if (handle == nullptr) return absl::InternalError("librsvg does not read our SVG");
  double width = 0, height = 0;
  rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height);
  const RsvgRectangle viewport = {0, 0, width * kPixelsPerUnit, height * kPixelsPerUnit};
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(viewport.width), static_cast<int>(viewport.height)),
      cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo(cairo_create(surface.get()), cairo_destroy);
  if (!rsvg_handle_render_document(handle.get(), cairo.get(), &viewport, nullptr)) {
    return absl::InternalError("librsvg does not draw our SVG");
  }
  std::string png;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), Append, &png);
  if (status != CAIRO_STATUS_SUCCESS) return absl::InternalError(absl::StrCat("PNG: ", cairo_status_to_string(status)));
  return png;
}

#else

constexpr bool kHavePng = false;

absl::StatusOr<std::string> PngBytes(const std::string&) {
  return absl::UnimplementedError("this build has no librsvg");
}

#endif

bool IsPng(const std::string& path) { return absl::EndsWithIgnoreCase(path, ".png"); }

}  // namespace

absl::Status CheckImagePath(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".svg")) return absl::OkStatus();
  if (!IsPng(path)) {
    return absl::InvalidArgumentError(absl::StrCat("picture ", path, ": expected a name that ends in .svg or .png"));
  }
  if (!kHavePng) {
    return absl::UnimplementedError(
        absl::StrCat("picture ", path, ": this build writes .svg only; for .png install librsvg2-dev and build again"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ImageBytes(const std::string& path, const std::string& svg) {
  MR_RETURN_IF_ERROR(CheckImagePath(path));
  return IsPng(path) ? PngBytes(svg) : svg;
}

}  // namespace millrace
