#include "import/checkpoint.h"

#include <fcntl.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "files/atomic_file.h"
#include "files/crc32c.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "graph/with_message.h"
#include "import/checkpoint_v1.h"
#include "import/first_error_writer.h"
#include "import/tensor_proto.h"
#include "import/tensor_slice.h"
#include "import/varint.h"
#include "millrace/import.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Tensors = std::map<std::string, Tensor>;

std::string IndexPath(const std::string& prefix) { return absl::StrCat(prefix, kCheckpointIndex); }

std::string DataPath(const std::string& prefix, int32_t shard, int32_t shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, shards);
}

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// The checksum of a string's length: as 32 bits where they suffice.
uint32_t ExtendByLength(uint32_t crc, uint64_t length) {
  if (length > UINT32_MAX) return ExtendCrc32c(crc, BytesOf(length));
  const uint32_t narrow = static_cast<uint32_t>(length);
  return ExtendCrc32c(crc, BytesOf(narrow));
}

absl::Status Corrupt(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat("corrupt: ", what)); }

// Strings are stored as their lengths (varints), a checksum of the lengths, and their bytes one after another.
absl::Status ReadStrings(std::string_view bytes, Tensor& tensor, uint32_t* crc) {
  std::vector<uint64_t> lengths(tensor.num_elements());
  for (uint64_t& length : lengths) {
    if (!TakeVarint(bytes, &length)) return Corrupt("the lengths of its strings do not end");
    *crc = ExtendByLength(*crc, length);
  }
  const uint32_t expected = MaskCrc32c(*crc);
  uint32_t stored = 0;
  if (bytes.size() < sizeof(stored)) return Corrupt("its strings are missing");
  std::memcpy(&stored, bytes.data(), sizeof(stored));
  if (stored != expected) return Corrupt("the checksum of its strings' lengths is wrong");
  *crc = ExtendCrc32c(*crc, bytes.substr(0, sizeof(stored)));
  bytes.remove_prefix(sizeof(stored));
  *crc = ExtendCrc32c(*crc, bytes);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > bytes.size()) return Corrupt("its strings are longer than its bytes");
    tensor.mutable_strings()[i].assign(bytes.substr(0, lengths[i]));
    bytes.remove_prefix(lengths[i]);
  }
  return bytes.empty() ? absl::OkStatus() : Corrupt("its strings are shorter than its bytes");
}

absl::StatusOr<CheckpointIndex> ReadIndex(const std::string& prefix) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(IndexPath(prefix)));
  absl::StatusOr<CheckpointIndex> index = ParseCheckpointIndex(file->bytes());
  if (index.ok()) return index;
  return WithPrefix(index.status(), IndexPath(prefix));
}

// Appends the tensor's bytes and fills in the entry's place and checksum.
absl::Status WriteTensor(const Tensor& tensor, AtomicFile& file, int64_t* offset, proto::BundleEntryProto* entry) {
  entry->set_dtype(static_cast<proto::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), entry->mutable_shape());
  entry->set_offset(*offset);
  uint32_t crc = 0;
  std::string head;
  if (tensor.dtype() == DataType::kString) {
    for (const std::string& s : tensor.strings()) {
      head += Varint(s.size());
      crc = ExtendByLength(crc, s.size());
    }
    const uint32_t lengths_crc = MaskCrc32c(crc);
    head.append(BytesOf(lengths_crc));
    crc = ExtendCrc32c(crc, BytesOf(lengths_crc));
    for (const std::string& s : tensor.strings()) {
      head += s;
      crc = ExtendCrc32c(crc, s);
    }
    MR_RETURN_IF_ERROR(file.Append(head));
    entry->set_size(static_cast<int64_t>(head.size()));
  } else {
    const std::string_view bytes(static_cast<const char*>(tensor.data()), tensor.size_bytes());
    MR_RETURN_IF_ERROR(file.Append(bytes));
    crc = ExtendCrc32c(crc, bytes);
    entry->set_size(static_cast<int64_t>(bytes.size()));
  }
  entry->set_crc32c(MaskCrc32c(crc));
  *offset += entry->size();
  return absl::OkStatus();
}

// leveldb's table writer, into a string.
class StringFile : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

absl::StatusOr<std::string> IndexBytes(const CheckpointIndex& index) {
  StringFile file;
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  leveldb::TableBuilder builder(options, &file);
  builder.Add(leveldb::Slice(), index.header.SerializeAsString());
  for (const auto& [key, entry] : index.entries) builder.Add(key, entry.SerializeAsString());
  const leveldb::Status status = builder.Finish();
  if (!status.ok()) return absl::InternalError(status.ToString());
  return file.bytes();
}

