// Convolutions by float kernels on copies of their tensors: 16-bit floats converted, the input of a depthwise layer spread to
// a channel for every output channel. A slice of images at a time, or of a large image's rows, so that the copies are small.
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/convert.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Copies of a slice's activations take no more, unless one image or one slab does.
constexpr int64_t kCopyBytes = int64_t{8} << 20;
// Slabs of an image begin where tiles of minimal filtering do.
constexpr int64_t kSlabRows = 4;

// How a tensor is copied, `n` elements of it at a time: of each, `each` floats. load: into the copy; store: out of it.
struct CopyRule {
  int64_t element_bytes = sizeof(float), each = 1;
  std::function<void(const void* from, float* to, int64_t n)> load;  // null: the kernel takes the tensor itself
  std::function<void(const float* from, void* to, int64_t n)> store;
};

enum Role { kInputRole, kFilterRole, kOutputRole };

Role ResultOf(ConvKind kind) {
  return kind == ConvKind::kForward ? kOutputRole : kind == ConvKind::kInput ? kInputRole : kFilterRole;
}

// The slices of a layer whose images have copies of `image_bytes` each.
std::vector<ConvPiece> SlicesOf(const ConvGeometry& geometry, ConvKind kind, int64_t image_bytes, int64_t slab_bytes) {
  ConvGeometry slice = geometry;
  const int64_t most = std::max<int64_t>(kCopyBytes / std::max<int64_t>(image_bytes, 1), 1), wanted = (geometry.batch + most - 1) / most;
  slice.batch = (geometry.batch + wanted - 1) / wanted;  // about as large as one another, but for the last
  std::vector<ConvPiece> of_slice{ConvPiece{slice}};
  if (image_bytes > slab_bytes) {
    slice.batch = 1;
    of_slice = CutRows(slice, kind, (image_bytes + slab_bytes - 1) / slab_bytes, kSlabRows);
  }
  std::vector<ConvPiece> pieces;
  for (int64_t image = 0; image < geometry.batch; image += slice.batch) {
    for (ConvPiece piece : of_slice) {
      piece.geometry.batch = std::min(slice.batch, geometry.batch - image);
      piece.input_offset += image * (geometry.input_elements() / geometry.batch);
      piece.output_offset += image * (geometry.output_elements() / geometry.batch);
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

class CopyingConv final : public Kernel {
 public:
  // One rule per role.
  CopyingConv(const ConvGeometry& geometry, ConvKind kind, std::array<CopyRule, 3> rules, int64_t slab_bytes = kConvSlabBytes) : result_(ResultOf(kind)) {
    int64_t image_floats = 0;
    const std::array<int64_t, 3> elements{geometry.input_elements(), geometry.filter_elements(), geometry.output_elements()};
    for (Role role : {kInputRole, kOutputRole}) {
      if (rules[role].load) image_floats += elements[role] / geometry.batch * rules[role].each;
    }
    pieces_ = SlicesOf(geometry, kind, image_floats * static_cast<int64_t>(sizeof(float)), slab_bytes);
    for (const ConvPiece& piece : pieces_) {
      slices_.push_back({0,
                         {piece.input_offset, 0, piece.output_offset},
                         {piece.geometry.input_elements(), geometry.filter_elements(), piece.geometry.output_elements()}});
    }
    for (Role role : {kInputRole, kFilterRole, kOutputRole}) {
      int64_t most = 0;
      for (const Slice& slice : slices_) most = std::max(most, slice.elements[role]);
      parts_[role] = {std::move(rules[role]), most, scratch_};
      if (parts_[role].copied()) scratch_ += parts_[role].copy_bytes();
    }
    partial_ = scratch_;
    if (result_ == kFilterRole && slices_.size() > 1) scratch_ += parts_[kFilterRole].copy_bytes();
  }

  // Makes the kernels of slices: one for those that are alike.
  absl::Status MakeKernels(FloatConvMaker make) {
    const std::vector<ConvPiece> pieces = std::exchange(pieces_, {});
    std::map<std::array<int64_t, 5>, int> made;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const ConvGeometry& g = pieces[i].geometry;
      const auto [entry, added] = made.try_emplace({g.batch, g.in[0], g.out[0], g.pad_before[0], g.pad_after[0]}, static_cast<int>(kernels_.size()));
      slices_[i].kernel = entry->second;
      if (!added) continue;
      MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make(g));
      kernels_.push_back(std::move(kernel));
    }
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const override {
    int64_t most = 0;
    for (const std::unique_ptr<Kernel>& kernel : kernels_) most = std::max(most, kernel->scratch_bytes());
    return scratch_ + most;
  }

  absl::Status Run(const KernelContext& context) const override {
    if (result_ != kFilterRole && parts_[kFilterRole].copied()) Load(context, kFilterRole, slices_[0]);
    for (const Slice& slice : slices_) {
      std::array<void*, 3> tensors;
      for (Role role : {kInputRole, kFilterRole, kOutputRole}) {
        const Part& part = parts_[role];
        tensors[role] = TensorAt(context, role, slice);
        if (part.copied()) tensors[role] = CopyOf(context, role);
        if (part.copied() && role != result_ && role != kFilterRole) Load(context, role, slice);
      }
      void* result = tensors[result_];
      if (result_ == kFilterRole && &slice != &slices_[0]) result = static_cast<std::byte*>(context.scratch) + partial_;
      KernelContext inner = context;
      inner.inputs = tensors.data();
      inner.outputs = &result;
      inner.scratch = static_cast<std::byte*>(context.scratch) + scratch_;
      MR_RETURN_IF_ERROR(kernels_[slice.kernel]->Run(inner));
      if (result != tensors[result_]) Add(context, static_cast<const float*>(result), static_cast<float*>(tensors[result_]));
      if (result_ != kFilterRole && parts_[result_].copied()) Store(context, slice);
    }
    if (result_ == kFilterRole && parts_[kFilterRole].copied()) Store(context, slices_[0]);
    return absl::OkStatus();
  }

 private:
  struct Part {
    CopyRule rule;
    int64_t elements = 0;  // of the largest slice
    int64_t copy = 0;      // bytes of scratch before it
    bool copied() const { return rule.load != nullptr; }
    int64_t copy_bytes() const { return AlignUp(elements * rule.each * static_cast<int64_t>(sizeof(float))); }
  };
  struct Slice {
    int kernel = 0;
    std::array<int64_t, 3> first, elements;  // of the tensors, by role
  };

  float* CopyOf(const KernelContext& context, Role role) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(context.scratch) + parts_[role].copy);
  }
  std::byte* TensorAt(const KernelContext& context, Role role, const Slice& slice) const {
    void* tensor = role == result_ ? context.outputs[0] : context.inputs[role];
    return static_cast<std::byte*>(tensor) + slice.first[role] * parts_[role].rule.element_bytes;
  }

  void Load(const KernelContext& context, Role role, const Slice& slice) const {
    const CopyRule& rule = parts_[role].rule;
    const std::byte* from = TensorAt(context, role, slice);
    float* to = CopyOf(context, role);
    ParallelRange(context, slice.elements[role], kElementGrain / rule.each, [&](int64_t begin, int64_t end) {
      rule.load(from + begin * rule.element_bytes, to + begin * rule.each, end - begin);
    });
  }

  void Store(const KernelContext& context, const Slice& slice) const {
    const CopyRule& rule = parts_[result_].rule;
    const float* from = CopyOf(context, result_);
    std::byte* to = TensorAt(context, result_, slice);
    ParallelRange(context, slice.elements[result_], kElementGrain / rule.each, [&](int64_t begin, int64_t end) {
      rule.store(from + begin * rule.each, to + begin * rule.element_bytes, end - begin);
    });
  }

  void Add(const KernelContext& context, const float* partial, float* sum) const {
    ParallelRange(context, parts_[kFilterRole].elements, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum[i] += partial[i];
    });
  }

  const Role result_;
  std::vector<ConvPiece> pieces_;  // until there are kernels
  std::vector<Slice> slices_;  // of the pieces
  std::array<Part, 3> parts_;
  int64_t partial_ = 0;  // bytes of scratch before a slice's filter gradient
  int64_t scratch_ = 0;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// Every number `each` times, a vector at a time where what that writes too much is written over or inside the copy.
