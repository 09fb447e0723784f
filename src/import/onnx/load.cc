#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include <google/protobuf/arena.h>

#include "absl/strings/str_cat.h"
#include "files/mapped_file.h"
#include "glog/logging.h"
#include "graph/one_line.h"
#include "graph/with_message.h"
#include "onnx/importer.h"
#include "onnx/tensors.h"
#include "proto/parse.h"

namespace millrace::onnx {
namespace {

// Inputs that turn out to decide shapes become constants, attempt by attempt.
absl::StatusOr<OnnxModel> ImportWithConstants(const onnx_proto::ModelProto& model, const std::string& folder, const OnnxOptions& options, bool selects) {
  std::set<std::string> baked;
  while (true) {
    Importer importer(model, folder, options, baked, selects);
    absl::StatusOr<OnnxModel> result = importer.Run();
    const size_t before = baked.size();
    baked.insert(importer.missing_values().begin(), importer.missing_values().end());
    if (result.ok() || baked.size() == before) return result;
  }
}

bool HasConditions(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes, int depth) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const onnx_proto::NodeProto& node) {
    if (node.op_type() == "If" || node.op_type() == "Loop") return true;
    return depth < kMostNested && std::any_of(node.attribute().begin(), node.attribute().end(), [&](const onnx_proto::AttributeProto& attribute) {
      return attribute.has_g() && HasConditions(attribute.g().node(), depth + 1);
    });
  });
}

bool HasConditions(const onnx_proto::ModelProto& model) {
  const auto has = [](const onnx_proto::FunctionProto& function) { return HasConditions(function.node(), 0); };
  return HasConditions(model.graph().node(), 0) || std::any_of(model.functions().begin(), model.functions().end(), has);
}

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
  absl::StatusOr<OnnxModel> result = ImportWithConstants(*model, folder, options, false);
  // What is known takes its one branch. Where that does not go, what values decide when running is selected.
  if (!result.ok() && HasConditions(*model)) {
    absl::StatusOr<OnnxModel> selected = ImportWithConstants(*model, folder, options, true);
    if (selected.ok()) {
      result = std::move(selected);
    } else if (selected.status() != result.status()) {
      const absl::Status& known = result.status();
      result = WithMessage(known, absl::StrCat(known.message(), "; nor can all branches and steps run and be selected: ", selected.status().message()));
    }
  }
  if (!result.ok()) return result;
  if (const std::string loop = LoopPastItsCondition(*model); !loop.empty()) {
    LOG(WARNING) << "Loop '" << loop << "' has a count and no condition: it takes all its steps, as ONNX has it, whatever condition its body computes";
  }
  result->external_files = ExternalFiles(*model, folder);
  return result;
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
