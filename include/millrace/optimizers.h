// Optimizers: the update of every trainable variable, emitted right behind its gradient.
#ifndef MILLRACE_OPTIMIZERS_H_
#define MILLRACE_OPTIMIZERS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph_builder.h"

namespace millrace {

// Emits updates into one builder. Write a class of one's own for another rule.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The node that updates `variable` with its gradient. An exception becomes the builder's error, from Finish too.
  virtual Operation Apply(GraphBuilder& builder, const Variable& variable, const Output& gradient) = 0;
  // Nodes that run after the updates of a step (powers of decay rates); nothing by default.
  virtual std::vector<Operation> Finish(GraphBuilder& builder, absl::Span<const Operation> updates);
};

// Settings are checked where an optimizer is applied, errors are the builder's: momentum and rho are 0 to 1, betas less than 1, the others
// finite and not negative.
//
// `weight_decay` adds weight_decay * w to the gradient of every variable of rank 2 and more (kernels, not biases and
// scales): the gradient of weight_decay/2 |w|^2, which the loss then need not hold.
std::unique_ptr<Optimizer> Sgd(double learning_rate, double weight_decay = 0);
std::unique_ptr<Optimizer> Momentum(double learning_rate, double momentum = 0.9, double weight_decay = 0,
                                    bool nesterov = false);
// Powers of the betas are kept in the variables' type, of 16-bit variables in float. A beta that is 1 in bfloat16 (0.999) is an
// error for a bfloat16 variable: keep such a variable in float and cast what is read, as mixed precision does.
std::unique_ptr<Optimizer> Adam(double learning_rate, double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-7,
                                double weight_decay = 0);
// Decay apart from the gradient: w -= learning_rate * decay * w, on variables of rank 2 and more.
std::unique_ptr<Optimizer> AdamW(double learning_rate, double decay = 0.01, double beta1 = 0.9, double beta2 = 0.999,
                                 double epsilon = 1e-7);
std::unique_ptr<Optimizer> RmsProp(double learning_rate, double rho = 0.9, double momentum = 0, double epsilon = 1e-7,
                                   double weight_decay = 0);
std::unique_ptr<Optimizer> Adagrad(double learning_rate, double initial_accumulator = 0.1, double weight_decay = 0);

// One of these by name (sgd, momentum, adam, adamw, rmsprop, adagrad) with its defaults; `weight_decay` is AdamW's decay.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(std::string_view name, double learning_rate,
                                                         double weight_decay = 0);

// Gradients of `loss` for every trainable variable, their updates, the builder's collected updates, and a NoOp `name`
// that runs them all. Trainable variables that the loss does not depend on are left alone; it is an error when there
// is no other.
Operation Minimize(GraphBuilder& builder, std::unique_ptr<Optimizer> optimizer, const Output& loss,
                   std::string_view name = "train");

}  // namespace millrace

#endif  // MILLRACE_OPTIMIZERS_H_
