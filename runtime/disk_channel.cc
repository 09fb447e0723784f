#include "runtime/disk_channel.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "millrace/types.h"
#include "plan/disk_layout.h"

#ifdef MILLRACE_HAVE_URING
#include <liburing.h>
#include <sys/uio.h>
#endif

namespace millrace {
namespace {

// Of a transfer that ended with `error`.
absl::Status DiskError(const DiskTierOptions& options, int error, bool write, int64_t offset, int64_t bytes) {
  const std::string text = absl::StrCat("disk tier in ", options.folder, ": cannot ", write ? "write " : "read ", bytes,
                                        " bytes at ", offset, ": ", strerror(error));
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? absl::ResourceExhaustedError(text) : absl::DataLossError(text);
}

class SyncChannel final : public DiskChannel {
 public:
  SyncChannel(const DiskTierOptions& options, int descriptor) : options_(options), descriptor_(descriptor) {}

  absl::Status Read(int64_t offset, void* to, int64_t bytes) override {
    return Transfer(false, offset, static_cast<char*>(to), bytes);
  }
  absl::Status Write(int64_t offset, const void* from, int64_t bytes) override {
    return Transfer(true, offset, const_cast<char*>(static_cast<const char*>(from)), bytes);
  }

 private:
  absl::Status Transfer(bool write, int64_t offset, char* data, int64_t bytes) {
    const int64_t size = AlignUp(bytes, kDiskPageBytes);
    if (options_.fault) {
      const int error = options_.fault(write, offset, bytes);
      if (error != 0) return DiskError(options_, error, write, offset, bytes);
    }
    for (int64_t done = 0; done < size;) {
      const int64_t piece = std::min(kDiskPieceBytes, size - done);
      const ssize_t moved = write ? pwrite(descriptor_, data + done, piece, offset + done)
                                  : pread(descriptor_, data + done, piece, offset + done);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return DiskError(options_, moved < 0 ? errno : EIO, write, offset + done, piece);
      done += moved;
    }
    return absl::OkStatus();
  }

  const DiskTierOptions& options_;
  const int descriptor_;
};

#ifdef MILLRACE_HAVE_URING

constexpr unsigned kQueueDepth = 8;
// A kernel short of memory is asked again after a pause; ten seconds of it without any progress are an error.
constexpr int kPauseMicroseconds = 1000;
constexpr int kMostPauses = 10'000;

class UringChannel final : public DiskChannel {
 public:
  UringChannel(const DiskTierOptions& options, int descriptor) : options_(options), descriptor_(descriptor) {}
  ~UringChannel() override {
    // At once: a ring that is closed gives the pages back some time later.
    if (pool_ != nullptr) io_uring_unregister_buffers(&ring_);
    if (made_) io_uring_queue_exit(&ring_);
  }

  bool Init(void* pool, int64_t pool_bytes) {
    made_ = io_uring_queue_init(kQueueDepth, &ring_, 0) == 0;
    if (!made_) return false;
    if (pool != nullptr && pool_bytes > 0) Register(static_cast<char*>(pool), pool_bytes);
    return true;
  }

  absl::Status Read(int64_t offset, void* to, int64_t bytes) override {
    return Transfer(false, offset, static_cast<char*>(to), bytes);
  }
  absl::Status Write(int64_t offset, const void* from, int64_t bytes) override {
    return Transfer(true, offset, const_cast<char*>(static_cast<const char*>(from)), bytes);
  }

 private:
  struct Piece {
    char* data = nullptr;
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  // Makes fixed buffers of the pool, all or none.
  void Register(char* pool, int64_t pool_bytes) {
    std::vector<iovec> buffers;
    for (int64_t at = 0; at < pool_bytes; at += options_.fixed_buffer_bytes) {
      buffers.push_back({pool + at, static_cast<size_t>(std::min(options_.fixed_buffer_bytes, pool_bytes - at))});
    }
    const int result = io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
    if (result < 0) {
      VLOG(1) << "disk tier in " << options_.folder << ": the " << pool_bytes
              << " bytes of the pool do not become fixed buffers: " << strerror(-result);
      return;
    }
    pool_ = pool;
    pool_bytes_ = pool_bytes;
  }
  // The fixed buffer that holds the whole piece; -1: none does.
  int FixedBuffer(const Piece& piece) const {
    if (pool_ == nullptr || piece.data < pool_ || piece.data + piece.bytes > pool_ + pool_bytes_) return -1;
    const int64_t first = (piece.data - pool_) / options_.fixed_buffer_bytes;
    const int64_t last = (piece.data - pool_ + piece.bytes - 1) / options_.fixed_buffer_bytes;
    return first == last ? static_cast<int>(first) : -1;
  }

