#include "millrace/optimizers.h"

#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "graph/float16.h"
#include "graph/with_message.h"
#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// The name, or name_1, name_2, … where a node has it: a graph may hold several optimizers, each with state of its own.
std::string FreeName(const GraphBuilder& b, const std::string& name) {
  std::string free = name;
  for (int suffix = 1; b.graph().Find(free).valid(); ++suffix) free = absl::StrCat(name, "_", suffix);
  return absl::StrCat("/", free);
}

Variable Slot(GraphBuilder& b, const Variable& variable, const char* name, double value) {
  return b.AddState(FreeName(b, absl::StrCat(variable.name(), "/", name)), variable.shape(), init::Constant(value),
                    variable.type().dtype);
}

Output Decayed(const Variable& variable, const Output& gradient, double weight_decay) {
  if (weight_decay == 0 || variable.shape().rank() < 2) return gradient;
  return gradient + variable.Read() * weight_decay;
}

// Whether a rate below 1 is 1 when rounded.
bool IsOneInBfloat16(double rate) { return rate < 1 && FloatToBfloat16(static_cast<float>(rate)) == FloatToBfloat16(1.0f); }

struct Setting {
  enum Range { kNotNegative, kPart, kBelowOne };
  const char* what;
  double value;
  Range range = kNotNegative;
};

absl::Status Check(absl::Span<const Setting> settings) {
  for (const auto& [what, value, range] : settings) {
    const bool in_range = range == Setting::kNotNegative || (range == Setting::kPart ? value <= 1 : value < 1);
    if (value >= 0 && std::isfinite(value) && in_range) continue;
    const char* const expected = range == Setting::kNotNegative ? "0 or more" : range == Setting::kPart ? "0 to 1" : "0 or more and less than 1";
    return absl::InvalidArgumentError(absl::StrCat(what, " ", value, ", expected ", expected));
  }
  return absl::OkStatus();
}

std::string UpdateName(const Variable& variable) { return absl::StrCat("/", variable.name(), "/update"); }

// Applies no update whose settings are out of their ranges.
class BuiltinOptimizer : public Optimizer {
 public:
  Operation Apply(GraphBuilder& b, const Variable& variable, const Output& gradient) final {
    if (const absl::Status checked = Check(settings_); !checked.ok()) {
      b.Fail(WithPrefix(checked, name_));
      return Operation(&b, NodeId());
    }
    return Update(b, variable, gradient);
  }

 protected:
  BuiltinOptimizer(const char* name, std::vector<Setting> settings) : name_(name), settings_(std::move(settings)) {}
  virtual Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) = 0;
  const char* name() const { return name_; }

 private:
  const char* const name_;
  const std::vector<Setting> settings_;
};

class SgdOptimizer final : public BuiltinOptimizer {
 public:
  SgdOptimizer(double learning_rate, double weight_decay)
      : BuiltinOptimizer("Sgd", {{"learning rate", learning_rate}, {"weight decay", weight_decay}}),
        rate_(learning_rate), decay_(weight_decay) {}

  Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const DataType dtype = variable.type().dtype;
    const Output g = Decayed(variable, gradient, decay_);
    return b.Op("ResourceApplyGradientDescent", {variable.handle(), b.Scalar(dtype, rate_), g},
                {{"T", dtype}, {"use_locking", false}}, UpdateName(variable));
  }

 private:
  const double rate_, decay_;
};

class MomentumOptimizer final : public BuiltinOptimizer {
 public:
  MomentumOptimizer(double learning_rate, double momentum, double weight_decay, bool nesterov)
      : BuiltinOptimizer("Momentum", {{"learning rate", learning_rate}, {"momentum", momentum, Setting::kPart}, {"weight decay", weight_decay}}),
        rate_(learning_rate), momentum_(momentum), decay_(weight_decay), nesterov_(nesterov) {}

  Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const DataType dtype = variable.type().dtype;
    const Variable accumulator = Slot(b, variable, "momentum", 0);
    const Output g = Decayed(variable, gradient, decay_);
    return b.Op("ResourceApplyMomentum",
                {variable.handle(), accumulator.handle(), b.Scalar(dtype, rate_), g, b.Scalar(dtype, momentum_)},
                {{"T", dtype}, {"use_locking", false}, {"use_nesterov", nesterov_}}, UpdateName(variable));
  }

 private:
  const double rate_, momentum_, decay_;
  const bool nesterov_;
};

