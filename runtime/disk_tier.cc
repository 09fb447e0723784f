#include "runtime/disk_tier.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "millrace/types.h"
#include "plan/disk_layout.h"
#include "runtime/disk_channel.h"

namespace millrace {
namespace {

// An open file without a name in the folder, or -1 with errno.
int OpenNameless(const std::string& folder, int flags) {
  int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOTSUP)) return descriptor;
  // A file system that cannot make one: a name for a moment.
  std::string path = absl::StrCat(folder, "/millrace.XXXXXX");
  descriptor = mkostemp(path.data(), O_CLOEXEC | flags);
  if (descriptor >= 0) unlink(path.c_str());
  return descriptor;
}

// What posix_fallocate returns. Where the file system has no call for it the library writes a byte here and there, which a file
// that is open past the page cache refuses: it is open through it meanwhile.
int Allocate(int descriptor, int64_t offset, int64_t bytes) {
  const int flags = fcntl(descriptor, F_GETFL);
  const bool direct = (flags & O_DIRECT) != 0;
  if (direct && fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) != 0) return errno;
  int error;
  do {
    error = posix_fallocate(descriptor, offset, bytes);
  } while (error == EINTR);
  if (direct && fcntl(descriptor, F_SETFL, flags) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskTier>> DiskTier::Create(const DiskTierOptions& options, HostMemory* memory) {
  bool direct = options.direct;
  int descriptor = direct ? OpenNameless(options.folder, O_DIRECT) : -1;
  if (descriptor < 0) {
    direct = false;
    descriptor = OpenNameless(options.folder, 0);
  }
  if (descriptor < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("disk tier: cannot make a file in ", options.folder, ": ", strerror(errno)));
  }
  auto tier = std::unique_ptr<DiskTier>(new DiskTier(options, descriptor, direct));
  // A page more than needed, to align it.
  MR_ASSIGN_OR_RETURN(void* bounce, memory->AllocateHome(kDiskBounceBytes, "the buffer of the disk tier"));
  const auto address = reinterpret_cast<intptr_t>(bounce);
  tier->bounce_ = reinterpret_cast<char*>(AlignUp(address, kDiskPageBytes));
  tier->channel_ = tier->MakeChannel(nullptr, 0);
  return tier;
}

DiskTier::~DiskTier() { close(descriptor_); }

absl::StatusOr<int64_t> DiskTier::Reserve(int64_t bytes, const std::string& what) {
  const int64_t size = AlignUp(std::max<int64_t>(bytes, 1), kDiskPageBytes);
  if (const int error = Allocate(descriptor_, end_, size); error != 0) {
    struct statvfs room = {};
    const bool known = statvfs(options_.folder.c_str(), &room) == 0;
    return absl::ResourceExhaustedError(absl::StrCat(
        "disk tier in ", options_.folder, ": no room for ", size, " bytes of ", what, " beside the ", reserved_bytes(),
        " that are taken: ", strerror(error),
        known ? absl::StrCat("; ", FormatBytes(static_cast<int64_t>(room.f_bavail * room.f_frsize)), " are free") : ""));
  }
  const int64_t offset = end_;
  end_ += size;
  return offset;
}

absl::Status DiskTier::ReserveScratch(int64_t bytes) {
  const int64_t size = AlignUp(bytes, kDiskPageBytes);
  if (size <= scratch_bytes_) return absl::OkStatus();
  const bool grows_in_place = scratch_bytes_ > 0 && scratch_offset_ + scratch_bytes_ == end_;
  MR_ASSIGN_OR_RETURN(const int64_t offset, Reserve(grows_in_place ? size - scratch_bytes_ : size, "swapped tensors"));
  // The former room goes when the new one is there: without it, steps of the plans that it was for could not run.
  if (!grows_in_place && scratch_bytes_ > 0) {
    if (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, scratch_offset_, scratch_bytes_) == 0) {
      hole_bytes_ += scratch_bytes_;
    } else {
      LOG(WARNING) << "disk tier in " << options_.folder << ": " << scratch_bytes_
                   << " bytes that are not needed any more cannot be given back: " << strerror(errno);
    }
  }
  if (!grows_in_place) scratch_offset_ = offset;
  scratch_bytes_ = size;
  return absl::OkStatus();
}

std::unique_ptr<DiskChannel> DiskTier::MakeChannel(void* pool, int64_t pool_bytes) const {
  std::unique_ptr<DiskChannel> channel;
  if (options_.use_uring) channel = MakeUringChannel(options_, descriptor_, pool, pool_bytes);
  if (channel == nullptr) channel = MakeSyncChannel(options_, descriptor_);
  return channel;
}

absl::Status DiskTier::ReadPieces(int64_t offset, int64_t bytes,
                                  absl::FunctionRef<absl::Status(const void*, int64_t, int64_t)> take) {
  constexpr int64_t kPiece = kDiskBounceBytes - kDiskPageBytes;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const int64_t size = std::min(kPiece, bytes - at);
    MR_RETURN_IF_ERROR(channel_->Read(offset + at, bounce_, size));
    MR_RETURN_IF_ERROR(take(bounce_, at, size));
  }
  return absl::OkStatus();
}

absl::Status DiskTier::WritePieces(int64_t offset, int64_t bytes,
                                   absl::FunctionRef<absl::Status(void*, int64_t, int64_t)> fill) {
  constexpr int64_t kPiece = kDiskBounceBytes - kDiskPageBytes;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const int64_t size = std::min(kPiece, bytes - at);
    MR_RETURN_IF_ERROR(fill(bounce_, at, size));
    MR_RETURN_IF_ERROR(channel_->Write(offset + at, bounce_, size));
  }
  return absl::OkStatus();
}

}  // namespace millrace
