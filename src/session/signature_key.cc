#include "session/signature_key.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

// With their lengths: a name may hold any character.
void AppendNames(const std::vector<std::string>& names, std::string* key) {
  absl::StrAppend(key, names.size(), ";");
  for (const std::string& name : names) absl::StrAppend(key, name.size(), ":", name);
}

void AppendValues(const char* separator, const std::map<std::string, Tensor>& values, std::string* key) {
  for (const auto& [name, value] : values) {
    absl::StrAppend(key, separator, name.size(), ":", name, ":");
    if (value.dtype() == DataType::kString) {
      for (const std::string& text : value.strings()) absl::StrAppend(key, text.size(), "=", text);
      continue;
    }
    absl::StrAppend(key, absl::string_view(static_cast<const char*>(value.data()), value.size_bytes()));
  }
}

}  // namespace

std::string TensorNameOf(const std::string& name) {
  return name.find(':') == std::string::npos ? absl::StrCat(name, ":0") : name;
}

std::map<std::string, Tensor> OwnCopies(const std::map<std::string, Tensor>& values) {
  std::map<std::string, Tensor> copies;
  for (const auto& [name, value] : values) {
    Tensor& copy = copies[name] = Tensor(value.dtype(), value.shape());
    if (value.dtype() == DataType::kString) {
      copy.mutable_strings() = value.strings();
    } else if (value.size_bytes() > 0) {
      std::memcpy(copy.mutable_data(), value.data(), value.size_bytes());
    }
  }
  return copies;
}

Signature MakeSignature(const SignatureKey& key) {
  Signature signature;
  for (const auto& [name, type] : key.feeds) signature.feeds.emplace(TensorNameOf(name), type);
  for (const std::string& fetch : key.fetches) signature.fetches.push_back(TensorNameOf(fetch));
  signature.targets = key.targets;
  signature.feed_values = OwnCopies(key.feed_values);
  signature.answers = key.answers;
  signature.ask = key.ask;
  signature.guesses = key.guesses;
  return signature;
}

std::string ProgramKey(const SignatureKey& signature) {
  std::string key;
  AppendNames(signature.fetches, &key);
  AppendNames(signature.targets, &key);
  absl::StrAppend(&key, ";", signature.feeds.size());
  for (const auto& [name, type] : signature.feeds) absl::StrAppend(&key, ";", name.size(), ":", name, "=", type.ToString());
  absl::StrAppend(&key, "|");
  AppendValues(";", signature.feed_values, &key);
  AppendValues(";?", signature.answers, &key);
  if (signature.ask) absl::StrAppend(&key, ";asks", signature.guesses);
  return key;
}

}  // namespace millrace