class CheckpointReader final : public TensorReader {
 public:
  CheckpointReader(std::string prefix, CheckpointIndex index) : prefix_(std::move(prefix)), index_(std::move(index)) {
    std::set<std::string> of_slices;
    for (const auto& [key, entry] : index_.entries) {
      for (const proto::TensorSliceProto& slice : entry.slices()) of_slices.insert(SliceKey(key, slice));
    }
    for (const auto& [key, entry] : index_.entries) {
      if (of_slices.count(key) == 0) names_.push_back(key);
    }
  }

  const std::vector<std::string>& names() const override { return names_; }

  absl::StatusOr<Tensor> Read(const std::string& name) override {
    MR_ASSIGN_OR_RETURN(const proto::BundleEntryProto* entry, Find(name));
    if (entry->slices_size() == 0) return ReadEntry(name, *entry);
    absl::StatusOr<Shape> whole = ShapeFromProto(entry->shape());
    if (whole.ok() && !whole->fully_known()) whole = Corrupt(absl::StrCat("of shape ", whole->ToString()));
    if (!whole.ok()) return AtTensor(name, whole.status());
    return ReadSlice(name, WholeSlice(*whole));
  }

  absl::StatusOr<Tensor> ReadSlice(const std::string& name, const TensorSlice& slice) override {
    MR_ASSIGN_OR_RETURN(const proto::BundleEntryProto* entry, Find(name));
    if (const absl::Status within = CheckSlice(slice); !within.ok()) return AtTensor(name, within);
    absl::StatusOr<Tensor> tensor = Assemble(name, *entry, slice);
    if (tensor.ok() || entry->slices_size() == 0) return tensor;
    return AtTensor(name, tensor.status());
  }

 private:
  absl::StatusOr<const proto::BundleEntryProto*> Find(const std::string& key) const {
    const auto found = index_.entries.find(key);
    if (found == index_.entries.end()) return absl::NotFoundError(absl::StrCat(prefix_, ": no tensor '", key, "'"));
    return &found->second;
  }

  absl::Status AtTensor(const std::string& name, const absl::Status& status) const {
    return WithPrefix(status, absl::StrCat(prefix_, ": tensor '", name, "'"));
  }

  // The file is mapped for this tensor only, so that no more of it counts as memory.
  absl::StatusOr<Tensor> ReadEntry(const std::string& name, const proto::BundleEntryProto& entry) const {
    const std::string path = DataPath(prefix_, entry.shard_id(), index_.header.num_shards());
    MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> shard, MappedFile::Open(path));
    absl::StatusOr<Tensor> tensor = TensorFromEntry(entry, shard->bytes());
    if (tensor.ok()) return tensor;
    return WithPrefix(tensor.status(), absl::StrCat(path, ": tensor '", name, "'"));
  }

  absl::StatusOr<Tensor> Assemble(const std::string& name, const proto::BundleEntryProto& entry, const TensorSlice& wanted) const {
    const DataType dtype = static_cast<DataType>(entry.dtype());
    MR_ASSIGN_OR_RETURN(const Shape whole, ShapeFromProto(entry.shape()));
    if (whole != wanted.whole) {
      return absl::InvalidArgumentError(absl::StrCat("is ", TensorType{dtype, whole}.ToString(), ", expected ", wanted.whole.ToString(),
                                                     " as slices of that are asked for"));
    }
    if (DataTypeSize(dtype) == 0) return absl::UnimplementedError("slices of strings, expected numbers or bools");
    std::vector<std::pair<TensorSlice, const proto::BundleEntryProto*>> stored;
    if (entry.slices_size() == 0) stored.push_back({WholeSlice(whole), &entry});
    int64_t elements = 0;
    std::vector<TensorSlice> parts;
    for (const proto::TensorSliceProto& proto : entry.slices()) {
      MR_ASSIGN_OR_RETURN(const TensorSlice slice, SliceFromProto(whole, proto));
      const int64_t common = CommonElements(slice, wanted);
      if (common == 0) continue;
      elements += common;
      const auto found = index_.entries.find(SliceKey(name, proto));
      if (found == index_.entries.end()) return Corrupt("one of its slices is missing");
      stored.push_back({slice, &found->second});
      parts.push_back(slice);
    }
    if (AnyOverlap(std::move(parts))) return Corrupt("two of its slices hold the same elements");
    if (entry.slices_size() > 0 && elements != wanted.shape.num_elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("its slices hold ", elements, " of the ", wanted.shape.num_elements(), " elements that are asked for"));
    }
    Tensor tensor(dtype, wanted.shape);
    for (const auto& [slice, part_entry] : stored) {
      MR_ASSIGN_OR_RETURN(const Tensor part, ReadEntry(name, *part_entry));
      if (part.dtype() != dtype || part.shape() != slice.shape) return Corrupt(absl::StrCat("one of its slices is ", part.type().ToString()));
      CopyCommon(slice, part, wanted, tensor);
    }
    return tensor;
  }

  const std::string prefix_;
  const CheckpointIndex index_;
  std::vector<std::string> names_;
};

