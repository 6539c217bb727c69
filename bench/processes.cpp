// All-reduces between processes: this library's, whose sums have the order of the devices, against
// MPI_Allreduce called directly, in turn in the same processes. With --overlap, collectives beside
// products, against the same one after the other.
//   mpirun -n 2 build/bench/processes --devices-per-process 4 [--bytes 16777216] [--overlap]
#include "gspmd/runtime/processes.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {
namespace {

constexpr int kRounds = 5;
constexpr int kTurns = 15;  // of all-reduces: ours, then MPI's

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// `count` all-reduces of an f32[elements] on each device, each of the result of the one before.
std::string program_text(int64_t devices, int64_t elements, int64_t count) {
  const std::string value = fmt::format("f32[{}]", elements);
  std::string text = fmt::format(R"(HloModule sums, num_partitions={}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{ x0 = {} parameter(0)
)",
                                 devices, value);
  for (int64_t i = 1; i <= count; ++i)
    text += fmt::format(
        "  {}x{} = {} all-reduce(x{}), channel_id=1, use_global_device_ids=true, "
        "replica_groups={{}}, to_apply=sum\n",
        i == count ? "ROOT " : "", i, value, i - 1);
  return text + "}\n";
}

// Each time round a collective of every kind on f32[elements], and products beside them.
std::string overlap_text(int64_t devices, int64_t elements, int64_t products, int64_t count) {
  constexpr int64_t kSize = 384;
  const std::string w = fmt::format("f32[{}]", elements), x = fmt::format("f32[{0},{0}]", kSize);
  const std::string state = fmt::format("(s32[], {}, {})", w, x);
  std::string text = fmt::format(R"(HloModule overlap, num_partitions={0}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
body {{ s = {2} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = {1} get-tuple-element(s), index=1
  x0 = {3} get-tuple-element(s), index=2
  a = {1} all-reduce(w), channel_id=1, use_global_device_ids=true, replica_groups={{}}, to_apply=sum
  r = f32[{4}] reduce-scatter(w), channel_id=2, use_global_device_ids=true, replica_groups={{}}, dimensions={{0}}, to_apply=sum
  t = {1} all-to-all(w), channel_id=3, replica_groups={{}}, dimensions={{0}}
)",
                                 devices, w, state, x, elements / devices);
  for (int64_t i = 0; i < products; ++i)
    text += fmt::format(
        "  x{} = {} dot(x{}, x0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n", i + 1,
        x, i);
  text += fmt::format(
      R"(  g = {0} all-gather(r), channel_id=4, use_global_device_ids=true, replica_groups={{}}, dimensions={{0}}
  b = {0} add(a, t)
  c = {0} subtract(b, g)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT o = {1} tuple(j, c, x{2}) }}
condition {{ s = {1} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({3})
  ROOT p = pred[] compare(i, n), direction=LT }}
ENTRY e {{ w = {0} parameter(0)
  x = {4} parameter(1)
  zero = s32[] constant(0)
  t = {1} tuple(zero, w, x)
  ROOT l = {1} while(t), condition=condition, body=body }}
)",
      w, state, products, count, x);
  return text;
}

// Milliseconds of one time round.
double time_overlap(int64_t devices, int64_t elements, int64_t products, bool overlaps) {
  constexpr int64_t kCount = 4;
  const auto module = parse_module(overlap_text(devices, elements, products, kCount));
  ScheduleOptions schedule;
  if (overlaps) schedule.process_of = process_of_devices(devices);
  ProgramOptions options;
  options.num_devices = devices;
  Executor executor(build_program(prepare_local(*module, schedule), options),
                    make_worker_pool(default_threads()));
  std::vector<std::shared_ptr<DeviceBuffer>> arguments, results;
  for (const Node* parameter : module->entry()->parameters())
    arguments.push_back(std::make_shared<DeviceBuffer>(parameter->shape, devices));
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    const double took = seconds_of([&] { executor.run(arguments, results); });
    if (round > 0) seconds.push_back(took);
  }
  return median(seconds) / kCount * 1e3;
}

void measure_overlap(int64_t devices, int64_t bytes, Report& report) {
  constexpr int64_t kProducts = 24;
  const int64_t elements = bytes / 4;
  const double apart = time_overlap(devices, elements, 1, false);
  const double in_turn = time_overlap(devices, elements, kProducts, false);
  const double beside = time_overlap(devices, elements, kProducts, true);
  report.add(fmt::format("{} bytes a device, overlap", bytes), {{"collectives_ms", apart},
                                                                {"then_products_ms", in_turn},
                                                                {"beside_products_ms", beside},
                                                                {"ratio", beside / in_turn}});
}

void measure(int64_t devices, int64_t bytes, Report& report) {
  const int64_t elements = bytes / 4, count = std::clamp<int64_t>((64 << 20) / bytes, 5, 200);
  const auto module = parse_module(program_text(devices, elements, count));
  ProgramOptions options;
  options.num_devices = devices;
  Executor executor(build_program(*module, options), make_worker_pool(default_threads()));
  const std::vector<std::shared_ptr<DeviceBuffer>> arguments = {
      std::make_shared<DeviceBuffer>(Shape(DType::f32, {elements}), devices)};
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  std::vector<float> from(static_cast<size_t>(elements)), to(from.size());
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round <= kTurns; ++round) {
    const double own = seconds_of([&] { executor.run(arguments, results); });
    const double direct = seconds_of([&] {
      for (int64_t i = 0; i < count && process_count() > 1; ++i)
        MPI_Allreduce(from.data(), to.data(), static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    });
    if (round == 0) continue;  // pages are touched first
    ours.push_back(own / double(count) * 1e6);
    theirs.push_back(direct / double(count) * 1e6);
    ratios.push_back(own / direct);
  }
  report.add(fmt::format("{} bytes a device", bytes),
             {{"us", median(ours)}, {"mpi_us", median(theirs)}, {"ratio", median(ratios)}});
}

}  // namespace
}  // namespace gspmd

int main(int argc, char** argv) {
  int64_t per_process = 1;
  gspmd::CommandLine line(
      "All-reduces between processes, against MPI_Allreduce. Start it with mpirun.");
  line.number("--devices-per-process", per_process);
  bool overlap = false;
  line.flag("--overlap", overlap, "collectives beside products, and one after the other");
  std::vector<int64_t> sizes = {1 << 10, 64 << 10, 1 << 20, 16 << 20};
  line.number("--bytes", sizes, "of each device, of all-reduces");
  gspmd::Report report(line, "processes");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    gspmd::print_from_first_process();
    const int64_t devices = per_process * gspmd::process_count();
    fmt::print("{} processes, {} devices; medians of {}\n", gspmd::process_count(), devices,
               overlap ? gspmd::kRounds : gspmd::kTurns);
    for (const int64_t bytes : sizes)
      if (!overlap) gspmd::measure(devices, bytes, report);
    for (const int64_t bytes : {64 << 10, 256 << 10, 1 << 20})
      if (overlap) gspmd::measure_overlap(devices, bytes, report);
    report.write();
    return 0;
  } catch (const std::exception& error) {
    return gspmd::end_job(error.what(), 1);
  }
}
