// What the functions that emit ops share.
#ifndef MILLRACE_SRC_BUILDER_EMIT_H_
#define MILLRACE_SRC_BUILDER_EMIT_H_

#include <initializer_list>
#include <string_view>

#include "millrace/graph_builder.h"

namespace millrace {

// The builder of the first input that has one; nullptr when none has.
inline GraphBuilder* BuilderOf(absl::Span<const Output> inputs) {
  for (const Output& input : inputs) {
    if (input.builder() != nullptr) return input.builder();
  }
  return nullptr;
}

// Emits into the builder of the inputs; without one, a node that is not valid().
inline Operation Emit(std::string_view op, absl::Span<const Output> inputs, AttrMap attrs, std::string_view name) {
  GraphBuilder* builder = BuilderOf(inputs);
  return builder == nullptr ? Operation() : builder->Op(op, inputs, std::move(attrs), name);
}
inline Operation Emit(std::string_view op, std::initializer_list<Output> inputs, AttrMap attrs,
                      std::string_view name = {}) {
  return Emit(op, absl::MakeConstSpan(inputs.begin(), inputs.size()), std::move(attrs), name);
}

// What to say of one that is no tensor of the graph. Functions that get no tensor at all have no builder to tell it to: whoever takes
// what they return tells it.
inline const char* WhyNotOwn(const Output& output) {
  return output.builder() != nullptr ? " is not a tensor of this graph"
                                     : " is not a tensor of this graph, but a default Output or what Concat, Pack, AddN or Einsum make of an empty list";
}

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_EMIT_H_
