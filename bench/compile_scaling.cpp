// Compile time and size of one program against the number of devices: a decoder-only Transformer's
// training step, recipe 2d, compiled from shapes alone for meshes of 8 to 65,536 devices. Rounds go
// over all meshes in turn, so that a slow moment of the machine meets all of them. One JSON object
// per mesh, then one with the ratio of the slowest to the fastest median. Exit code 1 when programs
// differ in their number of instructions by opcode.
//   compile_scaling [--rounds 5] [--layers 24] [--batch 1024] [--seq 1024] [--d 8192] [--ff 32768]
//                   [--heads 1024] [--vocab 32768] [--recipe 2d] [--mesh 2x4 --mesh 16x32 ...]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/ir/module.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t rounds = 5;
  models::TransformerRun trainer;
  std::string recipe = "2d";
  std::vector<std::string> meshes{"2x4", "16x32", "32x128", "128x512"};
};

using OpcodeCounts = std::map<std::string, int64_t>;

struct Measured {
  OpcodeCounts counts;
  std::vector<double> wall, cpu;  // seconds of tracing, completion, ... and planning
  std::map<std::string, std::vector<double>> passes;  // seconds; "trace and plan": the rest
};

OpcodeCounts opcode_counts(const Module& module) {
  OpcodeCounts counts;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      ++counts[std::string(opcode_name(node->opcode()))];
  return counts;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Mesh mesh_of(const std::string& text) {
  const size_t cross = text.find('x');
  if (cross == std::string::npos) user_error("--mesh {}: give two sizes, as 16x32", text);
  return Mesh{{"x", std::stoll(text.substr(0, cross))}, {"y", std::stoll(text.substr(cross + 1))}};
}

void compile_once(const BenchOptions& options, const std::string& mesh, Measured& measured) {
  models::TransformerRun trainer = options.trainer;
  trainer.mesh = mesh_of(mesh);
  trainer.layout = models::layout_of_recipe(options.recipe, trainer.mesh);
  trainer.prepare = false;
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  const auto compiled = models::make_trainer(trainer);
  measured.cpu.push_back(cpu_seconds() - cpu_start);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  measured.wall.push_back(wall.count());
  double rest = wall.count();
  for (const PassTime& time : compiled->executable().stats().compile_seconds) {
    measured.passes[time.pass].push_back(time.seconds);
    rest -= time.seconds;
  }
  measured.passes["trace and plan"].push_back(rest);
  measured.counts = opcode_counts(*compiled->executable().module().local);
}

void report_mesh(const Measured& measured, const std::string& mesh, Report& report) {
  std::vector<Figure> passes, counts;
  for (const auto& [pass, seconds] : measured.passes)
    passes.push_back({pass + "_s", median(seconds)});
  int64_t instructions = 0;
  for (const auto& [opcode, count] : measured.counts) {
    counts.push_back({opcode, double(count), Better::same});
    instructions += count;
  }
  report.add(mesh, {{"instructions", double(instructions), Better::same},
                    {"wall_s", median(measured.wall)},
                    {"processor_s", median(measured.cpu)}});
  report.add(mesh + ", by pass", passes);
  report.add(mesh + ", by opcode", counts);
}

int measure(const BenchOptions& options, Report& report) {
  std::vector<Measured> measured(options.meshes.size());
  for (int64_t round = 0; round < options.rounds; ++round)
    for (size_t i = 0; i < measured.size(); ++i)
      compile_once(options, options.meshes[i], measured[i]);
  std::vector<double> wall, cpu;
  bool same = true;
  for (size_t i = 0; i < measured.size(); ++i) {
    report_mesh(measured[i], options.meshes[i], report);
    wall.push_back(median(measured[i].wall));
    cpu.push_back(median(measured[i].cpu));
    same = same && measured[i].counts == measured[0].counts;
  }
  const auto [fastest, slowest] = std::minmax_element(wall.begin(), wall.end());
  const auto [least, most] = std::minmax_element(cpu.begin(), cpu.end());
  report.add("all meshes", {{"same_opcodes", double(same), Better::same},
                            {"slowest_to_fastest", *slowest / *fastest},
                            {"processor_slowest_to_fastest", *most / *least}});
  report.write();
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  models::TransformerConfig& config = options.trainer.config;
  config.layers = 24;
  config.model = 8192;
  config.hidden = 32768;
  config.heads = 1024;
  config.seq = 1024;
  config.vocab = 32768;
  options.trainer.batch = 1024;
  CommandLine line("Compile time and size of a program against the number of devices.");
  line.number("--rounds", options.rounds);
  line.option("--layers", config.layers);
  line.option("--d", config.model);
  line.option("--ff", config.hidden);
  line.option("--heads", config.heads);
  line.option("--seq", config.seq);
  line.option("--vocab", config.vocab);
  line.option("--batch", options.trainer.batch);
  line.option("--recipe", options.recipe);
  line.option("--mesh", options.meshes);
  Report report(line, "compile_scaling");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return measure(options, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
