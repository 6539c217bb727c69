#include "gspmd/api/trace_file.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api/support.h"
#include "gspmd/ir/text.h"
#include "gspmd/runtime/executor.h"

using namespace gspmd;
using namespace gspmd::test;

namespace trace_file_test {
namespace {

using Json = nlohmann::json;

// A file name of this process's own, removed at the end.
struct Scratch {
  std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/trace-{}.json", getpid());
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::remove(path.c_str()); }
  Json json() const {
    std::ifstream in(path);
    return Json::parse(in);
  }
};

// Nanoseconds of a time in microseconds.
int64_t nanos(const Json& value) { return std::llround(value.get<double>() * 1000); }

// Complete events by track, as they lie in the file.
std::map<int64_t, std::vector<Json>> tracks(const Json& trace) {
  std::map<int64_t, std::vector<Json>> tracks;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") tracks[event.at("tid")].push_back(event);
  return tracks;
}

// Whether each event lies inside the ones that are open where it begins, or after them.
bool nests(const std::vector<Json>& events) {
  std::vector<int64_t> open;  // ends
  int64_t last = 0;
  for (const Json& event : events) {
    const int64_t begin = nanos(event.at("ts")), end = begin + nanos(event.at("dur"));
    while (!open.empty() && open.back() <= begin) open.pop_back();
    if (begin < last || end < begin || (!open.empty() && end > open.back())) return false;
    last = begin;
    open.push_back(end);
  }
  return true;
}

std::set<std::string> track_names(const Json& trace) {
  std::set<std::string> names;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name") names.insert(event.at("args").at("name"));
  return names;
}

// By device: the counter's highest value.
std::map<std::string, int64_t> counter_peaks(const Json& trace) {
  std::map<std::string, int64_t> peaks;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "C") {
      int64_t& peak = peaks[event.at("name")];
      peak = std::max(peak, event.at("args").at("live bytes").get<int64_t>());
    }
  return peaks;
}

template <class T>
struct Params {
  T w1, w2;
  GSPMD_FIELDS(w1, w2)
};

Params<Array> sample_params() {
  return {random_array({DType::f32, {64, 96}}, 1), random_array({DType::f32, {96, 64}}, 2)};
}

auto step_on(const Mesh& mesh) {
  return [mesh](Params<Tensor> params, Adam<Params<Tensor>> adam, Tensor x) {
    const auto [value, grads] = value_and_grad([&](const Params<Tensor>& p, Tensor t) {
      Tensor h = einsum("bm,mh->bh", mesh_split(t, mesh, {mesh.axes()[0].name, _}), p.w1);
      if (mesh.rank() > 1) h = mesh_split(h, mesh, {mesh.axes()[0].name, mesh.axes().back().name});
      return mean(square(einsum("bh,hm->bm", gelu(h), p.w2) - t));
    })(params, x);
    const auto [new_params, new_adam] = adam.update(params, grads, {});
    return std::tuple{new_params, new_adam, value};
  };
}

}  // namespace

TEST_CASE("trace: a track per device, events that nest, and every collective", "[api][trace]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const Scratch scratch;
  Params<Array> params = sample_params();
  auto adam = Adam<Params<Array>>::zeros_like(params);
  const Array x = random_array({DType::f32, {32, 64}}, 3);
  const auto step =
      compile(step_on(mesh), {.mesh = mesh, .name = "mlp", .threads = 2}, params, adam, x);
  const auto plain = step(params, adam, x);
  const auto before = step.counters();
  step.trace(scratch.path);
  const auto traced = step(params, adam, x);
  const int64_t collectives = step.counters().collectives - before.collectives;
  CHECK(bitwise_equal(std::get<0>(plain).w1, std::get<0>(traced).w1));
  CHECK(bitwise_equal(std::get<1>(plain).v.w2, std::get<1>(traced).v.w2));
  CHECK(bitwise_equal(std::get<2>(plain), std::get<2>(traced)));

  const Json trace = scratch.json();
  CHECK(trace.at("otherData").at("devices") == 8);
  CHECK(trace.at("otherData").at("dropped_events") == 0);
  CHECK(track_names(trace).size() == 8);
  CHECK(trace.at("traceEvents")[0].at("args").at("name") == "mlp on mesh['data'=2,'model'=4]");
  const auto by_track = tracks(trace);
  REQUIRE(by_track.size() == 8);
  std::map<std::string, int64_t> wanted;  // of the program's collectives, by kind and axes
  for (const CollectiveStats& c : step.stats().collectives) wanted[c.kind + c.axes] += c.count;
  REQUIRE(!wanted.empty());
  for (const auto& [device, events] : by_track) {
    CAPTURE(device);
    CHECK(nests(events));
    std::map<std::string, int64_t> found;
    int64_t waits = 0, ops = 0, sourced = 0;
    for (const Json& event : events) {
      if (event.at("cat") == "wait") ++waits;
      if (event.at("cat") == "op") {
        ++ops;
        CHECK(event.at("args").at("bytes").get<int64_t>() >= 0);
        CHECK(!event.at("args").at("opcode").get<std::string>().empty());
        sourced += event.at("args").contains("source") ? 1 : 0;
      }
      if (event.at("cat") != "collective") continue;
      const Json& args = event.at("args");
      ++found[args.at("opcode").get<std::string>() + args.value("axes", "")];
      CHECK(args.at("bytes").get<int64_t>() > 0);
      CHECK(!args.at("groups").get<std::string>().empty());
      CHECK(nanos(args.at("wait_us")) <= nanos(event.at("dur")));
    }
    CHECK(found == wanted);
    CHECK(waits <= collectives);
    CHECK(ops > 5);
    CHECK(sourced > ops / 2);
  }
  // The next call is not recorded.
  std::remove(scratch.path.c_str());
  step(params, adam, x);
  CHECK_FALSE(std::ifstream(scratch.path).good());
}

