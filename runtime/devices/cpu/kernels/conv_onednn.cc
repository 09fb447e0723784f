// Convolutions by oneDNN: activations in TensorFlow's layout, the filter packed into oneDNN's own in scratch, the
// pieces of CutConv side by side. A filter gradient is summed over its pieces in their order.
#include <map>
#include <tuple>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/onednn.h"
#include "cpu/kernels/shards.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using onednn::Program;
using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

// Filters from this size on are packed in parts.
constexpr int64_t kFilterBytesToSplit = 256 << 10;
constexpr int kFilterParts = 4;
constexpr int64_t kSumGrain = 16384;

Desc Activations(const ConvGeometry& g, int64_t channels, const ConvGeometry::Sizes& sizes) {
  Dims dims{g.batch, channels};
  dims.insert(dims.end(), sizes.begin(), sizes.begin() + g.spatial);
  const Tag last = g.spatial == 2 ? Tag::nhwc : Tag::ndhwc, first = g.spatial == 2 ? Tag::nchw : Tag::ncdhw;
  return Desc(dims, kF32, g.channels_first ? first : last);
}

Desc Filter(const ConvGeometry& g, Tag tag) {
  Dims dims;
  if (g.groups > 1) dims.push_back(g.groups);
  dims.insert(dims.end(), {g.out_channels / g.groups, g.in_channels / g.groups});
  dims.insert(dims.end(), g.kernel.begin(), g.kernel.begin() + g.spatial);
  return Desc(dims, kF32, tag);
}

Desc PlainFilter(const ConvGeometry& g) {
  if (g.groups > 1) return Filter(g, g.spatial == 2 ? Tag::hwigo : Tag::dhwigo);
  return Filter(g, g.spatial == 2 ? Tag::hwio : Tag::dhwio);
}

// Refuses oneDNN's reference code, which is slower than any other kernel by a factor of ten and more.
template <typename PrimitiveDesc>
void ExpectFast(const PrimitiveDesc& desc, bool any_code) {
  if (!any_code && std::string_view(desc.impl_info_str()).substr(0, 3) == "ref") {
    throw dnnl::error(dnnl_unimplemented, "has only reference code for this geometry");
  }
}

struct Built {
  Program program;
  Desc filter;  // the layout that it wants
};

// Of one piece, with `filter` as the filter's layout (`any` leaves it to oneDNN). Throws dnnl::error.
Built Build(const ConvGeometry& g, ConvKind kind, const Desc& filter, bool any_code) {
  const Desc input = Activations(g, g.in_channels, g.in), output = Activations(g, g.out_channels, g.out);
  Dims stride, dilation, before, after;
  for (int i = 0; i < g.spatial; ++i) {
    stride.push_back(g.stride[i]);
    dilation.push_back(g.dilation[i] - 1);
    before.push_back(g.pad_before[i]);
    after.push_back(std::max<int64_t>(g.pad_after[i], 0));
  }
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = onednn::UserScratchpad();
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, input, filter, output, stride, dilation, before, after}, attr,
      onednn::Engine());
  if (kind == ConvKind::kForward) {
    ExpectFast(forward, any_code);
    const Desc packed = forward.weights_desc();
    return {Program(dnnl::convolution_forward(forward),
                    {{DNNL_ARG_SRC, input}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, output}},
                    forward.scratchpad_desc()),
            packed};
  }
  if (kind == ConvKind::kInput) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {direct, input, filter, output, stride, dilation, before, after}, attr, onednn::Engine(), forward);
    ExpectFast(desc, any_code);
    const Desc packed = desc.weights_desc();
    return {Program(dnnl::convolution_backward_data(desc),
                    {{DNNL_ARG_DIFF_SRC, input}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DIFF_DST, output}},
                    desc.scratchpad_desc()),
            packed};
  }
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {direct, input, filter, output, stride, dilation, before, after}, attr, onednn::Engine(), forward);
  ExpectFast(desc, any_code);
  const Desc packed = desc.diff_weights_desc();
  return {Program(dnnl::convolution_backward_weights(desc),
                  {{DNNL_ARG_SRC, input}, {DNNL_ARG_DIFF_WEIGHTS, packed}, {DNNL_ARG_DIFF_DST, output}},
                  desc.scratchpad_desc()),
          packed};
}

