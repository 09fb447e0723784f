// What the functions that emit ops share.
#ifndef MILLRACE_SRC_BUILDER_EMIT_H_
#define MILLRACE_SRC_BUILDER_EMIT_H_

#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "graph/with_message.h"
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

// An output that is not valid(), of a node that is not emitted: `message` is the error of the builder of the inputs.
inline Output Refuse(std::string_view op, std::initializer_list<Output> inputs, std::string_view name, std::string_view message) {
  GraphBuilder* builder = BuilderOf(absl::MakeConstSpan(inputs.begin(), inputs.size()));
  if (builder != nullptr) builder->FailOp(op, absl::MakeConstSpan(inputs.begin(), inputs.size()), name, message);
  return Output(builder, OutputRef{}, TensorType{});
}

// Numbers that an op on `x` takes as an int32 constant, where x has a builder. Of one that does not fit the error names the node; `what`
// it is: "a size".
inline bool FitInt32(std::string_view op, const Output& x, absl::Span<const int64_t> values, std::string_view name, const char* what) {
  for (int64_t value : values) {
    if (value == static_cast<int32_t>(value)) continue;
    Refuse(op, {x}, name, absl::StrCat(what, " of ", value, ", expected one that fits int32"));
    return false;
  }
  return x.builder() != nullptr;
}
inline Output Ints(std::string_view op, const Output& x, absl::Span<const int64_t> values, std::string_view name, const char* what = "a size") {
  return FitInt32(op, x, values, name, what) ? x.builder()->Ints(values) : Output(x.builder(), OutputRef{}, TensorType{});
}
inline Output Int(std::string_view op, const Output& x, int64_t value, std::string_view name, const char* what = "an axis") {
  return FitInt32(op, x, {value}, name, what) ? x.builder()->Int(value) : Output(x.builder(), OutputRef{}, TensorType{});
}

// What `emit`, code of an embedding program, returns. An exception is the builder's error, and what is returned is the type's default.
template <typename Call>
std::invoke_result_t<Call> EmitWithoutExceptions(GraphBuilder& builder, std::string_view who, Call&& emit) {
  auto emitted = WithoutExceptions([&]() -> absl::StatusOr<std::invoke_result_t<Call>> { return emit(); });
  if (emitted.ok()) return *std::move(emitted);
  builder.Fail(WithPrefix(emitted.status(), who));
  return {};
}

// A number of a type that goes into an op on `x`. Where the type does not hold it the error names the node.
Output Constant(std::string_view op, const Output& x, DataType dtype, double value, std::string_view name);

// What to say of one that is no tensor of the graph. Functions that get no tensor at all have no builder to tell it to: whoever takes
// what they return tells it.
inline const char* WhyNotOwn(const Output& output) {
  return output.builder() != nullptr ? " is not a tensor of this graph"
                                     : " is not a tensor of this graph, but a default Output or what Concat, Pack, AddN or Einsum make of an empty list";
}

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_EMIT_H_
