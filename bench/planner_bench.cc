// How near the planner comes to the lower bound: every model, machine and pressure, simulated; a row each.
//
//   build/bin/planner_bench [--full | --study] [--strategies=planned,lru] [--pressures=1.25,2] [FILTER …]
//
// A row: a model on a machine, at a batch whose uncut memory is twice the device's, planned for a budget of that
// memory / pressure; pressure 0 stands for 1.05 times the largest working set of a node. Without --full a handful of rows;
// a FILTER keeps rows whose "model machine" contains it. rc 2 for arguments that are none of these, 1 when no row is left.
// --study: the scenarios of the study of gap-based planning that our models can express, on its machines: there the batch
// follows from the memory and the pressure. Beside each the step that the study's prototype took for its own graph of the
// network, with recompute where it tried that, and the steps of the other --strategies; rc 1 when a row is above 1.10 of
// its bound, their mean above 1.04, or a step longer than the study's.
//
// Strategies other than planned are tuned: the shortest step over the settings that SettingsOf lists, beside what they tune by
// themselves (tensorflowmem nine partition sizes, tflms its thresholds).
//
// Times are over the compute time of the graph as it is, so 1.000 says that every transfer is hidden; `bound` is the
// report's lower_bound_seconds (of the graph as rewritten, where values are computed again), `heap` the packed arena over
// the most bytes live at once, what is on its way to the host included, `plan` processor seconds of the whole
// pipeline after the graph is there.
#include <ctime>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "millrace/session.h"
#include "millrace/status.h"
#include "models/models.h"
#include "plan/simulator.h"

