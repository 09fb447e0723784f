// Einsum: one input is a strided sum, two are a batch of matrix products. The labels of a product are
//
//   batch     in both inputs and the output      free a, free b    in one input and the output
//   inner     in both inputs alone               summed            in one input alone: summed first
//
// An input or output whose free and inner labels each merge into one stride goes into the product as it is; others
// are copied into scratch as dense [batch, free, inner].
#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <type_traits>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/register.h"
#include "cpu/kernels/strided_view.h"
#include "graph/einsum.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using Labels = std::vector<int>;

// Stride of every label of a tensor that is larger than 1 there.
struct View {
  std::map<int, int64_t> strides;
  bool repeats = false;  // a label stands for a diagonal
  bool has(int label) const { return strides.count(label) > 0; }
};

View ViewOf(const Labels& labels, const Shape& shape) {
  View view;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape.dim(i) != 1) {
      const auto [entry, added] = view.strides.try_emplace(labels[i], 0);
      entry->second += stride;
      view.repeats = view.repeats || !added;
    }
    stride *= shape.dim(i);
  }
  return view;
}

// The labels as one dimension: its size and stride (0 for none). Nothing when the strides do not follow one another.
struct Run {
  int64_t size = 1, stride = 0;
};
std::optional<Run> Merge(const View& view, const Labels& labels, const std::vector<int64_t>& sizes) {
  Run run;
  for (size_t i = labels.size(); i-- > 0;) {
    const int64_t stride = view.strides.at(labels[i]);
    if (run.stride != 0 && stride != run.size * run.stride) return std::nullopt;
    if (run.stride == 0) run.stride = stride;
    run.size *= sizes[labels[i]];
  }
  return run;
}

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// A view of dense storage with these labels, outermost first.
View DenseView(const Labels& labels, const std::vector<int64_t>& sizes) {
  View view;
  int64_t stride = 1;
  for (size_t i = labels.size(); i-- > 0;) {
    view.strides[labels[i]] = stride;
    stride *= sizes[labels[i]];
  }
  return view;
}

int64_t Elements(const Labels& labels, const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (int label : labels) elements *= sizes[label];
  return elements;
}

Labels Joined(std::initializer_list<const Labels*> parts) {
  Labels joined;
  for (const Labels* part : parts) joined.insert(joined.end(), part->begin(), part->end());
  return joined;
}

// Copies `kept` labels from one view to another, summing `summed`.
StridedSum CopyOf(const View& from, const View& to, const Labels& kept, const Labels& summed,
                  const std::vector<int64_t>& sizes) {
  StridedSum copy;
  for (int label : kept) {
    const auto source = from.strides.find(label);
    copy.kept.push_back({sizes[label], source == from.strides.end() ? 0 : source->second, to.strides.at(label)});
  }
  for (int label : summed) copy.summed.push_back({sizes[label], from.strides.at(label), 0});
  return copy;
}

template <typename T>
T Multiplied(T a, T b) {
  if constexpr (kIsComplex<T>) {
    return Times(a, b);
  } else {
    return static_cast<T>(a * b);
  }
}

