#include "passes/shapes/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace millrace {
namespace {

Tensor IntTensor(const TensorType& type, absl::Span<const int64_t> values) {
  Tensor tensor(type.dtype, type.shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.dtype == DataType::kInt32) {
      tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(std::min<int64_t>(values[i], INT32_MAX));
    } else {
      tensor.mutable_as<int64_t>()[i] = values[i];
    }
  }
  return tensor;
}

bool IsIndexType(DataType dtype) { return dtype == DataType::kInt32 || dtype == DataType::kInt64; }

// Shape, Size, Rank and the like of inputs whose shapes have bounds.
std::vector<ValueBounds> BoundFromTypes(const OpInstance& instance, absl::Span<const BoundedInput> inputs) {
  std::vector<ValueBounds> result;
  for (size_t o = 0; o < instance.outputs.size() && o < inputs.size(); ++o) {
    const TensorType& out = instance.outputs[o];
    const Shape &most = inputs[o].type.shape, &partial = inputs[o].partial;
    if (!IsIndexType(out.dtype) || partial.unknown_rank() || most.rank() != partial.rank()) return {};
    std::vector<int64_t> low, high(most.dims().begin(), most.dims().end());
    for (int64_t dim : partial.dims()) low.push_back(std::max<int64_t>(dim, 0));
    for (const Shape& other : inputs[o].others) {
      for (int d = 0; d < most.rank(); ++d) high[d] = std::max(high[d], other.dim(d));
    }
    if (instance.op == "Rank") {
      low = high = {most.rank()};
    } else if (instance.op == "Size") {
      low = {Shape(low).num_elements()};
      high = {most.num_elements()};
    } else if (static_cast<int64_t>(high.size()) != out.shape.num_elements()) {
      return {};
    }
    const auto too_large = [&](int64_t size) { return out.dtype == DataType::kInt32 && size > INT32_MAX; };
    if (std::any_of(high.begin(), high.end(), too_large)) return {};
    result.push_back({IntTensor(out, low), IntTensor(out, high)});
  }
  return result.size() == instance.outputs.size() ? result : std::vector<ValueBounds>();
}

// How the value of an op follows its operands.
enum class Direction { kUnknown, kIncreasing, kIncreasingIfPositive, kDifference, kQuotient };

// Ops that move or add up the elements of all their inputs …
const std::set<std::string>& IncreasingInAll() {
  static const auto* ops = new std::set<std::string>{
      "Identity", "StopGradient", "Snapshot", "GuaranteeConst", "PreventGradient", "Cast", "Squeeze", "EnsureShape", "IdentityN",
      "DeepCopy", "Relu",         "Pack",     "Unpack",          "Add",  "AddV2",   "AddN",        "Maximum",
      "Minimum"};
  return *ops;
}

// … of the first, the others being axes, sizes or indices …
const std::set<std::string>& IncreasingInFirst() {
  static const auto* ops = new std::set<std::string>{
      "Reshape", "ExpandDims", "StridedSlice", "Slice", "Gather", "GatherV2",  "SplitV",
      "Sum",     "Max",        "Min",          "Tile",  "Cumsum", "Transpose", "BroadcastTo", "ReverseV2"};
  return *ops;
}

// … or of all but an axis.
int AxisInput(const OpInstance& instance) {
  if (instance.op == "ConcatV2") return static_cast<int>(instance.inputs.size()) - 1;
  return instance.op == "Concat" || instance.op == "ConcatOffset" || instance.op == "Split" ? 0 : -1;
}

// Indices first, then as many pieces that they place.
bool Stitches(const OpInstance& instance) { return instance.op == "DynamicStitch" || instance.op == "ParallelDynamicStitch"; }

