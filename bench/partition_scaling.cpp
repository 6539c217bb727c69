// How long programs take to complete and to partition, and what memory they take, on meshes of 8 to
// 65,536 devices; the same program but for its mesh, so that both should be the same:
//   even     a training step of a Transformer whose sizes every mesh splits
//   uneven   moves of dims that no mesh splits evenly
//   subset   values on every other device, used with others that are on all
//   order    devices in an order that is none of digits, and backwards
//   chain    many small ops one after the other
// CPU seconds, the median over runs in turn; memory is what a compiled module holds.
//   partition_scaling [--layers 6] [--count 1000] [--runs 5] [--recipe 2d] [--only uneven ...]
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t layers = 6, runs = 5, count = 1000;
  std::string recipe = "2d";
  std::vector<std::string> only{"even", "uneven", "subset", "order", "chain"};
};

// Two axes, the minor one no smaller.
std::pair<int64_t, int64_t> axes_of(int64_t devices) {
  int64_t rows = 1;
  while (4 * rows * rows <= devices) rows *= 2;
  return {rows, devices / rows};
}

models::TransformerRun trainer_on(const Mesh& mesh, const BenchOptions& options) {
  models::TransformerRun trainer;
  trainer.config.layers = options.layers;
  trainer.config.model = 1 << 14;
  trainer.config.hidden = 1 << 16;
  trainer.config.heads = 256;
  trainer.config.seq = 2048;
  trainer.config.vocab = 1 << 16;
  trainer.mesh = mesh;
  trainer.layout = models::layout_of_recipe(options.recipe, mesh);
  trainer.batch = 1024;
  trainer.prepare = false;
  return trainer;
}

int64_t instructions(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations())
    count += static_cast<int64_t>(computation->nodes().size());
  return count;
}

// `count` ops in a row, of which every seventh is laid out anew, in turn.
std::unique_ptr<Module> moves(int64_t count, const std::vector<Sharding>& layouts,
                              const std::vector<std::string>& ops) {
  std::string text = "HloModule moves\nENTRY main {\n  p = f32[999,3001] parameter(0)\n";
  text += "  zero = f32[] constant(0)\n";
  std::string before = "p";
  for (int64_t i = 0; i < count; ++i) {
    const std::string& op = ops[static_cast<size_t>(i) % ops.size()];
    text += fmt::format("  t{} = {}\n", i, fmt::format(fmt::runtime(op), before));
    before = fmt::format("t{}", i);
  }
  text += fmt::format("  ROOT r = f32[999,3001] copy({})\n}}\n", before);
  std::unique_ptr<Module> module = parse_module(text);
  int64_t at = 0;
  for (const auto& node : module->entry()->nodes())
    if (node->name() != "zero" && at++ % 7 == 0)
      node->sharding = layouts[static_cast<size_t>(at / 7) % layouts.size()];
  return module;
}

Sharding over(DeviceOrder order, int64_t rows, int64_t columns, bool turned) {
  std::vector<Digits> dims{{{rows, columns}}, {{columns, 1}}};
  if (turned) std::swap(dims[0], dims[1]);
  return Sharding::tiled(order, std::move(dims));
}

std::unique_ptr<Module> program(const std::string& name, int64_t devices,
                                const BenchOptions& options) {
  const auto [rows, columns] = axes_of(devices);
  const DeviceOrder all = iota_order(devices);
  const Sharding plain = over(all, rows, columns, false), turned = over(all, rows, columns, true);
  const std::string shape = "f32[999,3001] ";
  const std::vector<std::string> pointwise = {shape + "tanh({0})", shape + "add({0}, {0})"};
  std::vector<std::string> moving = pointwise;
  moving.push_back(shape + "reverse({0}), dimensions={{1}}");
  moving.push_back("f32[1001,3001] pad({0}, zero), padding=1_1x0_0");
  moving.push_back(shape + "slice({0}), slice={{[2:1001],[0:3001]}}");
  if (name == "uneven") return moves(options.count, {plain, turned}, moving);
  if (name == "subset") {
    const DeviceOrder some = stepped_order(0, {{devices / 2, 2}});
    const Sharding part = over(some, rows, columns / 2, false);
    return moves(options.count, {plain, part, turned}, pointwise);
  }
  if (name == "order") {
    std::vector<int64_t> list = all->devices();
    for (size_t i = 0; i < list.size(); ++i) list[i] = (list[i] * 5 + 3) % devices;
    std::swap(list[0], list[1]);
    const Sharding odd = over(list_order(std::move(list)), rows, columns, false);
    const Sharding back = over(stepped_order(devices - 1, {{devices, -1}}), rows, columns, false);
    return moves(options.count, {odd, plain, back}, pointwise);
  }
  return moves(20 * options.count, {plain}, pointwise);
}

int64_t bytes_held() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Measured {
  std::vector<double> seconds;
  std::map<std::string, std::vector<double>> of_pass;
  int64_t before = 0, after = 0;  // instructions
  int64_t bytes = 0;              // held by what is compiled
};

void measure_once(const Module& module, int64_t devices, Measured& measured) {
  PipelineOptions pipeline;
  pipeline.num_devices = devices;
  const double start = cpu_seconds();
  const int64_t held = bytes_held();
  const CompiledModule compiled = run_pipeline(module, pipeline);
  measured.seconds.push_back(cpu_seconds() - start);
  measured.bytes = bytes_held() - held;
  for (const PassTime& time : compiled.seconds) measured.of_pass[time.pass].push_back(time.seconds);
  measured.before = instructions(*compiled.completed);
  measured.after = instructions(*compiled.local);
}

void measure(const std::string& name, const BenchOptions& options, Report& report) {
  const std::vector<int64_t> devices = {8, 1024, 65536};
  std::vector<std::unique_ptr<Module>> modules;
  for (const int64_t n : devices) {
    if (name != "even") {
      modules.push_back(program(name, n, options));
      continue;
    }
    const auto [rows, columns] = axes_of(n);
    const Mesh mesh{{"data", rows}, {"model", columns}};
    modules.push_back(
        models::make_trainer(trainer_on(mesh, options))->executable().traced().module().clone());
  }
  std::vector<Measured> all(devices.size());
  for (int64_t run = 0; run < options.runs; ++run)
    for (size_t i = 0; i < devices.size(); ++i) measure_once(*modules[i], devices[i], all[i]);
  for (size_t i = 0; i < devices.size(); ++i)
    report.add(fmt::format("{}, {} devices", name, devices[i]),
               {{"instructions", double(all[i].before), Better::same},
                {"instructions_per_device", double(all[i].after)},
                {"s", median(all[i].seconds)},
                {"mb", double(all[i].bytes) / 1e6}});
  for (size_t i = 0; i < devices.size(); ++i) {
    std::vector<Figure> passes;
    for (const auto& [pass, seconds] : all[i].of_pass)
      if (median(all.back().of_pass.at(pass)) >= 0.02 * median(all.back().seconds))
        passes.push_back({pass + "_s", median(seconds)});
    report.add(fmt::format("{}, {} devices, by pass", name, devices[i]), passes);
  }
  report.add(name + ", 65536 devices to 8",
             {{"time_ratio", median(all.back().seconds) / median(all.front().seconds)},
              {"memory_ratio", double(all.back().bytes) / double(all.front().bytes)}});
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("Time to partition programs, for 8 to 65,536 devices.");
  line.option("--layers", options.layers);
  line.number("--runs", options.runs);
  line.number("--count", options.count);
  line.option("--recipe", options.recipe);
  line.option("--only", options.only);
  Report report(line, "partition_scaling");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    for (const std::string& name : options.only) measure(name, options, report);
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
