#include "cli/help.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/near_names.h"
#include "millrace/options.h"
#include "models/models.h"
#include "passes/strategy.h"

namespace millrace::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kFlagColumn = 27, kCommandColumn = 18, kModelColumn = 6;

struct Group {
  const char* heading;
  std::vector<const char*> flags;
};

// Flags that are in none come last, under "Other".
const std::vector<Group>& Groups() {
  static const auto* const groups = new std::vector<Group>{
      {"Input", {"graph", "saved_model", "signature", "onnx", "checkpoint_in", "feeds", "synthetic_feeds", "feed_shapes", "seed"}},
      {"What to run", {"ops", "vary", "fetches", "targets", "init_targets", "steps", "plan_in"}},
      {"Training", {"train", "loss", "optimizer", "learning_rate", "weight_decay"}},
      {"Size and form of a generated model",
       {"batch", "depth", "image_size", "classes", "layers", "hidden", "heads", "steps_unrolled", "vocab", "experts", "channels", "levels", "variant",
        "precision", "dropout"}},
      {"Budget and strategy",
       {"device_memory", "budgets", "host_memory", "disk", "disk_gbps", "strategy", "strategies", "partition_size", "partition_sizes", "plan_seconds",
        "recompute", "update_parts", "replan", "profile_in"}},
      {"Parts of single strategies",
       {"swap_distance", "min_swap_bytes", "parts", "early_start", "occupancy_threshold", "swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode",
        "serialization", "serialization_by_size", "memory_ratio", "exclude_outputs", "exclude_inputs", "include_outputs", "include_inputs", "tflms_debug"}},
      {"Rewriting the graph", {"fuse", "channels_first", "pack_rows", "accumulate_products", "share_recv", "max_unrolled_nodes"}},
      {"Device",
       {"device", "devices", "machine", "measure", "threads", "link_gbps", "cuda_graph", "tf32", "measure_convolutions", "device_timeout"}},
      {"Output",
       {"out", "plan_out", "csv_out", "report_out", "trace_out", "plot_out", "html_out", "variables_out", "fetches_out", "checkpoint_out", "profile_out"}},
  };
  return *groups;
}

// `words` behind `line`, from `column` on; a line that would be longer than kWidth ends with `cut` and goes on below.
std::string Paragraph(std::string line, size_t column, const std::vector<std::string>& words, const std::string& cut = "") {
  if (line.size() < column) line.resize(column, ' ');
  std::string text;
  bool first = true;
  for (const std::string& word : words) {
    if (!first && line.size() + 1 + word.size() + cut.size() > kWidth) {
      absl::StrAppend(&text, line, cut, "\n");
      line.assign(column, ' ');
    } else if (!first) {
      line += ' ';
    }
    line += word;
    first = false;
  }
  return absl::StrCat(text, line, "\n");
}

std::vector<std::string> Words(const std::string& text) { return absl::StrSplit(text, ' ', absl::SkipEmpty()); }

// The default as one would write it: 0.7, which gflags gives with 17 digits.
std::string Shortest(const FlagRegistry::Flag& flag) {
  double value = 0;
  return flag.type == "double" && absl::SimpleAtod(flag.default_value, &value) ? absl::StrCat(value) : flag.default_value;
}

// "(default 2)"; empty where the flag says itself what follows without it.
std::string DefaultText(const std::string& name, const FlagRegistry::Flag& flag) {
  if (flag.type == "bool") return flag.default_value == "true" ? absl::StrCat("(on; --no", name, " for off)") : "(off)";
  if (name == "strategy") return absl::StrCat("(default ", PlanningOptions().strategy, ")");
  if (absl::StartsWith(flag.description, "model: ")) return "(default: the model's own)";
  if (flag.default_value.empty() || absl::StartsWith(flag.description, "model, ")) return "";
  return absl::StrCat("(default ", Shortest(flag), ")");
}

