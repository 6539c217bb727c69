// The command in several processes that mpirun starts.
#include <algorithm>
#include <filesystem>

#include "mpi/run_job.h"

namespace gspmd {
namespace {

const std::string kGspmd = GSPMD_BINARY_DIR "/gspmd ";

// Partial sums, gathers and a loop on a 2x4 mesh, rounded.
const std::string kProgram = R"(HloModule network, num_partitions=8
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
body { s = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,16] get-tuple-element(s), index=1
  w = f32[16,16] get-tuple-element(s), index=2
  y = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,16] tanh(y)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8,16], f32[16,16]) tuple(j, z, w) }
condition { s = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  w = f32[16,16] parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  zero = s32[] constant(0)
  t = (s32[], f32[8,16], f32[16,16]) tuple(zero, x, w)
  l = (s32[], f32[8,16], f32[16,16]) while(t), condition=condition, body=body
  y = f32[8,16] get-tuple-element(l), index=1
  none = f32[] constant(0)
  s = f32[] reduce(y, none), dimensions={0,1}, to_apply=sum
  ROOT r = (f32[8,16], f32[]) tuple(y, s)
}
)";

// Devices hand a value round, for ever.
const std::string kRing = R"(HloModule ring, num_partitions=4
body { s = (s32[], s32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[8] get-tuple-element(s), index=1
  y = s32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[8]) tuple(j, y) }
condition { s = (s32[], s32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2000000000)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = s32[8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[8]) tuple(zero, x)
  w = (s32[], s32[8]) while(t), condition=condition, body=body
  ROOT y = s32[8] get-tuple-element(w), index=1
}
)";

// How often a text has another.
ptrdiff_t count(const std::string& text, const std::string& part) {
  ptrdiff_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string file(const std::string& name, const std::string& text) {
  const std::string path = scratch(name);
  write_file(path, text);
  return path;
}

}  // namespace

TEST_CASE("mpi: a run in several processes writes the file of one process, and prints once") {
  const std::string program = file("program.txt", kProgram);
  const std::string outputs = scratch("outputs.npz");
  const std::string line =
      kGspmd + "run --values uniform --seed 3 --outputs " + outputs + " " + program;
  const JobResult alone = run_job(1, line);
  REQUIRE(alone.code == 0);
  const std::string bytes = read_file(outputs);
  for (const int processes : {2, 3, 8}) {
    CAPTURE(processes);
    scratch("outputs.npz");
    const JobResult job = run_job(processes, line);
    CHECK(job.err == "");
    CHECK(job.code == 0);
    CHECK(job.out == alone.out);
    CHECK(read_file(outputs) == bytes);
  }
  const JobResult piped =
      run_job(2, kGspmd + "run --values uniform --seed 3 -", "cat " + program + " |");
  CHECK(piped.out == alone.out);
  scratch("outputs.npz"), scratch("program.txt");
}

TEST_CASE("mpi: verify compares in several processes, and finds what is wrong on all") {
  const std::string program = file("program.txt", kProgram);
  const JobResult job = run_job(4, kGspmd + "verify " + program);
  CHECK(job.code == 0);
  CHECK(count(job.out, "equal on 8 devices") == 1);
  const JobResult strict =
      run_job(2, kGspmd + "verify --rtol 0 --atol 0 --reference oracle " + program);
  CHECK(strict.code == 1);
  CHECK(count(strict.out, "DIFFERENT on 8 devices") == 1);
  scratch("program.txt");
}

TEST_CASE("mpi: each device's copy is shown wherever it ran") {
  const std::string program = file("copies.txt", R"(HloModule copies, num_partitions=4
ENTRY e { p = u32[] partition-id() q = u32[] collective-permute(p), channel_id=1, source_target_pairs={{0,3},{3,0},{1,1}}
  ROOT t = (u32[], u32[]) tuple(p, q) }
)");
  const JobResult job = run_job(3, kGspmd + "run " + program);
  CHECK(job.out == run_job(1, kGspmd + "run " + program).out);
  CHECK(count(job.out, "device 3: 1: u32[] 0") == 1);
  scratch("copies.txt");
}