namespace millrace {
namespace {

struct Model {
  std::string name;
  std::string generator;
  ModelOptions options;
};

std::vector<Model> BenchModels() {
  const auto resnet = [](int64_t depth) { return ModelOptions{.depth = depth}; };
  return {
      {"resnet50", "resnet", resnet(50)},
      {"resnet152", "resnet", resnet(152)},
      {"resnet302", "resnet", resnet(302)},
      {"resnet1001", "resnet", resnet(1001)},
      {"lstm600x2", "lstm", {.layers = 2, .steps_unrolled = 600}},
      {"lstm400x3", "lstm", {.layers = 3, .steps_unrolled = 400}},
      {"unet128", "unet3d", {.image_size = 128}},
      {"unet192", "unet3d", {.image_size = 192}},
      {"moe_h4k", "moe_transformer", {.layers = 2, .hidden = 4096, .heads = 32, .experts = 8}},
      {"moe_h1k", "moe_transformer", {.layers = 6, .hidden = 1024, .experts = 8}},
      {"moe_16", "moe_transformer", {.layers = 4, .hidden = 2048, .experts = 16}},
      {"gpt", "gpt", {.layers = 24, .hidden = 1024, .heads = 16}},
      {"gpt_xl", "gpt", {.layers = 48, .hidden = 1600, .heads = 25}},
      {"moe_48", "moe_transformer", {.experts = 48}},
      {"bert", "bert", {.layers = 24, .hidden = 1024, .heads = 16}},
  };
}

Machine MakeMachine(std::string name, double gib, double tflops, double memory_gbs, double out_gbs, double in_gbs) {
  Machine machine;
  machine.name = std::move(name);
  machine.device_memory_bytes = static_cast<int64_t>(gib * (int64_t{1} << 30));
  machine.flops_per_second = tflops * 1e12;
  machine.memory_bytes_per_second = memory_gbs * 1e9;
  machine.to_host_bytes_per_second = out_gbs * 1e9;
  machine.to_device_bytes_per_second = in_gbs * 1e9;
  machine.copy_latency_seconds = 10e-6;
  machine.launch_seconds = 3e-6;
  return machine;
}

// configs/machines/FILE.pbtxt, under a name as short as the table's column.
Machine LoadAs(const std::string& name, const std::string& file) {
  const absl::StatusOr<Machine> machine = LoadMachine(absl::StrCat(MILLRACE_SOURCE_DIR "/configs/machines/", file, ".pbtxt"));
  if (!machine.ok()) {
    std::fprintf(stderr, "%s\n", machine.status().ToString().c_str());
    std::exit(1);
  }
  Machine named = *machine;
  named.name = name;
  return named;
}

// Those of configs/machines, and the study's where no file has them: the models are float32, so for the *_bf16 machines
// memory and links count double, which is what tensors of half the size would see; the link of a100_bf16_skew has two speeds.
std::vector<Machine> BenchMachines() {
  return {
      LoadAs("titanx", "titanx"),
      LoadAs("p100", "p100_nvlink"),
      LoadAs("v100", "v100_pcie"),
      LoadAs("a100", "a100"),
      MakeMachine("a100_bf16_skew", 80, 200, 2 * 1900, 2 * 22, 2 * 25),
      LoadAs("h100", "h100_pcie"),
      MakeMachine("h100_bf16", 160, 400, 2 * 3000, 2 * 50, 2 * 50),
  };
}

struct Scenario {
  Model model;
  Machine machine;
  double pressure = 1;
  double study = 1;  // step over compute
};

std::vector<Scenario> StudyScenarios() {
  // Bytes count double where the study's tensors are of half the size.
  const Machine h100_bf16 = MakeMachine("h100_bf16", 2 * 76 / 1.073741824, 400, 2 * 3000, 2 * 50, 2 * 50);
  const Machine h100 = MakeMachine("h100", 76 / 1.073741824, 40, 3000, 50, 50);
  const Machine h100_60 = MakeMachine("h100_60", 60 / 1.073741824, 40, 3000, 50, 50);
  const Machine titanx = MakeMachine("titanx", 11.3 / 1.073741824, 6, 300, 12, 12);
  const Machine a100 = MakeMachine("a100_skew", 2 * 38 / 1.073741824, 200, 2 * 1900, 2 * 22, 2 * 25);
  const Model resnet50{"resnet50", "resnet", {.depth = 50}}, resnet152{"resnet152", "resnet", {.depth = 152}};
  const Model resnet302{"resnet302", "resnet", {.depth = 302}}, resnet1001{"resnet1001", "resnet", {.depth = 1001}};
  const Model lstm600{"lstm600x2", "lstm", {.layers = 2, .hidden = 1024, .steps_unrolled = 600}};
  const Model lstm400{"lstm400x3", "lstm", {.layers = 3, .hidden = 1024, .steps_unrolled = 400}};
  const Model unet128{"unet128", "unet3d", {.image_size = 128}}, unet160{"unet160", "unet3d", {.image_size = 160}};
  const Model unet192{"unet192", "unet3d", {.image_size = 192}};
  // As many layers as fill the memory with variables as the study's do.
  const Model moe_h4k{"moe_h4k", "moe_transformer", {.layers = 21, .hidden = 4096, .heads = 32, .experts = 8}};
  const Model moe_h1k{"moe_h1k", "moe_transformer", {.layers = 12, .hidden = 1024, .experts = 8}};
  const Model moe_16{"moe_16", "moe_transformer", {.layers = 4, .hidden = 2048, .experts = 16}};
  return {
      {resnet50, h100_bf16, 1.25, 1.044},  {resnet50, h100_bf16, 2, 1.346},   {resnet50, h100_bf16, 4, 1.991},
      {resnet50, titanx, 1.25, 1},         {resnet50, titanx, 2, 1.029},      {resnet50, titanx, 4, 1.129},
      {resnet1001, h100_bf16, 1.25, 1.037}, {resnet1001, h100_bf16, 2, 1.460}, {resnet1001, h100_bf16, 4, 2.196},
      {resnet1001, titanx, 1.25, 1},       {resnet1001, titanx, 2, 1.044},    {resnet1001, titanx, 4, 1.118},
      {lstm600, h100_bf16, 1.25, 1},       {lstm600, h100_bf16, 2, 1.103},    {lstm600, h100, 1.25, 1},
      {lstm600, h100, 2, 1},               {lstm600, h100, 4, 1},             {lstm600, titanx, 1.25, 1},
      {lstm600, titanx, 2, 1},             {lstm600, titanx, 4, 1},           {unet192, h100, 1.25, 1},
      {unet192, h100, 1.6, 1},             {unet128, titanx, 1.25, 1},        {unet128, titanx, 1.6, 1},
      {moe_h4k, h100_bf16, 2.5, 3.827},    {moe_h4k, h100_bf16, 4, 1.278},    {moe_h1k, titanx, 2, 1},
      {moe_h1k, titanx, 4, 1},             {resnet152, a100, 1.5, 3.500},     {resnet152, a100, 3, 6.968},
      {resnet302, h100_60, 1.5, 1.337},    {lstm400, a100, 1.5, 1.053},       {lstm400, a100, 3, 1.429},
      {unet160, a100, 1.5, 2.251},         {moe_16, a100, 3, 2.144},
  };
}

struct Arguments {
  bool full = false;
  bool study = false;
  std::vector<std::string> strategies = {"planned"};
  std::vector<double> pressures;
  std::vector<std::string> filters;
};

absl::StatusOr<std::vector<std::string>> ParseStrategies(const std::string& text) {
  const std::vector<std::string> known = StrategyNames();
  std::vector<std::string> strategies = absl::StrSplit(text, ',');
  for (const std::string& strategy : strategies) {
    if (std::find(known.begin(), known.end(), strategy) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--strategies: no strategy '", strategy, "', expected some of ", absl::StrJoin(known, ",")));
  }
  return strategies;
}

absl::StatusOr<std::vector<double>> ParsePressures(const std::string& text) {
  std::vector<double> pressures;
  for (const std::string& p : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (!absl::SimpleAtod(p, &pressures.emplace_back()) || !std::isfinite(pressures.back()) || pressures.back() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--pressures: '", p, "', expected numbers from 0 on"));
    }
  }
  return pressures;
}

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--full") {
      arguments.full = true;
    } else if (text == "--study") {
      arguments.study = true;
    } else if (absl::StartsWith(text, "--strategies=")) {
      MR_ASSIGN_OR_RETURN(arguments.strategies, ParseStrategies(text.substr(13)));
    } else if (absl::StartsWith(text, "--pressures=")) {
      MR_ASSIGN_OR_RETURN(arguments.pressures, ParsePressures(text.substr(12)));
    } else if (absl::StartsWith(text, "-")) {
      return absl::InvalidArgumentError(absl::StrCat("no flag ", text, ", expected --full, --study, --strategies= or --pressures="));
    } else {
      arguments.filters.push_back(text);
    }
  }
  if (arguments.pressures.empty()) {
    arguments.pressures = arguments.full ? std::vector<double>{1.25, 1.6, 2, 2.5, 3, 4} : std::vector<double>{1.25, 2, 4};
  }
  return arguments;
}

