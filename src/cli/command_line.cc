#include "cli/command_line.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/settings.h"
#include "files/mapped_file.h"
#include "glog/logging.h"
#include "millrace/status.h"
#include "models/models.h"
#include "passes/strategy.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kFlagFile = "flagfile=";
constexpr std::string_view kHelp = "help";  // a command that stands for --help

// Of a script whose variable is not set: taken for "not given", a budget would be none.
absl::Status ExpectText(const std::string& name, const std::string& value) {
  if (value.find_first_not_of(", \t") != std::string::npos) return absl::OkStatus();
  return UsageError(absl::StrCat("--", name, "=", value, ": nothing is given; expected a value, or leave the flag out"));
}

// What a flag of gflags' `type` takes, of a value that it does not take.
std::string Expected(const std::string& type, const std::string& value) {
  if (type == "bool") return "true or false";
  if (type == "double") return "a number";
  if (absl::StartsWith(type, "uint")) return "a whole number from 0 on";
  const bool whole = value.find_first_not_of("0123456789", value[0] == '-' ? 1 : 0) == std::string::npos;
  return whole && value.size() > 1 ? "a whole number nearer to 0" : "a whole number";
}

// Flags of the command where `words` name one, else of all commands.
absl::Status UnknownFlag(const std::string& flag, const std::vector<std::string>& words) {
  const Command* const command = words.empty() ? nullptr : FindCommand(words[0]);
  std::vector<std::string> names;
  for (const Command& each : Commands()) {
    if (command == nullptr || command == &each) names.insert(names.end(), each.flags.begin(), each.flags.end());
  }
  return UsageError(absl::StrCat("unknown flag --", flag, NearestText(flag, names, "--"), "; `millrace ", command == nullptr ? "COMMAND" : command->name,
                                 " --help` lists them"));
}

// Sets the flag of "name=value" or "name" (booleans, also "noname"). `next` is the word after it, which is the
// value of other flags without "="; `took_next` says whether it was used.
absl::Status SetFlag(FlagRegistry& registry, std::string text, const std::string* next, bool& took_next, Arguments& arguments) {
  took_next = false;
  const size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::optional<FlagRegistry::Flag> flag = registry.Find(name);
  if (!flag && equals == std::string::npos && absl::StartsWith(name, "no")) {
    name = name.substr(2);
    flag = registry.Find(name);
    if (flag && flag->type != "bool") flag.reset();
    value = "false";
  } else if (flag && equals == std::string::npos) {
    if (flag->type == "bool") {
      value = "true";
    } else if (next != nullptr) {
      value = *next;
      took_next = true;
    } else {
      return UsageError(absl::StrCat("--", name, " needs a value"));
    }
  }
  if (!flag) return UnknownFlag(text.substr(0, equals), arguments.words);
  if (flag->type == "string") MR_RETURN_IF_ERROR(ExpectText(name, value));
  if (!registry.Set(name, value)) {
    return UsageError(absl::StrCat("--", name, "=", value, ": expected ", Expected(flag->type, value)));
  }
  arguments.flags.push_back(name);
  return absl::OkStatus();
}

// Flags from a file, one a line; blank lines and lines that begin with # are skipped. A line may name another file.
absl::Status ReadFlagFile(FlagRegistry& registry, const std::string& path, int depth, Arguments& arguments) {
  constexpr int kDeepest = 16;
  if (depth > kDeepest) return UsageError(absl::StrCat("--flagfile=", path, ": more than ", kDeepest, " flag files that name one another"));
  MR_RETURN_IF_ERROR(ExpectText("flagfile", path));
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return UsageError(absl::StrCat("--flagfile: ", std::string(file.status().message())));
  arguments.flag_files.push_back(path);
  Arguments of_file{.words = arguments.words};
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(std::string((*file)->bytes()), '\n')) {
    ++number;
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty() || text[0] == '#') continue;
    const std::string flag(absl::StripPrefix(absl::StripPrefix(text, "-"), "-"));
    bool took_next = false;
    const absl::Status status = flag.starts_with(kFlagFile) ? ReadFlagFile(registry, flag.substr(kFlagFile.size()), depth + 1, arguments)
                                                                  : SetFlag(registry, flag, nullptr, took_next, of_file);
    if (!status.ok()) return UsageError(absl::StrCat(path, ":", number, ": ", std::string(status.message())));
  }
  arguments.flags_of_files.insert(arguments.flags_of_files.end(), of_file.flags.begin(), of_file.flags.end());
  return absl::OkStatus();
}

