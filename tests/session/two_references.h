// The beginning of graphs in text form (graph/text.h) in which a reference stands for one of two variables, a = 1 and b = 2.
#ifndef MILLRACE_TESTS_SESSION_TWO_REFERENCES_H_
#define MILLRACE_TESTS_SESSION_TWO_REFERENCES_H_

namespace millrace::testing {

// `of_a` and `of_b` are their sides of the predicate p; `init` gives the first values.
inline constexpr char kTwoReferences[] = R"(
a = VariableV2() {dtype=float, shape=shape[], shared_name="a"}
b = VariableV2() {dtype=float, shape=shape[], shared_name="b"}
one = Const() {dtype=float, value=float[]{1}}
two = Const() {dtype=float, value=float[]{2}}
init_a = Assign(a, one) {T=float}
init_b = Assign(b, two) {T=float}
init = NoOp() ^init_a ^init_b
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[]}
of_a = RefSwitch(a, p) {T=float}
of_b = RefSwitch(b, p) {T=float}
)";

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_SESSION_TWO_REFERENCES_H_
