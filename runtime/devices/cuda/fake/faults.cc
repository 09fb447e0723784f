#include "cuda/fake/faults.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "cuda/fake/streams.h"

namespace millrace::cuda::fake {
namespace {

struct Place {
  int64_t first = 0;
  bool and_later = false;
  bool Has(int64_t n) const { return n == first || (and_later && n > first); }
};

const std::map<std::string, cudaError_t>& Refusals() {
  static const auto* const refusals = new std::map<std::string, cudaError_t>{
      {"alloc", cudaErrorMemoryAllocation},     {"hostalloc", cudaErrorMemoryAllocation},  {"pin", cudaErrorMemoryAllocation},
      {"stream", cudaErrorMemoryAllocation},    {"event", cudaErrorMemoryAllocation},      {"instantiate", cudaErrorMemoryAllocation},
      {"graph", cudaErrorLaunchOutOfResources}, {"launch", cudaErrorLaunchOutOfResources}, {"copy", cudaErrorInvalidValue},
      {"library", cudaErrorNotSupported}};
  return *refusals;
}
// By the count of operations or, of "lost", of calls. A device that hangs is not lost: its streams are not ready.
const std::map<std::string, cudaError_t>& Losses() {
  static const auto* const losses =
      new std::map<std::string, cudaError_t>{{"ecc", cudaErrorECCUncorrectable}, {"crash", cudaErrorLaunchFailure}, {"lost", cudaErrorUnknown},
                                             {"hang", cudaErrorNotReady}};
  return *losses;
}
const std::map<std::string, int>& Settings() {
  static const auto* const settings = new std::map<std::string, int>{{"driver", 0}, {"devices", 0}, {"init", 0}, {"capability", 0}, {"code", 0}};
  return *settings;
}

struct State {
  std::map<std::string, Place> places;
  std::map<std::string, int> settings;
  std::map<std::string, int64_t> counts;
  cudaError_t lost = cudaSuccess;
  bool hangs = false;
};
std::mutex mutex;
State& Current() {
  static auto* const state = new State;
  return *state;
}
int64_t objects = 0;
int64_t process = 0;

// "ecc@17" or "driver=12040" into `state`.
bool ReadFault(const std::string& text, State& state) {
  const size_t sign = text.find_first_of("@=");
  if (sign == std::string::npos) return false;
  const std::string name = text.substr(0, sign);
  char* end = nullptr;
  const long long number = std::strtoll(text.c_str() + sign + 1, &end, 10);
  if (end == text.c_str() + sign + 1 || number < 0) return false;
  if (text[sign] == '=') {
    state.settings[name] = static_cast<int>(number);
    return *end == '\0' && Settings().count(name) > 0;
  }
  const bool and_later = *end == '+';
  state.places[name] = {number, and_later};
  return *(and_later ? end + 1 : end) == '\0' && Refusals().count(name) + Losses().count(name) > 0;
}

bool Strikes(const State& state, const char* fault, int64_t n) {
  const auto place = state.places.find(fault);
  return place != state.places.end() && place->second.Has(n);
}

}  // namespace

cudaError_t Enter(const char* kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  State& state = Current();
  const int64_t call = state.counts["call"]++;
  if (state.lost == cudaSuccess && Strikes(state, "lost", call)) state.lost = Losses().at("lost");
  if (state.lost != cudaSuccess) return Say(state.lost);
  if (kind == nullptr || !Strikes(state, kind, state.counts[kind]++)) return cudaSuccess;
  return Say(Refusals().at(kind));
}

Turn NextTurn() {
  const std::lock_guard<std::mutex> lock(mutex);
  State& state = Current();
  const int64_t operation = state.counts["operation"]++;
  for (const char* loss : {"ecc", "crash"}) {
    if (state.lost == cudaSuccess && Strikes(state, loss, operation)) state.lost = Losses().at(loss);
  }
  if (state.lost != cudaSuccess) return Turn::kIsDropped;
  if (!Strikes(state, "hang", operation)) return Turn::kRuns;
  state.hangs = true;
  return Turn::kNeverEnds;
}

bool Hangs() {
  const std::lock_guard<std::mutex> lock(mutex);
  return Current().hangs;
}

void Block(const char* call) {
  if (!Hangs()) return;
  std::fprintf(stderr, "%s would wait for ever: the device hangs\n", call);
  std::abort();
}

cudaError_t LostWith() {
  const std::lock_guard<std::mutex> lock(mutex);
  return Current().lost;
}

int Setting(const char* name, int otherwise) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = Current().settings.find(name);
  return found == Current().settings.end() ? otherwise : found->second;
}

int64_t Count(const char* kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  return Current().counts[kind];
}

void CountMost(const char* kind, int64_t count) {
  const std::lock_guard<std::mutex> lock(mutex);
  int64_t& most = Current().counts[kind];
  most = std::max(most, count);
}

void CountStray(int device) {
  const std::lock_guard<std::mutex> lock(mutex);
  Current().counts["stray"] += device != CurrentDevice() ? 1 : 0;
}

int64_t Process() {
  const std::lock_guard<std::mutex> lock(mutex);
  return process;
}

void CountObject(int change) {
  const std::lock_guard<std::mutex> lock(mutex);
  objects += change;
}

}  // namespace millrace::cuda::fake

extern "C" __attribute__((visibility("default"))) const char* millrace_fake_fault(const char* text) {
  using namespace millrace::cuda::fake;
  static auto* const wrong = new std::string;
  State state;
  const std::string list = text;
  for (size_t from = 0; from < list.size();) {
    const size_t comma = std::min(list.find(',', from), list.size());
    *wrong = list.substr(from, comma - from);
    if (!ReadFault(*wrong, state)) return wrong->c_str();
    from = comma + 1;
  }
  if (Hangs()) {
    DropStreams();
    DropMemory();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    Current() = state;
    ++process;
  }
  cudaGetLastError();  // of the device that is back
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) int64_t millrace_fake_count(const char* kind) {
  using namespace millrace::cuda::fake;
  if (std::string(kind) != "object") return Count(kind);
  const std::lock_guard<std::mutex> lock(mutex);
  return objects;
}
