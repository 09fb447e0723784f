#include "report/digest.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "xxhash.h"

namespace millrace {
namespace {

void Update(XXH3_state_t& state, const std::string& text) { XXH3_64bits_update(&state, text.data(), text.size()); }

}  // namespace

std::string TensorsDigest(const std::map<std::string, Tensor>& tensors) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const auto& [name, tensor] : tensors) {
    Update(*state, absl::StrCat(name, "\n", tensor.type().ToString(), "\n"));
    if (tensor.dtype() == DataType::kString) {
      for (const std::string& element : tensor.strings()) Update(*state, absl::StrCat(element.size(), ":", element));
    } else if (tensor.size_bytes() > 0) {
      XXH3_64bits_update(state.get(), tensor.data(), static_cast<size_t>(tensor.size_bytes()));
    }
  }
  return absl::StrFormat("%016x", XXH3_64bits_digest(state.get()));
}

}  // namespace millrace
