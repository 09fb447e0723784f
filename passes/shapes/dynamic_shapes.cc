#include "passes/shapes/dynamic_shapes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/value_ends.h"

namespace millrace {
namespace {

// What a shape rule said.
struct Ruling {
  absl::Status status;
  std::vector<TensorType> outputs;
  std::vector<int> bound_outputs;
  uint64_t by_value = 0;
  bool known() const {
    return status.ok() && std::all_of(outputs.begin(), outputs.end(),
                                      [](const TensorType& type) { return type.shape.fully_known(); });
  }
};

Ruling Rule(const OpDef& def, const OpInstance& instance) {
  std::vector<const Tensor*> values(instance.inputs.size(), nullptr);
  for (size_t i = 0; i < instance.input_values.size(); ++i) {
    if (!instance.input_values[i].empty()) values[i] = &instance.input_values[i];
  }
  InferenceContext context(instance.name, instance.op, instance.attrs, instance.inputs, values);
  Ruling ruling;
  ruling.status = def.InferShapes(context);
  ruling.outputs.assign(context.outputs().begin(), context.outputs().end());
  ruling.bound_outputs.assign(context.bound_outputs().begin(), context.bound_outputs().end());
  ruling.by_value = context.by_value();
  return ruling;
}

// Takes a shape that output `o` may have, too. The bound is what has the most elements.
void AddOther(Shape shape, size_t o, DynamicTypes& types) {
  constexpr size_t kMost = 8;
  Shape& bound = types.outputs[o].shape;
  std::vector<Shape>& others = types.others[o];
  if (shape.rank() != bound.rank()) return;
  if (shape.num_elements() > bound.num_elements()) std::swap(shape, bound);
  bool larger = false;
  for (int d = 0; d < shape.rank(); ++d) larger = larger || shape.dim(d) > bound.dim(d);
  if (larger && others.size() < kMost && std::find(others.begin(), others.end(), shape) == others.end()) others.push_back(std::move(shape));
}

class DynamicInferrer {
 public:
  DynamicInferrer(const OpDef& def, const OpInstance& instance, absl::Span<const BoundedInput> inputs)
      : def_(def), instance_(instance), inputs_(inputs) {
    instance_.input_values.resize(inputs.size());
  }

  absl::StatusOr<DynamicTypes> Run() {
    OpInstance partial = instance_;
    for (size_t i = 0; i < inputs_.size(); ++i) partial.inputs[i].shape = inputs_[i].partial;
    const Ruling with_bounds = Rule(def_, instance_), with_partial = Rule(def_, partial);
    // A rule that marks bounds does without the values that it asked for.
    result_.by_value = with_bounds.by_value | with_partial.by_value;
    const bool marked = !with_bounds.bound_outputs.empty() || !with_partial.bound_outputs.empty();
    if (!marked && !with_bounds.known()) {
      for (size_t i = 0; i < std::min<size_t>(inputs_.size(), 64); ++i) {
        if ((result_.by_value >> i & 1) != 0 && instance_.input_values[i].empty()) result_.run_time_values |= uint64_t{1} << i;
      }
    }
    if (SizeMayReachTheEnd()) result_.run_time_values |= uint64_t{1} << 1;
    const std::vector<Shape> partial_outputs = PartialOutputs(partial, with_partial);
    MR_RETURN_IF_ERROR(FindBounds());
    AddOtherReshapes();
    AddSmallerInstances();
    MR_RETURN_IF_ERROR(DropReducedDims());
    ForgetOtherValues();
    Reconcile(partial_outputs);
    return std::move(result_);
  }

 private:
  ValueEnds Ends() const { return {instance_, inputs_, result_.run_time_values}; }
  bool Needs(size_t i) const { return Ends().Open(i); }

  // A size of -1 goes from the begin to the end: only then the rule of Slice asks where a Slice begins.
  bool SizeMayReachTheEnd() const {
    if (instance_.op != "Slice" || !Needs(2) || !instance_.input_values[1].empty()) return false;
    const std::optional<ValueBounds>& size = inputs_[2].bounds;
    bool may = !size.has_value();
    for (int64_t d = 0; !may && d < size->low.num_elements(); ++d) may = size->low.IntAt(d) < 0;
    return may;
  }

