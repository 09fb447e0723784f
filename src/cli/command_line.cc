#include "cli/command_line.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/exit_status.h"
#include "files/mapped_file.h"
#include "glog/logging.h"
#include "millrace/status.h"
#include "models/models.h"
#include "passes/strategy.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kFlagFile = "flagfile=";

// Sets the flag of "name=value" or "name" (booleans, also "noname"). `next` is the word after it, which is the
// value of other flags without "="; `took_next` says whether it was used.
absl::Status SetFlag(std::string text, const std::string* next, bool& took_next, Arguments& arguments) {
  took_next = false;
  const size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  gflags::CommandLineFlagInfo info;
  // The library's own, which its parser would act on, would be taken without a word.
  const bool of_library = absl::StartsWith(name, "help") || name == "version" || name == "fromenv" || name == "tryfromenv" ||
                          name == "undefok" || absl::StartsWith(name, "tab_completion") || name == "flagfile";
  bool known = !of_library && gflags::GetCommandLineFlagInfo(name.c_str(), &info);
  if (!known && equals == std::string::npos && absl::StartsWith(name, "no")) {
    known = gflags::GetCommandLineFlagInfo(name.substr(2).c_str(), &info) && info.type == "bool";
    name = name.substr(2);
    value = "false";
  } else if (known && equals == std::string::npos) {
    if (info.type == "bool") {
      value = "true";
    } else if (next != nullptr) {
      value = *next;
      took_next = true;
    } else {
      return UsageError(absl::StrCat("--", name, " needs a value"));
    }
  }
  if (!known) return UsageError(absl::StrCat("unknown flag --", text.substr(0, equals)));
  if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    return UsageError(absl::StrCat("--", name, "=", value, ": expected a value of type ", info.type));
  }
  arguments.flags.push_back(name);
  return absl::OkStatus();
}

// Flags from a file, one a line; blank lines and lines that begin with # are skipped. A line may name another file.
absl::Status ReadFlagFile(const std::string& path, int depth, std::vector<std::string>& flags) {
  constexpr int kDeepest = 16;
  if (depth > kDeepest) return UsageError(absl::StrCat("--flagfile=", path, ": more than ", kDeepest, " flag files that name one another"));
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return UsageError(absl::StrCat("--flagfile: ", std::string(file.status().message())));
  Arguments of_file;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(std::string((*file)->bytes()), '\n')) {
    ++number;
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty() || text[0] == '#') continue;
    const std::string flag(absl::StripPrefix(absl::StripPrefix(text, "-"), "-"));
    bool took_next = false;
    const absl::Status status = flag.starts_with(kFlagFile) ? ReadFlagFile(flag.substr(kFlagFile.size()), depth + 1, flags)
                                                                  : SetFlag(flag, nullptr, took_next, of_file);
    if (!status.ok()) return UsageError(absl::StrCat(path, ":", number, ": ", std::string(status.message())));
  }
  flags.insert(flags.end(), of_file.flags.begin(), of_file.flags.end());
  return absl::OkStatus();
}

// The default as one would write it: 0.7, which gflags gives with 17 digits.
std::string Shortest(const gflags::CommandLineFlagInfo& info) {
  double value = 0;
  return info.type == "double" && absl::SimpleAtod(info.default_value, &value) ? absl::StrCat(value) : info.default_value;
}

// Flags that have no meaning for the command are likely a mistake, but scripts share flags among commands.
void WarnOfUnusedFlags(const Command& command, const std::vector<std::string>& given) {
  for (const std::string& flag : given) {
    bool used = false, ours = false;
    for (const char* name : command.flags) used = used || flag == name;
    for (const Command& other : Commands()) {
      for (const char* name : other.flags) ours = ours || flag == name;
    }
    if (ours && !used) LOG(WARNING) << "--" << flag << " has no effect on millrace " << command.name;
  }
}

// Likewise sizes that other models have and this one does not.
void WarnOfOtherModelsFlags(const std::string& name, const std::vector<std::string>& given) {
  const auto takes = [](const ModelInfo& model, const std::string& flag) {
    return std::find(model.options.begin(), model.options.end(), flag) != model.options.end();
  };
  for (const ModelInfo& model : Models()) {
    if (model.name != name) continue;
    for (const std::string& flag : given) {
      const bool others = std::any_of(Models().begin(), Models().end(), [&](const ModelInfo& other) { return takes(other, flag); });
      if (others && !takes(model, flag)) LOG(WARNING) << "--" << flag << " has no effect on the model " << name;
    }
  }
}

// Likewise parts of strategies that are not the ones that plan. A description begins with the strategy that a flag belongs to.
void WarnOfOtherStrategiesFlags(const std::vector<std::string>& chosen, const std::vector<std::string>& given) {
  const std::vector<std::string> names = StrategyNames();
  for (const std::string& flag : given) {
    const std::string description = gflags::GetCommandLineFlagInfoOrDie(flag.c_str()).description;
    const std::string owner = description.substr(0, description.find(':'));
    if (std::count(names.begin(), names.end(), owner) == 0 || std::count(chosen.begin(), chosen.end(), owner) > 0) continue;
    LOG(WARNING) << "--" << flag << " has no effect on strategy " << absl::StrJoin(chosen, ", ") << ": it is of " << owner;
  }
}