void Spread(const float* from, float* to, int64_t n, int64_t each) {
  constexpr int64_t kLanes = 8;
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  const int64_t excess = (each + kLanes - 1) / kLanes * kLanes - each;
  const int64_t whole = std::max<int64_t>(n - (excess + each - 1) / each, 0);
  for (int64_t i = 0; i < whole; ++i, to += each) {
    const Vector vector = from[i] - Vector{};
    for (int64_t j = 0; j < each; j += kLanes) std::memcpy(to + j, &vector, sizeof(vector));
  }
  for (int64_t i = whole; i < n; ++i) to = std::fill_n(to, each, from[i]);
}

void SumGroups(const float* from, float* to, int64_t n, int64_t each) {
  for (int64_t i = 0; i < n; ++i, from += each) {
    float sum = from[0];
    for (int64_t j = 1; j < each; ++j) sum += from[j];
    to[i] = sum;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeWidenedConv(DataType dtype, const ConvGeometry& geometry, ConvKind kind, FloatConvMaker make,
                                                        int64_t slab_bytes) {
  const Widening widening = WideningOf(dtype);
  const CopyRule rule{DataTypeSize(dtype), 1, widening.load, widening.store};
  auto kernel = std::make_unique<CopyingConv>(geometry, kind, std::array<CopyRule, 3>{rule, rule, rule}, slab_bytes);
  MR_RETURN_IF_ERROR(kernel->MakeKernels(make));
  return kernel;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSpreadDepthwiseConv(const ConvGeometry& geometry, ConvKind kind, FloatConvMaker make) {
  const int64_t each = geometry.out_channels / geometry.in_channels;
  CopyRule rule;
  rule.each = each;
  rule.load = [each](const void* from, float* to, int64_t n) { Spread(static_cast<const float*>(from), to, n, each); };
  rule.store = [each](const float* from, void* to, int64_t n) { SumGroups(from, static_cast<float*>(to), n, each); };
  auto kernel = std::make_unique<CopyingConv>(geometry, kind, std::array<CopyRule, 3>{std::move(rule), CopyRule(), CopyRule()});
  MR_RETURN_IF_ERROR(kernel->MakeKernels([make](const ConvGeometry& slice) {
    ConvGeometry spread = slice;
    spread.in_channels = spread.groups = spread.out_channels;
    return make(spread);
  }));
  return kernel;
}

}  // namespace millrace::cpu