// Products of complex matrices, row by row.
template <typename C>
class ComplexGemm final : public Gemm {
 public:
  ComplexGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products) : sizes_(sizes), products_(std::move(products)) {}

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void*) const override {
    const int64_t rows = static_cast<int64_t>(products_.size()) * sizes_.m;
    ParallelRange(context, rows, kElementGrain / (sizes_.n * sizes_.k) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const GemmOffsets& product = products_[row / sizes_.m];
        const int64_t i = row % sizes_.m;
        const C *a = static_cast<const C*>(factors[0]) + product.a, *b = static_cast<const C*>(factors[1]) + product.b;
        C* to = static_cast<C*>(c) + product.c + i * sizes_.c_step;
        std::fill(to, to + sizes_.n, C(0));
        for (int64_t k = 0; k < sizes_.k; ++k) {
          const C left = a[sizes_.a_at(i, k)];
          for (int64_t j = 0; j < sizes_.n; ++j) to[j] += Times(left, b[sizes_.b_at(k, j)]);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
};

// Products of single elements: all labels are batch labels, with a stride in each tensor.
template <typename T>
class ElementwiseProduct final : public Gemm {
 public:
  struct Loop {
    int64_t size = 1, a = 0, b = 0, c = 0;
  };
  explicit ElementwiseProduct(std::vector<Loop> loops) : inner_(loops.back()), outer_(std::move(loops)) {
    outer_.pop_back();
    for (const Loop& loop : outer_) count_ *= loop.size;
  }

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void*) const override {
    const void *const a = factors[0], *const b = factors[1];
    ParallelRange(context, count_, kElementGrain / inner_.size + 1, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const T *from_a = static_cast<const T*>(a), *from_b = static_cast<const T*>(b);
        T* to = static_cast<T*>(c);
        int64_t rest = index;
        for (size_t i = outer_.size(); i-- > 0;) {
          const int64_t at = rest % outer_[i].size;
          from_a += at * outer_[i].a;
          from_b += at * outer_[i].b;
          to += at * outer_[i].c;
          rest /= outer_[i].size;
        }
        for (int64_t i = 0; i < inner_.size; ++i) {
          to[i * inner_.c] = Multiplied(from_a[i * inner_.a], from_b[i * inner_.b]);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const Loop inner_;
  std::vector<Loop> outer_;
  int64_t count_ = 1;
};

template <typename T>
class EinsumKernel final : public Kernel {
 public:
  EinsumKernel(std::vector<StridedSum> copies, std::unique_ptr<Gemm> gemm, std::vector<int64_t> scratch, bool swapped,
               int64_t output_bytes, bool clear_output)
      : copies_(std::move(copies)),
        gemm_(std::move(gemm)),
        scratch_(std::move(scratch)),
        swapped_(swapped),
        output_bytes_(output_bytes),
        clear_output_(clear_output) {}

  int64_t scratch_bytes() const override {
    int64_t bytes = gemm_ == nullptr ? 0 : gemm_->scratch_bytes();
    for (int64_t part : scratch_) bytes += part;
    return bytes;
  }

  // Copies [0], [1] and [2] are of the factors and of the output; without loops and scratch they are not needed.
  absl::Status Run(const KernelContext& context) const override {
    T* output = context.output<T>(0);
    if (clear_output_) std::memset(static_cast<void*>(output), 0, output_bytes_);
    if (gemm_ == nullptr) {
      if (!copies_.empty()) copies_[0].Run(context, context.input<T>(0), output);
      return absl::OkStatus();
    }
    auto* scratch = static_cast<std::byte*>(context.scratch);
    const T* factors[2] = {context.input<T>(swapped_ ? 1 : 0), context.input<T>(swapped_ ? 0 : 1)};
    for (int i = 0; i < 2; ++i) {
      if (scratch_[i] == 0) continue;
      copies_[i].Run(context, factors[i], reinterpret_cast<T*>(scratch));
      factors[i] = reinterpret_cast<T*>(scratch);
      scratch += scratch_[i];
    }
    T* product = scratch_[2] == 0 ? output : reinterpret_cast<T*>(scratch);
    MR_RETURN_IF_ERROR(gemm_->Run(context, factors[0], factors[1], product, scratch + scratch_[2]));
    if (scratch_[2] != 0) copies_[2].Run(context, product, output);
    return absl::OkStatus();
  }

 private:
  const std::vector<StridedSum> copies_;
  const std::unique_ptr<Gemm> gemm_;
  const std::vector<int64_t> scratch_;
  const bool swapped_;
  const int64_t output_bytes_;
  const bool clear_output_;
};

// What the labels of a product are for, and where its tensors are.
struct Product {
  Labels batch, free_a, free_b, inner;
  View a, b, c;
  std::vector<int64_t> sizes;
};

class EinsumPlanner {
 public:
  EinsumPlanner(const OpInstance& instance, EinsumLabels labels) : instance_(instance), labels_(std::move(labels)) {
    element_bytes_ = DataTypeSize(instance.outputs[0].dtype);
    output_ = ViewOf(labels_.output, instance.outputs[0].shape);
  }

  template <typename T>
  absl::StatusOr<std::unique_ptr<Kernel>> Make() {
    const int64_t bytes = instance_.outputs[0].size_bytes();
    for (int64_t size : labels_.sizes) {
      if (size == 0) return MakeKernelOf<T>({}, nullptr, {}, false, bytes, bytes > 0);
    }
    if (instance_.inputs.size() == 1) {
      const View input = ViewOf(labels_.inputs[0], instance_.inputs[0].shape);
      const StridedSum copy = CopyOf(input, output_, Distinct(labels_.output), LabelsOf(input, false), labels_.sizes);
      return MakeKernelOf<T>({copy}, nullptr, {}, false, bytes, output_.repeats);
    }
    return MakeProduct<T>();
  }

 private:
  template <typename T>
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(std::vector<StridedSum> copies, std::unique_ptr<Gemm> gemm,
                                                       std::vector<int64_t> scratch, bool swapped, int64_t bytes,
                                                       bool clear) {
    return std::make_unique<EinsumKernel<T>>(std::move(copies), std::move(gemm), std::move(scratch), swapped, bytes, clear);
  }

  bool InOutput(int label) const { return output_.has(label); }

  // Labels larger than 1, each once, in order.
  Labels Distinct(const Labels& labels) const {
    Labels distinct;
    for (int label : labels) {
      if (labels_.sizes[label] != 1 && std::find(distinct.begin(), distinct.end(), label) == distinct.end()) {
        distinct.push_back(label);
      }
    }
    return distinct;
  }

  // Labels of a view that are in the output, or are not.
  Labels LabelsOf(const View& view, bool in_output) const {
    Labels labels;
    for (const auto& [label, stride] : view.strides) {
      if (InOutput(label) == in_output) labels.push_back(label);
    }
    return labels;
  }

  Product Classify(int first) const {
    Product p;
    p.sizes = labels_.sizes;
    p.a = ViewOf(labels_.inputs[first], instance_.inputs[first].shape);
    p.b = ViewOf(labels_.inputs[1 - first], instance_.inputs[1 - first].shape);
    p.c = output_;
    for (int label : Distinct(labels_.output)) {
      if (p.a.has(label) && p.b.has(label)) {
        p.batch.push_back(label);
      } else {
        (p.a.has(label) ? p.free_a : p.free_b).push_back(label);
      }
    }
    for (int label : Distinct(labels_.inputs[first])) {
      if (p.b.has(label) && p.a.has(label) && !InOutput(label)) p.inner.push_back(label);
    }
    return p;
  }

  // Labels of one factor alone that are not in the output.
  Labels SummedOf(const View& view, const View& other) const {
    Labels labels;
    for (int label : LabelsOf(view, false)) {
      if (!other.has(label)) labels.push_back(label);
    }
    return labels;
  }

  // Replaces a factor by a dense copy when it has labels to sum or does not merge. Returns the copy's bytes, else 0.
  int64_t PackFactor(const Product& p, const Labels& free, const View& other, View& view, StridedSum& copy) const {
    const Labels summed = SummedOf(view, other);
    const std::optional<Run> rows = Merge(view, free, p.sizes), inner = Merge(view, p.inner, p.sizes);
    if (summed.empty() && rows && inner && (rows->stride <= 1 || inner->stride <= 1)) return 0;
    const Labels order = Joined({&p.batch, &free, &p.inner});
    const View dense = DenseView(order, p.sizes);
    copy = CopyOf(view, dense, order, summed, p.sizes);
    view = dense;
    return AlignUp(Elements(order, p.sizes) * element_bytes_);
  }

  int64_t PackOutput(Product& p, StridedSum& copy) const {
    const std::optional<Run> rows = Merge(p.c, p.free_a, p.sizes), columns = Merge(p.c, p.free_b, p.sizes);
    if (!p.c.repeats && rows && columns && columns->stride <= 1) return 0;
    const Labels order = Joined({&p.batch, &p.free_a, &p.free_b});
    const View dense = DenseView(order, p.sizes);
    copy = CopyOf(dense, p.c, order, {}, p.sizes);
    p.c = dense;
    return AlignUp(Elements(order, p.sizes) * element_bytes_);
  }

  static GemmSizes SizesOf(const Product& p) {
    const Run a_rows = *Merge(p.a, p.free_a, p.sizes), a_inner = *Merge(p.a, p.inner, p.sizes);
    const Run b_columns = *Merge(p.b, p.free_b, p.sizes), b_inner = *Merge(p.b, p.inner, p.sizes);
    const Run c_rows = *Merge(p.c, p.free_a, p.sizes);
    GemmSizes sizes{.m = a_rows.size, .n = b_columns.size, .k = a_inner.size};
    sizes.transpose_a = a_inner.stride > 1;
    sizes.transpose_b = b_columns.stride > 1;
    const auto step = [](int64_t stride, int64_t dense) { return stride == 0 ? dense : stride; };
    sizes.a_step = sizes.transpose_a ? a_inner.stride : step(a_rows.stride, sizes.k);
    sizes.b_step = sizes.transpose_b ? b_columns.stride : step(b_inner.stride, sizes.n);
    sizes.c_step = step(c_rows.stride, sizes.n);
    return sizes;
  }

  std::vector<GemmOffsets> OffsetsOfBatch(const Product& p) const {
    std::vector<StridedLoop> factors, output;
    for (int label : p.batch) {
      factors.push_back({p.sizes[label], p.a.strides.at(label), p.b.strides.at(label)});
      output.push_back({p.sizes[label], p.c.strides.at(label), 0});
    }
    const std::vector<StridedLoop> of_factors = OffsetsOf(factors), of_output = OffsetsOf(output);
    std::vector<GemmOffsets> offsets;
    for (size_t i = 0; i < of_factors.size(); ++i) offsets.push_back({of_factors[i].from, of_factors[i].to, of_output[i].from});
    return offsets;
  }

  template <typename T>
  absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct() {
    // The output's last dimension should be a column of the product.
    const Labels output = Distinct(labels_.output);
    const View first = ViewOf(labels_.inputs[0], instance_.inputs[0].shape);
    const View second = ViewOf(labels_.inputs[1], instance_.inputs[1].shape);
    const bool swapped = !output.empty() && first.has(output.back()) && !second.has(output.back());
    Product p = Classify(swapped ? 1 : 0);
    std::vector<StridedSum> copies(3);
    std::vector<int64_t> scratch(3);
    const View a = p.a, b = p.b;
    scratch[0] = PackFactor(p, p.free_a, b, p.a, copies[0]);
    scratch[1] = PackFactor(p, p.free_b, a, p.b, copies[1]);
    scratch[2] = PackOutput(p, copies[2]);
    std::unique_ptr<Gemm> gemm;
    if (p.free_a.empty() && p.free_b.empty() && p.inner.empty()) {
      std::vector<typename ElementwiseProduct<T>::Loop> loops(1);
      for (int label : p.batch) {
        loops.push_back({p.sizes[label], p.a.strides.at(label), p.b.strides.at(label), p.c.strides.at(label)});
      }
      gemm = std::make_unique<ElementwiseProduct<T>>(std::move(loops));
    } else if constexpr (kIsComplex<T>) {
      gemm = std::make_unique<ComplexGemm<T>>(SizesOf(p), OffsetsOfBatch(p));
    } else {
      MR_ASSIGN_OR_RETURN(gemm, MakeGemm(instance_, instance_.outputs[0].dtype, SizesOf(p), OffsetsOfBatch(p)));
    }
    return MakeKernelOf<T>(std::move(copies), std::move(gemm), std::move(scratch), swapped,
                           instance_.outputs[0].size_bytes(), output_.repeats);
  }

  const OpInstance& instance_;
  const EinsumLabels labels_;
  int64_t element_bytes_ = 0;
  View output_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsum(const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const std::string equation, instance.attrs.Get<std::string>("equation"));
  MR_ASSIGN_OR_RETURN(EinsumLabels labels, ParseEinsum(equation, instance.inputs));
  EinsumPlanner planner(instance, std::move(labels));
  const DataType dtype = instance.outputs[0].dtype;
  if (dtype == DataType::kInt32) return planner.Make<int32_t>();
  if (dtype == DataType::kInt64) return planner.Make<int64_t>();
  if (dtype == DataType::kComplex64) return planner.Make<std::complex<float>>();
  if (dtype == DataType::kComplex128) return planner.Make<std::complex<double>>();
  return DispatchFloating(instance, dtype, [&](auto tag) { return planner.Make<typename decltype(tag)::type>(); });
}

}  // namespace

void RegisterEinsumKernels(KernelRegistry& registry) { AddKernel(registry, "Einsum", MakeEinsum); }

}  // namespace millrace::cpu
