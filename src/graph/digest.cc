#include "graph/digest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "xxhash.h"

namespace millrace {

class BytesDigest {
 public:
  BytesDigest() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~BytesDigest() { XXH3_freeState(state_); }
  BytesDigest(const BytesDigest&) = delete;
  BytesDigest& operator=(const BytesDigest&) = delete;

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

std::string TensorsDigest(absl::Span<const Tensor> tensors) {
  BytesDigest digest;
  for (const Tensor& tensor : tensors) {
    digest.Add(tensor.type().ToString());
    digest.Add(tensor);
  }
  return digest.ToHex();
}

NamedTensorsDigest::NamedTensorsDigest() : digest_(std::make_unique<BytesDigest>()) {}
NamedTensorsDigest::~NamedTensorsDigest() = default;

void NamedTensorsDigest::Add(const std::string& name, const Tensor& tensor) {
  digest_->Add(absl::StrCat(name, "\n", tensor.type().ToString(), "\n"));
  digest_->Add(tensor);
}

std::string NamedTensorsDigest::ToHex() const { return digest_->ToHex(); }

std::string TensorsDigest(const std::map<std::string, Tensor>& tensors) {
  NamedTensorsDigest digest;
  for (const auto& [name, tensor] : tensors) digest.Add(name, tensor);
  return digest.ToHex();
}

}  // namespace millrace
