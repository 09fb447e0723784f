// Variables and their initial values.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "builder/tensors.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"

namespace millrace {
namespace {

// Fan-in and fan-out of a kernel [window..., inputs, outputs].
std::pair<double, double> Fans(const Shape& shape) {
  if (shape.rank() < 2) {
    const double size = static_cast<double>(shape.num_elements());
    return {size, size};
  }
  double window = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) window *= static_cast<double>(shape.dim(i));
  return {window * static_cast<double>(shape.dim(shape.rank() - 2)),
          window * static_cast<double>(shape.dim(shape.rank() - 1))};
}

Output Filled(GraphBuilder& b, const TensorType& type, double value) {
  return ops::Fill(b.Ints(type.shape.dims()), b.Scalar(type.dtype, value), "value");
}

Output ScaledRandom(GraphBuilder& b, const char* op, const TensorType& type, double scale, double offset) {
  Output value = ops::Random(b, op, type, "random");
  value = ops::Mul(value, b.Scalar(type.dtype, scale), "scaled");
  return offset == 0 ? value : ops::Add(value, b.Scalar(type.dtype, offset), "value");
}

// Puts a list aside while it lives.
class SetAside {
 public:
  explicit SetAside(std::vector<NodeId>& list) : list_(list) { list_.swap(kept_); }
  ~SetAside() { list_.swap(kept_); }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;

 private:
  std::vector<NodeId>& list_;
  std::vector<NodeId> kept_;
};

}  // namespace

namespace init {

Initializer Constant(double value) {
  return [value](GraphBuilder& b, const TensorType& type) { return Filled(b, type, value); };
}
Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer Value(Tensor value) {
  return [value](GraphBuilder& b, const TensorType&) { return b.Const(value, "value"); };
}

Initializer Uniform(double low, double high) {
  return [low, high](GraphBuilder& b, const TensorType& type) {
    return ScaledRandom(b, "RandomUniform", type, high - low, low);
  };
}

Initializer Normal(double stddev) {
  return [stddev](GraphBuilder& b, const TensorType& type) {
    return ScaledRandom(b, "RandomStandardNormal", type, stddev, 0);
  };
}

Initializer TruncatedNormal(double stddev) {
  return [stddev](GraphBuilder& b, const TensorType& type) {
    return ScaledRandom(b, "TruncatedNormal", type, stddev, 0);
  };
}

Initializer GlorotUniform() {
  return [](GraphBuilder& b, const TensorType& type) {
    const auto [fan_in, fan_out] = Fans(type.shape);
    const double limit = std::sqrt(6.0 / (fan_in + fan_out));
    return ScaledRandom(b, "RandomUniform", type, 2 * limit, -limit);
  };
}

Initializer HeNormal() {
  return [](GraphBuilder& b, const TensorType& type) {
    // A normal distribution cut at two standard deviations has this standard deviation.
    constexpr double kTruncatedStddev = 0.87962566103423978;
    return ScaledRandom(b, "TruncatedNormal", type, std::sqrt(2.0 / Fans(type.shape).first) / kTruncatedStddev, 0);
  };
}

}  // namespace init

Output Variable::Read() const {
  if (builder_ == nullptr) return Output();
  return builder_->Op("ReadVariableOp", {handle_}, {{"dtype", type_.dtype}}, absl::StrCat("/", name_, "/Read"));
}

Operation Variable::Assign(const Output& value, std::string_view name) const { return Write("AssignVariableOp", value, name); }
Operation Variable::AssignAdd(const Output& value, std::string_view name) const { return Write("AssignAddVariableOp", value, name); }
Operation Variable::AssignSub(const Output& value, std::string_view name) const { return Write("AssignSubVariableOp", value, name); }

Operation Variable::Write(const char* op, const Output& value, std::string_view name) const {
  if (builder_ != nullptr) return builder_->Op(op, {handle_, value}, {{"dtype", type_.dtype}}, name);
  if (value.builder() != nullptr) value.builder()->FailOp(op, {value}, name, "writes a default Variable, which is of no graph");
  return Operation(value.builder(), NodeId());
}

Variable GraphBuilder::AddState(std::string_view name, Shape shape, const Initializer& initializer, DataType dtype) {
  const std::string full_name = FullName(name, "Variable");
  const TensorType type{dtype, std::move(shape)};
  if (!ok()) return Variable(this, full_name, Output(), type);
  if (graph_.Find(full_name).valid()) {
    Fail(absl::AlreadyExistsError(absl::StrCat("variable '", full_name, "': a node has that name already")));
  } else if (!type.shape.fully_known()) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("variable '", full_name, "' has shape ", type.shape.ToString(), ", expected a known one")));
  } else if (initializer == nullptr) {
    Fail(absl::InvalidArgumentError(absl::StrCat("variable '", full_name, "' has no initializer")));
  }
  if (!ok()) return Variable(this, full_name, Output(), type);
  // Initial values run before the first step: they wait for nothing of it.
  const SetAside no_control(control_);
  const Output handle = Op("VarHandleOp", {},
                           {{"dtype", dtype}, {"shape", type.shape}, {"shared_name", full_name}, {"container", ""}},
                           absl::StrCat("/", full_name));
  Variable variable(this, full_name, handle, type);
  {
    NameScope scope(*this, absl::StrCat("/", full_name, "/init"));
    const Output value = EmitWithoutExceptions(*this, absl::StrCat("the initializer of variable '", full_name, "'"),
                                               [&] { return initializer(*this, type); });
    if (ok() && !(value.type() == type)) {
      Fail(absl::InvalidArgumentError(absl::StrCat("variable '", full_name, "' is ", type.ToString(),
                                                   ", its initial value is ", value.type().ToString())));
    }
    initializers_.push_back(variable.Assign(value, absl::StrCat("/", full_name, "/Assign")));
  }
  variables_.push_back(variable);
  return variable;
}

Variable GraphBuilder::AddVariable(std::string_view name, Shape shape, const Initializer& initializer,
                                   DataType dtype) {
  Variable variable = AddState(name, std::move(shape), initializer, dtype);
  trainable_.push_back(variable);
  return variable;
}

Operation GraphBuilder::AddInit(std::string_view name) { return Group(initializers_, name); }

}  // namespace millrace
