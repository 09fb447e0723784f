#include "cpu/kernels/conv_geometry.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/window.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Less work than this in a piece costs more in dispatch than it saves.
constexpr double kMinFlopsToCut = 2e6;
constexpr double kFlopsPerPiece = 2e7;
// Output pixels over which a piece should use each weight that it loads.
constexpr int64_t kMinPixelsPerPiece = 128;
// Bytes of a private filter gradient are summed at the speed of memory: the work that one must be worth.
constexpr double kFlopsPerPartialByte = 64;

using Sizes = ConvGeometry::Sizes;

int64_t PiecesWanted(const ConvGeometry& g, ConvKind kind, int64_t most) {
  if (g.flops() < kMinFlopsToCut) return 1;
  double pieces = std::min({g.flops() / kFlopsPerPiece, static_cast<double>(g.batch * g.out_pixels() / kMinPixelsPerPiece),
                            static_cast<double>(most)});
  if (kind == ConvKind::kFilter) {
    pieces = std::min(pieces, g.flops() / (kFlopsPerPartialByte * sizeof(float) * g.filter_elements()));
  }
  return std::max<int64_t>(static_cast<int64_t>(pieces), 2);
}

// The divisor of `batch` to cut it by: the largest up to `wanted`, else the smallest above 1.
int64_t BatchPieces(int64_t batch, int64_t wanted) {
  for (int64_t d = std::min(wanted, batch); d > 1; --d) {
    if (batch % d == 0) return d;
  }
  for (int64_t d = 2; wanted > 1 && d <= batch; ++d) {
    if (batch % d == 0) return d;
  }
  return 1;
}

// The layer that gives output rows [begin, end) from the input rows that they touch.
ConvPiece OutputRows(const ConvGeometry& g, int64_t begin, int64_t end) {
  const int64_t extent = (g.kernel[0] - 1) * g.dilation[0] + 1;
  const int64_t first = begin * g.stride[0] - g.pad_before[0];          // input rows touched, padding included
  const int64_t last = (end - 1) * g.stride[0] - g.pad_before[0] + extent;
  const int64_t from = std::clamp<int64_t>(first, 0, g.in[0] - 1), to = std::clamp<int64_t>(last, from + 1, g.in[0]);
  ConvPiece piece{g};
  piece.geometry.in[0] = to - from;
  piece.geometry.out[0] = end - begin;
  piece.geometry.pad_before[0] = from - first;
  piece.geometry.pad_after[0] = last - to;
  piece.input_offset = from * (g.in_pixels() / g.in[0]) * g.in_channels;
  piece.output_offset = begin * (g.out_pixels() / g.out[0]) * g.out_channels;
  return piece;
}

// The layer whose input rows are [begin, end) and whose output rows are all that these reach.
ConvPiece InputRows(const ConvGeometry& g, int64_t begin, int64_t end) {
  const int64_t stride = g.stride[0], extent = (g.kernel[0] - 1) * g.dilation[0] + 1;
  const int64_t lowest = begin + g.pad_before[0] - extent + 1;  // of output row * stride
  const int64_t from = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
  const int64_t to = std::min(g.out[0], (end - 1 + g.pad_before[0]) / stride + 1);
  ConvPiece piece{g};
  piece.geometry.in[0] = end - begin;
  piece.geometry.out[0] = to - from;
  piece.geometry.pad_before[0] = g.pad_before[0] + begin - from * stride;
  piece.geometry.pad_after[0] = (to - from - 1) * stride + extent - (end - begin) - piece.geometry.pad_before[0];
  piece.input_offset = begin * (g.in_pixels() / g.in[0]) * g.in_channels;
  piece.output_offset = from * (g.out_pixels() / g.out[0]) * g.out_channels;
  return piece;
}