bool Wanted(const Arguments& arguments, const std::string& model, const std::string& machine) {
  const std::string row = absl::StrCat(model, " ", machine, " ");
  if (!arguments.filters.empty()) {
    return std::any_of(arguments.filters.begin(), arguments.filters.end(),
                       [&](const std::string& filter) { return absl::StrContains(row, filter); });
  }
  if (arguments.full) return true;
  const std::string quick[] = {"resnet50 titanx", "resnet50 h100_bf16", "lstm600x2 h100_bf16", "unet128 v100",
                               "moe_h4k h100_bf16", "moe_h1k titanx", "gpt a100", "resnet302 a100"};
  return std::any_of(std::begin(quick), std::end(quick),
                     [&](const std::string& filter) { return absl::StartsWith(row, filter + " "); });
}

double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Planned {
  absl::Status status;
  RunReport report;
  double heap_ratio = 0;
  double plan_seconds = 0;
  int64_t nodes = 0;
  int64_t largest_node_bytes = 0;
};

Planned PlanWith(const Graph& graph, const Machine& machine, const PlanningOptions& planning) {
  Session::FeedTypes feeds;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op != "Placeholder") continue;
    feeds[node.name] = {node.attrs.GetOr<DataType>("dtype", DataType::kFloat), node.attrs.GetOr<Shape>("shape", Shape())};
  }
  SessionOptions options;
  options.device = "null";
  options.machine = machine;
  options.planning = planning;
  Planned result;
  auto session = Session::Create(graph.Clone(), options);
  result.status = session.status();
  if (!session.ok()) return result;
  const double start = ProcessSeconds();
  const auto plan = (*session)->Plan(feeds, {"loss:0"}, {"train"});
  result.plan_seconds = ProcessSeconds() - start;
  result.status = plan.status();
  if (!plan.ok()) return result;
  result.report = (*session)->last_run();
  result.largest_node_bytes = (*session)->graph_summary().largest_node_bytes;
  const PlanDevice& device = (*plan)->devices[0];
  int64_t most = std::max<int64_t>(1, device.peak_live_bytes);
  if (const absl::StatusOr<Simulation> simulation = SimulatePlan(**plan, machine); simulation.ok()) {
    for (const MemoryPoint& point : simulation->memory[0]) most = std::max(most, point.bytes);
  }
  result.heap_ratio = static_cast<double>(device.arena_bytes) / static_cast<double>(most);
  result.nodes = static_cast<int64_t>((*plan)->lanes[0].compute.size());
  return result;
}

