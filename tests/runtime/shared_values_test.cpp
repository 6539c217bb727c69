#include "runtime/shared_values.h"

#include <cstring>

#include "gspmd/ir/text.h"
#include "runtime/program.h"
#include "runtime/run_text.h"

namespace gspmd {
namespace {

const std::string kAddition =
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";

// A training step of four devices: gradients are summed over the devices of `groups`. The state is
// n elements on each device.
std::string step_text(int64_t n, const std::string& groups, const std::string& gradient = "x") {
  const std::string f = "f32[" + std::to_string(n) + "]{0}";
  return "HloModule step, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }, num_partitions=4\n" +
         kAddition + "ENTRY e {\n  w = " + f + " parameter(0)\n  v = " + f +
         " parameter(1)\n  x = " + f +
         " parameter(2)\n  rate = f32[] parameter(3)\n  id = u32[] partition-id()\n" +
         "  own = f32[] convert(id)\n  owns = " + f + " broadcast(own), dimensions={}\n  y = " + f +
         " add(x, owns)\n  seen = " + f + " multiply(w, x)\n  g = " + f + " all-reduce(" +
         gradient + "), replica_groups=" + groups +
         ", to_apply=sum, channel_id=1, use_global_device_ids=true\n  rates = " + f +
         " broadcast(rate), dimensions={}\n  u = " + f + " add(v, g)\n  h = " + f +
         " multiply(u, rates)\n  next = " + f + " subtract(w, h)\n  ROOT r = (" + f + ", " + f +
         ", " + f + ") tuple(next, u, seen)\n}\n";
}

// w and v lie as `state` says; x is split over all devices; the rate is the same everywhere.
ProgramOptions options_of(int64_t n, const char* state, int64_t parts) {
  ProgramOptions options;
  options.num_devices = 4;
  const Shape global(DType::f32, {n * parts});
  const Sharding sharding = parse_sharding(state);
  options.parameters = {{global, sharding},
                        {global, sharding},
                        {Shape(DType::f32, {4 * n}), parse_sharding("{devices=[4]<=[4]}")},
                        {Shape(DType::f32, {}), Sharding::replicated()}};
  return options;
}

std::shared_ptr<DeviceBuffer> filled(int64_t n, const Replicas& same, int64_t seed) {
  auto buffer = std::make_shared<DeviceBuffer>(Shape(DType::f32, Dims(n > 0 ? 1 : 0, n)), 4);
  for (int64_t d = 0; d < 4; ++d) {
    auto* const to = reinterpret_cast<float*>(buffer->shard(d));
    for (int64_t i = 0; i < std::max<int64_t>(n, 1); ++i)
      to[i] = static_cast<float>((i * 7 + same[static_cast<size_t>(d)] * 13 + seed) % 19 - 9);
  }
  return buffer;
}

using Buffers = std::vector<std::shared_ptr<DeviceBuffer>>;

// What is the same in w and v.
struct Same {
  Replicas w, v;
};

Buffers arguments_of(int64_t n, const Same& state) {
  return {filled(n, state.w, 1), filled(n, state.v, 2), filled(n, {0, 1, 2, 3}, 3),
          filled(0, {0, 0, 0, 0}, 4)};
}

std::vector<std::string> contents(const Buffers& buffers) {
  std::vector<std::string> out;
  for (const auto& buffer : buffers)
    for (int64_t d = 0; d < 4; ++d)
      out.emplace_back(reinterpret_cast<const char*>(buffer->shard(d)),
                       static_cast<size_t>(buffer->shape().bytes()));
  return out;
}

// Two steps, the second of the results of the first.
Buffers run_twice(Executor& executor, Buffers arguments) {
  Buffers results = executor.run(arguments);
  arguments[0] = results[0];
  arguments[1] = results[1];
  return executor.run(arguments);
}

// Whose memory each device's part is.
Replicas holders(const DeviceBuffer& buffer) {
  Replicas out;
  for (int64_t d = 0; d < 4; ++d) {
    int64_t first = 0;
    while (buffer.shard(first) != buffer.shard(d)) ++first;
    out.push_back(first);
  }
  return out;
}

const Replicas kOne = {0, 0, 0, 0}, kPairs = {0, 1, 0, 1}, kApart = {0, 1, 2, 3};

// The step with what is known of its parameters, and without, on several pools.
void check_step(const std::string& text, const ProgramOptions& options, int64_t n,
                const Same& state, const Same& kept) {
  const auto module = parse_module(text);
  ProgramOptions plain = options;
  plain.parameters.clear();
  Executor alone(build_program(*module, plain), make_worker_pool(1));
  const Buffers apart = run_twice(alone, arguments_of(n, state));
  CHECK(holders(*apart[0]) == kApart);
  for (const int workers : {1, 2, 3, 5}) {
    for (const bool poison : {false, true}) {
      INFO("workers: " << workers << ", poison: " << poison);
      ProgramOptions known = options;
      known.poison = poison;
      Executor executor(build_program(*module, known), make_worker_pool(workers));
      const Buffers results = run_twice(executor, arguments_of(n, state));
      CHECK((contents(results) == contents(apart)));  // too long to print
      // Workers that share a device do not share values of devices.
      CHECK(holders(*results[0]) == (workers == 5 ? kApart : kept.w));
      CHECK(holders(*results[1]) == (workers == 5 ? kApart : kept.v));
      CHECK(holders(*results[2]) == kApart);
    }
  }
}

void check_step(const std::string& text, const ProgramOptions& options, int64_t n,
                const Replicas& state, const Replicas& kept) {
  check_step(text, options, n, Same{state, state}, Same{kept, kept});
}

}  // namespace

TEST_CASE("shared values: state that is the same everywhere is kept and made once", "[shared]") {
  for (const int64_t n : {20000, 70001})
    check_step(step_text(n, "{{0,1,2,3}}"), options_of(n, "{replicated}", 1), n, kOne, kOne);
}

TEST_CASE("shared values: of split state, devices with the same part share it", "[shared]") {
  const int64_t n = 20000;
  check_step(step_text(n, "{{0,2},{1,3}}"),
             options_of(n, "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2), n, kPairs,
             kPairs);
  // The sum over all devices is the same in both parts.
  check_step(step_text(n, "{}"),
             options_of(n, "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2), n, kPairs,
             kPairs);
}

// Each of both devices that keep w would make the new v, and the second of what the first wrote.
TEST_CASE("shared values: state that fewer devices read once made stays apart", "[shared]") {
  const int64_t n = 20000;
  ProgramOptions options = options_of(n, "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2);
  options.parameters[1] = {Shape(DType::f32, {n}), Sharding::replicated()};
  check_step(step_text(n, "{{0,1,2,3}}"), options, n, Same{kPairs, kOne}, Same{kPairs, kApart});
}

TEST_CASE("shared values: sums over groups of what is the same in the others are the same",
          "[shared]") {
  const int64_t n = 20000;
  check_step(step_text(n, "{{0,1},{2,3}}", "v"), options_of(n, "{replicated}", 1), n, kOne, kOne);
}

TEST_CASE("shared values: state that becomes different stays apart", "[shared]") {
  const int64_t n = 20000;
  // Summed over half of the devices; over none, of what knows its device.
  check_step(step_text(n, "{{0,1},{2,3}}"), options_of(n, "{replicated}", 1), n, kOne, kApart);
  check_step(step_text(n, "{{0},{1},{2},{3}}", "y"), options_of(n, "{replicated}", 1), n, kOne,
             kApart);
  // Of no other device's part.
  check_step(step_text(n, "{}"), options_of(n, "{devices=[4]<=[4]}", 4), n, kApart, kApart);
}

TEST_CASE("shared values: small state is not worth a meeting", "[shared]") {
  check_step(step_text(100, "{}"), options_of(100, "{replicated}", 1), 100, kOne, kApart);
}

TEST_CASE("shared values: a program that keeps state apart takes shared state, and the reverse",
          "[shared]") {
  const int64_t n = 20000;
  const auto shares = parse_module(step_text(n, "{}"));
  const auto parts = parse_module(step_text(n, "{{0,1},{2,3}}"));
  const ProgramOptions options = options_of(n, "{replicated}", 1);
  ProgramOptions plain = options;
  plain.parameters.clear();
  const auto run = [&](const ProgramOptions& with) {
    Executor first(build_program(*shares, with), make_worker_pool(2));
    Executor second(build_program(*parts, with), make_worker_pool(2));
    Buffers arguments = arguments_of(n, {kOne, kOne});
    std::vector<Replicas> seen;
    std::vector<std::string> all;
    for (Executor* executor : {&first, &second}) {
      Buffers results = executor->run(arguments);
      seen.push_back(holders(*results[0]));
      const std::vector<std::string> found = contents(results);
      all.insert(all.end(), found.begin(), found.end());
      arguments[0] = results[0];
      arguments[1] = results[1];
    }
    return std::pair(seen, all);
  };
  const auto known = run(options), unknown = run(plain);
  CHECK(known.first == std::vector<Replicas>{kOne, kApart});
  CHECK(unknown.first == std::vector<Replicas>{kApart, kApart});
  CHECK(known.second == unknown.second);
}

namespace {

struct Convolutions {
  std::string text;
  ProgramOptions options;  // with what is known of the kernel's layout
};

// Two convolutions of four devices, the second with its kernel turned and the input spread; between
// them an exchange where `meets`. `kernel` says what the first one's kernel is computed from w by.
Convolutions convolutions(const char* layout, int64_t parts, const std::string& kernel,
                          bool meets = true) {
  Convolutions c;
  c.text = "HloModule convolutions, num_partitions=4\n" + kAddition +
           "ENTRY e {\n  x = f32[2,4,3,130]{3,2,1,0} parameter(0)\n"
           "  w = f32[3,3,130,130]{3,2,1,0} parameter(1)\n  k = f32[3,3,130,130]{3,2,1,0} " +
           kernel +
           "\n  y = f32[2,4,3,130]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
           "dim_labels=b01f_01io->b01f\n  z = f32[2,4,3,130]{3,2,1,0} " +
           (meets ? "all-reduce(y), replica_groups={}, to_apply=sum, channel_id=1, "
                    "use_global_device_ids=true"
                  : "negate(y)") +
           "\n  ROOT r = f32[2,8,6,130]{3,2,1,0} convolution(z, w), window={size=3x3 "
           "pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f\n}\n";
  c.options.num_devices = 4;
  c.options.parameters = {
      {Shape(DType::f32, {8, 4, 3, 130}), parse_sharding("{devices=[4,1,1,1]<=[4]}")},
      {Shape(DType::f32, {3, 3, 130 * parts, 130}), parse_sharding(layout)}};
  return c;
}

std::vector<std::string> run_convolutions(const std::string& text, const ProgramOptions& options,
                                          int workers, const Replicas& same) {
  const auto module = parse_module(text);
  Buffers arguments;
  for (const Node* parameter : module->entry()->parameters()) {
    const Shape& shape = parameter->shape;
    arguments.push_back(std::make_shared<DeviceBuffer>(Shape(shape.dtype, shape.dims), 4));
    for (int64_t d = 0; d < 4; ++d) {
      const bool is_kernel = arguments.size() == 2;
      std::mt19937 random(static_cast<unsigned>(is_kernel ? same[static_cast<size_t>(d)] : 9 + d));
      auto* const to = reinterpret_cast<float*>(arguments.back()->shard(d));
      for (int64_t i = 0; i < shape.elements_count(); ++i)
        to[i] = static_cast<float>(static_cast<int>(random() % 7) - 3);
    }
  }
  Executor executor(build_program(*module, options), make_worker_pool(workers));
  executor.run(arguments);
  return contents(executor.run(arguments));
}

// By step that is a convolution, on which devices its kernel is laid out for others.
std::vector<Replicas> layout_holders(const Convolutions& c) {
  const auto program = build_program(*parse_module(c.text), c.options);
  std::vector<Replicas> out;
  for (const Step& step : program->steps)
    if (step.node->is(Opcode::convolution)) out.push_back(step.common.holders);
  return out;
}

void check_convolutions(const Convolutions& c, const Replicas& same) {
  ProgramOptions reference = c.options;
  reference.reference_kernels = true;
  const std::vector<std::string> expected = run_convolutions(c.text, reference, 1, same);
  for (const int workers : {1, 2, 3, 5}) {
    for (const bool poison : {false, true}) {
      INFO("workers: " << workers << ", poison: " << poison);
      ProgramOptions options = c.options;
      options.poison = poison;
      CHECK((run_convolutions(c.text, options, workers, same) == expected));
    }
  }
}

}  // namespace

TEST_CASE("common stages: a kernel of a convolution is laid out once for all that have it",
          "[shared]") {
  const std::string kernel = "copy(w)";  // before the exchange, so in the same segment as its use
  const char* const pairs = "{devices=[1,1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
  const Convolutions whole = convolutions("{replicated}", 1, kernel);
  const Convolutions split = convolutions(pairs, 2, kernel);
  const Convolutions own = convolutions("{devices=[1,1,4,1]<=[4]}", 4, kernel);
  if (layout_holders(whole).empty()) return;
  check_convolutions(whole, kOne);
  check_convolutions(split, kPairs);
  check_convolutions(own, kApart);
  const auto module = parse_module(whole.text);
  const Node& second = *module->entry()->root();
  if (!second.op().lower(second).common.prepare) return;  // fewer lanes: none is laid out
  // The first one's kernel is not there yet when its segment begins.
  CHECK(layout_holders(whole) == std::vector<Replicas>{{}, {0}});
  CHECK(layout_holders(split) == std::vector<Replicas>{{}, {0, 1}});
  CHECK(layout_holders(own) == std::vector<Replicas>{{}, {}});
  // Several in one segment.
  const Convolutions both = convolutions("{replicated}", 1, "bitcast(w)", false);
  check_convolutions(both, kOne);
  CHECK(layout_holders(both) == std::vector<Replicas>{{0}, {0}});
  ProgramOptions unknown = both.options;
  unknown.parameters.clear();
  CHECK(layout_holders({both.text, unknown}) == std::vector<Replicas>{{}, {}});
}

TEST_CASE("device buffer: devices that share a part have it again when separated", "[shared]") {
  const auto buffer = filled(50, kApart, 0);
  const std::vector<std::string> before = contents({buffer});
  buffer->share(kPairs);
  CHECK(holders(*buffer) == kPairs);
  buffer->share(kPairs);
  buffer->separate();
  CHECK(holders(*buffer) == kApart);
  CHECK(contents({buffer}) == std::vector<std::string>{before[0], before[1], before[0], before[1]});
  // From one way of sharing to another.
  buffer->share({0, 0, 2, 0});
  CHECK(holders(*buffer) == Replicas{0, 0, 2, 0});
  buffer->share({0, 1, 2, 2});
  CHECK(contents({buffer}) == std::vector<std::string>{before[0], before[0], before[0], before[0]});
}

TEST_CASE("replicas: devices with the same tile, not those with none", "[shared]") {
  const Shape shape(DType::f32, {6, 3});
  const auto replicas = [&](const char* text, int64_t devices) {
    return replicas_of(shape, parse_sharding(text), devices);
  };
  CHECK(replicas("{replicated}", 4) == kOne);
  CHECK(replicas("{devices=[1,2,2]<=[4] last_tile_dim_replicate}", 4) == Replicas{0, 0, 2, 2});
  CHECK(replicas("{devices=[4,1]<=[4]}", 4) == kApart);
  CHECK(replicas("{devices=[1,4,2]<=[8] last_tile_dim_replicate}", 8) ==
        Replicas{0, 0, 2, 2, 4, 4, 6, 7});
  CHECK(replicas("{devices=[1,1,4]<=[4] last_tile_dims={unreduced}}", 4) == kApart);
  CHECK(replicas("{devices=[1,1,4]<=[4] last_tile_dims={manual}}", 4) == kApart);
  CHECK(replicas("{maximal device=1}", 4) == kApart);
}

}  // namespace gspmd
