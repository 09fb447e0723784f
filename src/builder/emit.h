// What the functions that emit ops share.
#ifndef MILLRACE_SRC_BUILDER_EMIT_H_
#define MILLRACE_SRC_BUILDER_EMIT_H_

#include <initializer_list>

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

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_EMIT_H_