class AdamOptimizer final : public BuiltinOptimizer {
 public:
  AdamOptimizer(const char* name, double learning_rate, double beta1, double beta2, double epsilon, double weight_decay,
                double decoupled_decay)
      : BuiltinOptimizer(name, {{"learning rate", learning_rate},
                                {"beta1", beta1, Setting::kBelowOne},
                                {"beta2", beta2, Setting::kBelowOne},
                                {"epsilon", epsilon},
                                {"weight decay", weight_decay},
                                {"weight decay", decoupled_decay}}),
        rate_(learning_rate), beta1_(beta1), beta2_(beta2), epsilon_(epsilon), decay_(weight_decay),
        decoupled_decay_(decoupled_decay) {}

  Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const DataType dtype = variable.type().dtype;
    if (dtype == DataType::kBfloat16 && (IsOneInBfloat16(beta1_) || IsOneInBfloat16(beta2_))) {
      b.Fail(absl::InvalidArgumentError(absl::StrCat(name(), ": of variable '", variable.name(), "', which is bfloat16, beta1 ", beta1_, " or beta2 ",
                                                     beta2_, " is 1 and nothing would be trained; keep it in float and cast what is read")));
      return Operation(&b, NodeId());
    }
    const Powers& powers = PowersFor(b, dtype);
    const Variable m = Slot(b, variable, "m", 0), v = Slot(b, variable, "v", 0);
    const Output g = Decayed(variable, gradient, decay_);
    std::vector<Operation> before;
    if (decoupled_decay_ != 0 && variable.shape().rank() >= 2) {
      // After the gradient, whose computation read the variable as it was.
      ControlScope after_gradient(b, {Operation(&b, g.node())});
      before.push_back(variable.AssignSub(variable.Read() * (rate_ * decoupled_decay_),
                                          absl::StrCat("/", variable.name(), "/decay")));
    }
    ControlScope after_decay(b, before);
    return b.Op("ResourceApplyAdam",
                {variable.handle(), m.handle(), v.handle(), ops::Cast(powers.read1, dtype), ops::Cast(powers.read2, dtype),
                 b.Scalar(dtype, rate_), b.Scalar(dtype, beta1_), b.Scalar(dtype, beta2_), b.Scalar(dtype, epsilon_),
                 g},
                {{"T", dtype}, {"use_locking", false}, {"use_nesterov", false}}, UpdateName(variable));
  }

  std::vector<Operation> Finish(GraphBuilder& b, absl::Span<const Operation> updates) override {
    ControlScope after(b, updates);
    std::vector<Operation> next;
    for (const auto& [dtype, powers] : powers_) {
      next.push_back(powers.power1.Assign(ops::Mul(powers.read1, b.Scalar(dtype, beta1_), "/beta1_power/next"), "/beta1_power/update"));
      next.push_back(powers.power2.Assign(ops::Mul(powers.read2, b.Scalar(dtype, beta2_), "/beta2_power/next"), "/beta2_power/update"));
    }
    return next;
  }

 private:
  struct Powers {
    Variable power1, power2;
    Output read1, read2;
  };

  // Those of the variable's type; of 16 bits they would soon not change any more, there float's are.
  const Powers& PowersFor(GraphBuilder& b, DataType dtype) {
    if (dtype == DataType::kHalf || dtype == DataType::kBfloat16) dtype = DataType::kFloat;
    const auto [it, inserted] = powers_.try_emplace(dtype);
    Powers& powers = it->second;
    if (inserted) {
      powers.power1 = b.AddState(FreeName(b, "beta1_power"), Shape(), init::Constant(beta1_), dtype);
      powers.power2 = b.AddState(FreeName(b, "beta2_power"), Shape(), init::Constant(beta2_), dtype);
      powers.read1 = powers.power1.Read();
      powers.read2 = powers.power2.Read();
    }
    return powers;
  }

  const double rate_, beta1_, beta2_, epsilon_, decay_, decoupled_decay_;
  std::map<DataType, Powers> powers_;
};

class RmsPropOptimizer final : public BuiltinOptimizer {
 public:
  RmsPropOptimizer(double learning_rate, double rho, double momentum, double epsilon, double weight_decay)
      : BuiltinOptimizer("RmsProp", {{"learning rate", learning_rate},
                                     {"rho", rho, Setting::kPart},
                                     {"momentum", momentum, Setting::kPart},
                                     {"epsilon", epsilon},
                                     {"weight decay", weight_decay}}),
        rate_(learning_rate), rho_(rho), momentum_(momentum), epsilon_(epsilon), decay_(weight_decay) {}

  Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const DataType dtype = variable.type().dtype;
    const Variable squares = Slot(b, variable, "rms", 1), accumulator = Slot(b, variable, "momentum", 0);
    const Output g = Decayed(variable, gradient, decay_);
    return b.Op("ResourceApplyRMSProp",
                {variable.handle(), squares.handle(), accumulator.handle(), b.Scalar(dtype, rate_),
                 b.Scalar(dtype, rho_), b.Scalar(dtype, momentum_), b.Scalar(dtype, epsilon_), g},
                {{"T", dtype}, {"use_locking", false}}, UpdateName(variable));
  }

 private:
  const double rate_, rho_, momentum_, epsilon_, decay_;
};

class AdagradOptimizer final : public BuiltinOptimizer {
 public:
  AdagradOptimizer(double learning_rate, double initial_accumulator, double weight_decay)
      : BuiltinOptimizer("Adagrad", {{"learning rate", learning_rate}, {"initial accumulator", initial_accumulator}, {"weight decay", weight_decay}}),
        rate_(learning_rate), initial_(initial_accumulator), decay_(weight_decay) {}

