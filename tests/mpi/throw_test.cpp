// A process that throws while a collective is under way.
#include <fmt/format.h>

#include <cstdlib>

#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"
#include "gspmd/runtime/processes.h"
#include "mpi/run_job.h"
#include "runtime/transport.h"

namespace gspmd {
namespace {

const char* const kThrowAt = "GSPMD_TEST_THROW_AT";  // which exchange of process 1

// MPI's, which throws in place of one exchange.
class ThrowingTransport final : public Transport {
 public:
  ThrowingTransport(Transport& mpi, int64_t throws_at) : mpi_(mpi), throws_at_(throws_at) {}
  int64_t process() const override { return mpi_.process(); }
  int64_t count() const override { return mpi_.count(); }
  ExchangeId begin(std::span<const Parcel> out, std::span<const Parcel> in, int tag) override {
    if (tag > 0 && ++exchanges_ == throws_at_)
      throw std::runtime_error(fmt::format("thrown at exchange {}", exchanges_));
    return mpi_.begin(out, in, tag);
  }
  bool is_done(ExchangeId id) override { return mpi_.is_done(id); }
  void finish(ExchangeId id, std::string_view what) override { mpi_.finish(id, what); }
  void wait_any(std::span<const ExchangeId> ids, std::string_view what) override {
    mpi_.wait_any(ids, what);
  }
  std::span<std::byte> shared_memory(int64_t process) override {
    return mpi_.shared_memory(process);
  }
  bool touches(int64_t of, int64_t by) const override { return mpi_.touches(of, by); }
  void fail(const std::string& message) override { mpi_.fail(message); }

 private:
  Transport& mpi_;
  int64_t throws_at_, exchanges_ = 0;  // of collectives
};

// Sums of 4 MB and gathers, again and again.
const std::string kSums = R"(HloModule sums, num_partitions=6
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
body { s = (s32[], f32[1048576]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1048576] get-tuple-element(s), index=1
  y = f32[1048576] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={}, to_apply=sum
  g = f32[6291456] all-gather(y), channel_id=2, use_global_device_ids=true, replica_groups={}, dimensions={0}
  z = f32[1048576] slice(g), slice={[1048576:2097152]}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[1048576]) tuple(j, z) }
condition { s = (s32[], f32[1048576]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[1048576] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[1048576]) tuple(zero, x)
  w = (s32[], f32[1048576]) while(t), condition=condition, body=body
  ROOT y = f32[1048576] get-tuple-element(w), index=1
}
)";

void run_sums() {
  constexpr int64_t kDevices = 6;
  const auto module = parse_module(kSums);
  ProgramOptions options;
  options.num_devices = kDevices;
  Executor executor(build_program(prepare_local(*module, {}), options),
                    make_worker_pool(default_threads()));
  const auto x = std::make_shared<DeviceBuffer>(Shape(DType::f32, {1 << 20}), kDevices);
  executor.run(std::vector{x});
}

}  // namespace

TEST_CASE("a job that a process throws in", "[.throws]") {
  try {
    Transport* const mpi = mpi_transport();
    REQUIRE(mpi != nullptr);
    const char* const at = std::getenv(kThrowAt);
    ThrowingTransport transport(*mpi, mpi->process() == 1 && at != nullptr ? std::atoll(at) : 0);
    const TransportScope scope(&transport);
    run_sums();
  } catch (const std::exception& error) {
    std::exit(end_job(error.what(), 1));
  }
}

TEST_CASE("mpi: a process that throws amid a collective ends the job, which says why once") {
  const std::string line = GSPMD_BINARY_DIR "/tests/test_mpi '[throws]'";
  const JobResult whole = run_job(3, line);
  CHECK(whole.code == 0);
  CHECK(whole.err == "");
  // At the first, while chunks of the first sum are under way, and behind it.
  for (const int64_t at : {1, 60, 300, 500}) {
    const JobResult job = run_job(3, line, fmt::format("{}={}", kThrowAt, at));
    CAPTURE(at, job.err);
    CHECK(job.code == 1);
    const std::string said = fmt::format("thrown at exchange {}\n", at);
    const size_t found = job.err.find(said);
    REQUIRE(found != std::string::npos);
    CHECK(job.err.find(said, found + 1) == std::string::npos);
    CHECK_THAT(job.err, Catch::Contains("process 1 of 3: "));
  }
}

}  // namespace gspmd