  // The dimension that values make smaller, of an output that the rule marks: rows, but along an axis for the values of UniqueV2.
  static int BoundDim(const OpInstance& instance, int output, int rank) {
    const bool along = output == 0 && absl::StartsWith(instance.op, "Unique") && instance.inputs.size() > 1;
    const Tensor* axis = along && !instance.input_values[1].empty() ? &instance.input_values[1] : nullptr;
    if (axis == nullptr || axis->num_elements() != 1) return 0;
    return static_cast<int>(axis->IntAt(0) < 0 ? axis->IntAt(0) + rank : axis->IntAt(0));
  }

  // Empty when nothing is certain.
  std::vector<Shape> PartialOutputs(OpInstance partial, const Ruling& without_values) const {
    std::vector<Shape> shapes;
    if (result_.run_time_values == 0) {
      if (!without_values.status.ok()) return {};
      for (const TensorType& type : without_values.outputs) shapes.push_back(type.shape);
      ForgetMarked(without_values, partial, shapes);
      return shapes;
    }
    // What comes out the same for all ends of what the values may be is certain.
    const ValueEnds ends = Ends();
    const bool along = ends.OnlyAxisOpen();
    if (!along && !ends.FollowsValues()) return {};
    bool any = false;
    for (const OpInstance& candidate : along ? ends.WithEachAxis(partial) : ends.WithAllEnds(partial)) {
      const Ruling ruling = Rule(def_, candidate);
      if (!ruling.status.ok() && along) continue;  // there is no such axis
      if (!ruling.status.ok()) return {};
      std::vector<Shape> others;
      for (const TensorType& type : ruling.outputs) others.push_back(type.shape);
      ForgetMarked(ruling, candidate, others);
      for (size_t o = 0; any && o < others.size(); ++o) KeepEqual(others[o], shapes[o]);
      if (!any) shapes = std::move(others);
      any = true;
    }
    return shapes;
  }

  // What values make smaller, of the outputs that the rule marks.
  void ForgetMarked(const Ruling& ruling, const OpInstance& partial, std::vector<Shape>& shapes) const {
    for (int output : ruling.bound_outputs) {
      Shape& shape = shapes[output];
      if (instance_.op == "Select") {
        for (int d = 0; d < shape.rank(); ++d) {
          if (partial.inputs[1].shape.dim(d) != partial.inputs[2].shape.dim(d)) shape.set_dim(d, -1);
        }
        continue;
      }
      const int dim = BoundDim(partial, output, shape.rank());
      if (dim >= 0 && dim < shape.rank()) shape.set_dim(dim, -1);
      // Rows of rows: the longest one of each level.
      const int levels = instance_.op == "RaggedTensorToTensor" ? static_cast<int>(inputs_.size()) - 3 : 0;
      for (int d = 1; d <= levels && d < shape.rank(); ++d) shape.set_dim(d, -1);
    }
  }

