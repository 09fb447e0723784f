#include "import/checkpoint_v1.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "graph/with_message.h"
#include "import/sorted_table.h"
#include "import/tensor_proto.h"
#include "import/tensor_slice.h"
#include "millrace/proto/saved_model.pb.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"
#include "proto/parse.h"

namespace millrace {
namespace {

constexpr char kCheckpoint[] = "a TensorFlow checkpoint (of format V1, or the prefix of one of format V2: PREFIX of PREFIX.index)";
constexpr int kDigits = 5;  // of numbers in the names of files
constexpr char kAnyShard[] = "?????";

absl::Status CorruptSlices(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("corrupt: ", what)); }

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::string BehindPrefix(const std::string& shard, int shards) { return absl::StrFormat("-%s-of-%05d", shard, shards); }

// Of "...-00001-of-00002" and "...-?????-of-00002": 2; 0 where it does not end so.
int ShardsIn(const std::string& name) {
  const size_t behind = BehindPrefix(kAnyShard, 0).size();
  if (name.size() <= behind) return 0;
  const std::string shard = name.substr(name.size() - behind + 1, kDigits);
  const bool is_one = shard == kAnyShard || std::all_of(shard.begin(), shard.end(), absl::ascii_isdigit);
  int shards = 0;
  if (!is_one || !absl::SimpleAtoi(name.substr(name.size() - kDigits), &shards) || shards < 1) return 0;
  return absl::EndsWith(name, BehindPrefix(shard, shards)) ? shards : 0;
}

std::vector<std::string> FilesOfShards(const std::string& prefix, int shards) {
  std::vector<std::string> files;
  for (int shard = 0; shard < shards; ++shard) files.push_back(absl::StrCat(prefix, BehindPrefix(absl::StrFormat("%05d", shard), shards)));
  return files;
}

// How many there are of PREFIX-00000-of-0000N, by the first file, which several checkpoints may have.
std::set<int> ShardsBeside(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::string stem = path.filename().string();
  std::set<int> found;
  std::error_code error;
  std::filesystem::directory_iterator at(path.has_parent_path() ? path.parent_path() : ".", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    const int shards = ShardsIn(name);
    if (shards > 0 && name == absl::StrCat(stem, BehindPrefix("00000", shards))) found.insert(shards);
  }
  return found;
}

// In the field that holds elements of that type.
int64_t ValuesIn(const proto::TensorProto& data, DataType dtype) {
  switch (HeldIn(dtype)) {
    case DataType::kFloat: return data.float_val_size();
    case DataType::kDouble: return data.double_val_size();
    case DataType::kHalf:
    case DataType::kBfloat16: return data.half_val_size();
    case DataType::kInt64: return data.int64_val_size();
    case DataType::kUint32: return data.uint32_val_size();
    case DataType::kUint64: return data.uint64_val_size();
    case DataType::kBool: return data.bool_val_size();
    case DataType::kComplex64: return data.scomplex_val_size() / 2;
    case DataType::kComplex128: return data.dcomplex_val_size() / 2;
    case DataType::kString: return data.string_val_size();
    default: return data.int_val_size();
  }
}

class CheckpointV1Reader final : public TensorReader {
 public:
  absl::Status Open(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      if (const absl::Status opened = OpenFile(path); !opened.ok()) return WithPrefix(opened, path);
    }
    for (const auto& [name, tensor] : tensors_) names_.push_back(name);
    return absl::OkStatus();
  }

  const std::vector<std::string>& names() const override { return names_; }