Direction DirectionOf(const OpInstance& instance) {
  const std::string& op = instance.op;
  if (IncreasingInAll().count(op) + IncreasingInFirst().count(op) > 0 || AxisInput(instance) >= 0 || op == "Fill" ||
      Stitches(instance)) {
    return Direction::kIncreasing;
  }
  if (op == "Mul" || op == "Prod") return Direction::kIncreasingIfPositive;
  if (op == "Sub") return Direction::kDifference;
  if (op == "FloorDiv" || op == "TruncateDiv" || op == "Div") return Direction::kQuotient;
  return Direction::kUnknown;
}

// Whether the op takes input i for its elements, so that bounds of it are bounds of the result.
bool IsData(const OpInstance& instance, size_t i) {
  if (instance.op == "Fill") return i == 1;
  if (Stitches(instance)) return i >= instance.inputs.size() / 2;
  if (instance.op == "Prod" || IncreasingInFirst().count(instance.op) > 0) return i == 0;
  return static_cast<int>(i) != AxisInput(instance);
}

bool AllAtLeast(const Tensor& tensor, int64_t least) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.IntAt(i) < least) return false;
  }
  return true;
}

Tensor AtLeastOne(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(std::max<int64_t>(tensor.IntAt(i), 1));
  return IntTensor(tensor.type(), values);
}

std::vector<Tensor> Pick(absl::Span<const BoundedInput> inputs, bool high) {
  std::vector<Tensor> tensors;
  for (const BoundedInput& input : inputs) tensors.push_back(high ? input.bounds->high : input.bounds->low);
  return tensors;
}

// No more is known than the type.
ValueBounds AnyValue(const TensorType& type) {
  const bool wide = type.dtype == DataType::kInt64;
  const auto filled = [&](int64_t value) { return IntTensor(type, std::vector<int64_t>(type.shape.num_elements(), value)); };
  return {filled(wide ? INT64_MIN : INT32_MIN), filled(wide ? INT64_MAX : INT32_MAX)};
}

Tensor AsDoubles(const Tensor& tensor) {
  Tensor doubles(DataType::kDouble, tensor.shape());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) doubles.mutable_as<double>()[i] = static_cast<double>(tensor.IntAt(i));
  return doubles;
}

// Ops whose results may be beyond the range of their type, where they wrap around.
bool MayWrap(const std::string& op) {
  static const auto* ops = new std::set<std::string>{"Add", "AddV2", "AddN", "Sub", "Mul", "Sum", "Prod", "Cumsum"};
  return ops->count(op) > 0;
}

// Whether `result`, of a node that may wrap, is what the same node gives in doubles: numbers that wrapped around are off by all that
// their type holds.
bool SameInDoubles(const OpDef& def, OpInstance instance, std::vector<Tensor> values, const Tensor& result, KernelOracle& oracle) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsData(instance, i)) continue;
    values[i] = AsDoubles(values[i]);
    instance.inputs[i].dtype = DataType::kDouble;
  }
  instance.outputs[0].dtype = DataType::kDouble;
  instance.attrs.Set("T", DataType::kDouble);
  instance.input_values = values;
  const absl::StatusOr<std::vector<Tensor>> doubles = oracle.Evaluate(def, instance, std::move(values));
  if (!doubles.ok() || doubles->size() != 1 || (*doubles)[0].num_elements() != result.num_elements()) return false;
  const double half = std::ldexp(1.0, result.dtype() == DataType::kInt64 ? 63 : 31);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    if (!(std::abs((*doubles)[0].as<double>()[i] - static_cast<double>(result.IntAt(i))) < half)) return false;
  }
  return true;
}

// Whether the type of `results` holds them. An op that follows its operands keeps to the range between two ends only then.
bool Fit(const OpDef& def, const OpInstance& instance, const std::vector<Tensor>& values, const std::vector<Tensor>& results,
         KernelOracle& oracle) {
  if (instance.op == "Cast") {
    for (int64_t i = 0; i < results[0].num_elements(); ++i) {
      if (results[0].IntAt(i) != values[0].IntAt(i)) return false;
    }
  } else if (instance.op == "ConcatOffset") {
    double sum = 0;
    for (const Tensor& value : values) {
      double most = 0;
      for (int64_t i = 0; i < value.num_elements(); ++i) most = std::max(most, std::abs(static_cast<double>(value.IntAt(i))));
      sum += most;
    }
    return sum <= INT32_MAX;
  }
  return !MayWrap(instance.op) || SameInDoubles(def, instance, values, results[0], oracle);
}

