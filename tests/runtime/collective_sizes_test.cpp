// Collectives of sizes that go in pieces, in turns and past the caches, against plain loops.
#include <catch2/catch.hpp>

#include "load.h"
#include "runtime/run_text.h"

namespace gspmd {
namespace {

constexpr int64_t kDevices = 4;

struct Sizes {
  int64_t rows = 1, columns = 1;  // of the larger of operand and result
};

// Element i of device d: whole numbers, of which sums are exact in any type.
float element(int64_t d, int64_t i) { return static_cast<float>((d * 7 + i * 13) % 31) - 8; }

std::string text_of(const std::string& op, int64_t dim, const std::string& dtype, const Sizes& s) {
  const auto shape = [&](bool part) {
    return fmt::format("{}[{},{}]", dtype, dim == 0 && part ? s.rows / kDevices : s.rows,
                       dim == 1 && part ? s.columns / kDevices : s.columns);
  };
  const bool gathers = op == "all-gather", scatters = op == "reduce-scatter";
  std::string attributes =
      op == "collective-permute"
          ? ", source_target_pairs={{0,2},{2,1},{3,3}}"
          : fmt::format(", replica_groups={{{{0,1,2,3}}}}, dimensions={{{}}}", dim);
  if (scatters) attributes += ", to_apply=sum";
  if (scatters || gathers) attributes += ", use_global_device_ids=true";
  return fmt::format(
      "HloModule m, num_partitions={}\n"
      "sum {{ a = {}[] parameter(0) b = {}[] parameter(1) ROOT r = {}[] add(a, b) }}\n"
      "ENTRY e {{ x = {} parameter(0) ROOT r = {} {}(x), channel_id=1{} }}\n",
      kDevices, dtype, dtype, dtype, shape(gathers), shape(scatters), op, attributes);
}

// Sets each element of f32 directly: one call for each takes a minute of all cases with sanitizers.
Array filled(const Shape& shape, int64_t device) {
  Array array(shape);
  if (array.dtype() == DType::f32) {
    const std::span<float> values = array.data<float>();
    for (int64_t i = 0; i < array.size(); ++i) values[static_cast<size_t>(i)] = element(device, i);
  } else {
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, element(device, i));
  }
  return array;
}

// How many elements of a matrix are not what `want` says of its row and column.
template <class Want>
int64_t count_wrong(const Array& array, const Want& want) {
  const float* const f32 = array.dtype() == DType::f32 ? array.data<float>().data() : nullptr;
  int64_t wrong = 0;
  for (int64_t r = 0, i = 0; r < array.dim(0); ++r)
    for (int64_t c = 0; c < array.dim(1); ++c, ++i)
      wrong += (f32 != nullptr ? double(f32[i]) : array.at(i)) != double(want(r, c));
  return wrong;
}

// As an enumeration: it is asked for each element.
enum class Op { all_gather, reduce_scatter, all_to_all, collective_permute };
Op op_of(const std::string& name) {
  if (name == "all-gather") return Op::all_gather;
  if (name == "reduce-scatter") return Op::reduce_scatter;
  return name == "all-to-all" ? Op::all_to_all : Op::collective_permute;
}

// Element (r, c) of device d's result.
float wanted(Op op, int64_t dim, const Sizes& s, int64_t d, int64_t r, int64_t c) {
  if (op == Op::collective_permute) {
    const int64_t source[kDevices] = {-1, 2, 0, 3};
    return source[d] < 0 ? 0 : element(source[d], r * s.columns + c);
  }
  const int64_t part = (dim == 0 ? s.rows : s.columns) / kDevices, at = dim == 0 ? r : c;
  if (op == Op::all_gather) {
    const int64_t columns = dim == 0 ? s.columns : part;
    return element(at / part, dim == 0 ? (r % part) * columns + c : r * columns + c % part);
  }
  const auto in = [&](int64_t from, int64_t place) {  // `place` along the dim
    return element(from, dim == 0 ? place * s.columns + c : r * s.columns + place);
  };
  if (op == Op::all_to_all) return in(at / part, d * part + at % part);
  float sum = 0;
  for (int64_t m = 0; m < kDevices; ++m) sum += in(m, d * part + at);
  return sum;
}

void check(const std::string& op, int64_t dim, const std::string& dtype, const Sizes& s) {
  const std::string text = text_of(op, dim, dtype, s);
  INFO(text);
  const auto module = parse_module(text);
  std::vector<std::vector<Value>> arguments;
  for (int64_t d = 0; d < kDevices; ++d)
    arguments.push_back({Value{filled(module->entry()->parameters()[0]->shape, d), {}}});
  const auto buffers = to_buffers(arguments);
  ProgramOptions options;
  options.num_devices = kDevices;
  options.poison = true;
  const auto program = build_program(*module, options);
  const Op kind = op_of(op);
  for (const int workers : {1, 3}) {
    if (workers == 1 && s.rows * s.columns > 1000000) continue;  // to save time
    Executor executor(program, make_worker_pool(workers));
    const auto result = executor.run(buffers)[0];
    int64_t wrong = 0;
    for (int64_t d = 0; d < kDevices; ++d)
      wrong += count_wrong(shard_array(*result, d),
                           [&](int64_t r, int64_t c) { return wanted(kind, dim, s, d, r, c); });
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("collectives: pieces, turns and results past the caches have every element in its place",
          "[executor]") {
  // A line each; parts of lines; two pieces; turns of members; past the caches, whole lines or not.
  for (const Sizes s : {Sizes{4, 64}, Sizes{20, 28}, Sizes{8, 16 * 1031}, Sizes{1024, 544},
                        Sizes{1028, 1024}, Sizes{1028, 1036}})
    for (const char* op : {"all-gather", "reduce-scatter", "all-to-all", "collective-permute"})
      for (int64_t dim = 0; dim < 2; ++dim) check(op, dim, "f32", s);
  for (const char* op : {"all-gather", "reduce-scatter", "all-to-all"})
    for (int64_t dim = 0; dim < 2; ++dim) {
      check(op, dim, "bf16", {1032, 564});
      check(op, dim, "f64", {260, 564});
      check(op, dim, "s32", {260, 12});
    }
  // Rows of a few bytes: one after the other in a cache, in turns, and past the caches.
  for (const char* op : {"all-gather", "reduce-scatter", "all-to-all"})
    for (const int64_t columns : {4, 12, 20, 40}) {
      check(op, 1, "s8", {60, columns});
      check(op, 1, "bf16", {36, columns});
      check(op, 1, "f32", {12, columns});
    }
  for (const char* op : {"all-gather", "all-to-all"})
    for (const int64_t columns : {4, 12}) check(op, 1, "f32", {1050000 / columns, columns});
  check("reduce-scatter", 1, "f32", {132000, 8});
}

namespace {

// Groups of two processes' worth of devices, neither in order nor side by side: {2,0} and {1,3}.
void check_groups(const std::string& op, int64_t rows, int64_t columns, int workers) {
  const bool gathers = op == "all-gather", scatters = op == "reduce-scatter";
  const std::string text = fmt::format(
      "HloModule m, num_partitions=4\n"
      "sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\n"
      "ENTRY e {{ x = f32[{},{}] parameter(0) ROOT r = f32[{},{}] {}(x), channel_id=1, "
      "replica_groups={{{{2,0}},{{1,3}}}}, dimensions={{1}}{}{} }}\n",
      rows, columns, rows, gathers ? 2 * columns : (scatters ? columns / 2 : columns), op,
      scatters ? ", to_apply=sum" : "", op == "all-to-all" ? "" : ", use_global_device_ids=true");
  INFO(text << workers << " workers");
  const auto module = parse_module(text);
  std::vector<std::vector<Value>> arguments;
  for (int64_t d = 0; d < kDevices; ++d)
    arguments.push_back({Value{filled(module->entry()->parameters()[0]->shape, d), {}}});
  ProgramOptions options;
  options.num_devices = kDevices;
  options.poison = true;
  Executor executor(build_program(*module, options), make_worker_pool(workers));
  const int64_t group[kDevices][2] = {{2, 0}, {1, 3}, {2, 0}, {1, 3}},
                self[kDevices] = {1, 0, 0, 1};
  int64_t wrong = 0;
  for (int run = 0; run < 2; ++run) {  // pieces are claimed anew
    const auto result = executor.run(to_buffers(arguments))[0];
    for (int64_t d = 0; d < kDevices; ++d)
      wrong += count_wrong(shard_array(*result, d), [&](int64_t r, int64_t c) {
        const int64_t half = columns / 2, begin = r * columns + self[d] * half;
        if (gathers) return element(group[d][c / columns], r * columns + c % columns);
        if (scatters) return element(group[d][0], begin + c) + element(group[d][1], begin + c);
        return element(group[d][c / half], begin + c % half);
      });
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("collectives: several groups in any order, few and many bytes, any number of workers",
          "[executor]") {
  for (const char* op : {"all-gather", "reduce-scatter", "all-to-all"})
    for (const int workers : {1, 2, 3, 6}) {
      check_groups(op, 10, 6, workers);
      check_groups(op, 64, 128, workers);
      if (workers == 3 || random_load(8) == 8) check_groups(op, 700, 1000, workers);
      if (workers == 3) check_groups(op, 1100, 1024, workers);
    }
}

TEST_CASE("collectives: one after the other, and beside steps that read what they write",
          "[executor]") {
  // Each reads what the last one wrote on other devices.
  for (const int64_t n : {8, 4096, 300000}) {
    INFO(n << " elements");
    expect_oracle(fmt::format(R"(HloModule m, num_partitions=4
sum {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }}
ENTRY e {{
  x = s32[{0}] parameter(0)
  a = s32[{0}] collective-permute(x), channel_id=1, source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
  b = s32[{0}] all-reduce(a), channel_id=2, replica_groups={{{{0,1}},{{2,3}}}}, to_apply=sum, use_global_device_ids=true
  c = s32[{0}] collective-permute(b), channel_id=3, source_target_pairs={{{{0,2}},{{1,3}},{{2,0}},{{3,1}}}}
  d = s32[{0}] add(c, x)
  ROOT e = s32[{0}] all-reduce(d), channel_id=4, replica_groups={{{{1,3}},{{2,0}}}}, to_apply=sum, use_global_device_ids=true
}}
)",
                              n),
                  4, {1, 2, 3, 6});
  }
}

TEST_CASE("collectives: several operands of an all-reduce are pieces of one list", "[executor]") {
  expect_oracle(R"(HloModule m, num_partitions=3
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[5000]{0} parameter(0)
  y = f32[] parameter(1)
  z = f32[0]{0} parameter(2)
  w = f32[3,2100]{1,0} parameter(3)
  ROOT r = (f32[5000]{0}, f32[], f32[0]{0}, f32[3,2100]{1,0}) all-reduce(x, y, z, w), replica_groups={{2,0},{1}}, to_apply=sum, channel_id=1, use_global_device_ids=true
}
)",
                3);
}

}  // namespace gspmd