  static void KeepEqual(const Shape& other, Shape& shape) {
    if (other.rank() != shape.rank()) shape = Shape::UnknownRank();
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) != other.dim(d)) shape.set_dim(d, -1);
    }
  }

  // As where shapes are known: what the rule does not take by value a kernel finds in the device's memory, constants, too.
  void ForgetOtherValues() {
    for (OpInstance& instance : result_.possible) {
      const size_t inputs = instance.input_values.size();
      for (size_t i = 0; i < inputs; ++i) {
        if (!TakenByValue(instance.op, inputs, i, result_.by_value)) instance.input_values[i] = Tensor();
      }
    }
  }

  bool Try(const OpInstance& candidate) {
    Ruling ruling = Rule(def_, candidate);
    if (error_.ok()) error_ = ruling.status;
    if (!ruling.known()) return false;
    result_.by_value |= ruling.by_value;
    result_.possible = {candidate};
    result_.possible[0].outputs = ruling.outputs;
    result_.outputs = std::move(ruling.outputs);
    return true;
  }

  // The largest output of those along any axis.
  bool TryAxes(const OpInstance& base) {
    for (const OpInstance& candidate : Ends().WithEachAxis(base)) {
      if (result_.possible.empty()) {
        Try(candidate);
        continue;
      }
      const size_t before = result_.possible.size();
      AddPossible(candidate);
      if (result_.possible.size() == before) continue;
      result_.others.resize(result_.outputs.size());
      for (size_t o = 0; o < result_.outputs.size(); ++o) AddOther(result_.possible.back().outputs[o].shape, o, result_);
    }
    return !result_.possible.empty();
  }

  absl::Status FindBounds() {
    OpInstance candidate = instance_;
    std::optional<std::string> missing;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!Needs(i)) continue;
      if (inputs_[i].bounds.has_value() && inputs_[i].bounds->limited()) {
        candidate.input_values[i] = inputs_[i].bounds->high;
      } else {
        missing = absl::StrCat("input ", i, " sizes its output, but is known only when running and has no bound");
      }
    }
    if (!IsReduction(instance_.op) && Ends().OnlyAxisOpen() && TryAxes(candidate)) return absl::OkStatus();
    if (result_.run_time_values != 0 && !missing.has_value()) Ends().SetLargest(candidate);
    if (result_.run_time_values != 0) SetLargest(candidate, missing);
    if (result_.run_time_values == 0) FitToReshape(candidate);
    if (missing.has_value()) {
      return absl::UnimplementedError(absl::StrCat("node '", instance_.name, "' (", instance_.op, "): ", *missing));
    }
    if (Try(candidate) || TryEqualDims(candidate)) {
      if (instance_.op == "SplitV" && Needs(1)) WidenSplits();
      return absl::OkStatus();
    }
    if (!error_.ok()) return error_;
    return absl::UnimplementedError(absl::StrCat("node '", instance_.name, "' (", instance_.op,
                                                 ") has an output whose shape is known only when running, and no "
                                                 "bound of it is known"));
  }

  // For ops whose largest output does not follow from the largest values: values (and attributes) that give it.
  void SetLargest(OpInstance& candidate, std::optional<std::string>& missing) const {
    const std::string& op = instance_.op;
    const Shape& in = instance_.inputs[0].shape;
    if (IsReduction(op) && Needs(1)) {
      candidate.input_values[1] = Ints(instance_.inputs[1], {});
      candidate.inputs[1].shape = Shape({0});
    } else if (op == "SplitV" && Needs(1) && !Needs(2)) {
      const Tensor& axis = candidate.input_values[2];
      if (axis.num_elements() != 1 || in.rank() < 1) return;
      const int64_t d = axis.IntAt(0) < 0 ? axis.IntAt(0) + in.rank() : axis.IntAt(0);
      if (d < 0 || d >= in.rank() || instance_.inputs[1].shape.num_elements() < 1) return;
      std::vector<int64_t> sizes(instance_.inputs[1].shape.num_elements(), 0);
      sizes[0] = -1;  // all that there is, which the type of the sizes may be too small for
      candidate.input_values[1] = Ints(instance_.inputs[1], sizes);
    } else if (op == "Slice") {
      std::vector<int64_t> size(in.dims().begin(), in.dims().end());
      const Tensor& high = candidate.input_values[2];
      const Tensor& low = Needs(2) && inputs_[2].bounds.has_value() ? inputs_[2].bounds->low : high;
      for (size_t d = 0; d < size.size() && static_cast<int64_t>(d) < high.num_elements(); ++d) {
        if (!high.empty() && low.IntAt(d) >= 0) size[d] = std::min(size[d], high.IntAt(d));  // others may reach the end
      }
      candidate.input_values[1] = Ints(instance_.inputs[1], std::vector<int64_t>(size.size(), 0));
      candidate.input_values[2] = Ints(instance_.inputs[2], size);
    } else if (op == "StridedSlice" && (!Needs(3) || (inputs_[3].bounds.has_value() && inputs_[3].bounds->limited()))) {
      if (Needs(3)) Ends().SetShortestSteps(candidate);
      for (int i : {1, 2}) {
        if (!Needs(i)) continue;
        candidate.attrs.Set(i == 1 ? "begin_mask" : "end_mask", ~candidate.attrs.GetOr<int64_t>("shrink_axis_mask", 0));
        candidate.input_values[i] =
            Ints(instance_.inputs[i], std::vector<int64_t>(candidate.input_values[3].num_elements(), 0));
      }
    } else if (op == "Reshape" && candidate.input_values.size() > 1 && !candidate.input_values[1].empty()) {
      const std::vector<int64_t> dims = LargestReshape(candidate.input_values[1], 0);
      candidate.input_values[1] = Ints(instance_.inputs[1], dims);
      // The real input has as many elements as the result.
      if (Shape(dims).num_elements() <= in.num_elements()) candidate.inputs[0].shape = Shape(dims);
    } else {
      return;
    }
    missing.reset();
  }

  // Where a Reshape asks for less than the bound of its input, the input will be that small.
  void FitToReshape(OpInstance& candidate) const {
    if (instance_.op != "Reshape" || inputs_[0].partial.fully_known() || instance_.input_values[1].empty()) return;
    std::vector<int64_t> dims;
    for (int64_t i = 0; i < instance_.input_values[1].num_elements(); ++i) dims.push_back(instance_.input_values[1].IntAt(i));
    const bool given = std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
    if (given && Shape(dims).num_elements() < candidate.inputs[0].shape.num_elements()) candidate.inputs[0].shape = Shape(dims);
  }

  // The request with sizes such that the result is no larger than the input, whose memory it has. Of the sizes that are not certain, first
  // `favoured` is as large as it may be, the others are then.
  std::vector<int64_t> LargestReshape(const Tensor& high, size_t favoured) const {
    const Tensor& low = inputs_[1].bounds.has_value() ? inputs_[1].bounds->low : high;
    const int64_t elements = instance_.inputs[0].shape.num_elements();
    const auto free = [&](size_t i) { return high.IntAt(i) < 0 || low.IntAt(i) != high.IntAt(i); };
    std::vector<int64_t> dims;
    for (int64_t i = 0; i < high.num_elements(); ++i) dims.push_back(free(i) ? std::max<int64_t>(low.IntAt(i), 1) : high.IntAt(i));
    const auto grow = [&](size_t grown) {
      int64_t fits = elements;
      for (size_t i = 0; i < dims.size(); ++i) fits /= i == grown ? 1 : std::max<int64_t>(dims[i], 1);
      fits = std::max<int64_t>(fits, elements > 0 ? 1 : 0);
      dims[grown] = low.IntAt(grown) < 0 ? fits : std::min(high.IntAt(grown), fits);  // -1 is all that is left
    };
    if (favoured < dims.size() && free(favoured)) grow(favoured);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (free(i) && i != favoured) grow(i);
    }
    return dims;
  }

  // Of a Reshape to sizes that are not certain: each of them as large as it may be, the others smaller.
  void AddOtherReshapes() {
    result_.others.resize(result_.outputs.size());
    const Tensor& asked = instance_.op == "Reshape" && inputs_[1].bounds.has_value() ? inputs_[1].bounds->high : Tensor();
    if (asked.empty() || !Needs(1)) return;
    for (int64_t d = 0; d < asked.num_elements(); ++d) AddOther(Shape(LargestReshape(asked, d)), 0, result_);
  }

  // Bounds of one real size may differ: tries smaller ones, first of a single dimension, then of all at once.
  bool TryEqualDims(const OpInstance& base) {
    std::set<int64_t, std::greater<int64_t>> sizes;
    for (const TensorType& input : base.inputs) {
      for (int64_t dim : input.shape.dims()) sizes.insert(dim);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      for (int d = 0; d < inputs_[i].partial.rank(); ++d) {
        if (inputs_[i].partial.dim(d) >= 0) continue;
        for (int64_t size : sizes) {
          if (size >= base.inputs[i].shape.dim(d)) continue;
          OpInstance candidate = base;
          candidate.inputs[i].shape.set_dim(d, size);
          if (Try(candidate)) return true;
        }
      }
    }
    const auto from_left = [](int d, int) { return d; };
    const auto from_right = [](int d, int rank) { return d - rank; };
    const auto everywhere = [](int, int) { return 0; };
    return Try(WithLeast(base, from_left)) || Try(WithLeast(base, from_right)) ||
           Try(WithLeast(base, everywhere));
  }

  // Dimensions that are not certain, made as small as the least of those with the same key (1 aside, which broadcasts).
  OpInstance WithLeast(OpInstance candidate, const std::function<int(int d, int rank)>& key) const {
    std::map<int, int64_t> least;
    const auto visit = [&](const std::function<void(size_t, int, int)>& body) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const int rank = candidate.inputs[i].shape.rank();
        for (int d = 0; d < rank; ++d) body(i, d, key(d, rank));
      }
    };
    visit([&](size_t i, int d, int k) {
      const int64_t dim = candidate.inputs[i].shape.dim(d);
      if (dim == 1) return;
      auto [it, inserted] = least.emplace(k, dim);
      it->second = std::min(it->second, dim);
    });
    visit([&](size_t i, int d, int k) {
      const Shape& partial = inputs_[i].partial;
      const bool certain = d < partial.rank() && partial.dim(d) >= 0;
      auto found = least.find(k);
      if (certain || found == least.end() || candidate.inputs[i].shape.dim(d) == 1) return;
      candidate.inputs[i].shape.set_dim(d, found->second);
    });
    return candidate;
  }

  // The representative's first part has everything; each may.
  void WidenSplits() {
    for (size_t o = 1; o < result_.outputs.size(); ++o) {
      const Shape whole = result_.outputs[0].shape;
      for (int d = 0; d < whole.rank(); ++d) {
        Shape& shape = result_.outputs[o].shape;
        if (shape.dim(d) == whole.dim(d)) continue;
        int64_t most = whole.dim(d);
        // A size of -1 is what the others leave.
        const bool sized = inputs_[1].bounds.has_value() && inputs_[1].bounds->low.IntAt(o) >= 0;
        if (sized) most = std::min(most, inputs_[1].bounds->high.IntAt(o));
        shape.set_dim(d, std::max<int64_t>(most, 0));
      }
    }
  }

  void AddPossible(OpInstance candidate) {
    Ruling ruling = Rule(def_, candidate);
    if (!ruling.known()) return;
    candidate.outputs = std::move(ruling.outputs);
    result_.possible.push_back(std::move(candidate));
  }

  void AddSmallerInstances() {
    const OpInstance largest = result_.possible[0];
    if (IsReduction(instance_.op) && Needs(1)) {
      std::vector<int64_t> all;
      for (int d = 0; d < largest.inputs[0].shape.rank(); ++d) {
        OpInstance one = largest;
        one.input_values[1] = Ints(instance_.inputs[1], {d});
        AddPossible(std::move(one));
        all.push_back(d);
      }
      OpInstance every = largest;
      every.input_values[1] = Ints(instance_.inputs[1], all);
      AddPossible(std::move(every));
    }
    // In steps of a quarter to a half, down to one.
    int64_t most = 1;
    // A Reshape's largest input may have been given the rank of its result.
    const auto rank = [&](size_t i) { return std::min(inputs_[i].partial.rank(), largest.inputs[i].shape.rank()); };
    for (size_t i = 0; i < inputs_.size(); ++i) {
      for (int d = 0; d < rank(i); ++d) {
        if (inputs_[i].partial.dim(d) < 0) most = std::max(most, largest.inputs[i].shape.dim(d));
      }
    }
    int64_t numerator = 3, divisor = 4;  // 3/4, 1/2, 3/8, 1/4, …
    while (most * numerator >= divisor) {
      // All dimensions by one factor; or the long ones, where short ones (features, say) are not certain either.
      OpInstance smaller = largest, shorter = largest;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        for (int d = 0; d < rank(i); ++d) {
          if (inputs_[i].partial.dim(d) >= 0) continue;
          const int64_t dim = largest.inputs[i].shape.dim(d);
          smaller.inputs[i].shape.set_dim(d, std::max<int64_t>(dim * numerator / divisor, 1));
          shorter.inputs[i].shape.set_dim(d, std::min(dim, most * numerator / divisor));
        }
      }
      AddPossible(std::move(smaller));
      AddPossible(std::move(shorter));
      numerator = numerator == 3 ? 2 : 3;
      if (numerator == 3) divisor *= 2;
    }
  }

  // Which axes a reduction takes is not known, but how many: its result has as many dimensions less, each as large as the largest of those
  // that may be left in its place.
  absl::Status DropReducedDims() {
    if (!IsReduction(instance_.op) || !Needs(1) || !inputs_[1].partial.fully_known()) return absl::OkStatus();
    const Shape &in = instance_.inputs[0].shape, &axes = inputs_[1].partial;
    if (instance_.attrs.GetOr<bool>("keep_dims", false)) {
      // One that is reduced has one element, of a dimension without elements, too.
      Shape& kept = result_.outputs[0].shape;
      for (int d = 0; d < kept.rank(); ++d) kept.set_dim(d, std::max<int64_t>(kept.dim(d), 1));
      return absl::OkStatus();
    }
    const int count = static_cast<int>(std::min<int64_t>(axes.num_elements(), in.rank()));
    Shape largest;
    for (int d = 0; d + count < in.rank(); ++d) {
      const auto dims = in.dims().subspan(d, count + 1);
      largest.AddDim(*std::max_element(dims.begin(), dims.end()));
    }
    if (in.num_elements() > 0 && largest.num_elements() > in.num_elements()) {
      return absl::UnimplementedError(absl::StrCat("node '", instance_.name, "' (", instance_.op,
                                                   "): the axes are known only when running, and of the shapes that its result may have the largest, ",
                                                   largest.ToString(), ", is more than its input, ", in.ToString()));
    }
    result_.outputs[0].shape = std::move(largest);
    return absl::OkStatus();
  }

  void Reconcile(const std::vector<Shape>& partial) {
    for (size_t o = 0; o < result_.outputs.size(); ++o) {
      Shape& bound = result_.outputs[o].shape;
      Shape certain = o < partial.size() ? partial[o] : Shape::UnknownRank();
      if (certain.rank() != bound.rank()) {
        certain = bound;
        for (int d = 0; d < bound.rank(); ++d) certain.set_dim(d, -1);
      }
      for (int d = 0; d < bound.rank(); ++d) {
        if (certain.dim(d) >= 0) bound.set_dim(d, certain.dim(d));
      }
      result_.partial.push_back(std::move(certain));
    }
  }

  const OpDef& def_;
  OpInstance instance_;
  absl::Span<const BoundedInput> inputs_;
  absl::Status error_;  // of the first attempt
  DynamicTypes result_;
};

}  // namespace

absl::StatusOr<DynamicTypes> InferDynamic(const OpDef& def, const OpInstance& instance,
                                          absl::Span<const BoundedInput> inputs) {
  MR_ASSIGN_OR_RETURN(DynamicTypes types, DynamicInferrer(def, instance, inputs).Run());
  size_t others = 0;
  for (const BoundedInput& input : inputs) others = std::max(others, input.others.size());
  for (size_t k = 0; k < others; ++k) {
    OpInstance other = instance;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (k < inputs[i].others.size()) other.inputs[i].shape = inputs[i].others[k];
    }
    absl::StatusOr<DynamicTypes> found = DynamicInferrer(def, other, inputs).Run();
    if (!found.ok() || found->outputs.size() != types.outputs.size()) continue;
    for (size_t o = 0; o < types.outputs.size(); ++o) {
      AddOther(found->outputs[o].shape, o, types);
      for (Shape& shape : found->others[o]) AddOther(std::move(shape), o, types);
    }
    types.possible.insert(types.possible.end(), found->possible.begin(), found->possible.end());
  }
  return types;
}

}  // namespace millrace
