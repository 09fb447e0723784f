#include "runtime/host_memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/types.h"

namespace millrace {
namespace {
// Homes smaller than this share blocks: a system keeps only some tens of thousands of mappings per process.
constexpr int64_t kBlockBytes = int64_t{16} << 20;
// More than any machine has; sums of it stay numbers.
constexpr int64_t kMostBytes = int64_t{1} << 60;

int64_t HomeBytes(int64_t bytes) { return AlignUp(std::clamp<int64_t>(bytes, 1, kMostBytes)); }
}  // namespace

HostMemory::~HostMemory() { set_listener(nullptr); }

void HostMemory::Announce(const MappedRegion& region) const {
  if (listener_ != nullptr && region.data() != nullptr) listener_->Mapped(region.data(), region.size_bytes());
}

void HostMemory::Withdraw(MappedRegion& region) const {
  if (listener_ != nullptr && region.data() != nullptr && !listener_->Unmapped(region.data())) region.KeepForever();
}

void HostMemory::set_listener(HostMemoryListener* listener) {
  Withdraw(pool_);
  for (MappedRegion& block : blocks_) Withdraw(block);
  listener_ = listener;
  Announce(pool_);
  for (const MappedRegion& block : blocks_) Announce(block);
}

absl::Status HostMemory::CheckLimit(int64_t wanted_bytes, const std::string& what) const {
  if (limit_bytes_ <= 0) return absl::OkStatus();
  const int64_t used = home_bytes_ + pool_bytes_ + constant_bytes_;
  if (used + wanted_bytes <= limit_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", wanted_bytes, " bytes of host memory; the limit is ", limit_bytes_, " bytes, of which ",
                   used, " are in use (variables ", home_bytes_, ", swapped tensors ", pool_bytes_, ", constants ",
                   constant_bytes_, "); short by ", used + wanted_bytes - limit_bytes_, " bytes"));
}

absl::StatusOr<void*> HostMemory::AllocateHome(int64_t bytes, const std::string& what) {
  const int64_t size = HomeBytes(bytes);
  if (const auto again = given_back_.find(size); again != given_back_.end()) {
    char* const home = again->second;
    given_back_.erase(again);
    std::memset(home, 0, size);
    return home;
  }
  MR_RETURN_IF_ERROR(CheckLimit(size, what));
  if (size >= kBlockBytes) {
    MR_ASSIGN_OR_RETURN(MappedRegion region, MappedRegion::Create(size, what.c_str()));
    blocks_.push_back(std::move(region));
    Announce(blocks_.back());
    home_bytes_ += size;
    return blocks_.back().data();
  }
  if (free_end_ - free_begin_ < size) {
    MR_ASSIGN_OR_RETURN(MappedRegion region, MappedRegion::Create(kBlockBytes, what.c_str()));
    blocks_.push_back(std::move(region));
    Announce(blocks_.back());
    free_begin_ = blocks_.back().data();
    free_end_ = free_begin_ + blocks_.back().size_bytes();
  }
  void* home = free_begin_;
  free_begin_ += size;
  home_bytes_ += size;
  return home;
}

void HostMemory::FreeHome(void* home, int64_t bytes) {
  const int64_t size = HomeBytes(bytes);
  if (size < kBlockBytes) {
    given_back_.emplace(size, static_cast<char*>(home));
    return;
  }
  home_bytes_ -= size;
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const MappedRegion& region) { return region.data() == home; });
  Withdraw(*block);
  blocks_.erase(block);
}

absl::StatusOr<void*> HostMemory::ReservePool(int64_t bytes, int64_t constant_bytes) {
  constant_bytes_ = constant_bytes;
  // Under a limit the pool also shrinks, so that one plan's pool does not take the room of another's variables.
  const bool remap = bytes > pool_bytes_ || (limit_bytes_ > 0 && bytes < pool_bytes_);
  if (remap || pool_.data() == nullptr) {
    Withdraw(pool_);
    pool_ = MappedRegion();
    pool_bytes_ = 0;
    MR_RETURN_IF_ERROR(CheckLimit(bytes, "the pool of swapped tensors"));
    MR_ASSIGN_OR_RETURN(pool_, MappedRegion::Create(bytes, "the pool of swapped tensors"));
    Announce(pool_);
    pool_bytes_ = bytes;
    ++pool_mappings_;
  }
  return pool_.data();
}

}  // namespace millrace
