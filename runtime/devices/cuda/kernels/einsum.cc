// Einsum: one input is a strided sum or copy; two are a broadcast multiplication where no label is summed over both, else
// a batch of matrix products. A factor that is not dense in the order the product wants is copied, and labels of one
// factor alone are summed on the way.
#include "graph/einsum.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {
namespace {

using Labels = std::vector<int>;
using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Stride of every label of a tensor that is larger than 1 there. A label that is there twice stands for a diagonal.
using View = std::map<int, int64_t>;

View ViewOf(const Labels& labels, const Shape& shape) {
  View view;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape.dim(i) != 1) view[labels[i]] += stride;
    stride *= shape.dim(i);
  }
  return view;
}

View DenseView(const Labels& labels, const std::vector<int64_t>& sizes) {
  View view;
  int64_t stride = 1;
  for (size_t i = labels.size(); i-- > 0;) {
    view[labels[i]] = stride;
    stride *= sizes[labels[i]];
  }
  return view;
}

Labels Joined(std::initializer_list<Labels> parts) {
  Labels joined;
  for (const Labels& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

int64_t StrideOf(const View& view, int label) {
  const auto found = view.find(label);
  return found == view.end() ? 0 : found->second;
}

// From a view to dense memory with these labels, outermost first; the other labels of the view are summed.
struct Packing {
  bool needed = false, sums = false;
  StridedCopy copy;
  ReduceShape reduce;
  int64_t bytes = 0, scratch_bytes = 0;
};

class EinsumPlanner {
 public:
  EinsumPlanner(DeviceServices& services, const OpInstance& instance, EinsumLabels labels, Type type)
      : services_(services), instance_(instance), labels_(std::move(labels)), type_(type) {
    bytes_ = static_cast<int>(DataTypeSize(instance.outputs[0].dtype));
    output_ = ViewOf(labels_.output, instance.outputs[0].shape);
    for (size_t i = 0; i < instance.inputs.size(); ++i) inputs_.push_back(ViewOf(labels_.inputs[i], instance.inputs[i].shape));
    for (int label : labels_.output) {
      if (labels_.sizes[label] == 1) continue;
      diagonal_ = diagonal_ || std::find(kept_.begin(), kept_.end(), label) != kept_.end();
      if (!diagonal_) kept_.push_back(label);
    }
  }

  KernelOr Make() {
    const int64_t total = instance_.outputs[0].size_bytes();
    if (std::count(labels_.sizes.begin(), labels_.sizes.end(), 0) > 0) {
      return MakeLaunch(services_, [total](const Queue& queue, const KernelContext& context) {
        LaunchZero(queue, context.outputs[0], total);
      });
    }
    if (diagonal_) return Refused(instance_, "an output with a diagonal");
    if (inputs_.size() == 1) return MakeCopy();
    for (const Labels& labels : {Common(true), Common(false)}) {
      if (labels.size() > kMaxDims) return Refused(instance_, "so many dimensions");
    }
    return Common(false).empty() ? MakeMultiplication() : MakeProducts();
  }

 private:
  // Labels of both factors that are in the output, or are not.
  Labels Common(bool in_output) const {
    Labels labels;
    for (const auto& [label, stride] : inputs_[0]) {
      if (inputs_[1].count(label) > 0 && (output_.count(label) > 0) == in_output) labels.push_back(label);
    }
    return labels;
  }
  Labels InOutputOrder(const View& with, const View* without) const {
    Labels labels;
    for (int label : kept_) {
      if (with.count(label) > 0 && (without == nullptr || without->count(label) == 0)) labels.push_back(label);
    }
    return labels;
  }
  int64_t Elements(const Labels& labels) const {
    int64_t elements = 1;
    for (int label : labels) elements *= labels_.sizes[label];
    return elements;
  }

  absl::StatusOr<Packing> Pack(const View& from, const Labels& order) const {
    Packing packing;
    const View dense = DenseView(order, labels_.sizes);
    Labels summed;
    for (const auto& [label, stride] : from) {
      if (std::find(order.begin(), order.end(), label) == order.end()) summed.push_back(label);
    }
    if (summed.empty() && from == dense) return packing;
    if (order.size() > kMaxDims || summed.size() > kMaxDims) return Refused(instance_, "so many dimensions");
    packing.needed = true;
    packing.sums = !summed.empty();
    packing.bytes = AlignUp(Elements(order) * bytes_, kLibraryAlignment);
    StridedCopy& copy = packing.copy;
    ReduceShape& reduce = packing.reduce;
    copy.elements = reduce.rows = Elements(order);
    for (int label : order) {
      copy.dims[copy.rank] = reduce.row_dims[copy.rank] = labels_.sizes[label];
      copy.from_strides[copy.rank] = reduce.row_strides[copy.rank] = StrideOf(from, label);
      copy.to_strides[copy.rank++] = dense.at(label);
    }
    reduce.row_rank = copy.rank;
    for (int label : summed) {
      reduce.terms *= labels_.sizes[label];
      reduce.term_dims[reduce.term_rank] = labels_.sizes[label];
      reduce.term_strides[reduce.term_rank++] = from.at(label);
    }
    reduce.columns = reduce.row_rank > 0 && reduce.row_strides[reduce.row_rank - 1] == 1;
    if (packing.sums) packing.scratch_bytes = ReduceScratchBytes(reduce.rows, reduce.terms, reduce.columns);
    return packing;
  }

  static void RunPacking(const Queue& queue, const Packing& packing, Type type, int bytes, const void* from, void* to,
                         void* scratch) {
    if (packing.sums) return LaunchReduce(queue, ReduceOp::kSum, type, packing.reduce, from, to, scratch);
    LaunchStridedCopy(queue, bytes, packing.copy, from, to);
  }

  KernelOr MakeCopy() const {
    MR_ASSIGN_OR_RETURN(Packing packing, Pack(inputs_[0], kept_));
    if (!packing.needed) {
      packing.copy.rank = 1;
      packing.copy.elements = packing.copy.dims[0] = Elements(kept_);
      packing.copy.from_strides[0] = packing.copy.to_strides[0] = 1;
    }
    return MakeLaunch(
        services_,
        [packing, type = type_, bytes = bytes_](const Queue& queue, const KernelContext& context) {
          RunPacking(queue, packing, type, bytes, context.inputs[0], context.outputs[0], context.scratch);
        },
        packing.scratch_bytes);
  }

  // Factors without labels that are summed in them alone; `where` is the scratch that each is packed into.
  struct Factors {
    Packing packing[2];
    int64_t at[2] = {0, 0}, sums_at = 0, end = 0;
  };
  static Factors Place(const Packing& a, const Packing& b) {
    Factors factors;
    factors.packing[0] = a;
    factors.packing[1] = b;
    factors.at[1] = a.bytes;
    factors.sums_at = a.bytes + b.bytes;
    factors.end = factors.sums_at + AlignUp(std::max(a.scratch_bytes, b.scratch_bytes), kLibraryAlignment);
    return factors;
  }
  static const void* Prepare(const Queue& queue, const Factors& factors, int which, Type type, int bytes, const void* from,
                             char* scratch) {
    if (!factors.packing[which].needed) return from;
    char* to = scratch + factors.at[which];
    RunPacking(queue, factors.packing[which], type, bytes, from, to, scratch + factors.sums_at);
    return to;
  }

  KernelOr MakeMultiplication() const {
    Broadcast shape;
    Packing packing[2];
    View views[2];
    for (int i = 0; i < 2; ++i) {
      const Labels order = InOutputOrder(inputs_[i], nullptr);
      views[i] = inputs_[i];
      const bool sums = views[i].size() > order.size();
      if (!sums) continue;
      MR_ASSIGN_OR_RETURN(packing[i], Pack(inputs_[i], order));
      views[i] = DenseView(order, labels_.sizes);
    }
    if (kept_.size() > kMaxDims) return Refused(instance_, "so many dimensions");
    shape.elements = Elements(kept_);
    for (int label : kept_) {
      shape.dims[shape.rank] = labels_.sizes[label];
      for (int i = 0; i < 2; ++i) shape.strides[i][shape.rank] = StrideOf(views[i], label);
      ++shape.rank;
    }
    const Factors factors = Place(packing[0], packing[1]);
    return MakeLaunch(
        services_,
        [factors, shape, type = type_, bytes = bytes_](const Queue& queue, const KernelContext& context) {
          char* scratch = AlignedScratch(context);
          const void* a = Prepare(queue, factors, 0, type, bytes, context.inputs[0], scratch);
          const void* b = Prepare(queue, factors, 1, type, bytes, context.inputs[1], scratch);
          LaunchBinary(queue, BinaryOp::kMul, type, shape, a, b, context.outputs[0], 0);
        },
        factors.end > 0 ? factors.end + kLibraryAlignment : 0);
  }

  // Packs a factor as [batch][rows][columns], or takes it as it is, perhaps transposed.
  absl::StatusOr<Packing> PackFactor(const View& view, const Labels& batch, const Labels& rows, const Labels& columns,
                                     bool* transposed) const {
    *transposed = view == DenseView(Joined({batch, columns, rows}), labels_.sizes);
    if (*transposed && view == DenseView(Joined({batch, rows, columns}), labels_.sizes)) *transposed = false;
    if (*transposed) return Packing();
    return Pack(view, Joined({batch, rows, columns}));
  }

  KernelOr MakeProducts() const {
    const Labels batch = InOutputOrder(inputs_[0], nullptr);
    Labels shared;
    for (int label : batch) {
      if (inputs_[1].count(label) > 0) shared.push_back(label);
    }
    Labels free_a = InOutputOrder(inputs_[0], &inputs_[1]), free_b = InOutputOrder(inputs_[1], &inputs_[0]);
    // In the order of the second factor as it lies.
    Labels inner = Common(false);
    std::sort(inner.begin(), inner.end(), [&](int p, int q) { return inputs_[1].at(p) > inputs_[1].at(q); });
    // The output's last label should be a column of the product.
    const bool swapped = !kept_.empty() && !free_a.empty() && kept_.back() == free_a.back();
    const int first = swapped ? 1 : 0;
    if (swapped) std::swap(free_a, free_b);
    ProductShape shape;
    shape.type = type_;
    MR_ASSIGN_OR_RETURN(const Packing a, PackFactor(inputs_[first], shared, free_a, inner, &shape.transpose_a));
    MR_ASSIGN_OR_RETURN(const Packing b, PackFactor(inputs_[1 - first], shared, inner, free_b, &shape.transpose_b));
    const Labels product_order = Joined({shared, free_a, free_b});
    MR_ASSIGN_OR_RETURN(const Packing back, Pack(DenseView(product_order, labels_.sizes), kept_));
    shape.batch = Elements(shared);
    shape.m = Elements(free_a);
    shape.n = Elements(free_b);
    shape.k = Elements(inner);
    shape.stride_a = shape.m * shape.k;
    shape.stride_b = shape.k * shape.n;
    shape.stride_c = shape.m * shape.n;
    MR_ASSIGN_OR_RETURN(std::shared_ptr<Product> product, services_.PlanProduct(shape));
    const Factors factors = Place(a, b);
    const int64_t library_at = factors.end + back.bytes;
    return MakeLaunch(
        services_,
        [=, type = type_, bytes = bytes_, back_at = factors.end](const Queue& queue, const KernelContext& context) -> absl::Status {
          char* scratch = AlignedScratch(context);
          const void* x = Prepare(queue, factors, 0, type, bytes, context.inputs[first], scratch);
          const void* y = Prepare(queue, factors, 1, type, bytes, context.inputs[1 - first], scratch);
          void* result = back.needed ? scratch + back_at : context.outputs[0];
          MR_RETURN_IF_ERROR(product->Run(queue, x, y, nullptr, nullptr, result, scratch + library_at));
          if (back.needed) RunPacking(queue, back, type, bytes, result, context.outputs[0], nullptr);
          return absl::OkStatus();
        },
        library_at + product->scratch_bytes() + kLibraryAlignment);
  }

  DeviceServices& services_;
  const OpInstance& instance_;
  const EinsumLabels labels_;
  const Type type_;
  int bytes_ = 0;
  View output_;
  std::vector<View> inputs_;
  Labels kept_;  // labels of the output, larger than 1, in its order
  bool diagonal_ = false;
};

KernelOr MakeEinsum(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const std::string equation, instance.attrs.Get<std::string>("equation"));
  MR_ASSIGN_OR_RETURN(EinsumLabels labels, ParseEinsum(equation, instance.inputs));
  if (instance.inputs.size() > 2) return Refused(instance, "so many factors");
  return EinsumPlanner(services, instance, std::move(labels), type).Make();
}

}  // namespace

void RegisterEinsum(KernelRegistry& registry, DeviceServices& services) { Add(registry, services, "Einsum", MakeEinsum); }

}  // namespace millrace::cuda
