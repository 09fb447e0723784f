// The command line as plain data: main.cc fills it from the flags, the commands read it. Field names are the
// flags' names; sizes are still text where a percentage is allowed.
#ifndef MILLRACE_SRC_CLI_OPTIONS_H_
#define MILLRACE_SRC_CLI_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/options.h"
#include "models/models.h"

namespace millrace::cli {

struct InputOptions {
  std::string graph;
  std::string saved_model;  // folder; then feeds and fetches are the signature's keys
  std::string signature;    // empty: the only one, or serving_default
  std::string checkpoint_in;
  std::string onnx;        // file
  bool train = false;      // of an ONNX model: adds loss, gradients and an optimizer
  std::string loss;        // onnx.h's OnnxTraining::loss; empty: the first fetch
  std::string optimizer;   // of --train
  double learning_rate = 0;
  double weight_decay = -1;
  std::string feeds;
  bool synthetic_feeds = false;
  std::string feed_shapes;  // "images:8x224x224x3,labels:8"
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::vector<std::string> init_targets;
  int64_t steps = 1;
  uint64_t seed = 0;
  std::string plan_in;
};

struct EngineOptions {
  std::string device = "cpu";
  std::string devices;        // "cpu:0,cpu:1", or how many of --device; empty: one
  std::string machine;        // file, or the name of one in a folder of these; empty: Machine's defaults
  std::vector<std::string> machine_folders;
  std::string device_memory;  // "12GiB", or "50%" of baseline's predicted peak; a size per device: "12GiB,8GiB"
  std::string host_memory;
  double link_gbps = 0;
  std::string disk;           // folder; empty: no disk tier, which host memory that is enough does better without
  double disk_gbps = 0;
  int32_t threads = 0;
  std::string replan = "auto";  // auto, wait, off
  std::string profile_in;
  std::string cuda_graph = "auto";
  bool tf32 = false;
  bool measure_convolutions = false;
  double device_timeout = SessionOptions().device_timeout_seconds;
};

struct StrategyOptions {
  std::string strategy;
  std::vector<std::string> strategies;  // compare, sweep
  int64_t partition_size = 0;
  int64_t swap_distance = 2;
  std::string min_swap_bytes = "0";
  std::string recompute = "auto";  // off, on, auto
  double plan_seconds = 0;
  bool share_recv = false;
  std::string fuse = "auto";  // off, on, auto: on CUDA devices
  std::string channels_first = "auto";  // off, on, auto: on CUDA devices without TF32
  std::string pack_rows = "auto";  // off, on, auto: on CUDA devices
  bool accumulate_products = true;
  std::string update_parts = "auto";  // auto, off, or a size; off with a disk
  int64_t max_unrolled_nodes = 1'000'000;
  std::vector<std::string> parts = {"placement", "swap"};  // of tensorflowmem, beside its partitions
  bool early_start = true;
  double occupancy_threshold = 0.7;
  TflmsOptions tflms;  // but for the two below
  std::string serialization_by_size = "0";
  struct {  // names, or "type:OP"
    std::vector<std::string> exclude_outputs, exclude_inputs, include_outputs, include_inputs;
  } filters;
};

struct OutputOptions {
  std::string report_out;
  std::string trace_out;
  std::string plot_out;
  std::string html_out;
  std::string variables_out;
  std::string fetches_out;
  std::string checkpoint_out;
  std::string profile_out;
};

struct SweepOptions {
  std::vector<std::string> partition_sizes;
  std::vector<std::string> budgets;  // as device_memory
  std::string csv_out;
};

struct Options {
  InputOptions input;
  EngineOptions engine;
  StrategyOptions strategy;
  OutputOptions output;
  SweepOptions sweep;
  std::vector<std::string> flag_files;  // that flags were read from
  std::string argument;  // the word after the command: a model, tensor or node
  std::string vary;      // fit
  ModelOptions model;
  std::string out;       // export, machine, model
  std::string plan_out;  // plan, run
  bool ops = false;      // inspect
  bool measure = false;  // machine
};

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_OPTIONS_H_