template <typename Text>
bool Holds(const std::vector<Text>& flags, const std::string& flag) {
  return std::any_of(flags.begin(), flags.end(), [&](const Text& each) { return flag == each; });
}

// Whether other commands take the flag and this one does not. (Flags of libraries are no command's.)
bool IsOfOthers(const Command& command, const std::string& flag) {
  const auto takes = [&](const Command& each) { return Holds(each.flags, flag); };
  return !takes(command) && std::any_of(Commands().begin(), Commands().end(), takes);
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

// A description begins with the device or the strategy that a flag belongs to.
std::string OwnerOf(const std::string& flag, const FlagRegistry& registry) {
  const std::string description = registry.Find(flag)->description;
  return description.substr(0, description.find(':'));
}

// Likewise flags of CUDA devices where others run.
void WarnOfOtherDevicesFlags(const std::vector<std::string>& given, const FlagRegistry& registry) {
  const auto devices = ParseDevices(registry.Value("devices"), registry.Value("device"));
  if (!devices.ok()) return;  // no warning beside an error
  for (const std::string& flag : given) {
    if (OwnerOf(flag, registry) == "cuda" && !absl::StartsWith(devices->kind, "cuda")) {
      LOG(WARNING) << "--" << flag << " has no effect on device " << devices->kind << ": it is of cuda";
    }
  }
}

// Likewise parts of strategies that are not the ones that plan.
void WarnOfOtherStrategiesFlags(const std::vector<std::string>& chosen, const std::vector<std::string>& given,
                                const FlagRegistry& registry) {
  const std::vector<std::string> names = StrategyNames();
  for (const std::string& flag : given) {
    if (flag == "partition_size" && std::none_of(chosen.begin(), chosen.end(), CutsBySize)) {
      LOG(WARNING) << "--" << flag << " has no effect on strategy " << absl::StrJoin(chosen, ", ") << ": its order is not cut by size";
      continue;
    }
    if (flag == "plan_seconds" && std::none_of(chosen.begin(), chosen.end(), CutsBySize)) {
      LOG(WARNING) << "--" << flag << " has no effect on strategy " << absl::StrJoin(chosen, ", ") << ": its order is found without a search";
      continue;
    }
    const std::string owner = OwnerOf(flag, registry);
    if (std::count(names.begin(), names.end(), owner) == 0 || std::count(chosen.begin(), chosen.end(), owner) > 0) continue;
    LOG(WARNING) << "--" << flag << " has no effect on strategy " << absl::StrJoin(chosen, ", ") << ": it is of " << owner;
  }
}

// Likewise how to copy between devices where there is one, or where that is decided.
void WarnOfSharedReceives(const std::vector<std::string>& chosen, const std::vector<std::string>& given, const FlagRegistry& registry) {
  if (!Holds(given, "share_recv") || registry.Value("share_recv") != "true") return;
  const auto devices = ParseDevices(registry.Value("devices"), registry.Value("device"));
  const bool planned = std::all_of(chosen.begin(), chosen.end(), [](const std::string& name) { return name == "planned"; });
  if (devices.ok() && devices->names.size() < 2) {
    LOG(WARNING) << "--share_recv has no effect on one device: nothing is received from another";
  } else if (planned) {
    LOG(WARNING) << "--share_recv has no effect on strategy planned, which always does so";
  }
}

// Likewise how to plan again where no step comes after those that are measured.
void WarnOfReplanning(const std::vector<std::string>& given, const FlagRegistry& registry) {
  const auto devices = ParseDevices(registry.Value("devices"), registry.Value("device"));
  if (!devices.ok() || devices->kind == "null") return;  // which runs no steps at all
  SessionOptions session;
  session.device = devices->kind;
  session.cuda_graph = registry.Value("cuda_graph");
  const int64_t measured = session.replan.steps_to_measure(session.replays_steps());
  int64_t steps = 0;
  if (!Holds(given, "replan") || registry.Value("replan") != "wait" || !absl::SimpleAtoi(registry.Value("steps"), &steps) || steps > measured) return;
  LOG(WARNING) << "--replan=wait has no effect on --steps=" << steps << ": what the first " << measured << " take plans those after them";
}

// Likewise which tensors are swapped where none is.
void WarnOfSwaps(const std::vector<std::string>& chosen, const std::vector<std::string>& given, const FlagRegistry& registry) {
  const std::vector<std::string> parts = absl::StrSplit(registry.Value("parts"), ',');
  if (!Holds(chosen, "tensorflowmem") || Holds(parts, "swap")) return;
  for (const char* const flag : {"swap_distance", "min_swap_bytes"}) {
    if (Holds(given, flag)) LOG(WARNING) << "--" << flag << " has no effect on --parts=" << registry.Value("parts") << ": nothing is swapped";
  }
}

// Likewise how to plan steps whose plan is read.
void WarnOfPlanningFlags(const std::vector<std::string>& given) {
  for (const std::string& flag : given) {
    if (Holds(PlanningFlags(), flag)) LOG(WARNING) << "--" << flag << " has no effect on the steps: their plan is that of --plan_in";
  }
}

// Likewise what is of steps that run where none does. A step whose size depends on its own results is run to be planned, where a device can.
void WarnOfRunsFlags(std::string_view command, const std::vector<std::string>& given, const FlagRegistry& registry) {
  const auto devices = ParseDevices(registry.Value("devices"), registry.Value("device"));
  if (!devices.ok()) return;  // no warning beside an error
  const bool sweeps = command == "sweep" && devices->kind == "null";
  const bool plans = command == "plan" || command == "explain" || command == "fit";
  const bool may_run = devices->kind == "cpu" && registry.Value("machine").empty();
  for (const std::string& flag : given) {
    if (sweeps && Holds(std::vector<std::string>{"steps", "seed", "threads", "replan"}, flag)) {
      LOG(WARNING) << "--" << flag << " has no effect on device null, which runs nothing";
    }
    if (plans && flag == "seed") {
      LOG(WARNING) << "--seed has no effect on millrace " << command << (may_run ? ", unless the step has to be run to be planned" : "");
    }
  }
}

// Likewise sizes to sweep where no strategy cuts by size, how to update where updates are whole, initialisers where only the step is planned,
// what a machine is measured with where it is not, and whatever stands beside a list.
void WarnOfUnusedParts(const Command& of, const std::vector<std::string>& strategies, const std::vector<std::string>& given,
                       const FlagRegistry& registry) {
  const std::string_view command = of.name;
  const bool cuts = std::any_of(strategies.begin(), strategies.end(), CutsBySize);
  const bool has_parts = Holds(strategies, "planned") && registry.Value("update_parts") != "off";
  for (const std::string& flag : given) {
    if (command == "sweep" && flag == "partition_sizes" && !strategies.empty() && !cuts) {
      LOG(WARNING) << "--partition_sizes has no effect on strategy " << absl::StrJoin(strategies, ", ") << ": its order is not cut by size";
    }
    if (flag == "update_parts" && has_parts && !registry.Value("disk").empty()) {
      LOG(WARNING) << "--update_parts has no effect beside --disk: updates are whole";
    }
    if (command == "export" && flag == "init_targets") LOG(WARNING) << "--init_targets has no effect on millrace export, which plans the step alone";
    if (command == "machine" && (flag == "device" || flag == "threads") && registry.Value("measure") != "true") {
      LOG(WARNING) << "--" << flag << " has no effect on millrace machine without --measure";
    }
    if (command == "inspect" && Holds(of.flags, flag) && flag != "ops" && flag != "report_out" && registry.Value("ops") == "true") {
      LOG(WARNING) << "--" << flag << " has no effect beside --ops";
    }
  }
}

// Likewise, of `fit`, what is run where a model is generated, sizes where a graph is given, and the size that is searched.
void WarnOfFitsFlags(bool model, const std::vector<std::string>& given, const FlagRegistry& registry) {
  for (const std::string& flag : given) {
    const bool of_input = Holds(InputFlags(), flag), of_models = Holds(SizeFlags(), flag) || flag == "seed";
    if (model && of_input && !of_models) LOG(WARNING) << "--" << flag << " has no effect on fit of a generated model";
    if (!model && of_models && !of_input && flag != "devices") LOG(WARNING) << "--" << flag << " has no effect on fit of a graph";
    if (flag == "device_memory" && registry.Value("vary") == "budget") LOG(WARNING) << "--device_memory has no effect: --vary=budget searches it";
    if (model && flag == registry.Value("vary")) LOG(WARNING) << "--" << flag << " has no effect: --vary=" << flag << " searches it";
  }
}

// 0 stands for the model's own size, so that it cannot be asked for.
absl::Status ExpectSizes(const std::vector<std::string>& given, const FlagRegistry& registry) {
  for (const std::string size : {"batch", "depth", "image_size", "classes", "layers", "hidden", "heads", "steps_unrolled", "vocab",
                                  "experts", "channels", "levels"}) {
    int64_t value = 0;
    if (std::find(given.begin(), given.end(), size) == given.end()) continue;
    if (absl::SimpleAtoi(registry.Value(size), &value) && value < 1) {
      return UsageError(absl::StrCat("--", size, "=", value, ": expected at least 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& argv, FlagRegistry& registry) {
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
    } else if (word == "--version" || word == "-version" || word == "-V") {
      arguments.version = true;
    } else {
      const std::string flag(absl::StripPrefix(absl::StripPrefix(word, "-"), "-"));
      const std::string* next = i + 1 < argv.size() ? &argv[i + 1] : nullptr;
      if (flag == "flagfile" || flag.starts_with(kFlagFile)) {
        const bool apart = flag == "flagfile";
        if (apart && next == nullptr) return UsageError("--flagfile needs a value");
        MR_RETURN_IF_ERROR(ReadFlagFile(registry, apart ? argv[++i] : flag.substr(kFlagFile.size()), 1, arguments));
        continue;
      }
      bool took_next = false;
      MR_RETURN_IF_ERROR(SetFlag(registry, flag, next, took_next, arguments));
      i += took_next ? 1 : 0;
    }
  }
  if (!arguments.words.empty() && arguments.words[0] == kHelp) {
    arguments.words.erase(arguments.words.begin());
    arguments.help = true;
  }
  return arguments;
}

absl::StatusOr<const Command*> ExpectCommand(const std::string& name) {
  const Command* const command = FindCommand(name);
  if (command != nullptr) return command;
  std::vector<std::string> names;
  for (const Command& each : Commands()) names.push_back(each.name);
  return UsageError(absl::StrCat("unknown command ", name, NearestText(name, names, ""), "; expected one of ", absl::StrJoin(names, ", "),
                                 "; `millrace --help` says what they do"));
}

absl::Status CheckArguments(const Command& command, const Arguments& arguments, const FlagRegistry& registry) {
  const size_t most_words = *command.arguments == '\0' ? 1 : 2;
  if (arguments.words.size() > most_words) {
    return UsageError(absl::StrCat("unexpected argument ", arguments.words[most_words], ": files and names are given by flags, which millrace ",
                                   command.name, " --help lists"));
  }
  MR_RETURN_IF_ERROR(ExpectSizes(arguments.flags, registry));
  return ExpectSizes(arguments.flags_of_files, registry);
}

void DropUnusedFlags(const Command& command, const Arguments& arguments, FlagRegistry& registry) {
  for (const auto* flags : {&arguments.flags, &arguments.flags_of_files}) {
    for (const std::string& flag : *flags) {
      if (!IsOfOthers(command, flag)) continue;
      if (flags == &arguments.flags) LOG(WARNING) << "--" << flag << " has no effect on millrace " << command.name;
      CHECK(registry.Set(flag, registry.Find(flag)->default_value)) << flag;
    }
  }
}

void WarnOfUselessFlags(const Command& command, const Arguments& arguments, const std::vector<std::string>& strategies,
                        const FlagRegistry& registry) {
  const std::string_view name = command.name;
  if (arguments.words.size() == 2 && (name == "model" || name == "fit")) WarnOfOtherModelsFlags(arguments.words[1], arguments.flags);
  if (name == "fit") WarnOfFitsFlags(arguments.words.size() == 2, arguments.flags, registry);
  if (name == "run" && !registry.Value("plan_in").empty()) WarnOfPlanningFlags(arguments.flags);
  WarnOfOtherDevicesFlags(arguments.flags, registry);
  if (name != "fit" || arguments.words.size() != 2) WarnOfRunsFlags(name, arguments.flags, registry);
  WarnOfUnusedParts(command, strategies, arguments.flags, registry);
  if (strategies.empty()) return;
  WarnOfOtherStrategiesFlags(strategies, arguments.flags, registry);
  WarnOfSwaps(strategies, arguments.flags, registry);
  if (!IsOfOthers(command, "replan")) WarnOfReplanning(arguments.flags, registry);
  WarnOfSharedReceives(strategies, arguments.flags, registry);
}

}  // namespace millrace::cli
