// Collectives between 8 devices beside a memcpy of the bytes that they must move, in turn: the
// larger of what is read and what is written, from the same buffers to others of each device. What
// an all-reduce or all-gather gives all devices is kept once, as in any program. Sizes are those of
// the larger of operand and result of one device; the dim is the first (contiguous pieces) or the
// last (rows). Times are lower quartiles of rounds, without those in which a worker had no core of
// its own.
//   collectives [--threads 2] [--rounds 40] [--only NAME] [--bytes N] [--type f32]
//     [--mpi] [--json FILE]
// With --mpi, beside those of contiguous pieces what MPI takes between 8 processes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective_cases.h"
#include "bench/measure.h"
#include "bench/report.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/runtime/executor.h"

namespace {

using namespace gspmd;

constexpr int64_t kDevices = kCollectiveDevices;

struct BenchOptions {
  int threads = 2, rounds = 40;
  std::string only, type = "f32";
  std::vector<int64_t> bytes = {1 << 16, 1 << 20, 1 << 24, 1 << 26};
  bool mpi = false;
};

// What bench/mpi_collectives beside this program prints of these sizes: microseconds by title.
std::map<std::string, double> measure_mpi(const BenchOptions& options) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string command = fmt::format("mpirun --oversubscribe --allow-run-as-root -n {} '{}'",
                                    kDevices, (here / "mpi_collectives").string());
  for (const int64_t bytes : options.bytes) command += fmt::format(" --bytes {}", bytes);
  std::map<std::string, double> found;
  const auto close = [](std::FILE* file) { return pclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> output(popen(command.c_str(), "r"), close);
  char line[256], title[128];
  double us = 0;
  while (output && std::fgets(line, sizeof line, output.get()) != nullptr)
    if (std::sscanf(line, R"({"of":"%127[^"]","mpi_us":%lf)", title, &us) == 2) found[title] = us;
  if (found.empty())
    user_error("--mpi: \"{}\" measured nothing; install MPI and build the benchmarks again",
               command);
  return found;
}

constexpr int kWarmups = 8;

struct Case {
  std::string name, text;
  int64_t bytes = 0;  // that one device must read or write
};

// The module of one collective whose larger side is [rows,columns] of the type on each device.
Case case_of(const std::string& op, int64_t dim, int64_t bytes, const Shape& large_shape) {
  const int64_t rows = large_shape.dims[0], columns = large_shape.dims[1];
  const std::string_view type = dtype_name(large_shape.dtype);
  const int64_t small_rows = dim == 0 ? rows / kDevices : rows;
  const int64_t small_columns = dim == 0 ? columns : columns / kDevices;
  const std::string large = fmt::format("{}[{},{}]", type, rows, columns);
  const std::string small = fmt::format("{}[{},{}]", type, small_rows, small_columns);
  const bool gathers = op == "all-gather", scatters = op == "reduce-scatter";
  const bool permutes = op == "collective-permute", sums = scatters || op == "all-reduce";
  std::string attributes = ", replica_groups={}, channel_id=1";
  if (permutes)
    attributes =
        ", source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}, channel_id=1";
  if (op == "all-to-all") attributes = ", replica_groups={{0,1,2,3,4,5,6,7}}, channel_id=1";
  if (!permutes && op != "all-reduce") attributes += fmt::format(", dimensions={{{}}}", dim);
  if (sums) attributes += ", to_apply=sum";
  if (sums || gathers) attributes += ", use_global_device_ids=true";
  return {op,
          fmt::format(
              "HloModule m, num_partitions={0}\n"
              "sum {{ a = {1}[] parameter(0) b = {1}[] parameter(1) ROOT r = {1}[] add(a, b) }}\n"
              "ENTRY e {{ x = {2} parameter(0) ROOT r = {3} {4}(x){5} }}\n",
              kDevices, type, gathers ? small : large, scatters ? small : large, op, attributes),
          bytes};
}

struct Seconds {
  double wall = 0, processor = 0;
  // Whether every worker, which never sleeps, had a core all the time.
  bool is_quiet(int workers) const { return processor > 0.9 * workers * wall; }
};

// Of one thing in all rounds; of those that were not quiet only where there are no others.
class Times {
 public:
  int64_t count() const { return std::ssize(quiet_); }
  void add(const Seconds& all, bool is_quiet, int64_t times) {
    const auto n = static_cast<double>(times);
    (is_quiet ? quiet_ : disturbed_).push_back({all.wall / n, all.processor / n});
  }
  double wall() const { return quartile(&Seconds::wall); }
  double processor() const { return quartile(&Seconds::processor); }

 private:
  double quartile(double Seconds::*which) const {
    std::vector<double> values;
    for (const Seconds& one : quiet_.empty() ? disturbed_ : quiet_) values.push_back(one.*which);
    return lower_quartile(values);
  }
  std::vector<Seconds> quiet_, disturbed_;
};

template <class F>
Seconds timed(F&& f) {
  const auto processor = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double before = processor();
  const auto start = std::chrono::steady_clock::now();
  f();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          processor() - before};
}

void measure(const Case& c, const Shape& large, int64_t dim, const BenchOptions& options,
             const std::map<std::string, double>& mpi, Report& report) {
  const auto pool = make_worker_pool(options.threads);
  ProgramOptions program;
  program.num_devices = kDevices;
  Executor executor(build_program(*parse_module(c.text), program), pool);
  const bool gathers = c.name == "all-gather";
  Shape small = large;
  small.dims[static_cast<size_t>(dim)] /= kDevices;
  const std::vector arguments = {std::make_shared<DeviceBuffer>(gathers ? small : large, kDevices)};
  for (int64_t d = 0; d < kDevices; ++d)
    std::memset(arguments[0]->shard(d), 1, static_cast<size_t>(arguments[0]->shape().bytes()));
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  const auto collective = [&] { executor.run(arguments, results); };
  collective();
  const DeviceBuffer& from = *arguments[0];
  const auto to = std::make_shared<DeviceBuffer>(large, kDevices);
  // Every worker copies its devices' bytes; of an all-gather all read the same.
  const auto copy = [&] {
    pool->run([&](int worker) {
      for (int64_t d = 0; d < kDevices; ++d) {
        if (d * pool->size() / kDevices != worker) continue;
        const auto piece = static_cast<size_t>(c.bytes / kDevices);
        for (int64_t m = 0; m < kDevices; ++m)
          std::memcpy(to->shard(d) + static_cast<size_t>(m) * piece,
                      gathers ? from.shard(m) : from.shard(d) + static_cast<size_t>(m) * piece,
                      piece);
      }
    });
  };
  const int64_t times = collective_times(c.bytes);
  Times ours, copies;
  for (int round = -1; round < 4 * options.rounds && ours.count() < options.rounds; ++round) {
    // What the copies' workers wrote is in other caches than the collective's workers look in, and
    // the other way round: the first calls of either are not timed.
    const auto repeated = [&](auto&& f) {
      for (int i = 0; i < kWarmups; ++i) f();
      return timed([&] {
        for (int64_t i = 0; i < times; ++i) f();
      });
    };
    const Seconds one = repeated(collective), other = repeated(copy);
    if (round < 0) continue;  // warms up
    const bool is_quiet = one.is_quiet(options.threads) && other.is_quiet(options.threads);
    ours.add(one, is_quiet, times);
    copies.add(other, is_quiet, times);
  }
  std::vector<Figure> figures = {{"us", ours.wall() * 1e6},
                                 {"memcpy_us", copies.wall() * 1e6},
                                 {"ratio", ours.wall() / copies.wall()},
                                 {"processor_ratio", ours.processor() / copies.processor()}};
  const std::string title = collective_title(c.name, c.bytes, dim);
  if (const auto beside = mpi.find(title); beside != mpi.end())
    figures.push_back({"mpi_us", beside->second});
  report.add(title, figures);
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("Collectives beside a memcpy of their bytes.");
  line.option("--threads", options.threads);
  line.number("--rounds", options.rounds);
  line.option("--only", options.only, "one op");
  line.number("--bytes", options.bytes, "of the larger of operand and result, of one device",
              1 << 12, 1 << 30);
  line.option("--type", options.type, "of the elements");
  line.flag("--mpi", options.mpi, "MPI's between 8 processes beside them");
  Report report(line, "collectives");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    const std::optional<DType> type = dtype_from_name(options.type);
    if (!type) user_error("--type {}: no type of elements", options.type);
    std::map<std::string, double> mpi;
    if (options.mpi) mpi = measure_mpi(options);
    for (const char* op : kCollectiveOps) {
      if (!options.only.empty() && options.only != op) continue;
      const bool has_dim =
          std::string(op) != "all-reduce" && std::string(op) != "collective-permute";
      for (const int64_t bytes : options.bytes)
        for (int64_t dim = 0; dim < (has_dim ? 2 : 1); ++dim) {
          constexpr int64_t kColumns = 1024;
          const Shape large(*type, {bytes / dtype_size(*type) / kColumns, kColumns});
          measure(case_of(op, dim, bytes, large), large, dim, options, mpi, report);
        }
    }
    report.write();
  } catch (const std::exception& error) {
    return end_job(error.what(), 2);
  }
}