// What users of a strategy would try for a graph and a budget (0: none), the defaults first.
std::vector<PlanningOptions> SettingsOf(const std::string& strategy, int64_t budget_bytes) {
  PlanningOptions options;
  options.strategy = strategy;
  options.device_memory_bytes = budget_bytes > 0 ? budget_bytes : PlanningOptions::kNoLimit;
  options.host_memory_bytes = PlanningOptions::kNoLimit;
  std::vector<PlanningOptions> settings = {options};
  const auto also = [&](auto member, auto values) {
    for (const auto value : values) {
      settings.push_back(options);
      member(settings.back()) = value;
    }
  };
  if (strategy == "tensorflowmem") {
    also([](PlanningOptions& o) -> int64_t& { return o.swap_distance; }, std::initializer_list<int64_t>{1, 4, 8, 16, 32, 64});
    also([](PlanningOptions& o) -> int64_t& { return o.min_swap_bytes; }, std::initializer_list<int64_t>{64 << 10, 1 << 20});
  } else if (strategy == "tflms") {
    also([](PlanningOptions& o) -> double& { return o.tflms.memory_ratio; }, std::initializer_list<double>{0.7, 0.8, 1.0});
  } else if (strategy == "reactive") {
    also([](PlanningOptions& o) -> double& { return o.occupancy_threshold; }, std::initializer_list<double>{0.5, 0.6, 0.8, 0.9, 1.0});
  }
  return settings;
}

// The shortest step; processor seconds are those of all settings.
Planned Plan(const Graph& graph, const Machine& machine, const std::string& strategy, int64_t budget_bytes) {
  Planned best;
  double seconds = 0;
  for (const PlanningOptions& settings : SettingsOf(strategy, budget_bytes)) {
    Planned planned = PlanWith(graph, machine, settings);
    seconds += planned.plan_seconds;
    const bool better = !best.status.ok() || planned.report.predicted_step_seconds < best.report.predicted_step_seconds;
    if (best.nodes == 0 || (planned.status.ok() && better)) best = std::move(planned);
  }
  best.plan_seconds = seconds;
  return best;
}

// The graph at a batch whose uncut memory is about so many times the machine's.
absl::StatusOr<Graph> BuildAtScale(const Model& model, const Machine& machine, double times) {
  ModelOptions options = model.options;
  double peaks[2];
  const int64_t batches[2] = {2, 4};
  for (int k = 0; k < 2; ++k) {
    options.batch = batches[k];
    absl::StatusOr<Graph> graph = BuildModel(model.generator, options);
    if (!graph.ok()) return graph.status();
    const Planned planned = Plan(*graph, machine, "baseline", 0);
    if (!planned.status.ok()) return planned.status;
    peaks[k] = static_cast<double>(planned.report.predicted_peak_device_bytes);
  }
  const double slope = std::max(1.0, (peaks[1] - peaks[0]) / static_cast<double>(batches[1] - batches[0]));
  const double fixed = peaks[0] - slope * static_cast<double>(batches[0]);
  const double batch = (times * static_cast<double>(machine.device_memory_bytes) - fixed) / slope;
  options.batch = std::max<int64_t>(1, std::llround(batch));
  return BuildModel(model.generator, options);
}