std::string FlagText(const std::string& name, const FlagRegistry& registry) {
  const FlagRegistry::Flag flag = *registry.Find(name);
  std::vector<std::string> words = Words(flag.description);
  if (absl::StartsWith(name, "strateg")) {
    words.back() += ":";
    for (const std::string& word : Words(absl::StrJoin(StrategyNames(), ", "))) words.push_back(word);
  }
  if (std::string text = DefaultText(name, flag); !text.empty()) words.push_back(std::move(text));  // one word: it is not cut
  return Paragraph(absl::StrCat("  --", name), kFlagColumn, words);
}

std::string GroupText(const char* heading, const std::vector<std::string>& flags, const FlagRegistry& registry) {
  if (flags.empty()) return "";
  std::string text = absl::StrCat(heading, ":\n");
  for (const std::string& flag : flags) text += FlagText(flag, registry);
  return text + "\n";
}

std::string FlagsText(const Command& command, const FlagRegistry& registry) {
  std::vector<std::string> others(command.flags.begin(), command.flags.end());
  std::string text;
  for (const Group& group : Groups()) {
    std::vector<std::string> flags;
    for (const char* flag : group.flags) {
      const auto found = std::find(others.begin(), others.end(), flag);
      if (found == others.end()) continue;
      flags.push_back(flag);
      others.erase(std::remove(others.begin(), others.end(), flag), others.end());
    }
    text += GroupText(group.heading, flags, registry);
  }
  return text + GroupText("Other", others, registry);
}

std::string ModelsText() {
  std::string text = "Models, with the flags that they take:\n";
  for (const ModelInfo& model : Models()) {
    text += Paragraph(absl::StrCat("  ", model.name, ": "), 0,
                      Words(absl::StrCat(model.summary, model.variants.empty() ? "" : "; variants ", model.variants)));
    text += Paragraph("", kModelColumn, Words(absl::StrCat("--", absl::StrJoin(model.options, " --"))));
  }
  return text + "\n";
}

std::string Called(const Command& command) { return absl::StrCat(command.name, *command.arguments == '\0' ? "" : " ", command.arguments); }

}  // namespace

std::string Usage() {
  std::string text = "millrace trains and runs dataflow graphs larger than the memory of their device.\n\nUsage: millrace COMMAND [--flags]\n\n";
  for (const Command& command : Commands()) text += Paragraph(absl::StrCat("  ", Called(command)), kCommandColumn, Words(command.summary));
  return text + "\nmillrace help COMMAND, or millrace COMMAND --help, shows the command's flags.\n"
                "--flagfile=FILE reads flags from a file, one a line. --v=1 logs more: what each pass took of\n"
                "the time for planning, nodes that run on the host. millrace --version shows the version.\n"
                "Exit status: 0 done; 1 the run failed or was interrupted; 2 wrong usage (a flag's file that\n"
                "cannot be read, too); 3 does not fit the budget.\n";
}

std::string CommandUsage(const Command& command, const FlagRegistry& registry) {
  std::string text = Paragraph(absl::StrCat("millrace ", Called(command), ": "), 0, Words(command.summary));
  absl::StrAppend(&text, "\nUsage: millrace ", Called(command), " [--flags]\n\n", FlagsText(command, registry));
  if (command.name == std::string("model")) text += ModelsText();
  if (*command.note != '\0') absl::StrAppend(&text, Paragraph("", 0, Words(command.note)), "\n");
  return absl::StrCat(text, "Example:\n", Paragraph("", 2, Words(command.example), " \\"));
}

std::string NearestText(const std::string& name, const std::vector<std::string>& names, const std::string& before) {
  constexpr size_t kMostShown = 3, kShortest = 3;
  const size_t most = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& each : names) {
    const bool begins = name.size() >= kShortest && absl::StartsWith(each, name);
    const size_t letters = begins ? 1 : DifferingLetters(name, each, most);
    if (letters <= most) near.emplace_back(letters, absl::StrCat(before, each));
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  near.resize(std::min(near.size(), kMostShown));
  if (near.empty()) return "";
  return absl::StrCat("; nearest: ", absl::StrJoin(near, ", ", [](std::string* out, const auto& each) { out->append(each.second); }));
}

}  // namespace millrace::cli
