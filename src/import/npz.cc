#include "import/npz.h"

#include <zip.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/zip_writer.h"
#include "graph/one_line.h"
#include "graph/with_message.h"
#include "import/first_error_writer.h"
#include "import/npy.h"
#include "millrace/import.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr std::string_view kZipMagic("PK", 2);
// Deflate cannot shrink data further; a member that claims more lies about its size.
constexpr uint64_t kMaxDeflateRatio = 1040;

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using ZipArchive = std::unique_ptr<zip_t, ZipCloser>;
using ZipMember = std::unique_ptr<zip_file_t, ZipCloser>;

absl::StatusOr<ZipArchive> OpenBytes(std::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error);
  if (archive == nullptr) {
    const std::string text = zip_error_strerror(&error);
    if (source != nullptr) zip_source_free(source);
    zip_error_fini(&error);
    return absl::InvalidArgumentError(absl::StrCat("truncated or corrupt zip archive (", text, ")"));
  }
  zip_error_fini(&error);
  return ZipArchive(archive);
}

absl::StatusOr<Tensor> ReadMember(zip_t* archive, uint64_t index, const zip_stat_t& stat, size_t archive_bytes) {
  if (stat.comp_size > archive_bytes || stat.size > static_cast<uint64_t>(INT64_MAX) || stat.size / kMaxDeflateRatio > stat.comp_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("claims ", stat.size, " bytes, but takes ", stat.comp_size, " in the archive"));
  }
  const ZipMember member(zip_fopen_index(archive, index, 0));
  if (member == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("cannot be read (", zip_strerror(archive), ")"));
  }
  auto read = [&](void* out, size_t bytes) -> absl::Status {
    char* to = static_cast<char*>(out);
    while (bytes > 0) {
      const zip_int64_t count = zip_fread(member.get(), to, bytes);
      if (count <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("truncated or corrupt", count < 0 ? absl::StrCat(" (", zip_file_strerror(member.get()), ")") : ""));
      }
      to += count;
      bytes -= static_cast<size_t>(count);
    }
    return absl::OkStatus();
  };
  MR_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(static_cast<int64_t>(stat.size), read));
  char end = 0;
  if (zip_fread(member.get(), &end, 1) != 0) {  // reading past the end is what compares the checksum
    return absl::InvalidArgumentError(absl::StrCat("corrupt (", zip_file_strerror(member.get()), ")"));
  }
  return tensor;
}

absl::StatusOr<std::map<std::string, Tensor>> ReadArchive(std::string_view bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("empty, expected a zip archive");  // libzip takes it for one
  MR_ASSIGN_OR_RETURN(const ZipArchive archive, OpenBytes(bytes));
  std::map<std::string, Tensor> arrays;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    constexpr uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(archive.get(), i, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
      return absl::InvalidArgumentError(absl::StrCat("member ", i, " of the archive has no name or size"));
    }
    std::string name = stat.name;
    if (!absl::EndsWith(name, ".npy")) {
      return absl::InvalidArgumentError(absl::StrCat("member '", name, "', expected arrays (.npy) only"));
    }
    name.resize(name.size() - 4);
    absl::StatusOr<Tensor> tensor = ReadMember(archive.get(), i, stat, bytes.size());
    if (!tensor.ok()) return WithPrefix(tensor.status(), absl::StrCat("array '", name, "'"));
    if (!arrays.emplace(name, *std::move(tensor)).second) {
      return absl::InvalidArgumentError(absl::StrCat("two arrays are named '", name, "'"));
    }
  }
  return arrays;
}

class ArrayWriter final : public TensorWriter {
 public:
  ArrayWriter(std::string path, std::unique_ptr<AtomicFile> file) : path_(std::move(path)), file_(std::move(file)), archive_(*file_) {}

  absl::Status Add(const std::string& name, const Tensor& tensor) override {
    absl::StatusOr<std::string> header = NpyHeader(tensor);
    if (!header.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": array '", name, "': ", header.status().message()));
    }
    if (!names_.insert(name).second) return absl::InvalidArgumentError(absl::StrCat(path_, ": two arrays are named '", name, "'"));
    std::string strings;
    return archive_.Add(absl::StrCat(name, ".npy"), {*header, NpyData(tensor, &strings)});
  }

  absl::Status Finish() override {
    MR_RETURN_IF_ERROR(archive_.Finish());
    return file_->Commit();
  }

 private:
  const std::string path_;
  const std::unique_ptr<AtomicFile> file_;
  ZipWriter archive_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<Tensor> ArrayFromNpy(std::string_view bytes) {
  return ReadNpy(static_cast<int64_t>(bytes.size()), [&](void* out, size_t count) -> absl::Status {
    if (count > bytes.size()) return absl::InvalidArgumentError("truncated");
    if (count > 0) std::memcpy(out, bytes.data(), count);
    bytes.remove_prefix(count);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::map<std::string, Tensor>> ArraysFromNpz(std::string_view bytes) {
  absl::StatusOr<std::map<std::string, Tensor>> arrays = ReadArchive(bytes);
  if (!arrays.ok()) return OneLine(arrays.status());
  return arrays;
}

absl::StatusOr<std::map<std::string, Tensor>> LoadArrays(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  if (file->bytes().substr(0, kZipMagic.size()) == kZipMagic) {
    absl::StatusOr<std::map<std::string, Tensor>> arrays = ArraysFromNpz(file->bytes());
    if (!arrays.ok()) return WithPrefix(arrays.status(), path);
    return arrays;
  }
  absl::StatusOr<Tensor> array = ArrayFromNpy(file->bytes());
  if (!array.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", array.status().message(), ", expected arrays of NumPy (.npz or .npy)"));
  }
  return std::map<std::string, Tensor>{{std::filesystem::path(path).stem().string(), *std::move(array)}};
}

absl::StatusOr<std::unique_ptr<TensorWriter>> OpenArrays(const std::string& path) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  return std::make_unique<FirstErrorWriter>(std::make_unique<ArrayWriter>(path, std::move(file)));
}

absl::Status SaveArrays(const std::map<std::string, Tensor>& arrays, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<TensorWriter> writer, OpenArrays(path));
  for (const auto& [name, tensor] : arrays) MR_RETURN_IF_ERROR(writer->Add(name, tensor));
  return writer->Finish();
}

}  // namespace millrace
