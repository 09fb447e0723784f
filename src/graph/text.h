// The compact text form of a Graph, one line per node: golden tests are written in it, and dumps for a person.
//
//   x = Placeholder() {dtype=float, shape=shape[2,?]}
//   w = Const() {value=float[2]{0.5, 1.0}}
//   y = AddV2(x, split:1) ^init {T=float} : float[2,3] @p3 @host on "/cpu:0" inplace(0<-1) # why it is here
//
// In this order, each part optional after the inputs: `^node` control inputs, {attributes}, `:` output types,
// `@pN` partition, `@host` or `@dN` device (device 0 is not written), `on` the requested device, in-place pairs
// (output<-input), reason. A name with characters that TensorFlow does not allow is quoted. A line that starts
// with `#` is a comment; nodes may be used before their line. Functions of the library come first:
//
//   function NAME {attributes} ^control_ret
//     a = _Arg() {T=float, index=0}
//     r = _Retval(a) {T=float, index=0}
//   end
//
// Attribute values: 3  1.5  true  "text"  float (a type)  shape[2,?]  shape<unknown>  int32[2]{1, 2} (a tensor)
// float[8]{0.0 ...} (all elements equal)  &name{attributes} (a function)  $T (a function's parameter)
// [1, 2] (a list of any of these)  none.
#ifndef MILLRACE_SRC_GRAPH_TEXT_H_
#define MILLRACE_SRC_GRAPH_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

struct GraphTextOptions {
  bool attrs = true;
  bool types = true;    // output types, where inferred
  bool reasons = true;
  // Larger tensors print as type#digest, which cannot be read back.
  int64_t max_tensor_elements = 1024;
};

// Live nodes in id order. Reading the text back gives the same graph, without the holes of removed nodes.
std::string GraphToText(const Graph& graph, const GraphTextOptions& options = {});
std::string NodeToText(const Graph& graph, NodeId id, const GraphTextOptions& options = {});
std::string AttrValueToText(const AttrValue& value, const GraphTextOptions& options = {});

// InvalidArgument "line 3: …" on bad syntax, duplicate names and inputs that no line defines.
absl::StatusOr<Graph> ParseGraphText(std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_TEXT_H_
