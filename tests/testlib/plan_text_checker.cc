#include "testlib/plan_text_checker.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace {
namespace {

constexpr double kBefore = -1;  // when the training step begins, everything at home is long there
constexpr int kNoStep = -2;
constexpr double kAfter = std::numeric_limits<double>::max();

// A step, or the world before or after it, reads or writes bytes of an address space: "device", "pool", "variable x".
struct Touch {
  std::string space, owner;
  int64_t begin = 0, end = 0;
  bool writes = false;
  double start = kBefore, finish = kBefore;
  int step = -1;
};

struct Step {
  std::string line, lane;
  double seconds = 0;
  double start = 0, finish = 0;
  std::vector<std::pair<std::string, int64_t>> waits;
  std::vector<Touch> touches;
};

bool Overlap(const Touch& a, const Touch& b) {
  return a.begin < b.end && b.begin < a.end && a.space == b.space;
}

class Checker {
 public:
  Checker(int64_t budget_bytes, const std::function<double(const std::string&)>& scale)
      : budget_(budget_bytes), scale_(scale) {}

  absl::Status Run(const std::string& text) {
    std::string section;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      if (line == "steps" || line == "residences") section = line;
      else if (section == "steps" && !line.empty()) ParseStep(line.substr(2));
      else if (section.empty()) ParseHeader(line);
    }
    if (absl::Status status = RunLanes(); !status.ok()) return status;
    return CheckMemory();
  }