// Elements of the first dimension that a layout keeps together.
int64_t FirstDimBlock(const Desc& layout) {
  const dnnl_blocking_desc_t& blocking = layout.data.format_desc.blocking;
  int64_t block = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    if (blocking.inner_idxs[i] == 0) block *= blocking.inner_blks[i];
  }
  return block;
}

// A reorder of the filter in parts (of output channels, or groups) that run side by side.
class FilterReorder {
 public:
  FilterReorder() = default;
  FilterReorder(const Desc& from, const Desc& to) {
    const Dims dims = from.dims();
    const int64_t block = std::max(FirstDimBlock(from), FirstDimBlock(to)), blocks = (dims[0] + block - 1) / block;
    const bool split = static_cast<int64_t>(to.get_size()) >= kFilterBytesToSplit;
    const int64_t parts = split ? std::min<int64_t>(blocks, kFilterParts) : 1;
    for (int64_t i = 0; i < parts; ++i) {
      Dims part = dims, offset(dims.size(), 0);
      offset[0] = blocks * i / parts * block;
      part[0] = std::min(blocks * (i + 1) / parts * block, dims[0]) - offset[0];
      parts_.push_back(onednn::MakeReorder(from.submemory_desc(part, offset), to.submemory_desc(part, offset)));
      scratchpad_bytes_ = std::max(scratchpad_bytes_, parts_.back().scratchpad_bytes());
    }
  }
  int64_t scratch_bytes() const { return scratchpad_bytes_ * static_cast<int64_t>(parts_.size()); }

  absl::Status Run(const KernelContext& context, const void* from, void* to, std::byte* scratch) const {
    return RunShards(context, static_cast<int64_t>(parts_.size()), [&](int64_t i) {
      return parts_[i].Run({from, to}, scratch + i * scratchpad_bytes_);
    });
  }

 private:
  std::vector<Program> parts_;
  int64_t scratchpad_bytes_ = 0;
};

// Scratch: the packed filter (for a filter gradient one per piece), then a scratchpad per piece, which the
// reorder's shares.
class OneDnnConv final : public Kernel {
 public:
  OneDnnConv(const ConvGeometry& geometry, ConvKind kind, bool any_code, int64_t most_pieces)
      : kind_(kind), any_code_(any_code) {
    std::vector<ConvPiece> pieces = CutConv(geometry, kind, most_pieces);
    if (!BuildAll(geometry, pieces)) {
      // Pieces that want different layouts of the filter: do without the cut.
      programs_.clear();
      pieces_.clear();
      BuildAll(geometry, {ConvPiece{geometry}});
    }
    for (const Program& program : programs_) scratchpad_bytes_ = std::max(scratchpad_bytes_, program.scratchpad_bytes());
    const Desc plain = PlainFilter(geometry);
    packed_elements_ = static_cast<int64_t>(packed_.get_size() / sizeof(float));
    packed_bytes_ = AlignUp(static_cast<int64_t>(packed_.get_size()));
    reorder_ = kind == ConvKind::kFilter ? FilterReorder(packed_, plain) : FilterReorder(plain, packed_);
  }

  int64_t scratch_bytes() const override {
    return filters() * packed_bytes_ +
           std::max(static_cast<int64_t>(pieces_.size()) * scratchpad_bytes_, reorder_.scratch_bytes());
  }

