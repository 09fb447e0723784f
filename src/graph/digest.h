// Digests of results: equal types and bytes give equal digests, on any run.
#ifndef MILLRACE_SRC_GRAPH_DIGEST_H_
#define MILLRACE_SRC_GRAPH_DIGEST_H_

#include <map>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "millrace/tensor.h"

namespace millrace {

// xxh3 (64 bits, hex) over types and bytes (of strings, lengths and bytes), one after another.
std::string TensorsDigest(absl::Span<const Tensor> tensors);

// The same over names, types and bytes in name order.
std::string TensorsDigest(const std::map<std::string, Tensor>& tensors);

class BytesDigest;

// The latter of tensors that come one by one, in name order.
class NamedTensorsDigest {
 public:
  NamedTensorsDigest();
  ~NamedTensorsDigest();
  NamedTensorsDigest(const NamedTensorsDigest&) = delete;
  NamedTensorsDigest& operator=(const NamedTensorsDigest&) = delete;

  void Add(const std::string& name, const Tensor& tensor);
  std::string ToHex() const;

 private:
  const std::unique_ptr<BytesDigest> digest_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_DIGEST_H_
