#include "graph/digest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "xxhash.h"

namespace millrace {
namespace {

class Digest {
 public:
  Digest() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~Digest() { XXH3_freeState(state_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void Add(const std::string& text) { XXH3_64bits_update(state_, text.data(), text.size()); }
  void Add(const Tensor& tensor) {
    if (tensor.dtype() == DataType::kString) {
      for (const std::string& element : tensor.strings()) Add(absl::StrCat(element.size(), ":", element));
    } else if (tensor.size_bytes() > 0) {
      XXH3_64bits_update(state_, tensor.data(), static_cast<size_t>(tensor.size_bytes()));
    }
  }
  std::string ToHex() const { return absl::StrFormat("%016x", XXH3_64bits_digest(state_)); }

 private:
  XXH3_state_t* state_;
};

}  // namespace

std::string TensorsDigest(absl::Span<const Tensor> tensors) {
  Digest digest;
  for (const Tensor& tensor : tensors) {
    digest.Add(tensor.type().ToString());
    digest.Add(tensor);
  }
  return digest.ToHex();
}

std::string TensorsDigest(const std::map<std::string, Tensor>& tensors) {
  Digest digest;
  for (const auto& [name, tensor] : tensors) {
    digest.Add(absl::StrCat(name, "\n", tensor.type().ToString(), "\n"));
    digest.Add(tensor);
  }
  return digest.ToHex();
}

}  // namespace millrace