  // Pieces are put under way as others come back; a short one is sent again with what is left of it. After an error
  // nothing new is sent, and what is under way is waited for: the memory is the caller's again when this returns.
  absl::Status Transfer(bool write, int64_t offset, char* data, int64_t bytes) {
    if (broken_ != 0) return DiskError(options_, broken_, write, offset, bytes);
    const int64_t size = AlignUp(bytes, kDiskPageBytes);
    int error = options_.fault ? options_.fault(write, offset, bytes) : 0;
    int64_t sent = 0, error_at = offset;
    unsigned under_way = 0;
    int pauses = 0;
    Piece pieces[kQueueDepth];
    unsigned free_pieces[kQueueDepth], num_free = 0;
    while (num_free < kQueueDepth) {
      free_pieces[num_free] = num_free;
      ++num_free;
    }
    while ((sent < size && error == 0) || under_way > 0) {
      while (sent < size && error == 0 && num_free > 0) {
        const unsigned slot = free_pieces[--num_free];
        pieces[slot] = {data + sent, offset + sent, std::min(kDiskPieceBytes, size - sent)};
        sent += pieces[slot].bytes;
        Send(write, pieces[slot], slot);
        ++under_way;
      }
      const int submitted = Submit();
      if (MayBeTriedAgain(submitted) ? pauses > kMostPauses : submitted < 0) {
        Abandon(-submitted, under_way - io_uring_sq_ready(&ring_));
        return DiskError(options_, -submitted, write, offset, bytes);
      }
      io_uring_cqe* done = nullptr;
      if (MayBeTriedAgain(submitted) && io_uring_cq_ready(&ring_) == 0) {
        ++pauses;
        usleep(kPauseMicroseconds);
      }
      while (io_uring_peek_cqe(&ring_, &done) == 0) {
        pauses = 0;
        const unsigned slot = static_cast<unsigned>(io_uring_cqe_get_data64(done));
        const int result = done->res;
        io_uring_cqe_seen(&ring_, done);
        --under_way;
        Piece& piece = pieces[slot];
        const bool again = result == -EINTR || result == -EAGAIN || (result > 0 && result < piece.bytes);
        if (again && error == 0) {
          const int64_t moved = std::max(result, 0);
          piece = {piece.data + moved, piece.offset + moved, piece.bytes - moved};
          Send(write, piece, slot);
          ++under_way;
          continue;
        }
        if (result != piece.bytes && error == 0) {
          error = result < 0 ? -result : EIO;
          error_at = piece.offset;
        }
        free_pieces[num_free++] = slot;
      }
    }
    return error == 0 ? absl::OkStatus() : DiskError(options_, error, write, error_at, bytes);
  }

  int Submit() {
    const int told = options_.submit_fault ? options_.submit_fault() : 0;
    return told != 0 ? -told : io_uring_submit_and_wait(&ring_, 1);
  }
  // EAGAIN: the kernel lacked memory; EBUSY: completions must be taken first.
  static bool MayBeTriedAgain(int submitted) { return submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY; }

  // Ends the ring after an error of its own. What the kernel has is waited for by looking alone, as no call to it is known to work;
  // what it has not taken yet must not be sent by a later transfer, so there is none.
  void Abandon(int error, unsigned in_kernel) {
    broken_ = error;
    io_uring_cqe* done = nullptr;
    while (in_kernel > 0) {
      for (; in_kernel > 0 && io_uring_cq_ready(&ring_) > 0 && io_uring_peek_cqe(&ring_, &done) == 0; --in_kernel) {
        io_uring_cqe_seen(&ring_, done);
      }
      if (in_kernel > 0) usleep(kPauseMicroseconds);
    }
  }

  void Send(bool write, const Piece& piece, unsigned slot) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // never null: as many entries as pieces
    const unsigned bytes = static_cast<unsigned>(piece.bytes);
    const int buffer = FixedBuffer(piece);
    if (buffer >= 0 && write) io_uring_prep_write_fixed(entry, descriptor_, piece.data, bytes, piece.offset, buffer);
    if (buffer >= 0 && !write) io_uring_prep_read_fixed(entry, descriptor_, piece.data, bytes, piece.offset, buffer);
    if (buffer < 0 && write) io_uring_prep_write(entry, descriptor_, piece.data, bytes, piece.offset);
    if (buffer < 0 && !write) io_uring_prep_read(entry, descriptor_, piece.data, bytes, piece.offset);
    io_uring_sqe_set_data64(entry, slot);
  }

  const DiskTierOptions& options_;
  const int descriptor_;
  io_uring ring_ = {};
  bool made_ = false;
  int broken_ = 0;  // the errno that ended the ring
  char* pool_ = nullptr;  // registered
  int64_t pool_bytes_ = 0;
};

#endif  // MILLRACE_HAVE_URING

}  // namespace

std::unique_ptr<DiskChannel> MakeSyncChannel(const DiskTierOptions& options, int descriptor) {
  return std::make_unique<SyncChannel>(options, descriptor);
}

std::unique_ptr<DiskChannel> MakeUringChannel(const DiskTierOptions& options, int descriptor, void* pool,
                                              int64_t pool_bytes) {
#ifdef MILLRACE_HAVE_URING
  auto channel = std::make_unique<UringChannel>(options, descriptor);
  if (channel->Init(pool, pool_bytes)) return channel;
#endif
  static_cast<void>(options);
  static_cast<void>(descriptor);
  static_cast<void>(pool);
  static_cast<void>(pool_bytes);
  return nullptr;
}

}  // namespace millrace