class Table {
 public:
  explicit Table(const Arguments& arguments) : arguments_(arguments) {
    std::printf("| model | machine | peak/M | nodes | compute ms |");
    for (const std::string& s : arguments.strategies) std::printf(" %s | bound | /bound | heap | plan s |", s.c_str());
    std::printf("\n|---|---|--|--|--|");
    for (size_t i = 0; i < arguments.strategies.size(); ++i) std::printf("--|--|--|--|--|");
    std::printf("\n");
  }

  void AddRows(const Model& model, const Machine& machine) {
    const absl::StatusOr<Graph> graph = BuildAtScale(model, machine, 2);
    if (!graph.ok()) {
      std::printf("| %s | %s | %s |\n", model.name.c_str(), machine.name.c_str(), graph.status().ToString().c_str());
      return;
    }
    const Planned uncut = Plan(*graph, machine, "baseline", 0);
    if (!uncut.status.ok()) {
      std::printf("| %s | %s | %s |\n", model.name.c_str(), machine.name.c_str(), uncut.status.ToString().c_str());
      return;
    }
    for (double pressure : arguments_.pressures) {
      const auto budget = static_cast<int64_t>(
          pressure > 0 ? static_cast<double>(uncut.report.predicted_peak_device_bytes) / pressure
                       : 1.05 * static_cast<double>(uncut.largest_node_bytes));
      AddRow(model, machine, *graph, uncut, pressure, budget);
    }
  }

  void PrintMeans() const {
    for (const auto& [strategy, gaps] : gaps_) {
      double sum = 0, worst = 1;
      int64_t over = 0;
      for (double gap : gaps) {
        sum += std::log(gap);
        worst = std::max(worst, gap);
        over += gap > 1.10 ? 1 : 0;
      }
      std::printf("%s: %zu rows, step / bound: geometric mean %.4f, worst %.3f, above 1.10: %lld\n", strategy.c_str(),
                  gaps.size(), std::exp(sum / static_cast<double>(gaps.size())), worst, static_cast<long long>(over));
    }
  }