// Of a checkpoint that is to be read: its index, too, names it.
absl::StatusOr<std::string> PrefixOf(const std::string& given) {
  std::error_code error;
  const auto type = std::filesystem::status(given, error).type();
  if (type == std::filesystem::file_type::not_found || std::filesystem::exists(IndexPath(given), error)) return given;
  if (absl::EndsWith(given, IndexPath(""))) return given.substr(0, given.size() - IndexPath("").size());
  if (type != std::filesystem::file_type::directory) return given;
  return absl::InvalidArgumentError(absl::StrCat(given, " is a folder, expected the prefix of a checkpoint, PREFIX of PREFIX.index"));
}

// Of the checkpoint that is there; 0: none is.
int32_t ShardsOf(const std::string& prefix) {
  const absl::StatusOr<CheckpointIndex> index = ReadIndex(prefix);
  return index.ok() ? index->header.num_shards() : 0;
}

// The index decides which data file is the checkpoint's, by the number of shards in its name: new data go to the name that the
// former index does not use, and renaming the index switches from one to the other at once.
int32_t ShardsBeside(int32_t former_shards) { return former_shards == 1 ? 2 : 1; }

// Held while the files of a checkpoint take their names, so that of two processes that save under one prefix one comes after the
// other. It is the folder that is locked: nothing is left of it, however a process ends. Where it cannot be, as in a folder that
// may not be listed or on network file systems, names are taken without.
class FolderLock {
 public:
  explicit FolderLock(const std::string& file) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    descriptor_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

class CheckpointWriter final : public TensorWriter {
 public:
  CheckpointWriter(std::string prefix, std::unique_ptr<AtomicFile> index_file, std::unique_ptr<AtomicFile> data_file)
      : prefix_(std::move(prefix)), index_file_(std::move(index_file)), data_file_(std::move(data_file)) {
    index_.header.mutable_version()->set_producer(1);
  }

  absl::Status Add(const std::string& name, const Tensor& tensor) override {
    if (name.empty() || (tensor.dtype() != DataType::kString && DataTypeSize(tensor.dtype()) == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(prefix_, ": tensor '", name, "' of type ", tensor.type().ToString(), " cannot be saved"));
    }
    const auto [entry, fresh] = index_.entries.try_emplace(name);
    if (!fresh) return absl::InvalidArgumentError(absl::StrCat(prefix_, ": two tensors are named '", name, "'"));
    return WriteTensor(tensor, *data_file_, &offset_, &entry->second);
  }

  absl::Status AddSlice(const std::string& name, const TensorSlice& slice, const Tensor& part) override {
    if (const absl::Status within = CheckSlice(slice); !within.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(prefix_, ": tensor '", name, "': ", within.message()));
    }
    if (IsWhole(slice) && part.shape() == slice.shape) return Add(name, part);
    proto::BundleEntryProto whole;
    whole.set_dtype(static_cast<proto::DataType>(part.dtype()));
    ShapeToProto(slice.whole, whole.mutable_shape());
    const auto others = index_.entries.find(name);
    const bool fresh = others == index_.entries.end();
    const bool fits = fresh || (others->second.slices_size() > 0 && others->second.dtype() == whole.dtype() &&
                                others->second.shape().SerializeAsString() == whole.shape().SerializeAsString());
    if (part.shape() != slice.shape || !fits) {
      return absl::InvalidArgumentError(absl::StrCat(prefix_, ": ", part.type().ToString(), " is no slice of tensor '", name, "' of shape ",
                                                     slice.whole.ToString(), fits ? "" : ", which was added otherwise"));
    }
    std::vector<TensorSlice>& added = slices_[name];
    for (const TensorSlice& other : added) {
      if (CommonElements(other, slice) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(prefix_, ": tensor '", name, "': two of its slices hold the same elements"));
    }
    added.push_back(slice);
    proto::BundleEntryProto& entry = fresh ? index_.entries[name] = whole : others->second;
    SliceToProto(slice, entry.add_slices());
    return Add(SliceKey(name, *entry.slices().rbegin()), part);
  }