// 0 stands for the model's own size, so that it cannot be asked for.
absl::Status ExpectSizes(const std::vector<std::string>& given) {
  for (const std::string size : {"batch", "depth", "image_size", "classes", "layers", "hidden", "heads", "steps_unrolled", "vocab",
                                  "experts", "channels", "levels"}) {
    std::string text;
    int64_t value = 0;
    if (std::find(given.begin(), given.end(), size) == given.end()) continue;
    if (gflags::GetCommandLineOption(size.c_str(), &text) && absl::SimpleAtoi(text, &value) && value < 1) {
      return UsageError(absl::StrCat("--", size, "=", value, ": expected at least 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// gflags' own parser ends the process with status 1; ours reports like everything else.
absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& argv) {
  Arguments arguments;
  bool flags_end = false;
  for (size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (flags_end || word.size() < 2 || word[0] != '-') {
      arguments.words.push_back(word);
    } else if (word == "--") {
      flags_end = true;
    } else if (word == "--help" || word == "-help" || word == "-h") {
      arguments.help = true;
    } else if (word == "--version" || word == "-version") {
      arguments.version = true;
    } else {
      const std::string flag(absl::StripPrefix(absl::StripPrefix(word, "-"), "-"));
      const std::string* next = i + 1 < argv.size() ? &argv[i + 1] : nullptr;
      if (flag == "flagfile" || flag.starts_with(kFlagFile)) {
        const bool apart = flag == "flagfile";
        if (apart && next == nullptr) return UsageError("--flagfile needs a value");
        MR_RETURN_IF_ERROR(ReadFlagFile(apart ? argv[++i] : flag.substr(kFlagFile.size()), 1, arguments.flags_of_files));
        continue;
      }
      bool took_next = false;
      MR_RETURN_IF_ERROR(SetFlag(flag, next, took_next, arguments));
      i += took_next ? 1 : 0;
    }
  }
  return arguments;
}

absl::Status CheckArguments(const Command& command, const Arguments& arguments) {
  const size_t most_words = *command.arguments == '\0' ? 1 : 2;
  if (arguments.words.size() > most_words) return UsageError(absl::StrCat("unexpected argument ", arguments.words[most_words]));
  MR_RETURN_IF_ERROR(ExpectSizes(arguments.flags));
  return ExpectSizes(arguments.flags_of_files);
}

void WarnOfUselessFlags(const Command& command, const Arguments& arguments, const std::vector<std::string>& strategies) {
  WarnOfUnusedFlags(command, arguments.flags);
  const std::string_view name = command.name;
  if (arguments.words.size() == 2 && (name == "model" || name == "fit")) WarnOfOtherModelsFlags(arguments.words[1], arguments.flags);
  if (!strategies.empty()) WarnOfOtherStrategiesFlags(strategies, arguments.flags);
}

std::string Usage() {
  std::string text = "millrace trains and runs dataflow graphs larger than the memory of their device.\n\nUsage: millrace COMMAND [--flags]\n\n";
  for (const Command& command : Commands()) {
    const std::string name = absl::StrCat(command.name, *command.arguments == '\0' ? "" : " ", command.arguments);
    absl::StrAppend(&text, "  ", name, std::string(16 - name.size(), ' '), command.summary, "\n");
  }
  return text + "\nmillrace COMMAND --help shows the command's flags. --flagfile=FILE reads flags from a file, one a line.\n"
                "millrace --version shows the version.\n"
                "Exit status: 0 done, 1 the run failed, 2 wrong usage, 3 does not fit the budget.\n";
}

std::string CommandUsage(const Command& command) {
  std::string text = absl::StrCat("millrace ", command.name, *command.arguments == '\0' ? "" : " ", command.arguments,
                                  ": ", command.summary, "\n\n");
  for (const char* flag : command.flags) {
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(flag);
    const std::string name = absl::StrCat("--", flag);
    absl::StrAppend(&text, "  ", name, std::string(name.size() < 18 ? 18 - name.size() : 1, ' '), info.description,
                    absl::StartsWith(flag, "strateg") ? absl::StrCat(": ", absl::StrJoin(StrategyNames(), ", ")) : "",
                    // Models have defaults of their own.
                    info.default_value.empty() || info.type == "bool" || absl::StartsWith(info.description, "model")
                        ? ""
                        : absl::StrCat(" (", Shortest(info), ")"),
                    "\n");
  }
  if (std::string_view(command.name) == "model") {
    absl::StrAppend(&text, "\nModels, with the flags that they take:\n");
    for (const ModelInfo& model : Models()) {
      absl::StrAppend(&text, "  ", model.name, ": ", model.summary, model.variants.empty() ? "" : "; variants ",
                      model.variants, "\n      --", absl::StrJoin(model.options, " --"), "\n");
    }
  }
  return absl::StrCat(text, "\nExample:\n  ", command.example, "\n");
}

}  // namespace millrace::cli