 private:
  void AddRow(const Model& model, const Machine& machine, const Graph& graph, const Planned& uncut, double pressure,
              int64_t budget_bytes) {
    const double compute = uncut.report.plan->predicted_compute_seconds;
    std::printf("| %s | %s | %s | %lld | %.1f |", model.name.c_str(), machine.name.c_str(),
                pressure > 0 ? absl::StrCat(pressure).c_str() : "tight", static_cast<long long>(uncut.nodes), 1e3 * compute);
    for (const std::string& strategy : arguments_.strategies) {
      const Planned planned = Plan(graph, machine, strategy, budget_bytes);
      const RunReport& report = planned.report;
      if (!planned.status.ok()) {
        const bool too_small = absl::IsResourceExhausted(planned.status);
        std::printf(" %s | - | - | - | %.2f |", too_small ? "no" : planned.status.ToString().c_str(), planned.plan_seconds);
        continue;
      }
      const double gap = report.predicted_step_seconds / report.lower_bound_seconds;
      std::printf(" %.3f | %.3f | %.3f | %.3f | %.2f |", report.predicted_step_seconds / compute,
                  report.lower_bound_seconds / compute, gap, planned.heap_ratio, planned.plan_seconds);
      gaps_[strategy].push_back(gap);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  const Arguments& arguments_;
  std::map<std::string, std::vector<double>> gaps_;
};

int NoRows() {
  std::fprintf(stderr, "planner_bench: no row's model and machine contain what is asked for\n");
  return 1;
}

int RunStudy(const Arguments& arguments) {
  constexpr double kMostGap = 1.10, kMostMean = 1.04, kRounding = 1.0005;
  std::printf("| model | machine | peak/M | nodes | compute ms | planned | bound | /bound | heap | study | plan s |");
  for (const std::string& s : arguments.strategies) std::printf(s == "planned" ? "" : " %s |", s.c_str());
  std::printf("\n|---|---|--|--|--|--|--|--|--|--|--|");
  for (const std::string& s : arguments.strategies) std::printf(s == "planned" ? "" : "--|");
  std::printf("\n");
  double sum = 0;
  int rows = 0;
  std::vector<std::string> failed;
  for (const Scenario& scenario : StudyScenarios()) {
    if (!arguments.filters.empty() && !Wanted(arguments, scenario.model.name, scenario.machine.name)) continue;
    const std::string name = absl::StrCat(scenario.model.name, " | ", scenario.machine.name, " | ", scenario.pressure);
    const absl::StatusOr<Graph> graph = BuildAtScale(scenario.model, scenario.machine, scenario.pressure);
    Planned uncut, planned;
    int64_t budget_bytes = 0;
    if (graph.ok()) uncut = Plan(*graph, scenario.machine, "baseline", 0);
    if (graph.ok() && uncut.status.ok()) {
      budget_bytes = static_cast<int64_t>(static_cast<double>(uncut.report.predicted_peak_device_bytes) / scenario.pressure);
      planned = Plan(*graph, scenario.machine, "planned", budget_bytes);
    }
    const absl::Status& failure = !graph.ok() ? graph.status() : !uncut.status.ok() ? uncut.status : planned.status;
    if (!failure.ok()) {
      std::printf("| %s | %s |\n", name.c_str(), failure.ToString().c_str());
      failed.push_back(name);
      continue;
    }
    const double compute = uncut.report.plan->predicted_compute_seconds;
    const double step = planned.report.predicted_step_seconds, bound = planned.report.lower_bound_seconds;
    std::printf("| %s | %lld | %.1f | %.3f | %.3f | %.3f | %.3f | %.3f | %.2f |", name.c_str(),
                static_cast<long long>(uncut.nodes), 1e3 * compute, step / compute, bound / compute, step / bound,
                planned.heap_ratio, scenario.study, planned.plan_seconds);
    for (const std::string& strategy : arguments.strategies) {
      if (strategy == "planned") continue;
      const Planned other = Plan(*graph, scenario.machine, strategy, budget_bytes);
      if (other.status.ok()) std::printf(" %.3f |", other.report.predicted_step_seconds / compute);
      else std::printf(" no |");
    }
    std::printf("\n");
    std::fflush(stdout);
    sum += std::log(step / bound);
    ++rows;
    if (step > kMostGap * bound || step > kRounding * scenario.study * compute) failed.push_back(name);
  }
  if (rows == 0 && failed.empty()) return NoRows();
  const double mean = std::exp(sum / std::max(rows, 1));
  std::printf("\n%d rows, step / bound: geometric mean %.4f; above 1.10 or longer than the study's: %zu\n", rows, mean,
              failed.size());
  for (const std::string& name : failed) std::printf("- %s\n", name.c_str());
  return failed.empty() && mean <= kMostMean ? 0 : 1;
}

constexpr char kUsage[] = "usage: planner_bench [--full | --study] [--strategies=planned,lru] [--pressures=1.25,2] [FILTER ...]\n";

int Run(int argc, char** argv) {
  if (argc > 1 && (argv[1] == std::string("-h") || argv[1] == std::string("--help"))) {
    std::printf("%sPlans every model for every machine and pressure (how many times the budget the model needs) and prints the predicted step against\n"
                "the lower bound. Without --full a few rows; FILTER keeps rows whose \"model machine\" contains it; --study: scenarios of an earlier\n"
                "study, and exit status 1 where a step is longer than there or too far above its bound.\n", kUsage);
    return 0;
  }
  const absl::StatusOr<Arguments> parsed = Parse(argc, argv);
  if (!parsed.ok()) {
    std::fprintf(stderr, "planner_bench: %s\n%s", std::string(parsed.status().message()).c_str(), kUsage);
    return 2;
  }
  const Arguments& arguments = *parsed;
  if (arguments.study) return RunStudy(arguments);
  Table table(arguments);
  int wanted = 0;
  for (const Model& model : BenchModels()) {
    for (const Machine& machine : BenchMachines()) {
      if (!Wanted(arguments, model.name, machine.name)) continue;
      table.AddRows(model, machine);
      ++wanted;
    }
  }
  if (wanted == 0) return NoRows();
  std::printf("\n");
  table.PrintMeans();
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Run(argc, argv); }
