#include "files/model_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace millrace {

std::string SavedModelFile(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/saved_model.pb");
  std::error_code error;  // of what cannot be looked at, opening it says why
  if (!std::filesystem::exists(path, error) && std::filesystem::exists(path + "txt", error)) path += "txt";
  return path;
}

}  // namespace millrace
