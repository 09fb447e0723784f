#include <filesystem>
#include <limits>

#include <google/protobuf/arena.h>

#include "files/mapped_file.h"
#include "glog/logging.h"
#include "graph/one_line.h"
#include "graph/with_message.h"
#include "onnx/importer.h"
#include "onnx/tensors.h"
#include "proto/parse.h"

namespace millrace::onnx {
namespace {

absl::StatusOr<OnnxModel> Import(std::string_view bytes, const std::string& folder, const OnnxOptions& options) {
  if (bytes.empty()) return absl::InvalidArgumentError("empty, expected an ONNX model");
  if (bytes.size() > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError("more than 2 GiB, protobuf's limit; keep weights in external data");
  }
  google::protobuf::Arena arena;
  auto* model = google::protobuf::Arena::CreateMessage<onnx_proto::ModelProto>(&arena);
  if (absl::Status status = ParseBinary(bytes, model); !status.ok()) {
    return WithPrefix(status, "not an ONNX model");
  }
  // Inputs that turn out to decide shapes become constants, attempt by attempt.
  std::set<std::string> baked;
  while (true) {
    Importer importer(*model, folder, options, baked);
    absl::StatusOr<OnnxModel> result = importer.Run();
    if (result.ok()) {
      if (const std::string loop = LoopPastItsCondition(*model); !loop.empty()) {
        LOG(WARNING) << "Loop '" << loop << "' has a count and no condition: it takes all its steps, as ONNX has it, whatever condition its body computes";
      }
      result->external_files = ExternalFiles(*model, folder);
      return result;
    }
    const size_t before = baked.size();
    baked.insert(importer.missing_values().begin(), importer.missing_values().end());
    if (baked.size() == before) return result;
  }
}

}  // namespace

absl::StatusOr<OnnxModel> OnnxFromBytes(std::string_view bytes, const std::string& folder, const OnnxOptions& options) {
  absl::StatusOr<OnnxModel> model = Import(bytes, folder, options);
  if (!model.ok()) return OneLine(model.status());
  return model;
}

}  // namespace millrace::onnx

namespace millrace {

absl::StatusOr<OnnxModel> LoadOnnx(const std::string& path, const OnnxOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  absl::StatusOr<OnnxModel> model = onnx::OnnxFromBytes(file->bytes(), folder.empty() ? "." : folder.string(), options);
  if (model.ok()) return model;
  return WithPrefix(model.status(), path);
}

}  // namespace millrace
