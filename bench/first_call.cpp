// What comes before a program runs at its speed: building the trainer of bench/transformer_step and
// its first steps, and calls of programs that take microseconds. Wall and processor time, since
// others on the machine disturb the first. Memory that a virtual machine gave back costs its host
// a second per GB to give again: it is taken before the trainer, and timed by itself.
//   first_call [--threads 2] [--rounds 7] [--calls 20000] [--no-trainer] [--json FILE]
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/gspmd.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;
using Clock = std::chrono::steady_clock;

struct BenchOptions {
  int threads = 2;
  int rounds = 7, calls = 20000;
  bool trainer = true;
};

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Reports what `f` takes once.
template <class F>
void measure_once(const std::string& what, Report& report, F&& f) {
  const double processor = processor_seconds();
  const auto start = Clock::now();
  f();
  report.add(what, {{"wall_ms", seconds_since(start) * 1e3},
                    {"processor_ms", (processor_seconds() - processor) * 1e3}});
}

// Takes a GB in huge pages, writes to each of their small ones, and gives all back.
void touch_memory() {
  constexpr size_t kBytes = size_t{1} << 30, kHuge = size_t{1} << 21;
  void* const pages =
      mmap(nullptr, kBytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::runtime_error("first_call: there is no GB of memory");
  auto* const memory = static_cast<volatile char*>(pages);
  madvise(pages, kBytes + kHuge, MADV_HUGEPAGE);
  for (size_t at = 0; at < kBytes + kHuge; at += 4096) memory[at] = 1;
  munmap(pages, kBytes + kHuge);
}

void measure_trainer(const Mesh& mesh, const BenchOptions& options, Report& report) {
  models::TransformerRun run;
  run.config.layers = 4;
  run.config.model = 512;
  run.config.hidden = 2048;
  run.config.heads = 8;
  run.config.seq = 256;
  run.config.vocab = 8192;
  run.config.norm = models::Norm::layer;
  run.config.bias = true;
  run.config.head = models::Head::untied;
  run.mesh = mesh;
  run.layout = models::layout_of_recipe("2d", mesh);
  run.batch = 8;
  run.threads = options.threads;
  const std::string on = mesh.num_devices() == 1 ? "one device" : "(2,4) mesh";
  std::unique_ptr<models::Trainer> trainer;
  measure_once("initial parameters, " + on, report, [&] {
    models::TransformerModel(run.config, mesh, run.layout).initial_parameters(0);
  });
  measure_once("building the trainer, " + on, report, [&] { trainer = models::make_trainer(run); });
  report.add("of it compiling, " + on,
             {{"wall_ms", trainer->executable().stats().total_compile_seconds * 1e3}});
  const models::Leaves<Array> batch = models::random_batch(run.config, run.batch, 1);
  for (const char* which : {"first", "second", "third"})
    measure_once(fmt::format("{} step, {}", which, on), report,
                 [&] { trainer->step(batch, 1e-3); });
}

// The least that a call does: what it takes behind a pause is the machine's.
void allocate() {
  void* const room = std::malloc(64);
  asm volatile("" : : "r"(room) : "memory");
  std::free(room);
}

// Microseconds of one call: the median of rounds of calls one behind the other.
template <class F>
void measure_calls(const std::string& what, const BenchOptions& options, Report& report, F&& call) {
  for (int i = 0; i < 100; ++i) call();
  std::vector<double> wall, processor, paused, allocation;
  const auto behind_pause = [](std::vector<double>& times, auto&& f) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto awake = Clock::now();
    f();
    times.push_back(seconds_since(awake) * 1e6);
  };
  for (int round = 0; round < options.rounds; ++round) {
    const double before = processor_seconds();
    const auto start = Clock::now();
    for (int i = 0; i < options.calls; ++i) call();
    wall.push_back(seconds_since(start) / options.calls * 1e6);
    processor.push_back((processor_seconds() - before) / options.calls * 1e6);
    for (int i = 0; i < 20; ++i) {
      behind_pause(paused, call);
      behind_pause(allocation, allocate);
    }
  }
  report.add(what, {{"wall_us", median(wall)},
                    {"processor_us", median(processor)},
                    {"after_2_ms_pause_us", median(paused)},
                    {"allocation_after_2_ms_pause_us", median(allocation)}});
}

void measure_small_calls(const BenchOptions& options, Report& report) {
  const auto sum = [](Tensor x, Tensor y) { return x * 2 + y; };
  const Array x = Array::of<float>({4}, {1, 2, 3, 4}), y = Array::of<float>({4}, {5, 6, 7, 8});
  for (const bool sharded : {false, true}) {
    const Mesh mesh = sharded ? Mesh{{"x", 4}} : Mesh();
    const std::string on = sharded ? "4 devices" : "one device";
    const auto split = [&](Tensor a, Tensor b) {
      return sharded ? sum(mesh_split(a, mesh, {"x"}), b) : sum(a, b);
    };
    const auto program =
        compile(split, {.mesh = mesh, .threads = options.threads}, x.shape(), y.shape());
    const Array on_devices = program(x, y);
    measure_calls("2x + y of 4 floats on the devices, " + on, options, report,
                  [&] { program(on_devices, on_devices); });
    measure_calls("2x + y of 4 floats of the host, " + on, options, report, [&] { program(x, y); });
    measure_calls("the same and read, " + on, options, report,
                  [&] { program(x, y).data<float>(); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("First calls and small calls.");
  line.option("--threads", options.threads);
  line.number("--rounds", options.rounds);
  line.number("--calls", options.calls);
  line.flag("!--no-trainer", options.trainer, "small calls only");
  Report report(line, "first_call");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    measure_small_calls(options, report);
    if (options.trainer) {
      measure_once("a GB of memory for the first time", report, touch_memory);
      measure_once("a GB of memory again", report, touch_memory);
    }
    if (options.trainer)
      for (const Mesh& mesh : {Mesh(), Mesh{{"data", 2}, {"model", 4}}})
        measure_trainer(mesh, options, report);
    report.write();
  } catch (const std::exception& error) {
    return end_job(error.what(), 2);
  }
}