// One operand with bounds is enough for these: max(x, 3) is at least 3.
bool BoundsBySome(const OpInstance& instance) { return instance.op == "Maximum" || instance.op == "Minimum"; }

}  // namespace

bool ValueBounds::limited() const {
  const bool wide = high.dtype() == DataType::kInt64;
  for (int64_t i = 0; i < high.num_elements(); ++i) {
    if (low.IntAt(i) == (wide ? INT64_MIN : INT32_MIN) || high.IntAt(i) == (wide ? INT64_MAX : INT32_MAX)) return false;
  }
  return true;
}

std::vector<ValueBounds> BoundOutputs(const OpDef& def, const OpInstance& instance,
                                      absl::Span<const BoundedInput> given, KernelOracle& oracle) {
  std::vector<BoundedInput> inputs(given.begin(), given.end());
  if (def.stateful || instance.outputs.empty()) return {};
  for (const TensorType& output : instance.outputs) {
    if (!IsIndexType(output.dtype) || output.shape.num_elements() > kMaxBoundedElements) return {};
  }
  if (def.from_types) return BoundFromTypes(instance, inputs);
  const Direction direction = DirectionOf(instance);
  if (direction == Direction::kUnknown) return {};
  const bool some = BoundsBySome(instance) && std::any_of(inputs.begin(), inputs.end(), [](const BoundedInput& input) {
                      return input.bounds.has_value();
                    });
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::optional<ValueBounds>& bounds = inputs[i].bounds;
    const TensorType& type = inputs[i].type;
    if (!bounds.has_value() && some && IsIndexType(type.dtype) && type.shape.fully_known() &&
        inputs[i].partial == type.shape && type.shape.num_elements() <= kMaxBoundedElements) {
      bounds = AnyValue(type);
    }
    if (!bounds.has_value() || !IsIndexType(bounds->low.dtype())) return {};
    if (!IsData(instance, i) && !bounds->exact()) return {};
    // One end says nothing.
    if (!some && !bounds->exact() && !bounds->limited()) return {};
  }
  std::vector<Tensor> low = Pick(inputs, false), high = Pick(inputs, true);
  if (direction == Direction::kIncreasingIfPositive &&
      !std::all_of(low.begin(), low.end(), [](const Tensor& t) { return AllAtLeast(t, 0); })) {
    return {};
  }
  if (direction == Direction::kDifference) std::swap(low[1], high[1]);
  if (direction == Direction::kQuotient) {
    if (!AllAtLeast(low[0], 0) || !AllAtLeast(low[1], 0)) return {};
    std::swap(low[1], high[1]);
    low[1] = AtLeastOne(low[1]);
    high[1] = AtLeastOne(high[1]);
  }
  const auto evaluate = [&](const std::vector<Tensor>& values) {
    OpInstance filled = instance;
    filled.input_values = values;
    return oracle.Evaluate(def, filled, values);
  };
  absl::StatusOr<std::vector<Tensor>> lows = evaluate(low);
  absl::StatusOr<std::vector<Tensor>> highs = evaluate(high);
  if (!lows.ok() || !highs.ok() || lows->size() != highs->size()) return {};
  std::vector<ValueBounds> result;
  for (size_t o = 0; o < lows->size(); ++o) {
    if (!((*lows)[o].type() == instance.outputs[o]) || !((*highs)[o].type() == instance.outputs[o])) return {};
    result.push_back({(*lows)[o], (*highs)[o]});
  }
  if (!Fit(def, instance, low, *lows, oracle) || !Fit(def, instance, high, *highs, oracle)) return {};
  return result;
}

}  // namespace millrace