TEST_CASE("trace: the memory counter reaches the planned peak and ends at nothing",
          "[api][trace]") {
  for (const int threads : {1, 2, 4}) {
    for (const Mesh& mesh : {Mesh{{"a", 1}}, Mesh{{"a", 3}}, Mesh{{"a", 8}}}) {
      CAPTURE(threads, mesh.num_devices());
      const Scratch scratch;
      const Params<Array> params = sample_params();
      const auto adam = Adam<Params<Array>>::zeros_like(params);
      const Array x = random_array({DType::f32, {24, 64}}, 3);
      const auto step = compile(step_on(mesh), {.mesh = mesh, .threads = threads}, params, adam, x);
      const Array plain = std::get<2>(step(params, adam, x));
      step.trace(scratch.path);
      CHECK(bitwise_equal(std::get<2>(step(params, adam, x)), plain));
      const Json trace = scratch.json();
      const auto peaks = counter_peaks(trace);
      REQUIRE(std::ssize(peaks) == mesh.num_devices());
      CHECK(step.stats().peak_live_bytes > 0);
      CHECK(step.stats().peak_live_bytes <= step.stats().arena_bytes);
      for (const auto& [device, peak] : peaks) CHECK(peak == step.stats().peak_live_bytes);
      CHECK(trace.at("traceEvents").back().at("args").at("live bytes") == 0);
      CHECK(std::ssize(track_names(trace)) == mesh.num_devices());
      for (const auto& [device, events] : tracks(trace)) CHECK(nests(events));
    }
  }
}

TEST_CASE("trace: loops and conditionals are around what is in them", "[api][trace]") {
  const std::string text = R"(HloModule loops, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
left { x = f32[8] parameter(0) ROOT n = f32[8] negate(x) }
right { x = f32[8] parameter(0) ROOT n = f32[8] exponential(x) }
body {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=sum
  wide = f32[8] broadcast(total), dimensions={}
  y = f32[8] add(x, wide)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[8]) tuple(next, y)
}
cond {
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  which = pred[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, x)
  loop = (s32[], f32[8]) while(start), condition=cond, body=body
  y = f32[8] get-tuple-element(loop), index=1
  ROOT r = f32[8] conditional(which, y, y), branch_computations={left, right}, sharding={devices=[4]<=[4]}
})";
  const Scratch scratch;
  const Mesh mesh{{"x", 4}};
  for (const int threads : {1, 2, 6}) {
    CAPTURE(threads);
    const auto run = compile(*parse_module(text, "loops.hlo"), {.mesh = mesh, .threads = threads});
    const Array x = random_integers({DType::f32, {8}}, 1, -3, 3), which = Array::scalar(true);
    const Array plain = run({x, which})[0];
    run.trace(scratch.path);
    CHECK(bitwise_equal(run({x, which})[0], plain));
    const auto by_track = tracks(scratch.json());
    REQUIRE(by_track.size() == 4);
    for (const auto& [device, events] : by_track) {
      CHECK(nests(events));
      std::map<std::string, int64_t> kinds;
      for (const Json& event : events) ++kinds[event.at("cat")];
      CHECK(kinds["loop"] == 1);
      CHECK(kinds["branch"] == 1);
      CHECK(kinds["collective"] >= 3);  // the sum, in each iteration
    }
  }
}

TEST_CASE("trace: events beyond the limit are dropped inside loops only, and counted",
          "[api][trace]") {
  const std::string text = R"(HloModule counting
body { i = s32[] parameter(0) one = s32[] constant(1) ROOT n = s32[] add(i, one) }
cond { i = s32[] parameter(0) n = s32[] constant(1000) ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e {
  i = s32[] parameter(0)
  ROOT w = s32[] while(i), condition=cond, body=body
})";
  Executor executor(build_program(*parse_module(text, "counting.hlo"), {2}), make_worker_pool(2));
  const std::vector<std::shared_ptr<DeviceBuffer>> zero{
      std::make_shared<DeviceBuffer>(Shape(DType::s32, {}), 2)};
  std::vector<std::shared_ptr<DeviceBuffer>> results;
  RunTrace trace{.max_events = 100};
  executor.run(zero, results, &trace);
  CHECK(trace.dropped > 1000);
  CHECK(trace.events.size() <= 102);
  for (const int64_t device : {0, 1})
    CHECK(std::count_if(trace.events.begin(), trace.events.end(), [&](const TraceEvent& event) {
            return event.device == device &&
                   trace.sites[static_cast<size_t>(event.site)].kind == TraceSite::loop;
          }) == 1);
}

TEST_CASE("trace: a file that cannot be written is told at once", "[api][trace][errors]") {
  const auto twice = [](Tensor x) { return x + x; };
  const auto step = compile(twice, {.name = "twice"}, Array::scalar(1.f));
  GSPMD_REQUIRE_ERROR("twice: trace: /no/such/trace.json: cannot be written: the folder /no/such",
                      step.trace("/no/such/trace.json"));
  CHECK(step(Array::scalar(1.f)).item() == 2);
}

TEST_CASE("trace: names that are no UTF-8, and quotes, are text", "[api][trace]") {
  const Scratch scratch;
  RunTrace trace{.num_devices = 1};
  trace.sites.emplace_back().name = "a\"b\\\n\xff";
  trace.events.push_back({.end = 1234567});
  write_trace(scratch.path, trace, "\"x\"");
  const Json json = scratch.json();
  const auto events = tracks(json).at(0);
  CHECK(events[0].at("name").get<std::string>().substr(0, 5) == "a\"b\\\n");
  CHECK(nanos(events[0].at("dur")) == 1234567);
}

}  // namespace trace_file_test