  absl::Status Finish() override {
    const FolderLock lock(prefix_);
    // Another process may have saved since this one began.
    const int32_t former_shards = ShardsOf(prefix_), shards = ShardsBeside(former_shards);
    index_.header.set_num_shards(shards);
    // Of both files all is written before one of them appears.
    MR_ASSIGN_OR_RETURN(const std::string bytes, IndexBytes(index_));
    MR_RETURN_IF_ERROR(index_file_->Append(bytes));
    MR_RETURN_IF_ERROR(data_file_->CommitAs(DataPath(prefix_, 0, shards)));
    MR_RETURN_IF_ERROR(index_file_->Commit());
    for (int32_t shard = 0; shard < std::min(former_shards, 100000); ++shard) unlink(DataPath(prefix_, shard, former_shards).c_str());
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
  const std::unique_ptr<AtomicFile> index_file_;
  const std::unique_ptr<AtomicFile> data_file_;
  CheckpointIndex index_;
  std::map<std::string, std::vector<TensorSlice>> slices_;  // that were added, by tensor
  int64_t offset_ = 0;
};

}  // namespace

absl::StatusOr<Tensor> TensorFromEntry(const proto::BundleEntryProto& entry, std::string_view data) {
  if (entry.slices_size() > 0) {
    return absl::UnimplementedError("saved in slices (a partitioned variable), expected whole tensors");
  }
  const DataType dtype = static_cast<DataType>(entry.dtype());
  MR_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(entry.shape()));
  const TensorType type{dtype, shape};
  const bool strings = dtype == DataType::kString;
  if (!shape.fully_known() || (!strings && DataTypeSize(dtype) == 0)) {
    return absl::UnimplementedError(absl::StrCat("a tensor ", type.ToString(), ", expected numbers, bools or strings"));
  }
  if (entry.offset() < 0 || entry.size() < 0 || entry.offset() > static_cast<int64_t>(data.size()) ||
      entry.size() > static_cast<int64_t>(data.size()) - entry.offset()) {
    return absl::InvalidArgumentError(absl::StrCat("truncated: bytes ", entry.offset(), " to ",
                                                   entry.offset() + entry.size(), " of ", data.size()));
  }
  const std::string_view bytes = data.substr(entry.offset(), entry.size());
  if (strings ? shape.num_elements() > entry.size() : type.size_bytes() != entry.size()) {
    return Corrupt(absl::StrCat(entry.size(), " bytes for ", type.ToString()));
  }
  Tensor tensor(dtype, shape);
  uint32_t crc = 0;
  if (strings) {
    MR_RETURN_IF_ERROR(ReadStrings(bytes, tensor, &crc));
  } else {
    crc = ExtendCrc32c(0, bytes);
    if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
  }
  if (MaskCrc32c(crc) != entry.crc32c()) return Corrupt("its checksum is wrong");
  if (dtype == DataType::kBool) {  // a bool of another byte than 0 and 1 is undefined behaviour
    for (bool& b : tensor.mutable_as<bool>()) b = reinterpret_cast<const unsigned char&>(b) != 0;
  }
  return tensor;
}

absl::StatusOr<std::unique_ptr<TensorReader>> OpenCheckpointReader(const std::string& given) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> files, CheckpointV1Files(given));
  if (!files.empty()) return OpenCheckpointV1(files);
  MR_ASSIGN_OR_RETURN(const std::string prefix, PrefixOf(given));
  MR_ASSIGN_OR_RETURN(CheckpointIndex index, ReadIndex(prefix));
  return std::unique_ptr<TensorReader>(new CheckpointReader(prefix, std::move(index)));
}

absl::StatusOr<Tensors> ReadCheckpoint(const std::string& prefix) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<TensorReader> reader, OpenCheckpointReader(prefix));
  Tensors tensors;
  for (const std::string& name : reader->names()) {
    MR_ASSIGN_OR_RETURN(Tensor tensor, reader->Read(name));
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<TensorWriter>> OpenCheckpoint(const std::string& prefix) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> index_file, AtomicFile::Create(IndexPath(prefix)));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> data_file, AtomicFile::Create(DataPath(prefix, 0, ShardsBeside(ShardsOf(prefix)))));
  return std::make_unique<FirstErrorWriter>(std::make_unique<CheckpointWriter>(prefix, std::move(index_file), std::move(data_file)));
}

absl::Status WriteCheckpoint(const std::string& prefix, const Tensors& tensors) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<TensorWriter> writer, OpenCheckpoint(prefix));
  for (const auto& [name, tensor] : tensors) MR_RETURN_IF_ERROR(writer->Add(name, tensor));
  return writer->Finish();
}

}  // namespace millrace
