#include "runtime/host_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
  for (auto& [begin, block] : blocks_) Withdraw(block.region);
  listener_ = listener;
  Announce(pool_);
  for (const auto& [begin, block] : blocks_) Announce(block.region);
}

absl::Status HostMemory::CheckLimit(int64_t wanted_bytes, const std::string& what) const {
  if (limit_bytes_ <= 0) return absl::OkStatus();
  const int64_t left = left_bytes(), used = home_bytes_ + left + pool_bytes_ + constant_bytes_;
  if (used + wanted_bytes <= limit_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", wanted_bytes, " bytes of host memory; the limit is ", limit_bytes_, " bytes, of which ",
                   used, " are in use (variables ", home_bytes_, ", swapped tensors ", pool_bytes_, ", constants ", constant_bytes_,
                   left > 0 ? absl::StrCat(", page-locked beside variables ", left) : "", "); short by ", used + wanted_bytes - limit_bytes_, " bytes"));
}

absl::StatusOr<void*> HostMemory::AllocateHome(int64_t bytes, const std::string& what) {
  const int64_t size = HomeBytes(bytes);
  const auto best = free_by_size_.lower_bound({size, nullptr});
  if (best != free_by_size_.end()) {
    const auto [room, home] = *best;
    MR_RETURN_IF_ERROR(CheckLimit(listener_ != nullptr ? UntouchedBytes(home, size) : size, what));
    RemoveFree(free_.find(home));
    if (room > size) AddFree(home + size, room - size);
    return Take(home, size);
  }
  MR_RETURN_IF_ERROR(CheckLimit(size, what));
  if (size >= kBlockBytes) {
    MR_ASSIGN_OR_RETURN(char* const home, MapBlock(size, what));
    return Take(home, size);
  }
  if (free_end_ - free_begin_ < size) {
    MR_RETURN_IF_ERROR(StartBlock(what));
  }
  return Take(std::exchange(free_begin_, free_begin_ + size), size);
}

void HostMemory::FreeHome(void* home, int64_t bytes) {
  char* const begin = static_cast<char*>(home);
  const int64_t size = HomeBytes(bytes);
  home_bytes_ -= size;
  if (size >= kBlockBytes) return Unmap(BlockOf(begin));
  const auto free = AddFree(begin, size);
  if (UnmapIfWhole(free)) return;
  if (listener_ != nullptr) {
    std::memset(begin, 0, size);
  } else {
    MappedRegion::Clear(begin, begin + size, free->first, free->first + free->second);
  }
}

absl::StatusOr<char*> HostMemory::MapBlock(int64_t bytes, const std::string& what) {
  MR_ASSIGN_OR_RETURN(MappedRegion region, MappedRegion::Create(bytes, what.c_str()));
  Announce(region);
  char* const begin = region.data();
  blocks_[begin].region = std::move(region);
  return begin;
}

void HostMemory::Unmap(Blocks::iterator block) {
  Withdraw(block->second.region);
  touched_bytes_ -= block->second.touched_bytes;
  blocks_.erase(block);
}

int64_t HostMemory::UntouchedBytes(char* home, int64_t bytes) {
  const auto block = BlockOf(home);
  return std::max<int64_t>(home + bytes - block->first - block->second.touched_bytes, 0);
}

void* HostMemory::Take(char* home, int64_t bytes) {
  const int64_t untouched = UntouchedBytes(home, bytes);
  BlockOf(home)->second.touched_bytes += untouched;
  touched_bytes_ += untouched;
  home_bytes_ += bytes;
  return home;
}

// What is left of the former one is free.
absl::Status HostMemory::StartBlock(const std::string& what) {
  MR_ASSIGN_OR_RETURN(char* const begin, MapBlock(kBlockBytes, what));
  if (free_begin_ < free_end_) UnmapIfWhole(AddFree(free_begin_, free_end_ - free_begin_));
  free_begin_ = begin;
  free_end_ = begin + kBlockBytes;
  return absl::OkStatus();
}

// Neighbours of two blocks stay apart: a device knows each block alone.
HostMemory::Free::iterator HostMemory::AddFree(char* begin, int64_t bytes) {
  const auto block = BlockOf(begin);
  char* end = begin + bytes;
  const auto next = free_.find(end);
  if (next != free_.end() && end < block->first + block->second.region.size_bytes()) {
    end += next->second;
    RemoveFree(next);
  }
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.begin() && begin > block->first) {
    const auto former = std::prev(behind);
    if (former->first + former->second == begin) {
      begin = former->first;
      RemoveFree(former);
    }
  }
  free_by_size_.emplace(end - begin, begin);
  return free_.emplace(begin, end - begin).first;
}

void HostMemory::RemoveFree(Free::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_.erase(range);
}

bool HostMemory::UnmapIfWhole(Free::iterator range) {
  const auto block = BlockOf(range->first);
  if (range->second < block->second.region.size_bytes()) return false;
  RemoveFree(range);
  if (free_end_ == block->first + block->second.region.size_bytes()) free_begin_ = free_end_ = nullptr;
  Unmap(block);
  return true;
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