 private:
  // "variable v  f32[4]  @64  read" and "constant c  f32[4]  host": what lives on the device over the step's end.
  void ParseHeader(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, "  ");
    const bool variable = absl::StartsWith(line, "variable ");
    if (!variable && !absl::StartsWith(line, "constant ")) return;
    const std::string name = parts[0].substr(9);
    if (parts.size() > 2 && parts[2][0] == '@') resident_[name] = std::atoll(parts[2].c_str() + 1);
    const bool written = std::find(parts.begin(), parts.end(), "written") != parts.end();
    if (resident_.count(name) > 0 && written) newer_than_home_.insert(absl::StrCat("variable ", name));
  }

  // "name@64+16"; false for "-" and the like.
  static bool ParseRange(const std::string& token, Touch& touch) {
    const size_t at = token.rfind('@'), plus = token.rfind('+');
    if (at == std::string::npos || plus == std::string::npos || plus < at) return false;
    touch.space = "device";
    touch.owner = token.substr(0, at);
    touch.begin = std::atoll(token.c_str() + at + 1);
    touch.end = touch.begin + std::atoll(token.c_str() + plus + 1);
    return touch.end > touch.begin;
  }

  void ParseStep(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, "  ", absl::SkipEmpty());
    Step step;
    step.line = line;
    step.lane = parts[0].substr(parts[0].find(' ') + 1);
    std::string written;
    for (size_t k = 2; k < parts.size(); ++k) {
      const std::string& part = parts[k];
      if (part[0] == '[') ParseWaits(part, step);
      else if (absl::StartsWith(part, "scratch ")) AddRange(part.substr(8), "scratch", true, step);
      else if (absl::StartsWith(part, "writes ")) written = part.substr(7);
      else if (absl::StartsWith(part, "overwrites ")) written = part.substr(11);
      else if (part[0] == '"') break;
      else if (part.back() == 's' && absl::SimpleAtod(part.substr(0, part.size() - 1), &step.seconds)) continue;
      else if (absl::StrContains(part, "@")) step.lane == "compute" ? ParseCompute(part, step) : ParseCopy(part, step);
    }
    if (step.lane == "compute" && !written.empty()) {
      for (const std::string& name : std::vector<std::string>(absl::StrSplit(written, ','))) WriteVariable(name, step);
    }
    steps_.push_back(std::move(step));
  }

  static void ParseWaits(const std::string& part, Step& step) {
    for (const std::string& wait : std::vector<std::string>(absl::StrSplit(part.substr(1, part.size() - 2), ' '))) {
      const size_t at = wait.find(">=");
      step.waits.emplace_back(wait.substr(0, at), std::atoll(wait.c_str() + at + 2));
    }
  }

  static void AddRange(const std::string& token, const std::string& owner, bool writes, Step& step) {
    Touch touch;
    if (!ParseRange(token, touch)) return;
    if (!owner.empty()) touch.owner = owner;
    touch.writes = writes;
    step.touches.push_back(std::move(touch));
  }

  // "a:0@0+16 b:0@64+16 -> c:0@128+16".
  static void ParseCompute(const std::string& part, Step& step) {
    bool outputs = false;
    for (const std::string& token : std::vector<std::string>(absl::StrSplit(part, ' '))) {
      if (token == "->") outputs = true;
      else AddRange(token, "", outputs, step);
    }
  }

  static void WriteVariable(const std::string& name, Step& step) {
    for (size_t k = 0; k < step.touches.size(); ++k) {
      if (step.touches[k].owner != name || step.touches[k].writes) continue;
      Touch write = step.touches[k];
      write.writes = true;
      step.touches.push_back(std::move(write));
      return;
    }
  }

  // "a:0@64+16 -> pool@0", "variable v -> v@64+16".
  static void ParseCopy(const std::string& part, Step& step) {
    const size_t arrow = part.find(" -> ");
    const bool out = step.lane == "to-host";
    const std::string device = out ? part.substr(0, arrow) : part.substr(arrow + 4);
    const std::string host = out ? part.substr(arrow + 4) : part.substr(0, arrow);
    AddRange(device, "", !out, step);
    if (step.touches.empty()) return;
    Touch touch = step.touches.back();
    const int64_t bytes = touch.end - touch.begin;
    const bool pool = absl::StartsWith(host, "pool@");
    touch.space = pool ? "pool" : host;
    touch.begin = pool ? std::atoll(host.c_str() + 5) : 0;
    touch.end = touch.begin + bytes;
    touch.writes = out;
    // A fetch goes by its own name, whoever owns the bytes.
    if (absl::StartsWith(host, "fetch ")) step.touches.back().owner.clear();
    step.touches.push_back(std::move(touch));
  }

  absl::Status RunLanes() {
    std::map<std::string, std::vector<int>> lanes;
    std::map<std::string, size_t> next;
    for (size_t k = 0; k < steps_.size(); ++k) lanes[steps_[k].lane].push_back(static_cast<int>(k));
    size_t done = 0;
    bool progress = true;
    while (progress) {
      progress = false;
      for (auto& [name, order] : lanes) {
        size_t& at = next[name];
        for (; at < order.size(); ++at) {
          Step& step = steps_[order[at]];
          double start = at > 0 ? steps_[order[at - 1]].finish : 0;
          bool ready = true;
          for (const auto& [other, count] : step.waits) {
            ready = ready && static_cast<int64_t>(next[other]) >= count && count > 0;
            if (ready) start = std::max(start, steps_[lanes[other][count - 1]].finish);
          }
          if (!ready) break;
          step.start = start;
          step.finish = start + step.seconds * scale_(name);
          progress = true;
          ++done;
        }
      }
    }
    if (done == steps_.size()) return absl::OkStatus();
    for (auto& [name, order] : lanes) {
      if (next[name] < order.size()) return absl::InternalError(absl::StrCat("deadlock at: ", steps_[order[next[name]]].line));
    }
    return absl::InternalError("deadlock");
  }

  absl::Status CheckMemory() {
    std::vector<Touch> writes, reads;
    for (const auto& [name, offset] : resident_) AddResident(name, offset, writes, reads);
    for (size_t k = 0; k < steps_.size(); ++k) {
      for (Touch touch : steps_[k].touches) {
        touch.step = static_cast<int>(k);
        touch.start = steps_[k].start;
        touch.finish = steps_[k].finish;
        if (touch.space == "device" && (touch.begin < 0 || (budget_ > 0 && touch.end > budget_))) {
          return absl::InternalError(absl::StrCat("over the budget: ", steps_[k].line));
        }
        const bool at_home = touch.space != "device" && touch.space != "pool" && newer_than_home_.count(touch.space) == 0;
        if (at_home) writes.push_back({touch.space, touch.owner, touch.begin, touch.end, true});
        (touch.writes ? writes : reads).push_back(std::move(touch));
      }
    }
    for (const Touch& read : reads) {
      if (absl::Status status = CheckRead(read, writes); !status.ok()) return status;
    }
    for (size_t a = 0; a < writes.size(); ++a) {
      for (size_t b = a + 1; b < writes.size(); ++b) {
        const bool meet = writes[a].start < writes[b].finish && writes[b].start < writes[a].finish;
        if (writes[a].step != writes[b].step && meet && Overlap(writes[a], writes[b])) {
          return absl::InternalError(absl::StrCat("written at once: ", Line(writes[a]), " and ", Line(writes[b])));
        }
      }
    }
    return absl::OkStatus();
  }

  // What stays is there before the step, and must be there after it.
  void AddResident(const std::string& name, int64_t offset, std::vector<Touch>& writes, std::vector<Touch>& reads) {
    int64_t bytes = 0, fetched = 0;
    for (const Step& step : steps_) {
      for (const Touch& touch : step.touches) {
        if (touch.space != "device") continue;
        if (touch.owner == name) bytes = std::max(bytes, touch.end - touch.begin);
        if (touch.owner.empty() && touch.begin == offset) fetched = std::max(fetched, touch.end - touch.begin);
      }
    }
    if (bytes == 0) bytes = fetched;  // nothing but a fetch uses it
    if (bytes == 0) return;
    writes.push_back({"device", name, offset, offset + bytes, true});
    reads.push_back({"device", name, offset, offset + bytes, false, kAfter, kAfter, kNoStep});
  }

  std::string Line(const Touch& touch) const {
    return touch.step < 0 ? absl::StrCat("(", touch.owner, " before or after the step)") : steps_[touch.step].line;
  }

  // The last write of the owner's before the read made the bytes; nobody else writes them until the read ends.
  absl::Status CheckRead(const Touch& read, const std::vector<Touch>& writes) const {
    const Touch* made = nullptr;
    for (const Touch& write : writes) {
      if ((!read.owner.empty() && write.owner != read.owner) || !Overlap(write, read) || write.finish > read.start || write.step == read.step) continue;
      if (write.begin > read.begin || write.end < read.end) continue;
      if (made == nullptr || write.finish > made->finish) made = &write;
    }
    if (made == nullptr) return absl::InternalError(absl::StrCat("reads what nobody wrote: ", Line(read)));
    for (const Touch& write : writes) {
      if (&write == made || write.step == read.step || write.step == made->step || !Overlap(write, read)) continue;
      if (write.finish > made->finish && write.start < read.finish) {
        return absl::InternalError(absl::StrCat("overwritten before it was read: ", Line(read), " by ", Line(write)));
      }
    }
    return absl::OkStatus();
  }

  const int64_t budget_;
  const std::function<double(const std::string&)>& scale_;
  std::map<std::string, int64_t> resident_;
  std::set<std::string> newer_than_home_;  // spaces: what is at home when the step begins is too old to be read
  std::vector<Step> steps_;
};

}  // namespace

absl::Status CheckPlanText(const std::string& text, int64_t budget_bytes,
                           const std::function<double(const std::string&)>& scale) {
  return Checker(budget_bytes, scale).Run(text);
}

}  // namespace millrace