// oneDNN takes no empty tensors and no negative padding (except after, where it means unused rows).
bool IsRegular(const ConvGeometry& g) {
  const int64_t extent = (g.kernel[0] - 1) * g.dilation[0] + 1;
  return g.out[0] > 0 && g.in[0] > 0 && g.pad_before[0] >= 0 && g.pad_before[0] < extent &&
         g.pad_after[0] > -g.stride[0] && g.pad_after[0] < extent;
}

}  // namespace

absl::StatusOr<ConvGeometry> ReadConvGeometry(const OpInstance& instance, ConvKind kind, int spatial, bool depthwise) {
  const Shape& input = kind == ConvKind::kInput ? instance.outputs[0].shape : instance.inputs[0].shape;
  const Shape& filter = kind == ConvKind::kFilter ? instance.outputs[0].shape : instance.inputs[1].shape;
  const Shape& output = kind == ConvKind::kForward ? instance.outputs[0].shape : instance.inputs[2].shape;
  for (const Shape* shape : {&input, &filter, &output}) {
    if (shape->rank() != spatial + 2 || !shape->fully_known()) {
      return absl::InternalError(absl::StrCat("node '", instance.name, "' (", instance.op, ") has a tensor of shape ",
                                              shape->ToString(), ", expected a known one of rank ", spatial + 2));
    }
  }
  ConvGeometry g;
  g.spatial = spatial;
  MR_ASSIGN_OR_RETURN(const DataLayout layout, ParseDataFormat(instance.attrs.GetOr<std::string>(
                                                   "data_format", spatial == 3 ? "NDHWC" : "NHWC")));
  g.batch = input.dim(0);
  g.in_channels = input.dim(layout.channel());
  g.out_channels = output.dim(layout.channel());
  g.channels_first = layout.channels_first && (g.in_channels > 1 || g.out_channels > 1);  // one channel lies the same in both
  g.groups = depthwise ? g.in_channels : std::max<int64_t>(g.in_channels / filter.dim(spatial), 1);
  MR_ASSIGN_OR_RETURN(const std::vector<WindowDim> windows, ConvWindows(instance.attrs, layout, input, filter));
  for (int i = 0; i < layout.num_spatial(); ++i) {
    const WindowDim& window = windows[i];
    g.in[i] = window.input;
    g.out[i] = window.output;
    g.kernel[i] = window.window;
    g.stride[i] = window.stride;
    g.dilation[i] = window.dilation;
    g.pad_before[i] = window.pad_before;
    g.pad_after[i] = window.pad_after;
  }
  return g;
}

std::vector<ConvPiece> CutRows(const ConvGeometry& image, ConvKind kind, int64_t parts, int64_t aligned) {
  const int64_t size = kind == ConvKind::kInput ? image.in[0] : image.out[0];
  parts = image.channels_first ? 1 : std::clamp<int64_t>(parts, 1, std::max<int64_t>(size / aligned, 1));
  std::vector<ConvPiece> pieces;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = size * i / parts / aligned * aligned, end = i + 1 == parts ? size : size * (i + 1) / parts / aligned * aligned;
    pieces.push_back(kind == ConvKind::kInput ? InputRows(image, begin, end) : OutputRows(image, begin, end));
  }
  const auto regular = [](const ConvPiece& piece) { return IsRegular(piece.geometry); };
  if (parts == 1 || !std::all_of(pieces.begin(), pieces.end(), regular)) pieces.assign(1, ConvPiece{image});
  return pieces;
}

std::vector<ConvPiece> CutConv(const ConvGeometry& geometry, ConvKind kind, int64_t most) {
  const int64_t wanted = PiecesWanted(geometry, kind, most);
  const int64_t groups = BatchPieces(geometry.batch, wanted);
  ConvGeometry image = geometry;
  image.batch = geometry.batch / groups;
  const std::vector<ConvPiece> rows = CutRows(image, kind, image.batch == 1 ? wanted / groups : 1);
  std::vector<ConvPiece> pieces;
  for (int64_t i = 0; i < groups; ++i) {
    for (ConvPiece piece : rows) {
      piece.input_offset += i * image.input_elements();
      piece.output_offset += i * image.output_elements();
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace millrace::cpu