TEST_CASE("mpi: one process that mpirun starts is as one that starts by itself") {
  const std::string program = file("program.txt", kProgram);
  const std::string line = kGspmd + "run --values uniform --seed 3 " + program;
  const JobResult job = run_started(GSPMD_MPIEXEC " -n 1", line);
  CHECK(job.err == "");
  CHECK(job.out == run_job(1, line).out);
  scratch("program.txt");
}

TEST_CASE("mpi: another MPI's mpirun starts processes that are alone, and say so") {
  const std::string own = GSPMD_MPIEXEC, program = file("program.txt", kProgram);
  const auto launcher = std::filesystem::canonical(own.substr(0, own.find(' ')));
  int others = 0;
  for (const std::string name : {"/usr/bin/mpirun.openmpi", "/usr/bin/mpirun.mpich"}) {
    if (!std::filesystem::exists(name) || std::filesystem::canonical(name) == launcher) continue;
    ++others;
    const JobResult job = run_started(name + " -n 2", kGspmd + "run " + program);
    CHECK(job.code != 0);
    CHECK(job.code != 124);
    CHECK(job.out == "");
    CHECK_THAT(job.err, Catch::Contains("2 processes were started, but each is alone"));
  }
  if (others == 0) WARN("there is no other MPI here");
  scratch("program.txt");
}

TEST_CASE("mpi: what all do wrong is said once") {
  const JobResult job = run_job(3, kGspmd + "run nowhere.txt");
  CHECK(job.code == 2);
  CHECK(count(job.err, "nowhere.txt: cannot be opened") == 1);
  const std::string pair = file("pair.txt",
                                "HloModule pair, num_partitions=2\n"
                                "ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] "
                                "negate(x) }\n");
  const JobResult few = run_job(3, kGspmd + "run " + pair);
  CHECK(few.code != 0);
  CHECK(count(few.err, "a mesh of 2 devices on 3 processes") == 1);
  scratch("pair.txt");
}

TEST_CASE("mpi: a process with another program is named, with the instruction") {
  const std::string program = file("program.txt", kProgram);
  const JobResult job = run_job(
      3, "if [ $P = 2 ]; then more='--disable fuse'; fi\n" + kGspmd + "run $more " + program);
  CHECK(job.code == 1);
  CHECK(count(job.err, "processes 0 and 2 have different programs: line ") == 1);
  scratch("program.txt");
}

TEST_CASE("mpi: a process that is killed ends the job, one that fails says why") {
  const std::string ring = file("ring.txt", kRing);
  const std::string run = "exec " + kGspmd + "run --time-limit 1e30 " + ring;
  const JobResult killed = run_job(3, "[ $P = 1 ] && (sleep 1; kill -KILL $$) &\n" + run);
  CHECK(killed.code != 0);
  CHECK(killed.code != 124);
  CHECK_THAT(killed.out + killed.err, Catch::Contains("signal 9") || Catch::Contains("has ended"));
  const JobResult failed =
      run_job(3, "if [ $P = 1 ]; then more='--memory-limit 1'; fi\n" + run + " $more");
  CHECK(failed.code == 2);
  CHECK(count(failed.err, "process 1 of 3: gspmd: ") == 1);
  scratch("ring.txt");
}

TEST_CASE("mpi: a process that hangs is found by a time limit, and named") {
  const std::string ring = file("ring.txt", kRing);
  const JobResult job = run_job(
      3,
      "[ $P = 1 ] && (sleep 1; kill -STOP $$) &\nexec " + kGspmd + "run --time-limit 1e30 " + ring,
      "GSPMD_MPI_TIME_LIMIT=6");
  CHECK(job.code == 1);
  CAPTURE(job.err);
  CHECK(count(job.err, "within 6 s; process 1 does not answer") == 1);
  scratch("ring.txt");
}

}  // namespace gspmd
