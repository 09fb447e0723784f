// Graphs in text form whose plans are for values.
#ifndef MILLRACE_TESTS_SESSION_VALUE_GRAPHS_H_
#define MILLRACE_TESTS_SESSION_VALUE_GRAPHS_H_

namespace millrace::testing {

// Of fed sizes.
inline constexpr char kFedSizes[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
dims = Placeholder() {dtype=int32, shape=shape[2]}
y = Reshape(x, dims) {T=float, Tshape=int32}
)";

// As many turns as the variable says.
inline constexpr char kCountedTurns[] = R"(
function more
  n = _Arg() {T=int32, index=0}
  zero = Const() {dtype=int32, value=int32[]{0}}
  left = Greater(n, zero) {T=int32}
  r = _Retval(left) {T=bool, index=0}
end
function turn
  n = _Arg() {T=int32, index=0}
  one = Const() {dtype=int32, value=int32[]{1}}
  less = Sub(n, one) {T=int32}
  r = _Retval(less) {T=int32, index=0}
end
turns = VarHandleOp() {dtype=int32, shape=shape[], shared_name="turns"}
read = ReadVariableOp(turns) {dtype=int32}
y = While(read) {T=[int32], cond=&more, body=&turn}
)";

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_VALUE_GRAPHS_H_