  absl::Status Run(const KernelContext& context) const override {
    auto* filter = static_cast<std::byte*>(context.scratch);
    std::byte* scratchpads = filter + filters() * packed_bytes_;
    if (kind_ == ConvKind::kFilter) {
      MR_RETURN_IF_ERROR(RunPieces(context, context.input<float>(0), filter, context.input<float>(2), scratchpads));
      SumPartials(context, filter);
      return reorder_.Run(context, filter, context.outputs[0], scratchpads);
    }
    MR_RETURN_IF_ERROR(reorder_.Run(context, context.inputs[1], filter, scratchpads));
    const bool forward = kind_ == ConvKind::kForward;
    const float* input = forward ? context.input<float>(0) : context.output<float>(0);
    const float* output = forward ? context.output<float>(0) : context.input<float>(2);
    return RunPieces(context, input, filter, output, scratchpads);
  }

 private:
  struct Piece {
    int program;
    int64_t input_offset, output_offset;
  };

  int64_t filters() const { return kind_ == ConvKind::kFilter ? static_cast<int64_t>(pieces_.size()) : 1; }

  // False when a later piece does not take the first one's filter layout.
  bool BuildAll(const ConvGeometry& geometry, const std::vector<ConvPiece>& pieces) {
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> built;
    for (const ConvPiece& piece : pieces) {
      const ConvGeometry& g = piece.geometry;
      const auto [entry, added] = built.try_emplace({g.in[0], g.out[0], g.pad_before[0], g.pad_after[0]}, programs_.size());
      if (added) {
        try {
          Built made = Build(g, kind_, programs_.empty() ? Filter(geometry, Tag::any) : packed_, any_code_);
          packed_ = made.filter;
          programs_.push_back(std::move(made.program));
        } catch (const dnnl::error& error) {
          if (programs_.empty() || error.status == dnnl_out_of_memory) throw;
          return false;
        }
      }
      pieces_.push_back({entry->second, piece.input_offset, piece.output_offset});
    }
    return true;
  }

  absl::Status RunPieces(const KernelContext& context, const float* input, const std::byte* filter, const float* output,
                         std::byte* scratchpads) const {
    const int64_t filter_step = kind_ == ConvKind::kFilter ? packed_bytes_ : 0;
    return RunShards(context, static_cast<int64_t>(pieces_.size()), [&](int64_t i) {
      const Piece& piece = pieces_[i];
      return programs_[piece.program].Run(
          {input + piece.input_offset, filter + i * filter_step, output + piece.output_offset},
          scratchpads + i * scratchpad_bytes_);
    });
  }

  // Adds the partial gradients of all pieces onto the first.
  void SumPartials(const KernelContext& context, std::byte* partials) const {
    const auto count = static_cast<int64_t>(pieces_.size());
    if (count == 1) return;
    float* sum = reinterpret_cast<float*>(partials);
    const int64_t step = packed_bytes_ / static_cast<int64_t>(sizeof(float));
    ParallelRange(context, packed_elements_, kSumGrain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; block += kSumBlock) {
        const int64_t stop = std::min(block + kSumBlock, end);
        for (int64_t p = 1; p < count; ++p) {
          const float* partial = sum + p * step;
          for (int64_t i = block; i < stop; ++i) sum[i] += partial[i];
        }
      }
    });
  }

  static constexpr int64_t kSumBlock = 4096;

  const ConvKind kind_;
  const bool any_code_;
  std::vector<Program> programs_;
  std::vector<Piece> pieces_;
  Desc packed_;
  int64_t packed_elements_ = 0, packed_bytes_ = 0, scratchpad_bytes_ = 0;
  FilterReorder reorder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeOneDnnConv(const ConvGeometry& geometry, ConvKind kind, bool any_code) {
  return onednn::Guard("convolve", [&]() -> std::unique_ptr<Kernel> {
    // Every piece has scratch of its own: fewer where that grows out of proportion.
    for (int64_t most = kMaxConvPieces;; most /= 2) {
      auto kernel = std::make_unique<OneDnnConv>(geometry, kind, any_code, most);
      if (most <= 2 || kernel->scratch_bytes() <= geometry.scratch_limit()) return kernel;
    }
  });
}

}  // namespace millrace::cpu