  Operation Update(GraphBuilder& b, const Variable& variable, const Output& gradient) override {
    const DataType dtype = variable.type().dtype;
    const Variable accumulator = Slot(b, variable, "accumulator", initial_);
    const Output g = Decayed(variable, gradient, decay_);
    return b.Op("ResourceApplyAdagrad", {variable.handle(), accumulator.handle(), b.Scalar(dtype, rate_), g},
                {{"T", dtype}, {"use_locking", false}, {"update_slots", true}}, UpdateName(variable));
  }

 private:
  const double rate_, initial_, decay_;
};

}  // namespace

std::vector<Operation> Optimizer::Finish(GraphBuilder&, absl::Span<const Operation>) { return {}; }

std::unique_ptr<Optimizer> Sgd(double learning_rate, double weight_decay) {
  return std::make_unique<SgdOptimizer>(learning_rate, weight_decay);
}

std::unique_ptr<Optimizer> Momentum(double learning_rate, double momentum, double weight_decay, bool nesterov) {
  return std::make_unique<MomentumOptimizer>(learning_rate, momentum, weight_decay, nesterov);
}

std::unique_ptr<Optimizer> Adam(double learning_rate, double beta1, double beta2, double epsilon,
                                double weight_decay) {
  return std::make_unique<AdamOptimizer>("Adam", learning_rate, beta1, beta2, epsilon, weight_decay, 0);
}

std::unique_ptr<Optimizer> AdamW(double learning_rate, double decay, double beta1, double beta2, double epsilon) {
  return std::make_unique<AdamOptimizer>("AdamW", learning_rate, beta1, beta2, epsilon, 0, decay);
}

std::unique_ptr<Optimizer> RmsProp(double learning_rate, double rho, double momentum, double epsilon,
                                   double weight_decay) {
  return std::make_unique<RmsPropOptimizer>(learning_rate, rho, momentum, epsilon, weight_decay);
}

std::unique_ptr<Optimizer> Adagrad(double learning_rate, double initial_accumulator, double weight_decay) {
  return std::make_unique<AdagradOptimizer>(learning_rate, initial_accumulator, weight_decay);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(std::string_view name, double learning_rate,
                                                         double weight_decay) {
  MR_RETURN_IF_ERROR(Check({{"learning rate", learning_rate}, {"weight decay", weight_decay}}));
  if (name == "sgd") return Sgd(learning_rate, weight_decay);
  if (name == "momentum") return Momentum(learning_rate, 0.9, weight_decay);
  if (name == "adam") return Adam(learning_rate, 0.9, 0.999, 1e-7, weight_decay);
  if (name == "adamw") return AdamW(learning_rate, weight_decay);
  if (name == "rmsprop") return RmsProp(learning_rate, 0.9, 0, 1e-7, weight_decay);
  if (name == "adagrad") return Adagrad(learning_rate, 0.1, weight_decay);
  return absl::InvalidArgumentError(absl::StrCat("optimizer '", std::string(name),
                                                 "', expected sgd, momentum, adam, adamw, rmsprop or adagrad"));
}

Operation Minimize(GraphBuilder& builder, std::unique_ptr<Optimizer> optimizer, const Output& loss,
                   std::string_view name) {
  if (optimizer == nullptr) {
    builder.Fail(absl::InvalidArgumentError("Minimize: no optimizer"));
    return Operation(&builder, NodeId());
  }
  const std::vector<Variable> variables = builder.trainable();
  std::vector<Output> handles;
  for (const Variable& variable : variables) handles.push_back(variable.handle());
  std::vector<Operation> updates;
  GradientOptions options;
  options.on_ready = [&](int index, const Output& gradient) {
    updates.push_back(EmitWithoutExceptions(builder, absl::StrCat("Minimize: the optimizer's update of variable '", variables[index].name(), "'"),
                                            [&] { return optimizer->Apply(builder, variables[index], gradient); }));
    if (builder.ok() && !updates.back().valid()) {
      return absl::InvalidArgumentError(absl::StrCat("Minimize: the optimizer gives no update of variable '", variables[index].name(), "'"));
    }
    return builder.status();
  };
  if (!AddGradients(builder, {loss}, handles, options).ok()) return Operation(&builder, NodeId());
  if (updates.empty()) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat("Minimize: '", builder.TensorName(loss), "' depends on none of ",
                                                         variables.size(), " trainable variables")));
    return Operation(&builder, NodeId());
  }
  const std::vector<Operation> finish =
      EmitWithoutExceptions(builder, "Minimize: the optimizer's Finish", [&] { return optimizer->Finish(builder, updates); });
  updates.insert(updates.end(), finish.begin(), finish.end());
  for (const Operation& operation : builder.updates()) updates.push_back(operation);
  return builder.Group(updates, name);
}

}  // namespace millrace
