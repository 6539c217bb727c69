// MPI's collectives between 8 processes, of f32 in contiguous pieces, under the names that
// bench/collectives gives its own; which starts this with --mpi. Times are lower quartiles of
// rounds that all processes begin and end together.
//   mpirun --oversubscribe -n 8 build/bench/mpi_collectives [--rounds 20] [--bytes N]
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "bench/collective_cases.h"
#include "bench/command_line.h"
#include "bench/measure.h"

namespace {

using namespace gspmd;

// One of `op`, of `count` floats on the larger side.
void run_collective(const std::string& op, const std::vector<float>& from, std::vector<float>& to,
                    int rank, int ranks) {
  const auto count = static_cast<int>(from.size()), piece = count / ranks;
  if (op == "all-reduce")
    MPI_Allreduce(from.data(), to.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (op == "all-gather")
    MPI_Allgather(from.data(), piece, MPI_FLOAT, to.data(), piece, MPI_FLOAT, MPI_COMM_WORLD);
  else if (op == "reduce-scatter")
    MPI_Reduce_scatter_block(from.data(), to.data(), piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (op == "all-to-all")
    MPI_Alltoall(from.data(), piece, MPI_FLOAT, to.data(), piece, MPI_FLOAT, MPI_COMM_WORLD);
  else
    MPI_Sendrecv(from.data(), count, MPI_FLOAT, (rank + 1) % ranks, 0, to.data(), count, MPI_FLOAT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Seconds of one.
double seconds_of(const std::string& op, int64_t bytes, int rounds, int rank, int ranks) {
  const std::vector<float> from(static_cast<size_t>(bytes) / 4, 1.0F);
  std::vector<float> to(from.size());
  const int64_t times = collective_times(bytes);
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < times; ++i) run_collective(op, from, to, rank, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round >= 0) seconds.push_back(took.count() / static_cast<double>(times));
  }
  return lower_quartile(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 20;
  std::vector<int64_t> sizes = {1 << 16, 1 << 20, 1 << 24, 1 << 26};
  CommandLine line("MPI's collectives. Start it with mpirun -n 8.");
  line.number("--rounds", rounds);
  line.number("--bytes", sizes, "of the larger of operand and result, of one process", 1 << 12,
              1 << 30);
  if (const auto status = line.parse(argc, argv)) return *status;
  MPI_Init(nullptr, nullptr);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool is_right = ranks == kCollectiveDevices;
  if (!is_right && rank == 0)
    fmt::print(stderr, "mpi_collectives: {} processes; start it with mpirun -n {}\n", ranks,
               kCollectiveDevices);
  if (!is_right) sizes.clear();
  for (const char* op : kCollectiveOps)
    for (const int64_t bytes : sizes) {
      const double seconds = seconds_of(op, bytes, rounds, rank, ranks);
      if (rank == 0)
        fmt::print("{{\"of\":\"{}\",\"mpi_us\":{:.6g}}}\n", collective_title(op, bytes, 0),
                   seconds * 1e6);
    }
  MPI_Finalize();
  return is_right ? 0 : 2;
}