  absl::StatusOr<Tensor> Read(const std::string& name) override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat(files_[0].path, ": no tensor '", name, "'"));
    return ReadSlice(name, WholeSlice(found->second.type.shape));
  }

  absl::StatusOr<Tensor> ReadSlice(const std::string& name, const TensorSlice& slice) override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat(files_[0].path, ": no tensor '", name, "'"));
    absl::StatusOr<Tensor> tensor = Assemble(found->second, slice);
    if (tensor.ok()) return tensor;
    return WithPrefix(tensor.status(), absl::StrCat(files_[0].path, ": tensor '", name, "'"));
  }

 private:
  struct File {
    std::string path;
    std::shared_ptr<const MappedFile> bytes;
    std::unique_ptr<SortedTable> table;
  };
  struct Part {
    TensorSlice slice;
    std::string key;
    size_t file;
  };
  struct Saved {
    TensorType type;
    std::vector<Part> parts;
  };

  absl::Status OpenFile(const std::string& path) {
    File file{path, nullptr, nullptr};
    MR_ASSIGN_OR_RETURN(file.bytes, MappedFile::Open(path));
    MR_ASSIGN_OR_RETURN(file.table, SortedTable::Open(file.bytes->bytes(), kCheckpoint));
    proto::SavedTensorSlices header;
    const absl::Status found = file.table->Find("", [&](std::string_view, std::string_view value) { return ParseBinary(value, &header); });
    if (absl::IsNotFound(found)) return CorruptSlices("no list of its tensors");
    MR_RETURN_IF_ERROR(found);
    bytes_ += static_cast<int64_t>(file.bytes->bytes().size());
    files_.push_back(std::move(file));
    for (const proto::SavedSliceMeta& meta : header.meta().tensor()) {
      if (const absl::Status added = AddTensor(meta); !added.ok()) return WithMessage(added, absl::StrCat("tensor '", meta.name(), "' ", added.message()));
    }
    return absl::OkStatus();
  }

  // Of the file that was opened last.
  absl::Status AddTensor(const proto::SavedSliceMeta& meta) {
    MR_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(meta.shape()));
    const TensorType type{static_cast<DataType>(meta.type()), shape};
    const bool is_held = type.dtype == DataType::kString || DataTypeSize(type.dtype) > 0;
    if (!shape.fully_known() || !is_held) return absl::UnimplementedError(absl::StrCat("is ", type.ToString(), ", expected numbers, bools or strings"));
    if (shape.num_elements() == INT64_MAX) return CorruptSlices(absl::StrCat("is ", type.ToString()));
    Saved& saved = tensors_.try_emplace(meta.name(), Saved{type, {}}).first->second;
    if (!(saved.type == type)) return CorruptSlices(absl::StrCat("is ", type.ToString(), " here, ", saved.type.ToString(), " elsewhere"));
    for (const proto::TensorSliceProto& proto : meta.slice()) {
      MR_ASSIGN_OR_RETURN(TensorSlice slice, SliceFromProto(shape, proto));
      saved.parts.push_back({std::move(slice), SliceKey(meta.name(), proto), files_.size() - 1});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Assemble(const Saved& saved, const TensorSlice& wanted) const {
    MR_RETURN_IF_ERROR(CheckSlice(wanted));
    if (saved.type.shape != wanted.whole) {
      return absl::InvalidArgumentError(absl::StrCat("is ", saved.type.ToString(), ", expected ", wanted.whole.ToString()));
    }
    std::vector<TensorSlice> slices;
    for (const Part& part : saved.parts) {
      if (CommonElements(part.slice, wanted) > 0) slices.push_back(part.slice);
    }
    if (AnyOverlap(slices)) return CorruptSlices("two of its slices hold the same elements");
    int64_t elements = 0;
    for (const TensorSlice& slice : slices) elements += CommonElements(slice, wanted);
    if (elements != wanted.shape.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("its slices hold ", elements, " of ", wanted.shape.num_elements(), " elements"));
    }
    for (const Part& part : saved.parts) {
      if (IsWhole(part.slice) && IsWhole(wanted)) return ReadPart(part, saved.type.dtype);
    }
    if (elements / kMostPerByte > bytes_) return CorruptSlices(absl::StrCat(elements, " elements in files of ", bytes_, " bytes"));
    if (saved.type.dtype == DataType::kString) return absl::UnimplementedError("slices of strings, expected numbers or bools");
    Tensor tensor(saved.type.dtype, wanted.shape);
    for (const Part& part : saved.parts) {
      if (CommonElements(part.slice, wanted) == 0) continue;
      MR_ASSIGN_OR_RETURN(const Tensor held, ReadPart(part, saved.type.dtype));
      CopyCommon(part.slice, held, wanted, tensor);
    }
    return tensor;
  }

  absl::StatusOr<Tensor> ReadPart(const Part& part, DataType dtype) const {
    proto::SavedTensorSlices record;
    const absl::Status found = files_[part.file].table->Find(part.key, [&](std::string_view, std::string_view value) { return ParseBinary(value, &record); });
    if (absl::IsNotFound(found)) return CorruptSlices("one of its slices is missing");
    MR_RETURN_IF_ERROR(found);
    proto::TensorProto& data = *record.mutable_data()->mutable_data();
    const int64_t elements = part.slice.shape.num_elements(), values = ValuesIn(data, dtype);
    if (values != elements || !data.tensor_content().empty()) return CorruptSlices(absl::StrCat("a slice of ", elements, " elements has ", values, " values"));
    data.set_dtype(static_cast<proto::DataType>(dtype));
    ShapeToProto(part.slice.shape, data.mutable_tensor_shape());
    return TensorFromProto(data);
  }

  static constexpr int64_t kMostPerByte = 1024;  // elements, of which blocks may be compressed

  std::vector<File> files_;
  int64_t bytes_ = 0;  // of all files
  std::map<std::string, Saved> tensors_;
  std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckpointV1Files(const std::string& given) {
  std::vector<std::string> none;
  if (IsFile(absl::StrCat(given, kCheckpointIndex)) || absl::EndsWith(given, kCheckpointIndex)) return none;
  const int shards = ShardsIn(given);
  if (shards > 0) return FilesOfShards(given.substr(0, given.size() - BehindPrefix(kAnyShard, shards).size()), shards);
  if (IsFile(given)) return std::vector<std::string>{given};
  const std::set<int> beside = ShardsBeside(given);
  if (beside.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(given, ": there are checkpoints of ", absl::StrJoin(beside, ", of "), " files, expected one, or ", given,
                                                   BehindPrefix(kAnyShard, *beside.rbegin())));
  }
  return beside.empty() ? none : FilesOfShards(given, *beside.begin());
}

absl::StatusOr<std::unique_ptr<TensorReader>> OpenCheckpointV1(const std::vector<std::string>& files) {
  auto reader = std::make_unique<CheckpointV1Reader>();
  MR_RETURN_IF_ERROR(reader->Open(files));
  return std::unique_ptr<TensorReader>(std::move(reader));
}

}  // namespace millrace
