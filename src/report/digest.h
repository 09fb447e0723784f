// Digests of results: equal bytes give equal digests, on any run.
#ifndef MILLRACE_SRC_REPORT_DIGEST_H_
#define MILLRACE_SRC_REPORT_DIGEST_H_

#include <map>
#include <string>

#include "millrace/tensor.h"

namespace millrace {

// xxh3 (64 bits, hex) over names, types and bytes in name order.
std::string TensorsDigest(const std::map<std::string, Tensor>& tensors);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_DIGEST_H_
