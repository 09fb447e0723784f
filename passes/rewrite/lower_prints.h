// Lower prints: what tf.print writes is made of values where it is written, so that no device has a text.
//
//   x, y ──► StringFormat ──► PrintV2        becomes        x, y ──► _PrintFormatted
//
//   name, x ──► EncodePng ──► WriteFile      becomes        name, x ──► _WriteFileMade {text_op="EncodePng"}
//
// The print, or what writes a file, waits for what its text waited for. Where a run only answers questions nothing is written.
//
// Needs: calls inlined, loops unrolled, Switches lowered, which guard prints and know them by the op TensorFlow has.
#ifndef MILLRACE_PASSES_REWRITE_LOWER_PRINTS_H_
#define MILLRACE_PASSES_REWRITE_LOWER_PRINTS_H_

#include "millrace/graph.h"

namespace millrace {

void LowerPrints(Graph& graph);

// Nothing is written: a PrintV2 or WriteFile is a NoOp that waits for what the print would, a Print passes its value on.
void SilencePrints(Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_LOWER_PRINTS_H_
