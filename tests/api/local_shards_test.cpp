#include "gspmd/api/local_shards.h"

#include "api/support.h"
#include "gspmd/runtime/processes.h"
#include "runtime/thread_transport.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

using Catch::Matchers::Contains;

// Elements n to n + size of a row-major array.
Array range_of(Dims dims, float first) {
  Array array(DType::f32, std::move(dims));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, double(first) + double(i));
  return array;
}

}  // namespace

TEST_CASE("local shards: a step takes them as they lie, and they come back", "[api]") {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const auto twice = [&](Tensor x) { return mesh_split(x, mesh, {"x", _}) * 2.0f; };
  const auto step = compile(twice, {.mesh = mesh, .argument_names = {"x"}, .threads = 2},
                            Shape(DType::f32, {3, 2}));
  const Sharding rows = step.parameter_sharding("x");
  // 3 rows on 2: the second has one; shards with or without the padding.
  const Array x = array_from_local_shards(
      {DType::f32, {3, 2}}, rows, 4,
      {range_of({2, 2}, 0), range_of({2, 2}, 0), range_of({1, 2}, 4), range_of({2, 2}, 4)});
  CHECK(on_devices(x));
  CHECK(sharding_of(x) == rows);
  CHECK(bitwise_equal(x, range_of({3, 2}, 0)));
  const Array y = step(x);
  CHECK(y.at(5) == 10);
  const std::vector<Array> shards = local_shards(x);
  REQUIRE(shards.size() == 4);
  CHECK(bitwise_equal(shards[0], range_of({2, 2}, 0)));
  CHECK(bitwise_equal(shards[3], range_of({1, 2}, 4)));
  CHECK(bitwise_equal(local_shards(range_of({2}, 1)).at(0), range_of({2}, 1)));
}

TEST_CASE("local shards: each process gives its own, and reading gathers them",
          "[api][processes]") {
  const Shape shape(DType::f32, {6, 2});
  const Sharding rows = parse_sharding("{devices=[3,1]<=[3]}");
  ThreadJob job(3);
  const auto errors = run_as_processes(job, [&](int64_t p) {
    const Array part = range_of({2, 2}, float(4 * p));
    const Array all = array_from_local_shards(shape, rows, 3, {part});
    if (!bitwise_equal(local_shards(all).at(0), part)) throw std::runtime_error("another part");
    if (!job.bytes.empty() && p < 0) throw std::runtime_error("sent");
    if (!bitwise_equal(all, range_of({6, 2}, 0))) throw std::runtime_error("another whole");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("local shards: every mistake is told with its numbers", "[api]") {
  const Shape shape(DType::f32, {4, 2});
  const Sharding rows = parse_sharding("{devices=[2,1]<=[2]}");
  const Sharding twice = parse_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  const Array part = range_of({2, 2}, 0);
  const auto make = [&](const Sharding& sharding, int64_t devices, const std::vector<Array>& shards,
                        Site site = Site::here()) {
    return array_from_local_shards(shape, sharding, devices, shards, site);
  };
  GSPMD_REQUIRE_ERROR("1 shards of f32[4,2]; this process hosts devices 0 to 1: give 2",
                      make(rows, 2, {part}));
  GSPMD_REQUIRE_ERROR(
      "the shard of device 1 is f32[3,2], that of f32[4,2] as "
      "{devices=[2,1]<=[2]} is f32[2,2]",
      make(rows, 2, {part, range_of({3, 2}, 0)}));
  GSPMD_REQUIRE_ERROR("the shard of device 0 is empty", make(rows, 2, {Array(), part}));
  GSPMD_REQUIRE_ERROR("the shard of device 0 is s32[2,2]",
                      make(rows, 2, {Array(DType::s32, {2, 2}), part}));
  GSPMD_REQUIRE_ERROR("needs 2 devices, num_devices is 1", make(rows, 1, {part}));
  GSPMD_REQUIRE_ERROR("devices 0 and 1 have the same part of f32[4,2]",
                      make(twice, 4, {part, range_of({2, 2}, 1), part, part}));
  GSPMD_REQUIRE_ERROR("cannot be laid out as {manual}",
                      make(parse_sharding("{manual}"), 2, {part, part}));
  GSPMD_REQUIRE_ERROR("cannot be laid out as",
                      make(parse_sharding("{devices=[1,1,2]<=[2]}"), 2, {part, part}));
  const Mesh mesh{{"a", 2}};
  Array x = range_of({4}, 0);
  const auto step =
      compile([](Tensor t) { return t + t; }, {.mesh = mesh, .donate = {0}, .threads = 2}, x);
  x = step(x);
  step(x);
  GSPMD_REQUIRE_ERROR("was donated to argument arg0 of call 2", local_shards(x));
}

TEST_CASE("devices per process: one number for all, or one for each", "[api][processes]") {
  struct Reset {
    ~Reset() { set_devices_per_process({}); }
  } reset;
  const auto blocks = [&](std::vector<int64_t> devices, int64_t n) {
    ThreadJob job(3);
    std::vector<std::pair<int64_t, int64_t>> found(3);
    for (const std::string& error : run_as_processes(job, [&](int64_t p) {
           set_devices_per_process(devices);
           const DeviceRange range = local_devices(n);
           found[size_t(p)] = {range.first, range.last};
         }))
      if (!error.empty()) throw UserError(error, Site{});
    return found;
  };
  using Blocks = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(blocks({2}, 6) == Blocks{{0, 2}, {2, 4}, {4, 6}});
  CHECK(blocks({1, 4, 3}, 8) == Blocks{{0, 1}, {1, 5}, {5, 8}});
  CHECK(blocks({}, 8) == Blocks{{0, 2}, {2, 5}, {5, 8}});
  CHECK(blocks({7}, 1) == Blocks{{0, 1}, {0, 1}, {0, 1}});
  CHECK_THROWS_WITH(blocks({2}, 8),
                    Contains("8 devices on 3 processes that host 2, which makes 6"));
  CHECK_THROWS_WITH(blocks({2, 2, 3}, 8), Contains("that host 2,2,3, which makes 7"));
  CHECK_THROWS_WITH(blocks({2, 6}, 8), Contains("2 numbers for 3 processes"));
  CHECK_THROWS_WITH(blocks({2, 0, 3}, 5), Contains("2,0,3: each process hosts at least 1"));
  ThreadJob job(2);
  for (const std::string& error :
       run_as_processes(job, [&](int64_t p) { set_devices_per_process({p + 1}); }))
    CHECK_THAT(error, Contains("process 0 has 1 devices per process, process 1 has 2"));
  set_devices_per_process({});
  CHECK_THROWS_WITH(set_devices_per_process({2, 2}), Contains("2 numbers for 1 process;"));
}
